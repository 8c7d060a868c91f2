// Disk reads per lookup of an absent key, for the same filter memory spent in three ways:
// the same bits per key in every table, by Monkey's plan, and by that of
// Options::access_aware_filters. Lookups are skewed: the key space is cut into ranges
// whose popularity is zipfian, in an order that has nothing to do with that of the keys.
// In each round keys are overwritten at random, so that the tree is rewritten bit by bit
// while it is asked, as it is in life; then the reads of the last lookups are counted.
// Beside each stands what theory gives for the tables that are there: the sum of asked
// times rate over tables, with the true popularity of each table's keys, for the bits per
// key that its filter has (so it says whether filters do what they promise), and the least
// that any distribution of as many bits could reach. Deterministic: one thread, a file
// system in memory, fixed seeds.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "db/filter_plan.h"
#include "sievedb/db.h"
#include "sievedb/filter.h"

namespace sievedb {
namespace {

enum class Way { kUniform, kMonkey, kAccessAware };

struct Settings {
  int keys = 120'000;
  int rounds = 10;
  int lookups = 50'000;  // a round, and 4 times as many to measure
  double skew = 0.99;
  int ranges = 256;
};

// Which absent keys are asked for. A key is a number; even ones are there.
class Load {
 public:
  explicit Load(const Settings& settings) : settings_(settings) {
    std::vector<int> order(static_cast<size_t>(settings.ranges));
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
    std::mt19937_64 random(7);
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);
    popularity_.resize(order.size());
    double sum = 0;
    for (size_t i = 0; i < order.size(); ++i) {
      popularity_[static_cast<size_t>(order[i])] =
          std::pow(static_cast<double>(i + 1), -settings.skew);
    }
    for (const double p : popularity_) sum += p;
    before_.push_back(0);
    for (double& p : popularity_) {
      p /= sum;
      before_.push_back(before_.back() + p);
    }
  }
  int KeySpace() const { return 2 * settings_.keys; }
  int NextAbsent(std::mt19937_64* random) const {
    const double at = static_cast<double>((*random)() >> 11) * 0x1p-53;
    const auto after = std::upper_bound(before_.begin() + 1, before_.end() - 1, at);
    const auto range = static_cast<int64_t>(after - before_.begin()) - 1;
    const int64_t begin = range * KeySpace() / settings_.ranges;
    const int64_t end = (range + 1) * KeySpace() / settings_.ranges;
    const auto key = begin + static_cast<int64_t>((*random)() % static_cast<uint64_t>(end - begin));
    return static_cast<int>(key) | 1;
  }
  // The share of lookups for keys from first to last.
  double Share(int first, int last) const { return Before(last + 1) - Before(first); }

 private:
  double Before(int key) const {
    const double at = static_cast<double>(key) * settings_.ranges / KeySpace();
    const auto range = std::min(static_cast<size_t>(at), popularity_.size() - 1);
    return before_[range] + (at - static_cast<double>(range)) * popularity_[range];
  }

  const Settings settings_;
  std::vector<double> popularity_;
  std::vector<double> before_;  // sums of it
};

std::string Key(int number) { return absl::StrFormat("%010d", number); }

void Check(const absl::Status& status) {
  if (status.ok() || absl::IsNotFound(status)) return;
  absl::FPrintF(stderr, "%s\n", status.ToString());
  std::exit(1);
}

struct Result {
  double reads = 0;    // a lookup, counted
  double theory = 0;   // for the filters that are there
  double optimum = 0;  // for the best use of as many bits in the same tables
  double bits = 0;     // mean bits per key, really
};

double Rate(double bits) {
  return FilterSizing::ExpectedBlockedFpr(bits, FilterSizing::OptimalBlockedProbes(bits));
}

// From sievedb.filter-tables: keys, bits and range of each table.
void AddTheory(const std::string& text, const Load& load, Result* result) {
  std::vector<FilterShare> shares;
  double keys = 0;
  double bits = 0;
  for (const auto line : absl::StrSplit(text, '\n')) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    int level = 0;
    if (words.size() < 8 || !absl::SimpleAtoi(words[0], &level)) continue;
    const auto dots = std::find(words.begin(), words.end(), "..");
    FilterShare share;
    double per_key = 0;
    if (dots == words.end() || !absl::SimpleAtod(words[2], &share.keys) ||
        !absl::SimpleAtod(words[5], &per_key)) {
      continue;
    }
    share.asked = load.Share(std::stoi(*(dots - 1)), std::stoi(*(dots + 1)));
    result->theory += share.asked * Rate(per_key);
    keys += share.keys;
    bits += share.keys * per_key;
    shares.push_back(share);
  }
  result->bits = bits / keys;
  const std::vector<double> best = PlanShares(shares, result->bits);
  for (size_t i = 0; i < shares.size(); ++i) result->optimum += shares[i].asked * Rate(best[i]);
}

