#include "tools/shell_commands.h"

#include <cstdio>
#include <utility>

#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "tools/record_file.h"
#include "util/escape.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

using Json = nlohmann::ordered_json;

void PrintLine(std::string_view line) {
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fputc('\n', stdout);
}

absl::Status Get(DB* db, const ShellSettings& settings, const std::vector<std::string>& arguments) {
  SIEVEDB_ASSIGN_OR_RETURN(const std::string key, ParseBytesArgument(settings, arguments[0]));
  PinnedValue value;
  const absl::Status status = db->Get(ReadOptions(), key, &value);
  if (status.code() == absl::StatusCode::kNotFound) {
    return absl::NotFoundError("no such key: " + ShowBytes(settings, key));
  }
  SIEVEDB_RETURN_IF_ERROR(status);
  PrintLine(settings.json ? FormatRecord(RecordFormat::kJsonLines, key, value)
                          : ShowBytes(settings, value));
  return absl::OkStatus();
}

absl::Status Put(DB* db, const ShellSettings& settings, const std::vector<std::string>& arguments) {
  SIEVEDB_ASSIGN_OR_RETURN(const std::string key, ParseBytesArgument(settings, arguments[0]));
  SIEVEDB_ASSIGN_OR_RETURN(const std::string value, ParseBytesArgument(settings, arguments[1]));
  WriteOptions options;
  options.sync = true;
  return db->Put(options, key, value);
}

absl::Status Delete(DB* db, const ShellSettings& settings,
                    const std::vector<std::string>& arguments) {
  SIEVEDB_ASSIGN_OR_RETURN(const std::string key, ParseBytesArgument(settings, arguments[0]));
  WriteOptions options;
  options.sync = true;
  return db->Delete(options, key);
}

absl::Status DeleteRange(DB* db, const ShellSettings& settings,
                         const std::vector<std::string>& arguments) {
  SIEVEDB_ASSIGN_OR_RETURN(const std::string begin, ParseBytesArgument(settings, arguments[0]));
  SIEVEDB_ASSIGN_OR_RETURN(const std::string end, ParseBytesArgument(settings, arguments[1]));
  WriteOptions options;
  options.sync = true;
  return db->DeleteRange(options, begin, end);
}

absl::Status Scan(DB* db, const ShellSettings& settings, const std::vector<std::string>&) {
  ReadOptions options;
  SIEVEDB_RETURN_IF_ERROR(SetBounds(settings, &options));
  const auto it = db->NewIterator(options);
  uint64_t shown = 0;
  for (settings.reverse ? it->SeekToLast() : it->SeekToFirst();
       it->Valid() && (settings.limit == 0 || shown < settings.limit);
       settings.reverse ? it->Prev() : it->Next()) {
    ++shown;
    PrintLine(settings.json
                  ? FormatRecord(RecordFormat::kJsonLines, it->key(), it->value())
                  : ShowBytes(settings, it->key()) + "\t" + ShowBytes(settings, it->value()));
  }
  return it->status();
}

absl::Status PrintProperty(DB* db, const ShellSettings& settings, const std::string& name) {
  const std::optional<std::string> value = db->GetProperty(name);
  if (!value.has_value()) return absl::NotFoundError("no such property: " + name);
  if (settings.json) {
    PrintLine(Json({{name, *value}}).dump(2));
  } else {
    PrintLine(*value);
  }
  return absl::OkStatus();
}

absl::Status Stats(DB* db, const ShellSettings& settings, const std::vector<std::string>&) {
  return PrintProperty(db, settings, "sievedb.stats");
}

absl::Status Levels(DB* db, const ShellSettings& settings, const std::vector<std::string>&) {
  return PrintProperty(db, settings, "sievedb.levels");
}

absl::Status Files(DB* db, const ShellSettings& settings, const std::vector<std::string>&) {
  return PrintProperty(db, settings, "sievedb.sstables");
}

absl::Status Properties(DB* db, const ShellSettings& settings,
                        const std::vector<std::string>& arguments) {
  if (!arguments.empty()) return PrintProperty(db, settings, arguments[0]);
  Json json = Json::object();
  for (const char* name :
       {"sievedb.version", "sievedb.estimate-num-keys", "sievedb.total-sst-bytes",
        "sievedb.estimate-pending-compaction-bytes", "sievedb.num-snapshots",
        "sievedb.num-immutable-memtables", "sievedb.stall", "sievedb.background-error"}) {
    json[name] = db->GetProperty(name).value_or("");
  }
  if (settings.json) {
    PrintLine(json.dump(2));
    return absl::OkStatus();
  }
  for (const auto& [name, value] : json.items()) {
    PrintLine(absl::StrFormat("%-42s %s", name, value.get<std::string>()));
  }
  return absl::OkStatus();
}

