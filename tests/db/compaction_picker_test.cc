#include "db/compaction_picker.h"

#include <cstdint>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <string>
#include <string_view>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "tests/data_driven.h"
#include "tests/db/version_test_util.h"
#include "util/compaction_style.h"

namespace sievedb {
namespace {

using version_test::MakeFile;

// The state that a case describes. Each line of its input is one of
//   L5: 7:[a-c] 8:[d-f]#20*300!50    tables number:[smallest-largest], then as wanted
//                                    #sequence (1) *bytes (100) !tombstones (0, of 100)
//   L5 run 3: 7:[a-c]                of a run other than 0
//   busy 7 8                         tables of compactions that run
//   running 5->6 [a-f]               where a compaction writes; then, as wanted: run 3
//   style lazy_leveling              how the levels are kept, and as wanted how many times
//                                    larger one is than the next (10): style tiered 4
struct World {
  Options options;
  VersionEdit edit;
  CompactionsInProgress running;

  World() {
    options.level0_file_trigger = 4;
    options.level0_slowdown_trigger = 16;
    options.level_base_bytes = 1000;
    options.level_size_multiplier = 10;
    options.target_file_bytes = 100;
    options.write_buffer_bytes = 100;
  }

  std::shared_ptr<const Version> Build() const {
    const Version empty(InternalKeyOrder(options.comparator), nullptr);
    absl::StatusOr<std::shared_ptr<const Version>> version = Version::Apply(empty, edit);
    EXPECT_TRUE(version.ok()) << version.status();
    return version.ok() ? *version : std::make_shared<Version>(empty.order(), nullptr);
  }

  void Parse(const DataDrivenCase& test) {
    for (const std::string& line : SplitLines(test.input)) {
      const std::vector<std::string> words = SplitWords(line);
      if (words[0][0] == 'L') {
        const bool names_run = words[1] == "run";
        const uint64_t run = names_run ? std::stoull(words[2]) : 0;
        for (size_t i = names_run ? 3 : 1; i < words.size(); ++i) {
          ParseTable(words[0][1] - '0', run, words[i]);
        }
      } else if (words[0] == "busy") {
        for (size_t i = 1; i < words.size(); ++i) running.busy_files.insert(std::stoull(words[i]));
      } else if (words[0] == "running") {
        const size_t dash = words[2].find('-');
        running.ranges.push_back({words[1][0] - '0', words[1][3] - '0',
                                  words[2].substr(1, dash - 1),
                                  words[2].substr(dash + 1, words[2].size() - dash - 2),
                                  words.size() > 4 ? std::stoull(words[4]) : 0});
      } else if (words[0] == "style") {
        options.compaction_style = CompactionStyleOf(words[1]).value();
        if (words.size() > 2) options.level_size_multiplier = std::stod(words[2]);
      } else {
        ADD_FAILURE() << "line " << test.line << ": not understood: " << line;
      }
    }
  }

