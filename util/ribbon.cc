#include "util/ribbon.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstring>

#include "util/aligned_buffer.h"

namespace sievedb {

// A key with mixed hash m in a layer of S segments of 64 slots, of which each of the
// first `lower` has b bits a slot and each other b + 1:
//
//   start         s = floor(m * 64 (S - 1) / 2^64)
//   coefficients  c = low XOR high half of m * 0x9fb21c651e98df25, its lowest bit set
//   fingerprint   bits 32 and up of m * 0xc2b2ae3d27d4eb4f mod 2^64, as many bits as
//                 the slots of the segment of s have
//
// Bit j of the fingerprint is the XOR over all t with bit t of c set of bit j of slot
// s + t. A segment is stored by columns: word j (8 bytes, little-endian) has bit j of
// its 64 slots, slot t at bit t. Columns 0 to 3, or all b where b < 4, of every segment
// come first, segment by segment; then the other columns of every segment; then a byte
// for each bucket of 256 starts: a key whose start is below 2 * byte in its bucket was
// bumped, and is in the next layer by MixHash(m, that layer's seed).
//
// Building is Gaussian elimination on the fly: a row per slot, each key's equation
// reduced by the rows that are there until it has a slot of its own as its first, or
// is a sum of others. Buckets are filled from the first to the last, and each from its
// last start to its first, since that is where the bucket before it reaches into: so
// what has no room is at the bucket's begin, and one number says which keys those are.

namespace {

// Keys per slot: above 1, so that nearly every slot is used and some keys are bumped.
constexpr double kLoad = 1.02;
constexpr uint64_t kRowBytes = sizeof(uint64_t) + sizeof(uint32_t);

inline uint64_t Parity(uint64_t x) { return static_cast<uint64_t>(__builtin_parityll(x)); }

// The equations of a layer in the making, one a slot. A row without coefficients is free.
class Rows {
 public:
  explicit Rows(uint64_t slots)
      : coefficients_(AlignedBuffer::Zeroed(slots * sizeof(uint64_t))),
        fingerprints_(slots * sizeof(uint32_t)) {}

  uint64_t* coefficients() { return reinterpret_cast<uint64_t*>(coefficients_.data()); }
  uint32_t* fingerprints() { return reinterpret_cast<uint32_t*>(fingerprints_.data()); }

  // Puts a key's equation into a free row, *row, or leaves *row alone where it says
  // what others say already. False where it contradicts them.
  bool Add(uint64_t start, uint64_t mixed, uint32_t mask, uint64_t* row);

