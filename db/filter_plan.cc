#include "db/filter_plan.h"

#include <algorithm>
#include <cmath>
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
double BitsAt(double price, const FilterShare& share) {
  const std::array<double, kSteps>& slopes = Slopes();
  if (share.keys <= 0) return 0;
  const double least = price * share.keys / std::max(share.asked, 1e-12);
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

using FileSet = absl::flat_hash_set<const FileMeta*>;

// What the filter of a table holds: keys, and prefixes. Of one that is not open the
// entries are all that is known.
double FilterKeys(const FileMeta& file) {
  const TableReader* const table = file.table.load(std::memory_order_acquire);
  return static_cast<double>(table != nullptr ? table->FilterKeys() : file.entries);
}

// One of a table that is not open counts as the policy makes it.
double FilterBits(const Options& options, const FileMeta& file) {
  const TableReader* const table = file.table.load(std::memory_order_acquire);
  return table != nullptr ? 8.0 * static_cast<double>(table->FilterMemoryBytes())
                          : options.filter_policy->BitsPerKey(FilterContext()) *
                                static_cast<double>(file.entries);
}

double HeatOf(const FileMeta& file) {
  return file.filter_heat.absent.load(std::memory_order_relaxed);
}

// Calls fn(level, run, tables) for each run of a version, in the order of version.files.
template <typename Fn>
void ForEachRun(const Version& version, Fn fn) {
  for (int level = 0; level < kNumLevels; ++level) {
    for (const Version::Run& run : version.runs(level)) fn(level, run, version.files(level, run));
  }
}

// Lookups of absent keys that the tree saw of late: each comes to one table of a run at
// most.
double LookupsOfLate(const Version& version) {
  double most = 0;
  ForEachRun(version, [&](int, const Version::Run&, absl::Span<const FileRef> tables) {
    double sum = 0;
    for (const FileRef& file : tables) sum += HeatOf(*file);
    most = std::max(most, sum);
  });
  return most;
}

// How often a table, or a part of one, is thought to be asked. What was counted is
// trusted as far as there are counts; and never wholly, as loads change faster than
// filters: as many lookups as kPrior, and one in eight of those that were counted, are
// taken to be spread over all keys evenly. A range that nobody asks for keeps about
// four bits fewer than the mean, not none.
class AskedEstimate {
 public:
  AskedEstimate(const Options& options, double lookups)
      : even_(options.access_aware_filters ? kPrior + lookups / 8 : 1),
        counted_(options.access_aware_filters ? 1 : 0) {}
  // part: of a lookup that is spread evenly, what comes here.
  double operator()(double heat, double part) const { return counted_ * heat + even_ * part; }

 private:
  static constexpr double kPrior = 10'000;
  const double even_;
  const double counted_;
};

double TotalKeys(absl::Span<const FileRef> tables) {
  double keys = 0;
  for (const FileRef& file : tables) keys += FilterKeys(*file);
  return keys;
}

}  // namespace

std::vector<double> PlanShares(absl::Span<const FilterShare> shares, double bits_per_key) {
  double keys = 0;
  double asked = 0;
  for (const FilterShare& share : shares) {
    keys += share.keys;
    asked += share.asked;
  }
  const double budget = bits_per_key * keys;
  const auto plan = [&](double price, std::vector<double>* bits) {
    double total = 0;
    bits->clear();
    for (const FilterShare& share : shares) {
      bits->push_back(BitsAt(price, share));
      total += bits->back() * share.keys;
    }
    return total;
  };
  std::vector<double> bits;
  // The higher the price of a bit, the fewer are bought; it is found by halving its
  // logarithm's range.
  const double unit = std::log(std::max(asked, 1e-9));
  double low = unit - 80;
  double high = unit + 5;
  for (int i = 0; i < 50; ++i) {
    const double middle = (low + high) / 2;
    (plan(std::exp(middle), &bits) > budget ? low : high) = middle;
  }
  plan(std::exp(high), &bits);
  return bits;
}

std::vector<double> PlanFilterBits(absl::Span<const uint64_t> run_keys, double bits_per_key) {
  std::vector<FilterShare> shares;
  for (const uint64_t keys : run_keys) shares.push_back({static_cast<double>(keys), 1});
  return PlanShares(absl::MakeConstSpan(shares), bits_per_key);
}

