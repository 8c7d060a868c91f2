// Random operations under random options, checked against a std::map. A failure
// prints its seed; SIEVEDB_MODEL_SEED repeats it, SIEVEDB_MODEL_RUNS asks for more.

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "sievedb/db.h"
#include "sievedb/sst_file_writer.h"
#include "tests/db/history.h"

namespace sievedb {
namespace {

// Orders keys by length first: no word or byte order helps here.
class LengthComparator : public Comparator {
 public:
  int Compare(std::string_view a, std::string_view b) const override {
    if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
    return a.compare(b);
  }
  const char* Name() const override { return "test.Length"; }
};

const Comparator* LengthOrder() {
  static const LengthComparator comparator;
  return &comparator;
}

struct Less {
  const Comparator* comparator;
  bool operator()(const std::string& a, const std::string& b) const {
    return comparator->Compare(a, b) < 0;
  }
};
using Model = std::map<std::string, std::string, Less>;

class ModelRun {
 public:
  explicit ModelRun(uint64_t seed) : random_(seed), model_(Less{PickComparator()}) {
    // Only the real file system has mapped files and logs.
    if (seed % 6 == 0) {
      file_system_ = PosixFileSystem();
      path_ = testing::TempDir() + "/sievedb_model_" + std::to_string(getpid());
    }
    key_space_ = Chance(2) ? 200 : 5000;
    Reopen();
  }
  ~ModelRun() {
    snapshots_.clear();
    db_ = nullptr;
    Options options;
    options.file_system = file_system_;
    EXPECT_TRUE(DestroyDB(options, path_).ok());
  }

  void Run(int operations) {
    for (int i = 0; i < operations && !testing::Test::HasFatalFailure(); ++i) Step();
    CheckAll(model_, ReadOptions());
    ASSERT_TRUE(db_->VerifyChecksums().ok());
    Reopen();
    CheckAll(model_, ReadOptions());
  }

 private:
  uint64_t Random(uint64_t below) { return random_() % below; }
  bool Chance(uint64_t one_in) { return Random(one_in) == 0; }

  const Comparator* PickComparator() {
    const Comparator* all[] = {BytewiseComparator(), BytewiseComparator(),
                               ReverseBytewiseComparator(), LengthOrder()};
    comparator_ = all[Random(4)];
    return comparator_;
  }

  Options RandomOptions() {
    extractor_ = RandomExtractor();
    return RandomOptions(extractor_);
  }

