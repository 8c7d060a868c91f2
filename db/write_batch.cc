#include "sievedb/write_batch.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"
#include "db/log_format.h"
#include "db/memtable.h"
#include "db/write_batch_internal.h"
#include "table/internal_key.h"
#include "util/coding.h"
#include "util/escape.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

constexpr size_t kHeaderBytes = WriteBatchInternal::kHeaderBytes;
constexpr size_t kCountAt = 8;
static_assert(kHeaderBytes == kCountAt + sizeof(uint32_t));

// Of the first byte of a change.
constexpr uint8_t kMaxChangeType = static_cast<uint8_t>(EntryType::kDeleteRange);

constexpr uint64_t kMaxKeyBytes = uint64_t{64} << 20;
constexpr uint64_t kMaxValueBytes = uint64_t{3} << 30;

constexpr size_t kMaxKeyBytesInMessage = 64;

// Type and family, and two lengths.
constexpr size_t kMaxChangeOverheadBytes = 2 + 2 * kMaxVarint32Bytes;

// Up to this, filling the room with zeros before it is written costs less than
// growing the string in four steps.
constexpr size_t kMaxOneStepBytes = 1024;

absl::Status CheckSizes(size_t batch_bytes, uint64_t key_bytes, uint64_t value_bytes) {
  if (key_bytes > kMaxKeyBytes) {
    return absl::InvalidArgumentError(
        absl::StrFormat("key of %d bytes: at most %d are allowed", key_bytes, kMaxKeyBytes));
  }
  if (value_bytes > kMaxValueBytes) {
    return absl::InvalidArgumentError(
        absl::StrFormat("value of %d bytes: at most %d are allowed", value_bytes, kMaxValueBytes));
  }
  if (batch_bytes + key_bytes + value_bytes + kMaxChangeOverheadBytes > kMaxLogPayloadBytes) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "batch of more than %d bytes: it must fit one WAL record", kMaxLogPayloadBytes));
  }
  return absl::OkStatus();
}

uint32_t CountOf(std::string_view rep) { return DecodeFixed32(rep.data() + kCountAt); }
void AddToCount(std::string* rep, uint32_t n) {
  EncodeFixed32(rep->data() + kCountAt, CountOf(*rep) + n);
}

char* EncodeBytes(char* to, std::string_view bytes) {
  to = EncodeVarint32(to, static_cast<uint32_t>(bytes.size()));
  if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
  return to + bytes.size();
}

// value: nullptr for a change that has none.
void AppendChange(std::string* rep, EntryType type, std::string_view key,
                  const std::string_view* value) {
  const size_t size = key.size() + (value == nullptr ? 0 : value->size());
  const size_t old_size = rep->size();
  if (size + kMaxChangeOverheadBytes <= kMaxOneStepBytes) [[likely]] {
    rep->resize(old_size + size + kMaxChangeOverheadBytes);
    char* to = rep->data() + old_size;
    *to++ = static_cast<char>(type);
    *to++ = 0;  // family
    to = EncodeBytes(to, key);
    if (value != nullptr) to = EncodeBytes(to, *value);
    rep->resize(static_cast<size_t>(to - rep->data()));
  } else {
    rep->push_back(static_cast<char>(type));
    rep->push_back(0);  // family
    AppendLengthPrefixed(rep, key);
    if (value != nullptr) AppendLengthPrefixed(rep, *value);
  }
  AddToCount(rep, 1);
}

absl::Status Malformed(std::string_view rep, const char* at, std::string_view what) {
  return absl::DataLossError(
      absl::StrFormat("write batch of %d bytes: offset %d: %s", rep.size(), at - rep.data(), what));
}

// Reads the length-prefixed bytes at *at and moves it behind them.
absl::Status ReadBytes(std::string_view rep, const char** at, uint64_t limit, std::string_view name,
                       std::string_view* bytes) {
  const char* const end = rep.data() + rep.size();
  uint32_t length = 0;
  const char* const begin = DecodeVarint32(*at, end, &length);
  if (begin == nullptr) {
    return Malformed(rep, *at, absl::StrFormat("expected the length of a %s, found none", name));
  }
  if (length > limit) {
    return Malformed(
        rep, *at,
        absl::StrFormat("expected a %s of at most %d bytes, found %d", name, limit, length));
  }
  if (length > static_cast<size_t>(end - begin)) {
    return Malformed(
        rep, *at,
        absl::StrFormat("expected a %s of %d bytes, found %d", name, length, end - begin));
  }
  *bytes = std::string_view(begin, length);
  *at = begin + length;
  return absl::OkStatus();
}

