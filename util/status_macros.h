#ifndef SIEVEDB_UTIL_STATUS_MACROS_H_
#define SIEVEDB_UTIL_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Returns from the enclosing function where expr, a Status, is an error.
#define SIEVEDB_RETURN_IF_ERROR(expr)                              \
  do {                                                             \
    if (absl::Status error_ = (expr); !error_.ok()) [[unlikely]] { \
      return error_;                                               \
    }                                                              \
  } while (false)

// Assigns the value of expr, a StatusOr, to lhs (which may declare it), or returns
// its error.
#define SIEVEDB_ASSIGN_OR_RETURN(lhs, expr) \
  SIEVEDB_ASSIGN_OR_RETURN_(SIEVEDB_CONCAT_(status_or_, __LINE__), lhs, expr)
#define SIEVEDB_ASSIGN_OR_RETURN_(temp, lhs, expr) \
  auto temp = (expr);                              \
  if (!temp.ok()) [[unlikely]] {                   \
    return std::move(temp).status();               \
  }                                                \
  lhs = *std::move(temp)
#define SIEVEDB_CONCAT_(a, b) SIEVEDB_CONCAT2_(a, b)
#define SIEVEDB_CONCAT2_(a, b) a##b

#endif  // SIEVEDB_UTIL_STATUS_MACROS_H_
