#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_format.h"
#include "table/block.h"
#include "table/prefix_hash.h"
#include "table/table_parts.h"
#include "util/hash.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

constexpr uint64_t kVerifyReadaheadBytes = 1 << 20;

// Owns the reference that BlockFile gives.
class OwnedBlock {
 public:
  explicit OwnedBlock(BlockBuffer* buffer) : buffer_(buffer) {}
  ~OwnedBlock() { buffer_->Unref(); }
  OwnedBlock(const OwnedBlock&) = delete;
  OwnedBlock& operator=(const OwnedBlock&) = delete;
  std::string_view bytes() const { return {buffer_->data(), buffer_->size()}; }

 private:
  BlockBuffer* const buffer_;
};

// Reads all of a table and counts again what its properties say.
class TableVerifier {
 public:
  explicit TableVerifier(const TableParts& parts) : parts_(parts), order_(parts.order) {}

  absl::Status Run() {
    SIEVEDB_RETURN_IF_ERROR(parts_.filter_status);
    uint64_t read_ahead_to = 0;
    for (size_t i = 0; i < parts_.index.blocks(); ++i) {
      if (parts_.index.offset(i) >= read_ahead_to) {
        parts_.file->file().Readahead(parts_.index.offset(i), kVerifyReadaheadBytes);
        read_ahead_to = parts_.index.offset(i) + kVerifyReadaheadBytes;
      }
      SIEVEDB_RETURN_IF_ERROR(VerifyBlock(i));
    }
    SIEVEDB_RETURN_IF_ERROR(VerifyTail());
    if (parts_.range_tombstones) {
      AddRangeTombstones(*parts_.range_tombstones, order_.user(), &found_);
    }
    return VerifyProperties();
  }

 private:
  absl::Status VerifyBlock(size_t i) {
    const BlockHandle handle = parts_.index.handle(i);
    SIEVEDB_ASSIGN_OR_RETURN(BlockBuffer* const buffer,
                             parts_.file->Read(handle, /*verify_checksum=*/true));
    const OwnedBlock owned(buffer);
    Block block;
    if (!block.Parse(owned.bytes())) {
      return parts_.file->Damaged(handle, "its outline is malformed");
    }
    SIEVEDB_RETURN_IF_ERROR(VerifyRestarts(handle, block));
    BlockIterator it(order_);
    it.Init(owned.bytes());
    for (it.SeekToFirst(); it.Valid(); it.Next()) {
      SIEVEDB_RETURN_IF_ERROR(VerifyEntry(i, handle, block, it));
    }
    if (it.damaged()) return parts_.file->Damaged(handle, "an entry is malformed");
    ++found_.data_blocks;
    found_.raw_data_bytes += owned.bytes().size();
    found_.data_bytes += handle.size + kBlockTrailerBytes;
    return absl::OkStatus();
  }

  // Every restart point is an entry that shares nothing, in order.
  absl::Status VerifyRestarts(const BlockHandle& handle, const Block& block) {
    uint32_t restart = 0;
    BlockEntry entry;
    for (const char* at = block.data(); at < block.limit(); at = entry.end()) {
      if (!DecodeBlockEntry(at, block.limit(), &entry)) {
        return parts_.file->Damaged(
            handle, absl::StrFormat("byte %d: an entry is malformed", at - block.data()));
      }
      if (restart < block.num_restarts() &&
          block.RestartOffset(restart) == static_cast<uint64_t>(at - block.data()) &&
          entry.shared == 0) {
        ++restart;
      }
    }
    if (restart == block.num_restarts()) return absl::OkStatus();
    return parts_.file->Damaged(
        handle, absl::StrFormat("restart point %d is no entry: found offset %d", restart,
                                block.RestartOffset(restart)));
  }

