#include "table/table_iterator.h"

#include <algorithm>
#include <cassert>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "table/block.h"
#include "util/epoch.h"
#include "util/prefetch.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

constexpr uint64_t kFirstReadaheadBytes = 16 << 10;
constexpr uint64_t kMaxReadaheadBytes = 256 << 10;
constexpr uint64_t kCompactionReadBytes = 1 << 20;

// Memory that grows and is not initialized.
class Scratch {
 public:
  char* Get(size_t bytes) {
    if (bytes > capacity_) {
      bytes_ = std::make_unique_for_overwrite<char[]>(bytes);
      capacity_ = bytes;
    }
    return bytes_.get();
  }

 private:
  std::unique_ptr<char[]> bytes_;
  size_t capacity_ = 0;
};

// Bytes of a table's blocks as stored, read in pieces that grow while they are asked
// for one after the other.
class BlockReadahead {
 public:
  BlockReadahead(const TableParts& parts, const ReadOptions& options, bool for_compaction)
      : parts_(parts),
        for_compaction_(for_compaction),
        fixed_bytes_(for_compaction
                         ? std::max<uint64_t>(options.readahead_bytes, kCompactionReadBytes)
                         : options.readahead_bytes),
        upper_bound_(options.upper_bound) {}

  // Notes that block i is used, from wherever.
  void Used(size_t i) { last_block_ = i; }

  // Whether the block is too large to pass through the piece.
  bool TooLarge(size_t i) const {
    const uint64_t bytes = parts_.index.offset(i + 1) - parts_.index.offset(i);
    return bytes > std::max(kCompactionReadBytes, fixed_bytes_);
  }

  // The bytes of block i with its trailer. They stay until the next call.
  absl::Status Read(size_t i, std::string_view* stored) {
    const uint64_t begin = parts_.index.offset(i);
    const uint64_t bytes = parts_.index.offset(i + 1) - begin;
    if (begin < piece_offset_ || begin + bytes > piece_offset_ + piece_.size()) {
      SIEVEDB_RETURN_IF_ERROR(ReadPiece(i));
    }
    *stored = piece_.substr(begin - piece_offset_, bytes);
    return absl::OkStatus();
  }

 private:
  // Found when something is read for the first time: an iterator whose blocks are all
  // cached has no use for it.
  void FindEndBlock() {
    end_block_ = parts_.index.blocks();
    if (upper_bound_.has_value()) {
      end_block_ = std::min(end_block_, parts_.index.Find(*upper_bound_, kMaxTag) + 1);
    }
  }

  // Reads the piece that holds block i, and more on the side that the reader walks to.
  absl::Status ReadPiece(size_t i) {
    if (end_block_ == 0) FindEndBlock();
    const IndexReader& index = parts_.index;
    const bool forward = i == last_block_ + 1;
    const bool backward = i + 1 == last_block_;
    if (forward || backward) {
      bytes_ahead_ = std::clamp(bytes_ahead_ * 2, kFirstReadaheadBytes, kMaxReadaheadBytes);
    } else {
      bytes_ahead_ = 0;
    }
    const uint64_t want = fixed_bytes_ != 0 ? fixed_bytes_ : bytes_ahead_;
    size_t first = i;
    size_t end = i + 1;
    if (backward) {
      const uint64_t stop = index.offset(end);
      first = std::min(i, index.FirstBlockFrom(stop > want ? stop - want : 0));
    } else {
      end = std::max(end, index.FirstBlockFrom(index.offset(i) + want + 1) - 1);
      // Without a further block, the data's end may be within reach as well.
      if (index.offset(index.blocks()) <= index.offset(i) + want) end = index.blocks();
      end = std::max(i + 1, std::min(end, end_block_));
    }
    piece_offset_ = index.offset(first);
    const uint64_t bytes = index.offset(end) - piece_offset_;
    piece_ = {};
    const BlockFile& file = *parts_.file;
    {
      LatencyTimer timer(for_compaction_ ? nullptr : parts_.statistics, Latency::kBlockRead,
                         LatencyTimer::When::kAlways);
      SIEVEDB_RETURN_IF_ERROR(ReadExactly(file.file(), file.path(), piece_offset_, bytes,
                                          scratch_.Get(bytes), &piece_));
    }
    // The kernel fetches the next piece while this one is worked on.
    if (for_compaction_ && end < end_block_) file.file().Readahead(index.offset(end), want);
    return absl::OkStatus();
  }

