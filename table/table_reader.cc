#include "table/table_reader.h"

#include <cassert>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "table/block.h"
#include "table/global_sequence_iterator.h"
#include "table/table_iterator.h"
#include "table/table_parts.h"
#include "util/filter_block.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

// The end of a file that was just opened.
struct Tail {
  std::unique_ptr<char[]> scratch;
  uint64_t offset = 0;     // of bytes, in the file
  std::string_view bytes;  // in scratch, or in the file's own memory
  Footer footer;

  // A block of the tail with its trailer. Requires: the footer was decoded.
  std::string_view Stored(const BlockHandle& handle) const {
    return bytes.substr(handle.offset - offset, handle.size + kBlockTrailerBytes);
  }
};

absl::Status ReadEnd(const RandomAccessFile& file, const TableReaderOptions& options,
                     uint64_t bytes, Tail* tail) {
  if (bytes < kFooterBytes || bytes > options.file_bytes) {
    return absl::DataLossError(absl::StrFormat(
        "%s: not a table: a file of %d bytes, where its last %d were expected to be its tail",
        options.path, options.file_bytes, bytes));
  }
  tail->scratch = std::make_unique_for_overwrite<char[]>(bytes);
  tail->offset = options.file_bytes - bytes;
  return ReadExactly(file, options.path, tail->offset, bytes, tail->scratch.get(), &tail->bytes);
}

// One read where the size of the tail is known, otherwise two.
absl::StatusOr<Tail> ReadTail(const RandomAccessFile& file, const TableReaderOptions& options) {
  Tail tail;
  SIEVEDB_RETURN_IF_ERROR(
      ReadEnd(file, options, options.tail_bytes != 0 ? options.tail_bytes : kFooterBytes, &tail));
  SIEVEDB_ASSIGN_OR_RETURN(tail.footer,
                           DecodeFooter(tail.bytes.substr(tail.bytes.size() - kFooterBytes),
                                        options.file_bytes, options.path));
  if (options.file_number != kAnyFileNumber && options.file_number != tail.footer.file_number) {
    return absl::DataLossError(
        absl::StrFormat("%s: a table in the wrong file: expected number %d, found %d", options.path,
                        options.file_number, tail.footer.file_number));
  }
  if (options.tail_bytes == 0) {
    SIEVEDB_RETURN_IF_ERROR(ReadEnd(file, options, tail.footer.tail_bytes, &tail));
  } else if (options.tail_bytes != tail.footer.tail_bytes) {
    return absl::DataLossError(absl::StrFormat("%s: a tail of %d bytes: expected %d", options.path,
                                               tail.footer.tail_bytes, options.tail_bytes));
  }
  return tail;
}

// The payload of a tail block that is small or is decoded at once.
absl::StatusOr<std::string> TailPayload(const BlockFile& file, const Tail& tail,
                                        const BlockHandle& handle) {
  SIEVEDB_ASSIGN_OR_RETURN(const StoredBlock block,
                           file.Check(handle, tail.Stored(handle), /*verify_checksum=*/true));
  SIEVEDB_ASSIGN_OR_RETURN(const size_t raw_bytes, file.RawSize(handle, block));
  std::string payload(raw_bytes, '\0');
  SIEVEDB_RETURN_IF_ERROR(file.Unpack(handle, block, payload.data(), raw_bytes));
  return payload;
}

// An error that names file and offset.
absl::Status At(const BlockFile& file, const BlockHandle& handle, const absl::Status& status) {
  return file.Damaged(handle, std::string(status.message()));
}

absl::Status LoadFilter(const TableReaderOptions& options, const Tail& tail, TableParts* parts) {
  const BlockHandle& handle = tail.footer.filter;
  SIEVEDB_ASSIGN_OR_RETURN(const StoredBlock block, parts->file->Check(handle, tail.Stored(handle),
                                                                       /*verify_checksum=*/true));
  const uint8_t kind = tail.footer.filter_kind;
  const FilterPolicy* const policy = options.filter_policy;
  const bool built_in = kind < kFirstUserFilterKind;
  if (!built_in && (policy == nullptr || policy->Kind() != kind)) {
    return absl::OkStatus();  // nobody here knows it: read without
  }
  SIEVEDB_ASSIGN_OR_RETURN(const size_t raw_bytes, parts->file->RawSize(handle, block));
  std::vector<char, PackedAllocator<char>> bytes(raw_bytes);
  SIEVEDB_RETURN_IF_ERROR(parts->file->Unpack(handle, block, bytes.data(), raw_bytes));
  const std::string_view view(bytes.data(), bytes.size());
  auto filter = built_in ? OpenBuiltInFilter(kind, view) : policy->NewReader(view);
  if (!filter.ok()) return At(*parts->file, handle, filter.status());
  parts->filter_bytes = std::move(bytes);
  parts->filter = *std::move(filter);
  return absl::OkStatus();
}

