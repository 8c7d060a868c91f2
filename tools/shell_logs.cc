// manifest and wal: what the logs of a database say, record by record.

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "db/file_names.h"
#include "db/log_reader.h"
#include "db/manifest_file.h"
#include "db/version_edit.h"
#include "db/write_batch_internal.h"
#include "nlohmann/json.hpp"
#include "table/internal_key.h"
#include "tools/shell_commands.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

using Json = nlohmann::ordered_json;

void PrintLine(std::string_view line) {
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fputc('\n', stdout);
}

// Calls fn with each record of a log and the offset at its end. What comes before damage is
// shown before that is told.
template <typename Fn>
absl::Status ForEachRecord(const std::string& path, LogKind kind, uint64_t number, Fn fn) {
  FileSystem* const file_system = PosixFileSystem().get();
  SIEVEDB_ASSIGN_OR_RETURN(const uint64_t bytes, file_system->FileSize(path));
  SIEVEDB_ASSIGN_OR_RETURN(auto file, file_system->NewRandomAccessFile(path));
  SIEVEDB_ASSIGN_OR_RETURN(const auto reader, LogReader::Open(std::move(file), bytes, path, kind,
                                                              number, file_system->BootId()));
  while (true) {
    std::string_view record;
    SIEVEDB_ASSIGN_OR_RETURN(const bool more, reader->ReadRecord(&record));
    if (!more) return absl::OkStatus();
    const absl::Status status = fn(record, reader->offset());
    if (!status.ok()) {
      return absl::Status(status.code(), absl::StrFormat("%s, record before offset %d: %s", path,
                                                         reader->offset(), status.message()));
    }
  }
}

// The number in a log's name, of whatever directory.
absl::StatusOr<uint64_t> NumberOf(const std::string& path, FileKind kind) {
  const std::optional<ParsedFileName> parsed =
      ParseFileName(std::string_view(path).substr(path.rfind('/') + 1));
  if (parsed.has_value() && parsed->kind == kind) return parsed->number;
  return absl::InvalidArgumentError(absl::StrFormat(
      "%s: expected the name of a %s", path,
      kind == FileKind::kWal ? "WAL, as 000007.wal" : "MANIFEST, as MANIFEST-000007"));
}

absl::Status NoPath() { return absl::InvalidArgumentError("neither --db nor a FILE is given"); }

Json ToJson(const ShellSettings& settings, const VersionEdit& edit) {
  Json json = Json::object();
  if (edit.comparator_name.has_value()) {
    json["comparator"] = ShowBytes(settings, *edit.comparator_name);
  }
  if (edit.db_id.has_value()) json["id"] = absl::StrFormat("%016x", *edit.db_id);
  if (edit.hash_seed.has_value()) json["hash_seed"] = absl::StrFormat("%016x", *edit.hash_seed);
  if (edit.log_number.has_value()) json["log"] = *edit.log_number;
  if (edit.next_file_number.has_value()) json["next_file"] = *edit.next_file_number;
  if (edit.last_sequence.has_value()) json["sequence"] = *edit.last_sequence;
  for (const auto& [level, number] : edit.removed_files) {
    json["removed"].push_back({{"level", level}, {"table", number}});
  }
  for (const AddedFile& added : edit.added_files) {
    const FileMeta& file = *added.file;
    Json table = {{"level", added.level},
                  {"run", added.run},
                  {"table", file.number},
                  {"bytes", file.file_bytes},
                  {"smallest", ShowBytes(settings, UserKey(file.smallest))},
                  {"largest", ShowBytes(settings, UserKey(file.largest))},
                  {"smallest_sequence", file.smallest_sequence},
                  {"largest_sequence", file.largest_sequence},
                  {"entries", file.entries},
                  {"tombstones", file.tombstones},
                  {"range_tombstones", file.range_tombstones}};
    if (file.external_number != 0) {
      table["external"] = absl::StrFormat("%016x", file.external_number);
    }
    json["added"].push_back(std::move(table));
  }
  return json;
}

// Prints each change of a batch, or gathers them.
class ChangePrinter final : public WriteBatch::Handler {
 public:
  explicit ChangePrinter(const ShellSettings& settings) : settings_(settings) {}

