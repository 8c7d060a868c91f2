#include "sievedb/filter_c.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "sievedb/filter.h"
#include "util/filter_kinds.h"
#include "util/filter_support.h"
#include "util/status_macros.h"

// One of the two is there.
struct sievedb_filter {  // NOLINT(readability-identifier-naming)
  uint8_t kind = 0;
  std::unique_ptr<sievedb::Filter> owned;
  std::unique_ptr<sievedb::FilterReader> opened;
};

namespace sievedb {
namespace {

static_assert(SIEVEDB_FILTER_BLOCKED_BLOOM == kBlockedBloomKind);
static_assert(SIEVEDB_FILTER_DENSE_BLOCKED_BLOOM == kDenseBlockedBloomKind);
static_assert(SIEVEDB_FILTER_BLOOM == kBloomKind);
static_assert(SIEVEDB_FILTER_RIBBON == kRibbonKind);
static_assert(SIEVEDB_FILTER_BINARY_FUSE == kBinaryFuseKind);
static_assert(SIEVEDB_FILTER_COUNTING_BLOOM == kCountingBloomKind);
static_assert(SIEVEDB_FILTER_CUCKOO == kCuckooKind);
static_assert(SIEVEDB_FILTER_SCALABLE_BLOOM == kScalableBloomKind);

using FilterOr = absl::StatusOr<std::unique_ptr<Filter>>;

template <typename Type>
FilterOr Owned(absl::StatusOr<Type> filter) {
  if (!filter.ok()) return filter.status();
  return std::make_unique<Type>(*std::move(filter));
}

absl::Status UnknownKind(int kind) {
  return absl::InvalidArgumentError(absl::StrFormat("filter: no kind has the number %d", kind));
}

FilterOr Create(int kind, const FilterSizing& sizing) {
  switch (kind) {
    case kBlockedBloomKind:
      return Owned(BlockedBloomFilter::Create(sizing));
    case kBloomKind:
      return Owned(BloomFilter::Create(sizing));
    case kCountingBloomKind:
      return Owned(CountingBloomFilter::Create(sizing));
    case kCuckooKind:
      return Owned(CuckooFilter::Create(sizing));
    case kScalableBloomKind:
      return Owned(ScalableBloomFilter::Create(sizing));
    case kDenseBlockedBloomKind:
    case kRibbonKind:
    case kBinaryFuseKind:
      return absl::InvalidArgumentError(
          absl::StrFormat("filter: kind %d is built once from all keys", kind));
    default:
      return UnknownKind(kind);
  }
}

FilterOr Deserialize(int kind, std::string_view bytes) {
  switch (kind) {
    case kBlockedBloomKind:
    case kDenseBlockedBloomKind:
      return Owned(BlockedBloomFilter::Deserialize(bytes));
    case kBloomKind:
      return Owned(BloomFilter::Deserialize(bytes));
    case kRibbonKind:
      return Owned(RibbonFilter::Deserialize(bytes));
    case kBinaryFuseKind:
      return Owned(BinaryFuseFilter::Deserialize(bytes));
    case kCountingBloomKind:
      return Owned(CountingBloomFilter::Deserialize(bytes));
    case kCuckooKind:
      return Owned(CuckooFilter::Deserialize(bytes));
    case kScalableBloomKind:
      return Owned(ScalableBloomFilter::Deserialize(bytes));
    default:
      return UnknownKind(kind);
  }
}

// Errors: kUnimplemented where the kind is built once from all keys.
absl::Status AddHash(uint8_t kind, Filter* filter, uint64_t hash) {
  switch (kind) {
    case kBlockedBloomKind:
    case kDenseBlockedBloomKind:
      static_cast<BlockedBloomFilter*>(filter)->AddHash(hash);
      return absl::OkStatus();
    case kBloomKind:
      static_cast<BloomFilter*>(filter)->AddHash(hash);
      return absl::OkStatus();
    case kCountingBloomKind:
      static_cast<CountingBloomFilter*>(filter)->AddHash(hash);
      return absl::OkStatus();
    case kCuckooKind:
      return static_cast<CuckooFilter*>(filter)->AddHash(hash);
    case kScalableBloomKind:
      return static_cast<ScalableBloomFilter*>(filter)->AddHash(hash);
    default:
      return absl::UnimplementedError("filter: built once from all keys");
  }
}

FilterOr Build(int kind, const FilterSizing& sizing, absl::Span<const uint64_t> hashes) {
  switch (kind) {
    case kDenseBlockedBloomKind:
      return Owned(BlockedBloomFilter::CreateDense(sizing, hashes));
    case kRibbonKind:
      return Owned(RibbonFilter::Create(sizing, hashes));
    case kBinaryFuseKind:
      return Owned(BinaryFuseFilter::Create(hashes));
    default:
      break;
  }
  SIEVEDB_ASSIGN_OR_RETURN(std::unique_ptr<Filter> filter, Create(kind, sizing));
  if (kind == kBlockedBloomKind) {
    static_cast<BlockedBloomFilter*>(filter.get())->AddManyHashes(hashes);
  } else if (kind == kBloomKind) {
    static_cast<BloomFilter*>(filter.get())->AddManyHashes(hashes);
  } else {
    for (const uint64_t hash : hashes) {
      SIEVEDB_RETURN_IF_ERROR(AddHash(static_cast<uint8_t>(kind), filter.get(), hash));
    }
  }
  return filter;
}

sievedb_filter* Fail(const absl::Status& status, char** error) {
  if (error != nullptr) {
    const std::string message(status.message());
    *error = static_cast<char*>(std::malloc(message.size() + 1));
    if (*error != nullptr) std::memcpy(*error, message.c_str(), message.size() + 1);
  }
  return nullptr;
}

sievedb_filter* Release(int kind, FilterOr filter, char** error) {
  if (!filter.ok()) return Fail(filter.status(), error);
  auto result = std::make_unique<sievedb_filter>();
  result->kind = static_cast<uint8_t>(kind);
  result->owned = *std::move(filter);
  return result.release();
}

void ContainsManyHashes(const sievedb_filter& filter, absl::Span<const uint64_t> hashes,
                        bool* results) {
  const absl::Span<bool> to(results, hashes.size());
  if (filter.owned != nullptr) {
    filter.owned->ContainsManyHashes(hashes, to);
  } else {
    filter.opened->MayContainMany(hashes, to);
  }
}

}  // namespace
}  // namespace sievedb

