// SieveDB as compare drives it.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "bench/compare_engine.h"
#include "sievedb/db.h"
#include "sievedb/sst_file_writer.h"
#include "sievedb/version.h"

namespace sievedb {
namespace {

class SieveReader final : public EngineReader {
 public:
  explicit SieveReader(DB* db) : db_(db) {}

  Found Get(std::string_view key) override {
    absl::Status status = db_->Get(options_, key, &value_);
    if (status.ok()) return Found::kYes;
    if (absl::IsNotFound(status)) return Found::kNo;
    status_ = std::move(status);
    return Found::kError;
  }

  size_t value_bytes() const override { return value_.size(); }

  size_t MultiGet(absl::Span<const std::string_view> keys) override {
    if (values_.size() < keys.size()) {
      values_.resize(keys.size());
      statuses_.resize(keys.size());
    }
    db_->MultiGet(options_, keys, absl::MakeSpan(values_).first(keys.size()),
                  absl::MakeSpan(statuses_).first(keys.size()));
    size_t found = 0;
    for (size_t i = 0; i < keys.size(); ++i) {
      if (statuses_[i].ok()) {
        ++found;
      } else if (!absl::IsNotFound(statuses_[i])) {
        status_ = statuses_[i];
      }
    }
    return found;
  }

  absl::Status status() const override { return status_; }

 private:
  DB* const db_;
  const ReadOptions options_;
  PinnedValue value_;
  std::vector<PinnedValue> values_;
  std::vector<absl::Status> statuses_;
  absl::Status status_;
};

class SieveCursor final : public EngineCursor {
 public:
  explicit SieveCursor(std::unique_ptr<Iterator> iterator) : iterator_(std::move(iterator)) {}
  void SeekToFirst() override { iterator_->SeekToFirst(); }
  void SeekToLast() override { iterator_->SeekToLast(); }
  void Seek(std::string_view key) override { iterator_->Seek(key); }
  void Next() override { iterator_->Next(); }
  void Prev() override { iterator_->Prev(); }
  bool Valid() const override { return iterator_->Valid(); }
  size_t EntryBytes() const override { return iterator_->key().size() + iterator_->value().size(); }
  absl::Status status() const override { return iterator_->status(); }

 private:
  const std::unique_ptr<Iterator> iterator_;
};

class SieveLoader final : public EngineLoader {
 public:
  SieveLoader(DB* db, const Options& options, std::string prefix)
      : db_(db),
        file_bytes_(options.target_file_bytes),
        prefix_(std::move(prefix)),
        writer_(options) {}
  ~SieveLoader() override {
    for (const std::string& path : paths_) PosixFileSystem()->DeleteFile(path).IgnoreError();
  }

  absl::Status Add(std::string_view key, std::string_view value) override {
    if (!open_) {
      paths_.push_back(prefix_ + std::to_string(paths_.size()));
      if (absl::Status status = writer_.Open(paths_.back()); !status.ok()) return status;
      open_ = true;
    }
    if (absl::Status status = writer_.Put(key, value); !status.ok()) return status;
    return writer_.FileSize() >= file_bytes_ ? EndTable() : absl::OkStatus();
  }
  absl::Status Finish() override {
    if (open_) {
      if (absl::Status status = EndTable(); !status.ok()) return status;
    }
    IngestOptions options;
    options.verify_checksums = false;  // as RocksDB's default
    return paths_.empty() ? absl::OkStatus() : db_->IngestExternalFiles(paths_, options);
  }

 private:
  absl::Status EndTable() {
    open_ = false;
    return writer_.Finish().status();
  }

  DB* const db_;
  const uint64_t file_bytes_;
  const std::string prefix_;
  SstFileWriter writer_;
  bool open_ = false;
  std::vector<std::string> paths_;
};

class SieveEngine final : public Engine {
 public:
  SieveEngine(std::unique_ptr<DB> db, const Options& options, bool disable_wal)
      : options_(options), db_(std::move(db)) {
    unsynced_.disable_wal = disable_wal;
    synced_.sync = true;
  }

  absl::Status Put(std::string_view key, std::string_view value, bool sync) override {
    return db_->Put(sync ? synced_ : unsynced_, key, value);
  }
  absl::Status PutBatch(absl::Span<const Entry> entries) override {
    WriteBatch batch;
    for (const Entry& entry : entries) batch.Put(entry.first, entry.second);
    return db_->Write(unsynced_, &batch);
  }
  std::unique_ptr<EngineReader> NewReader() override {
    return std::make_unique<SieveReader>(db_.get());
  }
  std::unique_ptr<EngineCursor> NewCursor() override {
    return std::make_unique<SieveCursor>(db_->NewIterator(ReadOptions()));
  }
  std::unique_ptr<EngineLoader> NewLoader(const std::string& prefix) override {
    return std::make_unique<SieveLoader>(db_.get(), options_, prefix);
  }
  absl::Status Flush() override { return db_->Flush(FlushOptions()); }
  absl::Status WaitUntilIdle() override { return db_->WaitForBackgroundWork(); }

 private:
  const Options options_;
  const std::unique_ptr<DB> db_;
  WriteOptions unsynced_;
  WriteOptions synced_;
};

absl::Status OpenSieve(const EngineSettings& settings, const std::string& directory,
                       std::unique_ptr<Engine>* engine) {
  Options options;
  options.write_buffer_bytes = settings.write_buffer_bytes;
  options.max_write_buffers = settings.max_write_buffers;
  options.level_base_bytes = settings.level_base_bytes;
  options.target_file_bytes = settings.target_file_bytes;
  options.compaction_style = settings.compaction_style;
  options.block_bytes = settings.block_bytes;
  options.block_cache_bytes = settings.cache_bytes;
  options.max_background_jobs = settings.max_background_jobs;
  options.mmap_reads = settings.mmap_reads;
  options.max_open_files = 0;  // as RocksDB's default: all stay open
  options.compression = Compression::kSnappy;
  options.filter_policy =
      settings.bloom_bits > 0 ? NewBlockedBloomPolicy(settings.bloom_bits) : nullptr;
  absl::StatusOr<std::unique_ptr<DB>> db = DB::Open(options, directory);
  if (!db.ok()) return db.status();
  *engine = std::make_unique<SieveEngine>(*std::move(db), options, settings.disable_wal);
  return absl::OkStatus();
}

}  // namespace

EngineKind SieveDbKind() {
  return {"sievedb",
          absl::StrFormat("%d.%d.%d", SIEVEDB_VERSION_MAJOR, SIEVEDB_VERSION_MINOR,
                          SIEVEDB_VERSION_PATCH),
          &OpenSieve, /*loads_tables=*/true, /*writes_without_wal=*/true};
}

}  // namespace sievedb