// Reads block i where the cache does not have it. Requires: an EpochGuard, which
// protects *pin too.
absl::Status FetchBlock(const TableParts& parts, size_t i, const ReadOptions& options,
                        StatisticsImpl* statistics, BlockPin* pin) {
  if (parts.cached != nullptr) {
    parts.cached->PrefetchBlock(i);
    BlockBuffer* const cached = parts.cached->Lookup(i);
    if (cached != nullptr) [[likely]] {
      Count(statistics, Counter::kBlockCacheHits);
      *pin = BlockPin::Guarded(cached);
      return absl::OkStatus();
    }
    Count(statistics, Counter::kBlockCacheMisses);
  }
  const BlockHandle handle = parts.index.handle(i);
  if (options.cache_only) {
    return absl::UnavailableError(
        absl::StrFormat("%s: block at offset %d is not cached", parts.file->path(), handle.offset));
  }
  LatencyTimer timer(statistics, Latency::kBlockRead, LatencyTimer::When::kAlways);
  SIEVEDB_ASSIGN_OR_RETURN(BlockBuffer* const buffer,
                           parts.file->Read(handle, options.verify_checksums));
  *pin = BlockPin::Owned(buffer);
  Count(statistics, Counter::kBlockReads);
  Count(statistics, Counter::kBlockReadBytes, handle.size + kBlockTrailerBytes);
  // What was not verified must not meet readers who rely on it.
  if (parts.cached != nullptr && options.fill_cache && options.verify_checksums) {
    parts.cached->Insert(i, buffer);
  }
  return absl::OkStatus();
}

}  // namespace

TableReader::TableReader(std::unique_ptr<TableParts> parts, const TableReaderOptions& options)
    : foreign_seed_(parts->properties.hash_seed != options.hash_seed),
      knows_prefixes_(parts->prefix_extractor != nullptr),
      range_tombstones_(parts->range_tombstones.get()),
      filter_(parts->filter.get()),
      hash_seed_(parts->properties.hash_seed),
      global_sequence_(options.global_sequence),
      parts_(std::move(parts)) {
  const auto remember = [this](const auto& bloom) {
    bloom_blocks_ = bloom.blocks();
    bloom_num_blocks_ = bloom.num_blocks();
    bloom_probes_ = bloom.probes();
  };
  const uint8_t kind = parts_->footer.filter_kind;
  bloom_dense_ = kind == kDenseBlockedBloomKind;
  if (filter_ != nullptr && kind == kBlockedBloomKind) {
    remember(static_cast<const BlockedBloomReader&>(*filter_));
  } else if (filter_ != nullptr && bloom_dense_) {
    remember(static_cast<const DenseBlockedBloomReader&>(*filter_));
  }
}

TableReader::~TableReader() = default;

