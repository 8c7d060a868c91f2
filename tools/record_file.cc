#include "tools/record_file.h"

#include <sys/stat.h>
#include <sys/types.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "util/escape.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

using Json = nlohmann::ordered_json;

bool IsUtf8(std::string_view bytes) {
  // A JSON string with replacement characters would not read back as it was.
  const Json json = std::string(bytes);
  const std::string strict = json.dump(-1, ' ', false, Json::error_handler_t::ignore);
  const std::string replaced = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  return strict == replaced;
}

void AddField(Json* json, const std::string& name, std::string_view bytes) {
  if (IsUtf8(bytes)) {
    (*json)[name] = std::string(bytes);
  } else {
    (*json)[name + "_hex"] = ToHex(bytes);
  }
}

// Walks over the text of a JSON object that is known to be well-formed.
class JsonText {
 public:
  explicit JsonText(std::string_view text) : text_(text) {}

  // The text of the value of the last member called name: numbers keep the digits
  // that they were written with, and no depth of nesting costs any stack.
  std::string_view ValueOf(std::string_view name) {
    std::string_view found;
    SkipSpace();
    ++at_;  // {
    for (SkipSpace(); text_[at_] != '}'; SkipSpace()) {
      if (text_[at_] == ',') {
        ++at_;
        SkipSpace();
      }
      const std::string_view key = Value();
      SkipSpace();
      ++at_;  // :
      SkipSpace();
      const std::string_view value = Value();
      if (Json::parse(key.begin(), key.end(), nullptr, false) == name) found = value;
    }
    return found;
  }

 private:
  void SkipSpace() { at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size()); }

  std::string_view Value() {
    const size_t start = at_;
    if (text_[at_] == '"') {
      SkipString();
    } else if (text_[at_] == '{' || text_[at_] == '[') {
      size_t depth = 0;
      do {
        const char c = text_[at_];
        if (c == '"') {
          SkipString();
          continue;
        }
        if (c == '{' || c == '[') ++depth;
        if (c == '}' || c == ']') --depth;
        ++at_;
      } while (depth > 0);
    } else {
      at_ = std::min(text_.find_first_of(" \t\r\n,}", at_), text_.size());
    }
    return text_.substr(start, at_ - start);
  }

  void SkipString() {
    for (++at_; text_[at_] != '"'; ++at_) {
      if (text_[at_] == '\\') ++at_;
    }
    ++at_;
  }

  const std::string_view text_;
  size_t at_ = 0;
};

absl::StatusOr<std::string> TakeField(const Json& json, std::string_view line,
                                      const std::string& name) {
  const auto hex = json.find(name + "_hex");
  const auto text = json.find(name);
  if (hex != json.end() && text != json.end()) {
    return absl::InvalidArgumentError("both \"" + name + "\" and \"" + name + "_hex\" are given");
  }
  if (hex != json.end()) {
    if (hex->is_string()) return FromHex(hex->get_ref<const std::string&>());
    return absl::InvalidArgumentError("\"" + name + "_hex\" is not a string");
  }
  if (text == json.end()) {
    return absl::InvalidArgumentError("no field \"" + name + "\" or \"" + name + "_hex\"");
  }
  return text->is_string() ? text->get<std::string>() : std::string(JsonText(line).ValueOf(name));
}

absl::StatusOr<Record> ParseJson(std::string_view line) {
  const Json json = Json::parse(line.begin(), line.end(), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.is_object()) {
    return absl::InvalidArgumentError("not a JSON object");
  }
  Record record;
  SIEVEDB_ASSIGN_OR_RETURN(record.key, TakeField(json, line, "key"));
  SIEVEDB_ASSIGN_OR_RETURN(record.value, TakeField(json, line, "value"));
  return record;
}

absl::StatusOr<Record> ParseTsv(std::string_view line) {
  const size_t tab = line.find('\t');
  if (tab == std::string_view::npos) {
    return absl::InvalidArgumentError("no tab between key and value");
  }
  Record record;
  SIEVEDB_ASSIGN_OR_RETURN(record.key, Unescape(line.substr(0, tab)));
  SIEVEDB_ASSIGN_OR_RETURN(record.value, Unescape(line.substr(tab + 1)));
  return record;
}

}  // namespace

std::string FormatRecord(RecordFormat format, std::string_view key, std::string_view value) {
  if (format == RecordFormat::kTsv) return Escape(key) + "\t" + Escape(value);
  Json json = Json::object();
  AddField(&json, "key", key);
  AddField(&json, "value", value);
  return json.dump();
}

absl::StatusOr<Record> ParseRecord(RecordFormat format, std::string_view line) {
  return format == RecordFormat::kTsv ? ParseTsv(line) : ParseJson(line);
}

RecordFormat GuessFormat(std::string_view first_line) {
  if (first_line.empty() || first_line.front() != '{') return RecordFormat::kTsv;
  // A key of TSV may begin so too; then a tab follows it, which is no JSON.
  return first_line.find('\t') == first_line.npos || ParseJson(first_line).ok()
             ? RecordFormat::kJsonLines
             : RecordFormat::kTsv;
}

absl::StatusOr<std::unique_ptr<LineReader>> LineReader::Open(const std::string& path) {
  std::FILE* const file = path == "-" ? stdin : std::fopen(path.c_str(), "re");
  if (file == nullptr) {
    const int error = errno;
    const std::string message = absl::StrFormat("open %s: %s", path, std::strerror(error));
    return error == ENOENT ? absl::NotFoundError(message) : absl::UnavailableError(message);
  }
  std::unique_ptr<LineReader> reader(new LineReader(file));
  struct stat info;
  if (fstat(fileno(file), &info) == 0 && S_ISREG(info.st_mode)) {
    reader->total_bytes_ = static_cast<uint64_t>(info.st_size);
  }
  return reader;
}

LineReader::~LineReader() {
  std::free(line_);
  if (file_ != stdin) std::fclose(file_);
}

absl::StatusOr<std::optional<std::string_view>> LineReader::Next() {
  errno = 0;
  const ssize_t length = getline(&line_, &capacity_, file_);
  if (length < 0) {
    if (std::ferror(file_) != 0) {
      return absl::UnavailableError(
          absl::StrFormat("reading line %d: %s", line_number_ + 1, std::strerror(errno)));
    }
    return std::optional<std::string_view>();
  }
  ++line_number_;
  bytes_read_ += static_cast<uint64_t>(length);
  std::string_view line(line_, static_cast<size_t>(length));
  if (!line.empty() && line.back() == '\n') line.remove_suffix(1);
  return std::optional<std::string_view>(line);
}

}  // namespace sievedb
