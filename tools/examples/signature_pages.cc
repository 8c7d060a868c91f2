#include "tools/examples/signature_pages.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "tools/key_value_generator.h"
#include "tools/record_file.h"
#include "util/coding.h"
#include "util/multiply.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

constexpr double kMinBitsPerTag = 1;
constexpr double kMaxBitsPerTag = 64;

std::vector<std::string_view> SplitTabs(std::string_view line) {
  std::vector<std::string_view> fields;
  for (size_t start = 0;;) {
    const size_t tab = std::min(line.find('\t', start), line.size());
    fields.push_back(line.substr(start, tab - start));
    if (tab == line.size()) return fields;
    start = tab + 1;
  }
}

bool HasTerm(const std::vector<std::string_view>& row, const Term& term) {
  return row[term.column] == term.value;
}

bool Matches(const std::vector<std::string_view>& row, const std::vector<Term>& terms) {
  return std::all_of(terms.begin(), terms.end(),
                     [&row](const Term& term) { return HasTerm(row, term); });
}

std::vector<uint64_t> HashesOf(const std::vector<Term>& terms) {
  std::vector<uint64_t> tags;
  for (const Term& term : terms) tags.push_back(HashOfTag(term.column, term.value));
  return tags;
}

class SlicedSignatures final : public Signatures {
 public:
  SlicedSignatures(const std::vector<std::vector<uint64_t>>& tags_of_pages, uint64_t bits,
                   int probes)
      : pages_(tags_of_pages.size()),
        words_((pages_ + 63) / 64),
        bits_(bits),
        probes_(probes),
        slices_(words_ * bits) {
    for (size_t page = 0; page < pages_; ++page) {
      uint64_t set = 0;
      for (const uint64_t tag : tags_of_pages[page]) {
        for (int i = 0; i < probes_; ++i) {
          uint64_t& word = slices_[SliceOf(tag, i) * words_ + page / 64];
          const uint64_t mask = uint64_t{1} << (page % 64);
          set += (word & mask) == 0 ? 1 : 0;
          word |= mask;
        }
      }
      rates_.push_back(std::pow(static_cast<double>(set) / static_cast<double>(bits_), probes_));
    }
  }

  std::vector<size_t> Candidates(const std::vector<uint64_t>& tags) const override {
    std::vector<uint64_t> all(words_, ~uint64_t{0});
    if (pages_ % 64 != 0) all.back() >>= 64 - pages_ % 64;
    for (const uint64_t tag : tags) {
      for (int i = 0; i < probes_; ++i) {
        const uint64_t* const slice = slices_.data() + SliceOf(tag, i) * words_;
        for (size_t word = 0; word < words_; ++word) all[word] &= slice[word];
      }
    }
    std::vector<size_t> candidates;
    for (size_t word = 0; word < words_; ++word) {
      for (uint64_t rest = all[word]; rest != 0; rest &= rest - 1) {
        candidates.push_back(word * 64 + static_cast<size_t>(std::countr_zero(rest)));
      }
    }
    return candidates;
  }

  size_t MemoryBytes() const override { return slices_.size() * sizeof(uint64_t); }

  double MeanRate(int absent) const override {
    double sum = 0;
    for (const double rate : rates_) sum += std::pow(rate, absent);
    return sum / static_cast<double>(pages_);
  }

 private:
  // Double hashing (Kirsch & Mitzenmacher 2006), and an odd step, so that few tags
  // have two probes of one bit.
  uint64_t SliceOf(uint64_t tag, int probe) const {
    const uint64_t step = std::rotl(tag, 32) | 1;
    return MultiplyHigh(tag + static_cast<uint64_t>(probe) * step, bits_);
  }

  const size_t pages_;
  const size_t words_;  // of a slice
  const uint64_t bits_;
  const int probes_;
  std::vector<uint64_t> slices_;
  std::vector<double> rates_;  // of the pages, from the bits that are really set
};

class PageSignatures final : public Signatures {
 public:
  explicit PageSignatures(std::vector<BloomFilter> filters) : filters_(std::move(filters)) {
    for (const BloomFilter& filter : filters_) rates_.push_back(filter.EstimatedFpr());
  }

  std::vector<size_t> Candidates(const std::vector<uint64_t>& tags) const override {
    std::vector<size_t> candidates;
    for (size_t page = 0; page < filters_.size(); ++page) {
      if (std::all_of(tags.begin(), tags.end(),
                      [&](uint64_t tag) { return filters_[page].ContainsHash(tag); })) {
        candidates.push_back(page);
      }
    }
    return candidates;
  }

  size_t MemoryBytes() const override {
    size_t bytes = filters_.size() * sizeof(BloomFilter);
    for (const BloomFilter& filter : filters_) bytes += filter.MemoryBytes();
    return bytes;
  }

