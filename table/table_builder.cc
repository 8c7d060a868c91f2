#include "table/table_builder.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "sievedb/version.h"
#include "table/block_builder.h"
#include "table/format.h"
#include "table/index_builder.h"
#include "table/prefix_hash.h"
#include "util/aligned_buffer.h"
#include "util/compression.h"
#include "util/filter_block.h"
#include "util/hash.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

// Small writes are gathered to pieces of this size; larger ones are cut.
constexpr size_t kWriteBytes = 128 << 10;
constexpr size_t kLargeWriteBytes = 1 << 20;

std::string CreatedBy() {
  return absl::StrFormat("sievedb %d.%d.%d", SIEVEDB_VERSION_MAJOR, SIEVEDB_VERSION_MINOR,
                         SIEVEDB_VERSION_PATCH);
}

// Gathers small pieces, paces large ones.
class PacedWriter {
 public:
  PacedWriter(const TableBuilderOptions& options, WritableFile* file)
      : file_(file),
        rate_limiter_(options.rate_limiter),
        priority_(options.rate_priority),
        bytes_per_writeback_(options.bytes_per_writeback) {
    pending_.reserve(2 * kWriteBytes);
  }

  absl::Status Append(std::string_view bytes) {
    offset_ += bytes.size();
    if (bytes.size() <= kWriteBytes) {
      pending_.append(bytes);
      return pending_.size() >= kWriteBytes ? Flush() : absl::OkStatus();
    }
    SIEVEDB_RETURN_IF_ERROR(Flush());
    for (size_t at = 0; at < bytes.size(); at += kLargeWriteBytes) {
      SIEVEDB_RETURN_IF_ERROR(Write(bytes.substr(at, kLargeWriteBytes)));
    }
    return absl::OkStatus();
  }

  absl::Status Flush() {
    if (pending_.empty()) return absl::OkStatus();
    const absl::Status status = Write(pending_);
    pending_.clear();
    return status;
  }

  uint64_t offset() const { return offset_; }

 private:
  absl::Status Write(std::string_view piece) {
    if (rate_limiter_ != nullptr) {
      rate_limiter_->Request(static_cast<int64_t>(piece.size()), priority_);
    }
    SIEVEDB_RETURN_IF_ERROR(file_->Append(piece));
    since_writeback_ += piece.size();
    if (bytes_per_writeback_ != 0 && since_writeback_ >= bytes_per_writeback_) {
      file_->StartWriteback();
      since_writeback_ = 0;
    }
    return absl::OkStatus();
  }

  WritableFile* const file_;
  RateLimiter* const rate_limiter_;
  const RateLimiter::Priority priority_;
  const size_t bytes_per_writeback_;
  std::string pending_;
  uint64_t offset_ = 0;
  size_t since_writeback_ = 0;
};

// What the footer tells of a filter that was just built, of the kind that it names.
void DescribeFilter(const FilterPolicy& policy, std::string_view filter, Footer* footer) {
  if (footer->filter_kind <= kBloomKind && filter.size() >= kFilterTrailerBytes) {
    // The trailer says it, and the array needn't be copied to where it could be asked.
    const char* const trailer = filter.data() + filter.size() - kFilterTrailerBytes;
    footer->filter_probes = static_cast<uint8_t>(trailer[kFilterProbesOffset]);
    return;
  }
  AlignedBuffer aligned(filter.size());
  std::memcpy(aligned.data(), filter.data(), filter.size());
  // A filter that can't be read shows when the table is opened.
  const auto reader = footer->filter_kind < kFirstUserFilterKind
                          ? OpenBuiltInFilter(footer->filter_kind, aligned.view())
                          : policy.NewReader(aligned.view());
  if (reader.ok()) {
    footer->filter_probes = static_cast<uint8_t>(std::clamp((*reader)->Figures().probes, 0, 255));
  }
}

}  // namespace

struct TableBuilder::Rep {
  Rep(const TableBuilderOptions& table_options, WritableFile* file)
      : options(table_options),
        hashes_mean_keys(table_options.order.user().equal_keys_have_equal_bytes()),
        writer(table_options, file),
        block(table_options.block_restart_interval, hashes_mean_keys),
        index(table_options.order) {
    if (options.filter_policy != nullptr && hashes_mean_keys) {
      filter_bits_per_key = options.filter_policy->BitsPerKey(options.filter_context);
      filter = options.filter_policy->NewBuilder(options.filter_context);
      prefix_extractor = options.prefix_extractor;
    }
  }

  void AddToFilter(std::string_view user_key, uint64_t hash);
  // What the filter was given.
  uint64_t FilterKeys() const { return properties.distinct_user_keys + properties.prefixes; }
  absl::Status CheckSizes(std::string_view user_key, std::string_view value) const;
  absl::Status FlushBlock(const std::string_view* next_user_key);
  // Writes payload_bytes at bytes, which have room for a trailer, as they are.
  absl::StatusOr<BlockHandle> WriteBlock(char* bytes, size_t payload_bytes, Compression codec);
  absl::StatusOr<BlockHandle> WriteTailBlock(std::string payload);
  absl::Status WriteFilter(Footer* footer);

