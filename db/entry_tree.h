#ifndef SIEVEDB_DB_ENTRY_TREE_H_
#define SIEVEDB_DB_ENTRY_TREE_H_

#include <array>
#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "table/internal_key.h"
#include "util/arena.h"
#include "util/mutex.h"
#include "util/prefetch.h"

namespace sievedb {

// A sorted set of entries in an arena: a B+-tree whose nodes compare keys by one word
// each, the eight bytes after those that all keys in the node's range share.
//
// A node's slots are filled in order of arrival and never changed; which of them count,
// and in what order of keys, is one word (as in Masstree: Mao, Kohler & Morris 2012), so
// that a reader sees a node before or after an insert and nothing between. A full node
// is not changed but replaced by two. What was replaced stays in the arena as it was, and
// whoever stands in it goes on from there: it holds all that had been inserted when he
// came, and his sequence hides what came since.
//
// Threads: Insert may be called concurrently with Insert and with everything else.
//          Readers take no lock and never wait.
//
// Cost: Insert and Find wait for about two cache misses; 24 bytes of tree an entry where
//       keys come in order, about 55 where they come at random.
//
// Invariants
// 1. A slot is written before the order (release) that names it, and never again.
// 2. The range of a node is that between the separators above it. It never changes while
//    the node may still take entries.
// 3. All keys in a node's range share its first `skip` bytes.
// 4. A node in another's place has a part of its range, and is put there only after the
//    order that gives away the rest.
// 5. A leaf takes entries under its own lock, and only while it is alive and not full.
//    Everything else in the tree changes under structure_mu_. A leaf's lock is taken
//    after structure_mu_, never before.
class EntryTree {
 public:
  // One allocation.
  //   offset  size  field
  //   0       4     key bytes
  //   4       4     value bytes
  //   8       …     user key
  //   …       8     tag, fixed64: with the key before it the internal key
  //   …       …     value
  class Entry {
   public:
    std::string_view internal_key() const { return {bytes(), key_bytes_ + kTagBytes}; }
    std::string_view user_key() const { return {bytes(), key_bytes_}; }
    uint64_t tag() const { return DecodeFixed64(bytes() + key_bytes_); }
    std::string_view value() const { return {bytes() + key_bytes_ + kTagBytes, value_bytes_}; }

   private:
    friend class EntryTree;
    Entry(size_t key_bytes, size_t value_bytes)
        : key_bytes_(static_cast<uint32_t>(key_bytes)),
          value_bytes_(static_cast<uint32_t>(value_bytes)) {}
    const char* bytes() const { return reinterpret_cast<const char*>(this + 1); }

    const uint32_t key_bytes_;
    const uint32_t value_bytes_;
  };

  // What a search looks for.
  struct Target {
    std::string_view key;
    uint64_t tag;
  };

 private:
  struct Leaf;

 public:
  // An entry, or none. It may be used as long as the tree is there.
  class Cursor {
   public:
    Cursor() = default;
    bool Valid() const { return leaf_ != nullptr; }
    const Entry* entry() const;  // null where not Valid
    // Require: Valid.
    void Next();
    void Prev();

   private:
    friend class EntryTree;
    Cursor(const Leaf* leaf, uint64_t order, int index)
        : leaf_(leaf), order_(order), index_(index) {}
    void ToNextLeaf();
    void ToPrevLeaf();

    const Leaf* leaf_ = nullptr;
    uint64_t order_ = 0;  // of leaf_, as it was when the cursor came there
    int index_ = 0;
  };

  EntryTree(const InternalKeyOrder& order, Arena* arena);
  EntryTree(const EntryTree&) = delete;
  EntryTree& operator=(const EntryTree&) = delete;

  // Requires: no entry with this key and tag is in it.
  // Cost: O(log n), O(1) where keys come in order.
  void Insert(std::string_view key, uint64_t tag, std::string_view value);

  // Entries inserted, those that are on their way in included.
  uint64_t size() const { return size_.load(std::memory_order_relaxed); }

  Cursor First() const;
  Cursor Last() const;
  // The first entry that is not before target.
  Cursor FindAtOrAfter(const Target& target) const;
  Cursor FindBefore(const Target& target) const;
  Cursor FindAtOrBefore(const Target& target) const;

 private:
  static constexpr int kSlots = 14;

  // A node's slots in the order of their keys: their number in the lowest four bits,
  // then four bits each.
  static int CountOf(uint64_t order) { return static_cast<int>(order & 15); }
  static int SlotAt(uint64_t order, int i) { return static_cast<int>(order >> (4 + 4 * i) & 15); }
  // With the slot that comes next put in at position i.
  static uint64_t WithNextSlotAt(uint64_t order, int i) {
    const int at = 4 + 4 * i;
    const uint64_t below = order & ((uint64_t{1} << at) - 1);
    const uint64_t slot = order & 15;
    return (order >> at << (at + 4) | slot << at | below) + 1;
  }
  // That of n slots which were filled in order of keys.
  static uint64_t OrderOf(int n) {
    uint64_t order = 0;
    for (int i = 0; i < n; ++i) order = WithNextSlotAt(order, i);
    return order;
  }

