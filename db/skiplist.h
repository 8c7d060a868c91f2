#ifndef SIEVEDB_DB_SKIPLIST_H_
#define SIEVEDB_DB_SKIPLIST_H_

#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <string_view>

#include "table/internal_key.h"
#include "table/key_words.h"
#include "util/arena.h"
#include "util/prefetch.h"

namespace sievedb {

// A sorted set of entries in an arena: Pugh's skip list (1990), with nodes linked
// in by compare-and-swap and never taken out.
//
// Threads: Insert may be called concurrently with Insert and with everything else.
//          Readers take no lock and never wait.
//
// Invariants
// 1. A node's bytes and its pointer of level n are written before the CAS (release)
//    that links it at level n; whoever reaches it does so by an acquire load of
//    such a link, so sees them.
// 2. A node is linked at level 0 first, then upwards: what is seen at level n is
//    linked at all levels below.
// 3. Links only ever change to a node that is nearer.
class SkipList {
 public:
  static constexpr int kMaxHeight = 12;
  static constexpr uint64_t kBranching = 4;

  // One allocation, laid out so that a search mostly touches the cache line around
  // the start of the node: the links of higher levels lie before it, level n's at
  // -8 n.
  //   offset  size  field
  //   0       8     link of level 0
  //   8       8     first word of the user key (KeyOrder::Word)
  //   16      4     key bytes
  //   20      4     value bytes
  //   24      …     user key
  //   …       8     tag, fixed64: with the key before it the internal key
  //   …       …     value
  class Node {
   public:
    std::string_view internal_key() const { return {bytes(), key_bytes_ + kTagBytes}; }
    std::string_view user_key() const { return {bytes(), key_bytes_}; }
    uint64_t tag() const { return DecodeFixed64(bytes() + key_bytes_); }
    std::string_view value() const { return {bytes() + key_bytes_ + kTagBytes, value_bytes_}; }
    uint64_t word() const { return word_; }
    const Node* next() const { return Link(0)->load(std::memory_order_acquire); }

   private:
    friend class SkipList;
    Node(uint64_t word, size_t key_bytes, size_t value_bytes)
        : word_(word),
          key_bytes_(static_cast<uint32_t>(key_bytes)),
          value_bytes_(static_cast<uint32_t>(value_bytes)) {}

    const char* bytes() const { return reinterpret_cast<const char*>(this + 1); }
    const std::atomic<Node*>* Link(int level) const { return &link_ - level; }
    std::atomic<Node*>* Link(int level) { return &link_ - level; }
    Node* Next(int level) const { return Link(level)->load(std::memory_order_acquire); }

    std::atomic<Node*> link_{nullptr};
    const uint64_t word_;
    const uint32_t key_bytes_;
    const uint32_t value_bytes_;
  };

  // What a search looks for.
  struct Target {
    std::string_view key;
    uint64_t tag;
    KeyWords words;
  };
  Target MakeTarget(std::string_view key, uint64_t tag) const {
    return {key, tag, WordsOf(order_.user(), key)};
  }

  SkipList(const InternalKeyOrder& order, Arena* arena)
      : order_(order),
        flip_(order.user().has_words() ? order.user().Word({}) : 0),
        arena_(arena),
        head_(MakeNode(head_bytes_, kMaxHeight, 0, 0, 0)) {
    for (int level = 0; level < kMaxHeight; ++level) hint_.before[level] = head_;
  }
  SkipList(const SkipList&) = delete;
  SkipList& operator=(const SkipList&) = delete;

  // Cost: O(log n), O(1) where the key comes right after the one inserted last.
  void Insert(std::string_view key, uint64_t tag, std::string_view value);

  // Entries inserted, those that are on their way in included.
  uint64_t size() const { return size_.load(std::memory_order_relaxed); }

  const Node* First() const { return head_->next(); }
  const Node* Last() const;
  // The first entry that is not before target.
  const Node* FindAtOrAfter(const Target& target) const;
  const Node* FindBefore(const Target& target) const;
  const Node* FindAtOrBefore(const Target& target) const;

 private:
  // Where a key belongs: at each level before it and the next one after. A splice
  // may be outdated, then other nodes lie between the two.
  struct Splice {
    Node* before[kMaxHeight] = {};
    Node* after[kMaxHeight] = {};  // null: the end
  };

