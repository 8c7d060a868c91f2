// LevelDB as compare drives it.

#ifdef SIEVEDB_HAVE_LEVELDB

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "bench/compare_engine.h"
#include "leveldb/cache.h"
#include "leveldb/db.h"
#include "leveldb/env.h"
#include "leveldb/filter_policy.h"
#include "leveldb/options.h"
#include "leveldb/write_batch.h"
#include "util/mutex.h"

namespace sievedb {
namespace {

leveldb::Slice ToSlice(std::string_view text) { return leveldb::Slice(text.data(), text.size()); }

absl::Status ToStatus(const leveldb::Status& status) {
  if (status.ok()) return absl::OkStatus();
  return absl::InternalError("LevelDB: " + status.ToString());
}

// Knows whether background work is pending or running, which LevelDB doesn't
// tell: a piece of work schedules the next before it ends, so the count falls to
// zero only when nothing is left to do.
class CountingEnv final : public leveldb::EnvWrapper {
 public:
  CountingEnv() : leveldb::EnvWrapper(leveldb::Env::Default()) {}

  void Schedule(void (*function)(void*), void* argument) override {
    {
      MutexLock lock(&mu_);
      ++scheduled_;
    }
    auto work = std::make_unique<Work>(Work{this, function, argument});
    leveldb::EnvWrapper::Schedule(&CountingEnv::Run, work.release());
  }

  void WaitUntilIdle() {
    MutexLock lock(&mu_);
    while (scheduled_ > 0) idle_.Wait(&mu_);
  }

 private:
  struct Work {
    CountingEnv* env;
    void (*function)(void*);
    void* argument;
  };

  static void Run(void* raw) {
    const std::unique_ptr<Work> work(static_cast<Work*>(raw));
    work->function(work->argument);
    MutexLock lock(&work->env->mu_);
    if (--work->env->scheduled_ == 0) work->env->idle_.SignalAll();
  }

  Mutex mu_;
  CondVar idle_;
  int scheduled_ ABSL_GUARDED_BY(mu_) = 0;
};

class LevelReader final : public EngineReader {
 public:
  explicit LevelReader(leveldb::DB* db) : db_(db) {}

  Found Get(std::string_view key) override {
    const leveldb::Status status = db_->Get(options_, ToSlice(key), &value_);
    if (status.ok()) return Found::kYes;
    if (status.IsNotFound()) return Found::kNo;
    status_ = ToStatus(status);
    return Found::kError;
  }

  size_t value_bytes() const override { return value_.size(); }

  // LevelDB has no MultiGet: as one would do without it.
  size_t MultiGet(absl::Span<const std::string_view> keys) override {
    size_t found = 0;
    for (const std::string_view key : keys) found += Get(key) == Found::kYes;
    return found;
  }

  absl::Status status() const override { return status_; }

 private:
  leveldb::DB* const db_;
  const leveldb::ReadOptions options_;
  std::string value_;
  absl::Status status_;
};

class LevelCursor final : public EngineCursor {
 public:
  explicit LevelCursor(leveldb::Iterator* iterator) : iterator_(iterator) {}
  void SeekToFirst() override { iterator_->SeekToFirst(); }
  void SeekToLast() override { iterator_->SeekToLast(); }
  void Seek(std::string_view key) override { iterator_->Seek(ToSlice(key)); }
  void Next() override { iterator_->Next(); }
  void Prev() override { iterator_->Prev(); }
  bool Valid() const override { return iterator_->Valid(); }
  size_t EntryBytes() const override { return iterator_->key().size() + iterator_->value().size(); }
  absl::Status status() const override { return ToStatus(iterator_->status()); }

 private:
  const std::unique_ptr<leveldb::Iterator> iterator_;
};

// What must outlive the database.
struct LevelParts {
  CountingEnv env;
  std::unique_ptr<leveldb::Cache> cache;
  std::unique_ptr<const leveldb::FilterPolicy> filter;
};

class LevelEngine final : public Engine {
 public:
  LevelEngine(std::unique_ptr<LevelParts> parts, leveldb::DB* db)
      : parts_(std::move(parts)), db_(db) {
    synced_.sync = true;
  }

  ~LevelEngine() override {
    db_.reset();
    // The last piece of work may be about to touch the environment.
    parts_->env.WaitUntilIdle();
  }

  absl::Status Put(std::string_view key, std::string_view value, bool sync) override {
    return ToStatus(db_->Put(sync ? synced_ : unsynced_, ToSlice(key), ToSlice(value)));
  }
  absl::Status PutBatch(absl::Span<const Entry> entries) override {
    leveldb::WriteBatch batch;
    for (const Entry& entry : entries) batch.Put(ToSlice(entry.first), ToSlice(entry.second));
    return ToStatus(db_->Write(unsynced_, &batch));
  }
  std::unique_ptr<EngineReader> NewReader() override {
    return std::make_unique<LevelReader>(db_.get());
  }
  std::unique_ptr<EngineCursor> NewCursor() override {
    return std::make_unique<LevelCursor>(db_->NewIterator(leveldb::ReadOptions()));
  }
  absl::Status Flush() override { return absl::OkStatus(); }
  absl::Status WaitUntilIdle() override {
    parts_->env.WaitUntilIdle();
    return absl::OkStatus();
  }

 private:
  const std::unique_ptr<LevelParts> parts_;
  std::unique_ptr<leveldb::DB> db_;
  const leveldb::WriteOptions unsynced_;
  leveldb::WriteOptions synced_;
};

absl::Status OpenLevel(const EngineSettings& settings, const std::string& directory,
                       std::unique_ptr<Engine>* engine) {
  auto parts = std::make_unique<LevelParts>();
  parts->cache.reset(leveldb::NewLRUCache(settings.cache_bytes));
  if (settings.bloom_bits > 0) {
    parts->filter.reset(leveldb::NewBloomFilterPolicy(static_cast<int>(settings.bloom_bits)));
  }
  leveldb::Options options;
  options.create_if_missing = true;
  options.env = &parts->env;
  options.write_buffer_size = settings.write_buffer_bytes;
  options.max_file_size = settings.target_file_bytes;
  options.block_size = settings.block_bytes;
  options.block_cache = parts->cache.get();
  options.filter_policy = parts->filter.get();
  options.compression = leveldb::kSnappyCompression;
  options.max_open_files = 50'000;  // the most that it takes: all stay open
  leveldb::DB* db = nullptr;
  const leveldb::Status status = leveldb::DB::Open(options, directory, &db);
  if (!status.ok()) {
    parts->env.WaitUntilIdle();
    return ToStatus(status);
  }
  *engine = std::make_unique<LevelEngine>(std::move(parts), db);
  return absl::OkStatus();
}

}  // namespace

EngineKind LevelDbKind() {
  return {"leveldb", absl::StrFormat("%d.%d", leveldb::kMajorVersion, leveldb::kMinorVersion),
          &OpenLevel};
}

}  // namespace sievedb

#endif  // SIEVEDB_HAVE_LEVELDB