  void ParseTable(int level, uint64_t run, const std::string& word) {
    const size_t open = word.find('[');
    const size_t dash = word.find('-', open);
    const size_t close = word.find(']', dash);
    ASSERT_NE(close, std::string::npos) << word;
    auto file = MakeFile(std::stoull(word), word.substr(open + 1, dash - open - 1),
                         word.substr(dash + 1, close - dash - 1), 1, 100);
    for (size_t at = close + 1; at < word.size();) {
      size_t digits = 0;
      const uint64_t n = std::stoull(word.substr(at + 1), &digits);
      if (word[at] == '#') file->largest_sequence = n;
      if (word[at] == '*') file->file_bytes = n;
      if (word[at] == '!') file->tombstones = n;
      at += 1 + digits;
    }
    edit.added_files.emplace_back(level, std::move(file), run);
  }
};

std::string Numbers(const std::vector<FileRef>& files) {
  return absl::StrJoin(files, " ", [](std::string* to, const FileRef& file) {
    *to += std::to_string(file->number);
  });
}

std::string Describe(const CompactionPlan& plan) {
  std::string to = absl::StrFormat("%s L%d -> L%d: %s", plan.trivial_move ? "move" : "merge",
                                   plan.input_level, plan.output_level, Numbers(plan.inputs));
  if (!plan.output_inputs.empty()) to += " with " + Numbers(plan.output_inputs);
  if (!plan.grandparents.empty()) to += " above " + Numbers(plan.grandparents);
  to += absl::StrFormat(" [%s-%s]%s", plan.smallest, plan.largest,
                        plan.bottommost ? " bottommost" : "");
  if (plan.output_run != 0) to += absl::StrFormat(" as run %d", plan.output_run);
  if (plan.score > 0) to += absl::StrFormat(" score %.2f", plan.score);
  return to + ": " + plan.reason;
}

std::string RunCase(const DataDrivenCase& test) {
  World world;
  world.Parse(test);
  const std::shared_ptr<const Version> version = world.Build();
  if (test.command == "pick") {
    const auto plan = PickCompaction(world.options, *version, world.running);
    return plan.has_value() ? Describe(*plan) : "nothing";
  }
  if (test.command == "targets") {
    const LevelTargets targets = ComputeLevelTargets(world.options, *version);
    return absl::StrFormat("base L%d: %s", targets.base_level, absl::StrJoin(targets.bytes, " "));
  }
  if (test.command == "scores") {
    return absl::StrJoin(
        ComputeScores(world.options, *version, world.running), " ",
        [](std::string* to, double score) { *to += absl::StrFormat("%.2f", score); });
  }
  if (test.command == "newest") {
    const std::string from = test.Argument("from");
    const std::string to = test.Argument("to");
    return "L" +
           std::to_string(PickLevelForNewest(world.options, *version, world.running, from, to));
  }
  if (test.command == "pending") {
    return std::to_string(PendingCompactionBytes(world.options, *version));
  }
  if (test.command == "manual") {
    const std::string begin_text = test.Argument("begin");
    const std::string end_text = test.Argument("end");
    const std::string_view begin = begin_text;
    const std::string_view end = end_text;
    bool busy = false;
    std::optional<std::string> next;
    const auto plan =
        PickManual(world.options, *version, world.running, std::stoi(test.Argument("in")),
                   std::stoi(test.Argument("out")), test.HasArgument("begin") ? &begin : nullptr,
                   test.HasArgument("end") ? &end : nullptr, &busy, &next);
    return absl::StrFormat("%s%s%s", plan.has_value() ? Describe(*plan) : "nothing",
                           busy ? ", busy" : "", next.has_value() ? ", next " + *next : "");
  }
  ADD_FAILURE() << "unknown command " << test.command;
  return "";
}

TEST(CompactionPickerTest, DataDriven) {
  RunDataDriven(
      "compaction_picker", [] {}, RunCase);
}

// A simulated database: tables are sets of keys and are compacted as plans say,
// several compactions at a time, each taking a while. Version::Apply checks the
// levels' invariants. Here it is checked that no two plans share a table, that no level
// has more runs than it may, that every key is found as it was last written or deleted,
// and that all comes to rest.
class Simulation {
 public:
  Simulation(uint64_t seed, bool sequential, CompactionStyle style = CompactionStyle::kLeveled)
      : random_(seed), sequential_(sequential) {
    world_.options.compaction_style = style;
    version_ = world_.Build();
  }
  void set_multiplier(double multiplier) { world_.options.level_size_multiplier = multiplier; }

  void set_max_space_amplification(double bytes) { world_.options.max_space_amplification = bytes; }

  // Another style after so many steps, and so on.
  void ChangeStyles(int steps) { steps_of_style_ = steps; }

  void Run() {
    for (int step = 0; step < 20000 && !testing::Test::HasFailure(); ++step) {
      if (steps_of_style_ > 0 && step % steps_of_style_ == 0 && step < flush_steps_) ChangeStyle();
      for (uint64_t n = step < flush_steps_ ? random_() % 4 : 0; n > 0; --n) {
        if (version_->files(0).size() < 30) Flush();
      }
      while (plans_.size() < 3) {
        const auto plan = PickCompaction(world_.options, *version_, world_.running);
        if (!plan.has_value()) break;
        Begin(*plan);
      }
      if (plans_.empty() && step >= flush_steps_) break;
      if (!plans_.empty()) Finish(random_() % plans_.size());
    }
    CheckRest();
  }

  int moves() const { return moves_; }
  int merges() const { return merges_; }
  int merges_within_level0() const { return merges_within_level0_; }
  int merges_within_others() const { return merges_within_others_; }
  size_t most_runs() const { return most_runs_; }
  int tombstones_dropped() const { return tombstones_dropped_; }

 private:
  using Contents = std::map<std::string, uint64_t>;  // user key: 2 * sequence + 1 if deleted
  static constexpr uint64_t kEntryBytes = 5;

