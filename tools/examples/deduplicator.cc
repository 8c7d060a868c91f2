#include "tools/examples/deduplicator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "sievedb/file_system.h"
#include "util/coding.h"
#include "util/file_util.h"
#include "util/hash.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

constexpr char kFilterName[] = "FILTER.dedup";
constexpr size_t kTailBytes = 2 * sizeof(uint64_t);  // sequence and checksum

// A filter that is built again is made for all that is known: in one layer.
FilterSizing SizingFor(const DedupSettings& settings, uint64_t known) {
  return FilterSizing::ForRate(std::max(settings.expected, known), settings.fpr);
}

}  // namespace

Deduplicator::Deduplicator(const DedupSettings& settings, Print print, Flush flush,
                           ScalableBloomFilter filter)
    : settings_(settings),
      print_(std::move(print)),
      flush_(std::move(flush)),
      filter_(std::move(filter)) {}

absl::StatusOr<std::unique_ptr<Deduplicator>> Deduplicator::Open(const DedupSettings& settings,
                                                                 Print print, Flush flush) {
  // Before the database: a sizing that cannot be should leave no directory behind.
  SIEVEDB_ASSIGN_OR_RETURN(ScalableBloomFilter filter,
                           ScalableBloomFilter::Create(SizingFor(settings, 0)));
  std::unique_ptr<Deduplicator> dedup(
      new Deduplicator(settings, std::move(print), std::move(flush), std::move(filter)));
  Options options;
  options.filter_policy = nullptr;
  options.statistics = dedup->statistics_;
  SIEVEDB_ASSIGN_OR_RETURN(dedup->db_, DB::Open(options, settings.db));
  SIEVEDB_RETURN_IF_ERROR(dedup->LoadFilter());
  return dedup;
}

absl::Status Deduplicator::LoadFilter() {
  const std::shared_ptr<FileSystem> file_system = PosixFileSystem();
  const std::string path = settings_.db + "/" + kFilterName;
  SIEVEDB_ASSIGN_OR_RETURN(const bool exists, file_system->FileExists(path));
  absl::Status found = absl::NotFoundError("");
  if (exists) {
    found = ReadFilterFile(path);
    if (!found.ok()) filter_problem_ = std::string(found.message());
    // Synced: a file that came back after later writes might have their number too.
    SIEVEDB_RETURN_IF_ERROR(file_system->DeleteFile(path));
    SIEVEDB_RETURN_IF_ERROR(file_system->SyncDirectory(settings_.db));
  }
  if (found.ok()) {
    filter_origin_ = "file";
  } else if (db_->LatestSequence() == 0) {
    filter_origin_ = "new";
  } else {
    filter_origin_ = "records";
    SIEVEDB_RETURN_IF_ERROR(BuildFilter());
  }
  return absl::OkStatus();
}

absl::Status Deduplicator::ReadFilterFile(const std::string& path) {
  SIEVEDB_ASSIGN_OR_RETURN(const std::string bytes, ReadWholeFile(PosixFileSystem().get(), path));
  if (bytes.size() < kTailBytes) {
    return absl::DataLossError(absl::StrFormat("%s: expected at least %d bytes, found %d", path,
                                               kTailBytes, bytes.size()));
  }
  const size_t sequence_at = bytes.size() - kTailBytes;
  const size_t checksum_at = sequence_at + sizeof(uint64_t);
  const uint64_t checksum = Hash64(std::string_view(bytes).substr(0, checksum_at));
  if (const uint64_t stored = DecodeFixed64(&bytes[checksum_at]); stored != checksum) {
    return absl::DataLossError(
        absl::StrFormat("%s: checksum at offset %d: expected %016x, found %016x", path, checksum_at,
                        checksum, stored));
  }
  const uint64_t sequence = DecodeFixed64(&bytes[sequence_at]);
  if (sequence != db_->LatestSequence()) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "%s: of sequence %d, the database is at %d", path, sequence, db_->LatestSequence()));
  }
  SIEVEDB_ASSIGN_OR_RETURN(
      filter_, ScalableBloomFilter::Deserialize(std::string_view(bytes).substr(0, sequence_at)));
  return absl::OkStatus();
}

absl::Status Deduplicator::BuildFilter() {
  uint64_t known = 0;
  const std::string estimate = db_->GetProperty("sievedb.estimate-num-keys").value_or("0");
  // An estimate that can't be read only makes the filter grow more often.
  if (!absl::SimpleAtoi(estimate, &known)) known = 0;
  SIEVEDB_ASSIGN_OR_RETURN(filter_, ScalableBloomFilter::Create(SizingFor(settings_, known)));
  ReadOptions options;
  options.fill_cache = false;
  const std::unique_ptr<Iterator> it = db_->NewIterator(options);
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    SIEVEDB_RETURN_IF_ERROR(filter_.Add(it->key()));
  }
  return it->status();
}

absl::StatusOr<bool> Deduplicator::IsKnown(std::string_view record) {
  if (pending_.contains(record)) return true;
  PinnedValue value;
  const absl::Status status = db_->Get(ReadOptions(), record, &value);
  if (status.code() == absl::StatusCode::kNotFound) return false;
  SIEVEDB_RETURN_IF_ERROR(status);
  return true;
}

absl::Status Deduplicator::Add(std::string_view record) {
  if (record.size() > kMaxKeyBytes) {
    return absl::InvalidArgumentError(absl::StrFormat("a record of %d bytes is above the limit, %d",
                                                      record.size(), kMaxKeyBytes));
  }
  ++counts_.records;
  const uint64_t hash = FilterHash(record);
  if (settings_.use_filter && !filter_.ContainsHash(hash)) {
    ++counts_.certainly_new;
  } else {
    ++counts_.maybes;
    SIEVEDB_ASSIGN_OR_RETURN(const bool known, IsKnown(record));
    if (known) return absl::OkStatus();
    ++counts_.false_maybes;
  }
  ++counts_.unique;
  SIEVEDB_RETURN_IF_ERROR(print_(record));
  SIEVEDB_RETURN_IF_ERROR(filter_.AddHash(hash));
  batch_.Put(record, "");
  pending_.emplace(record);
  return pending_.size() >= settings_.batch ? Commit() : absl::OkStatus();
}

absl::Status Deduplicator::Commit() {
  SIEVEDB_RETURN_IF_ERROR(flush_());
  SIEVEDB_RETURN_IF_ERROR(db_->Write(WriteOptions(), &batch_));
  batch_.Clear();
  pending_.clear();
  return absl::OkStatus();
}

absl::Status Deduplicator::Finish() {
  SIEVEDB_RETURN_IF_ERROR(Commit());
  counts_.block_reads = statistics_->Get(Counter::kBlockReads);
  std::string bytes = filter_.Serialize();
  AppendFixed64(&bytes, db_->LatestSequence());
  AppendFixed64(&bytes, Hash64(bytes));
  // While the database is locked: the file and it belong together.
  SIEVEDB_RETURN_IF_ERROR(
      WriteFileAtomically(PosixFileSystem().get(), settings_.db, kFilterName, bytes));
  return db_->Close();
}

}  // namespace sievedb
