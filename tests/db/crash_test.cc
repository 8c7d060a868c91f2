// A writer is killed with SIGKILL again and again, in the middle of whatever it
// does; after each death the database must hold a prefix of what was written, with
// all of what was acknowledged. SIEVEDB_CRASH_ROUNDS asks for more rounds,
// SIEVEDB_CRASH_SEED repeats one.

#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "sievedb/db.h"
#include "tests/db/history.h"

namespace sievedb {
namespace {

using Model = std::map<std::string, std::string>;

constexpr char kCounterKey[] = "the number of the last batch";

// Batch number `number` of the history: always the same one.
void ForEachChange(
    uint64_t number, uint64_t seed,
    const std::function<void(const std::string& key, const std::string* value)>& fn) {
  std::mt19937_64 random(seed ^ number * 0x9e3779b97f4a7c15);
  const uint64_t changes = 1 + random() % 4;
  for (uint64_t i = 0; i < changes; ++i) {
    const std::string key = "key" + std::to_string(random() % 3000);
    if (random() % 4 == 0) {
      fn(key, nullptr);
    } else {
      const std::string value(random() % 400, static_cast<char>('a' + random() % 26));
      fn(key, &value);
    }
  }
  const std::string counter = std::to_string(number);
  fn(kCounterKey, &counter);
}

Options RandomOptions(std::mt19937_64* random) {
  Options options;
  options.write_buffer_bytes = size_t{64} << 10 << (*random)() % 4;
  options.level_base_bytes = 256 << 10;
  options.target_file_bytes = 128 << 10;
  options.compaction_style = StyleOf((*random)());
  options.level_size_multiplier = 2 + static_cast<double>((*random)() % 4);
  options.level0_file_trigger = 2 + static_cast<int>((*random)() % 3);
  options.max_background_jobs = 1 + static_cast<int>((*random)() % 3);
  return options;
}

// In the child: writes batches from `first` on until it is killed.
[[noreturn]] void WriteUntilKilled(const std::string& path, const Options& options, uint64_t seed,
                                   uint64_t first, std::atomic<uint64_t>* acknowledged) {
  absl::StatusOr<std::unique_ptr<DB>> db = DB::Open(options, path);
  if (!db.ok()) _exit(3);
  for (uint64_t number = first;; ++number) {
    WriteBatch batch;
    ForEachChange(number, seed, [&](const std::string& key, const std::string* value) {
      value == nullptr ? batch.Delete(key) : batch.Put(key, *value);
    });
    WriteOptions write;
    write.sync = number % 50 == 0;
    if (!(*db)->Write(write, &batch).ok()) _exit(4);
    acknowledged->store(number);
  }
}

class CrashTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "sievedb_crash_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    path_ = name;
    void* shared = mmap(nullptr, sizeof(std::atomic<uint64_t>), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(shared, MAP_FAILED);
    acknowledged_ = ::new (shared) std::atomic<uint64_t>(0);
  }
  void TearDown() override {
    std::filesystem::remove_all(path_);
    munmap(acknowledged_, sizeof(std::atomic<uint64_t>));
  }

  std::string path_;
  std::atomic<uint64_t>* acknowledged_ = nullptr;
};

TEST_F(CrashTest, EveryDeathLeavesAPrefixWithAllThatWasAcknowledged) {
  const char* rounds_text = std::getenv("SIEVEDB_CRASH_ROUNDS");
  const char* seed_text = std::getenv("SIEVEDB_CRASH_SEED");
  const int rounds = rounds_text == nullptr ? 12 : std::atoi(rounds_text);
  const uint64_t seed = seed_text == nullptr ? 1 : std::strtoull(seed_text, nullptr, 10);
  SCOPED_TRACE("repeat with SIEVEDB_CRASH_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  Model model;
  uint64_t applied = 0;
  for (int round = 0; round < rounds; ++round) {
    const Options options = RandomOptions(&random);
    acknowledged_->store(applied);
    // Dies once so many more are acknowledged; where exactly, chance decides.
    const uint64_t target = applied + 1 + random() % 3000;
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) WriteUntilKilled(path_, options, seed, applied + 1, acknowledged_);
    int exit_status = 0;
    while (acknowledged_->load() < target) {
      ASSERT_EQ(waitpid(child, &exit_status, WNOHANG), 0)
          << "the writer ended by itself: " << WEXITSTATUS(exit_status);
      sched_yield();
    }
    kill(child, SIGKILL);
    ASSERT_EQ(waitpid(child, &exit_status, 0), child);

    absl::StatusOr<std::unique_ptr<DB>> db = DB::Open(options, path_);
    ASSERT_TRUE(db.ok()) << "round " << round << ": " << db.status();
    std::string counter;
    ASSERT_TRUE((*db)->Get(ReadOptions(), kCounterKey, &counter).ok()) << "round " << round;
    const uint64_t found = std::strtoull(counter.c_str(), nullptr, 10);
    ASSERT_GE(found, acknowledged_->load()) << "an acknowledged batch is lost in round " << round;
    for (; applied < found; ++applied) {
      ForEachChange(applied + 1, seed, [&](const std::string& key, const std::string* value) {
        if (value == nullptr) {
          model.erase(key);
        } else {
          model[key] = *value;
        }
      });
    }
    const auto it = (*db)->NewIterator(ReadOptions());
    it->SeekToFirst();
    for (const auto& [key, value] : model) {
      ASSERT_TRUE(it->Valid()) << "round " << round << " misses " << key << ": " << it->status();
      ASSERT_EQ(it->key(), key);
      ASSERT_EQ(it->value(), value);
      it->Next();
    }
    ASSERT_FALSE(it->Valid());
    ASSERT_TRUE((*db)->VerifyChecksums().ok());
  }
}

}  // namespace
}  // namespace sievedb