Result Run(const Settings& settings, const Load& load, double bits, Way way) {
  Options options;
  options.file_system = NewMemoryFileSystem();
  options.statistics = NewStatistics();
  options.filter_policy = NewBlockedBloomPolicy(bits);
  options.plan_filter_memory = way != Way::kUniform;
  options.access_aware_filters = way == Way::kAccessAware;
  options.write_buffer_bytes = 64 << 20;  // flushed by hand, so that runs are alike
  options.level_base_bytes = 256 << 10;
  options.target_file_bytes = 128 << 10;
  options.level_size_multiplier = 8;
  options.compression = Compression::kNone;
  options.block_cache_bytes = 0;  // each search of a table is a read
  auto opened = DB::Open(options, "/db");
  Check(opened.status());
  const std::unique_ptr<DB> db = *std::move(opened);

  std::mt19937_64 random(1);
  WriteOptions write;
  write.disable_wal = true;
  const std::string filler(20, 'v');
  const auto flush = [&] {
    Check(db->Flush(FlushOptions()));
    Check(db->WaitForBackgroundWork());
  };
  std::vector<int> order(static_cast<size_t>(settings.keys));
  for (size_t i = 0; i < order.size(); ++i) order[i] = 2 * static_cast<int>(i);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);
  constexpr int kFlushKeys = 4000;
  for (size_t i = 0; i < order.size(); ++i) {
    Check(db->Put(write, Key(order[i]), filler));
    if (i % kFlushKeys == kFlushKeys - 1) flush();
  }
  std::string value;
  const auto ask = [&](int lookups) {
    for (int i = 0; i < lookups; ++i) {
      Check(db->Get(ReadOptions(), Key(load.NextAbsent(&random)), &value));
    }
  };
  for (int round = 0; round < settings.rounds; ++round) {
    ask(settings.lookups);
    for (int i = 0; i < settings.keys / 4; ++i) {
      Check(db->Put(write, Key(2 * static_cast<int>(random() % order.size())), filler));
      if (i % kFlushKeys == kFlushKeys - 1) flush();
    }
    flush();
  }
  const uint64_t before = options.statistics->Get(Counter::kBlockReads);
  ask(4 * settings.lookups);
  Result result;
  result.reads = static_cast<double>(options.statistics->Get(Counter::kBlockReads) - before) /
                 (4 * settings.lookups);
  AddTheory(*db->GetProperty("sievedb.filter-tables"), load, &result);
  return result;
}

int Main(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::pair<std::string, std::string> flag =
        absl::StrSplit(argv[i], absl::MaxSplits('=', 1));
    const bool valid = flag.first == "--keys"     ? absl::SimpleAtoi(flag.second, &settings.keys)
                       : flag.first == "--rounds" ? absl::SimpleAtoi(flag.second, &settings.rounds)
                       : flag.first == "--lookups"
                           ? absl::SimpleAtoi(flag.second, &settings.lookups)
                       : flag.first == "--skew"   ? absl::SimpleAtod(flag.second, &settings.skew)
                       : flag.first == "--ranges" ? absl::SimpleAtoi(flag.second, &settings.ranges)
                                                  : false;
    if (!valid || settings.keys < settings.ranges || settings.ranges < 1 || settings.rounds < 0 ||
        settings.lookups < 1 || settings.keys > 100'000'000) {
      absl::FPrintF(stderr,
                    "Usage: filter_budget [--keys=%d] [--rounds=%d] [--lookups=%d] [--skew=%g] "
                    "[--ranges=%d]\n",
                    Settings().keys, Settings().rounds, Settings().lookups, Settings().skew,
                    Settings().ranges);
      return 1;
    }
  }
  const Load load(settings);
  absl::PrintF("%d keys, %d rounds of %d lookups and %d overwrites, zipf(%g) over %d ranges\n\n",
               settings.keys, settings.rounds, settings.lookups, settings.keys / 4, settings.skew,
               settings.ranges);
  absl::PrintF("| bits | filters | bits per key | reads per absent lookup | theory | optimum |\n");
  absl::PrintF("|---|---|---|---|---|---|\n");
  constexpr std::pair<Way, const char*> kWays[] = {
      {Way::kUniform, "uniform"}, {Way::kMonkey, "Monkey"}, {Way::kAccessAware, "access-aware"}};
  for (const int bits : {4, 6, 8, 10}) {
    for (const auto& [way, name] : kWays) {
      const Result r = Run(settings, load, bits, way);
      absl::PrintF("| %d | %s | %.2f | %.4f | %.4f | %.4f |\n", bits, name, r.bits, r.reads,
                   r.theory, r.optimum);
      std::fflush(stdout);
    }
  }
  return 0;
}

}  // namespace
}  // namespace sievedb

int main(int argc, char** argv) { return sievedb::Main(argc, argv); }
