#include "table/index_reader.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "absl/strings/str_format.h"
#include "util/coding.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

// Two varints; the user key may be empty.
constexpr uint64_t kMinEntryBytes = 2;

}  // namespace

absl::StatusOr<IndexReader> IndexReader::Decode(const InternalKeyOrder& order,
                                                std::string_view block, uint64_t data_bytes) {
  IndexReader index(order);
  SIEVEDB_RETURN_IF_ERROR(index.DecodeEntries(block, data_bytes));
  SIEVEDB_RETURN_IF_ERROR(index.CheckOrder());
  if (order.user().has_words() && index.blocks() > 0) index.BuildTree();
  return index;
}

absl::Status IndexReader::DecodeEntries(std::string_view block, uint64_t data_bytes) {
  ByteReader in(block);
  const uint64_t blocks = in.Varint64();
  const std::string_view prefix = in.LengthPrefixed();
  // The second bound keeps a damaged count from allocating.
  if (!in.ok() || (blocks == 0 && data_bytes != 0) || blocks > in.rest().size() / kMinEntryBytes) {
    return absl::DataLossError(
        absl::StrFormat("index: %d data blocks in %d bytes", blocks, block.size()));
  }
  if (!order_.user().has_words() && !prefix.empty()) {
    return absl::DataLossError(absl::StrFormat(
        "index: a prefix of %d bytes, under a comparator that needs whole keys", prefix.size()));
  }
  prefix_ = prefix;
  keys_.reserve(blocks + 1);
  offsets_.reserve(blocks + 1);
  bytes_.reserve(in.rest().size());
  uint64_t offset = 0;
  for (uint64_t i = 0; i < blocks; ++i) {
    const uint64_t key_and_flag = in.Varint64();
    const uint64_t payload_bytes = in.Varint64();
    const uint64_t tag_bytes = (key_and_flag & 1) != 0 ? kTagBytes : 0;
    const std::string_view key = in.Bytes((key_and_flag >> 1) + tag_bytes);
    if (!in.ok()) {
      return absl::DataLossError(absl::StrFormat("index: entry %d of %d is cut short", i, blocks));
    }
    if (payload_bytes == 0 || data_bytes - offset < kBlockTrailerBytes ||
        payload_bytes > data_bytes - offset - kBlockTrailerBytes) {
      return absl::DataLossError(
          absl::StrFormat("index: entry %d: a data block of %d bytes at offset %d, where the data "
                          "ends at %d",
                          i, payload_bytes, offset, data_bytes));
    }
    keys_.push_back(uint64_t{bytes_.size()} << 1 | (key_and_flag & 1));
    offsets_.push_back(offset);
    bytes_.insert(bytes_.end(), key.begin(), key.end());
    offset += payload_bytes + kBlockTrailerBytes;
  }
  keys_.push_back(uint64_t{bytes_.size()} << 1);
  offsets_.push_back(offset);
  // It was reserved for the whole block.
  bytes_ = Packed<char>(bytes_.begin(), bytes_.end());
  if (offset != data_bytes || !in.done()) {
    return absl::DataLossError(
        absl::StrFormat("index: the data blocks end at offset %d: expected %d; %d bytes left over",
                        offset, data_bytes, in.rest().size()));
  }
  return absl::OkStatus();
}

absl::Status IndexReader::CheckOrder() const {
  for (size_t i = 1; i < blocks(); ++i) {
    if (CompareSeparator(i - 1, Rest(i), SeparatorTag(i)) >= 0) {
      return absl::DataLossError(
          absl::StrFormat("index: separator %d is not after the one before it", i));
    }
  }
  return absl::OkStatus();
}

void IndexReader::BuildTree() {
  std::vector<std::vector<Line>> levels;  // the leaves first
  std::vector<uint64_t> words(blocks());
  // Behind the prefix: Word(prefix + rest, prefix) is Word(rest).
  for (size_t i = 0; i < blocks(); ++i) words[i] = order_.user().Word(Rest(i));
  for (;;) {
    std::vector<Line> level((words.size() + 7) / 8);
    for (size_t i = 0; i < level.size() * 8; ++i) {
      level[i / 8].words[i % 8] = i < words.size() ? words[i] : ~uint64_t{0};
    }
    words.clear();
    for (const Line& line : level) words.push_back(line.words[7]);
    levels.push_back(std::move(level));
    if (levels.back().size() == 1) break;
  }
  size_t lines = 0;
  for (const std::vector<Line>& level : levels) lines += level.size();
  lines_.reserve(lines);
  for (auto level = levels.rbegin(); level != levels.rend(); ++level) {
    levels_.push_back(lines_.size());
    lines_.insert(lines_.end(), level->begin(), level->end());
  }
}

