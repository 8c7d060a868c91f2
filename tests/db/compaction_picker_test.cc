#include "db/compaction_picker.h"

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <string_view>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "tests/data_driven.h"
#include "tests/db/version_test_util.h"

namespace sievedb {
namespace {

using version_test::MakeFile;

// The state that a case describes. Each line of its input is one of
//   L5: 7:[a-c] 8:[d-f]#20*300!50    tables number:[smallest-largest], then as wanted
//                                    #sequence (1) *bytes (100) !tombstones (0, of 100)
//   busy 7 8                         tables of compactions that run
//   running 5->6 [a-f]               where a compaction writes
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
        for (size_t i = 1; i < words.size(); ++i) ParseTable(words[0][1] - '0', words[i]);
      } else if (words[0] == "busy") {
        for (size_t i = 1; i < words.size(); ++i) running.busy_files.insert(std::stoull(words[i]));
      } else if (words[0] == "running") {
        const size_t dash = words[2].find('-');
        running.ranges.push_back({words[1][0] - '0', words[1][3] - '0',
                                  words[2].substr(1, dash - 1),
                                  words[2].substr(dash + 1, words[2].size() - dash - 2)});
      } else {
        ADD_FAILURE() << "line " << test.line << ": not understood: " << line;
      }
    }
  }

  void ParseTable(int level, const std::string& word) {
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
    edit.added_files.emplace_back(level, std::move(file));
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
// levels' invariants. Here it is checked that no two plans share a table, that
// every key is found as it was last written, and that all comes to rest.
class Simulation {
 public:
  Simulation(uint64_t seed, bool sequential) : random_(seed), sequential_(sequential) {
    version_ = world_.Build();
  }

  void Run() {
    for (int step = 0; step < 20000 && !testing::Test::HasFailure(); ++step) {
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
    EXPECT_TRUE(plans_.empty());
    for (const double score : ComputeScores(world_.options, *version_, world_.running)) {
      EXPECT_LT(score, 1);
    }
  }

  int moves() const { return moves_; }
  int merges() const { return merges_; }
  int merges_within_level0() const { return merges_within_level0_; }

 private:
  using Contents = std::map<std::string, uint64_t>;  // user key: sequence
  static constexpr uint64_t kEntryBytes = 5;

  std::shared_ptr<FileMeta> NewTable(Contents contents) {
    auto file = MakeFile(next_++, contents.begin()->first, contents.rbegin()->first, 1,
                         kEntryBytes * contents.size());
    file->largest_sequence = 0;
    for (const auto& [key, sequence] : contents) {
      file->largest_sequence = std::max(file->largest_sequence, sequence);
    }
    contents_[file->number] = std::move(contents);
    return file;
  }

  void Flush() {
    ++sequence_;
    Contents contents;
    for (uint64_t i = 0; i < 20; ++i) {
      const uint64_t n = sequential_ ? sequence_ * 20 + i : random_() % 400;
      contents[absl::StrFormat("%06d", n)] = sequence_;
    }
    for (const auto& [key, sequence] : contents) newest_[key] = sequence;
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
    ASSERT_TRUE(found == newest_) << version_->DebugString();
  }

  void Begin(const CompactionPlan& plan) {
    for (const auto* files : {&plan.inputs, &plan.output_inputs}) {
      for (const FileRef& file : *files) {
        ASSERT_TRUE(world_.running.busy_files.insert(file->number).second) << file->number;
      }
    }
    world_.running.ranges.push_back(
        {plan.input_level, plan.output_level, plan.smallest, plan.largest});
    plans_.push_back(plan);
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
          edit.added_files.emplace_back(plan.output_level, std::const_pointer_cast<FileMeta>(file));
        }
      }
    }
    if (plan.trivial_move) {
      ++moves_;
    } else {
      ++(plan.output_level == 0 ? merges_within_level0_ : merges_);
      Contents table;
      for (const auto& entry : merged) {
        table.insert(entry);
        if (plan.output_level > 0 && table.size() == 20) {
          edit.added_files.emplace_back(plan.output_level, NewTable(std::exchange(table, {})));
        }
      }
      if (!table.empty()) edit.added_files.emplace_back(plan.output_level, NewTable(table));
    }
    Apply(edit);
  }

  std::mt19937_64 random_;
  const bool sequential_;
  const int flush_steps_ = sequential_ ? 200 : 600;
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
};

TEST(CompactionPickerTest, RandomLoadKeepsTheInvariants) {
  Simulation simulation(17, /*sequential=*/false);
  simulation.Run();
  EXPECT_GT(simulation.merges(), 100);
  EXPECT_GT(simulation.merges_within_level0(), 5);
}

TEST(CompactionPickerTest, SequentialLoadOnlyMoves) {
  Simulation simulation(18, /*sequential=*/true);
  simulation.Run();
  EXPECT_EQ(simulation.merges(), 0);
  EXPECT_EQ(simulation.merges_within_level0(), 0);
  EXPECT_GT(simulation.moves(), 100);
}

}  // namespace
}  // namespace sievedb