  static Node* MakeNode(char* memory, int height, uint64_t word, size_t key_bytes,
                        size_t value_bytes);
  Node* NewNode(int height, uint64_t word, std::string_view key, uint64_t tag,
                std::string_view value);
  static int HeightOf(uint64_t ordinal);
  void RaiseHeight(int height);

  // Whether node comes before target, or (kOrAt) is at it.
  template <bool kOrAt>
  bool Before(const Node* node, const Target& target) const {
    if (node->word_ != target.words.first) [[likely]]
      return node->word_ < target.words.first;
    return BeforeByKey<kOrAt>(node, target);
  }
  template <bool kOrAt>
  bool BeforeByKey(const Node* node, const Target& target) const;

  // The last node before target, or head_; visit(level, before, after) hears of
  // each level's.
  template <bool kOrAt, typename Visit>
  Node* Descend(const Target& target, Visit visit) const;
  void Search(const Target& target, Splice* splice) const;
  bool Fits(const Splice& splice, const Target& target, int height) const;
  void Link(Node* node, int height, const Target& target, Splice* splice);
  const Node* OrNull(const Node* node) const { return node == head_ ? nullptr : node; }

  const InternalKeyOrder order_;
  const uint64_t flip_;  // what KeyOrder::Word does to a word for a reversed order
  Arena* const arena_;
  alignas(Node) char head_bytes_[(kMaxHeight - 1) * sizeof(std::atomic<Node*>) + sizeof(Node)];
  Node* const head_;
  std::atomic<int> height_{1};  // of the highest node; only saves empty levels
  std::atomic<uint64_t> size_{0};