size_t IndexReader::LineOf(uint64_t word, size_t level) const {
  size_t at = 0;  // line within the level
  for (size_t i = 0;; ++i) {
    const size_t end = i + 1 < levels_.size() ? levels_[i + 1] : lines_.size();
    const size_t line = levels_[i] + at;
    if (line >= end) return lines_.size();
    if (i == level) return line;
    at = at * 8 + lines_[line].Below(word);
  }
}

size_t IndexReader::LowerBound(uint64_t word, const CachedBlocks* cached) const {
  if (levels_.empty()) return 0;
  const size_t leaves = levels_.size() - 1;
  const size_t line = LineOf(word, leaves);
  if (line == lines_.size()) return blocks();
  // A line of slots goes with each line of words.
  if (cached != nullptr) cached->PrefetchSlot((line - levels_[leaves]) * 8);
  return std::min((line - levels_[leaves]) * 8 + lines_[line].Below(word), blocks());
}

bool IndexReader::SurelyFinds(size_t i, std::string_view user_key) const {
  assert(i < blocks());
  if (levels_.empty() || user_key.substr(0, prefix_.size()) != prefix_) return false;
  const uint64_t word = order_.user().Word(user_key, prefix_.size());
  return word < LeafWord(i) && (i == 0 || LeafWord(i - 1) < word);
}

void IndexReader::PrefetchFind(std::string_view user_key, uint64_t word,
                               const CachedBlocks* cached) const {
  if (!order_.user().has_words() || levels_.empty()) return;
  if (!prefix_.empty()) {
    if (user_key.size() < prefix_.size()) return;
    word = order_.user().Word(user_key, prefix_.size());
  }
  const size_t line = LineOf(word, levels_.size() - 1);
  if (line == lines_.size()) return;
  PrefetchLine(&lines_[line]);
  if (cached != nullptr) cached->PrefetchSlot((line - levels_.back()) * 8);
}

int IndexReader::CompareSeparator(size_t i, std::string_view rest, uint64_t tag) const {
  return order_.Compare(Rest(i), SeparatorTag(i), rest, tag);
}

size_t IndexReader::Find(std::string_view user_key, uint64_t tag, uint64_t word,
                         const CachedBlocks* cached) const {
  size_t low = 0;
  size_t high = blocks();
  std::string_view rest = user_key;
  if (order_.user().has_words()) {
    if (!prefix_.empty()) {
      // A key that does not begin as all separators do is before or after all of them.
      const std::string_view begin = user_key.substr(0, prefix_.size());
      if (begin != prefix_) return order_.user().Compare(begin, prefix_) < 0 ? 0 : blocks();
      rest = user_key.substr(prefix_.size());
      word = order_.user().Word(rest);
    }
    low = LowerBound(word, cached);
    // Words that are equal say nothing: look at those separators in full. They are
    // few, or all of them where keys differ late, so the end is searched by doubling.
    size_t step = 1;
    size_t end = low;
    while (end < high && LeafWord(end) == word) {
      if (CompareSeparator(end, rest, tag) >= 0) break;
      low = end + 1;
      end += step;
      step *= 2;
    }
    high = std::min(end, high);
  }
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (CompareSeparator(middle, rest, tag) < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

size_t IndexReader::FirstBlockFrom(uint64_t offset) const {
  const auto end = offsets_.end() - 1;
  return static_cast<size_t>(std::lower_bound(offsets_.begin(), end, offset) - offsets_.begin());
}

bool IndexReader::SeparatorHasKey(size_t i, std::string_view user_key) const {
  if (user_key.substr(0, prefix_.size()) != prefix_) return false;
  return order_.user().Equal(Rest(i), user_key.substr(prefix_.size()));
}

std::string IndexReader::Separator(size_t i) const {
  std::string key = prefix_;
  AppendInternalKey(&key, Rest(i), SeparatorTag(i));
  return key;
}

size_t IndexReader::MemoryBytes() const {
  return sizeof(*this) + prefix_.capacity() + bytes_.capacity() +
         (keys_.capacity() + offsets_.capacity()) * sizeof(uint64_t) +
         lines_.capacity() * sizeof(Line) + levels_.capacity() * sizeof(size_t);
}

}  // namespace sievedb
