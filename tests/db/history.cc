#include "tests/db/history.h"

#include <cstdlib>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "db/file_names.h"

namespace sievedb {
namespace {

constexpr std::string_view kCounterKey = "the number of the last batch";
constexpr uint64_t kKeys = 120;

std::string HistoryKey(uint64_t i) { return "key" + std::to_string(i); }

// Neither a value nor an end: the key is deleted. An end: the range from the key on is.
struct Change {
  std::string key;
  std::optional<std::string> value;
  std::optional<std::string> end;
};

void ForEachChange(uint64_t number, const std::function<void(const Change&)>& fn) {
  std::mt19937_64 random(number * 0x9e3779b97f4a7c15);
  const uint64_t changes = 1 + random() % 4;
  for (uint64_t i = 0; i < changes; ++i) {
    const std::string key = HistoryKey(random() % kKeys);
    const uint64_t kind = random() % 16;
    if (kind == 0) {
      // Of one or two digits more than key's, up to all that begin with its number.
      fn({key, {}, key + static_cast<char>('0' + random() % 11)});
    } else if (kind < 4) {
      fn({key, {}, {}});
    } else {
      std::string value(500 + random() % 2500, '\0');
      for (char& c : value) c = static_cast<char>('a' + random() % 26);  // hardly compresses
      fn({key, std::move(value), {}});
    }
  }
  fn({std::string(kCounterKey), std::to_string(number), {}});
}

std::map<std::string, std::string> StateAfter(uint64_t batches) {
  std::map<std::string, std::string> state;
  for (uint64_t number = 1; number <= batches; ++number) {
    ForEachChange(number, [&](const Change& change) {
      if (change.end) {
        state.erase(state.lower_bound(change.key), state.lower_bound(*change.end));
      } else if (change.value) {
        state[change.key] = *change.value;
      } else {
        state.erase(change.key);
      }
    });
  }
  return state;
}

// The table numbers in "sievedb.sstables": the digits before each '['. No key of
// the history holds one.
std::set<uint64_t> TablesOf(DB* db) {
  const std::string text = db->GetProperty("sievedb.sstables").value();
  std::set<uint64_t> numbers;
  for (size_t at = text.find('['); at != text.npos; at = text.find('[', at + 1)) {
    size_t begin = at;
    while (begin > 0 && text[begin - 1] >= '0' && text[begin - 1] <= '9') --begin;
    numbers.insert(std::strtoull(text.c_str() + begin, nullptr, 10));
  }
  return numbers;
}

}  // namespace

CompactionStyle StyleOf(uint64_t seed) {
  constexpr CompactionStyle kStyles[] = {CompactionStyle::kLeveled, CompactionStyle::kLazyLeveling,
                                         CompactionStyle::kTiered};
  return kStyles[seed % std::size(kStyles)];
}

Options SmallOptions(std::shared_ptr<FileSystem> file_system, CompactionStyle style) {
  Options options;
  options.compaction_style = style;
  options.file_system = std::move(file_system);
  options.write_buffer_bytes = 64 << 10;
  options.level_base_bytes = 128 << 10;
  options.target_file_bytes = 32 << 10;
  options.block_cache_bytes = 1 << 20;
  options.level0_file_trigger = 2;
  options.max_background_jobs = 1;
  return options;
}

WriteBatch HistoryBatch(uint64_t number) {
  WriteBatch batch;
  ForEachChange(number, [&](const Change& change) {
    if (change.end) {
      batch.DeleteRange(change.key, *change.end);
    } else if (change.value) {
      batch.Put(change.key, *change.value);
    } else {
      batch.Delete(change.key);
    }
  });
  return batch;
}

testing::AssertionResult ReadHistory(DB* db, uint64_t* batches) {
  *batches = 0;
  std::string value;
  absl::Status status = db->Get(ReadOptions(), kCounterKey, &value);
  if (status.ok()) {
    *batches = std::strtoull(value.c_str(), nullptr, 10);
  } else if (!absl::IsNotFound(status)) {
    return testing::AssertionFailure() << "Get: " << status;
  }
  const std::map<std::string, std::string> state = StateAfter(*batches);
  const auto failure = [&] {
    return testing::AssertionFailure() << "after " << *batches << " batches: ";
  };
  const std::unique_ptr<Iterator> it = db->NewIterator(ReadOptions());
  it->SeekToFirst();
  for (const auto& [key, expected] : state) {
    if (!it->Valid()) return failure() << "the scan misses " << key << ": " << it->status();
    if (it->key() != key) return failure() << "expected " << key << ", found " << it->key();
    if (it->value() != expected) return failure() << key << " has another batch's value";
    it->Next();
  }
  if (it->Valid()) return failure() << "the scan has " << it->key() << " too";
  if (!it->status().ok()) return failure() << it->status();
  for (uint64_t i = 0; i < kKeys; ++i) {
    const std::string key = HistoryKey(i);
    status = db->Get(ReadOptions(), key, &value);
    const auto expected = state.find(key);
    const bool right = expected == state.end() ? absl::IsNotFound(status)
                                               : status.ok() && value == expected->second;
    if (!right) return failure() << "Get of " << key << ": " << status;
  }
  status = db->VerifyChecksums();
  if (!status.ok()) return failure() << status;
  return testing::AssertionSuccess();
}

void RunHistory(const Options& options, const std::string& path, HistoryProgress* progress,
                std::unique_ptr<DB>* db, const HistoryStep& step) {
  const auto open = [&] {
    absl::StatusOr<std::unique_ptr<DB>> opened = DB::Open(options, path);
    if (opened.ok()) *db = *std::move(opened);
    return opened.status();
  };
  if (!step(StepKind::kOpen, open)) return;
  for (uint64_t number = 1; number <= kHistoryBatches; ++number) {
    WriteBatch batch = HistoryBatch(number);
    WriteOptions write;
    write.sync = number % 8 == 0;
    progress->issued.store(number);
    if (!step(StepKind::kWrite, [&] { return (*db)->Write(write, &batch); })) return;
    // In this order: what is synced is acknowledged.
    progress->acknowledged.store(number);
    if (write.sync) progress->synced.store(number);
    bool goes_on = true;
    switch (number) {
      case 50:
        goes_on = step(StepKind::kMaintenance, [&] { return (*db)->Flush(FlushOptions()); });
        break;
      case 90:
        goes_on = step(StepKind::kMaintenance, [&] {
          return (*db)->CompactRange(CompactRangeOptions(), nullptr, nullptr);
        });
        break;
      case 70:
      case 110:
        goes_on = step(StepKind::kClose, [&] { return (*db)->Close(); });
        if (goes_on) {
          progress->synced.store(number);
          db->reset();
          goes_on = step(StepKind::kOpen, open);
        }
        break;
      default:
        break;
    }
    if (!goes_on) return;
  }
}

testing::AssertionResult CloseAndCheckDirectory(std::unique_ptr<DB> db, FileSystem* file_system,
                                                const std::string& path) {
  std::set<uint64_t> tables = TablesOf(db.get());
  if (const absl::Status status = db->Close(); !status.ok()) {
    return testing::AssertionFailure() << "Close: " << status;
  }
  db.reset();
  std::map<FileKind, int> counts;
  const std::vector<std::string> names = file_system->GetChildren(path).value();
  for (const std::string& name : names) {
    const std::optional<ParsedFileName> parsed = ParseFileName(name);
    if (!parsed.has_value()) return testing::AssertionFailure() << "whose file is " << name << "?";
    ++counts[parsed->kind];
    if (parsed->kind == FileKind::kTable && tables.erase(parsed->number) == 0) {
      return testing::AssertionFailure() << name << " is not referred to";
    }
  }
  if (!tables.empty()) return testing::AssertionFailure() << *tables.begin() << ".sst is missing";
  for (const FileKind kind : {FileKind::kWal, FileKind::kManifest, FileKind::kOptions}) {
    if (counts[kind] == 1) continue;
    auto failure = testing::AssertionFailure() << "expected one WAL, MANIFEST and OPTIONS, found:";
    for (const std::string& name : names) failure << " " << name;
    return failure;
  }
  if (counts[FileKind::kTemporary] > 0) return testing::AssertionFailure() << "a .tmp is left";
  return testing::AssertionSuccess();
}

}  // namespace sievedb
