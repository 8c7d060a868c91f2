#include "db/entry_tree.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <thread>

namespace sievedb {
namespace {

constexpr size_t kLineBytes = 64;
// Nodes come from pieces of the arena that begin at a cache line's border. A piece is a
// part of what there is, so that a small tree stays small.
constexpr size_t kMinSlabBytes = 1024;
constexpr size_t kMaxSlabBytes = size_t{64} << 10;
constexpr size_t kSlabFraction = 8;

size_t CommonBytes(std::string_view a, std::string_view b) {
  const size_t n = std::min(a.size(), b.size());
  return static_cast<size_t>(
      std::mismatch(a.begin(), a.begin() + static_cast<ptrdiff_t>(n), b.begin()).first - a.begin());
}

// Held for some hundred instructions at most. Whoever finds it taken for longer lets the
// holder run.
class SpinLock {
 public:
  explicit SpinLock(std::atomic<bool>* locked) : locked_(locked) {
    constexpr int kSpins = 200;
    for (int i = 0; locked_->exchange(true, std::memory_order_acquire); ++i) {
      if (i >= kSpins) std::this_thread::yield();
    }
  }
  ~SpinLock() { locked_->store(false, std::memory_order_release); }
  SpinLock(const SpinLock&) = delete;
  SpinLock& operator=(const SpinLock&) = delete;