  const TableBuilderOptions options;
  const bool hashes_mean_keys;  // equal keys have equal hashes
  PacedWriter writer;
  BlockBuilder block;
  IndexBuilder index;
  std::unique_ptr<FilterBuilder> filter;              // null: none is built
  const PrefixExtractor* prefix_extractor = nullptr;  // null: no prefixes go into filter
  std::string last_prefix;                            // where properties.prefixes > 0
  double filter_bits_per_key = 0;
  TableProperties properties;
  std::string last_user_key;
  uint64_t last_tag = 0;
  std::string compressed;
  absl::Status status;  // the first error
  bool finished = false;
};

// A new user key. Keys of one prefix come one behind the other, so that each prefix is
// added once.
void TableBuilder::Rep::AddToFilter(std::string_view user_key, uint64_t hash) {
  filter->AddHash(hash);
  if (prefix_extractor == nullptr) return;
  const std::optional<std::string_view> prefix = prefix_extractor->Prefix(user_key);
  if (!prefix.has_value() || (properties.prefixes > 0 && *prefix == last_prefix)) return;
  filter->AddHash(PrefixHash(*prefix, options.hash_seed));
  last_prefix.assign(prefix->data(), prefix->size());
  ++properties.prefixes;
}

absl::Status TableBuilder::Rep::CheckSizes(std::string_view user_key,
                                           std::string_view value) const {
  const uint64_t bytes = uint64_t{user_key.size()} + value.size();
  if (bytes > kMaxBlockBytes - 64) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "an entry of %d bytes: a table's block holds less than %d", bytes, kMaxBlockBytes));
  }
  return absl::OkStatus();
}

absl::StatusOr<BlockHandle> TableBuilder::Rep::WriteBlock(char* bytes, size_t payload_bytes,
                                                          Compression codec) {
  const BlockHandle handle{writer.offset(), payload_bytes};
  AddBlockTrailer(bytes, payload_bytes, codec, options.file_number, handle.offset);
  SIEVEDB_RETURN_IF_ERROR(writer.Append({bytes, payload_bytes + kBlockTrailerBytes}));
  return handle;
}

absl::StatusOr<BlockHandle> TableBuilder::Rep::WriteTailBlock(std::string payload) {
  const size_t payload_bytes = payload.size();
  payload.resize(payload_bytes + kBlockTrailerBytes);
  return WriteBlock(payload.data(), payload_bytes, Compression::kNone);
}

absl::Status TableBuilder::Rep::FlushBlock(const std::string_view* next_user_key) {
  const absl::Span<char> raw = block.Finish(kBlockTrailerBytes);
  BlockHandle handle;
  if (raw.size() <= kMaxCompressedRawBytes &&
      Compress(options.compression, {raw.data(), raw.size()}, &compressed)) {
    const size_t payload_bytes = compressed.size();
    compressed.resize(payload_bytes + kBlockTrailerBytes);
    SIEVEDB_ASSIGN_OR_RETURN(handle,
                             WriteBlock(compressed.data(), payload_bytes, options.compression));
  } else {
    SIEVEDB_ASSIGN_OR_RETURN(handle, WriteBlock(raw.data(), raw.size(), Compression::kNone));
  }
  index.Add(last_user_key, last_tag, next_user_key, handle.size);
  ++properties.data_blocks;
  properties.raw_data_bytes += raw.size();
  properties.data_bytes += handle.size + kBlockTrailerBytes;
  block.Reset();
  return absl::OkStatus();
}

absl::Status TableBuilder::Rep::WriteFilter(Footer* footer) {
  if (filter == nullptr || properties.entries == 0) return absl::OkStatus();
  std::string bytes = filter->Finish();
  if (bytes.empty()) return absl::OkStatus();
  // Where a policy's builders differ in it, the builder says what it made.
  const uint8_t kind = filter->Kind();
  footer->filter_kind = kind != 0 ? kind : options.filter_policy->Kind();
  footer->filter_keys = FilterKeys();
  footer->filter_bits_per_key = filter_bits_per_key;
  DescribeFilter(*options.filter_policy, bytes, footer);
  SIEVEDB_ASSIGN_OR_RETURN(footer->filter, WriteTailBlock(std::move(bytes)));
  properties.filter_bytes = footer->filter.size + kBlockTrailerBytes;
  properties.filter_name = options.filter_policy->Name();
  properties.filter_bits_per_key = footer->filter_bits_per_key;
  properties.filter_probes = footer->filter_probes;
  if (prefix_extractor != nullptr) properties.prefix_extractor_name = prefix_extractor->Name();
  return absl::OkStatus();
}

TableBuilder::TableBuilder(const TableBuilderOptions& options, WritableFile* file)
    : rep_(std::make_unique<Rep>(options, file)) {}

TableBuilder::~TableBuilder() = default;

