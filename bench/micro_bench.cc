// The hot pieces one by one, with nothing of the others around them. For choosing
// between two ways of doing one thing; what a user gets is db_bench's business.

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_format.h"
#include "benchmark/benchmark.h"
#include "db/memtable.h"
#include "sievedb/comparator.h"
#include "sievedb/filter.h"
#include "sievedb/options.h"
#include "table/block.h"
#include "table/block_builder.h"
#include "table/internal_key.h"
#include "table/lookup.h"
#include "util/aligned_buffer.h"
#include "util/block_cache_impl.h"
#include "util/blocked_bloom.h"
#include "util/epoch.h"
#include "util/hash.h"
#include "util/ref_counted.h"

namespace sievedb {
namespace {

constexpr double kBitsPerKey = 10;

std::string Key(uint64_t i) { return absl::StrFormat("%016d", i); }

std::vector<uint64_t> RandomWords(size_t n, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<uint64_t> words(n);
  for (uint64_t& word : words) word = random();
  return words;
}

// --- hash

void BM_Hash(benchmark::State& state) {
  const std::string key(static_cast<size_t>(state.range(0)), 'k');
  for (auto _ : state) {
    const char* data = key.data();
    benchmark::DoNotOptimize(data);
    benchmark::DoNotOptimize(Hash64({data, key.size()}));
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_Hash)->Arg(8)->Arg(16)->Arg(32)->Arg(100)->Arg(1024)->Arg(4096)->Arg(1 << 20);

// --- blocked Bloom filter

// A full filter of so many bytes. Kept for the benchmarks that ask the same one,
// since filling the largest takes a second.
struct Bloom {
  explicit Bloom(uint64_t bytes)
      : num_blocks(bytes / BlockedBloom::kBlockBytes),
        probes(FilterSizing::OptimalBlockedProbes(kBitsPerKey)),
        hashes(RandomWords(static_cast<size_t>(static_cast<double>(bytes) * 8 / kBitsPerKey), 1)),
        buffer(AlignedBuffer::Zeroed(bytes)) {
    BlockedBloom::AddAll(buffer.data(), num_blocks, probes, hashes);
  }
  static const Bloom& OfBytes(int64_t bytes) {
    static std::map<int64_t, std::unique_ptr<Bloom>> filters;
    std::unique_ptr<Bloom>& filter = filters[bytes];
    if (filter == nullptr) filter = std::make_unique<Bloom>(static_cast<uint64_t>(bytes));
    return *filter;
  }

  const uint64_t num_blocks;
  const int probes;
  const std::vector<uint64_t> hashes;  // of the keys that are in it
  AlignedBuffer buffer;
};

constexpr int64_t kMinBloomBytes = 64 << 10;
constexpr int64_t kMaxBloomBytes = 128 << 20;
constexpr size_t kAsked = size_t{1} << 20;  // a power of two

void BM_BloomBuild(benchmark::State& state) {
  const Bloom& bloom = Bloom::OfBytes(state.range(0));
  AlignedBuffer buffer = AlignedBuffer::Zeroed(bloom.buffer.size());
  for (auto _ : state) {
    BlockedBloom::AddAll(buffer.data(), bloom.num_blocks, bloom.probes, bloom.hashes);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(bloom.hashes.size()));
}
BENCHMARK(BM_BloomBuild)->RangeMultiplier(8)->Range(kMinBloomBytes, kMaxBloomBytes);

// Hashes to ask: all of them in the filter, from all over it, or none.
std::vector<uint64_t> AskedOf(const Bloom& bloom, bool present) {
  std::vector<uint64_t> asked = RandomWords(kAsked, 2);
  if (present) {
    for (uint64_t& hash : asked) hash = bloom.hashes[hash % bloom.hashes.size()];
  }
  return asked;
}

// One after the other: each waits for the answer before.
void ProbeSingle(benchmark::State& state, bool present) {
  const Bloom& bloom = Bloom::OfBytes(state.range(0));
  const std::vector<uint64_t> asked = AskedOf(bloom, present);
  size_t i = 0;
  uint64_t said_maybe = 0;
  for (auto _ : state) {
    // The next question depends on the answer, as what a lookup does next does.
    const bool maybe =
        BlockedBloom::MayContain(bloom.buffer.data(), bloom.num_blocks, bloom.probes, asked[i]);
    said_maybe += maybe ? 1 : 0;
    i = (i + 1 + (maybe ? 1 : 0)) & (kAsked - 1);
  }
  state.counters["maybe"] =
      static_cast<double>(said_maybe) / static_cast<double>(state.iterations());
  state.SetItemsProcessed(state.iterations());
}
void BM_BloomProbeAbsent(benchmark::State& state) { ProbeSingle(state, false); }
void BM_BloomProbePresent(benchmark::State& state) { ProbeSingle(state, true); }
BENCHMARK(BM_BloomProbeAbsent)->RangeMultiplier(8)->Range(kMinBloomBytes, kMaxBloomBytes);
BENCHMARK(BM_BloomProbePresent)->RangeMultiplier(8)->Range(kMinBloomBytes, kMaxBloomBytes);

// The lines of 16 questions are fetched before the first is answered, as a lookup
// does with the runs of the tree.
void BM_BloomProbeBatched(benchmark::State& state) {
  const Bloom& bloom = Bloom::OfBytes(state.range(0));
  const std::vector<uint64_t> asked = AskedOf(bloom, false);
  constexpr size_t kBatch = 16;
  size_t at = 0;
  for (auto _ : state) {
    const uint64_t* const batch = asked.data() + at;
    for (size_t i = 0; i < kBatch; ++i) {
      BlockedBloom::Prefetch(bloom.buffer.data(), bloom.num_blocks, batch[i]);
    }
    int said_maybe = 0;
    for (size_t i = 0; i < kBatch; ++i) {
      said_maybe +=
          BlockedBloom::MayContain(bloom.buffer.data(), bloom.num_blocks, bloom.probes, batch[i])
              ? 1
              : 0;
    }
    benchmark::DoNotOptimize(said_maybe);
    at = (at + kBatch) & (kAsked - 1);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(kBatch));
}
BENCHMARK(BM_BloomProbeBatched)->RangeMultiplier(8)->Range(kMinBloomBytes, kMaxBloomBytes);

// One block in the first-level cache: the instructions alone.
void BM_BloomBlockPortable(benchmark::State& state) {
  const Bloom& bloom = Bloom::OfBytes(kMinBloomBytes);
  const std::vector<uint64_t> asked = RandomWords(1024, 3);
  size_t i = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(bloom_internal::BlockMayContainPortable(
        bloom.buffer.data(), bloom.probes, static_cast<uint32_t>(asked[i++ % 1024])));
  }
}
BENCHMARK(BM_BloomBlockPortable);

#if SIEVEDB_BLOOM_HAS_AVX2
void BM_BloomBlockAvx2(benchmark::State& state) {
  if (!bloom_internal::kUseAvx2) {
    state.SkipWithError("this CPU has no AVX2");
    return;
  }
  const Bloom& bloom = Bloom::OfBytes(kMinBloomBytes);
  const std::vector<uint64_t> asked = RandomWords(1024, 3);
  size_t i = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(bloom_internal::BlockMayContainAvx2(
        bloom.buffer.data(), bloom.probes, static_cast<uint32_t>(asked[i++ % 1024])));
  }
}
BENCHMARK(BM_BloomBlockAvx2);
#endif

// --- block cache

constexpr size_t kBlockBytes = 4096;

// Hits among so many blocks, from one thread or several.
void BM_BlockCacheHit(benchmark::State& state) {
  static std::unique_ptr<BlockCacheImpl> cache;
  static std::unique_ptr<CachedBlocks> table;
  const auto blocks = static_cast<uint64_t>(state.range(0));
  if (state.thread_index() == 0) {
    table = nullptr;
    cache = std::make_unique<BlockCacheImpl>(blocks * BlockCacheImpl::ChargeOf(kBlockBytes) * 2 +
                                             (size_t{64} << 20));
    table = std::make_unique<CachedBlocks>(cache.get(), blocks);
    for (uint64_t i = 0; i < blocks; ++i) {
      BlockBuffer* const block = BlockBuffer::New(kBlockBytes);
      std::memset(block->data(), 1, kBlockBytes);
      table->Insert(i, block);
      block->Unref();
    }
  }
  std::mt19937_64 random(static_cast<uint64_t>(state.thread_index()));
  uint64_t missed = 0;
  // The first iteration begins after thread 0 is done.
  for (auto _ : state) {
    const EpochGuard guard;
    BlockBuffer* const block = table->Lookup(random() % blocks);
    if (block == nullptr) {
      ++missed;
    } else {
      benchmark::DoNotOptimize(block->data()[0]);
    }
  }
  if (missed > 0) state.SkipWithError("a block is missing");
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_BlockCacheHit)->Arg(1000)->Arg(100'000)->ThreadRange(1, 4);

// Every read misses, inserts and evicts.
void BM_BlockCacheMissAndInsert(benchmark::State& state) {
  BlockCacheImpl cache(8 << 20);
  CachedBlocks table(&cache, 1 << 16);
  uint64_t i = 0;
  for (auto _ : state) {
    const EpochGuard guard;
    if (table.Lookup(i) == nullptr) {
      BlockBuffer* const block = BlockBuffer::New(kBlockBytes);
      table.Insert(i, block);
      block->Unref();
    }
    i = (i + 1) % (1 << 16);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_BlockCacheMissAndInsert);

void BM_EpochGuard(benchmark::State& state) {
  for (auto _ : state) {
    const EpochGuard guard;
    benchmark::ClobberMemory();
  }
}
BENCHMARK(BM_EpochGuard);

// --- memtable

RefPtr<MemTable> FilledMemTable(const std::vector<std::string>& keys, std::string_view value) {
  size_t bytes = 0;
  for (const std::string& key : keys) bytes += key.size() + kTagBytes + value.size();
  RefPtr<MemTable> memtable =
      RefPtr<MemTable>::New(InternalKeyOrder(BytewiseComparator()), 1, /*expected_bytes=*/bytes);
  uint64_t sequence = 0;
  for (const std::string& key : keys) memtable->Add(++sequence, EntryType::kPut, key, value);
  return memtable;
}

std::vector<std::string> ShuffledKeys(uint64_t n, uint64_t factor) {
  std::vector<std::string> keys;
  keys.reserve(n);
  // An odd multiplier modulo a power of two visits every number once.
  for (uint64_t i = 0; i < n; ++i) keys.push_back(Key((i * 0x9e3779b1 & (n - 1)) * factor));
  return keys;
}

void BM_MemTableAdd(benchmark::State& state) {
  const std::vector<std::string> keys = ShuffledKeys(static_cast<uint64_t>(state.range(0)), 1);
  const std::string value(100, 'v');
  size_t bytes = 0;
  for (auto _ : state) {
    const RefPtr<MemTable> memtable = FilledMemTable(keys, value);
    bytes = memtable->DataBytes();
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
  // Besides the keys and values themselves.
  const size_t plain = keys.front().size() + value.size();
  state.counters["overhead_bytes"] =
      static_cast<double>(bytes) / static_cast<double>(state.range(0)) - static_cast<double>(plain);
}
// 64 and 512 MiB, and some that the processor's caches hold.
BENCHMARK(BM_MemTableAdd)
    ->Arg(1 << 12)
    ->Arg(1 << 17)
    ->Arg(1 << 19)
    ->Arg(1 << 22)
    ->Unit(benchmark::kMillisecond);

void MemTableGet(benchmark::State& state, uint64_t shift) {
  const auto n = static_cast<uint64_t>(state.range(0));
  const RefPtr<MemTable> memtable = FilledMemTable(ShuffledKeys(n, 2), std::string(100, 'v'));
  std::vector<std::string> asked;
  for (uint64_t word : RandomWords(1 << 16, 4)) asked.push_back(Key(word % n * 2 + shift));
  const KeyOrder order(BytewiseComparator());
  const ReadOptions options;
  size_t i = 0;
  uint64_t found = 0;
  for (auto _ : state) {
    Lookup lookup(asked[i++ % asked.size()], kMaxSequence, order, options, nullptr);
    memtable->Get(&lookup);
    found += lookup.decided() ? 1 : 0;
  }
  if (found != (shift == 0 ? static_cast<uint64_t>(state.iterations()) : 0)) {
    state.SkipWithError("a wrong answer");
  }
  state.SetItemsProcessed(state.iterations());
}
void BM_MemTableGetPresent(benchmark::State& state) { MemTableGet(state, 0); }
void BM_MemTableGetAbsent(benchmark::State& state) { MemTableGet(state, 1); }
BENCHMARK(BM_MemTableGetPresent)->Arg(1 << 12)->Arg(1 << 17)->Arg(1 << 19)->Arg(1 << 22);
BENCHMARK(BM_MemTableGetAbsent)->Arg(1 << 12)->Arg(1 << 17)->Arg(1 << 19)->Arg(1 << 22);

// --- data block

constexpr uint64_t kBlockEntries = 36;  // of 16 + 100 bytes: some 4 KiB

// Entries with even numbers.
std::string FilledBlock(bool with_hash_index) {
  BlockBuilder builder(/*restart_interval=*/16, with_hash_index);
  const std::string value(100, 'v');
  std::string last;
  for (uint64_t i = 0; i < kBlockEntries; ++i) {
    const std::string key = Key(i * 2);
    size_t shared = 0;
    while (shared < last.size() && key[shared] == last[shared]) ++shared;
    builder.Add(key, MakeTag(i + 1, EntryType::kPut), value, shared, true, Hash64(key));
    last = key;
  }
  const absl::Span<char> bytes = builder.Finish(0);
  return std::string(bytes.data(), bytes.size());
}

void BlockFind(benchmark::State& state, bool with_hash_index) {
  const std::string bytes = FilledBlock(with_hash_index);
  const KeyOrder order(BytewiseComparator());
  std::vector<std::string> keys;
  std::vector<uint64_t> hashes;
  for (uint64_t word : RandomWords(1024, 5)) {
    keys.push_back(Key(word % kBlockEntries * 2));
    hashes.push_back(Hash64(keys.back()));
  }
  size_t i = 0;
  for (auto _ : state) {
    Block block;
    uint64_t tag = 0;
    std::string_view value;
    const size_t at = i++ % keys.size();
    if (!block.Parse(bytes) || block.Find(order, keys[at], SeekTag(kMaxSequence), hashes[at], &tag,
                                          &value) != Block::Result::kFound) {
      state.SkipWithError("a key is missing");
      break;
    }
    benchmark::DoNotOptimize(value.data());
  }
  state.SetItemsProcessed(state.iterations());
}
void BM_BlockFindHashed(benchmark::State& state) { BlockFind(state, true); }
void BM_BlockFindSearched(benchmark::State& state) { BlockFind(state, false); }
BENCHMARK(BM_BlockFindHashed);
BENCHMARK(BM_BlockFindSearched);

void BM_BlockSeek(benchmark::State& state) {
  const std::string bytes = FilledBlock(true);
  BlockIterator iterator{InternalKeyOrder(BytewiseComparator())};
  std::vector<std::string> keys;
  for (uint64_t word : RandomWords(1024, 6)) keys.push_back(Key(word % (kBlockEntries * 2 - 1)));
  size_t i = 0;
  for (auto _ : state) {
    if (!iterator.Init(bytes)) {
      state.SkipWithError("a damaged block");
      break;
    }
    iterator.Seek(keys[i++ % keys.size()], SeekTag(kMaxSequence));
    benchmark::DoNotOptimize(iterator.Valid());
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_BlockSeek);

void BM_BlockNext(benchmark::State& state) {
  const std::string bytes = FilledBlock(true);
  BlockIterator iterator{InternalKeyOrder(BytewiseComparator())};
  if (!iterator.Init(bytes)) {
    state.SkipWithError("a damaged block");
    return;
  }
  iterator.SeekToFirst();
  for (auto _ : state) {
    iterator.Next();
    if (!iterator.Valid()) iterator.SeekToFirst();
    benchmark::DoNotOptimize(iterator.key().data());
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_BlockNext);

}  // namespace
}  // namespace sievedb

BENCHMARK_MAIN();