TableBits PlanTableBits(const Options& options, const Version& version) {
  TableBits result;
  for (int level = 0; level < kNumLevels; ++level) {
    result[static_cast<size_t>(level)].resize(version.files(level).size());
  }
  if (options.filter_policy == nullptr || !options.plan_filter_memory) return result;
  const AskedEstimate asked(options, LookupsOfLate(version));
  std::vector<FilterShare> shares;
  double total = 0;
  ForEachRun(version, [&](int, const Version::Run&, absl::Span<const FileRef> tables) {
    const double run_keys = TotalKeys(tables);
    total += run_keys;
    for (const FileRef& file : tables) {
      const double keys = FilterKeys(*file);
      // Of one run of no keys: nothing is planned for it.
      shares.push_back({keys, asked(HeatOf(*file), run_keys > 0 ? keys / run_keys : 0)});
    }
  });
  const double budget = BudgetPerKey(options, FilterContext(), static_cast<uint64_t>(total));
  const std::vector<double> bits = PlanShares(absl::MakeConstSpan(shares), budget);
  auto next = bits.begin();
  for (std::vector<double>& level : result) {
    for (double& b : level) b = *next++;
  }
  return result;
}

void UpdateFilterHeat(const Version& version) {
  std::vector<std::pair<FilterHeat*, double>> news;
  double lookups = 0;
  ForEachRun(version, [&](int, const Version::Run&, absl::Span<const FileRef> tables) {
    double sum = 0;
    for (const FileRef& file : tables) {
      FilterHeat& heat = file->filter_heat;
      const double now = file->filter_tally.Sum().Absent();
      const double more = now - heat.counted;
      heat.counted = now;
      news.emplace_back(&heat, more);
      sum += more;
    }
    lookups = std::max(lookups, sum);
  });
  const double fade = std::exp2(-lookups / kHeatHalfLife);
  for (const auto& [heat, more] : news) {
    heat->absent.store(heat->absent.load(std::memory_order_relaxed) * fade + more,
                       std::memory_order_relaxed);
  }
}

// --- what a job writes

JobFilters::JobFilters(const Options& options, const Version& version, const CompactionPlan* plan,
                       uint64_t flushed_keys) {
  context_.level = plan == nullptr ? 0 : plan->output_level;
  context_.bottommost = plan != nullptr && plan->bottommost;
  if (options.filter_policy == nullptr || !options.plan_filter_memory) return;
  version_ = &version;
  if (plan != nullptr) {
    CutSegments(*plan);
  } else if (flushed_keys > 0) {
    segments_.push_back({nullptr, static_cast<double>(flushed_keys), LookupsOfLate(version), 0});
  }
  if (!segments_.empty()) PlanBits(options, plan);
}

void JobFilters::CutSegments(const CompactionPlan& plan) {
  // Those of one run do not overlap: the largest there is.
  const std::vector<FileRef>& base =
      !plan.output_inputs.empty() || plan.input_level == 0 ? plan.output_inputs : plan.inputs;
  if (plan.output_level > 0) {
    absl::Span<const FileRef> largest_run;
    for (const auto& run : SplitRuns(version_->order().user(), base)) {
      if (TotalKeys(run) > TotalKeys(largest_run) || largest_run.empty()) largest_run = run;
    }
    for (const FileRef& file : largest_run) segments_.push_back({file.get(), 0, 0, 0});
  }
  if (segments_.empty()) segments_.push_back({});
  std::string_view smallest;
  std::string_view largest;
  for (const auto* files : {&plan.inputs, &plan.output_inputs}) {
    AddKeys(*files);
    for (const FileRef& file : *files) {
      const InternalKeyOrder& order = version_->order();
      if (smallest.empty() || order.Compare(file->smallest, smallest) < 0) {
        smallest = file->smallest;
      }
      if (largest.empty() || order.Compare(file->largest, largest) > 0) largest = file->largest;
    }
  }
  for (size_t i = 0; i < segments_.size(); ++i) {
    segments_[i].heat = HeatBetween(
        i == 0 ? smallest : std::string_view(segments_[i].file->smallest),
        i + 1 < segments_.size() ? std::string_view(segments_[i + 1].file->smallest) : largest);
  }
}

void JobFilters::AddKeys(absl::Span<const FileRef> files) {
  for (const FileRef& file : files) {
    const size_t last = SegmentOf(file->largest);
    double before = 0;
    for (size_t i = SegmentOf(file->smallest); i <= last; ++i) {
      const double until =
          i == last ? 1 : std::max(before, PartBefore(*file, segments_[i + 1].file->smallest));
      segments_[i].keys += (until - before) * FilterKeys(*file);
      before = until;
    }
  }
}

size_t JobFilters::SegmentOf(std::string_view internal_key) const {
  const auto after =
      std::partition_point(segments_.begin() + 1, segments_.end(), [&](const Segment& segment) {
        return version_->order().Compare(segment.file->smallest, internal_key) <= 0;
      });
  return static_cast<size_t>(after - segments_.begin()) - 1;
}

