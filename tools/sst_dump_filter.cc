#include "tools/sst_dump_filter.h"

#include <algorithm>

#include "tools/key_value_generator.h"
#include "util/blocked_bloom.h"
#include "util/coding.h"
#include "util/dense_bloom.h"
#include "util/filter_block.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

// The blocks of a filter, and where a hash's probes are in them, for the kinds that
// have blocks.
struct Blocks {
  const char* data = nullptr;
  uint64_t count = 0;
  int probes = 0;
  bool dense = false;

  explicit operator bool() const { return data != nullptr; }
  const char* At(uint64_t i) const { return data + i * BlockedBloom::kBlockBytes; }
  int Bits() const { return dense ? DenseBlockedBloom::kProbedBits : BlockedBloom::kProbedBits; }
  int SetBits(uint64_t i) const {
    return static_cast<int>(dense ? DenseBlockedBloom::CountSetBits(At(i), 1)
                                  : BlockedBloom::CountSetBits(At(i), 1));
  }
  int ProbeBit(uint64_t i, uint64_t hash, int probe) const {
    return dense ? DenseBlockedBloom::ProbeBit(At(i), hash, probe)
                 : BlockedBloom::ProbeBit(hash, probe);
  }
};

Blocks BlocksOf(const TableReader& table) {
  Blocks blocks;
  if (table.filter() == nullptr) return blocks;
  const auto take = [&blocks](const auto& reader) {
    blocks.data = reader.blocks();
    blocks.count = reader.num_blocks();
    blocks.probes = reader.probes();
  };
  // The kind says which class it is.
  if (table.filter_kind() == kBlockedBloomKind) {
    take(static_cast<const BlockedBloomReader&>(*table.filter()));
  } else if (table.filter_kind() == kDenseBlockedBloomKind) {
    take(static_cast<const DenseBlockedBloomReader&>(*table.filter()));
    blocks.dense = true;
  }
  return blocks;
}

void CountBlockBits(std::vector<int> bits, FilterReport* report) {
  std::sort(bits.begin(), bits.end());
  report->block_bits_min = bits.front();
  report->block_bits_median = bits[bits.size() / 2];
  report->block_bits_max = bits.back();
}

// Every user key of the table must be admitted.
absl::Status AskForPresentKeys(const TableReader& table, FilterReport* report) {
  const auto it = table.NewIterator(ReadOptions(), /*for_compaction=*/true);
  std::string last;
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    const std::string_view key = UserKey(it->key());
    if (report->present_keys > 0 && key == last) continue;
    last.assign(key);
    ++report->present_keys;
    if (!table.MayContain(table.HashOf(key))) ++report->denied_keys;
  }
  return it->status();
}

// How many of count keys of 24 random bytes, none of which is in any table, are "maybe".
uint64_t CountFalsePositives(const TableReader& table, uint64_t count) {
  BenchRandom random(20260101);
  uint64_t maybe = 0;
  char key[24];
  for (uint64_t i = 0; i < count; ++i) {
    for (size_t at = 0; at < sizeof(key); at += 8) EncodeFixed64(key + at, random.Next());
    if (table.MayContain(table.HashOf({key, sizeof(key)}))) ++maybe;
  }
  return maybe;
}

double Ratio(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

absl::StatusOr<FilterReport> ReportFilter(const OpenedTable& table, uint64_t absent_keys) {
  const TableReader& reader = *table.reader;
  FilterReport report;
  report.kind = reader.properties().filter_name;
  report.bytes = reader.properties().filter_bytes;
  if (!reader.filter_status().ok()) report.problem = std::string(reader.filter_status().message());
  SIEVEDB_RETURN_IF_ERROR(AskForPresentKeys(reader, &report));
  if (reader.filter() == nullptr) return report;
  report.present = true;
  const FilterFigures figures = reader.filter()->Figures();
  report.filter_kind = reader.filter_kind();
  report.bits_per_key = figures.bits_per_key;
  report.probes = figures.probes;
  report.keys = figures.keys;
  report.prefix_extractor = reader.properties().prefix_extractor_name;
  report.prefixes = reader.properties().prefixes;
  report.bits_per_key_used = 8 * Ratio(report.bytes, report.keys);
  report.blocks = figures.blocks;
  report.fill_ratio = Ratio(figures.bits_set, figures.bits);
  report.expected_fpr = figures.expected_fpr;
  report.absent_keys = absent_keys;
  report.false_positives = CountFalsePositives(reader, absent_keys);
  report.measured_fpr = Ratio(report.false_positives, absent_keys);
  if (const Blocks blocks = BlocksOf(reader)) {
    report.bits_per_block = static_cast<uint64_t>(blocks.Bits());
    CountBlockBits(BlockSetBits(reader), &report);
  }
  return report;
}

std::vector<int> BlockSetBits(const TableReader& table) {
  const Blocks blocks = BlocksOf(table);
  std::vector<int> bits(blocks.count);
  for (uint64_t i = 0; i < blocks.count; ++i) bits[i] = blocks.SetBits(i);
  return bits;
}

absl::StatusOr<FilterKeyReport> ReportFilterKey(const OpenedTable& table, std::string_view key) {
  const TableReader& reader = *table.reader;
  FilterKeyReport report;
  report.key = key;
  report.hash = reader.HashOf(key);
  report.admitted = reader.MayContain(report.hash);
  if (const Blocks blocks = BlocksOf(reader)) {
    report.has_blocks = true;
    report.block = BlockedBloom::BlockIndex(report.hash, blocks.count);
    const char* const block = blocks.At(report.block);
    for (int i = 0; i < blocks.probes; ++i) {
      const int bit = blocks.ProbeBit(report.block, report.hash, i);
      report.probes.push_back({bit, (block[bit / 8] >> (bit % 8) & 1) != 0});
    }
  }
  std::string seek;
  AppendInternalKey(&seek, key, SeekTag(kMaxSequence));
  const auto it = reader.NewIterator(ReadOptions());
  it->Seek(seek);
  SIEVEDB_RETURN_IF_ERROR(it->status());
  report.really_there = it->Valid() && table.order.user().Equal(UserKey(it->key()), key);
  return report;
}

}  // namespace sievedb