  const TableParts& parts_;
  const bool for_compaction_;
  const uint64_t fixed_bytes_;  // 0: grows
  const std::optional<std::string> upper_bound_;
  size_t end_block_ = 0;  // not read ahead from here on; 0: to be found
  uint64_t bytes_ahead_ = 0;
  size_t last_block_ = ~size_t{1};  // next to no block
  Scratch scratch_;
  uint64_t piece_offset_ = 0;
  std::string_view piece_;
};

class TableIterator final : public InternalIterator {
 public:
  TableIterator(const TableParts& parts, const ReadOptions& options, bool for_compaction)
      : parts_(parts),
        cached_(for_compaction ? nullptr : parts.cached.get()),
        verify_checksums_(options.verify_checksums),
        // What was not verified must not meet readers who rely on it.
        fill_cache_(cached_ != nullptr && options.fill_cache && options.verify_checksums),
        cache_only_(options.cache_only),
        for_compaction_(for_compaction),
        it_(parts.order),
        block_(parts.index.blocks()),
        readahead_(parts, options, for_compaction) {}

  ~TableIterator() override { ReleaseBlock(); }

  bool Valid() const override { return it_.Valid(); }
  std::string_view key() const override { return it_.key(); }
  std::string_view value() const override { return it_.value(); }
  absl::Status status() const override { return status_; }

  void SeekToFirst() override {
    if (!GoTo(0)) return;
    it_.SeekToFirst();
    if (!it_.Valid()) SkipForward();
  }

  void SeekToLast() override {
    // The last block; without any, that is none.
    if (!GoTo(std::max<size_t>(parts_.index.blocks(), 1) - 1)) return;
    it_.SeekToLast();
    if (!it_.Valid()) SkipBackward();
  }

  void Seek(std::string_view internal_key) override {
    const std::string_view user_key = UserKey(internal_key);
    const uint64_t tag = Tag(internal_key);
    const bool prepared = std::exchange(preparations_, 0) >= 2;
    if (!GoTo(prepared ? prepared_block_ : FindBlock(user_key, tag))) return;
    it_.Seek(user_key, tag);
    if (!it_.Valid()) SkipForward();
  }

  // The index and the slot, the block's header and footer, its restart points, the
  // entries between two of them.
  bool PrepareSeek(std::string_view internal_key) override {
    const std::string_view user_key = UserKey(internal_key);
    const BlockBuffer* prepared = nullptr;
    if (preparations_ >= 2 && preparing_block_) prepared = cached_->Peek(prepared_block_);
    switch (preparations_++) {
      case 0:
        parts_.index.PrefetchFind(user_key, parts_.order.user().Word(user_key), cached_);
        return true;
      case 1:
        prepared_block_ = FindBlock(user_key, Tag(internal_key));
        preparing_block_ = cached_ != nullptr && prepared_block_ != parts_.index.blocks() &&
                           prepared_block_ != block_ && cached_->PrefetchBlock(prepared_block_);
        return preparing_block_;
      case 2:
        if (prepared != nullptr) PrefetchRestarts({prepared->data(), prepared->size()});
        return prepared != nullptr;
      case 3:
        if (prepared != nullptr) {
          PrefetchInterval({prepared->data(), prepared->size()}, internal_key);
        }
        return false;
      default:
        return false;
    }
  }

  void SeekForPrev(std::string_view internal_key) override {
    Seek(internal_key);
    if (!Valid()) {
      if (status_.ok()) SeekToLast();
    } else if (parts_.order.Compare(key(), internal_key) != 0) {
      Prev();
    }
  }

  void Next() override {
    it_.Next();
    if (!it_.Valid()) [[unlikely]]
      SkipForward();
  }

  bool NextKey(std::string_view* key) override {
    it_.Next();
    if (!it_.Valid()) [[unlikely]] {
      SkipForward();
      if (!it_.Valid()) return false;
    }
    *key = it_.key();
    return true;
  }

