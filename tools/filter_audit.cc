#include "tools/filter_audit.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include "absl/strings/str_format.h"
#include "tools/record_file.h"
#include "util/escape.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kNormal95 = 1.959964;  // the standard normal's 97.5 % quantile
constexpr double kChance = 0.001;
constexpr double kModelSlack = 1.03;

double Ratio(double part, uint64_t whole) {
  return whole == 0 ? 0 : part / static_cast<double>(whole);
}

AuditCounts Total(const Audit& audit) {
  AuditCounts total;
  for (const AuditRow& row : audit.tables) total += row.counts;
  return total;
}

AuditCounts RandomTotal(const Audit& audit) {
  AuditCounts total;
  for (const AuditRow& row : audit.tables) total += row.random;
  return total;
}

// Tables, levels and the sum are judged at once.
uint64_t Comparisons(const Audit& audit) {
  return audit.tables.size() + SumAudit(audit).size() + 1;
}

std::string RowText(std::string_view name, const AuditRow& row, uint64_t comparisons) {
  const AuditCounts& c = row.counts;
  std::string text =
      absl::StrFormat("  %-28s%-9s%10d%10d%10d%10d", name, LevelName(row.place.level), c.asked(),
                      c.said_no + c.denied, c.maybe_present, c.maybe_absent);
  if (c.absent() == 0) return text + "   no absent key in its range\n";
  const auto [low, high] = RateInterval(c.maybe_absent, c.absent());
  absl::StrAppendFormat(&text, "%11.4f %%%11.4f … %8.4f %%%11.4f %%%s\n", 100 * c.measured_fpr(),
                        100 * low, 100 * high, 100 * c.expected_fpr(),
                        AboveExpected(c, comparisons) ? "  above expectation" : "");
  return text;
}

Json CountsJson(const AuditCounts& c, uint64_t comparisons) {
  const auto [low, high] = RateInterval(c.maybe_absent, c.absent());
  return {{"asked", c.asked()},
          {"said_no", c.said_no + c.denied},
          {"maybe_present", c.maybe_present},
          {"maybe_absent", c.maybe_absent},
          {"denied", c.denied},
          {"measured_fpr", c.measured_fpr()},
          {"measured_fpr_low", low},
          {"measured_fpr_high", high},
          {"expected_fpr", c.expected_fpr()},
          {"above_expected", AboveExpected(c, comparisons)}};
}

// The end of a long path, which is what tells tables apart.
std::string ShortName(const std::string& path) {
  constexpr size_t kWidth = 26;
  const std::string name = Escape(path.substr(path.rfind('/') + 1));
  return name.size() <= kWidth ? name : ".." + name.substr(name.size() - (kWidth - 2));
}

}  // namespace

absl::StatusOr<AuditKeys> ReadAuditKeys(const std::string& path, bool hex) {
  SIEVEDB_ASSIGN_OR_RETURN(const std::unique_ptr<LineReader> reader, LineReader::Open(path));
  AuditKeys keys;
  while (true) {
    const absl::StatusOr<std::optional<std::string_view>> line = reader->Next();
    if (!line.ok()) {
      return absl::Status(line.status().code(),
                          absl::StrFormat("%s: %s", path, line.status().message()));
    }
    if (!line->has_value()) break;
    absl::StatusOr<std::string> key =
        hex ? FromHex(**line) : Unescape(**line);  // the empty line is the empty key
    if (!key.ok()) {
      return absl::InvalidArgumentError(
          absl::StrFormat("%s, line %d: %s", path, reader->line_number(), key.status().message()));
    }
    keys.keys.push_back(*std::move(key));
  }
  if (keys.keys.empty()) return absl::InvalidArgumentError(path + ": no keys in it");
  keys.lines = keys.keys.size();
  std::sort(keys.keys.begin(), keys.keys.end());
  keys.keys.erase(std::unique(keys.keys.begin(), keys.keys.end()), keys.keys.end());
  return keys;
}

double AuditCounts::measured_fpr() const {
  return Ratio(static_cast<double>(maybe_absent), absent());
}
double AuditCounts::expected_fpr() const { return Ratio(expected_false, absent()); }

AuditCounts& AuditCounts::operator+=(const AuditCounts& other) {
  said_no += other.said_no;
  denied += other.denied;
  maybe_present += other.maybe_present;
  maybe_absent += other.maybe_absent;
  expected_false += other.expected_false;
  return *this;
}