  absl::Status VerifyEntry(size_t i, const BlockHandle& handle, const Block& block,
                           const BlockIterator& it) {
    const std::string_view key = it.key();
    const std::string_view user_key = UserKey(key);
    const uint64_t tag = Tag(key);
    if (TagType(tag) > kMaxEntryType) {
      return parts_.file->Damaged(
          handle, absl::StrFormat("entry %d of the table: entry type: expected 0 or 1, found %d",
                                  found_.entries, TagType(tag)));
    }
    if (found_.entries != 0 && order_.Compare(found_.largest_key, key) >= 0)
      return OutOfOrder(handle);
    if (order_.Compare(key, parts_.index.Separator(i)) > 0 ||
        (i > 0 && order_.Compare(key, parts_.index.Separator(i - 1)) <= 0)) {
      return parts_.file->Damaged(
          handle, absl::StrFormat("entry %d of the table is outside of what the index says",
                                  found_.entries));
    }
    const uint64_t hash = Hash64(user_key, parts_.properties.hash_seed);
    uint64_t found_tag = 0;
    std::string_view found_value;
    if (block.Find(order_.user(), user_key, tag, hash, &found_tag, &found_value) !=
            Block::Result::kFound ||
        found_tag != tag || found_value.data() != it.value().data()) {
      return parts_.file->Damaged(
          handle, absl::StrFormat("entry %d of the table is not found by its key", found_.entries));
    }
    if (parts_.filter != nullptr && !parts_.filter->MayContain(hash)) {
      return parts_.file->Damaged(
          parts_.footer.filter,
          absl::StrFormat("the filter denies the key of entry %d", found_.entries));
    }
    SIEVEDB_RETURN_IF_ERROR(VerifyPrefix(user_key));
    CountEntry(key, it.value());
    return absl::OkStatus();
  }

  absl::Status VerifyPrefix(std::string_view user_key) {
    if (parts_.prefix_extractor == nullptr) return absl::OkStatus();
    const std::optional<std::string_view> prefix = parts_.prefix_extractor->Prefix(user_key);
    if (!prefix.has_value() || (found_.prefixes > 0 && *prefix == last_prefix_)) {
      return absl::OkStatus();
    }
    if (!parts_.filter->MayContain(PrefixHash(*prefix, parts_.properties.hash_seed))) {
      return parts_.file->Damaged(
          parts_.footer.filter,
          absl::StrFormat("the filter denies the prefix of entry %d", found_.entries));
    }
    ++found_.prefixes;
    last_prefix_ = *prefix;
    return absl::OkStatus();
  }

  absl::Status OutOfOrder(const BlockHandle& handle) {
    return parts_.file->Damaged(
        handle,
        absl::StrFormat("entry %d of the table is not after the one before it", found_.entries));
  }

  void CountEntry(std::string_view key, std::string_view value) {
    const uint64_t tag = Tag(key);
    const uint64_t sequence = TagSequence(tag);
    if (found_.entries == 0) {
      found_.smallest_key = key;
      found_.smallest_sequence = found_.largest_sequence = sequence;
    }
    if (found_.entries == 0 || !order_.user().Equal(UserKey(found_.largest_key), UserKey(key))) {
      ++found_.distinct_user_keys;
    }
    found_.smallest_sequence = std::min(found_.smallest_sequence, sequence);
    found_.largest_sequence = std::max(found_.largest_sequence, sequence);
    if (TagType(tag) == static_cast<uint8_t>(EntryType::kDelete)) ++found_.tombstones;
    ++found_.entries;
    found_.raw_key_bytes += key.size();
    found_.raw_value_bytes += value.size();
    found_.largest_key.assign(key);
  }

  // What was checked when the table was opened may have changed on the disk since.
  absl::Status VerifyTail() {
    const Footer& footer = parts_.footer;
    for (const BlockHandle& handle :
         {footer.range_tombstones, footer.filter, footer.index, footer.properties}) {
      if (handle.size == 0) continue;
      SIEVEDB_ASSIGN_OR_RETURN(BlockBuffer* const buffer,
                               parts_.file->Read(handle, /*verify_checksum=*/true));
      buffer->Unref();
    }
    char scratch[kFooterBytes];
    std::string_view bytes;
    const BlockFile& file = *parts_.file;
    SIEVEDB_RETURN_IF_ERROR(ReadExactly(file.file(), file.path(), parts_.file_bytes - kFooterBytes,
                                        kFooterBytes, scratch, &bytes));
    return DecodeFooter(bytes, parts_.file_bytes, file.path()).status();
  }

