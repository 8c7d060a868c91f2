#include "db/table_placement.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

namespace sievedb {
namespace {

// What is to be merged into one run so far.
struct Group {
  std::vector<std::shared_ptr<FileMeta>> tables;
  std::string_view smallest;  // user keys, of the tables
  std::string_view largest;
  bool largest_is_outside = false;
  uint64_t low = 0;  // sequences
  uint64_t high = 0;
  int level = kNumLevels - 1;
};

class Placement {
 public:
  Placement(const KeyOrder& order, std::vector<std::shared_ptr<FileMeta>> tables) : order_(order) {
    for (std::shared_ptr<FileMeta>& table : tables) {
      Group group;
      group.smallest = UserKey(table->smallest);
      group.largest = UserKey(table->largest);
      group.largest_is_outside = table->largest_is_outside();
      group.low = table->smallest_sequence;
      group.high = table->largest_sequence;
      group.tables.push_back(std::move(table));
      groups_.push_back(std::move(group));
    }
  }

  std::vector<PlacedTables> Run() {
    while (MergeInterleaved()) {
    }
    ChooseLevels();
    std::vector<PlacedTables> placed;
    for (Group& group : groups_) placed.push_back({group.level, std::move(group.tables)});
    return placed;
  }

 private:
  // Whether all keys of a are before all of b.
  bool IsBefore(const Group& a, const Group& b) const {
    const int r = order_.Compare(a.largest, b.smallest);
    return r < 0 || (r == 0 && a.largest_is_outside);
  }
  bool Overlap(const Group& a, const Group& b) const { return !IsBefore(a, b) && !IsBefore(b, a); }

  void Add(Group from, Group* to) const {
    if (order_.Compare(from.smallest, to->smallest) < 0) to->smallest = from.smallest;
    const int r = order_.Compare(from.largest, to->largest);
    if (r > 0) {
      to->largest = from.largest;
      to->largest_is_outside = from.largest_is_outside;
    } else if (r == 0) {
      to->largest_is_outside = to->largest_is_outside && from.largest_is_outside;
    }
    to->low = std::min(to->low, from.low);
    to->high = std::max(to->high, from.high);
    to->tables.insert(to->tables.end(), from.tables.begin(), from.tables.end());
  }

  // One pass; false: there were none. A group that grew may have to be merged with one
  // that was looked at before.
  bool MergeInterleaved() {
    std::sort(groups_.begin(), groups_.end(), [this](const Group& a, const Group& b) {
      return order_.Compare(a.smallest, b.smallest) < 0;
    });
    std::vector<Group> kept;
    std::vector<size_t> reaching;  // those of kept that may overlap what is to come
    for (Group& group : groups_) {
      std::erase_if(reaching, [&](size_t i) { return IsBefore(kept[i], group); });
      const auto other = std::find_if(reaching.begin(), reaching.end(), [&](size_t i) {
        return kept[i].low <= group.high && group.low <= kept[i].high;
      });
      if (other != reaching.end()) {
        Add(std::move(group), &kept[*other]);
      } else {
        reaching.push_back(kept.size());
        kept.push_back(std::move(group));
      }
    }
    const bool merged = kept.size() < groups_.size();
    groups_ = std::move(kept);
    return merged;
  }

  void ChooseLevels() {
    std::sort(groups_.begin(), groups_.end(), [](const Group& a, const Group& b) {
      return std::pair(a.low, a.tables.front()->number) <
             std::pair(b.low, b.tables.front()->number);
    });
    for (size_t i = 0; i < groups_.size(); ++i) {
      Group& group = groups_[i];
      for (size_t older = 0; older < i && group.level > 0; ++older) {
        if (groups_[older].level > group.level || !Overlap(groups_[older], group)) continue;
        group.level = std::max(0, groups_[older].level - 1);
      }
    }
  }

  const KeyOrder order_;
  std::vector<Group> groups_;
};

}  // namespace

std::vector<PlacedTables> PlaceTables(const KeyOrder& order,
                                      std::vector<std::shared_ptr<FileMeta>> tables) {
  return Placement(order, std::move(tables)).Run();
}

}  // namespace sievedb
