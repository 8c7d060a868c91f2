#include "table/global_sequence_iterator.h"

#include <string>
#include <string_view>
#include <utility>

#include "table/internal_key.h"

namespace sievedb {
namespace {

class GlobalSequenceIterator final : public InternalIterator {
 public:
  GlobalSequenceIterator(std::unique_ptr<InternalIterator> entries, const KeyOrder& order,
                         uint64_t sequence)
      : entries_(std::move(entries)), order_(order), sequence_(sequence) {}

  bool Valid() const override { return entries_->Valid(); }
  std::string_view key() const override { return key_; }
  std::string_view value() const override { return entries_->value(); }
  absl::Status status() const override { return entries_->status(); }

  void SeekToFirst() override {
    entries_->SeekToFirst();
    Show();
  }
  void SeekToLast() override {
    entries_->SeekToLast();
    Show();
  }

  // In the file the user key's entry may stand on the other side of internal_key than
  // it is shown. It is the only one of its user key, so one step is all it takes.
  void Seek(std::string_view internal_key) override {
    entries_->Seek(FirstOf(internal_key));
    Show();
    if (ShowsUserKeyOf(internal_key) && Tag(key_) > Tag(internal_key)) Next();
  }
  void SeekForPrev(std::string_view internal_key) override {
    target_.assign(UserKey(internal_key));
    AppendFixed64(&target_, 0);
    entries_->SeekForPrev(target_);
    Show();
    if (ShowsUserKeyOf(internal_key) && Tag(key_) < Tag(internal_key)) Prev();
  }
  bool PrepareSeek(std::string_view internal_key) override {
    return entries_->PrepareSeek(FirstOf(internal_key));
  }

  void Next() override {
    entries_->Next();
    Show();
  }
  bool NextKey(std::string_view* key) override {
    if (!entries_->NextKey(key)) return false;
    Show(*key);
    *key = key_;
    return true;
  }
  void Prev() override {
    entries_->Prev();
    Show();
  }

 private:
  // Before every entry of internal_key's user key.
  std::string_view FirstOf(std::string_view internal_key) {
    target_.assign(UserKey(internal_key));
    AppendFixed64(&target_, SeekTag(kMaxSequence));
    return target_;
  }

  void Show() {
    if (entries_->Valid()) Show(entries_->key());
  }
  void Show(std::string_view key) {
    key_.assign(key);
    // One that is too short is reported by who shows it.
    if (key.size() < kTagBytes) return;
    EncodeFixed64(key_.data() + key_.size() - kTagBytes, sequence_ << 8 | TagType(Tag(key)));
  }

  bool ShowsUserKeyOf(std::string_view internal_key) const {
    return entries_->Valid() && key_.size() >= kTagBytes &&
           order_.Equal(UserKey(key_), UserKey(internal_key));
  }

  const std::unique_ptr<InternalIterator> entries_;
  const KeyOrder order_;
  const uint64_t sequence_;
  std::string key_;     // where Valid()
  std::string target_;  // of seeks
};

}  // namespace

std::unique_ptr<InternalIterator> NewGlobalSequenceIterator(
    std::unique_ptr<InternalIterator> entries, const KeyOrder& order, uint64_t sequence) {
  return std::make_unique<GlobalSequenceIterator>(std::move(entries), order, sequence);
}

}  // namespace sievedb