  void Prev() override {
    it_.Prev();
    if (!it_.Valid()) [[unlikely]]
      SkipBackward();
  }

 private:
  // The index is not searched where the current block is the one: seeks are often near
  // to where the iterator stands.
  size_t FindBlock(std::string_view user_key, uint64_t tag) const {
    if (block_ < parts_.index.blocks() && parts_.index.SurelyFinds(block_, user_key)) {
      return block_;
    }
    return parts_.index.Find(user_key, tag, parts_.order.user().Word(user_key), cached_);
  }

  // Makes block i the current one, for a seek. False at the end and after an error.
  bool GoTo(size_t i) {
    const bool had_error = !status_.ok();
    status_ = absl::OkStatus();
    if (i == parts_.index.blocks()) {
      ReleaseBlock();
      return false;
    }
    return (i == block_ && !had_error) || Load(i);
  }

  // The entries that the binary search looks at: all of them in a block of the usual
  // size.
  static void PrefetchRestarts(std::string_view bytes) {
    constexpr uint32_t kMaxRestarts = 4;
    Block block;
    if (!block.Parse(bytes)) return;
    for (uint32_t i = 0; i < std::min(block.num_restarts(), kMaxRestarts); ++i) {
      // Where it is damaged, a prefetch of any address is harmless; the seek will tell.
      PrefetchLine(block.data() + block.RestartOffset(i));
    }
  }

  // The entries that the seek walks through, and some that steps after it will.
  void PrefetchInterval(std::string_view bytes, std::string_view internal_key) const {
    constexpr size_t kMaxBytes = 2048;
    Block block;
    uint32_t restart = 0;
    if (!block.Parse(bytes) || !block.FindRestart(parts_.order.user(), UserKey(internal_key),
                                                  Tag(internal_key), &restart)) {
      return;
    }
    const char* const from = block.data() + block.RestartOffset(restart);
    for (const char* at = from; at < std::min(from + kMaxBytes, block.limit()); at += 64) {
      PrefetchLine(at);
    }
  }

  void SkipForward() {
    do {
      if (NoteDamage()) return;
      if (block_ + 1 >= parts_.index.blocks()) return ReleaseBlock();
      if (!Load(block_ + 1)) return;
      if (cached_ != nullptr) PrefetchNextBlocks();
      it_.SeekToFirst();
    } while (!it_.Valid());
  }

  // Of three blocks to come, one memory access further each, so that a walk through
  // cached blocks has every one of them at hand when it gets there.
  void PrefetchNextBlocks() const {
    constexpr size_t kEntryBytes = 256;
    const EpochGuard guard;
    if (block_ + 3 >= parts_.index.blocks()) return;
    cached_->PrefetchSlot(block_ + 3);
    (void)cached_->PrefetchBlock(block_ + 2);
    const BlockBuffer* const next = cached_->Peek(block_ + 1);
    if (next == nullptr) return;
    for (size_t at = 0; at < std::min(next->size(), kEntryBytes); at += 64) {
      PrefetchLine(next->data() + at);
    }
  }

  void SkipBackward() {
    do {
      if (NoteDamage()) return;
      if (block_ == 0) return ReleaseBlock();
      if (!Load(block_ - 1)) return;
      it_.SeekToLast();
    } while (!it_.Valid());
  }

  bool NoteDamage() {
    if (!it_.damaged()) return false;
    const absl::Status damage =
        parts_.file->Damaged(parts_.index.handle(block_), "an entry is malformed");
    ReleaseBlock();
    status_ = damage;
    return true;
  }

  bool Load(size_t i) {
    ReleaseBlock();
    std::string_view bytes;
    status_ = FetchBlock(i, &bytes);
    readahead_.Used(i);
    if (status_.ok() && !it_.Init(bytes)) {
      status_ = parts_.file->Damaged(parts_.index.handle(i), "its outline is malformed");
    }
    if (!status_.ok()) {
      ReleaseBlock();
      return false;
    }
    block_ = i;
    return true;
  }

