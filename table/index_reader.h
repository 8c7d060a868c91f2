#ifndef SIEVEDB_TABLE_INDEX_READER_H_
#define SIEVEDB_TABLE_INDEX_READER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "table/format.h"
#include "table/internal_key.h"
#include "util/block_cache_impl.h"
#include "util/packed_heap.h"
#include "util/prefetch.h"

namespace sievedb {

// A table's index, decoded for searching.
//
// The first 8 bytes of each separator behind the prefix that all share, as numbers
// (KeyOrder::Word), are the leaves of a static tree of cache lines: each line above
// holds the largest of 8 lines below. A search reads one line a level and counts, with
// no branch that depends on the key; only separators whose words are equal are then
// compared in full. Under a user's comparator there are no words, and a plain binary
// search is made.
//
// The format is described in index_builder.h.
//
// Threads: safe.
class IndexReader {
 public:
  // data_bytes: bytes of all data blocks with their trailers, from the file's start.
  // Errors: kDataLoss, without file and offset: the caller adds them.
  static absl::StatusOr<IndexReader> Decode(const InternalKeyOrder& order, std::string_view block,
                                            uint64_t data_bytes);

  size_t blocks() const { return keys_.size() - 1; }
  BlockHandle handle(size_t i) const {
    return {offsets_[i], offsets_[i + 1] - offsets_[i] - kBlockTrailerBytes};
  }
  // With i == blocks(): the end of the data.
  uint64_t offset(size_t i) const { return offsets_[i]; }

  // The first block whose separator is not before (user_key, tag): the only one that can
  // hold the first entry that is not; blocks() where there is none.
  // word: order.user().Word(user_key). cached: whose slot of the block found is going to
  // be read (null: none's); it is loaded while the search waits for its last line.
  size_t Find(std::string_view user_key, uint64_t tag, uint64_t word,
              const CachedBlocks* cached = nullptr) const;
  size_t Find(std::string_view user_key, uint64_t tag) const {
    return Find(user_key, tag, order_.user().Word(user_key));
  }

  // Whether Find would surely say block i, as far as words tell. False says nothing.
  bool SurelyFinds(size_t i, std::string_view user_key) const;

  // Starts loading the last cache line that Find reads of the words, and the slot.
  void PrefetchFind(std::string_view user_key, uint64_t word, const CachedBlocks* cached) const;

  // The first block that begins at or after offset; blocks() where none does.
  size_t FirstBlockFrom(uint64_t offset) const;

  // Whether block i's separator is of user_key.
  bool SeparatorHasKey(size_t i, std::string_view user_key) const;
  // The separator as an internal key.
  std::string Separator(size_t i) const;

  size_t MemoryBytes() const;

 private:
  // Eight words, the largest missing ones all ones.
  struct alignas(64) Line {
    uint64_t words[8];
    // How many of them are below word: no branch depends on them.
    size_t Below(uint64_t word) const {
      size_t below = 0;
      for (const uint64_t w : words) below += w < word ? 1 : 0;
      return below;
    }
  };
  static_assert(sizeof(Line) == 64);

  explicit IndexReader(const InternalKeyOrder& order) : order_(order) {}

  absl::Status DecodeEntries(std::string_view block, uint64_t data_bytes);
  absl::Status CheckOrder() const;
  void BuildTree();
  // Word(Rest(i)), from the line that a search has just read.
  uint64_t LeafWord(size_t i) const { return lines_[levels_.back() + i / 8].words[i % 8]; }
  // First leaf that is not below word; leaves are numbered as blocks are.
  size_t LowerBound(uint64_t word, const CachedBlocks* cached) const;
  // The line of a level's words that a search for word looks at; lines_.size() where
  // word is above all.
  size_t LineOf(uint64_t word, size_t level) const;
  // Compares separator i with (prefix_ and rest, tag).
  int CompareSeparator(size_t i, std::string_view rest, uint64_t tag) const;

  std::string_view Rest(size_t i) const {
    const uint64_t begin = keys_[i] >> 1;
    const uint64_t tag_bytes = (keys_[i] & 1) != 0 ? kTagBytes : 0;
    return {bytes_.data() + begin, (keys_[i + 1] >> 1) - begin - tag_bytes};
  }
  uint64_t SeparatorTag(size_t i) const {
    if ((keys_[i] & 1) == 0) return kMaxTag;
    return DecodeFixed64(bytes_.data() + (keys_[i + 1] >> 1) - kTagBytes);
  }

  template <typename T>
  using Packed = std::vector<T, PackedAllocator<T>>;

  InternalKeyOrder order_;
  std::string prefix_;  // empty under a user's comparator
  // The separators' user keys behind the prefix, each with its tag where keys_ says so.
  Packed<char> bytes_;
  Packed<uint64_t> keys_;       // begin in bytes_, times two; plus one: with a tag
  Packed<uint64_t> offsets_;    // of the data blocks; one more than blocks
  Packed<Line> lines_;          // the root's level first, the leaves last
  std::vector<size_t> levels_;  // where each level begins in lines_
};

}  // namespace sievedb

#endif  // SIEVEDB_TABLE_INDEX_READER_H_