uint64_t sievedb_filter_hash(const char* key, size_t key_bytes) {
  return sievedb::FilterHash({key, key_bytes});
}

sievedb_filter* sievedb_filter_create(sievedb_filter_kind kind, uint64_t keys, double bits_per_key,
                                      double fpr, char** error) {
  return sievedb::Release(kind, sievedb::Create(kind, {keys, bits_per_key, fpr}), error);
}

sievedb_filter* sievedb_filter_build(sievedb_filter_kind kind, double bits_per_key, double fpr,
                                     const uint64_t* hashes, size_t count, char** error) {
  return sievedb::Release(
      kind, sievedb::Build(kind, {count, bits_per_key, fpr}, absl::MakeConstSpan(hashes, count)),
      error);
}

sievedb_filter* sievedb_filter_deserialize(const char* bytes, size_t size, char** error) {
  const std::string_view serialized(bytes, size);
  const auto block = sievedb::CheckedFilterBlock(serialized);
  if (!block.ok()) return sievedb::Fail(block.status(), error);
  const uint8_t kind = static_cast<uint8_t>(block->back());
  return sievedb::Release(kind, sievedb::Deserialize(kind, serialized), error);
}

sievedb_filter* sievedb_filter_open(const char* bytes, size_t size, char** error) {
  auto reader = sievedb::OpenFilter({bytes, size});
  if (!reader.ok()) return sievedb::Fail(reader.status(), error);
  auto result = std::make_unique<sievedb_filter>();
  // Of a trailer that was just found good; the checksum is behind it.
  result->kind = static_cast<uint8_t>(bytes[size - sizeof(uint64_t) - 1]);
  result->opened = *std::move(reader);
  return result.release();
}

