#ifndef SIEVEDB_UTIL_FILTER_SUPPORT_H_
#define SIEVEDB_UTIL_FILTER_SUPPORT_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "sievedb/filter.h"

namespace sievedb {

// What the filter classes of include/sievedb/filter.h share.

// Zeroed memory for an array with its trailer.
//
// Errors: kResourceExhausted where the system has not as much.
absl::StatusOr<FilterMemory> AllocateFilterMemory(size_t bytes);

// The bytes of one filter block, out of what Filter::Serialize returned: a view into
// serialized, which the checksum has vouched for.
//
// Errors: kDataLoss where serialized is too short or the checksum fails.
absl::StatusOr<std::string_view> CheckedFilterBlock(std::string_view serialized);

// A copy of that block, for a filter of the kind to own.
//
// Errors: as above; kInvalidArgument where the block is of another kind;
// kResourceExhausted where memory cannot be had.
absl::StatusOr<FilterMemory> CopyFilterBlock(std::string_view serialized, uint8_t kind);

// Errors: kInvalidArgument where sizing names neither or both of bits per key and
// rate, a rate that is not above 0 and below 1, or not a number.
absl::Status CheckSizing(const FilterSizing& sizing);
// Errors: kInvalidArgument where bits_per_key is outside of min to max.
absl::Status CheckBitsPerKey(double bits_per_key, double min, double max);

// The bits per key of sizing: as given, or the fewest whose rate, which falls with
// them, is at most the one given.
//
// Errors: kInvalidArgument as both above, and where no bits up to max have the rate.
absl::StatusOr<double> BitsPerKeyFor(const FilterSizing& sizing, double min, double max,
                                     absl::FunctionRef<double(double)> rate);

// What the policies make of a bits_per_key: NaN counts as 10, and it is clamped to
// 1 to 64.
inline constexpr double kMinPolicyBitsPerKey = 1;
inline constexpr double kMaxPolicyBitsPerKey = 64;
inline double ClampPolicyBitsPerKey(double bits_per_key) {
  if (std::isnan(bits_per_key)) return 10;
  return std::clamp(bits_per_key, kMinPolicyBitsPerKey, kMaxPolicyBitsPerKey);
}

// What the plan says, where there is one, or what the policy was made with.
inline double PolicyBitsPerKey(const FilterContext& context, double own) {
  return context.bits_per_key > 0 ? ClampPolicyBitsPerKey(context.bits_per_key) : own;
}

// The hashes of one table's keys, kept until all are known, since only then the
// filter's size is: it is that of the keys that came, not of a guess. 8 bytes a key;
// in pieces, so that a growing table never copies them.
class FilterHashes {
 public:
  static constexpr size_t kPieceHashes = 8192;

  void Add(uint64_t hash) {
    // Versions of one key lie side by side in a table and are one key here.
    if (size_ > 0 && hash == last_) return;
    last_ = hash;
    if (size_ % kPieceHashes == 0) {
      pieces_.push_back(std::make_unique_for_overwrite<uint64_t[]>(kPieceHashes));
    }
    pieces_.back()[size_ % kPieceHashes] = hash;
    ++size_;
  }
  uint64_t size() const { return size_; }

  // Calls function(absl::Span<const uint64_t>) for each piece in order, and frees it.
  // The object is then empty.
  template <typename Function>
  void Drain(Function function) {
    uint64_t left = size_;
    for (std::unique_ptr<uint64_t[]>& piece : pieces_) {
      const size_t n = static_cast<size_t>(std::min<uint64_t>(left, kPieceHashes));
      function(absl::Span<const uint64_t>(piece.get(), n));
      piece.reset();
      left -= n;
    }
    pieces_.clear();
    size_ = 0;
  }
  // All of them as they lie, until the next call of another method.
  std::vector<absl::Span<const uint64_t>> Pieces() const {
    std::vector<absl::Span<const uint64_t>> pieces;
    for (size_t i = 0; i < pieces_.size(); ++i) {
      const uint64_t left = size_ - i * kPieceHashes;
      pieces.emplace_back(pieces_[i].get(),
                          static_cast<size_t>(std::min<uint64_t>(left, kPieceHashes)));
    }
    return pieces;
  }
  // All of them in one piece. The object is then empty.
  std::vector<uint64_t> Take() {
    std::vector<uint64_t> all;
    all.reserve(size_);
    Drain([&all](absl::Span<const uint64_t> piece) {
      all.insert(all.end(), piece.begin(), piece.end());
    });
    return all;
  }

 private:
  uint64_t size_ = 0;
  uint64_t last_ = 0;
  std::vector<std::unique_ptr<uint64_t[]>> pieces_;
};

}  // namespace sievedb

#endif  // SIEVEDB_UTIL_FILTER_SUPPORT_H_
