// RocksDB as compare drives it.

#ifdef SIEVEDB_HAVE_ROCKSDB

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "bench/compare_engine.h"
#include "rocksdb/cache.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/options.h"
#include "rocksdb/sst_file_writer.h"
#include "rocksdb/table.h"
#include "rocksdb/version.h"
#include "rocksdb/write_batch.h"

namespace sievedb {
namespace {

rocksdb::Slice ToSlice(std::string_view text) { return rocksdb::Slice(text.data(), text.size()); }

absl::Status ToStatus(const rocksdb::Status& status) {
  if (status.ok()) return absl::OkStatus();
  return absl::InternalError("RocksDB: " + status.ToString());
}

class RocksReader final : public EngineReader {
 public:
  explicit RocksReader(rocksdb::DB* db) : db_(db) {}

  Found Get(std::string_view key) override {
    value_.Reset();
    const rocksdb::Status status =
        db_->Get(options_, db_->DefaultColumnFamily(), ToSlice(key), &value_);
    if (status.ok()) return Found::kYes;
    if (status.IsNotFound()) return Found::kNo;
    status_ = ToStatus(status);
    return Found::kError;
  }

  size_t value_bytes() const override { return value_.size(); }

  size_t MultiGet(absl::Span<const std::string_view> keys) override {
    if (values_.size() < keys.size()) {
      values_ = std::vector<rocksdb::PinnableSlice>(keys.size());
      statuses_.resize(keys.size());
    }
    slices_.clear();
    for (const std::string_view key : keys) slices_.push_back(ToSlice(key));
    for (rocksdb::PinnableSlice& value : values_) value.Reset();
    db_->MultiGet(options_, db_->DefaultColumnFamily(), keys.size(), slices_.data(), values_.data(),
                  statuses_.data());
    size_t found = 0;
    for (size_t i = 0; i < keys.size(); ++i) {
      if (statuses_[i].ok()) {
        ++found;
      } else if (!statuses_[i].IsNotFound()) {
        status_ = ToStatus(statuses_[i]);
      }
    }
    return found;
  }

  absl::Status status() const override { return status_; }

 private:
  rocksdb::DB* const db_;
  const rocksdb::ReadOptions options_;
  rocksdb::PinnableSlice value_;
  std::vector<rocksdb::Slice> slices_;
  std::vector<rocksdb::PinnableSlice> values_;
  std::vector<rocksdb::Status> statuses_;
  absl::Status status_;
};

class RocksCursor final : public EngineCursor {
 public:
  explicit RocksCursor(rocksdb::Iterator* iterator) : iterator_(iterator) {}
  void SeekToFirst() override { iterator_->SeekToFirst(); }
  void SeekToLast() override { iterator_->SeekToLast(); }
  void Seek(std::string_view key) override { iterator_->Seek(ToSlice(key)); }
  void Next() override { iterator_->Next(); }
  void Prev() override { iterator_->Prev(); }
  bool Valid() const override { return iterator_->Valid(); }
  size_t EntryBytes() const override { return iterator_->key().size() + iterator_->value().size(); }
  absl::Status status() const override { return ToStatus(iterator_->status()); }

 private:
  const std::unique_ptr<rocksdb::Iterator> iterator_;
};

class RocksLoader final : public EngineLoader {
 public:
  RocksLoader(rocksdb::DB* db, const rocksdb::Options& options, std::string prefix)
      : db_(db),
        file_bytes_(options.target_file_size_base),
        prefix_(std::move(prefix)),
        writer_(rocksdb::EnvOptions(options), options) {}
  ~RocksLoader() override {
    for (const std::string& path : paths_) {
      rocksdb::Env::Default()->DeleteFile(path).PermitUncheckedError();
    }
  }

  absl::Status Add(std::string_view key, std::string_view value) override {
    rocksdb::Status status;
    if (!open_) {
      paths_.push_back(prefix_ + std::to_string(paths_.size()));
      status = writer_.Open(paths_.back());
      open_ = status.ok();
    }
    if (status.ok()) status = writer_.Put(ToSlice(key), ToSlice(value));
    if (!status.ok()) return ToStatus(status);
    return writer_.FileSize() >= file_bytes_ ? EndTable() : absl::OkStatus();
  }
  absl::Status Finish() override {
    if (open_) {
      if (absl::Status status = EndTable(); !status.ok()) return status;
    }
    rocksdb::IngestExternalFileOptions options;
    options.move_files = true;  // linked, not copied
    return paths_.empty() ? absl::OkStatus() : ToStatus(db_->IngestExternalFile(paths_, options));
  }

