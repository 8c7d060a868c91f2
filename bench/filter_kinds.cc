// One kind of filter, built as a table's is and asked for absent keys: for filter_kinds.py,
// which counts the instructions of BuildFilter and AskFilter.

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "sievedb/filter.h"
#include "util/aligned_buffer.h"
#include "util/filter_block.h"

namespace sievedb {

struct BuiltFilter {
  uint8_t kind = 0;
  std::string bytes;
};

uint64_t Random(uint64_t i) {
  uint64_t z = (i + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// Not inlined, so that a profiler knows them by name.
[[gnu::noinline]] BuiltFilter BuildFilter(const FilterPolicy& policy, uint64_t keys) {
  const std::unique_ptr<FilterBuilder> builder = policy.NewBuilder({});
  for (uint64_t i = 0; i < keys; ++i) builder->AddHash(Random(i));
  BuiltFilter built;
  built.bytes = builder->Finish();
  built.kind = builder->Kind() != 0 ? builder->Kind() : policy.Kind();
  return built;
}

[[gnu::noinline]] uint64_t AskFilter(const FilterReader& reader, uint64_t first, uint64_t count) {
  uint64_t maybe = 0;
  for (uint64_t i = 0; i < count; ++i) maybe += reader.MayContain(Random(first + i)) ? 1 : 0;
  return maybe;
}

namespace {

std::shared_ptr<const FilterPolicy> PolicyNamed(const std::string& name, double bits) {
  if (name == "blocked") return NewBlockedBloomPolicy(bits);
  if (name == "dense") return NewDenseBlockedBloomPolicy(bits);
  if (name == "ribbon") return NewRibbonPolicy(bits);
  if (name == "fuse") return NewBinaryFusePolicy();
  return nullptr;
}

int Main(int argc, char** argv) {
  double bits = 0;
  uint64_t keys = 0;
  uint64_t asked = 0;
  const auto policy =
      argc == 5 && absl::SimpleAtod(argv[2], &bits) ? PolicyNamed(argv[1], bits) : nullptr;
  if (policy == nullptr || !absl::SimpleAtoi(argv[3], &keys) || keys == 0 ||
      !absl::SimpleAtoi(argv[4], &asked) || asked == 0) {
    absl::FPrintF(stderr, "Usage: filter_kinds blocked|dense|ribbon|fuse BITS KEYS LOOKUPS\n");
    return 2;
  }
  const BuiltFilter built = BuildFilter(*policy, keys);
  AlignedBuffer bytes(built.bytes.size());
  std::memcpy(bytes.data(), built.bytes.data(), built.bytes.size());
  const auto reader = OpenBuiltInFilter(built.kind, bytes.view());
  if (!reader.ok()) {
    absl::FPrintF(stderr, "%s\n", reader.status().ToString());
    return 1;
  }
  const uint64_t maybe = AskFilter(**reader, keys, asked);
  absl::PrintF("%.4f %.8f\n",
               static_cast<double>(built.bytes.size()) * 8 / static_cast<double>(keys),
               static_cast<double>(maybe) / static_cast<double>(asked));
  return 0;
}

}  // namespace
}  // namespace sievedb

int main(int argc, char** argv) { return sievedb::Main(argc, argv); }