  Options RandomOptions(std::shared_ptr<const PrefixExtractor> extractor) {
    Options options;
    options.file_system = file_system_;
    options.comparator = comparator_;
    options.write_buffer_bytes = size_t{64} << 10 << Random(3);
    options.max_write_buffers = 2 + static_cast<int>(Random(3));
    options.block_cache_bytes = Chance(3) ? 0 : size_t{1} << (12 + Random(12));
    options.max_open_files = Chance(2) ? 0 : 3;
    options.mmap_reads = Chance(2);
    options.block_bytes = size_t{256} << Random(6);
    options.block_restart_interval = 1 + static_cast<int>(Random(20));
    options.compression = Chance(2) ? Compression::kNone : Compression::kSnappy;
    options.filter_policy = RandomFilterPolicy();
    options.plan_filter_memory = !Chance(3);
    options.access_aware_filters = !Chance(3);
    if (options.filter_policy != nullptr && options.plan_filter_memory && Chance(3)) {
      options.filter_memory_bytes = 1 + Random(20'000);
    }
    options.prefix_extractor = std::move(extractor);
    options.compaction_style = StyleOf(random_());
    options.max_space_amplification = 1.1 + static_cast<double>(Random(20)) / 10;
    options.level0_file_trigger = 1 + static_cast<int>(Random(6));
    options.level_base_bytes = uint64_t{128} << 10;
    options.level_size_multiplier = 2 + static_cast<double>(Random(9));
    options.target_file_bytes = uint64_t{64} << 10 << Random(3);
    options.max_background_jobs = 1 + static_cast<int>(Random(4));
    if (Chance(2)) options.statistics = NewStatistics();
    return options;
  }

  void Reopen() {
    snapshots_.clear();
    db_ = nullptr;
    absl::StatusOr<std::unique_ptr<DB>> db = DB::Open(RandomOptions(), path_);
    ASSERT_TRUE(db.ok()) << db.status();
    db_ = *std::move(db);
  }

  std::string RandomKey() {
    const std::string digits = std::to_string(Random(key_space_));
    switch (Random(8)) {
      case 0:
        return digits.substr(1);  // short ones, the empty one among them
      case 1:
        return "a long prefix that all of these share " + digits;
      case 2:
        return std::string(Random(4), '\0') + digits;
      case 3:
        return std::string(Random(3), '\xff') + digits;
      default:
        return "key" + digits;
    }
  }

  std::string RandomValue() {
    const size_t size = Chance(50) ? Random(20000) : Random(200);
    std::string value(size, static_cast<char>('a' + Random(26)));
    for (size_t i = 0; i < size; i += 3) value[i] = static_cast<char>(random_());
    return value;
  }

  WriteOptions RandomWriteOptions() {
    WriteOptions options;
    options.sync = Chance(20);
    return options;
  }

  void Step() {
    switch (Random(100)) {
      case 0:
        return Reopen();
      case 1:
        ASSERT_TRUE(db_->Flush(FlushOptions()).ok());
        return;
      case 2:
        return Compact();
      case 3:
        return TakeOrDropSnapshot();
      case 4:
        return CheckSnapshots();
      case 5:
        CheckAll(model_, ReadOptions());
        return;
      case 6:
      case 7:
        return CheckRange();
      case 8:
      case 9:
        return CheckMultiGet();
      case 10:
        return Ingest();
      case 11:
      case 12:
        return DeleteRange();
      default:
        break;
    }
    if (Random(100) < 25) return CheckGet(RandomKey());
    if (Random(100) < 30) return Batch();
    const std::string key = RandomKey();
    if (Random(100) < 30) {
      ASSERT_TRUE(db_->Delete(RandomWriteOptions(), key).ok());
      model_.erase(key);
    } else {
      const std::string value = RandomValue();
      ASSERT_TRUE(db_->Put(RandomWriteOptions(), key, value).ok());
      model_[key] = value;
    }
  }

  void Batch() {
    WriteBatch batch;
    const uint64_t changes = Random(20);
    for (uint64_t i = 0; i < changes; ++i) {
      const std::string key = RandomKey();
      if (Chance(12)) {
        const auto [begin, end] = RandomRange();
        batch.DeleteRange(begin, end);
        EraseRange(begin, end);
      } else if (Chance(3)) {
        batch.Delete(key);
        model_.erase(key);
      } else {
        const std::string value = RandomValue();
        batch.Put(key, value);
        model_[key] = value;
      }
    }
    ASSERT_TRUE(db_->Write(RandomWriteOptions(), &batch).ok());
  }

  // Mostly a few keys; now and then a third of all.
  std::pair<std::string, std::string> RandomRange() {
    std::string begin = RandomKey();
    std::string end = RandomKey();
    if (!Chance(6)) {
      auto it = model_.lower_bound(begin);
      for (uint64_t i = Random(12); i > 0 && it != model_.end(); --i) ++it;
      if (it != model_.end()) end = it->first;
    }
    if (comparator_->Compare(begin, end) > 0) std::swap(begin, end);
    return {begin, end};
  }

  void EraseRange(const std::string& begin, const std::string& end) {
    model_.erase(model_.lower_bound(begin), model_.lower_bound(end));
  }

  void DeleteRange() {
    const auto [begin, end] = RandomRange();
    ASSERT_TRUE(db_->DeleteRange(RandomWriteOptions(), begin, end).ok());
    EraseRange(begin, end);
  }

  // Tables of the next keys in order, a few each.
  void Ingest() {
    Model changes(model_.key_comp());  // an empty string: deleted
    for (uint64_t i = 1 + Random(Chance(2) ? 5 : 300); i > 0; --i) {
      changes[RandomKey()] = Chance(4) ? "" : RandomValue() + "!";
    }
    const uint64_t tables = 1 + Random(4);
    std::vector<std::string> paths;
    std::optional<SstFileWriter> writer;
    uint64_t left = 0;  // of the table
    for (const auto& [key, value] : changes) {
      if (left == 0) {
        if (writer.has_value()) {
          ASSERT_TRUE(writer->Finish().ok());
        }
        writer.emplace(RandomOptions(extractor_));
        paths.push_back(path_ + ".table" + std::to_string(paths.size()));
        ASSERT_TRUE(writer->Open(paths.back()).ok());
        left = (changes.size() + tables - 1) / tables;
      }
      --left;
      ASSERT_TRUE((value.empty() ? writer->Delete(key) : writer->Put(key, value)).ok());
      if (value.empty()) {
        model_.erase(key);
      } else {
        model_[key] = value;
      }
    }
    ASSERT_TRUE(writer->Finish().ok());
    std::shuffle(paths.begin(), paths.end(), random_);
    IngestOptions options;
    options.verify_checksums = !Chance(3);
    options.link_files = !Chance(3);
    const absl::Status status = db_->IngestExternalFiles(paths, options);
    ASSERT_TRUE(status.ok()) << status;
    // They are the caller's still.
    for (const std::string& path : paths) ASSERT_TRUE(file_system_->DeleteFile(path).ok());
  }

  void Compact() {
    std::string begin = RandomKey();
    std::string end = RandomKey();
    if (comparator_->Compare(begin, end) > 0) std::swap(begin, end);
    const std::string_view first = begin;
    const std::string_view last = end;
    CompactRangeOptions options;
    options.rewrite_bottommost = Chance(2);
    const absl::Status status =
        db_->CompactRange(options, Chance(3) ? nullptr : &first, Chance(3) ? nullptr : &last);
    ASSERT_TRUE(status.ok()) << status;
  }

  void TakeOrDropSnapshot() {
    if (snapshots_.size() < 4) {
      snapshots_.emplace_back(db_->GetSnapshot(), model_);
    } else {
      snapshots_.erase(snapshots_.begin() + static_cast<std::ptrdiff_t>(Random(snapshots_.size())));
    }
  }

  void CheckSnapshots() {
    for (const auto& [snapshot, model] : snapshots_) {
      ReadOptions options;
      options.snapshot = snapshot;
      CheckAll(model, options);
      std::string value;
      const std::string key = RandomKey();
      const auto expected = model.find(key);
      const absl::Status status = db_->Get(options, key, &value);
      ASSERT_EQ(status.ok(), expected != model.end()) << status;
      if (!status.ok()) continue;
      ASSERT_EQ(value, expected->second);
    }
  }

  void CheckGet(const std::string& key) {
    const auto expected = model_.find(key);
    std::string value;
    PinnedValue pinned;
    const absl::Status status = db_->Get(ReadOptions(), key, &value);
    const absl::Status again = db_->Get(ReadOptions(), key, &pinned);
    if (expected == model_.end()) {
      ASSERT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
      ASSERT_EQ(again.code(), absl::StatusCode::kNotFound) << again;
      return;
    }
    ASSERT_TRUE(status.ok()) << status << " of " << key;
    ASSERT_EQ(value, expected->second);
    ASSERT_TRUE(again.ok()) << again;
    ASSERT_EQ(pinned.view(), expected->second);
    ASSERT_TRUE(db_->MayContain(ReadOptions(), key));
  }

  std::shared_ptr<const FilterPolicy> RandomFilterPolicy() {
    const double bits = 1 + static_cast<double>(Random(20));
    switch (Random(8)) {
      case 0:
        return nullptr;
      case 1:
        return NewDenseBlockedBloomPolicy(bits);
      case 2:
        return NewBloomPolicy(bits);
      case 3:
        return NewRibbonPolicy(bits);
      case 4:
        return NewBinaryFusePolicy();
      default:
        return NewBlockedBloomPolicy(bits);
    }
  }

  // Its prefixes are contiguous in the order of bytes only, and its reverse.
  std::shared_ptr<const PrefixExtractor> RandomExtractor() {
    if (comparator_ != BytewiseComparator() && comparator_ != ReverseBytewiseComparator()) {
      return nullptr;
    }
    switch (Random(4)) {
      case 0:
        return nullptr;
      case 1:
        return NewDelimiterPrefixExtractor('1', 1 + static_cast<int>(Random(3)));
      default:
        return NewFixedPrefixExtractor(Random(6));
    }
  }

  std::optional<std::string> PrefixOf(const std::string& key) const {
    const std::optional<std::string_view> prefix = extractor_->Prefix(key);
    if (!prefix.has_value()) return std::nullopt;
    return std::string(*prefix);
  }

  void CheckMultiGet() {
    std::vector<std::string> keys;
    for (uint64_t i = Random(80); i > 0; --i) keys.push_back(RandomKey());
    ReadOptions options;
    options.async_io = Chance(2);
    const std::vector<std::string_view> views(keys.begin(), keys.end());
    std::vector<PinnedValue> values(keys.size());
    std::vector<absl::Status> statuses(keys.size());
    db_->MultiGet(options, views, absl::MakeSpan(values), absl::MakeSpan(statuses));
    for (size_t i = 0; i < keys.size(); ++i) {
      const auto expected = model_.find(keys[i]);
      ASSERT_EQ(statuses[i].ok(), expected != model_.end()) << statuses[i];
      if (!statuses[i].ok()) continue;
      ASSERT_EQ(values[i].view(), expected->second);
    }
  }

  // The whole database, both ways.
  void CheckAll(const Model& model, const ReadOptions& options) {
    const auto iterator = db_->NewIterator(options);
    iterator->SeekToFirst();
    for (const auto& [key, value] : model) {
      ASSERT_TRUE(iterator->Valid()) << "ends before " << key << ": " << iterator->status();
      ASSERT_EQ(iterator->key(), key);
      ASSERT_EQ(iterator->value(), value);
      iterator->Next();
    }
    ASSERT_FALSE(iterator->Valid()) << "goes on with " << iterator->key();
    ASSERT_TRUE(iterator->status().ok()) << iterator->status();
    iterator->SeekToLast();
    for (auto it = model.rbegin(); it != model.rend(); ++it) {
      ASSERT_TRUE(iterator->Valid()) << "ends before " << it->first << ": " << iterator->status();
      ASSERT_EQ(iterator->key(), it->first);
      ASSERT_EQ(iterator->value(), it->second);
      iterator->Prev();
    }
    ASSERT_FALSE(iterator->Valid());
    ASSERT_TRUE(iterator->status().ok()) << iterator->status();
  }

  // A walk with seeks and changes of direction inside bounds.
  void CheckRange() {
    ReadOptions options;
    Model::const_iterator first = model_.begin();
    Model::const_iterator last = model_.end();
    if (Chance(2)) {
      options.lower_bound = RandomKey();
      first = model_.lower_bound(*options.lower_bound);
    }
    if (Chance(2)) {
      options.upper_bound = RandomKey();
      last = model_.lower_bound(*options.upper_bound);
    }
    if (options.lower_bound && options.upper_bound &&
        comparator_->Compare(*options.lower_bound, *options.upper_bound) > 0) {
      return;
    }
    options.prefix_same_as_start = extractor_ != nullptr && Chance(2);
    std::optional<std::string> prefix;  // that it stays in
    const auto sought = [&](const std::string& key) {
      prefix = options.prefix_same_as_start ? PrefixOf(key) : std::nullopt;
    };
    const std::vector<std::pair<std::string, std::string>> expected(first, last);
    const auto iterator = db_->NewIterator(options);
    size_t at = expected.size();  // the end
    for (int i = 0; i < 40; ++i) {
      if (Chance(20)) {
        ASSERT_TRUE(iterator->Refresh().ok());
        at = expected.size();
      }
      const uint64_t what = Random(at == expected.size() ? 4 : 10);
      if (what == 0) {
        iterator->SeekToFirst();
        at = 0;
        if (!expected.empty()) sought(expected.front().first);
      } else if (what == 1) {
        iterator->SeekToLast();
        at = expected.empty() ? 0 : expected.size() - 1;
        if (!expected.empty()) sought(expected.back().first);
      } else if (what == 2) {
        const std::string target = RandomKey();
        iterator->Seek(target);
        sought(target);
        at = 0;
        while (at < expected.size() && comparator_->Compare(expected[at].first, target) < 0) ++at;
      } else if (what == 3) {
        const std::string target = RandomKey();
        iterator->SeekForPrev(target);
        sought(target);
        at = expected.size();
        for (size_t j = expected.size(); j > 0; --j) {
          if (comparator_->Compare(expected[j - 1].first, target) <= 0) {
            at = j - 1;
            break;
          }
        }
      } else if (what < 7) {
        iterator->Next();
        ++at;
      } else {
        iterator->Prev();
        at = at == 0 ? expected.size() : at - 1;
      }
      if (prefix.has_value() && at < expected.size() && PrefixOf(expected[at].first) != prefix) {
        at = expected.size();
      }
      ASSERT_TRUE(iterator->status().ok()) << iterator->status();
      ASSERT_EQ(iterator->Valid(), at < expected.size());
      if (!iterator->Valid()) continue;
      ASSERT_EQ(iterator->key(), expected[at].first);
      ASSERT_EQ(iterator->value(), expected[at].second);
    }
  }

  std::mt19937_64 random_;
  const Comparator* comparator_ = nullptr;
  uint64_t key_space_ = 0;
  std::shared_ptr<const PrefixExtractor> extractor_;  // of the options that it is open with
  std::shared_ptr<FileSystem> file_system_ = NewMemoryFileSystem();
  std::string path_ = "/model";
  Model model_;
  std::unique_ptr<DB> db_;
  std::vector<std::pair<std::shared_ptr<const Snapshot>, Model>> snapshots_;
};

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST(ModelTest, RandomOperationsMatchAMap) {
  const uint64_t first_seed = FromEnvironment("SIEVEDB_MODEL_SEED", 1);
  const uint64_t runs = FromEnvironment("SIEVEDB_MODEL_RUNS", 12);
  for (uint64_t seed = first_seed; seed < first_seed + runs; ++seed) {
    SCOPED_TRACE("repeat with SIEVEDB_MODEL_SEED=" + std::to_string(seed));
    ModelRun run(seed);
    run.Run(3000);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace sievedb
