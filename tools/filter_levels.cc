#include "tools/filter_levels.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "db/file_names.h"
#include "db/version_set.h"
#include "sievedb/comparator.h"
#include "sievedb/file_system.h"
#include "sievedb/options.h"
#include "util/event_log.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

using Json = nlohmann::ordered_json;

std::pair<std::string, std::string> SplitPath(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == path.npos) return {".", path};
  // "dir//name" is in the same directory as "dir/name".
  const size_t last = path.find_last_not_of('/', slash);
  return {last == path.npos ? "/" : path.substr(0, last + 1), path.substr(slash + 1)};
}

// Levels in the order in which a lookup meets them, then what it does not meet.
int Rank(int level) { return level == kUnlisted ? kNumLevels : level; }

void AddTable(const PlacedFilter& filter, LevelFilters* level) {
  ++level->tables;
  level->keys += filter.keys;
  level->filter_bytes += filter.filter_bytes;
  level->expected_fpr += static_cast<double>(filter.keys) * filter.expected_fpr;
  level->false_reads += filter.expected_fpr;
}

void FinishLevel(LevelFilters* level) {
  if (level->keys > 0) {
    level->expected_fpr /= static_cast<double>(level->keys);
    level->bits_per_key =
        8.0 * static_cast<double>(level->filter_bytes) / static_cast<double>(level->keys);
  }
  if (level->level > 0) level->false_reads = level->expected_fpr;
  if (level->level == kUnlisted) level->false_reads = 0;
}

}  // namespace

std::string LevelName(int level) {
  if (level == kNoDatabase) return "-";
  if (level == kUnlisted) return "unlisted";
  return absl::StrFormat("%d", level);
}

Json LevelJson(int level) { return level >= 0 ? Json(level) : Json(LevelName(level)); }

absl::StatusOr<TablePlaces::Directory> TablePlaces::Read(const std::string& path) {
  Options options;
  options.file_system = PosixFileSystem();
  options.paranoid_checks = false;  // a missing table is not the question here
  Directory directory;
  SIEVEDB_ASSIGN_OR_RETURN(directory.is_database,
                           options.file_system->FileExists(CurrentFileName(path)));
  if (!directory.is_database) return directory;
  absl::Status status;
  // Once for each built-in order; and again where a writer replaced the MANIFEST
  // between the reading of CURRENT and its own.
  for (const Comparator* comparator : {BytewiseComparator(), ReverseBytewiseComparator(),
                                       BytewiseComparator(), ReverseBytewiseComparator()}) {
    options.comparator = comparator;
    EventLog no_log;
    VersionSet versions(options, path, /*opener=*/nullptr, &no_log);
    status = versions.Recover();
    if (!status.ok()) continue;
    const std::shared_ptr<const Version> version = versions.current();
    for (int level = 0; level < kNumLevels; ++level) {
      for (const FileRef& file : version->files(level)) directory.levels[file->number] = level;
    }
    return directory;
  }
  return status;
}

TablePlace TablePlaces::Of(const std::string& path) {
  const auto [directory, name] = SplitPath(path);
  auto it = directories_.find(directory);
  if (it == directories_.end()) {
    absl::StatusOr<Directory> read = Read(directory);
    if (!read.ok()) {
      status_.Update(
          absl::Status(read.status().code(),
                       absl::StrFormat("the levels are not known: %s", read.status().message())));
      read = Directory();
    }
    it = directories_.emplace(directory, *std::move(read)).first;
  }
  if (!it->second.is_database) return {};
  TablePlace place{directory, kUnlisted};
  const std::optional<ParsedFileName> parsed = ParseFileName(name);
  if (parsed.has_value() && parsed->kind == FileKind::kTable) {
    const auto found = it->second.levels.find(parsed->number);
    if (found != it->second.levels.end()) place.level = found->second;
  }
  return place;
}

uint64_t TablePlaces::TablesOf(const std::string& database) const {
  const auto it = directories_.find(database);
  return it == directories_.end() ? 0 : it->second.levels.size();
}

std::vector<DatabaseFilters> SumFilters(const std::vector<PlacedFilter>& filters) {
  std::vector<DatabaseFilters> databases;
  for (const PlacedFilter& filter : filters) {
    auto database = std::find_if(databases.begin(), databases.end(), [&](const auto& candidate) {
      return candidate.database == filter.place.database;
    });
    if (database == databases.end()) {
      database = databases.emplace(databases.end());
      database->database = filter.place.database;
    }
    std::vector<LevelFilters>& levels = database->levels;
    auto level = std::find_if(levels.begin(), levels.end(), [&](const auto& candidate) {
      return candidate.level == filter.place.level;
    });
    if (level == levels.end()) {
      level = levels.emplace(levels.end());
      level->level = filter.place.level;
    }
    AddTable(filter, &*level);
    if (filter.place.level != kUnlisted) ++database->tables;
  }
  for (DatabaseFilters& database : databases) {
    std::sort(database.levels.begin(), database.levels.end(),
              [](const auto& a, const auto& b) { return Rank(a.level) < Rank(b.level); });
    for (LevelFilters& level : database.levels) {
      FinishLevel(&level);
      database.false_reads += level.false_reads;
    }
  }
  return databases;
}

std::string DatabaseFiltersText(const DatabaseFilters& filters) {
  std::string text =
      filters.database.empty() ? "tables of no database" : "levels of " + filters.database;
  text +=
      "\n  level     tables        keys    filter bytes  bits/key    expected   false reads\n"
      "                                                                 rate  per absent key\n";
  for (const LevelFilters& level : filters.levels) {
    absl::StrAppendFormat(&text, "  %-8s%8d%12d%16d%10.2f%10.4f %%%16.6f\n", LevelName(level.level),
                          level.tables, level.keys, level.filter_bytes, level.bits_per_key,
                          100 * level.expected_fpr, level.false_reads);
  }
  absl::StrAppendFormat(&text,
                        "  a lookup of an absent key reads %.6f tables in vain, if all of level 0 "
                        "has the key in its range\n",
                        filters.false_reads);
  if (filters.tables < filters.manifest_tables) {
    absl::StrAppendFormat(&text, "  %d of the %d tables of the MANIFEST are not in these figures\n",
                          filters.manifest_tables - filters.tables, filters.manifest_tables);
  }
  return text;
}

Json DatabaseFiltersJson(const DatabaseFilters& filters) {
  Json levels = Json::array();
  for (const LevelFilters& level : filters.levels) {
    levels.push_back({{"level", LevelJson(level.level)},
                      {"tables", level.tables},
                      {"keys", level.keys},
                      {"filter_bytes", level.filter_bytes},
                      {"bits_per_key", level.bits_per_key},
                      {"expected_fpr", level.expected_fpr},
                      {"false_reads_per_absent_key", level.false_reads}});
  }
  Json json = {{"database", nullptr},
               {"levels", levels},
               {"false_reads_per_absent_key", filters.false_reads}};
  if (!filters.database.empty()) {
    json["database"] = filters.database;
    json["tables"] = filters.tables;
    json["manifest_tables"] = filters.manifest_tables;
  }
  return json;
}

}  // namespace sievedb