  struct alignas(64) Node {
    Node(int node_level, size_t shared)
        : skip(static_cast<uint32_t>(shared)), level(static_cast<uint8_t>(node_level)) {}

    std::atomic<uint64_t> order{0};
    const uint32_t skip;
    const uint8_t level;  // 0: a leaf
    std::atomic<bool> locked{false};
    bool dead = false;  // replaced; under the leaf's lock
    uint64_t words[kSlots];
  };
  struct Leaf : Node {
    explicit Leaf(size_t shared) : Node(0, shared) {}

    const Entry* entries[kSlots];
    std::atomic<Leaf*> next{nullptr};
    std::atomic<Leaf*> prev{nullptr};
  };
  // Keys before all separators are under first; those at or after the separator in a
  // slot, and before the next one, under its child.
  struct Inner : Node {
    Inner(int node_level, size_t shared) : Node(node_level, shared) {}

    std::atomic<Node*> first{nullptr};
    std::atomic<Node*> children[kSlots];
    const Entry* separators[kSlots];
  };
  static_assert(sizeof(Node) == 2 * 64 && sizeof(Leaf) == 4 * 64 && sizeof(Inner) == 6 * 64);

  // All keys of the tree begin with prefix; those that don't are before or after all.
  struct Root {
    Node* node;
    std::string_view prefix;
  };

  // Separators around a range; null where the tree ends.
  struct Fences {
    const Entry* low = nullptr;
    const Entry* high = nullptr;
  };
  // The way down to a leaf: at each level above it the node, its range, and which of its
  // children, counted in the order of keys.
  struct Step {
    Inner* inner;
    Fences fences;
    int child;
  };
  static constexpr int kMaxHeight = 32;
  struct Path {
    std::array<Step, kMaxHeight> steps;  // the root's first
    int height = 0;
    Leaf* leaf = nullptr;
    Fences fences;  // of leaf
  };

  static std::atomic<Node*>& ChildAt(Inner* inner, uint64_t order, int i) {
    return i == 0 ? inner->first : inner->children[SlotAt(order, i - 1)];
  }
  static const std::atomic<Node*>& ChildAt(const Inner* inner, uint64_t order, int i) {
    return i == 0 ? inner->first : inner->children[SlotAt(order, i - 1)];
  }
  // The child that choose(order) names, with the range that it has by this order. A child
  // that is put in another's place has a smaller range, and comes after the new order.
  template <typename Choose>
  static Node* ChosenChild(const Inner* inner, Choose choose) {
    uint64_t order = inner->order.load(std::memory_order_acquire);
    for (;;) {
      Node* const child = ChildAt(inner, order, choose(order)).load(std::memory_order_acquire);
      const uint64_t now = inner->order.load(std::memory_order_acquire);
      if (now == order) [[likely]]
        return child;
      order = now;
    }
  }

  uint64_t WordOf(std::string_view key, const Node* node) const {
    return order_.user().Word(key, node->skip);
  }
  template <bool kOrAt>
  bool Before(const Entry* entry, const Target& target) const {
    const int r = order_.user().Compare(entry->user_key(), target.key);
    if (r != 0) return r < 0;
    return kOrAt ? entry->tag() >= target.tag : entry->tag() > target.tag;
  }
  // How many of a node's keys are before target, or (kOrAt) at it. keys are its entries
  // or separators.
  template <bool kOrAt>
  int Rank(const Node* node, const Entry* const* keys, uint64_t order, const Target& target) const;
  // Which half of a binary search target is in, among keys of the same word.
  template <bool kOrAt>
  int RankOfTies(const Entry* const* keys, uint64_t order, const Target& target, int low,
                 int high) const;

  // < 0: target comes before all keys with root's prefix, > 0 after them, 0: has it.
  int Side(const Root& root, std::string_view key) const {
    const std::string_view prefix = root.prefix;
    if (key.substr(0, prefix.size()) == prefix) return 0;
    return order_.user().Compare(key, prefix);
  }
  static Leaf* EdgeLeaf(const Root& root, bool last);
  Leaf* FindLeaf(Node* node, const Target& target) const;
  template <bool kOrAt>
  Cursor FindPlace(const Target& target) const;

  const Entry* NewEntry(std::string_view key, uint64_t tag, std::string_view value);

  // Whether entry is in leaf now. False where leaf is full or was replaced.
  bool InsertIntoLeaf(Leaf* leaf, const Entry* entry);
  void AddToLeaf(Leaf* leaf, const Entry* entry);
  bool AppendToLast(const Entry* entry);