absl::StatusOr<std::unique_ptr<TableReader>> TableReader::Open(
    const TableReaderOptions& options, std::unique_ptr<RandomAccessFile> file) {
  SIEVEDB_ASSIGN_OR_RETURN(const Tail tail, ReadTail(*file, options));
  const Footer& footer = tail.footer;
  auto block_file = std::make_unique<BlockFile>(std::move(file), options.path, footer.file_number);

  SIEVEDB_ASSIGN_OR_RETURN(const std::string properties_payload,
                           TailPayload(*block_file, tail, footer.properties));
  auto properties = DecodeTableProperties(properties_payload);
  if (!properties.ok()) return At(*block_file, footer.properties, properties.status());
  const char* const comparator_name = options.order.user().comparator()->Name();
  if (properties->comparator_name != comparator_name) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: the table was written with comparator %s, not %s", options.path,
                        properties->comparator_name, comparator_name));
  }
  SIEVEDB_ASSIGN_OR_RETURN(const std::string index_payload,
                           TailPayload(*block_file, tail, footer.index));
  auto index =
      IndexReader::Decode(options.order, index_payload, options.file_bytes - footer.tail_bytes);
  if (!index.ok()) return At(*block_file, footer.index, index.status());

  auto parts = std::make_unique<TableParts>(options.order, *std::move(index));
  parts->file = std::move(block_file);
  if (options.block_cache != nullptr && parts->index.blocks() > 0) {
    parts->cached = std::make_unique<CachedBlocks>(options.block_cache, parts->index.blocks());
  }
  parts->statistics = options.statistics;
  parts->file_bytes = options.file_bytes;
  parts->footer = footer;
  parts->properties = *std::move(properties);
  if (footer.range_tombstones.size != 0) {
    SIEVEDB_ASSIGN_OR_RETURN(const std::string payload,
                             TailPayload(*parts->file, tail, footer.range_tombstones));
    auto tombstones = RangeTombstones::Decode(options.order.user(), payload);
    if (!tombstones.ok()) return At(*parts->file, footer.range_tombstones, tombstones.status());
    parts->range_tombstones = *std::move(tombstones);
  }
  // Where equal keys may have different bytes, a filter could deny a key.
  if (footer.filter.size != 0 && options.order.user().equal_keys_have_equal_bytes()) {
    parts->filter_status = LoadFilter(options, tail, parts.get());
    if (!parts->filter_status.ok()) Count(options.statistics, Counter::kFilterLoadErrors);
  }
  if (parts->filter != nullptr && options.prefix_extractor != nullptr &&
      parts->properties.prefix_extractor_name == options.prefix_extractor->Name()) {
    parts->prefix_extractor = options.prefix_extractor;
  }
  return std::unique_ptr<TableReader>(new TableReader(std::move(parts), options));
}

absl::Status TableReader::filter_status() const { return parts_->filter_status; }
std::string_view TableReader::filter_bytes() const {
  return {parts_->filter_bytes.data(), parts_->filter_bytes.size()};
}
uint8_t TableReader::filter_kind() const { return parts_->footer.filter_kind; }

absl::Status TableReader::CompareFilterWithFile() const {
  const BlockHandle& handle = parts_->footer.filter;
  SIEVEDB_ASSIGN_OR_RETURN(BlockBuffer* const buffer,
                           parts_->file->Read(handle, /*verify_checksum=*/true));
  const bool same = std::string_view(buffer->data(), buffer->size()) == filter_bytes();
  buffer->Unref();
  return same ? absl::OkStatus()
              : parts_->file->Damaged(handle, "the filter in memory is not what the file has");
}

bool TableReader::Prepare(const Lookup& lookup, Preparation* preparation) const {
  if (!preparation->done) {
    preparation->done = !PrepareStep(lookup, preparation->steps++, preparation);
  }
  return !preparation->done;
}

bool TableReader::PrepareStep(const Lookup& lookup, int step, Preparation* preparation) const {
  const TableParts& parts = *parts_;
  const IndexReader& index = parts.index;
  CachedBlocks* const cached = parts.cached.get();
  switch (step) {
    case 0:
      index.PrefetchFind(lookup.user_key, lookup.word, cached);
      return true;
    case 1:
      preparation->block = index.Find(lookup.user_key, lookup.seek_tag, lookup.word, cached);
      preparation->found = true;
      if (preparation->block == index.blocks() || cached == nullptr) return false;
      if (cached->PrefetchBlock(preparation->block)) return true;
      if (lookup.options.async_io && !lookup.options.cache_only) {
        const BlockHandle handle = index.handle(preparation->block);
        parts.file->file().Readahead(handle.offset, handle.size + kBlockTrailerBytes);
      }
      return false;
    default:
      const BlockBuffer* const buffer = cached->Peek(preparation->block);
      if (buffer != nullptr) {
        Block::PrefetchEntries({buffer->data(), buffer->size()}, parts.order.user(),
                               HashOf(lookup));
      }
      return false;
  }
}