// Calls fn(type, key, value) for each change; it returns a Status.
template <typename Fn>
absl::Status ForEachChange(std::string_view rep, Fn fn) {
  if (rep.size() < kHeaderBytes) {
    return Malformed(
        rep, rep.data(),
        absl::StrFormat("expected a header of %d bytes, found %d", kHeaderBytes, rep.size()));
  }
  const char* at = rep.data() + kHeaderBytes;
  const char* const end = rep.data() + rep.size();
  uint64_t found = 0;
  while (at < end) {
    const char* const change = at;
    const uint8_t type = static_cast<uint8_t>(*at++);
    if (type > kMaxChangeType) {
      return Malformed(
          rep, change,
          absl::StrFormat("expected an entry type of at most %d, found %d", kMaxChangeType, type));
    }
    uint32_t family = 0;
    const char* const behind_family = DecodeVarint32(at, end, &family);
    if (behind_family == nullptr || family != 0) {
      return Malformed(rep, at,
                       behind_family == nullptr
                           ? std::string("expected a column family, found none")
                           : absl::StrFormat("expected column family 0, found %d", family));
    }
    at = behind_family;
    std::string_view key;
    std::string_view value;
    SIEVEDB_RETURN_IF_ERROR(ReadBytes(rep, &at, kMaxKeyBytes, "key", &key));
    if (type == static_cast<uint8_t>(EntryType::kPut)) [[likely]] {
      SIEVEDB_RETURN_IF_ERROR(ReadBytes(rep, &at, kMaxValueBytes, "value", &value));
    } else if (type == static_cast<uint8_t>(EntryType::kDeleteRange)) {
      SIEVEDB_RETURN_IF_ERROR(ReadBytes(rep, &at, kMaxKeyBytes, "range's end", &value));
    }
    ++found;
    SIEVEDB_RETURN_IF_ERROR(fn(static_cast<EntryType>(type), key, value));
  }
  if (found != CountOf(rep)) {
    return Malformed(rep, rep.data() + kCountAt,
                     absl::StrFormat("expected %d changes, found %d", CountOf(rep), found));
  }
  return absl::OkStatus();
}

}  // namespace

WriteBatch::WriteBatch() { Clear(); }
WriteBatch::~WriteBatch() = default;
WriteBatch::WriteBatch(const WriteBatch&) = default;
WriteBatch& WriteBatch::operator=(const WriteBatch&) = default;

// What was moved from is an empty batch; its header fits a std::string without
// allocation, so nothing can fail.
WriteBatch::WriteBatch(WriteBatch&& other) noexcept
    : rep_(std::move(other.rep_)), error_(std::move(other.error_)), has_ranges_(other.has_ranges_) {
  other.Clear();
}

WriteBatch& WriteBatch::operator=(WriteBatch&& other) noexcept {
  if (this == &other) return *this;
  rep_ = std::move(other.rep_);
  error_ = std::move(other.error_);
  has_ranges_ = other.has_ranges_;
  other.Clear();
  return *this;
}

void WriteBatch::Put(std::string_view key, std::string_view value) {
  if (absl::Status status = CheckSizes(rep_.size(), key.size(), value.size()); !status.ok())
      [[unlikely]] {
    error_.Update(status);
    return;
  }
  AppendChange(&rep_, EntryType::kPut, key, &value);
}

void WriteBatch::Delete(std::string_view key) {
  if (absl::Status status = CheckSizes(rep_.size(), key.size(), 0); !status.ok()) [[unlikely]] {
    error_.Update(status);
    return;
  }
  AppendChange(&rep_, EntryType::kDelete, key, nullptr);
}

void WriteBatch::DeleteRange(std::string_view begin, std::string_view end) {
  const uint64_t longest = std::max(begin.size(), end.size());
  absl::Status status = CheckSizes(rep_.size(), longest, std::min(begin.size(), end.size()));
  if (!status.ok()) [[unlikely]] {
    error_.Update(status);
    return;
  }
  AppendChange(&rep_, EntryType::kDeleteRange, begin, &end);
  has_ranges_ = true;
}