absl::Status Compact(DB* db, const ShellSettings& settings, const std::vector<std::string>&) {
  ReadOptions bounds;
  SIEVEDB_RETURN_IF_ERROR(SetBounds(settings, &bounds));
  std::string_view begin;
  std::string_view end;
  if (bounds.lower_bound.has_value()) begin = *bounds.lower_bound;
  if (bounds.upper_bound.has_value()) end = *bounds.upper_bound;
  CompactRangeOptions options;
  options.rewrite_bottommost = true;
  return db->CompactRange(options, settings.has_from ? &begin : nullptr,
                          settings.has_to ? &end : nullptr);
}

absl::Status Checkpoint(DB* db, const ShellSettings&, const std::vector<std::string>& arguments) {
  return db->CreateCheckpoint(arguments[0]);
}

absl::Status Verify(DB* db, const ShellSettings&, const std::vector<std::string>&) {
  SIEVEDB_RETURN_IF_ERROR(db->VerifyChecksums());
  PrintLine("every block of every table is sound");
  return absl::OkStatus();
}

}  // namespace

Options ShellSettings::DbOptions() const {
  Options options;
  if (reverse_comparator) options.comparator = ReverseBytewiseComparator();
  options.filter_policy = NewBlockedBloomPolicy(bloom_bits);
  options.statistics = NewStatistics();
  return options;
}

absl::StatusOr<std::string> ParseBytesArgument(const ShellSettings& settings,
                                               const std::string& text) {
  return settings.hex ? FromHex(text) : Unescape(text);
}

std::string ShowBytes(const ShellSettings& settings, std::string_view bytes) {
  return settings.hex ? ToHex(bytes) : Escape(bytes);
}

absl::Status SetBounds(const ShellSettings& settings, ReadOptions* options) {
  if (settings.has_from) {
    SIEVEDB_ASSIGN_OR_RETURN(options->lower_bound, ParseBytesArgument(settings, settings.from));
  }
  if (settings.has_to) {
    SIEVEDB_ASSIGN_OR_RETURN(options->upper_bound, ParseBytesArgument(settings, settings.to));
  }
  return absl::OkStatus();
}

const std::vector<ShellCommand>& ShellCommands() {
  static const std::vector<ShellCommand> commands = {
      {"get", "KEY", "print the value of a key", 1, 1, false, false, true, Get},
      {"put", "KEY VALUE", "set a key, and sync", 2, 2, true, true, true, Put},
      {"delete", "KEY", "delete a key, and sync", 1, 1, true, false, true, Delete},
      {"delete-range", "BEGIN END", "delete all keys in [BEGIN, END), and sync", 2, 2, true, false,
       true, DeleteRange},
      {"scan", "", "print keys and values in [--from, --to)", 0, 0, false, false, false, Scan},
      {"stats", "", "levels, filters, memory", 0, 0, false, false, false, Stats},
      {"levels", "", "tables, bytes and entries of each level", 0, 0, false, false, false, Levels},
      {"files", "", "the tables of each level and their key ranges", 0, 0, false, false, false,
       Files},
      {"manifest", "[FILE]", "print the edits of the MANIFEST, or of one that is a file", 0, 1,
       false, false, false, nullptr, PrintManifest, false},
      {"wal", "[FILE]", "print the records of all WALs, or of one that is a file", 0, 1, false,
       false, false, nullptr, PrintWals, false},
      {"properties", "[NAME]", "figures of the database, or one of them", 0, 1, false, false, false,
       Properties},
      {"load", "FILE|-", "write the records of a file (TSV or JSON lines)", 1, 1, true, true, false,
       LoadRecords},
      {"dump", "[FILE]", "print all records in [--from, --to), as load reads them", 0, 1, false,
       false, false, DumpRecords},
      {"probe", "FILE|-",
       "read each record of a file back, ask for as many keys that are not there, and show what "
       "the filters saved",
       1, 1, false, false, false, ProbeRecords},
      {"compact", "", "merge all tables in [--from, --to]", 0, 0, true, false, false, Compact},
      {"checkpoint", "DIR", "make a database in DIR that has all that this one has now", 1, 1, true,
       false, false, Checkpoint},
      {"backup", "DIR", "add a backup of the database to those in DIR", 1, 1, true, false, false,
       Backup},
      {"backups", "DIR", "list the backups in DIR", 1, 1, false, false, false, nullptr, ListBackups,
       false},
      {"verify-backup", "DIR [ID]", "compare the checksums of one or all backups in DIR", 1, 2,
       false, false, false, nullptr, VerifyBackups, false},
      {"delete-backup", "DIR ID", "delete a backup in DIR, and tables that no other one has", 2, 2,
       true, false, false, nullptr, DeleteBackup, false},
      {"restore", "DIR [ID]", "make the database of a backup in DIR, the newest without ID", 1, 2,
       true, true, false, nullptr, RestoreBackup},
      {"repair", "", "put a database right of which files are lost or damaged", 0, 0, true, false,
       false, nullptr, Repair},
      {"verify", "", "read and check every block of every table", 0, 0, false, false, false,
       Verify},
  };
  return commands;
}

}  // namespace sievedb