  std::shared_ptr<FileMeta> NewTable(Contents contents) {
    auto file = MakeFile(next_++, contents.begin()->first, contents.rbegin()->first, 1,
                         kEntryBytes * contents.size());
    file->entries = contents.size();
    file->largest_sequence = 0;
    for (const auto& [key, write] : contents) {
      file->largest_sequence = std::max(file->largest_sequence, write / 2);
      file->tombstones += write % 2;
    }
    contents_[file->number] = std::move(contents);
    return file;
  }

  void ChangeStyle() {
    constexpr CompactionStyle kStyles[] = {
        CompactionStyle::kLeveled, CompactionStyle::kLazyLeveling, CompactionStyle::kTiered};
    world_.options.compaction_style = kStyles[random_() % std::size(kStyles)];
  }

  void Flush() {
    ++sequence_;
    Contents contents;
    for (uint64_t i = 0; i < 20; ++i) {
      const uint64_t n = sequential_ ? sequence_ * 20 + i : random_() % 400;
      const bool deleted = !sequential_ && random_() % 4 == 0;
      contents[absl::StrFormat("%06d", n)] = 2 * sequence_ + (deleted ? 1 : 0);
    }
    for (const auto& [key, write] : contents) newest_[key] = write;
    VersionEdit edit;
    edit.added_files.emplace_back(0, NewTable(std::move(contents)));
    Apply(edit);
  }

  void Apply(const VersionEdit& edit) {
    const auto next = Version::Apply(*version_, edit);
    ASSERT_TRUE(next.ok()) << next.status();
    version_ = *next;
    if (++applied_ % 16 != 0) return;
    Contents found;  // of the tables that stand earlier the first one counts
    for (int level = 0; level < kNumLevels; ++level) {
      for (const FileRef& file : version_->files(level)) {
        const Contents& contents = contents_[file->number];
        found.insert(contents.begin(), contents.end());
      }
    }
    const auto without_deleted = [](Contents contents) {
      std::erase_if(contents, [](const auto& entry) { return entry.second % 2 == 1; });
      return contents;
    };
    ASSERT_TRUE(without_deleted(found) == without_deleted(newest_)) << version_->DebugString();
  }

  void Begin(const CompactionPlan& plan) {
    for (const auto* files : {&plan.inputs, &plan.output_inputs}) {
      for (const FileRef& file : *files) {
        ASSERT_TRUE(world_.running.busy_files.insert(file->number).second) << file->number;
      }
    }
    world_.running.ranges.push_back(
        {plan.input_level, plan.output_level, plan.smallest, plan.largest, plan.output_run});
    plans_.push_back(plan);
    CheckRuns(plan.output_level);
  }

  void CheckRuns(int level) {
    if (level == 0) return;
    std::set<uint64_t> runs;
    for (const Version::Run& run : version_->runs(level)) runs.insert(run.number);
    for (const CompactionsInProgress::Range& range : world_.running.ranges) {
      if (range.output_level == level) runs.insert(range.output_run);
    }
    most_runs_ = std::max(most_runs_, runs.size());
    if (steps_of_style_ > 0) return;  // what another style left may be more
    // A run of which nothing is left while the next part of it is being written counts.
    ASSERT_LE(runs.size(), RunBound(world_.options, level)) << version_->DebugString();
  }

  void CheckRest() {
    EXPECT_TRUE(plans_.empty());
    for (const double score : ComputeScores(world_.options, *version_, world_.running)) {
      EXPECT_LT(score, 1);
    }
    constexpr int kLastLevel = kNumLevels - 1;
    uint64_t upper_bytes = 0;
    for (int level = 1; level < kNumLevels; ++level) {
      EXPECT_LE(version_->runs(level).size(), MaxRuns(world_.options, level));
      upper_bytes += version_->LevelBytes(level);
    }
    ASSERT_FALSE(version_->runs(kLastLevel).empty());
    const uint64_t last_bytes = version_->runs(kLastLevel).back().bytes;
    upper_bytes -= last_bytes;
    if (world_.options.compaction_style != CompactionStyle::kLeveled &&
        upper_bytes >= world_.options.level_base_bytes) {
      EXPECT_LE(static_cast<double>(upper_bytes),
                (world_.options.max_space_amplification - 1) * static_cast<double>(last_bytes))
          << version_->DebugString();
    }
  }

