#include "db/compaction_iterator.h"

#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <tuple>

#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data_driven.h"
#include "tests/db/version_test_util.h"

namespace sievedb {
namespace {

using ::testing::HasSubstr;
using version_test::EntriesIterator;
using version_test::Entry;
using version_test::InternalKey;

const InternalKeyOrder kOrder{BytewiseComparator()};

std::vector<std::string> Keys(CompactionIterator* it) {
  std::vector<std::string> keys;
  for (it->SeekToFirst(); it->Valid(); it->Next()) keys.emplace_back(it->key());
  return keys;
}

std::vector<std::string> KeysOf(std::vector<std::pair<std::string, std::string>> input,
                                absl::Status* status) {
  EntriesIterator entries(std::move(input));
  CompactionIterator it(kOrder, &entries, {}, [](std::string_view) { return true; });
  std::vector<std::string> keys = Keys(&it);
  *status = it.status();
  return keys;
}

// compact snapshots=2,5 below=a,b from=c to=d: entries, one a line, in order; the output is what
// is kept, and how many were dropped.
std::string RunCase(const DataDrivenCase& test) {
  const auto unquoted = [](const std::string& word) { return word == "\"\"" ? "" : word; };
  const auto quoted = [](std::string_view text) {
    return text.empty() ? "\"\"" : std::string(text);
  };
  std::vector<Entry> entries;
  for (const std::string& line : SplitLines(test.input)) {
    const std::vector<std::string> words = SplitWords(line);
    const bool is_put = words[0] == "put";
    EXPECT_TRUE(is_put || words[0] == "delete") << line;
    entries.push_back({unquoted(words[1]), std::stoull(words[2]), is_put ? unquoted(words[3]) : "",
                       is_put ? EntryType::kPut : EntryType::kDelete});
  }
  std::vector<uint64_t> snapshots;
  std::stringstream snapshot_list(test.Argument("snapshots"));
  for (std::string s; std::getline(snapshot_list, s, ',');) snapshots.push_back(std::stoull(s));
  const std::string below = test.Argument("below");
  EntriesIterator input(entries);
  CompactionIterator it(kOrder, &input, snapshots, [&](std::string_view key) {
    return below.find(std::string(key)) != std::string::npos;
  });
  const std::string from = test.Argument("from");
  const std::string to = test.Argument("to");
  it.set_range(from.empty() ? nullptr : &from, to.empty() ? nullptr : &to);
  std::string output;
  for (it.SeekToFirst(); it.Valid(); it.Next()) {
    const bool is_put = TagType(Tag(it.key())) == static_cast<uint8_t>(EntryType::kPut);
    output += absl::StrFormat("%s %s %d", is_put ? "put" : "delete", quoted(UserKey(it.key())),
                              TagSequence(Tag(it.key())));
    if (is_put) output += " " + quoted(it.value());
    output += '\n';
  }
  EXPECT_TRUE(it.status().ok()) << it.status();
  return output + absl::StrFormat("dropped %d hidden, %d tombstones\n", it.dropped_hidden(),
                                  it.dropped_tombstones());
}

TEST(CompactionIteratorTest, DataDriven) {
  RunDataDriven(
      "compaction_iterator", [] {}, RunCase);
}

TEST(CompactionIteratorTest, MalformedKeysAreDamage) {
  absl::Status status;
  EXPECT_EQ(KeysOf({{InternalKey("a", 1), ""}, {"short", ""}}, &status).size(), 1u);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("short"));

  std::string bad_type = InternalKey("b", 1);
  bad_type[bad_type.size() - kTagBytes] = 7;
  EXPECT_EQ(KeysOf({{InternalKey("a", 1), ""}, {bad_type, ""}}, &status).size(), 1u);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
}

TEST(CompactionIteratorTest, DisorderIsDamage) {
  absl::Status status;
  EXPECT_EQ(KeysOf({{InternalKey("b", 1), ""}, {InternalKey("a", 1), ""}}, &status).size(), 1u);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("expected a key after \"b\""));
  // Versions of one key: older after newer, also where they are dropped.
  EXPECT_EQ(KeysOf({{InternalKey("a", 1), ""}, {InternalKey("a", 2), ""}}, &status).size(), 1u);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  // One write from two sources.
  EXPECT_EQ(KeysOf({{InternalKey("a", 2), ""}, {InternalKey("a", 2), ""}}, &status).size(), 1u);
  EXPECT_TRUE(status.ok()) << status;
}

TEST(CompactionIteratorTest, InputErrorIsShown) {
  EntriesIterator input({{"a", 1, "v"}}, absl::DataLossError("gone"));
  CompactionIterator it(kOrder, &input, {}, [](std::string_view) { return true; });
  EXPECT_EQ(Keys(&it).size(), 1u);
  EXPECT_EQ(it.status(), absl::DataLossError("gone"));
}

