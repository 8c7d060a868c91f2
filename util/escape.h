#ifndef SIEVEDB_UTIL_ESCAPE_H_
#define SIEVEDB_UTIL_ESCAPE_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace sievedb {

// Bytes as people read them: printable ASCII as it is, the rest (and the
// backslash) as \\, \n, \t, \r or \xNN. Unescape takes it back.
std::string Escape(std::string_view bytes);
// Errors: kInvalidArgument.
absl::StatusOr<std::string> Unescape(std::string_view text);

std::string ToHex(std::string_view bytes);
// Errors: kInvalidArgument.
absl::StatusOr<std::string> FromHex(std::string_view hex);

}  // namespace sievedb

#endif  // SIEVEDB_UTIL_ESCAPE_H_
