// Filter blocks from anywhere: never a crash or a read outside the bytes. And hashes
// from anywhere: never a key denied that was added.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "sievedb/filter.h"
#include "util/aligned_buffer.h"
#include "util/coding.h"
#include "util/filter_block.h"
#include "util/hash.h"

namespace {

using sievedb::AlignedBuffer;

AlignedBuffer Copy(std::string_view bytes) {
  AlignedBuffer buffer(bytes.size());
  if (!bytes.empty()) std::memcpy(buffer.data(), bytes.data(), bytes.size());
  return buffer;
}

void Read(std::string_view bytes, uint8_t kind) {
  auto reader = sievedb::OpenBuiltInFilter(kind, bytes);
  if (!reader.ok()) return;
  for (uint64_t hash = 0; hash < 64; ++hash) {
    const uint64_t spread = hash * 0x9e3779b97f4a7c15;
    (*reader)->Prefetch(spread);
    static_cast<void>((*reader)->MayContain(spread));
    static_cast<void>((*reader)->MayContain(~spread));
  }
  const sievedb::FilterFigures figures = (*reader)->Figures();
  if (!(figures.expected_fpr >= 0 && figures.expected_fpr <= 1) ||
      figures.bits_set > figures.bits || figures.bits / 8 >= bytes.size()) {
    std::abort();
  }
}

void Build(std::string_view bytes) {
  std::vector<uint64_t> hashes;
  for (size_t at = 1; at + 8 <= bytes.size(); at += 8) {
    hashes.push_back(sievedb::DecodeFixed64(bytes.data() + at));
  }
  const double bits_per_key = static_cast<uint8_t>(bytes[0]) / 4.0;
  for (const auto& policy :
       {sievedb::NewBlockedBloomPolicy(bits_per_key),
        sievedb::NewDenseBlockedBloomPolicy(bits_per_key), sievedb::NewBloomPolicy(bits_per_key),
        sievedb::NewRibbonPolicy(bits_per_key), sievedb::NewBinaryFusePolicy()}) {
    std::unique_ptr<sievedb::FilterBuilder> builder = policy->NewBuilder({});
    for (uint64_t hash : hashes) builder->AddHash(hash);
    const AlignedBuffer filter = Copy(builder->Finish());
    const uint8_t kind = builder->Kind() != 0 ? builder->Kind() : policy->Kind();
    auto reader = sievedb::OpenBuiltInFilter(kind, filter.view());
    if (!reader.ok()) std::abort();
    const std::unique_ptr<bool[]> results(new bool[hashes.size()]);
    (*reader)->MayContainMany(hashes, absl::MakeSpan(results.get(), hashes.size()));
    for (size_t i = 0; i < hashes.size(); ++i) {
      if (!(*reader)->MayContain(hashes[i]) || !results[i]) std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) {
    Read({}, sievedb::kBlockedBloomKind);
    return 0;
  }
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  AlignedBuffer buffer = Copy(bytes);
  Read(buffer.view(), data[size - 1]);
  Read(buffer.view(), sievedb::kBlockedBloomKind);
  if (size >= sievedb::kFilterTrailerBytes) {
    // Past the check, which would keep nearly every mutation out.
    char* const trailer = buffer.data() + size - sievedb::kFilterTrailerBytes;
    const uint64_t check =
        sievedb::Hash64Pair({trailer, sievedb::kFilterCheckOffset},
                            {trailer + sievedb::kFilterProbesOffset,
                             sievedb::kFilterTrailerBytes - sievedb::kFilterProbesOffset},
                            0);
    sievedb::EncodeFixed32(trailer + sievedb::kFilterCheckOffset, static_cast<uint32_t>(check));
    Read(buffer.view(), sievedb::kBlockedBloomKind);
    Read(buffer.view(), data[size - 1]);
  }
  Build(bytes);
  return 0;
}