TEST(CompactionIteratorTest, CancelEndsIt) {
  std::vector<Entry> entries;
  for (uint64_t s = 5000; s > 0; --s) entries.push_back({"key", s, "v"});
  EntriesIterator input(entries);
  std::atomic<bool> cancel{false};
  CompactionIterator it(kOrder, &input, {}, [](std::string_view) { return true; });
  it.set_check([&] { return cancel.load() ? absl::AbortedError("cancelled") : absl::OkStatus(); });
  it.SeekToFirst();
  ASSERT_TRUE(it.Valid());
  cancel.store(true);
  it.Next();  // all others are hidden: it must stop among them
  EXPECT_FALSE(it.Valid());
  EXPECT_TRUE(absl::IsAborted(it.status())) << it.status();
  EXPECT_LT(it.entries_in(), 2000u);
}

TEST(CompactionIteratorTest, FirstVersionsAreTold) {
  EntriesIterator input({{"a", 9, "v"},
                         {"a", 4, "v"},
                         {"b", 3, "", EntryType::kDelete},
                         {"b", 2, "v"},
                         {"c", 8, ""}});
  CompactionIterator it(kOrder, &input, {5}, [](std::string_view) { return false; });
  std::vector<std::pair<std::string, bool>> shown;
  for (it.SeekToFirst(); it.Valid(); it.Next()) {
    shown.emplace_back(UserKey(it.key()), it.is_first_version());
  }
  EXPECT_THAT(shown, ::testing::ElementsAre(std::pair("a", true), std::pair("a", false),
                                            std::pair("c", true)));
  EXPECT_EQ(it.entries_in(), 5u);
  EXPECT_EQ(it.dropped_tombstones(), 1u);
  EXPECT_EQ(it.dropped_hidden(), 1u);
}

// What a reader at a sequence sees of each key.
using View = std::map<std::string, std::string>;
View ViewAt(const std::vector<Entry>& entries, uint64_t sequence) {
  std::map<std::string, const Entry*> newest;
  for (const Entry& e : entries) {
    const Entry*& best = newest[e.user_key];
    if (e.sequence <= sequence && (best == nullptr || e.sequence > best->sequence)) best = &e;
  }
  View view;
  for (const auto& [key, e] : newest) {
    if (e != nullptr && e->type == EntryType::kPut) view[key] = e->value;
  }
  return view;
}

// Whatever the entries and the snapshots, the present and every snapshot see the
// same before and after, above the same older data, and no two versions are kept of
// which nobody can see the second.
TEST(CompactionIteratorTest, RandomInputsKeepEveryView) {
  std::mt19937_64 random(301);
  for (int round = 0; round < 2000; ++round) {
    std::vector<Entry> upper;
    std::vector<Entry> lower;  // older, in a level below
    uint64_t sequence = 0;
    const auto fill = [&](std::vector<Entry>* to) {
      for (uint64_t n = random() % 12; n > 0; --n) {
        const std::string key(1, static_cast<char>('a' + random() % 3));
        ++sequence;
        to->push_back({key, sequence, std::to_string(sequence),
                       random() % 3 == 0 ? EntryType::kDelete : EntryType::kPut});
      }
    };
    fill(&lower);
    fill(&upper);
    std::set<uint64_t> snapshots;
    for (uint64_t n = random() % 4; n > 0; --n) snapshots.insert(random() % (sequence + 2));
    std::set<std::string> keys_below;
    for (const Entry& e : lower) keys_below.insert(e.user_key);

    std::sort(upper.begin(), upper.end(), [](const Entry& a, const Entry& b) {
      return std::tuple(a.user_key, b.sequence) < std::tuple(b.user_key, a.sequence);
    });
    EntriesIterator input(upper);
    CompactionIterator it(
        kOrder, &input, {snapshots.begin(), snapshots.end()},
        [&](std::string_view key) { return keys_below.contains(std::string(key)); });
    std::vector<Entry> kept;
    for (it.SeekToFirst(); it.Valid(); it.Next()) {
      kept.push_back({std::string(UserKey(it.key())), TagSequence(Tag(it.key())),
                      std::string(it.value()), static_cast<EntryType>(TagType(Tag(it.key())))});
    }
    ASSERT_TRUE(it.status().ok()) << it.status();
    EXPECT_EQ(kept.size() + it.dropped_hidden() + it.dropped_tombstones(), upper.size());

    std::vector<Entry> before = upper;
    before.insert(before.end(), lower.begin(), lower.end());
    std::vector<Entry> after = kept;
    after.insert(after.end(), lower.begin(), lower.end());
    std::vector<uint64_t> views(snapshots.begin(), snapshots.end());
    views.push_back(kMaxSequence);
    std::set<std::pair<std::string, uint64_t>> visible;
    for (const uint64_t view : views) {
      ASSERT_EQ(ViewAt(before, view), ViewAt(after, view)) << "round " << round;
      for (const std::string key : {"a", "b", "c"}) {
        uint64_t newest = 0;
        for (const Entry& e : kept) {
          if (e.user_key == key && e.sequence <= view) newest = std::max(newest, e.sequence);
        }
        visible.emplace(key, newest);
      }
    }
    for (const Entry& e : kept) {
      EXPECT_TRUE(visible.contains({e.user_key, e.sequence})) << "round " << round;
    }
  }
}

}  // namespace
}  // namespace sievedb
