#include "util/filter_checks.h"

#include "absl/strings/str_format.h"

namespace sievedb {

absl::Status FilterFieldDamaged(std::string_view name, std::string_view field, size_t offset,
                                uint64_t expected, uint64_t found) {
  return absl::DataLossError(absl::StrFormat("%s: %s at offset %d: expected %d, found %d", name,
                                             field, offset, expected, found));
}

absl::Status CheckFilterField(std::string_view name, std::string_view field, size_t offset,
                              uint64_t min, uint64_t max, uint64_t found) {
  if (found >= min && found <= max) return absl::OkStatus();
  return absl::DataLossError(absl::StrFormat("%s: %s at offset %d: expected %d to %d, found %d",
                                             name, field, offset, min, max, found));
}

absl::Status CheckFilterBitsPerKey(std::string_view name, size_t trailer_at, double min, double max,
                                   double found) {
  if (found >= min && found <= max) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrFormat("%s: bits per key at offset %d: expected %g to %g, found %g", name,
                      trailer_at + kFilterBitsPerKeyOffset, min, max, found));
}

absl::Status CheckFilterSize(std::string_view name, uint64_t expected, uint64_t found) {
  if (found == expected) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrFormat("%s: trailer at offset %d says %d bytes in all, found %d", name,
                      found - kFilterTrailerBytes, expected, found));
}

}  // namespace sievedb