void sievedb_filter_destroy(sievedb_filter* filter) {
  const std::unique_ptr<sievedb_filter> owner(filter);
}

bool sievedb_filter_add(sievedb_filter* filter, const char* key, size_t key_bytes) {
  return sievedb_filter_add_hash(filter, sievedb_filter_hash(key, key_bytes));
}

bool sievedb_filter_add_hash(sievedb_filter* filter, uint64_t hash) {
  return filter->owned != nullptr && sievedb::AddHash(filter->kind, filter->owned.get(), hash).ok();
}

bool sievedb_filter_remove(sievedb_filter* filter, const char* key, size_t key_bytes) {
  return sievedb_filter_remove_hash(filter, sievedb_filter_hash(key, key_bytes));
}

bool sievedb_filter_remove_hash(sievedb_filter* filter, uint64_t hash) {
  if (filter->owned == nullptr) return false;
  if (filter->kind == sievedb::kCountingBloomKind) {
    return static_cast<sievedb::CountingBloomFilter*>(filter->owned.get())->RemoveHash(hash);
  }
  if (filter->kind == sievedb::kCuckooKind) {
    return static_cast<sievedb::CuckooFilter*>(filter->owned.get())->RemoveHash(hash);
  }
  return false;
}

bool sievedb_filter_contains(const sievedb_filter* filter, const char* key, size_t key_bytes) {
  return sievedb_filter_contains_hash(filter, sievedb_filter_hash(key, key_bytes));
}

bool sievedb_filter_contains_hash(const sievedb_filter* filter, uint64_t hash) {
  return filter->owned != nullptr ? filter->owned->ContainsHash(hash)
                                  : filter->opened->MayContain(hash);
}

void sievedb_filter_contains_many(const sievedb_filter* filter, const char* const* keys,
                                  const size_t* key_bytes, size_t count, bool* results) {
  constexpr size_t kGroup = 64;
  std::array<uint64_t, kGroup> hashes;
  for (size_t begin = 0; begin < count; begin += kGroup) {
    const size_t n = std::min(kGroup, count - begin);
    for (size_t i = 0; i < n; ++i) {
      hashes[i] = sievedb_filter_hash(keys[begin + i], key_bytes[begin + i]);
    }
    sievedb::ContainsManyHashes(*filter, {hashes.data(), n}, results + begin);
  }
}

void sievedb_filter_contains_many_hashes(const sievedb_filter* filter, const uint64_t* hashes,
                                         size_t count, bool* results) {
  sievedb::ContainsManyHashes(*filter, absl::MakeConstSpan(hashes, count), results);
}

char* sievedb_filter_serialize(const sievedb_filter* filter, size_t* size) {
  *size = 0;
  if (filter->owned == nullptr) return nullptr;
  const std::string bytes = filter->owned->Serialize();
  char* const copy = static_cast<char*>(std::malloc(bytes.size()));
  if (copy == nullptr) return nullptr;
  std::memcpy(copy, bytes.data(), bytes.size());
  *size = bytes.size();
  return copy;
}

sievedb_filter_kind sievedb_filter_get_kind(const sievedb_filter* filter) {
  return static_cast<sievedb_filter_kind>(filter->kind);
}

uint64_t sievedb_filter_keys(const sievedb_filter* filter) {
  return filter->owned != nullptr ? filter->owned->Figures().keys : filter->opened->Figures().keys;
}

double sievedb_filter_estimated_fpr(const sievedb_filter* filter) {
  return filter->owned != nullptr ? filter->owned->EstimatedFpr()
                                  : filter->opened->Figures().expected_fpr;
}

size_t sievedb_filter_memory_bytes(const sievedb_filter* filter) {
  return sizeof(*filter) +
         (filter->owned != nullptr ? filter->owned->MemoryBytes() : filter->opened->MemoryBytes());
}

void sievedb_free(void* memory) { std::free(memory); }