  double MeanRate(int absent) const override {
    double sum = 0;
    for (const double rate : rates_) sum += std::pow(rate, absent);
    return sum / static_cast<double>(rates_.size());
  }

 private:
  std::vector<BloomFilter> filters_;
  std::vector<double> rates_;
};

absl::Status CheckBits(double bits_per_tag) {
  if (bits_per_tag >= kMinBitsPerTag && bits_per_tag <= kMaxBitsPerTag) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat("expected %g to %g bits per tag, found %g",
                                                    kMinBitsPerTag, kMaxBitsPerTag, bits_per_tag));
}

double MeanSize(const std::vector<std::vector<uint64_t>>& tags_of_pages) {
  size_t sum = 0;
  for (const std::vector<uint64_t>& tags : tags_of_pages) sum += tags.size();
  return static_cast<double>(sum) / static_cast<double>(std::max<size_t>(1, tags_of_pages.size()));
}

}  // namespace

TagTable::TagTable(std::vector<std::string> columns, size_t rows_per_page)
    : columns_(std::move(columns)), rows_per_page_(rows_per_page) {
  assert(!columns_.empty() && rows_per_page_ > 0);
}

void TagTable::Append(const std::vector<std::string_view>& row) {
  assert(row.size() == columns_.size());
  if (rows_ % rows_per_page_ == 0) pages_.emplace_back();
  for (const std::string_view value : row) AppendLengthPrefixed(&pages_.back(), value);
  ++rows_;
}

absl::StatusOr<TagTable> TagTable::FromTsv(const std::string& path, size_t rows_per_page) {
  SIEVEDB_ASSIGN_OR_RETURN(const std::unique_ptr<LineReader> reader, LineReader::Open(path));
  SIEVEDB_ASSIGN_OR_RETURN(std::optional<std::string_view> line, reader->Next());
  if (!line.has_value()) {
    return absl::InvalidArgumentError(path + ": expected the columns' names, found no line");
  }
  std::vector<std::string> columns;
  for (const std::string_view name : SplitTabs(*line)) {
    if (name.empty() || std::find(columns.begin(), columns.end(), name) != columns.end()) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "%s, line 1: expected columns with names of their own, found \"%s\"", path, name));
    }
    columns.emplace_back(name);
  }
  TagTable table(std::move(columns), rows_per_page);
  while (true) {
    SIEVEDB_ASSIGN_OR_RETURN(line, reader->Next());
    if (!line.has_value()) return table;
    const std::vector<std::string_view> row = SplitTabs(*line);
    if (row.size() != table.columns().size()) {
      return absl::InvalidArgumentError(absl::StrFormat("%s, line %d: expected %d values, found %d",
                                                        path, reader->line_number(),
                                                        table.columns().size(), row.size()));
    }
    table.Append(row);
  }
}

TagTable TagTable::Generate(size_t columns, uint64_t rows, uint64_t values, size_t rows_per_page,
                            uint64_t seed) {
  std::vector<std::string> names;
  for (size_t column = 1; column <= columns; ++column) {
    names.push_back(absl::StrFormat("c%d", column));
  }
  TagTable table(std::move(names), rows_per_page);
  BenchRandom random(seed);
  std::vector<std::string> row(columns);
  std::vector<std::string_view> views(columns);
  for (uint64_t i = 0; i < rows; ++i) {
    for (size_t column = 0; column < columns; ++column) {
      row[column] = absl::StrFormat("v%d", random.Uniform(values));
      views[column] = row[column];
    }
    table.Append(views);
  }
  return table;
}

std::vector<std::vector<std::string_view>> TagTable::ReadPage(size_t page) const {
  std::vector<std::vector<std::string_view>> rows;
  ByteReader reader(pages_[page]);
  while (!reader.done()) {
    std::vector<std::string_view>& row = rows.emplace_back(columns_.size());
    for (std::string_view& value : row) value = reader.LengthPrefixed();
  }
  assert(reader.ok());
  return rows;
}

uint64_t HashOfTag(size_t column, std::string_view value) {
  std::string tag;
  AppendVarint64(&tag, column);
  tag += value;
  return FilterHash(tag);
}

absl::StatusOr<std::unique_ptr<Signatures>> NewSlicedSignatures(
    const std::vector<std::vector<uint64_t>>& tags_of_pages, double bits_per_tag) {
  SIEVEDB_RETURN_IF_ERROR(CheckBits(bits_per_tag));
  // All pages have the same bits, so that they can be sliced.
  const auto bits =
      static_cast<uint64_t>(std::max(1.0, std::ceil(bits_per_tag * MeanSize(tags_of_pages))));
  return std::make_unique<SlicedSignatures>(tags_of_pages, bits,
                                            FilterSizing::OptimalProbes(bits_per_tag));
}