// How much of a table lies before the key, 0 to 1. Of one that is not open: half, where
// the key is within.
double JobFilters::PartBefore(const FileMeta& file, std::string_view internal_key) const {
  const InternalKeyOrder& order = version_->order();
  if (order.Compare(internal_key, file.smallest) <= 0) return 0;
  if (order.Compare(internal_key, file.largest) >= 0) return 1;
  const TableReader* const table = file.table.load(std::memory_order_acquire);
  const uint64_t bytes = file.file_bytes - file.tail_bytes;
  if (table == nullptr || bytes == 0) return 0.5;
  return std::min(1.0, static_cast<double>(table->ApproximateOffsetOf(internal_key)) /
                           static_cast<double>(bytes));
}

double JobFilters::HeatBetween(std::string_view begin, std::string_view end) const {
  const int level = version_->DeepestLevel();
  // Tables of level 0 have all of a range, or as good as.
  if (level == 0) return LookupsOfLate(*version_);
  const std::string_view first = UserKey(begin);
  const std::string_view last = UserKey(end);
  const auto [from, to] =
      version_->OverlappingRange(level, version_->runs(level).back(), &first, &last);
  double heat = 0;
  for (size_t i = from; i < to; ++i) {
    const FileMeta& file = *version_->files(level)[i];
    heat += std::max(0.0, PartBefore(file, end) - PartBefore(file, begin)) * sievedb::HeatOf(file);
  }
  return heat;
}

void JobFilters::PlanBits(const Options& options, const CompactionPlan* plan) {
  const Version& version = *version_;
  FileSet gone;
  if (plan != nullptr) {
    for (const auto* files : {&plan->inputs, &plan->output_inputs}) {
      for (const FileRef& file : *files) gone.insert(file.get());
    }
  }
  double written = 0;
  for (const Segment& segment : segments_) written += segment.keys;
  if (written <= 0) return;

  // Those first that the job writes: in level 0 a run of their own, further down a part
  // of the output's run.
  const AskedEstimate asked(options, LookupsOfLate(version));
  std::vector<FilterShare> shares(segments_.size());
  double output_run_keys = written;
  double others_bits = 0;
  double total = written;
  ForEachRun(version, [&](int level, const Version::Run& run, absl::Span<const FileRef> tables) {
    double run_keys = 0;
    for (const FileRef& file : tables) {
      if (gone.contains(file.get())) continue;
      run_keys += FilterKeys(*file);
      others_bits += FilterBits(options, *file);
    }
    total += run_keys;
    if (level > 0 && level == context_.level && run.number == plan->output_run) {
      output_run_keys = run_keys += written;
    }
    for (const FileRef& file : tables) {
      if (gone.contains(file.get())) continue;
      const double n = FilterKeys(*file);
      shares.push_back({n, asked(sievedb::HeatOf(*file), run_keys > 0 ? n / run_keys : 0)});
    }
  });
  for (size_t i = 0; i < segments_.size(); ++i) {
    shares[i] = {segments_[i].keys, asked(segments_[i].heat, segments_[i].keys / output_run_keys)};
  }
  const double budget = BudgetPerKey(options, context_, static_cast<uint64_t>(total));
  std::vector<double> bits = PlanShares(absl::MakeConstSpan(shares), budget);

  // A tree's largest tables were mostly written when it was smaller, and are rewritten
  // last: until they give up what the plan takes from them, the small ones may take
  // more than there is, but where the user set a limit. One of the policy's size may
  // always be had: what was overspent elsewhere comes back when it is rewritten.
  const double slack = options.filter_memory_bytes == 0 ? kSlack : 1;
  const double affordable = (slack * budget * total - others_bits) / written;
  const double limit = std::max(affordable, budget);
  double planned = 0;
  for (size_t i = 0; i < segments_.size(); ++i) planned += bits[i] * segments_[i].keys;
  if (planned > limit * written) {
    bits = PlanShares(absl::MakeConstSpan(shares).first(segments_.size()), limit);
  }
  for (size_t i = 0; i < segments_.size(); ++i) segments_[i].bits = bits[i];
}

FilterContext JobFilters::ForTableFrom(std::string_view internal_key) const {
  FilterContext context = context_;
  if (segments_.empty()) return context;
  // Tables are about as large as those that they replace: one that begins within a
  // segment ends as far within the next.
  const size_t i = SegmentOf(internal_key);
  double bits = segments_[i].bits;
  if (i + 1 < segments_.size()) {
    const double part = PartBefore(*segments_[i].file, internal_key);
    bits += part * (segments_[i + 1].bits - bits);
  }
  // In sixteenths, so that a plan which changes nothing says exactly that.
  context.bits_per_key = std::round(bits * 16) / 16;
  return context;
}

double JobFilters::HeatOf(const FileMeta& output) const {
  return segments_.empty() ? 0 : HeatBetween(output.smallest, output.largest);
}

}  // namespace sievedb
