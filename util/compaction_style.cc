#include "util/compaction_style.h"

namespace sievedb {
namespace {

struct Named {
  CompactionStyle style;
  const char* name;
};
constexpr Named kStyles[] = {
    {CompactionStyle::kLeveled, "leveled"},
    {CompactionStyle::kLazyLeveling, "lazy_leveling"},
    {CompactionStyle::kTiered, "tiered"},
};

}  // namespace

const char* CompactionStyleName(CompactionStyle style) {
  for (const Named& named : kStyles) {
    if (named.style == style) return named.name;
  }
  return "unknown";
}

std::optional<CompactionStyle> CompactionStyleOf(std::string_view name) {
  for (const Named& named : kStyles) {
    if (named.name == name) return named.style;
  }
  return std::nullopt;
}

std::vector<std::string> CompactionStyleNames() {
  std::vector<std::string> names;
  for (const Named& named : kStyles) names.emplace_back(named.name);
  return names;
}

}  // namespace sievedb
