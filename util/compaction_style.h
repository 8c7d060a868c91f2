#ifndef SIEVEDB_UTIL_COMPACTION_STYLE_H_
#define SIEVEDB_UTIL_COMPACTION_STYLE_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sievedb/options.h"

namespace sievedb {

// What OPTIONS files and programs call the styles.
const char* CompactionStyleName(CompactionStyle style);
std::optional<CompactionStyle> CompactionStyleOf(std::string_view name);
std::vector<std::string> CompactionStyleNames();

}  // namespace sievedb

#endif  // SIEVEDB_UTIL_COMPACTION_STYLE_H_
