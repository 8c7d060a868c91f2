#ifndef SIEVEDB_TOOLS_EXAMPLES_SIGNATURE_PAGES_H_
#define SIEVEDB_TOOLS_EXAMPLES_SIGNATURE_PAGES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sievedb/filter.h"

namespace sievedb {

// Rows of tags, a value for each column, in pages of some rows; a page is what is read
// at once.
class TagTable {
 public:
  // Requires: at least one column and one row a page.
  TagTable(std::vector<std::string> columns, size_t rows_per_page);

  // Requires: a value for each column.
  void Append(const std::vector<std::string_view>& row);

  // The columns are named by the first line of a TSV file, as in all others by its tabs.
  // Errors: those of reading; kInvalidArgument for a line with another number of values.
  static absl::StatusOr<TagTable> FromTsv(const std::string& path, size_t rows_per_page);
  // Independent columns of evenly spread values.
  static TagTable Generate(size_t columns, uint64_t rows, uint64_t values, size_t rows_per_page,
                           uint64_t seed);

  // The rows of a page, each a view per column. They live as long as the table.
  std::vector<std::vector<std::string_view>> ReadPage(size_t page) const;

  const std::vector<std::string>& columns() const { return columns_; }
  size_t rows_per_page() const { return rows_per_page_; }
  size_t pages() const { return pages_.size(); }
  uint64_t rows() const { return rows_; }

 private:
  std::vector<std::string> columns_;
  size_t rows_per_page_;
  uint64_t rows_ = 0;
  std::vector<std::string> pages_;  // values with their lengths, row by row
};

// column = value.
struct Term {
  size_t column;
  std::string value;
};
uint64_t HashOfTag(size_t column, std::string_view value);

// Which pages may hold all of some tags.
//
// Threads: safe.
class Signatures {
 public:
  virtual ~Signatures() = default;
  // Ascending. A page that holds a row with all tags is always among them.
  virtual std::vector<size_t> Candidates(const std::vector<uint64_t>& tags) const = 0;
  virtual size_t MemoryBytes() const = 0;
  // Mean of the pages, of rate^absent: the chance that a page passes which has all
  // tags of a query but absent ones.
  virtual double MeanRate(int absent) const = 0;
};

// A sliced signature has one bitmap of all pages for each of its bits: a query reads a
// few bitmaps and combines them, whatever the pages. bits_per_tag are those of the
// mean page.
absl::StatusOr<std::unique_ptr<Signatures>> NewSlicedSignatures(
    const std::vector<std::vector<uint64_t>>& tags_of_pages, double bits_per_tag);
// A BloomFilter for each page, sized for its tags: a query asks one after the other.
absl::StatusOr<std::unique_ptr<Signatures>> NewPageSignatures(
    const std::vector<std::vector<uint64_t>>& tags_of_pages, double bits_per_tag);

// What a query found, and what it had to read for it.
struct QueryResult {
  std::vector<uint64_t> rows;  // their numbers, ascending
  size_t pages_read = 0;
  size_t pages_matching = 0;
  size_t pages_apart = 0;  // every tag is there, but in no row together
  size_t pages_false = 0;  // a tag is not there: the signature's error
};

// A table with signatures of its pages.
class SignatureIndex {
 public:
  // layout is "sliced" or "pages". Errors: kInvalidArgument for bits that cannot be.
  static absl::StatusOr<SignatureIndex> Build(TagTable table, const std::string& layout,
                                              double bits_per_tag);

  // Rows with all terms, of which there is one at least.
  QueryResult Find(const std::vector<Term>& terms) const;
  // The same without the index: every page is read.
  std::vector<uint64_t> Scan(const std::vector<Term>& terms) const;

  // What pages_false of Find comes to, where columns are independent of each other.
  // Cost: a look at every page's rate for each term.
  double ExpectedFalsePages(const std::vector<Term>& terms) const;

  const TagTable& table() const { return table_; }
  const Signatures& signatures() const { return *signatures_; }
  double mean_tags() const { return mean_tags_; }  // distinct ones of a page

 private:
  SignatureIndex(TagTable table, std::unique_ptr<Signatures> signatures)
      : table_(std::move(table)), signatures_(std::move(signatures)) {}

  TagTable table_;
  std::unique_ptr<Signatures> signatures_;
  // Pages that hold a tag: for the expectation alone, no query needs them.
  absl::flat_hash_map<uint64_t, uint32_t> pages_with_tag_;
  double mean_tags_ = 0;
};

}  // namespace sievedb

#endif  // SIEVEDB_TOOLS_EXAMPLES_SIGNATURE_PAGES_H_
