#include "tools/sst_dump_filter.h"

#include <algorithm>
#include <bit>

#include "tools/key_value_generator.h"
#include "util/blocked_bloom.h"
#include "util/coding.h"
#include "util/filter_block.h"
#include "util/hash.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

// The reader of the filter where it is of the blocked kind, over the same bytes.
std::unique_ptr<BlockedBloomReader> BlockedReader(const TableReader& table) {
  if (table.filter() == nullptr || table.filter_kind() != kBlockedBloomKind) return nullptr;
  auto reader = BlockedBloomReader::Open(table.filter_bytes());
  return reader.ok() ? *std::move(reader) : nullptr;
}

void CountBlockBits(const BlockedBloomReader& reader, FilterReport* report) {
  std::vector<int> bits(reader.num_blocks());
  for (uint64_t block = 0; block < reader.num_blocks(); ++block) {
    const char* const at = reader.blocks() + block * BlockedBloom::kBlockBytes;
    int set = 0;
    for (size_t i = 0; i < BlockedBloom::kBlockBytes; i += 8) {
      set += std::popcount(DecodeFixed64(at + i));
    }
    bits[block] = set;
  }
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
    if (!table.MayContain(Hash64(key))) ++report->denied_keys;
  }
  return it->status();
}

// Keys of 24 random bytes: none of them is in any table.
double MeasureFpr(const TableReader& table, uint64_t count) {
  BenchRandom random(20260101);
  uint64_t maybe = 0;
  char key[24];
  for (uint64_t i = 0; i < count; ++i) {
    for (size_t at = 0; at < sizeof(key); at += 8) EncodeFixed64(key + at, random.Next());
    if (table.MayContain(Hash64({key, sizeof(key)}))) ++maybe;
  }
  return count == 0 ? 0 : static_cast<double>(maybe) / static_cast<double>(count);
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
  report.bits_per_key = figures.bits_per_key;
  report.probes = figures.probes;
  report.keys = figures.keys;
  report.blocks = figures.blocks;
  report.fill_ratio =
      figures.bits == 0 ? 0
                        : static_cast<double>(figures.bits_set) / static_cast<double>(figures.bits);
  report.expected_fpr = figures.expected_fpr;
  report.absent_keys = absent_keys;
  report.measured_fpr = MeasureFpr(reader, absent_keys);
  if (const auto blocked = BlockedReader(reader)) CountBlockBits(*blocked, &report);
  return report;
}

absl::StatusOr<FilterKeyReport> ReportFilterKey(const OpenedTable& table, std::string_view key) {
  const TableReader& reader = *table.reader;
  FilterKeyReport report;
  report.key = key;
  report.hash = Hash64(key);
  report.admitted = reader.MayContain(report.hash);
  if (const auto blocked = BlockedReader(reader)) {
    report.has_blocks = true;
    report.block = BlockedBloom::BlockIndex(report.hash, blocked->num_blocks());
    const char* const block = blocked->blocks() + report.block * BlockedBloom::kBlockBytes;
    for (int i = 0; i < blocked->probes(); ++i) {
      const int bit = BlockedBloom::ProbeBit(report.hash, i);
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
