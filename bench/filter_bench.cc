// Every filter beside every other: what it costs to build and to ask, for keys that
// are there and that are not, alone and in batches, what it takes and how often it is
// wrong.
//
//   filter_bench --benchmark_filter='absent_batch/.*/16777216'
//
// A benchmark's name is what is measured / the filter / its bytes. Counters: per_key,
// the time for one key, bits_per_key, and fpr_percent where absent keys are asked.
//
// Beside ours stand LevelDB's filter, by its public header and where CMake finds it,
// and the plainest filter of one cache line a key: a 512-bit block and 6 probes, set
// and asked one by one, with no instructions but those of every CPU. RocksDB's filters
// are not here: since its version 7 the classes that build and ask them are internal,
// and its public header gives no way to them but through a DB.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "benchmark/benchmark.h"
#include "sievedb/filter.h"
#include "util/aligned_buffer.h"
#include "util/multiply.h"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#ifdef SIEVEDB_HAVE_LEVELDB
#include "leveldb/filter_policy.h"
#include "leveldb/slice.h"
#endif

namespace sievedb {
namespace {

// SplitMix64: hashes as XXH3 makes them of keys.
uint64_t Random(uint64_t i) {
  uint64_t z = (i + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// A filter that was built, whatever it is.
class Subject {
 public:
  virtual ~Subject() = default;
  virtual bool MayContain(uint64_t hash) const = 0;
  virtual void MayContainMany(absl::Span<const uint64_t> hashes, absl::Span<bool> results) const {
    for (size_t i = 0; i < hashes.size(); ++i) results[i] = MayContain(hashes[i]);
  }
  virtual uint64_t Bytes() const = 0;
};

template <typename T>
class OurSubject final : public Subject {
 public:
  explicit OurSubject(T filter) : filter_(std::move(filter)) {}
  bool MayContain(uint64_t hash) const override { return filter_.ContainsHash(hash); }
  void MayContainMany(absl::Span<const uint64_t> hashes, absl::Span<bool> results) const override {
    filter_.ContainsManyHashes(hashes, results);
  }
  uint64_t Bytes() const override { return filter_.MemoryBytes(); }

 private:
  const T filter_;
};

template <typename T>
std::unique_ptr<Subject> Ours(absl::StatusOr<T> filter) {
  if (!filter.ok()) return nullptr;
  return std::make_unique<OurSubject<T>>(*std::move(filter));
}

// Keys one by one into a filter whose Add may fail.
template <typename T>
std::unique_ptr<Subject> AddedOneByOne(absl::StatusOr<T> filter,
                                       absl::Span<const uint64_t> hashes) {
  if (!filter.ok()) return nullptr;
  for (const uint64_t hash : hashes) {
    if (!filter->AddHash(hash).ok()) return nullptr;
  }
  return Ours(std::move(filter));
}

template <typename T>
std::unique_ptr<Subject> AddedAtOnce(absl::StatusOr<T> filter, absl::Span<const uint64_t> hashes) {
  if (!filter.ok()) return nullptr;
  filter->AddManyHashes(hashes);
  return Ours(std::move(filter));
}

// The plainest filter of one cache line a key.
class PlainBlocked final : public Subject {
 public:
  PlainBlocked(absl::Span<const uint64_t> hashes, double bits_per_key)
      : blocks_(std::max<uint64_t>(
            1, static_cast<uint64_t>(static_cast<double>(hashes.size()) * bits_per_key / 512))),
        buffer_(AlignedBuffer::Zeroed(blocks_ * 64)) {
    for (const uint64_t hash : hashes) {
      char* const block = buffer_.data() + MultiplyHigh(hash, blocks_) * 64;
      auto probe = static_cast<uint32_t>(hash);
      for (int i = 0; i < kProbes; ++i, probe *= kGolden) {
        const uint32_t bit = probe >> 23;
        block[bit / 8] = static_cast<char>(block[bit / 8] | (1 << (bit % 8)));
      }
    }
  }
  bool MayContain(uint64_t hash) const override {
    const char* const block = buffer_.data() + MultiplyHigh(hash, blocks_) * 64;
    auto probe = static_cast<uint32_t>(hash);
    for (int i = 0; i < kProbes; ++i, probe *= kGolden) {
      const uint32_t bit = probe >> 23;
      if ((block[bit / 8] >> (bit % 8) & 1) == 0) return false;
    }
    return true;
  }
  void MayContainMany(absl::Span<const uint64_t> hashes, absl::Span<bool> results) const override {
    constexpr size_t kGroup = 16;
    for (size_t begin = 0; begin < hashes.size(); begin += kGroup) {
      const size_t end = std::min(hashes.size(), begin + kGroup);
      for (size_t i = begin; i < end; ++i) {
        __builtin_prefetch(buffer_.data() + MultiplyHigh(hashes[i], blocks_) * 64);
      }
      for (size_t i = begin; i < end; ++i) results[i] = MayContain(hashes[i]);
    }
  }
  uint64_t Bytes() const override { return blocks_ * 64; }

 private:
  static constexpr int kProbes = 6;
  static constexpr uint32_t kGolden = 0x9e3779b9;

  const uint64_t blocks_;
  AlignedBuffer buffer_;
};

#ifdef SIEVEDB_HAVE_LEVELDB
// LevelDB hashes keys itself, so a key is the 8 bytes of a hash.
class LevelDbSubject final : public Subject {
 public:
  LevelDbSubject(absl::Span<const uint64_t> hashes, int bits_per_key)
      : policy_(leveldb::NewBloomFilterPolicy(bits_per_key)) {
    std::vector<leveldb::Slice> keys;
    keys.reserve(hashes.size());
    for (const uint64_t& hash : hashes) keys.push_back(KeyOf(hash));
    policy_->CreateFilter(keys.data(), static_cast<int>(keys.size()), &bytes_);
  }
  bool MayContain(uint64_t hash) const override {
    return policy_->KeyMayMatch(KeyOf(hash), bytes_);
  }
  uint64_t Bytes() const override { return bytes_.size(); }

 private:
  static leveldb::Slice KeyOf(const uint64_t& hash) {
    return {reinterpret_cast<const char*>(&hash), sizeof(hash)};
  }

  const std::unique_ptr<const leveldb::FilterPolicy> policy_;
  std::string bytes_;
};
#endif

struct Contender {
  const char* name;
  double bits_per_key;
  std::function<std::unique_ptr<Subject>(absl::Span<const uint64_t>)> build;
};

std::vector<Contender> Contenders() {
  const auto bits = [](absl::Span<const uint64_t> hashes, double bits_per_key) {
    return FilterSizing::ForBitsPerKey(hashes.size(), bits_per_key);
  };
  using Hashes = absl::Span<const uint64_t>;
  std::vector<Contender> contenders = {
      {"plain_512bit_6probes", 10,
       [](Hashes hashes) { return std::make_unique<PlainBlocked>(hashes, 10); }},
      {"bloom", 10,
       [=](Hashes hashes) { return AddedAtOnce(BloomFilter::Create(bits(hashes, 10)), hashes); }},
      {"blocked_bloom", 10,
       [=](Hashes hashes) {
         return AddedAtOnce(BlockedBloomFilter::Create(bits(hashes, 10)), hashes);
       }},
      {"dense_blocked_bloom", 10,
       [=](Hashes hashes) {
         return Ours(BlockedBloomFilter::CreateDense(bits(hashes, 10), hashes));
       }},
      {"binary_fuse", 9.02, [](Hashes hashes) { return Ours(BinaryFuseFilter::Create(hashes)); }},
      {"ribbon", 7.06,
       [=](Hashes hashes) { return Ours(RibbonFilter::Create(bits(hashes, 7.06), hashes)); }},
      {"counting_bloom", 40,
       [=](Hashes hashes) {
         absl::StatusOr<CountingBloomFilter> filter = CountingBloomFilter::Create(bits(hashes, 40));
         if (filter.ok()) {
           for (const uint64_t hash : hashes) filter->AddHash(hash);
         }
         return Ours(std::move(filter));
       }},
      {"cuckoo", 12.8,
       [=](Hashes hashes) {
         return AddedOneByOne(CuckooFilter::Create(bits(hashes, 12.8)), hashes);
       }},
      // Planned for a tenth of the keys that come.
      {"scalable_bloom", 17,
       [](Hashes hashes) {
         return AddedOneByOne(
             ScalableBloomFilter::Create(FilterSizing::ForRate(hashes.size() / 10, 0.01)), hashes);
       }},
  };
#ifdef SIEVEDB_HAVE_LEVELDB
  contenders.push_back(
      {"leveldb", 10, [](Hashes hashes) { return std::make_unique<LevelDbSubject>(hashes, 10); }});
#endif
  return contenders;
}

std::vector<uint64_t> KeysFor(const Contender& contender, int64_t bytes) {
  std::vector<uint64_t> hashes(
      static_cast<size_t>(static_cast<double>(bytes) * 8 / contender.bits_per_key));
  for (size_t i = 0; i < hashes.size(); ++i) hashes[i] = Random(i);
  return hashes;
}

// The last filter that was asked for: the benchmarks that ask the same one come one
// after the other, and filling the largest takes many seconds.
const Subject* Filled(const Contender& contender, int64_t bytes, size_t* keys) {
  static std::string name;
  static size_t last_keys;
  static std::unique_ptr<Subject> subject;
  const std::string wanted = absl::StrFormat("%s/%d", contender.name, bytes);
  if (name != wanted) {
    subject.reset();
    const std::vector<uint64_t> hashes = KeysFor(contender, bytes);
    subject = contender.build(hashes);
    last_keys = hashes.size();
    name = wanted;
  }
  *keys = last_keys;
  return subject.get();
}

void ReportSize(benchmark::State& state, const Subject& subject, size_t keys) {
  state.counters["bits_per_key"] =
      static_cast<double>(subject.Bytes()) * 8 / static_cast<double>(keys);
}

void Build(benchmark::State& state, const Contender& contender) {
  const std::vector<uint64_t> hashes = KeysFor(contender, state.range(0));
  std::unique_ptr<Subject> subject;
  for (auto _ : state) {
    subject = contender.build(hashes);
    if (subject == nullptr) {
      state.SkipWithError("not built");
      return;
    }
  }
  ReportSize(state, *subject, hashes.size());
  state.counters["per_key"] = benchmark::Counter(
      static_cast<double>(state.iterations()) * static_cast<double>(hashes.size()),
      benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

// Lookups one after the other have other work between them. Without it the CPU would
// guess an answer and be far into the next questions before this one's line came: a
// batch that no program has.
inline void FinishAnswer() {
#if defined(__x86_64__)
  _mm_lfence();
#endif
}

constexpr size_t kQuestions = size_t{1} << 18;
constexpr size_t kBatch = 64;

void Ask(benchmark::State& state, const Contender& contender, bool present, bool batched) {
  size_t keys = 0;
  const Subject* const subject = Filled(contender, state.range(0), &keys);
  if (subject == nullptr) {
    state.SkipWithError("not built");
    return;
  }
  std::vector<uint64_t> questions(kQuestions);
  for (size_t i = 0; i < kQuestions; ++i) {
    const uint64_t r = Random((uint64_t{1} << 40) + i);
    questions[i] = present ? Random(r % keys) : r;
  }
  size_t at = 0;
  uint64_t maybe = 0;
  std::array<bool, kBatch> results;
  // A batch an iteration in both, so that the loop itself weighs as much.
  for (auto _ : state) {
    const auto batch = absl::MakeConstSpan(questions).subspan(at, kBatch);
    if (batched) {
      subject->MayContainMany(batch, absl::MakeSpan(results));
      for (const bool result : results) maybe += result ? 1 : 0;
    } else {
      for (const uint64_t hash : batch) {
        maybe += subject->MayContain(hash) ? 1 : 0;
        FinishAnswer();
      }
    }
    at = (at + kBatch) % kQuestions;
  }
  const auto asked = static_cast<double>(state.iterations()) * kBatch;
  ReportSize(state, *subject, keys);
  state.counters["per_key"] =
      benchmark::Counter(asked, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  if (!present) state.counters["fpr_percent"] = static_cast<double>(maybe) * 100 / asked;
  if (present && static_cast<double>(maybe) < asked) state.SkipWithError("a key was denied");
}

void RegisterAll() {
  for (const Contender& contender : Contenders()) {
    for (const int64_t bytes :
         {int64_t{64} << 10, int64_t{1} << 20, int64_t{16} << 20, int64_t{128} << 20}) {
      const auto add = [&](const char* what, auto function) {
        return benchmark::RegisterBenchmark(absl::StrFormat("%s/%s", what, contender.name).c_str(),
                                            function)
            ->Arg(bytes);
      };
      add("build", [contender](benchmark::State& state) {
        Build(state, contender);
      })->Unit(benchmark::kMillisecond);
      for (const bool present : {false, true}) {
        for (const bool batched : {false, true}) {
          const std::string what =
              absl::StrFormat("%s_%s", present ? "present" : "absent", batched ? "batch" : "one");
          add(what.c_str(), [contender, present, batched](benchmark::State& state) {
            Ask(state, contender, present, batched);
          });
        }
      }
    }
  }
}

}  // namespace
}  // namespace sievedb

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  sievedb::RegisterAll();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
