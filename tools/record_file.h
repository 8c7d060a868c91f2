#ifndef SIEVEDB_TOOLS_RECORD_FILE_H_
#define SIEVEDB_TOOLS_RECORD_FILE_H_

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace sievedb {

// Records as text, one a line, as `sievedb load` reads them and `sievedb dump`
// writes them:
//   TSV         key TAB value, both escaped (\t \n \r \\ \xNN)
//   JSON lines  {"key":"...","value":"..."}; where bytes are not UTF-8, "key_hex" and
//               "value_hex" in hexadecimal. A value that is not a string is taken as
//               its JSON text.
enum class RecordFormat { kTsv, kJsonLines };

struct Record {
  std::string key;
  std::string value;
};

std::string FormatRecord(RecordFormat format, std::string_view key, std::string_view value);
// Errors: kInvalidArgument, saying what is wrong with the line.
absl::StatusOr<Record> ParseRecord(RecordFormat format, std::string_view line);

// The format of a file by its first line: JSON lines begin with '{', and a line of
// TSV that does so is no JSON.
RecordFormat GuessFormat(std::string_view first_line);

// Reads a file line by line. Lines may be of any length.
class LineReader {
 public:
  // "-" is the standard input. Errors: kNotFound, kUnavailable.
  static absl::StatusOr<std::unique_ptr<LineReader>> Open(const std::string& path);
  ~LineReader();

  // The next line without its end, or nullopt at the end of the file.
  absl::StatusOr<std::optional<std::string_view>> Next();

  uint64_t line_number() const { return line_number_; }
  uint64_t bytes_read() const { return bytes_read_; }
  uint64_t total_bytes() const { return total_bytes_; }  // 0: not known

 private:
  explicit LineReader(std::FILE* file) : file_(file) {}
  std::FILE* const file_;
  char* line_ = nullptr;  // getline's
  size_t capacity_ = 0;
  uint64_t line_number_ = 0;
  uint64_t bytes_read_ = 0;
  uint64_t total_bytes_ = 0;
};

}  // namespace sievedb

#endif  // SIEVEDB_TOOLS_RECORD_FILE_H_