  // --- entry_tree.cc: where nodes are made and replaced
  void InsertAndSplit(const Entry* entry);
  Path FindPath(const Target& target) ABSL_EXCLUSIVE_LOCKS_REQUIRED(structure_mu_);
  void SplitLeaf(const Path& path, const Entry* entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(structure_mu_);
  void AddChild(const Path& path, int step, Node* left, const Entry* separator, Node* right)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(structure_mu_);
  void SplitInner(const Path& path, int step, Node* left, const Entry* separator, Node* right)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(structure_mu_);
  void AdaptPrefix(std::string_view key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(structure_mu_);
  Node* CopyEdge(Node* node, size_t skip, bool first, bool last)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(structure_mu_);
  size_t SharedBytes(const Fences& fences) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(structure_mu_);
  Leaf* NewLeaf(size_t skip, const Entry* const* entries, int n)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(structure_mu_);
  Inner* NewInner(int level, size_t skip, Node* const* children, const Entry* const* separators,
                  int n) ABSL_EXCLUSIVE_LOCKS_REQUIRED(structure_mu_);
  void LinkLeaves(Leaf* before, Leaf* first, Leaf* last, Leaf* after)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(structure_mu_);
  void SetRoot(Node* node, std::string_view prefix) ABSL_EXCLUSIVE_LOCKS_REQUIRED(structure_mu_);
  char* NewNode(size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(structure_mu_);

  const InternalKeyOrder order_;
  Arena* const arena_;
  std::atomic<const Root*> root_;
  // The last leaf, as long as keys come in order; else null.
  std::atomic<Leaf*> append_leaf_{nullptr};
  std::atomic<uint64_t> size_{0};

  Mutex structure_mu_;
  char* slab_ ABSL_GUARDED_BY(structure_mu_) = nullptr;  // memory for nodes
  size_t slab_bytes_left_ ABSL_GUARDED_BY(structure_mu_) = 0;
  size_t node_bytes_ ABSL_GUARDED_BY(structure_mu_) = 0;
};

template <bool kOrAt>
inline int EntryTree::Rank(const Node* node, const Entry* const* keys, uint64_t order,
                           const Target& target) const {
  const uint64_t word = WordOf(target.key, node);
  const int n = CountOf(order);
  // No matter in what order the slots are.
  int below = 0;
  int equal = 0;
  for (int slot = 0; slot < n; ++slot) {
    below += node->words[slot] < word ? 1 : 0;
    equal += node->words[slot] == word ? 1 : 0;
  }
  if (equal == 0) [[likely]]
    return below;
  return RankOfTies<kOrAt>(keys, order, target, below, below + equal);
}

template <bool kOrAt>
int EntryTree::RankOfTies(const Entry* const* keys, uint64_t order, const Target& target, int low,
                          int high) const {
  while (low < high) {
    const int middle = (low + high) / 2;
    if (Before<kOrAt>(keys[SlotAt(order, middle)], target)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

inline EntryTree::Leaf* EntryTree::FindLeaf(Node* node, const Target& target) const {
  while (node->level > 0) {
    const auto* const inner = static_cast<const Inner*>(node);
    node = ChosenChild(
        inner, [&](uint64_t order) { return Rank<true>(inner, inner->separators, order, target); });
    const auto* const line = reinterpret_cast<const char*>(node);
    for (int i = 0; i < 4; ++i) PrefetchLine(line + 64 * i);
  }
  return static_cast<Leaf*>(node);
}

template <bool kOrAt>
EntryTree::Cursor EntryTree::FindPlace(const Target& target) const {
  const Root& root = *root_.load(std::memory_order_acquire);
  const int side = Side(root, target.key);
  if (side != 0) [[unlikely]] {
    const Leaf* const edge = EdgeLeaf(root, side > 0);
    const uint64_t order = edge->order.load(std::memory_order_acquire);
    return {edge, order, side > 0 ? CountOf(order) : 0};
  }
  const Leaf* const leaf = FindLeaf(root.node, target);
  const uint64_t order = leaf->order.load(std::memory_order_acquire);
  return {leaf, order, Rank<kOrAt>(leaf, leaf->entries, order, target)};
}

inline EntryTree::Cursor EntryTree::FindAtOrAfter(const Target& target) const {
  Cursor cursor = FindPlace<false>(target);
  if (cursor.index_ == CountOf(cursor.order_)) [[unlikely]] {
    cursor.ToNextLeaf();
    // Keys may have been appended since the way down.
    while (cursor.Valid() && Before<false>(cursor.entry(), target)) cursor.Next();
  }
  return cursor;
}

inline EntryTree::Cursor EntryTree::FindBefore(const Target& target) const {
  Cursor cursor = FindPlace<false>(target);
  cursor.Prev();
  return cursor;
}

inline EntryTree::Cursor EntryTree::FindAtOrBefore(const Target& target) const {
  Cursor cursor = FindPlace<true>(target);
  cursor.Prev();
  return cursor;
}

inline const EntryTree::Entry* EntryTree::Cursor::entry() const {
  return leaf_ == nullptr ? nullptr : leaf_->entries[SlotAt(order_, index_)];
}

inline void EntryTree::Cursor::Next() {
  assert(Valid());
  if (++index_ == CountOf(order_)) ToNextLeaf();
}

inline void EntryTree::Cursor::Prev() {
  assert(Valid());
  if (--index_ < 0) ToPrevLeaf();
}

}  // namespace sievedb

#endif  // SIEVEDB_DB_ENTRY_TREE_H_
