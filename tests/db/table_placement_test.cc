#include "db/table_placement.h"

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "sievedb/comparator.h"
#include "table/format.h"

namespace sievedb {
namespace {

std::shared_ptr<FileMeta> Table(uint64_t number, const std::string& smallest,
                                const std::string& largest, uint64_t low, uint64_t high,
                                bool largest_is_outside = false) {
  auto file = std::make_shared<FileMeta>();
  file->number = number;
  AppendInternalKey(&file->smallest, smallest, low << 8 | 1);
  AppendInternalKey(&file->largest, largest, largest_is_outside ? kMaxTag : high << 8 | 1);
  file->smallest_sequence = low;
  file->largest_sequence = high;
  return file;
}

// "6:1+2 5:3": tables 1 and 2 merged in level 6, and 3 in level 5.
std::string Place(std::vector<std::shared_ptr<FileMeta>> tables) {
  std::vector<std::string> parts;
  for (PlacedTables& placed : PlaceTables(KeyOrder(BytewiseComparator()), std::move(tables))) {
    std::sort(placed.tables.begin(), placed.tables.end(),
              [](const auto& a, const auto& b) { return a->number < b->number; });
    std::string part = std::to_string(placed.level) + ":";
    for (const auto& file : placed.tables) {
      part += (part.back() == ':' ? "" : "+") + std::to_string(file->number);
    }
    parts.push_back(part);
  }
  std::sort(parts.rbegin(), parts.rend());
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : " ") + part;
  return text;
}

TEST(TablePlacementTest, NoneAndOne) {
  EXPECT_EQ(Place({}), "");
  EXPECT_EQ(Place({Table(1, "a", "z", 1, 9)}), "6:1");
}

TEST(TablePlacementTest, TablesApartShareALevelWhateverTheirSequences) {
  EXPECT_EQ(Place({Table(1, "a", "b", 1, 9), Table(2, "c", "d", 5, 20), Table(3, "e", "e", 1, 1)}),
            "6:3 6:2 6:1");
}

TEST(TablePlacementTest, TheNewerStandsAbove) {
  EXPECT_EQ(Place({Table(1, "a", "m", 10, 19), Table(2, "k", "z", 1, 9)}), "6:2 5:1");
  EXPECT_EQ(Place({Table(1, "a", "m", 1, 9), Table(2, "m", "z", 10, 19)}), "6:1 5:2");
}

TEST(TablePlacementTest, OfManyOverEachOtherTheNewestShareLevelZero) {
  std::vector<std::shared_ptr<FileMeta>> tables;
  for (uint64_t i = 1; i <= 9; ++i) tables.push_back(Table(i, "a", "z", 10 * i, 10 * i + 9));
  EXPECT_EQ(Place(std::move(tables)), "6:1 5:2 4:3 3:4 2:5 1:6 0:9 0:8 0:7");
}

TEST(TablePlacementTest, InterleavedOnesAreMerged) {
  EXPECT_EQ(Place({Table(1, "a", "m", 1, 9), Table(2, "k", "z", 9, 19)}), "6:1+2");
  EXPECT_EQ(Place({Table(1, "a", "m", 1, 9), Table(2, "k", "z", 5, 6)}), "6:1+2");
}

// 1 and 2 become one that reaches over 3, which neither does.
TEST(TablePlacementTest, WhatMergingWidensIsLookedAtAgain) {
  EXPECT_EQ(
      Place({Table(1, "a", "d", 1, 5), Table(2, "c", "m", 4, 30), Table(3, "a", "b", 20, 21)}),
      "6:1+2+3");
  // Here it is above.
  EXPECT_EQ(
      Place({Table(1, "a", "d", 1, 5), Table(2, "c", "m", 4, 30), Table(3, "a", "b", 40, 41)}),
      "6:1+2 5:3");
}

// The end of a range tombstone is not in its table.
TEST(TablePlacementTest, AnEndThatIsOutsideDoesNotOverlap) {
  EXPECT_EQ(Place({Table(1, "a", "m", 1, 9, true), Table(2, "m", "z", 5, 19)}), "6:2 6:1");
  EXPECT_EQ(Place({Table(1, "a", "m", 1, 9, false), Table(2, "m", "z", 5, 19)}), "6:1+2");
}

// Whatever there is: of two that overlap the newer is above, all levels but 0 are sorted,
// and nothing is merged that need not be.
TEST(TablePlacementTest, RandomTables) {
  const KeyOrder order(BytewiseComparator());
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    std::vector<std::shared_ptr<FileMeta>> tables;
    const uint64_t count = 1 + random() % 30;
    const uint64_t width = 1 + random() % 10;
    for (uint64_t i = 1; i <= count; ++i) {
      const uint64_t first = random() % 60;
      const uint64_t last = first + random() % width;
      const uint64_t low = 1 + random() % 1000;
      tables.push_back(Table(i, std::string(1, static_cast<char>('A' + first)),
                             std::string(1, static_cast<char>('A' + last)), low,
                             low + random() % (1 + seed * 2)));
    }
    const auto overlap = [&](const FileMeta& a, const FileMeta& b) {
      return UserKey(a.smallest) <= UserKey(b.largest) && UserKey(b.smallest) <= UserKey(a.largest);
    };
    const auto interleave = [](const FileMeta& a, const FileMeta& b) {
      return a.smallest_sequence <= b.largest_sequence && b.smallest_sequence <= a.largest_sequence;
    };
    const std::vector<PlacedTables> placed = PlaceTables(order, tables);
    size_t found = 0;
    for (size_t i = 0; i < placed.size(); ++i) {
      found += placed[i].tables.size();
      if (placed[i].tables.size() > 1) {
        bool needed = false;
        for (const auto& a : placed[i].tables) {
          for (const auto& b : placed[i].tables) {
            needed |= a != b && overlap(*a, *b) && interleave(*a, *b);
          }
        }
        EXPECT_TRUE(needed);
      }
      for (size_t j = 0; j < placed.size(); ++j) {
        if (i == j) continue;
        for (const auto& a : placed[i].tables) {
          for (const auto& b : placed[j].tables) {
            if (!overlap(*a, *b)) continue;
            EXPECT_FALSE(interleave(*a, *b));
            if (a->smallest_sequence < b->smallest_sequence) continue;
            EXPECT_TRUE(placed[i].level < placed[j].level ||
                        (placed[i].level == 0 && placed[j].level == 0));
          }
        }
      }
    }
    EXPECT_EQ(found, tables.size());
  }
}

}  // namespace
}  // namespace sievedb