 private:
  absl::Status EndTable() {
    open_ = false;
    return ToStatus(writer_.Finish());
  }

  rocksdb::DB* const db_;
  const uint64_t file_bytes_;
  const std::string prefix_;
  rocksdb::SstFileWriter writer_;
  bool open_ = false;
  std::vector<std::string> paths_;
};

class RocksEngine final : public Engine {
 public:
  RocksEngine(rocksdb::DB* db, const rocksdb::Options& options, bool disable_wal)
      : options_(options), db_(db) {
    unsynced_.disableWAL = disable_wal;
    synced_.sync = true;
  }

  absl::Status Put(std::string_view key, std::string_view value, bool sync) override {
    return ToStatus(db_->Put(sync ? synced_ : unsynced_, ToSlice(key), ToSlice(value)));
  }
  absl::Status PutBatch(absl::Span<const Entry> entries) override {
    rocksdb::WriteBatch batch;
    for (const Entry& entry : entries) {
      const rocksdb::Status status = batch.Put(ToSlice(entry.first), ToSlice(entry.second));
      if (!status.ok()) return ToStatus(status);
    }
    return ToStatus(db_->Write(unsynced_, &batch));
  }
  std::unique_ptr<EngineReader> NewReader() override {
    return std::make_unique<RocksReader>(db_.get());
  }
  std::unique_ptr<EngineCursor> NewCursor() override {
    return std::make_unique<RocksCursor>(db_->NewIterator(rocksdb::ReadOptions()));
  }
  std::unique_ptr<EngineLoader> NewLoader(const std::string& prefix) override {
    return std::make_unique<RocksLoader>(db_.get(), options_, prefix);
  }
  absl::Status Flush() override { return ToStatus(db_->Flush(rocksdb::FlushOptions())); }

  // RocksDB 7.8 has no call for it. Flushes are looked at before the compactions
  // that they cause, and twice, since a job may be handed on between two looks.
  absl::Status WaitUntilIdle() override {
    for (int quiet_looks = 0; quiet_looks < 2;) {
      uint64_t work = 0;
      for (const char* property :
           {"rocksdb.mem-table-flush-pending", "rocksdb.num-running-flushes",
            "rocksdb.compaction-pending", "rocksdb.num-running-compactions"}) {
        uint64_t count = 0;
        if (!db_->GetIntProperty(property, &count)) {
          return absl::InternalError(absl::StrFormat("RocksDB does not know %s", property));
        }
        work += count;
      }
      uint64_t errors = 0;
      if (db_->GetIntProperty("rocksdb.background-errors", &errors) && errors > 0) {
        return absl::InternalError("RocksDB: background work failed");
      }
      quiet_looks = work == 0 ? quiet_looks + 1 : 0;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return absl::OkStatus();
  }

 private:
  const rocksdb::Options options_;
  const std::unique_ptr<rocksdb::DB> db_;
  rocksdb::WriteOptions unsynced_;
  rocksdb::WriteOptions synced_;
};

absl::Status OpenRocks(const EngineSettings& settings, const std::string& directory,
                       std::unique_ptr<Engine>* engine) {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.write_buffer_size = settings.write_buffer_bytes;
  options.max_write_buffer_number = settings.max_write_buffers;
  options.max_bytes_for_level_base = settings.level_base_bytes;
  options.target_file_size_base = settings.target_file_bytes;
  options.max_background_jobs = settings.max_background_jobs;
  options.compression = rocksdb::kSnappyCompression;
  rocksdb::BlockBasedTableOptions table;
  table.block_size = settings.block_bytes;
  table.block_cache = rocksdb::NewLRUCache(settings.cache_bytes);
  table.cache_index_and_filter_blocks = false;
  options.allow_mmap_reads = settings.mmap_reads;
  if (settings.bloom_bits > 0) {
    table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(settings.bloom_bits, false));
  }
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(options, directory, &db);
  if (!status.ok()) return ToStatus(status);
  *engine = std::make_unique<RocksEngine>(db, options, settings.disable_wal);
  return absl::OkStatus();
}

}  // namespace

EngineKind RocksDbKind() {
  return {"rocksdb", absl::StrFormat("%d.%d.%d", ROCKSDB_MAJOR, ROCKSDB_MINOR, ROCKSDB_PATCH),
          &OpenRocks, /*loads_tables=*/true, /*writes_without_wal=*/true};
}

}  // namespace sievedb

#endif  // SIEVEDB_HAVE_ROCKSDB