  void Finish(size_t index) {
    const CompactionPlan plan = plans_[index];
    const auto at = static_cast<std::ptrdiff_t>(index);
    plans_.erase(plans_.begin() + at);
    world_.running.ranges.erase(world_.running.ranges.begin() + at);
    VersionEdit edit;
    Contents merged;
    for (const auto* files : {&plan.inputs, &plan.output_inputs}) {
      const int level = files == &plan.inputs ? plan.input_level : plan.output_level;
      for (const FileRef& file : *files) {
        world_.running.busy_files.erase(file->number);
        edit.removed_files.emplace_back(level, file->number);
        merged.insert(contents_[file->number].begin(), contents_[file->number].end());
        if (plan.trivial_move) {
          edit.added_files.emplace_back(plan.output_level, std::const_pointer_cast<FileMeta>(file),
                                        plan.output_run);
        }
      }
    }
    if (plan.trivial_move) {
      ++moves_;
    } else {
      ++(plan.output_level == 0                  ? merges_within_level0_
         : plan.output_level == plan.input_level ? merges_within_others_
                                                 : merges_);
      Contents table;
      const auto add = [&](Contents contents) {
        edit.added_files.emplace_back(plan.output_level, NewTable(std::move(contents)),
                                      plan.output_run);
      };
      for (const auto& entry : merged) {
        if (plan.bottommost && entry.second % 2 == 1) {
          ++tombstones_dropped_;
          continue;
        }
        table.insert(entry);
        if (plan.output_level > 0 && table.size() == 20) add(std::exchange(table, {}));
      }
      if (!table.empty()) add(table);
    }
    Apply(edit);
  }

  std::mt19937_64 random_;
  const bool sequential_;
  const int flush_steps_ = sequential_ ? 200 : 600;
  int steps_of_style_ = 0;  // 0: one style
  World world_;
  std::shared_ptr<const Version> version_;
  std::map<uint64_t, Contents> contents_;  // by table number
  Contents newest_;
  std::vector<CompactionPlan> plans_;
  uint64_t next_ = 1;
  uint64_t sequence_ = 0;
  int applied_ = 0;
  int moves_ = 0;
  int merges_ = 0;
  int merges_within_level0_ = 0;
  int merges_within_others_ = 0;
  int tombstones_dropped_ = 0;
  size_t most_runs_ = 0;
};

TEST(CompactionPickerTest, RandomLoadKeepsTheInvariants) {
  Simulation simulation(17, /*sequential=*/false);
  simulation.Run();
  EXPECT_GT(simulation.merges(), 100);
  EXPECT_GT(simulation.merges_within_level0(), 5);
  EXPECT_GT(simulation.tombstones_dropped(), 100);
  EXPECT_EQ(simulation.most_runs(), 1u);
}

TEST(CompactionPickerTest, SequentialLoadOnlyMoves) {
  for (const CompactionStyle style :
       {CompactionStyle::kLeveled, CompactionStyle::kLazyLeveling, CompactionStyle::kTiered}) {
    Simulation simulation(18, /*sequential=*/true, style);
    simulation.Run();
    EXPECT_EQ(simulation.merges(), 0);
    EXPECT_EQ(simulation.merges_within_level0(), 0);
    EXPECT_GT(simulation.moves(), 50);
    EXPECT_EQ(simulation.most_runs(), 1u);
  }
}

TEST(CompactionPickerTest, LevelsOfSeveralRunsKeepTheInvariants) {
  size_t most_runs = 0;
  for (const CompactionStyle style : {CompactionStyle::kLazyLeveling, CompactionStyle::kTiered}) {
    for (const double multiplier : {2.0, 3.0, 4.0, 10.0}) {
      for (const double amplification : {1.25, 3.0}) {
        Simulation simulation(19, /*sequential=*/false, style);
        simulation.set_multiplier(multiplier);
        simulation.set_max_space_amplification(amplification);
        simulation.Run();
        EXPECT_GT(simulation.merges(), 50);
        EXPECT_GT(simulation.tombstones_dropped(), 100);
        most_runs = std::max(most_runs, simulation.most_runs());
      }
    }
  }
  EXPECT_GT(most_runs, 4u);
}

TEST(CompactionPickerTest, ATreeOfAnotherStyleComesToRest) {
  for (const uint64_t seed : {20, 21, 22, 23}) {
    Simulation simulation(seed, /*sequential=*/false);
    simulation.set_multiplier(4);
    simulation.ChangeStyles(37);
    simulation.Run();
    EXPECT_GT(simulation.merges(), 50);
    EXPECT_GT(simulation.most_runs(), 1u);
  }
}

}  // namespace
}  // namespace sievedb
