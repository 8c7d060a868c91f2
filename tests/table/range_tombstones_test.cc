// The fragmenter: text to text, against the covering that a plain list of all tombstones
// says, with and without snapshots; and the block.

#include "table/range_tombstones.h"

#include <algorithm>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "table/internal_key.h"
#include "tests/data_driven.h"

namespace sievedb {
namespace {

struct Tombstone {
  std::string begin, end;
  uint64_t sequence;
};

std::string Text(const RangeTombstones* tombstones) {
  if (tombstones == nullptr || tombstones->empty()) return "none\n";
  std::string text;
  for (const RangeTombstones::Fragment& fragment : tombstones->fragments()) {
    text += absl::StrFormat("[%s, %s)", fragment.begin, fragment.end);
    for (const auto* stamp = fragment.newest; stamp != nullptr; stamp = stamp->older) {
      text += absl::StrFormat(" %d", stamp->sequence);
    }
    text += "\n";
  }
  return text;
}

// "begin end sequence" a line.
TEST(RangeTombstonesTest, Fragments) {
  const auto run = [](const DataDrivenCase& test) {
    std::vector<Tombstone> tombstones;
    for (const std::string& line : SplitLines(test.input)) {
      std::istringstream in(line);
      Tombstone t;
      in >> t.begin >> t.end >> t.sequence;
      tombstones.push_back(t);
    }
    const KeyOrder order(test.HasArgument("reverse") ? ReverseBytewiseComparator()
                                                     : BytewiseComparator());
    if (test.command == "add") {
      Arena arena;
      RefPtr<const RangeTombstones> list;
      for (const Tombstone& t : tombstones) {
        list = RangeTombstones::With(order, list.get(), t.begin, t.end, t.sequence, &arena);
      }
      return Text(list.get());
    }
    std::vector<uint64_t> snapshots;
    std::istringstream in(test.Argument("snapshots"));
    for (std::string one; std::getline(in, one, ',');) snapshots.push_back(std::stoull(one));
    RangeTombstoneMerger merger(order, snapshots);
    for (const Tombstone& t : tombstones) merger.Add(t.begin, t.end, t.sequence);
    const RefPtr<const RangeTombstones> list = merger.Finish();
    if (!test.HasArgument("from") && !test.HasArgument("to")) return Text(list.get());
    const std::string from = test.Argument("from");
    const std::string to = test.Argument("to");
    const std::string_view begin = from;
    const std::string_view end = to;
    return Text(list->Clip(from.empty() ? nullptr : &begin, to.empty() ? nullptr : &end).get());
  };
  RunDataDriven(
      "range_tombstones", [] {}, run);
}

TEST(RangeTombstonesTest, CoverAsAPlainListDoes) {
  std::mt19937_64 random(7);
  const KeyOrder order(BytewiseComparator());
  for (int round = 0; round < 200; ++round) {
    std::vector<Tombstone> all;
    Arena arena;
    RefPtr<const RangeTombstones> added;
    std::vector<uint64_t> snapshots;
    for (uint64_t s = 3; s < 30; s += 1 + random() % 20) snapshots.push_back(s);
    for (uint64_t sequence = 1; sequence <= 1 + random() % 30; ++sequence) {
      std::string a(1, static_cast<char>('a' + random() % 20));
      std::string b(1, static_cast<char>('a' + random() % 20));
      if (a == b) continue;
      all.push_back({std::min(a, b), std::max(a, b), sequence});
    }
    std::shuffle(all.begin(), all.end(), random);
    RangeTombstoneMerger merger(order, snapshots);
    for (const Tombstone& t : all) {
      added = RangeTombstones::With(order, added.get(), t.begin, t.end, t.sequence, &arena);
      merger.Add(t.begin, t.end, t.sequence);
    }
    if (all.empty()) continue;
    const RefPtr<const RangeTombstones> merged = merger.Finish();
    const auto decoded = RangeTombstones::Decode(order, added->Encode());
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    ASSERT_EQ(Text(decoded->get()), Text(added.get()));
    ASSERT_EQ((*decoded)->count(), added->count());
    for (char key = 'a'; key < 'w'; ++key) {
      for (uint64_t seen = 0; seen < 33; ++seen) {
        uint64_t expected = 0;
        for (const Tombstone& t : all) {
          if (t.begin[0] <= key && key < t.end[0] && t.sequence <= seen) {
            expected = std::max(expected, t.sequence);
          }
        }
        const std::string text(1, key);
        ASSERT_EQ(added->Covering(text, seen), expected);
        const bool is_seen = seen == 32 || std::count(snapshots.begin(), snapshots.end(), seen);
        if (is_seen) {
          ASSERT_EQ(merged->Covering(text, seen), expected);
        }
      }
    }
  }
}

TEST(RangeTombstonesTest, DamagedBlocksAreRefused) {
  const KeyOrder order(BytewiseComparator());
  RangeTombstoneMerger merger(order, {});
  merger.Add("a", "c", 5);
  merger.Add("d", "f", 300);
  const std::string block = merger.Finish()->Encode();
  EXPECT_TRUE(RangeTombstones::Decode(order, block).ok());
  for (size_t n = 0; n < block.size(); ++n) {
    EXPECT_TRUE(absl::IsDataLoss(RangeTombstones::Decode(order, block.substr(0, n)).status())) << n;
  }
  EXPECT_TRUE(absl::IsDataLoss(RangeTombstones::Decode(order, block + "x").status()));
  std::string swapped = block;
  swapped[2] = 'e';  // begins behind its end
  EXPECT_TRUE(absl::IsDataLoss(RangeTombstones::Decode(order, swapped).status()));
}

}  // namespace
}  // namespace sievedb