  absl::Status FetchBlock(size_t i, std::string_view* bytes) {
    if (cached_ != nullptr) {
      const EpochGuard guard;
      cached_->PrefetchBlock(i);
      BlockBuffer* const cached = cached_->Lookup(i);
      if (cached != nullptr) {
        cached->Ref();
        Count(parts_.statistics, Counter::kBlockCacheHits);
        return Take(cached, bytes);
      }
      Count(parts_.statistics, Counter::kBlockCacheMisses);
    }
    const BlockHandle handle = parts_.index.handle(i);
    if (cache_only_) {
      return absl::UnavailableError(absl::StrFormat("%s: block at offset %d is not cached",
                                                    parts_.file->path(), handle.offset));
    }
    SIEVEDB_RETURN_IF_ERROR(ReadBlock(i, handle, bytes));
    if (!for_compaction_) {
      Count(parts_.statistics, Counter::kBlockReads);
      Count(parts_.statistics, Counter::kBlockReadBytes, handle.size + kBlockTrailerBytes);
    }
    return absl::OkStatus();
  }

  // Into a buffer of its own where the cache shall have it; otherwise the bytes stay in
  // the piece that was read, or are unpacked to memory that is used again.
  absl::Status ReadBlock(size_t i, const BlockHandle& handle, std::string_view* bytes) {
    const BlockFile& file = *parts_.file;
    BlockBuffer* buffer = nullptr;
    if (readahead_.TooLarge(i)) {
      LatencyTimer timer(for_compaction_ ? nullptr : parts_.statistics, Latency::kBlockRead,
                         LatencyTimer::When::kAlways);
      SIEVEDB_ASSIGN_OR_RETURN(buffer, file.Read(handle, verify_checksums_));
    } else {
      std::string_view stored;
      SIEVEDB_RETURN_IF_ERROR(readahead_.Read(i, &stored));
      if (!fill_cache_) return UnpackInPlace(handle, stored, bytes);
      SIEVEDB_ASSIGN_OR_RETURN(buffer, file.Decode(handle, stored, verify_checksums_));
    }
    if (fill_cache_) cached_->Insert(i, buffer);
    return Take(buffer, bytes);
  }

  absl::Status UnpackInPlace(const BlockHandle& handle, std::string_view stored,
                             std::string_view* bytes) {
    const BlockFile& file = *parts_.file;
    SIEVEDB_ASSIGN_OR_RETURN(const StoredBlock block,
                             file.Check(handle, stored, verify_checksums_));
    if (block.codec == Compression::kNone) {
      *bytes = block.payload;
      return absl::OkStatus();
    }
    SIEVEDB_ASSIGN_OR_RETURN(const size_t raw_bytes, file.RawSize(handle, block));
    char* const raw = unpacked_.Get(raw_bytes);
    SIEVEDB_RETURN_IF_ERROR(file.Unpack(handle, block, raw, raw_bytes));
    *bytes = {raw, raw_bytes};
    return absl::OkStatus();
  }

  // Takes over the caller's reference.
  absl::Status Take(BlockBuffer* buffer, std::string_view* bytes) {
    assert(buffer_ == nullptr);
    buffer_ = buffer;
    *bytes = {buffer->data(), buffer->size()};
    return absl::OkStatus();
  }

  void ReleaseBlock() {
    it_.Clear();
    block_ = parts_.index.blocks();
    if (buffer_ != nullptr) std::exchange(buffer_, nullptr)->Unref();
  }

  const TableParts& parts_;
  CachedBlocks* const cached_;  // null: neither asked nor filled
  const bool verify_checksums_;
  const bool fill_cache_;
  const bool cache_only_;
  const bool for_compaction_;
  BlockIterator it_;
  size_t block_;                   // blocks(): none
  size_t prepared_block_ = 0;      // where preparations_ >= 2: the next Seek's
  int preparations_ = 0;           // calls of PrepareSeek since the last Seek
  bool preparing_block_ = false;   // it is cached, and not the current one
  BlockBuffer* buffer_ = nullptr;  // the current block's, where it has one; a reference of ours
  absl::Status status_;
  BlockReadahead readahead_;
  Scratch unpacked_;
};

}  // namespace

std::unique_ptr<InternalIterator> NewTableIterator(const TableParts& parts,
                                                   const ReadOptions& options,
                                                   bool for_compaction) {
  return std::make_unique<TableIterator>(parts, options, for_compaction);
}

}  // namespace sievedb