  absl::Status VerifyProperties() {
    const TableProperties& said = parts_.properties;
    const Footer& footer = parts_.footer;
    found_.index_bytes = footer.index.size + kBlockTrailerBytes;
    if (footer.filter.size != 0) found_.filter_bytes = footer.filter.size + kBlockTrailerBytes;
    found_.file_number = footer.file_number;
    // Where its extractor is not here there is nothing to compare with.
    if (parts_.prefix_extractor == nullptr) found_.prefixes = said.prefixes;
    const struct {
      const char* name;
      uint64_t TableProperties::*field;
    } numbers[] = {{"entries", &TableProperties::entries},
                   {"tombstones", &TableProperties::tombstones},
                   {"range_tombstones", &TableProperties::range_tombstones},
                   {"distinct_user_keys", &TableProperties::distinct_user_keys},
                   {"data_blocks", &TableProperties::data_blocks},
                   {"raw_key_bytes", &TableProperties::raw_key_bytes},
                   {"raw_value_bytes", &TableProperties::raw_value_bytes},
                   {"raw_data_bytes", &TableProperties::raw_data_bytes},
                   {"data_bytes", &TableProperties::data_bytes},
                   {"index_bytes", &TableProperties::index_bytes},
                   {"filter_bytes", &TableProperties::filter_bytes},
                   {"smallest_sequence", &TableProperties::smallest_sequence},
                   {"largest_sequence", &TableProperties::largest_sequence},
                   {"file_number", &TableProperties::file_number},
                   {"prefixes", &TableProperties::prefixes}};
    for (const auto& number : numbers) {
      if (said.*number.field == found_.*number.field) continue;
      return parts_.file->Damaged(footer.properties,
                                  absl::StrFormat("%s: expected %d, found %d", number.name,
                                                  said.*number.field, found_.*number.field));
    }
    if (said.smallest_key != found_.smallest_key || said.largest_key != found_.largest_key) {
      return parts_.file->Damaged(footer.properties, "the key range is not that of the contents");
    }
    return absl::OkStatus();
  }

  const TableParts& parts_;
  const InternalKeyOrder order_;
  TableProperties found_;
  std::string last_prefix_;  // where found_.prefixes > 0
};

}  // namespace

absl::Status VerifyTable(const TableParts& parts) { return TableVerifier(parts).Run(); }

absl::Status DescribeTableBlocks(const TableParts& parts,
                                 const std::function<bool(const BlockDescription&)>& fn) {
  std::string stored_bytes;
  std::string raw;
  for (size_t i = 0; i < parts.index.blocks(); ++i) {
    const BlockHandle handle = parts.index.handle(i);
    const BlockFile& file = *parts.file;
    stored_bytes.resize(handle.size + kBlockTrailerBytes);
    std::string_view stored;
    SIEVEDB_RETURN_IF_ERROR(ReadExactly(file.file(), file.path(), handle.offset,
                                        stored_bytes.size(), stored_bytes.data(), &stored));
    SIEVEDB_ASSIGN_OR_RETURN(const StoredBlock block,
                             file.Check(handle, stored, /*verify_checksum=*/true));
    SIEVEDB_ASSIGN_OR_RETURN(const size_t raw_bytes, file.RawSize(handle, block));
    raw.resize(raw_bytes);
    SIEVEDB_RETURN_IF_ERROR(file.Unpack(handle, block, raw.data(), raw_bytes));
    BlockIterator it(parts.order);
    if (!it.Init(raw)) return file.Damaged(handle, "its outline is malformed");
    BlockDescription description;
    description.offset = handle.offset;
    description.stored_bytes = handle.size;
    description.raw_bytes = raw_bytes;
    description.compression = block.codec;
    for (it.SeekToFirst(); it.Valid(); it.Next()) ++description.entries;
    if (it.damaged()) return file.Damaged(handle, "an entry is malformed");
    if (!fn(description)) break;
  }
  return absl::OkStatus();
}

}  // namespace sievedb