 private:
  std::atomic<bool>* const locked_;
};

}  // namespace

EntryTree::EntryTree(const InternalKeyOrder& order, Arena* arena) : order_(order), arena_(arena) {
  const MutexLock lock(&structure_mu_);
  SetRoot(NewLeaf(0, nullptr, 0), {});
}

// --- reading

EntryTree::Leaf* EntryTree::EdgeLeaf(const Root& root, bool last) {
  Node* node = root.node;
  while (node->level > 0) {
    const auto* const inner = static_cast<const Inner*>(node);
    node = ChosenChild(inner, [&](uint64_t order) { return last ? CountOf(order) : 0; });
  }
  return static_cast<Leaf*>(node);
}

EntryTree::Cursor EntryTree::First() const {
  const Leaf* const leaf = EdgeLeaf(*root_.load(std::memory_order_acquire), /*last=*/false);
  const uint64_t order = leaf->order.load(std::memory_order_acquire);
  return CountOf(order) == 0 ? Cursor() : Cursor(leaf, order, 0);
}

EntryTree::Cursor EntryTree::Last() const {
  const Leaf* const leaf = EdgeLeaf(*root_.load(std::memory_order_acquire), /*last=*/true);
  const uint64_t order = leaf->order.load(std::memory_order_acquire);
  return CountOf(order) == 0 ? Cursor() : Cursor(leaf, order, CountOf(order) - 1);
}

// Only the first leaf of all is ever empty.
void EntryTree::Cursor::ToNextLeaf() {
  leaf_ = leaf_->next.load(std::memory_order_acquire);
  if (leaf_ == nullptr) return;
  order_ = leaf_->order.load(std::memory_order_acquire);
  index_ = 0;
  // Entries lie where they came into the arena.
  for (int i = 0; i < CountOf(order_); ++i) PrefetchLine(leaf_->entries[SlotAt(order_, i)]);
}

void EntryTree::Cursor::ToPrevLeaf() {
  leaf_ = leaf_->prev.load(std::memory_order_acquire);
  if (leaf_ == nullptr) return;
  order_ = leaf_->order.load(std::memory_order_acquire);
  index_ = CountOf(order_) - 1;
}

// --- inserting

const EntryTree::Entry* EntryTree::NewEntry(std::string_view key, uint64_t tag,
                                            std::string_view value) {
  assert(key.size() <= std::numeric_limits<uint32_t>::max());
  assert(value.size() <= std::numeric_limits<uint32_t>::max());
  char* const memory = arena_->Allocate(sizeof(Entry) + key.size() + kTagBytes + value.size());
  const auto* const entry = new (memory) Entry(key.size(), value.size());
  char* const to = memory + sizeof(Entry);
  if (!key.empty()) std::memcpy(to, key.data(), key.size());
  EncodeFixed64(to + key.size(), tag);
  if (!value.empty()) std::memcpy(to + key.size() + kTagBytes, value.data(), value.size());
  return entry;
}

void EntryTree::Insert(std::string_view key, uint64_t tag, std::string_view value) {
  const Entry* const entry = NewEntry(key, tag, value);
  size_.fetch_add(1, std::memory_order_relaxed);
  if (append_leaf_.load(std::memory_order_relaxed) != nullptr && AppendToLast(entry)) return;
  const Target target{entry->user_key(), tag};
  const Root& root = *root_.load(std::memory_order_acquire);
  if (Side(root, target.key) == 0 && InsertIntoLeaf(FindLeaf(root.node, target), entry)) return;
  InsertAndSplit(entry);
}

// Requires: its lock; leaf is alive and has room.
void EntryTree::AddToLeaf(Leaf* leaf, const Entry* entry) {
  // Relaxed: only who has the lock changes it.
  const uint64_t order = leaf->order.load(std::memory_order_relaxed);
  const Target target{entry->user_key(), entry->tag()};
  const int rank = Rank<false>(leaf, leaf->entries, order, target);
  const int slot = CountOf(order);
  leaf->words[slot] = WordOf(target.key, leaf);
  leaf->entries[slot] = entry;
  leaf->order.store(WithNextSlotAt(order, rank), std::memory_order_release);
}

bool EntryTree::InsertIntoLeaf(Leaf* leaf, const Entry* entry) {
  const SpinLock lock(&leaf->locked);
  if (leaf->dead || CountOf(leaf->order.load(std::memory_order_relaxed)) == kSlots) return false;
  AddToLeaf(leaf, entry);
  return true;
}

// Without a search, where entry comes after all others.
bool EntryTree::AppendToLast(const Entry* entry) {
  Leaf* const leaf = append_leaf_.load(std::memory_order_acquire);
  if (leaf == nullptr) return false;
  {
    const SpinLock lock(&leaf->locked);
    const uint64_t order = leaf->order.load(std::memory_order_relaxed);
    const int n = CountOf(order);
    // It is the last one where it is neither full nor replaced: no other is put behind it.
    if (n == kSlots) return false;
    const Entry* const last = leaf->entries[SlotAt(order, n - 1)];
    const std::string_view key = entry->user_key();
    if (!leaf->dead && key.substr(0, leaf->skip) == last->user_key().substr(0, leaf->skip) &&
        Before<false>(last, {key, entry->tag()})) {
      AddToLeaf(leaf, entry);
      return true;
    }
  }
  append_leaf_.store(nullptr, std::memory_order_relaxed);
  return false;
}

// --- making room

void EntryTree::InsertAndSplit(const Entry* entry) {
  const MutexLock structure_lock(&structure_mu_);
  AdaptPrefix(entry->user_key());
  const Path path = FindPath({entry->user_key(), entry->tag()});
  const SpinLock lock(&path.leaf->locked);
  assert(!path.leaf->dead);
  if (CountOf(path.leaf->order.load(std::memory_order_relaxed)) < kSlots) {
    AddToLeaf(path.leaf, entry);
  } else {
    SplitLeaf(path, entry);
  }
}

EntryTree::Path EntryTree::FindPath(const Target& target) {
  Path path;
  Node* node = root_.load(std::memory_order_relaxed)->node;
  while (node->level > 0) {
    assert(path.height < kMaxHeight);
    auto* const inner = static_cast<Inner*>(node);
    const uint64_t order = inner->order.load(std::memory_order_relaxed);
    const int child = Rank<true>(inner, inner->separators, order, target);
    path.steps[static_cast<size_t>(path.height++)] = {inner, path.fences, child};
    if (child > 0) path.fences.low = inner->separators[SlotAt(order, child - 1)];
    if (child < CountOf(order)) path.fences.high = inner->separators[SlotAt(order, child)];
    node = ChildAt(inner, order, child).load(std::memory_order_relaxed);
  }
  path.leaf = static_cast<Leaf*>(node);
  return path;
}

// Requires: the leaf's lock; it is full.
void EntryTree::SplitLeaf(const Path& path, const Entry* entry) {
  Leaf* const leaf = path.leaf;
  const uint64_t order = leaf->order.load(std::memory_order_relaxed);
  const int rank = Rank<false>(leaf, leaf->entries, order, {entry->user_key(), entry->tag()});
  Leaf* const after = leaf->next.load(std::memory_order_relaxed);
  if (after == nullptr && rank == kSlots) {
    // Keys come in order, it seems: the leaf stays as it is, full.
    Leaf* const last = NewLeaf(SharedBytes({entry, nullptr}), &entry, 1);
    LinkLeaves(leaf, last, last, nullptr);
    AddChild(path, path.height - 1, leaf, entry, last);
    append_leaf_.store(last, std::memory_order_release);
    return;
  }
  std::array<const Entry*, kSlots + 1> entries;
  for (int i = 0, from = 0; i <= kSlots; ++i) {
    entries[static_cast<size_t>(i)] = i == rank ? entry : leaf->entries[SlotAt(order, from++)];
  }
  constexpr int kLeft = (kSlots + 1) / 2;
  const Entry* const separator = entries[kLeft];
  Leaf* const left = NewLeaf(SharedBytes({path.fences.low, separator}), entries.data(), kLeft);
  Leaf* const right =
      NewLeaf(SharedBytes({separator, path.fences.high}), &entries[kLeft], kSlots + 1 - kLeft);
  LinkLeaves(leaf->prev.load(std::memory_order_relaxed), left, right, after);
  // Until left is in place too, nothing may come into right: who still finds the old leaf
  // goes on from there to what is after right.
  const SpinLock lock(&right->locked);
  AddChild(path, path.height - 1, left, separator, right);
  leaf->dead = true;
}

// Puts left in the place of the child that path goes to at step, and right behind it.
void EntryTree::AddChild(const Path& path, int step, Node* left, const Entry* separator,
                         Node* right) {
  if (step < 0) {
    const Root& old = *root_.load(std::memory_order_relaxed);
    Node* const children[] = {left, right};
    SetRoot(NewInner(left->level + 1, SharedBytes({}), children, &separator, 1), old.prefix);
    return;
  }
  const Step& at = path.steps[static_cast<size_t>(step)];
  Inner* const inner = at.inner;
  const uint64_t order = inner->order.load(std::memory_order_relaxed);
  const int slot = CountOf(order);
  if (slot == kSlots) {
    SplitInner(path, step, left, separator, right);
    return;
  }
  inner->words[slot] = WordOf(separator->user_key(), inner);
  inner->separators[slot] = separator;
  // Whoever goes to left's place meanwhile finds the child that is replaced, with all
  // that there was.
  inner->children[slot].store(right, std::memory_order_relaxed);
  inner->order.store(WithNextSlotAt(order, at.child), std::memory_order_release);
  ChildAt(inner, order, at.child).store(left, std::memory_order_release);
}

void EntryTree::SplitInner(const Path& path, int step, Node* left, const Entry* separator,
                           Node* right) {
  const Step& at = path.steps[static_cast<size_t>(step)];
  Inner* const inner = at.inner;
  const uint64_t order = inner->order.load(std::memory_order_relaxed);
  if (at.fences.high == nullptr && at.child == kSlots &&
      left == ChildAt(inner, order, kSlots).load(std::memory_order_relaxed)) {
    // As with a leaf: it stays as it is.
    Inner* const last =
        NewInner(inner->level, SharedBytes({separator, nullptr}), &right, nullptr, 0);
    AddChild(path, step - 1, inner, separator, last);
    return;
  }
  std::array<const Entry*, kSlots + 1> separators;
  std::array<Node*, kSlots + 2> children;
  for (int i = 0; i <= kSlots; ++i) {
    const auto to = static_cast<size_t>(i < at.child ? i : i + 1);
    children[to] = ChildAt(inner, order, i).load(std::memory_order_relaxed);
    if (i < kSlots) separators[to] = inner->separators[SlotAt(order, i)];
  }
  const auto child = static_cast<size_t>(at.child);
  separators[child] = separator;
  children[child] = left;
  children[child + 1] = right;
  constexpr int kLeft = kSlots / 2;
  const Entry* const up = separators[kLeft];
  Inner* const low = NewInner(inner->level, SharedBytes({at.fences.low, up}), children.data(),
                              separators.data(), kLeft);
  Inner* const high = NewInner(inner->level, SharedBytes({up, at.fences.high}),
                               &children[kLeft + 1], &separators[kLeft + 1], kSlots - kLeft);
  AddChild(path, step - 1, low, up, high);
}

// --- the prefix of all keys

// Makes key share the root's prefix.
void EntryTree::AdaptPrefix(std::string_view key) {
  const Root& root = *root_.load(std::memory_order_relaxed);
  if (!order_.user().has_words()) return;
  if (root.node->level == 0) {
    // Now there are enough keys to tell by. The first and the last have no more in common
    // than any two.
    auto* const leaf = static_cast<Leaf*>(root.node);
    const SpinLock lock(&leaf->locked);
    const uint64_t order = leaf->order.load(std::memory_order_relaxed);
    const int n = CountOf(order);
    if (n < kSlots) return;
    const std::string_view first = leaf->entries[SlotAt(order, 0)]->user_key();
    const std::string_view last = leaf->entries[SlotAt(order, n - 1)]->user_key();
    const size_t shared = std::min(CommonBytes(first, last), CommonBytes(first, key));
    SetRoot(leaf, first.substr(0, shared));
    return;
  }
  if (Side(root, key) == 0) return;
  const size_t shared = CommonBytes(root.prefix, key);
  Node* const copy = CopyEdge(root.node, shared, /*first=*/true, /*last=*/true);
  SetRoot(copy, root.prefix.substr(0, shared));
}

// A copy of node that compares keys from byte skip on, with the children copied which
// keys before or after all that there are would come to.
EntryTree::Node* EntryTree::CopyEdge(Node* node, size_t skip, bool first, bool last) {
  if (node->level == 0) {
    auto* const leaf = static_cast<Leaf*>(node);
    const SpinLock lock(&leaf->locked);
    const uint64_t order = leaf->order.load(std::memory_order_relaxed);
    const int n = CountOf(order);
    std::array<const Entry*, kSlots> entries;
    for (int i = 0; i < n; ++i) entries[static_cast<size_t>(i)] = leaf->entries[SlotAt(order, i)];
    Leaf* const copy = NewLeaf(skip, entries.data(), n);
    LinkLeaves(leaf->prev.load(std::memory_order_relaxed), copy, copy,
               leaf->next.load(std::memory_order_relaxed));
    leaf->dead = true;
    return copy;
  }
  auto* const inner = static_cast<Inner*>(node);
  const uint64_t order = inner->order.load(std::memory_order_relaxed);
  const int n = CountOf(order);
  std::array<Node*, kSlots + 1> children;
  std::array<const Entry*, kSlots> separators;
  for (int i = 0; i <= n; ++i) {
    Node* child = ChildAt(inner, order, i).load(std::memory_order_relaxed);
    const bool is_first = first && i == 0;
    const bool is_last = last && i == n;
    if (is_first || is_last) child = CopyEdge(child, skip, is_first, is_last);
    children[static_cast<size_t>(i)] = child;
    if (i < n) separators[static_cast<size_t>(i)] = inner->separators[SlotAt(order, i)];
  }
  return NewInner(inner->level, skip, children.data(), separators.data(), n);
}

// --- nodes

size_t EntryTree::SharedBytes(const Fences& fences) const {
  if (!order_.user().has_words()) return 0;
  if (fences.low == nullptr || fences.high == nullptr) {
    return root_.load(std::memory_order_relaxed)->prefix.size();
  }
  return CommonBytes(fences.low->user_key(), fences.high->user_key());
}

EntryTree::Leaf* EntryTree::NewLeaf(size_t skip, const Entry* const* entries, int n) {
  Leaf* const leaf = new (NewNode(sizeof(Leaf))) Leaf(skip);
  for (int i = 0; i < n; ++i) {
    leaf->entries[i] = entries[i];
    leaf->words[i] = WordOf(entries[i]->user_key(), leaf);
  }
  leaf->order.store(OrderOf(n), std::memory_order_relaxed);
  return leaf;
}

// n separators, with a child more.
EntryTree::Inner* EntryTree::NewInner(int level, size_t skip, Node* const* children,
                                      const Entry* const* separators, int n) {
  Inner* const inner = new (NewNode(sizeof(Inner))) Inner(level, skip);
  inner->first.store(children[0], std::memory_order_relaxed);
  for (int i = 0; i < n; ++i) {
    inner->children[i].store(children[i + 1], std::memory_order_relaxed);
    inner->separators[i] = separators[i];
    inner->words[i] = WordOf(separators[i]->user_key(), inner);
  }
  inner->order.store(OrderOf(n), std::memory_order_relaxed);
  return inner;
}

// Puts first .. last, which are one or two leaves, between the others.
void EntryTree::LinkLeaves(Leaf* before, Leaf* first, Leaf* last, Leaf* after) {
  first->prev.store(before, std::memory_order_relaxed);
  last->next.store(after, std::memory_order_relaxed);
  if (first != last) {
    first->next.store(last, std::memory_order_relaxed);
    last->prev.store(first, std::memory_order_relaxed);
  }
  // Releases: who comes over them sees the leaves.
  if (before != nullptr) before->next.store(first, std::memory_order_release);
  if (after != nullptr) after->prev.store(last, std::memory_order_release);
}

void EntryTree::SetRoot(Node* node, std::string_view prefix) {
  char* const memory = arena_->Allocate(sizeof(Root));
  root_.store(new (memory) Root{node, prefix}, std::memory_order_release);
}

char* EntryTree::NewNode(size_t bytes) {
  if (bytes > slab_bytes_left_) {
    const size_t slab_bytes =
        std::clamp(node_bytes_ / kSlabFraction, kMinSlabBytes, kMaxSlabBytes) / kLineBytes *
        kLineBytes;
    char* const memory = arena_->Allocate(slab_bytes + kLineBytes - 8);
    const auto misaligned = reinterpret_cast<uintptr_t>(memory) % kLineBytes;
    slab_ = memory + (misaligned == 0 ? 0 : kLineBytes - misaligned);
    slab_bytes_left_ = slab_bytes;
    node_bytes_ += slab_bytes;
  }
  char* const node = slab_;
  slab_ += bytes;
  slab_bytes_left_ -= bytes;
  return node;
}

}  // namespace sievedb
