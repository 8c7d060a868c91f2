#ifndef SIEVEDB_DB_EXTERNAL_TABLES_H_
#define SIEVEDB_DB_EXTERNAL_TABLES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "db/file_meta.h"
#include "db/table_opener.h"
#include "sievedb/options.h"
#include "table/internal_key.h"

namespace sievedb {

// Fills in what a table says of itself but for its numbers: its size, keys, sequences and
// counts.
void DescribeTable(const TableReader& table, FileMeta* file);
// Makes sequence that of all entries of an open table of SstFileWriter's. Requires: nobody
// else knows the table yet.
void SetExternalSequence(FileMeta* file, uint64_t sequence);

// Tables of SstFileWriter's on their way into a database: brought into its directory,
// checked and opened, but not referred to yet.
//
// Threads: not safe for concurrent use.
class ExternalTables {
 public:
  struct Table {
    std::string external_path;
    std::shared_ptr<FileMeta> file;  // of sequence 0 until SetSequence
  };

  // All must outlive the object; options is sanitized.
  ExternalTables(const Options& options, std::string db_path, TableOpener* opener)
      : options_(options), db_path_(std::move(db_path)), opener_(opener) {}
  // Deletes what was brought in, but for what Release let go.
  ~ExternalTables();
  ExternalTables(const ExternalTables&) = delete;
  ExternalTables& operator=(const ExternalTables&) = delete;

  // Links or copies each of paths, checks and opens it, and syncs it and the directory.
  // Requires: was not called yet.
  // Errors: those of DB::IngestExternalFiles, naming the path.
  absl::Status BringIn(const std::vector<std::string>& paths, const IngestOptions& ingest,
                       absl::FunctionRef<uint64_t()> new_file_number);

  // By smallest key; they do not overlap.
  absl::Span<const Table> tables() const { return tables_; }

  // Makes it the sequence of all entries.
  void SetSequence(uint64_t sequence);

  // The files are the database's now: a version, or perhaps a MANIFEST, refers to them.
  void Release() { numbers_.clear(); }

 private:
  absl::Status BringInOne(const std::string& path, const IngestOptions& ingest, uint64_t number);
  absl::Status Link(const std::string& path, const std::string& to, const IngestOptions& ingest);
  absl::Status Open(const IngestOptions& ingest, Table* table);
  absl::Status CheckDisjoint();

  const Options& options_;
  const std::string db_path_;
  TableOpener* const opener_;
  std::vector<uint64_t> numbers_;  // of all files that were begun
  std::vector<Table> tables_;
};

}  // namespace sievedb

#endif  // SIEVEDB_DB_EXTERNAL_TABLES_H_