absl::StatusOr<AuditCounts> AuditTable(const OpenedTable& table, double expected_fpr,
                                       std::vector<std::string>* keys) {
  const KeyOrder& order = table.order.user();
  const auto before = [&order](std::string_view a, std::string_view b) {
    return order.Compare(a, b) < 0;
  };
  if (!std::is_sorted(keys->begin(), keys->end(), before)) {
    std::sort(keys->begin(), keys->end(), before);
  }
  const TableReader& reader = *table.reader;
  const std::string_view largest = UserKey(reader.properties().largest_key);
  AuditCounts counts;
  const auto it = reader.NewIterator(ReadOptions());
  std::string seek;
  for (auto key = std::lower_bound(keys->begin(), keys->end(),
                                   UserKey(reader.properties().smallest_key), before);
       key != keys->end() && !before(largest, *key); ++key) {
    // The entry found last may lie behind this key too: then it needs no search.
    if (!it->Valid() || before(UserKey(it->key()), *key)) {
      seek.clear();
      AppendInternalKey(&seek, *key, SeekTag(kMaxSequence));
      it->Seek(seek);
      SIEVEDB_RETURN_IF_ERROR(it->status());
    }
    const bool there = it->Valid() && order.Equal(UserKey(it->key()), *key);
    const bool maybe = reader.MayContain(reader.HashOf(*key));
    if (there) {
      ++(maybe ? counts.maybe_present : counts.denied);
    } else {
      ++(maybe ? counts.maybe_absent : counts.said_no);
    }
  }
  counts.expected_false = expected_fpr * static_cast<double>(counts.absent());
  return counts;
}

std::pair<double, double> RateInterval(uint64_t hits, uint64_t trials) {
  if (trials == 0) return {0, 1};
  const double n = static_cast<double>(trials);
  const double p = static_cast<double>(hits) / n;
  const double z2 = kNormal95 * kNormal95;
  const double centre = (p + z2 / (2 * n)) / (1 + z2 / n);
  const double half = kNormal95 / (1 + z2 / n) * std::sqrt(p * (1 - p) / n + z2 / (4 * n * n));
  return {hits == 0 ? 0 : std::max(0.0, centre - half),
          hits == trials ? 1 : std::min(1.0, centre + half)};
}

double ChanceOfAtLeast(uint64_t hits, uint64_t trials, double rate) {
  if (hits == 0 || rate >= 1) return 1;
  if (hits > trials || rate <= 0) return 0;
  const double n = static_cast<double>(trials);
  const double mean = n * rate;
  const double x = static_cast<double>(hits);
  // Far below the mean it is 1 to any digit, and the sum would be long.
  if (x < mean - 12 * std::sqrt(mean) - 1) return 1;
  const double log_odds = std::log(rate) - std::log1p(-rate);
  double log_term = std::lgamma(n + 1) - std::lgamma(x + 1) - std::lgamma(n - x + 1) +
                    x * std::log(rate) + (n - x) * std::log1p(-rate);
  double sum = 0;
  for (double i = x; i <= n; ++i) {
    const double term = std::exp(log_term);
    sum += term;
    if (i > mean && term <= sum * 1e-12) break;
    log_term += std::log((n - i) / (i + 1)) + log_odds;
  }
  return std::min(sum, 1.0);
}

bool AboveExpected(const AuditCounts& counts, uint64_t comparisons) {
  const double rate = std::min(1.0, kModelSlack * counts.expected_fpr());
  return ChanceOfAtLeast(counts.maybe_absent, counts.absent(), rate) *
             static_cast<double>(std::max<uint64_t>(comparisons, 1)) <
         kChance;
}

std::vector<AuditRow> SumAudit(const Audit& audit) {
  std::vector<AuditRow> levels;
  for (const AuditRow& table : audit.tables) {
    auto level = std::find_if(levels.begin(), levels.end(), [&](const AuditRow& row) {
      return row.place.database == table.place.database && row.place.level == table.place.level;
    });
    if (level == levels.end()) {
      level = levels.emplace(levels.end());
      level->place = table.place;
      level->name = table.place.database;
    }
    level->counts += table.counts;
    level->random += table.random;
  }
  std::sort(levels.begin(), levels.end(), [](const AuditRow& a, const AuditRow& b) {
    if (a.place.database != b.place.database) return a.place.database < b.place.database;
    return a.place.level < b.place.level;
  });
  return levels;
}