absl::Status TableBuilder::Add(std::string_view internal_key, std::string_view value) {
  Rep& rep = *rep_;
  assert(!rep.finished);
  if (!rep.status.ok()) return rep.status;
  const std::string_view user_key = UserKey(internal_key);
  const uint64_t tag = Tag(internal_key);
  TableProperties& properties = rep.properties;
  const bool first = properties.entries == 0;
  assert(first || rep.options.order.Compare(rep.last_user_key, rep.last_tag, user_key, tag) < 0);

  const size_t shared = SharedPrefix(rep.last_user_key, user_key);
  const bool same_bytes = shared == user_key.size() && shared == rep.last_user_key.size();
  const bool new_user_key =
      first || !(same_bytes || (!rep.hashes_mean_keys &&
                                rep.options.order.user().Equal(rep.last_user_key, user_key)));
  if (!rep.block.empty() &&
      rep.block.EstimateAfter(user_key.size(), value.size(), shared) > rep.options.block_bytes) {
    rep.status = rep.FlushBlock(&user_key);
    if (!rep.status.ok()) return rep.status;
  }
  if (value.size() > (kMaxBlockBytes >> 1)) [[unlikely]] {
    rep.status = rep.CheckSizes(user_key, value);
    if (!rep.status.ok()) return rep.status;
  }
  // A block that goes on with the last one's user key knows it by its hash too.
  uint64_t hash = 0;
  if (rep.hashes_mean_keys && (new_user_key || rep.block.empty())) {
    hash = Hash64(user_key, rep.options.hash_seed);
  }
  if (new_user_key) {
    ++properties.distinct_user_keys;
    if (rep.filter != nullptr) rep.AddToFilter(user_key, hash);
  }
  rep.block.Add(user_key, tag, value, shared, new_user_key, hash);

  const uint64_t sequence = TagSequence(tag);
  if (first) {
    properties.smallest_key = internal_key;
    properties.smallest_sequence = properties.largest_sequence = sequence;
  }
  properties.smallest_sequence = std::min(properties.smallest_sequence, sequence);
  properties.largest_sequence = std::max(properties.largest_sequence, sequence);
  if (TagType(tag) == static_cast<uint8_t>(EntryType::kDelete)) ++properties.tombstones;
  ++properties.entries;
  properties.raw_key_bytes += internal_key.size();
  properties.raw_value_bytes += value.size();
  if (!same_bytes) {
    rep.last_user_key.resize(shared);
    rep.last_user_key.append(user_key.substr(shared));
  }
  rep.last_tag = tag;
  return absl::OkStatus();
}

absl::StatusOr<TableSummary> TableBuilder::Finish(const RangeTombstones* tombstones) {
  Rep& rep = *rep_;
  const bool has_tombstones = tombstones != nullptr && !tombstones->empty();
  assert(!rep.finished && (rep.properties.entries > 0 || has_tombstones));
  rep.finished = true;
  if (!rep.status.ok()) return rep.status;
  TableProperties& properties = rep.properties;
  if (properties.entries > 0) {
    SIEVEDB_RETURN_IF_ERROR(rep.FlushBlock(nullptr));
    AppendInternalKey(&properties.largest_key, rep.last_user_key, rep.last_tag);
  }

  const uint64_t tail_at = rep.writer.offset();
  Footer footer;
  footer.file_number = rep.options.file_number;
  if (has_tombstones) {
    AddRangeTombstones(*tombstones, rep.options.order.user(), &properties);
    SIEVEDB_ASSIGN_OR_RETURN(footer.range_tombstones, rep.WriteTailBlock(tombstones->Encode()));
  }
  SIEVEDB_RETURN_IF_ERROR(rep.WriteFilter(&footer));
  SIEVEDB_ASSIGN_OR_RETURN(footer.index, rep.WriteTailBlock(rep.index.Finish()));
  properties.index_bytes = footer.index.size + kBlockTrailerBytes;
  properties.compression = rep.options.compression;
  properties.comparator_name = rep.options.order.user().comparator()->Name();
  properties.creation_seconds = rep.options.creation_seconds;
  properties.file_number = rep.options.file_number;
  properties.db_id = rep.options.db_id;
  properties.hash_seed = rep.options.hash_seed;
  properties.created_by = CreatedBy();
  SIEVEDB_ASSIGN_OR_RETURN(footer.properties,
                           rep.WriteTailBlock(EncodeTableProperties(properties)));
  footer.tail_bytes = rep.writer.offset() + kFooterBytes - tail_at;
  std::string footer_bytes;
  AppendFooter(&footer_bytes, footer);
  SIEVEDB_RETURN_IF_ERROR(rep.writer.Append(footer_bytes));
  SIEVEDB_RETURN_IF_ERROR(rep.writer.Flush());
  return TableSummary{rep.writer.offset(), footer.tail_bytes, properties};
}

uint64_t TableBuilder::entries() const { return rep_->properties.entries; }

uint64_t TableBuilder::EstimatedFileBytes() const {
  const Rep& rep = *rep_;
  const double filter_bits =
      rep.filter == nullptr ? 0 : static_cast<double>(rep.FilterKeys()) * rep.filter_bits_per_key;
  return rep.writer.offset() + rep.block.EstimatedBytes() + rep.index.EstimatedBytes() +
         static_cast<uint64_t>(std::clamp(filter_bits / 8, 0.0, 1e15)) + kFooterBytes;
}

}  // namespace sievedb