  absl::Status Put(std::string_view key, std::string_view value) override {
    return Print({{"type", "put"}, {"key", Show(key)}, {"value", Show(value)}});
  }
  absl::Status Delete(std::string_view key) override {
    return Print({{"type", "delete"}, {"key", Show(key)}});
  }
  absl::Status DeleteRange(std::string_view begin, std::string_view end) override {
    return Print({{"type", "delete_range"}, {"begin", Show(begin)}, {"end", Show(end)}});
  }
  Json TakeChanges() { return std::move(changes_); }

 private:
  std::string Show(std::string_view bytes) const { return ShowBytes(settings_, bytes); }
  absl::Status Print(Json change) {
    if (settings_.json) {
      changes_.push_back(std::move(change));
      return absl::OkStatus();
    }
    std::string line = "  ";
    for (const auto& [name, field] : change.items()) {
      line += (line.size() > 2 ? "\t" : "") + field.get<std::string>();
    }
    PrintLine(line);
    return absl::OkStatus();
  }

  const ShellSettings& settings_;
  Json changes_ = Json::array();
};

absl::Status PrintWal(const ShellSettings& settings, const std::string& path) {
  SIEVEDB_ASSIGN_OR_RETURN(const uint64_t number, NumberOf(path, FileKind::kWal));
  WriteBatch batch;
  return ForEachRecord(
      path, LogKind::kWal, number, [&](std::string_view record, uint64_t end) -> absl::Status {
        SIEVEDB_RETURN_IF_ERROR(WriteBatchInternal::SetBytes(&batch, record));
        ChangePrinter printer(settings);
        if (!settings.json) {
          PrintLine(absl::StrFormat("WAL %06d to offset %d: sequence %d, %d changes", number, end,
                                    WriteBatchInternal::Sequence(batch), batch.Count()));
          return batch.Iterate(&printer);
        }
        SIEVEDB_RETURN_IF_ERROR(batch.Iterate(&printer));
        PrintLine(Json({{"wal", number},
                        {"end", end},
                        {"sequence", WriteBatchInternal::Sequence(batch)},
                        {"changes", printer.TakeChanges()}})
                      .dump());
        return absl::OkStatus();
      });
}

}  // namespace

absl::Status PrintManifest(const ShellSettings& settings,
                           const std::vector<std::string>& arguments) {
  std::string path;
  if (arguments.empty() && settings.db.empty()) return NoPath();
  if (arguments.empty()) {
    SIEVEDB_ASSIGN_OR_RETURN(const uint64_t current,
                             ReadCurrent(PosixFileSystem().get(), settings.db));
    path = ManifestFileName(settings.db, current);
  } else {
    path = arguments[0];
  }
  SIEVEDB_ASSIGN_OR_RETURN(const uint64_t number, NumberOf(path, FileKind::kManifest));
  return ForEachRecord(
      path, LogKind::kManifest, number, [&](std::string_view record, uint64_t end) -> absl::Status {
        SIEVEDB_ASSIGN_OR_RETURN(const VersionEdit edit, VersionEdit::Decode(record));
        if (settings.json) {
          Json json = {{"end", end}};
          json.update(ToJson(settings, edit));
          PrintLine(json.dump());
        } else {
          PrintLine(absl::StrFormat("to offset %d: %s", end, edit.DebugString()));
        }
        return absl::OkStatus();
      });
}

absl::Status PrintWals(const ShellSettings& settings, const std::vector<std::string>& arguments) {
  if (!arguments.empty()) return PrintWal(settings, arguments[0]);
  if (settings.db.empty()) return NoPath();
  SIEVEDB_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                           PosixFileSystem()->GetChildren(settings.db));
  std::vector<uint64_t> numbers;
  for (const std::string& name : names) {
    const std::optional<ParsedFileName> parsed = ParseFileName(name);
    if (parsed.has_value() && parsed->kind == FileKind::kWal) numbers.push_back(parsed->number);
  }
  std::sort(numbers.begin(), numbers.end());
  for (const uint64_t number : numbers) {
    SIEVEDB_RETURN_IF_ERROR(PrintWal(settings, WalFileName(settings.db, number)));
  }
  return absl::OkStatus();
}

}  // namespace sievedb