std::string AuditVerdict(const Audit& audit) {
  const AuditCounts total = Total(audit);
  if (total.denied > 0) {
    return absl::StrFormat(
        "%d keys that are there were denied: lookups miss them. Save the tables, compact the "
        "database with filter_policy = nullptr, and report it",
        total.denied);
  }
  if (total.absent() == 0) {
    return "no absent key is in a table's range, so there is no rate to judge: ask for keys that "
           "are not there too";
  }
  const uint64_t comparisons = Comparisons(audit);
  const AuditCounts random = RandomTotal(audit);
  bool above = AboveExpected(total, comparisons);
  bool random_above = AboveExpected(random, comparisons);
  std::vector<AuditRow> rows = SumAudit(audit);
  rows.insert(rows.end(), audit.tables.begin(), audit.tables.end());
  for (const AuditRow& row : rows) {
    above |= AboveExpected(row.counts, comparisons);
    random_above |= AboveExpected(row.random, comparisons);
  }
  if (!above) {
    return absl::StrFormat(
        "the measured rate, %.4f %%, is not above the expected %.4f %% beyond chance: nothing to "
        "do",
        100 * total.measured_fpr(), 100 * total.expected_fpr());
  }
  std::string text = absl::StrFormat(
      "the measured rate, %.4f %% where %.4f %% is expected, is above expectation beyond chance",
      100 * total.measured_fpr(), 100 * total.expected_fpr());
  if (random.absent() == 0) {
    return text + ": run it with --absent_keys=1000000 to see whether random keys fare as badly";
  }
  if (random_above) {
    return text +
           ", and so is that of random keys: the filter was built with another hash or is damaged. "
           "Check with --command=verify, and compact the range to build it anew";
  }
  return text +
         ", while random keys have the expected one: these keys are special. If others choose "
         "them, somebody may be choosing keys that collide; if they are yours, compact with more "
         "bits per key or with another kind of filter";
}

std::string AuditText(const Audit& audit) {
  std::string text = absl::StrFormat("audit with %s: %d keys on %d lines\n", audit.keys_path,
                                     audit.keys, audit.lines);
  absl::StrAppendFormat(&text, "  %-28s%-9s%10s%10s%10s%10s%13s%24s%13s\n", "table", "level",
                        "asked", "said no", "maybe,", "maybe,", "measured", "95 % interval",
                        "expected");
  absl::StrAppendFormat(&text, "  %-37s%10s%10s%10s%10s\n", "", "", "", "present", "absent");
  const uint64_t comparisons = Comparisons(audit);
  for (const AuditRow& row : audit.tables) {
    text += RowText(ShortName(row.name), row, comparisons);
  }
  for (const AuditRow& row : SumAudit(audit)) text += RowText("all of a level", row, comparisons);
  absl::StrAppendFormat(&text, "  %s\n", AuditVerdict(audit));
  return text;
}

Json AuditJson(const Audit& audit) {
  const uint64_t comparisons = Comparisons(audit);
  Json tables = Json::array();
  for (const AuditRow& row : audit.tables) {
    Json json = {{"file", row.name}, {"level", LevelJson(row.place.level)}};
    json.update(CountsJson(row.counts, comparisons));
    tables.push_back(std::move(json));
  }
  Json levels = Json::array();
  for (const AuditRow& row : SumAudit(audit)) {
    Json json = {{"database", row.name.empty() ? Json(nullptr) : Json(row.name)},
                 {"level", LevelJson(row.place.level)}};
    json.update(CountsJson(row.counts, comparisons));
    levels.push_back(std::move(json));
  }
  return {{"keys_file", audit.keys_path},
          {"lines", audit.lines},
          {"keys", audit.keys},
          {"tables", tables},
          {"levels", levels},
          {"total", CountsJson(Total(audit), comparisons)},
          {"verdict", AuditVerdict(audit)}};
}

absl::Status AuditStatus(const Audit& audit) {
  for (const AuditRow& row : audit.tables) {
    if (row.counts.denied > 0) {
      return absl::DataLossError(
          absl::StrFormat("%s: the filter denies %d keys of %s that are there (%d of all tables)",
                          row.name, row.counts.denied, audit.keys_path, Total(audit).denied));
    }
  }
  return absl::OkStatus();
}

}  // namespace sievedb