  // The splice of the last insert, for the next one to begin with. It belongs to
  // the thread that turned hint_taken_ to true; one that comes meanwhile does
  // without. Acquired and released like a lock that nobody waits for.
  std::atomic<bool> hint_taken_{false};
  Splice hint_;
};

static_assert(sizeof(SkipList::Node) == 24);
static_assert(alignof(SkipList::Node) == 8);

inline SkipList::Node* SkipList::MakeNode(char* memory, int height, uint64_t word, size_t key_bytes,
                                          size_t value_bytes) {
  for (int i = 0; i < height - 1; ++i) {
    new (memory) std::atomic<Node*>(nullptr);
    memory += sizeof(std::atomic<Node*>);
  }
  return new (memory) Node(word, key_bytes, value_bytes);
}

inline SkipList::Node* SkipList::NewNode(int height, uint64_t word, std::string_view key,
                                         uint64_t tag, std::string_view value) {
  assert(key.size() <= std::numeric_limits<uint32_t>::max());
  assert(value.size() <= std::numeric_limits<uint32_t>::max());
  const size_t links = static_cast<size_t>(height - 1) * sizeof(std::atomic<Node*>);
  const size_t payload = key.size() + kTagBytes + value.size();
  char* const memory = arena_->Allocate(links + sizeof(Node) + payload);
  Node* const node = MakeNode(memory, height, word, key.size(), value.size());
  char* to = memory + links + sizeof(Node);
  if (!key.empty()) std::memcpy(to, key.data(), key.size());
  EncodeFixed64(to + key.size(), tag);
  if (!value.empty()) std::memcpy(to + key.size() + kTagBytes, value.data(), value.size());
  return node;
}

// Geometric over the ordinals, mixed by the finalizer of splitmix64: as good as
// random for a list, and the same in each run.
inline int SkipList::HeightOf(uint64_t ordinal) {
  uint64_t bits = (ordinal + 1) * 0x9e3779b97f4a7c15u;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
  bits ^= bits >> 31;
  int height = 1;
  while (height < kMaxHeight && bits % kBranching == 0) {
    bits /= kBranching;
    ++height;
  }
  return height;
}

// Relaxed: a reader that sees the new height before the node finds empty levels,
// one that sees it late begins a level lower.
inline void SkipList::RaiseHeight(int height) {
  int seen = height_.load(std::memory_order_relaxed);
  while (seen < height && !height_.compare_exchange_weak(seen, height, std::memory_order_relaxed)) {
  }
}

template <bool kOrAt>
bool SkipList::BeforeByKey(const Node* node, const Target& target) const {
  if (order_.user().has_words() && node->key_bytes_ >= sizeof(uint64_t)) {
    // The tag behind the key makes the whole second word readable.
    const size_t rest = node->key_bytes_ - sizeof(uint64_t);
    const uint64_t second = PaddedWord(node->bytes() + sizeof(uint64_t), rest) ^ flip_;
    if (second != target.words.second) return second < target.words.second;
  }
  const int r = order_.user().Compare(node->user_key(), target.key);
  if (r != 0) return r < 0;
  return kOrAt ? node->tag() >= target.tag : node->tag() > target.tag;
}

template <bool kOrAt, typename Visit>
SkipList::Node* SkipList::Descend(const Target& target, Visit visit) const {
  Node* at = head_;
  const Node* beyond = nullptr;  // known not to be before target
  int level = height_.load(std::memory_order_relaxed) - 1;
  while (true) {
    Node* const next = at->Next(level);
    // The other way that the search may go from here is fetched while next is.
    if (level > 0) PrefetchLine(at->Link(level - 1)->load(std::memory_order_relaxed));
    if (next != beyond && next != nullptr && Before<kOrAt>(next, target)) {
      at = next;
      continue;
    }
    visit(level, at, next);
    if (level == 0) return at;
    beyond = next;
    --level;
  }
}

inline const SkipList::Node* SkipList::FindAtOrAfter(const Target& target) const {
  const Node* found = nullptr;
  Descend<false>(target, [&found](int, Node*, Node* after) { found = after; });
  return found;
}

inline const SkipList::Node* SkipList::FindBefore(const Target& target) const {
  return OrNull(Descend<false>(target, [](int, Node*, Node*) {}));
}

inline const SkipList::Node* SkipList::FindAtOrBefore(const Target& target) const {
  return OrNull(Descend<true>(target, [](int, Node*, Node*) {}));
}

inline const SkipList::Node* SkipList::Last() const {
  const Node* at = head_;
  for (int level = height_.load(std::memory_order_relaxed) - 1; level >= 0; --level) {
    while (const Node* const next = at->Next(level)) at = next;
  }
  return OrNull(at);
}

inline void SkipList::Search(const Target& target, Splice* splice) const {
  for (int level = height_.load(std::memory_order_relaxed); level < kMaxHeight; ++level) {
    splice->before[level] = head_;
    splice->after[level] = nullptr;
  }
  Descend<false>(target, [splice](int level, Node* before, Node* after) {
    splice->before[level] = before;
    splice->after[level] = after;
  });
}

// Whether target belongs into splice, and no other node has come between at the
// levels that matter. Level 0 decides for all: whatever is linked higher up is
// linked there too.
inline bool SkipList::Fits(const Splice& splice, const Target& target, int height) const {
  for (int level = 0; level < height; ++level) {
    if (splice.before[level]->Next(level) != splice.after[level]) return false;
  }
  const Node* const before = splice.before[0];
  const Node* const after = splice.after[0];
  return (before == head_ || Before<false>(before, target)) &&
         (after == nullptr || !Before<false>(after, target));
}

inline void SkipList::Link(Node* node, int height, const Target& target, Splice* splice) {
  for (int level = 0; level < height; ++level) {
    Node*& before = splice->before[level];
    Node*& after = splice->after[level];
    while (true) {
      // Relaxed: the CAS publishes it.
      node->Link(level)->store(after, std::memory_order_relaxed);
      if (before->Link(level)->compare_exchange_strong(after, node, std::memory_order_release,
                                                       std::memory_order_relaxed)) {
        break;
      }
      // Another insert was faster; this one's place may be behind that node.
      after = before->Next(level);
      while (after != nullptr && Before<false>(after, target)) {
        before = after;
        after = before->Next(level);
      }
    }
    // Now the splice of the key that comes next.
    before = node;
  }
}

inline void SkipList::Insert(std::string_view key, uint64_t tag, std::string_view value) {
  const int height = HeightOf(size_.fetch_add(1, std::memory_order_relaxed));
  const Target target = MakeTarget(key, tag);
  Node* const node = NewNode(height, target.words.first, key, tag, value);
  RaiseHeight(height);
  if (!hint_taken_.exchange(true, std::memory_order_acquire)) {
    if (!Fits(hint_, target, height)) Search(target, &hint_);
    Link(node, height, target, &hint_);
    hint_taken_.store(false, std::memory_order_release);
  } else {
    Splice splice;
    Search(target, &splice);
    Link(node, height, target, &splice);
  }
}

}  // namespace sievedb

#endif  // SIEVEDB_DB_SKIPLIST_H_
