#include "db/filter_plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "sievedb/filter.h"
#include "table/table_reader.h"

namespace sievedb {
namespace {

// The rate is looked at in steps of as many bits.
constexpr double kStepBits = 0.25;
// Total bits over the budget's, at most, while the plan is not reached.
constexpr double kSlack = 1.1;
constexpr size_t kSteps = static_cast<size_t>(kMaxPlannedBits / kStepBits);

// How much the rate falls for a bit more, at each step. It falls less and less, so
// the array descends.
const std::array<double, kSteps>& Slopes() {
  static const std::array<double, kSteps> slopes = [] {
    const auto rate = [](size_t step) {
      const double bits = static_cast<double>(step) * kStepBits;
      return FilterSizing::ExpectedBlockedFpr(bits, FilterSizing::OptimalBlockedProbes(bits));
    };
    std::array<double, kSteps> result{};
    double before = 1;  // of no bits
    for (size_t i = 0; i < kSteps; ++i) {
      const double after = rate(i + 1);
      result[i] = (before - after) / kStepBits;
      before = after;
    }
    // The optimal number of probes changes in jumps, and a slope with it a little.
    for (size_t i = kSteps - 1; i > 0; --i) result[i - 1] = std::max(result[i - 1], result[i]);
    return result;
  }();
  return slopes;
}

// The bits from which on another bit for each of the keys saves less than price.
double BitsAt(double price, uint64_t keys) {
  const std::array<double, kSteps>& slopes = Slopes();
  const double least = price * static_cast<double>(keys);
  const auto end = std::partition_point(slopes.begin(), slopes.end(),
                                        [&](double slope) { return slope > least; });
  const size_t i = static_cast<size_t>(end - slopes.begin());
  if (i == 0 || i == kSteps) return static_cast<double>(i) * kStepBits;
  // Between the steps, by the logarithm, in which slopes are nearly a line.
  const double part = std::log(slopes[i - 1] / least) / std::log(slopes[i - 1] / slopes[i]);
  return (static_cast<double>(i) - 1 + std::clamp(part, 0.0, 1.0)) * kStepBits + kStepBits / 2;
}

double BudgetPerKey(const Options& options, const FilterContext& context, uint64_t keys) {
  if (options.filter_memory_bytes == 0) return options.filter_policy->BitsPerKey(context);
  return 8.0 * static_cast<double>(options.filter_memory_bytes) /
         static_cast<double>(std::max<uint64_t>(keys, 1));
}

// The keys of each level; level 0: of all its tables.
using LevelKeys = std::array<uint64_t, kNumLevels>;

using FileSet = absl::flat_hash_set<const FileMeta*>;

// What a tree without some of its tables has.
struct Tree {
  LevelKeys keys{};
  size_t level0_tables = 0;
  double filter_bits = 0;
};

// What the filter of a table holds: keys, and prefixes. Of one that is not open the
// entries are all that is known.
uint64_t FilterKeys(const FileMeta& file) {
  const TableReader* const table = file.table.load(std::memory_order_acquire);
  return table != nullptr ? table->FilterKeys() : file.entries;
}

// One of a table that is not open counts as the policy makes it.
double FilterBits(const Options& options, const FileMeta& file) {
  const TableReader* const table = file.table.load(std::memory_order_acquire);
  return table != nullptr ? 8.0 * static_cast<double>(table->FilterMemoryBytes())
                          : options.filter_policy->BitsPerKey(FilterContext()) *
                                static_cast<double>(file.entries);
}

Tree Without(const Options& options, const Version& version, const FileSet& gone) {
  Tree tree;
  for (int level = 0; level < kNumLevels; ++level) {
    for (const FileRef& file : version.files(level)) {
      if (gone.contains(file.get())) continue;
      tree.keys[static_cast<size_t>(level)] += FilterKeys(*file);
      tree.filter_bits += FilterBits(options, *file);
      if (level == 0) ++tree.level0_tables;
    }
  }
  return tree;
}

// Level 0's tables first; they count as equally large.
std::vector<uint64_t> RunsOf(const Tree& tree) {
  std::vector<uint64_t> runs;
  for (size_t i = 0; i < tree.level0_tables; ++i) {
    runs.push_back(tree.keys[0] / tree.level0_tables);
  }
  for (size_t level = 1; level < tree.keys.size(); ++level) {
    if (tree.keys[level] > 0) runs.push_back(tree.keys[level]);
  }
  return runs;
}

uint64_t Sum(const LevelKeys& keys) {
  return std::accumulate(keys.begin(), keys.end(), uint64_t{0});
}

}  // namespace

std::vector<double> PlanFilterBits(absl::Span<const uint64_t> run_keys, double bits_per_key) {
  double keys = 0;
  for (const uint64_t n : run_keys) keys += static_cast<double>(n);
  const double budget = bits_per_key * keys;
  const auto plan = [&](double price, std::vector<double>* bits) {
    double total = 0;
    bits->clear();
    for (const uint64_t n : run_keys) {
      bits->push_back(BitsAt(price, n));
      total += bits->back() * static_cast<double>(n);
    }
    return total;
  };
  std::vector<double> bits;
  // The higher the price of a bit, the fewer are bought; it is found by halving its
  // logarithm's range.
  double low = -80;
  double high = 5;
  for (int i = 0; i < 50; ++i) {
    const double middle = (low + high) / 2;
    (plan(std::exp(middle), &bits) > budget ? low : high) = middle;
  }
  plan(std::exp(high), &bits);
  return bits;
}

std::array<double, kNumLevels> PlanLevelBits(const Options& options, const Version& version) {
  std::array<double, kNumLevels> result{};
  if (options.filter_policy == nullptr || !options.plan_filter_memory) return result;
  const Tree tree = Without(options, version, {});
  const double budget = BudgetPerKey(options, FilterContext(), Sum(tree.keys));
  const std::vector<double> bits = PlanFilterBits(RunsOf(tree), budget);
  size_t run = tree.level0_tables;
  if (run > 0) result[0] = bits[0];
  for (size_t level = 1; level < result.size(); ++level) {
    if (tree.keys[level] > 0) result[level] = bits[run++];
  }
  return result;
}

FilterContext MakeFilterContext(const Options& options, const Version& version,
                                const CompactionPlan* plan, uint64_t flushed_keys) {
  FilterContext context;
  context.level = plan == nullptr ? 0 : plan->output_level;
  context.bottommost = plan != nullptr && plan->bottommost;
  if (options.filter_policy == nullptr || !options.plan_filter_memory) return context;

  uint64_t written = flushed_keys;
  FileSet gone;
  if (plan != nullptr) {
    for (const auto* files : {&plan->inputs, &plan->output_inputs}) {
      for (const FileRef& file : *files) {
        written += FilterKeys(*file);
        gone.insert(file.get());
      }
    }
  }
  if (written == 0) return context;
  Tree others = Without(options, version, gone);
  // A table of level 0 is a run of its own, others are a part of their level's.
  uint64_t run = written;
  if (context.level > 0) run += std::exchange(others.keys[static_cast<size_t>(context.level)], 0);
  std::vector<uint64_t> runs = RunsOf(others);
  runs.push_back(run);
  const uint64_t total = Sum(others.keys) + run;
  const double budget = BudgetPerKey(options, context, total);
  const double planned = PlanFilterBits(runs, budget).back();

  // A tree's largest tables were mostly written when it was smaller, and are rewritten
  // last: until they give up what the plan takes from them, the small ones may take
  // more than there is, but where the user set a limit.
  const double slack = options.filter_memory_bytes == 0 ? kSlack : 1;
  const double left = slack * budget * static_cast<double>(total) - others.filter_bits;
  const double affordable = left / static_cast<double>(written);
  // One of the policy's size may always be had: what was overspent elsewhere comes back
  // when it is rewritten.
  const double bits = std::min(planned, std::max(affordable, budget));
  // In sixteenths, so that a plan which changes nothing says exactly that.
  context.bits_per_key = std::round(bits * 16) / 16;
  return context;
}

}  // namespace sievedb