void WriteBatch::Clear() {
  rep_.assign(kHeaderBytes, '\0');
  error_ = absl::OkStatus();
  has_ranges_ = false;
}

void WriteBatch::Append(const WriteBatch& other) {
  error_.Update(other.error_);
  const size_t added = other.rep_.size() - kHeaderBytes;
  if (absl::Status status = CheckSizes(rep_.size() + added, 0, 0); !status.ok()) {
    error_.Update(status);
    return;
  }
  // other may be this batch.
  const uint32_t count = other.Count();
  rep_.append(other.rep_, kHeaderBytes, added);
  AddToCount(&rep_, count);
  has_ranges_ |= other.has_ranges_;
}

absl::Status WriteBatch::Iterate(Handler* handler) const {
  return ForEachChange(rep_,
                       [handler](EntryType type, std::string_view key, std::string_view value) {
                         switch (type) {
                           case EntryType::kPut:
                             return handler->Put(key, value);
                           case EntryType::kDeleteRange:
                             return handler->DeleteRange(key, value);
                           case EntryType::kDelete:
                             break;
                         }
                         return handler->Delete(key);
                       });
}

uint32_t WriteBatch::Count() const { return CountOf(rep_); }
size_t WriteBatch::ByteSize() const { return rep_.size(); }

std::string_view WriteBatchInternal::Bytes(const WriteBatch& batch) { return batch.rep_; }

absl::Status WriteBatchInternal::Error(const WriteBatch& batch) { return batch.error_; }

absl::Status WriteBatchInternal::SetBytes(WriteBatch* batch, std::string_view bytes) {
  bool has_ranges = false;
  SIEVEDB_RETURN_IF_ERROR(ForEachChange(
      bytes, [&has_ranges](EntryType type, std::string_view, std::string_view) -> absl::Status {
        has_ranges |= type == EntryType::kDeleteRange;
        return absl::OkStatus();
      }));
  batch->rep_.assign(bytes);
  batch->error_ = absl::OkStatus();
  batch->has_ranges_ = has_ranges;
  return absl::OkStatus();
}

absl::Status WriteBatchInternal::CheckRanges(const WriteBatch& batch,
                                             const Comparator& comparator) {
  if (!batch.has_ranges_) return absl::OkStatus();
  return ForEachChange(
      batch.rep_, [&](EntryType type, std::string_view key, std::string_view value) {
        if (type != EntryType::kDeleteRange || comparator.Compare(key, value) <= 0) {
          return absl::OkStatus();
        }
        return absl::InvalidArgumentError(
            absl::StrFormat("DeleteRange: begin \"%s\" is after end \"%s\"",
                            Escape(key.substr(0, kMaxKeyBytesInMessage)),
                            Escape(value.substr(0, kMaxKeyBytesInMessage))));
      });
}

uint64_t WriteBatchInternal::Sequence(const WriteBatch& batch) {
  return DecodeFixed64(batch.rep_.data());
}

void WriteBatchInternal::SetSequence(WriteBatch* batch, uint64_t sequence) {
  EncodeFixed64(batch->rep_.data(), sequence);
}

void WriteBatchInternal::Concatenate(std::string* to, uint64_t sequence,
                                     const WriteBatch* const* batches, size_t count) {
  size_t bytes = kHeaderBytes;
  uint64_t changes = 0;
  for (size_t i = 0; i < count; ++i) {
    bytes += batches[i]->rep_.size() - kHeaderBytes;
    changes += batches[i]->Count();
  }
  assert(changes <= UINT32_MAX);
  to->clear();
  to->reserve(bytes);
  AppendFixed64(to, sequence);
  AppendFixed32(to, static_cast<uint32_t>(changes));
  for (size_t i = 0; i < count; ++i) to->append(batches[i]->rep_, kHeaderBytes);
  assert(to->size() == bytes);
}

absl::Status WriteBatchInternal::InsertInto(const WriteBatch& batch, uint64_t first_sequence,
                                            MemTable* memtable) {
  uint64_t sequence = first_sequence;
  return ForEachChange(batch.rep_, [memtable, &sequence](EntryType type, std::string_view key,
                                                         std::string_view value) {
    if (type == EntryType::kDeleteRange) [[unlikely]] {
      memtable->AddRange(sequence++, key, value);
    } else {
      memtable->Add(sequence++, type, key, value);
    }
    return absl::OkStatus();
  });
}

}  // namespace sievedb