absl::StatusOr<std::unique_ptr<Signatures>> NewPageSignatures(
    const std::vector<std::vector<uint64_t>>& tags_of_pages, double bits_per_tag) {
  SIEVEDB_RETURN_IF_ERROR(CheckBits(bits_per_tag));
  std::vector<BloomFilter> filters;
  for (const std::vector<uint64_t>& tags : tags_of_pages) {
    SIEVEDB_ASSIGN_OR_RETURN(BloomFilter filter, BloomFilter::Create(FilterSizing::ForBitsPerKey(
                                                     tags.size(), bits_per_tag)));
    filter.AddManyHashes(tags);
    filters.push_back(std::move(filter));
  }
  return std::make_unique<PageSignatures>(std::move(filters));
}

absl::StatusOr<SignatureIndex> SignatureIndex::Build(TagTable table, const std::string& layout,
                                                     double bits_per_tag) {
  absl::flat_hash_map<uint64_t, uint32_t> pages_with_tag;
  std::vector<std::vector<uint64_t>> tags_of_pages(table.pages());
  for (size_t page = 0; page < table.pages(); ++page) {
    std::vector<uint64_t>& tags = tags_of_pages[page];
    for (const std::vector<std::string_view>& row : table.ReadPage(page)) {
      for (size_t column = 0; column < row.size(); ++column) {
        tags.push_back(HashOfTag(column, row[column]));
      }
    }
    std::sort(tags.begin(), tags.end());
    tags.erase(std::unique(tags.begin(), tags.end()), tags.end());
    for (const uint64_t tag : tags) ++pages_with_tag[tag];
  }
  SIEVEDB_ASSIGN_OR_RETURN(std::unique_ptr<Signatures> signatures,
                           layout == "sliced" ? NewSlicedSignatures(tags_of_pages, bits_per_tag)
                                              : NewPageSignatures(tags_of_pages, bits_per_tag));
  SignatureIndex index(std::move(table), std::move(signatures));
  index.pages_with_tag_ = std::move(pages_with_tag);
  index.mean_tags_ = MeanSize(tags_of_pages);
  return index;
}

// Sums the chances of every set of tags that a page may lack, times the chance that
// its signature passes all of them.
double SignatureIndex::ExpectedFalsePages(const std::vector<Term>& terms) const {
  if (table_.pages() == 0) return 0;
  std::vector<uint64_t> tags = HashesOf(terms);
  // The same tag twice is one.
  std::sort(tags.begin(), tags.end());
  tags.erase(std::unique(tags.begin(), tags.end()), tags.end());
  const auto pages = static_cast<double>(table_.pages());
  // lacking[u]: the chance that a page lacks u of the tags so far.
  std::vector<double> lacking = {1};
  for (const uint64_t tag : tags) {
    const auto found = pages_with_tag_.find(tag);
    const double there = found == pages_with_tag_.end() ? 0 : found->second / pages;
    lacking.push_back(0);
    for (size_t u = lacking.size() - 1; u > 0; --u) {
      lacking[u] = lacking[u] * there + lacking[u - 1] * (1 - there);
    }
    lacking[0] *= there;
  }
  double expected = 0;
  for (size_t u = 1; u < lacking.size(); ++u) {
    expected += lacking[u] * signatures_->MeanRate(static_cast<int>(u));
  }
  return expected * pages;
}

QueryResult SignatureIndex::Find(const std::vector<Term>& terms) const {
  assert(!terms.empty());
  QueryResult result;
  for (const size_t page : signatures_->Candidates(HashesOf(terms))) {
    ++result.pages_read;
    const std::vector<std::vector<std::string_view>> rows = table_.ReadPage(page);
    const size_t matches_before = result.rows.size();
    for (size_t i = 0; i < rows.size(); ++i) {
      if (Matches(rows[i], terms)) result.rows.push_back(page * table_.rows_per_page() + i);
    }
    if (result.rows.size() > matches_before) {
      ++result.pages_matching;
      continue;
    }
    const bool all_there = std::all_of(terms.begin(), terms.end(), [&rows](const Term& term) {
      return std::any_of(rows.begin(), rows.end(),
                         [&term](const auto& row) { return HasTerm(row, term); });
    });
    ++(all_there ? result.pages_apart : result.pages_false);
  }
  return result;
}

std::vector<uint64_t> SignatureIndex::Scan(const std::vector<Term>& terms) const {
  std::vector<uint64_t> found;
  for (size_t page = 0; page < table_.pages(); ++page) {
    const std::vector<std::vector<std::string_view>> rows = table_.ReadPage(page);
    for (size_t i = 0; i < rows.size(); ++i) {
      if (Matches(rows[i], terms)) found.push_back(page * table_.rows_per_page() + i);
    }
  }
  return found;
}

}  // namespace sievedb
