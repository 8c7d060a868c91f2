#include "sievedb/write_batch.h"

#include <cassert>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"
#include "db/log_format.h"
#include "db/memtable.h"
#include "db/write_batch_internal.h"
#include "table/internal_key.h"
#include "util/coding.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

constexpr size_t kHeaderBytes = WriteBatchInternal::kHeaderBytes;
constexpr size_t kCountAt = 8;
static_assert(kHeaderBytes == kCountAt + sizeof(uint32_t));

constexpr uint64_t kMaxKeyBytes = uint64_t{64} << 20;
constexpr uint64_t kMaxValueBytes = uint64_t{3} << 30;

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
    if (type > kMaxEntryType) {
      return Malformed(
          rep, change,
          absl::StrFormat("expected an entry type of at most %d, found %d", kMaxEntryType, type));
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
    if (type == static_cast<uint8_t>(EntryType::kPut)) {
      SIEVEDB_RETURN_IF_ERROR(ReadBytes(rep, &at, kMaxValueBytes, "value", &value));
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
    : rep_(std::move(other.rep_)), error_(std::move(other.error_)) {
  other.Clear();
}

WriteBatch& WriteBatch::operator=(WriteBatch&& other) noexcept {
  if (this == &other) return *this;
  rep_ = std::move(other.rep_);
  error_ = std::move(other.error_);
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

void WriteBatch::Clear() {
  rep_.assign(kHeaderBytes, '\0');
  error_ = absl::OkStatus();
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
}

absl::Status WriteBatch::Iterate(Handler* handler) const {
  return ForEachChange(
      rep_, [handler](EntryType type, std::string_view key, std::string_view value) {
        return type == EntryType::kPut ? handler->Put(key, value) : handler->Delete(key);
      });
}

uint32_t WriteBatch::Count() const { return CountOf(rep_); }
size_t WriteBatch::ByteSize() const { return rep_.size(); }

std::string_view WriteBatchInternal::Bytes(const WriteBatch& batch) { return batch.rep_; }

absl::Status WriteBatchInternal::Error(const WriteBatch& batch) { return batch.error_; }

absl::Status WriteBatchInternal::SetBytes(WriteBatch* batch, std::string_view bytes) {
  SIEVEDB_RETURN_IF_ERROR(
      ForEachChange(bytes, [](EntryType, std::string_view, std::string_view) -> absl::Status {
        return absl::OkStatus();
      }));
  batch->rep_.assign(bytes);
  batch->error_ = absl::OkStatus();
  return absl::OkStatus();
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
    memtable->Add(sequence++, type, key, value);
    return absl::OkStatus();
  });
}

}  // namespace sievedb
