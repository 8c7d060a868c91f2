// What a merge costs an entry, with children that cost next to nothing.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "benchmark/benchmark.h"
#include "sievedb/comparator.h"
#include "table/internal_iterator.h"
#include "table/internal_key.h"
#include "table/merging_iterator.h"

namespace sievedb {
namespace {

constexpr uint64_t kEntries = 100'000;

// Over keys in memory, forward only.
class KeysIterator final : public InternalIterator {
 public:
  explicit KeysIterator(std::vector<std::string> keys) : keys_(std::move(keys)) {}
  bool Valid() const override { return at_ < keys_.size(); }
  void SeekToFirst() override { at_ = 0; }
  void SeekToLast() override {}
  void Seek(std::string_view /*internal_key*/) override {}
  void SeekForPrev(std::string_view /*internal_key*/) override {}
  void Next() override { ++at_; }
  bool NextKey(std::string_view* key) override {
    if (++at_ >= keys_.size()) return false;
    *key = keys_[at_];
    return true;
  }
  void Prev() override {}
  std::string_view key() const override { return keys_[at_]; }
  std::string_view value() const override { return {}; }
  absl::Status status() const override { return absl::OkStatus(); }

 private:
  const std::vector<std::string> keys_;
  size_t at_ = 0;
};

// children, and how many entries on the average come from one child in a row.
void BM_MergeNext(benchmark::State& state) {
  const size_t children = static_cast<size_t>(state.range(0));
  const uint64_t streak = static_cast<uint64_t>(state.range(1));
  std::mt19937_64 random(1);
  std::vector<std::vector<std::string>> keys(children);
  size_t child = 0;
  for (uint64_t i = 0; i < kEntries; ++i) {
    if (random() % streak == 0) child = random() % children;
    keys[child].emplace_back();
    AppendInternalKey(&keys[child].back(), absl::StrFormat("%016d", i),
                      MakeTag(i, EntryType::kPut));
  }
  std::vector<std::unique_ptr<InternalIterator>> iterators;
  for (auto& of_child : keys) {
    iterators.push_back(std::make_unique<KeysIterator>(std::move(of_child)));
  }
  const auto merge =
      NewMergingIterator(InternalKeyOrder(BytewiseComparator()), std::move(iterators));
  merge->SeekToFirst();
  std::string_view key;
  for (auto _ : state) {
    if (!merge->NextKey(&key)) merge->SeekToFirst();
    benchmark::DoNotOptimize(key.data());
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_MergeNext)->ArgsProduct({{2, 4, 8, 16, 32}, {1, 10, 1000}});

}  // namespace
}  // namespace sievedb