absl::Status TableReader::Get(Lookup* lookup, const Preparation* preparation) const {
  const TableParts& parts = *parts_;
  const IndexReader& index = parts.index;
  assert(!lookup->decided());
  // All of the table or none of it: entries that count as of one sequence have 0 in the
  // file, which every lookup sees.
  if (lookup->sequence < global_sequence_) [[unlikely]]
    return absl::OkStatus();
  if (range_tombstones_ != nullptr) [[unlikely]]
    lookup->Meet(*range_tombstones_);
  size_t i = preparation != nullptr && preparation->found
                 ? preparation->block
                 : index.Find(lookup->user_key, lookup->seek_tag, lookup->word, parts.cached.get());
  for (; i < index.blocks(); ++i) {
    BlockPin pin;
    SIEVEDB_RETURN_IF_ERROR(FetchBlock(parts, i, lookup->options, lookup->statistics, &pin));
    Block block;
    if (!block.Parse(pin.bytes())) [[unlikely]] {
      return parts.file->Damaged(index.handle(i), "its outline is malformed");
    }
    uint64_t tag = 0;
    std::string_view value;
    switch (block.Find(parts.order.user(), lookup->user_key, lookup->seek_tag, HashOf(*lookup),
                       &tag, &value)) {
      case Block::Result::kFound:
        if (lookup->HidesTag(tag)) [[unlikely]] {
          lookup->state = Lookup::State::kDeleted;
          return absl::OkStatus();
        }
        if (TagType(tag) == static_cast<uint8_t>(EntryType::kPut)) {
          lookup->state = Lookup::State::kFound;
          lookup->value = value;
          lookup->pin = std::move(pin);
          return absl::OkStatus();
        }
        if (TagType(tag) != static_cast<uint8_t>(EntryType::kDelete)) {
          return parts.file->Damaged(
              index.handle(i),
              absl::StrFormat("entry type: expected 0 or 1, found %d", TagType(tag)));
        }
        lookup->state = Lookup::State::kDeleted;
        return absl::OkStatus();
      case Block::Result::kAbsent:
        return absl::OkStatus();
      case Block::Result::kNotHere:
        // Older versions of the key may begin the next block.
        if (!index.SeparatorHasKey(i, lookup->user_key)) return absl::OkStatus();
        break;
      case Block::Result::kDamaged:
        return parts.file->Damaged(index.handle(i), "an entry is malformed");
    }
  }
  return absl::OkStatus();
}

std::unique_ptr<InternalIterator> TableReader::NewIterator(const ReadOptions& options,
                                                           bool for_compaction) const {
  std::unique_ptr<InternalIterator> entries = NewTableIterator(*parts_, options, for_compaction);
  if (global_sequence_ == 0) return entries;
  return NewGlobalSequenceIterator(std::move(entries), parts_->order.user(), global_sequence_);
}

uint64_t TableReader::ApproximateOffsetOf(std::string_view internal_key) const {
  const IndexReader& index = parts_->index;
  return index.offset(index.Find(UserKey(internal_key), Tag(internal_key)));
}

std::vector<std::string> TableReader::Anchors(uint64_t step_bytes) const {
  const IndexReader& index = parts_->index;
  std::vector<std::string> anchors;
  size_t at = 0;
  for (uint64_t offset = step_bytes;; offset += step_bytes) {
    const size_t block = index.FirstBlockFrom(offset);
    if (block >= index.blocks()) return anchors;
    if (block > at) anchors.emplace_back(UserKey(index.Separator(block - 1)));
    at = block;
  }
}

absl::Status TableReader::Verify() const { return VerifyTable(*parts_); }

absl::Status TableReader::ForEachBlock(
    const std::function<bool(const BlockDescription&)>& fn) const {
  return DescribeTableBlocks(*parts_, fn);
}

const TableProperties& TableReader::properties() const { return parts_->properties; }

uint64_t TableReader::file_number() const { return parts_->footer.file_number; }
uint64_t TableReader::tail_bytes() const { return parts_->footer.tail_bytes; }

size_t TableReader::FilterMemoryBytes() const {
  return parts_->filter == nullptr ? 0 : parts_->filter->MemoryBytes();
}
uint64_t TableReader::FilterKeys() const {
  return parts_->footer.filter.size != 0 ? parts_->footer.filter_keys
                                         : parts_->properties.distinct_user_keys;
}
size_t TableReader::IndexMemoryBytes() const {
  return parts_->index.MemoryBytes() +
         (parts_->cached == nullptr ? 0 : parts_->cached->MemoryBytes());
}
size_t TableReader::MemoryBytes() const {
  const TableProperties& properties = parts_->properties;
  return sizeof(*this) + sizeof(TableParts) - sizeof(IndexReader) + FilterMemoryBytes() +
         IndexMemoryBytes() + properties.smallest_key.capacity() +
         properties.largest_key.capacity() +
         (range_tombstones_ == nullptr ? 0 : range_tombstones_->MemoryBytes());
}

}  // namespace sievedb