 private:
  AlignedBuffer coefficients_;
  AlignedBuffer fingerprints_;
};

bool Rows::Add(uint64_t start, uint64_t mixed, uint32_t mask, uint64_t* row) {
  uint64_t* const rows = coefficients();
  uint32_t* const values = fingerprints();
  uint64_t c = Ribbon::Coefficients(mixed);
  uint32_t fingerprint = Ribbon::Fingerprint(mixed) & mask;
  uint64_t slot = start;
  while (rows[slot] != 0) {
    c ^= rows[slot];
    fingerprint ^= values[slot];
    if (c == 0) return fingerprint == 0;
    const int zeros = std::countr_zero(c);
    c >>= zeros;
    slot += static_cast<uint64_t>(zeros);
  }
  rows[slot] = c;
  values[slot] = fingerprint;
  *row = slot;
  return true;
}

uint32_t LowBits(int bits) { return bits >= 32 ? ~uint32_t{0} : (uint32_t{1} << bits) - 1; }

// Columns that the fingerprints need while building. Rows below the border get the
// further bit too; it is not stored there, and no key asks for it.
int Columns(const Ribbon::Shape& shape) {
  return shape.bits + (shape.lower < shape.segments ? 1 : 0);
}

// Adds the keys [begin, end) of mixed, which are one bucket's, from the last to the
// first. Returns how many units of the bucket's starts are bumped; *kept_from is the
// first key that is not.
uint64_t AddBucket(const uint64_t* mixed, uint64_t begin, uint64_t end, const Ribbon::Shape& shape,
                   Rows* rows, uint64_t* kept_from) {
  constexpr uint64_t kNone = ~uint64_t{0};
  const uint32_t mask = LowBits(Columns(shape));
  std::vector<uint64_t> taken;  // rows by keys of the unit that is being added
  uint64_t unit = kNone;
  uint64_t unit_end = end;
  for (uint64_t i = end; i-- > begin;) {
    const uint64_t start = Ribbon::Start(mixed[i], shape);
    if (start / Ribbon::kBumpUnit != unit) {
      unit = start / Ribbon::kBumpUnit;
      unit_end = i + 1;
      taken.clear();
    }
    uint64_t row = kNone;
    if (!rows->Add(start, mixed[i], mask, &row)) {
      // No row was reduced by these, so they can be taken back.
      for (const uint64_t slot : taken) rows->coefficients()[slot] = 0;
      *kept_from = unit_end;
      return unit % (Ribbon::kBucketSlots / Ribbon::kBumpUnit) + 1;
    }
    if (row != kNone) taken.push_back(row);
  }
  *kept_from = begin;
  return 0;
}

// Solves the rows from the last to the first and writes the solution by columns.
void Solve(const Ribbon::Shape& shape, Rows* rows, char* to) {
  const uint64_t* const coefficients = rows->coefficients();
  const uint32_t* const fingerprints = rows->fingerprints();
  const auto columns = static_cast<size_t>(Columns(shape));
  // Of each column the 64 bits from the slot on that is being solved.
  std::array<uint64_t, Ribbon::kMaxBits> window{};
  for (uint64_t segment = shape.segments; segment-- > 0;) {
    for (uint64_t t = Ribbon::kWidth; t-- > 0;) {
      const uint64_t slot = segment * Ribbon::kWidth + t;
      const uint64_t row = coefficients[slot];
      if (row == 0) {
        // Any value does.
        for (size_t j = 0; j < columns; ++j) window[j] <<= 1;
        continue;
      }
      const uint32_t fingerprint = fingerprints[slot];
      for (size_t j = 0; j < columns; ++j) {
        const uint64_t rest = window[j] << 1;
        window[j] = rest | (Parity(rest & row) ^ ((fingerprint >> j) & 1));
      }
    }
    const uint64_t first = shape.FirstColumns();
    char* const words = to + shape.FirstWord(segment) * 8;
    for (uint64_t j = 0; j < first; ++j) EncodeFixed64(words + j * 8, window[j]);
    char* const others = to + shape.OtherWord(segment) * 8;
    for (uint64_t j = 0; j < shape.OtherColumns(segment); ++j) {
      EncodeFixed64(others + j * 8, window[first + j]);
    }
  }
}

}  // namespace

double Ribbon::BitsPerSlotFor(double fpr) {
  const double bits = std::clamp<double>(-std::log2(fpr), kMinBits, kMaxBits);
  const double whole = std::floor(bits);
  // fpr = (1 - f) 2^-whole + f 2^-(whole + 1)
  return whole + 2 * (1 - std::exp2(whole - bits));
}

Ribbon::Shape Ribbon::ShapeFor(uint64_t keys, double bits_per_slot) {
  const double clamped = std::clamp<double>(bits_per_slot, kMinBits, kMaxBits);
  Shape shape;
  const double slots = std::ceil(static_cast<double>(keys) / kLoad) + kWidth;
  shape.segments = std::max<uint64_t>(2, static_cast<uint64_t>(std::ceil(slots / kWidth)));
  shape.bits = static_cast<int>(clamped);
  // Keys start in every segment but the last.
  const double upper = std::ceil((clamped - shape.bits) * static_cast<double>(shape.segments - 1));
  shape.lower = shape.segments - static_cast<uint64_t>(upper) - (upper > 0 ? 1 : 0);
  return shape;
}

uint64_t Ribbon::BuildBytes(uint64_t keys, double bits_per_slot) {
  const Shape shape = ShapeFor(keys, bits_per_slot);
  return keys * sizeof(uint64_t) + shape.segments * kWidth * kRowBytes + shape.Bytes();
}

Ribbon::Built Ribbon::Build(absl::Span<const uint64_t> hashes, double bits_per_slot) {
  // Fewer are a list at once.
  constexpr uint64_t kMinLayerKeys = 8;
  Built built;
  std::vector<uint64_t> bumped;
  for (uint64_t layer = 0;; ++layer) {
    AlignedBuffer buffer(hashes.size() * sizeof(uint64_t));
    uint64_t* const mixed = reinterpret_cast<uint64_t*>(buffer.data());
    const uint64_t keys = SortMixedHashes(hashes, MixSeed(layer), mixed);
    if (layer == 0) built.keys = keys;
    if (keys <= kMinLayerKeys || layer == kMaxLayers) {
      built.rest.assign(mixed, mixed + keys);
      return built;
    }
    built.shapes.push_back(ShapeFor(keys, bits_per_slot));
    built.layers.push_back(AlignedBuffer::Zeroed(built.shapes.back().Bytes()));
    bumped.clear();
    BuildLayer(absl::MakeConstSpan(mixed, keys), built.shapes.back(), built.layers.back().data(),
               &bumped);
    hashes = bumped;
  }
}

void Ribbon::BuildLayer(absl::Span<const uint64_t> mixed, const Shape& shape, char* to,
                        std::vector<uint64_t>* bumped) {
  assert(std::is_sorted(mixed.begin(), mixed.end()));
  Rows rows(shape.segments * kWidth);
  char* const thresholds = to + shape.Words() * 8;
  uint64_t begin = 0;
  for (uint64_t bucket = 0; bucket < shape.Buckets(); ++bucket) {
    uint64_t end = begin;
    while (end < mixed.size() && Start(mixed[end], shape) / kBucketSlots == bucket) ++end;
    uint64_t kept_from = begin;
    thresholds[bucket] =
        static_cast<char>(AddBucket(mixed.data(), begin, end, shape, &rows, &kept_from));
    bumped->insert(bumped->end(), mixed.data() + begin, mixed.data() + kept_from);
    begin = end;
  }
  assert(begin == mixed.size());
  Solve(shape, &rows, to);
}

Ribbon::Answer Ribbon::Ask(const Layer& layer, uint64_t mixed) {
  const uint64_t start = MultiplyHigh(mixed, layer.starts);
  const auto threshold = static_cast<uint8_t>(layer.thresholds[start / kBucketSlots]);
  if (start % kBucketSlots < threshold * kBumpUnit) [[unlikely]] {
    return Answer::kNextLayer;
  }
  const uint64_t segment = start / kWidth;
  const unsigned shift = start % kWidth;
  const uint64_t c = Coefficients(mixed);
  const uint64_t c_here = c << shift;
  const uint64_t c_next = c >> 1 >> (63 - shift);
  uint32_t fingerprint = Fingerprint(mixed);
  // Not 0 where one of the columns, at `here` and `next` in the two segments, says
  // other than the fingerprint. Without a branch: one on each column would be
  // mispredicted for every absent key.
  const auto wrong = [&](const char* here, const char* next, uint64_t columns) {
    uint64_t any = 0;
    for (uint64_t j = 0; j < columns; ++j) {
      any |=
          Parity((DecodeFixed64(here + j * 8) & c_here) ^ (DecodeFixed64(next + j * 8) & c_next)) ^
          (fingerprint & 1);
      fingerprint >>= 1;
    }
    return any;
  };
  const uint64_t first = layer.first_columns;
  const char* const here = layer.bytes + segment * first * 8;
  const uint64_t early = first == 4 ? wrong(here, here + 4 * 8, 4)  // unrolled
                                    : wrong(here, here + first * 8, first);
  if (early != 0) return Answer::kNo;
  const Shape& shape = layer.shape;
  return wrong(layer.bytes + shape.OtherWord(segment) * 8,
               layer.bytes + shape.OtherWord(segment + 1) * 8, shape.OtherColumns(segment)) == 0
             ? Answer::kMaybe
             : Answer::kNo;
}

void Ribbon::Rates(const Layer& layer, double* maybe, double* next) {
  const Shape& shape = layer.shape;
  const double lower_rate = std::exp2(-shape.bits);
  const uint64_t starts = shape.Starts();
  const uint64_t border = std::min(starts, shape.lower * kWidth);
  double lower = 0;
  double upper = 0;
  for (uint64_t bucket = 0; bucket < shape.Buckets(); ++bucket) {
    const uint64_t begin = bucket * kBucketSlots;
    const uint64_t end = std::min(starts, begin + kBucketSlots);
    const uint64_t first =
        std::min(end, begin + static_cast<uint8_t>(layer.thresholds[bucket]) * kBumpUnit);
    const uint64_t middle = std::clamp(border, first, end);
    lower += static_cast<double>(middle - first);
    upper += static_cast<double>(end - middle);
  }
  const double all = static_cast<double>(starts);
  *maybe = (lower * lower_rate + upper * lower_rate / 2) / all;
  *next = 1 - (lower + upper) / all;
}

}  // namespace sievedb
