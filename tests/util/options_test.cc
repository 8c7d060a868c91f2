#include "sievedb/options.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>

namespace sievedb {
namespace {

class NamelessExtractor final : public PrefixExtractor {
 public:
  const char* Name() const override { return ""; }
  std::optional<std::string_view> Prefix(std::string_view) const override { return std::nullopt; }
};

class NamedOrder final : public Comparator {
 public:
  explicit NamedOrder(const char* name) : name_(name) {}
  int Compare(std::string_view a, std::string_view b) const override { return a.compare(b); }
  const char* Name() const override { return name_; }

 private:
  const char* const name_;
};

class NoThreads final : public ThreadPool {
 public:
  void Schedule(Priority /*priority*/, std::function<void()> /*work*/) override {}
  int ThreadCount() const override { return 0; }
};

// The message of Validate after change; "" where it is OK.
std::string Fault(const std::function<void(Options*)>& change) {
  Options options;
  change(&options);
  const absl::Status status = options.Validate();
  EXPECT_TRUE(status.ok() || status.code() == absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

TEST(OptionsTest, DefaultsAreValid) {
  EXPECT_EQ(Fault([](Options*) {}), "");
  EXPECT_EQ(Fault([](Options* o) { o->comparator = ReverseBytewiseComparator(); }), "");
}

TEST(OptionsTest, EdgesAreValid) {
  EXPECT_EQ(Fault([](Options* o) {
              o->write_buffer_bytes = 64 << 10;
              o->max_write_buffers = 2;
              o->block_cache_bytes = 0;
              o->max_open_files = 0;
              o->block_bytes = 256;
              o->block_restart_interval = 1;
              o->compression = Compression::kNone;
              o->filter_policy = nullptr;
              o->compaction_style = CompactionStyle::kLazyLeveling;
              o->max_space_amplification = 1.0000001;
              o->level0_file_trigger = 1;
              o->level0_slowdown_trigger = 1;
              o->level0_stop_trigger = 1;
              o->level_base_bytes = 1;
              o->level_size_multiplier = 2;
              o->target_file_bytes = 256;
              o->soft_pending_compaction_bytes = 1;
              o->hard_pending_compaction_bytes = 1;
              o->max_background_jobs = 1;
              o->bytes_per_writeback = 0;
              o->wal_recovery = WalRecovery::kSalvage;
            }),
            "");
  EXPECT_EQ(Fault([](Options* o) { o->block_bytes = 64 << 20; }), "");
}

TEST(OptionsTest, NamesTheBadField) {
  const struct {
    std::function<void(Options*)> change;
    const char* message;
  } kCases[] = {
      {[](Options* o) { o->wal_recovery = static_cast<WalRecovery>(5); },
       "wal_recovery: 5 is not known"},
      {[](Options* o) { o->comparator = nullptr; }, "comparator: null"},
      {[](Options* o) { o->write_buffer_bytes = 0; }, "write_buffer_bytes: 0 is below 64 KiB"},
      {[](Options* o) { o->write_buffer_bytes = 65535; },
       "write_buffer_bytes: 65535 is below 64 KiB"},
      {[](Options* o) { o->max_write_buffers = 1; }, "max_write_buffers: 1 is below 2"},
      {[](Options* o) { o->max_open_files = -1; }, "max_open_files: -1 is below 0"},
      {[](Options* o) { o->block_bytes = 255; }, "block_bytes: 255 is below 256"},
      {[](Options* o) { o->block_bytes = (64 << 20) + 1; },
       "block_bytes: 67108865 is above 64 MiB"},
      {[](Options* o) { o->block_restart_interval = 0; }, "block_restart_interval: 0 is below 1"},
      {[](Options* o) { o->compression = static_cast<Compression>(2); },
       "compression: 2 is not known"},
      {[](Options* o) {
         o->filter_memory_bytes = 7;
         o->plan_filter_memory = false;
       },
       "filter_memory_bytes: 7, but plan_filter_memory is off"},
      {[](Options* o) {
         o->filter_memory_bytes = 7;
         o->filter_policy = nullptr;
       },
       "filter_memory_bytes: 7, but there is no filter_policy"},
      {[](Options* o) { o->prefix_extractor = std::make_shared<NamelessExtractor>(); },
       "prefix_extractor: its Name() is empty"},
      {[](Options* o) { o->compaction_style = static_cast<CompactionStyle>(9); },
       "compaction_style: 9 is not known"},
      {[](Options* o) { o->max_space_amplification = 1; },
       "max_space_amplification: 1 is not a finite number above 1"},
      {[](Options* o) { o->max_space_amplification = std::numeric_limits<double>::quiet_NaN(); },
       "max_space_amplification: nan is not a finite number above 1"},
      {[](Options* o) { o->level0_file_trigger = 0; }, "level0_file_trigger: 0 is below 1"},
      {[](Options* o) { o->level0_slowdown_trigger = 3; },
       "level0_slowdown_trigger: 3 is below level0_file_trigger, 4"},
      {[](Options* o) { o->level0_stop_trigger = 19; },
       "level0_stop_trigger: 19 is below level0_slowdown_trigger, 20"},
      {[](Options* o) { o->level_base_bytes = 0; }, "level_base_bytes: 0 is below 1"},
      {[](Options* o) { o->level_size_multiplier = 1.5; },
       "level_size_multiplier: 1.5 is not a finite number from 2 on"},
      {[](Options* o) { o->level_size_multiplier = std::numeric_limits<double>::infinity(); },
       "level_size_multiplier: inf is not a finite number from 2 on"},
      {[](Options* o) { o->level_size_multiplier = std::numeric_limits<double>::quiet_NaN(); },
       "level_size_multiplier: nan is not a finite number from 2 on"},
      {[](Options* o) { o->target_file_bytes = 4095; },
       "target_file_bytes: 4095 is below block_bytes, 4096"},
      {[](Options* o) { o->soft_pending_compaction_bytes = 0; },
       "soft_pending_compaction_bytes: 0 is below 1"},
      {[](Options* o) { o->hard_pending_compaction_bytes = 5; },
       "hard_pending_compaction_bytes: 5 is below soft_pending_compaction_bytes, 68719476736"},
      {[](Options* o) { o->max_background_jobs = 0; }, "max_background_jobs: 0 is below 1"},
      {[](Options* o) { o->max_background_jobs = 1025; },
       "max_background_jobs: 1025 is above 1024"},
      {[](Options* o) { o->background_pool = std::make_shared<NoThreads>(); },
       "background_pool: its ThreadCount(), 0, is below 1"},
      {[](Options* o) { o->listeners.push_back(nullptr); }, "listeners: number 0 is null"},
  };
  for (const auto& c : kCases) EXPECT_EQ(Fault(c.change), c.message);
}

TEST(OptionsTest, TheFirstBadFieldIsNamed) {
  EXPECT_EQ(Fault([](Options* o) {
              o->max_background_jobs = 0;
              o->block_bytes = 1;
              o->max_write_buffers = 0;
            }),
            "max_write_buffers: 0 is below 2");
}

TEST(OptionsTest, ComparatorNames) {
  const NamedOrder good("test.order");
  EXPECT_EQ(Fault([&](Options* o) { o->comparator = &good; }), "");
  const NamedOrder reserved("sievedb.mine");
  EXPECT_EQ(Fault([&](Options* o) { o->comparator = &reserved; }),
            "comparator: its Name(), sievedb.mine, begins with \"sievedb.\", which is reserved");
  const NamedOrder empty("");
  EXPECT_EQ(Fault([&](Options* o) { o->comparator = &empty; }), "comparator: its Name() is empty");
  const NamedOrder null(nullptr);
  EXPECT_EQ(Fault([&](Options* o) { o->comparator = &null; }), "comparator: its Name() is empty");
}

}  // namespace
}  // namespace sievedb
