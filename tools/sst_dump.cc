// sst_dump: looks into table files.

#include <cstdio>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "table/format.h"
#include "tools/filter_audit.h"
#include "tools/filter_levels.h"
#include "tools/filter_svg.h"
#include "tools/flags.h"
#include "tools/sst_dump_filter.h"
#include "tools/table_files.h"
#include "util/compression.h"
#include "util/escape.h"
#include "util/file_util.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

using Json = nlohmann::ordered_json;

struct Settings {
  std::string command = "check";
  std::string from;
  std::string to;
  std::string key;
  uint64_t limit = 0;
  uint64_t absent_keys = 1'000'000;
  std::string svg;
  std::string audit;
  bool hex = false;
  bool json = false;
  // Decoded.
  std::optional<std::string> from_key;
  std::optional<std::string> to_key;
  std::optional<std::string> probe_key;
  std::optional<AuditKeys> audit_keys;
  bool by_level = false;  // several tables were named, or a directory of them
};

class Dump {
 public:
  explicit Dump(const Settings& settings) : settings_(settings) {
    if (!settings.audit_keys.has_value()) return;
    audit_keys_ = settings.audit_keys->keys;
    audit_.keys_path = settings.audit;
    audit_.lines = settings.audit_keys->lines;
    audit_.keys = audit_keys_.size();
  }

  absl::Status Run(const std::string& path) {
    SIEVEDB_ASSIGN_OR_RETURN(const OpenedTable table, OpenTableFile(path));
    if (settings_.command == "check") return Check(table);
    if (settings_.command == "scan") return Scan(table);
    if (settings_.command == "raw") return Raw(table);
    if (settings_.command == "verify") return Verify(table);
    if (settings_.command == "properties") return Properties(table);
    return Filter(table);
  }

  // What is told of all tables together. Returns the first thing wrong with it.
  absl::Status Finish() {
    absl::Status status;
    if (settings_.by_level) FinishLevels();
    if (settings_.audit_keys.has_value()) status.Update(FinishAudit());
    if (!settings_.svg.empty()) status.Update(FinishSvg());
    status.Update(places_.status());
    if (settings_.json) std::printf("%s\n", Text(all_).c_str());
    return status;
  }

  // A table that could not be reported, among others.
  void AddFailure(const std::string& path, const absl::Status& status) {
    if (settings_.json) {
      all_.push_back({{"file", path}, {"error", status.ToString()}});
    } else {
      std::printf("%s: %s\n", path.c_str(), status.ToString().c_str());
    }
  }

 private:
  static std::string Text(const Json& json) {
    return json.dump(2, ' ', false, Json::error_handler_t::replace);
  }
  std::string Show(std::string_view bytes) const {
    return settings_.hex ? ToHex(bytes) : Escape(bytes);
  }
  // user key @ sequence : type
  std::string ShowInternal(std::string_view key) const {
    if (key.size() < kTagBytes) return "(malformed) " + Show(key);
    const uint64_t tag = Tag(key);
    if (tag == kMaxTag) return Show(UserKey(key)) + " (of a range tombstone)";
    return absl::StrFormat("%s @ %d : %s", Show(UserKey(key)), TagSequence(tag),
                           TypeName(TagType(tag)));
  }
  static const char* TypeName(uint8_t type) {
    if (type == static_cast<uint8_t>(EntryType::kPut)) return "put";
    if (type == static_cast<uint8_t>(EntryType::kDelete)) return "delete";
    return "unknown";
  }
  void Add(Json json) { all_.push_back(std::move(json)); }

  absl::Status Check(const OpenedTable& table) {
    const TableProperties& p = table.reader->properties();
    const absl::Status filter = table.reader->filter_status();
    if (settings_.json) {
      Add({{"file", table.path},
           {"bytes", table.file_bytes},
           {"entries", p.entries},
           {"data_blocks", p.data_blocks},
           {"filter", filter.ok() ? p.filter_name : filter.ToString()}});
    } else {
      std::printf(
          "%s: footer, index and properties are sound: %llu entries in %llu blocks, %llu bytes; "
          "filter: %s\n",
          table.path.c_str(), static_cast<unsigned long long>(p.entries),
          static_cast<unsigned long long>(p.data_blocks),
          static_cast<unsigned long long>(table.file_bytes),
          !filter.ok()            ? std::string(filter.message()).c_str()
          : p.filter_name.empty() ? "none"
                                  : p.filter_name.c_str());
    }
    return filter;
  }

  absl::Status Verify(const OpenedTable& table) {
    SIEVEDB_RETURN_IF_ERROR(table.reader->Verify());
    SIEVEDB_RETURN_IF_ERROR(table.reader->filter_status());
    const TableProperties& p = table.reader->properties();
    if (settings_.json) {
      Add({{"file", table.path},
           {"entries", p.entries},
           {"data_blocks", p.data_blocks},
           {"ok", true}});
    } else {
      std::printf(
          "%s: %s", table.path.c_str(),
          absl::StrFormat("every block is sound: %d blocks, %d entries\n", p.data_blocks, p.entries)
              .c_str());
    }
    return absl::OkStatus();
  }

  // Behind the entries, of which so many were shown.
  void ScanRangeTombstones(const OpenedTable& table, uint64_t shown) {
    const RangeTombstones* const tombstones = table.reader->range_tombstones();
    if (tombstones == nullptr) return;
    const KeyOrder& order = table.order.user();
    for (const RangeTombstones::Fragment& fragment : tombstones->fragments()) {
      if (settings_.from_key && order.Compare(fragment.end, *settings_.from_key) <= 0) continue;
      if (settings_.to_key && order.Compare(fragment.begin, *settings_.to_key) >= 0) return;
      for (const auto* stamp = fragment.newest; stamp != nullptr; stamp = stamp->older) {
        if (settings_.limit != 0 && shown++ >= settings_.limit) return;
        if (settings_.json) {
          Add({{"file", table.path},
               {"key", Show(fragment.begin)},
               {"sequence", stamp->sequence},
               {"type", "delete-range"},
               {"end", Show(fragment.end)}});
        } else {
          std::printf("%s\n", absl::StrFormat("[%s, %s) @ %d : delete-range", Show(fragment.begin),
                                              Show(fragment.end), stamp->sequence)
                                  .c_str());
        }
      }
    }
  }

  absl::Status Scan(const OpenedTable& table) {
    const auto it = table.reader->NewIterator(ReadOptions(), /*for_compaction=*/true);
    if (settings_.from_key.has_value()) {
      std::string seek;
      AppendInternalKey(&seek, *settings_.from_key, SeekTag(kMaxSequence));
      it->Seek(seek);
    } else {
      it->SeekToFirst();
    }
    uint64_t shown = 0;
    for (; it->Valid() && (settings_.limit == 0 || shown < settings_.limit); it->Next(), ++shown) {
      const std::string_view key = UserKey(it->key());
      if (settings_.to_key.has_value() && table.order.user().Compare(key, *settings_.to_key) >= 0) {
        break;
      }
      const uint64_t tag = Tag(it->key());
      if (settings_.json) {
        Add({{"file", table.path},
             {"key", Show(key)},
             {"sequence", TagSequence(tag)},
             {"type", TypeName(TagType(tag))},
             {"value", Show(it->value())}});
      } else {
        std::printf("%s => %s\n", ShowInternal(it->key()).c_str(), Show(it->value()).c_str());
      }
    }
    SIEVEDB_RETURN_IF_ERROR(it->status());
    ScanRangeTombstones(table, shown);
    return absl::OkStatus();
  }

  absl::Status Raw(const OpenedTable& table) {
    if (!settings_.json) {
      std::printf("%s\n      offset      stored         raw  entries  codec\n", table.path.c_str());
    }
    Json blocks = Json::array();
    uint64_t shown = 0;
    SIEVEDB_RETURN_IF_ERROR(table.reader->ForEachBlock([&](const BlockDescription& block) {
      if (settings_.limit != 0 && shown == settings_.limit) return false;
      ++shown;
      if (settings_.json) {
        blocks.push_back({{"offset", block.offset},
                          {"stored_bytes", block.stored_bytes},
                          {"raw_bytes", block.raw_bytes},
                          {"entries", block.entries},
                          {"codec", CompressionName(block.compression)}});
      } else {
        std::printf("%s\n", absl::StrFormat("%12d%12d%12d%9d  %s", block.offset, block.stored_bytes,
                                            block.raw_bytes, block.entries,
                                            CompressionName(block.compression))
                                .c_str());
      }
      return true;
    }));
    if (settings_.json) Add({{"file", table.path}, {"data_blocks", blocks}});
    return absl::OkStatus();
  }

  absl::Status Properties(const OpenedTable& table) {
    const TableProperties& p = table.reader->properties();
    const double raw = static_cast<double>(p.raw_data_bytes);
    const double ratio = raw == 0 ? 1 : static_cast<double>(p.data_bytes) / raw;
    const Json json = {
        {"file", table.path},
        {"file_bytes", table.file_bytes},
        {"entries", p.entries},
        {"tombstones", p.tombstones},
        {"range_tombstones", p.range_tombstones},
        {"distinct_user_keys", p.distinct_user_keys},
        {"data_blocks", p.data_blocks},
        {"raw_key_bytes", p.raw_key_bytes},
        {"raw_value_bytes", p.raw_value_bytes},
        {"raw_data_bytes", p.raw_data_bytes},
        {"data_bytes", p.data_bytes},
        {"compression_ratio", ratio},
        {"index_bytes", p.index_bytes},
        {"filter_bytes", p.filter_bytes},
        {"smallest_sequence", p.smallest_sequence},
        {"largest_sequence", p.largest_sequence},
        {"smallest_key", ShowInternal(p.smallest_key)},
        {"largest_key", ShowInternal(p.largest_key)},
        {"compression", CompressionName(p.compression)},
        {"comparator", p.comparator_name},
        {"filter", p.filter_name},
        {"filter_bits_per_key", p.filter_bits_per_key},
        {"filter_probes", p.filter_probes},
        {"created_seconds", p.creation_seconds},
        {"file_number", p.file_number},
        // Of SstFileWriter: a database that has it counts all entries as of one sequence,
        // which is in its MANIFEST.
        {"external", (p.file_number & kExternalNumberBit) != 0},
        {"db_id", absl::StrFormat("%016x", p.db_id)},
        {"created_by", p.created_by},
        {"hash_seed", absl::StrFormat("%016x", p.hash_seed)},
        {"prefix_extractor", p.prefix_extractor_name},
        {"prefixes", p.prefixes},
    };
    if (settings_.json) {
      Add(json);
      return absl::OkStatus();
    }
    for (const auto& [name, value] : json.items()) {
      std::printf("%-22s %s\n", name.c_str(),
                  value.is_string() ? value.get<std::string>().c_str() : Text(value).c_str());
    }
    std::printf("\n");
    return absl::OkStatus();
  }

  absl::Status Filter(const OpenedTable& table) {
    if (settings_.probe_key.has_value()) return FilterKey(table);
    SIEVEDB_ASSIGN_OR_RETURN(const FilterReport r, ReportFilter(table, settings_.absent_keys));
    TablePlace place;
    if (settings_.by_level || settings_.audit_keys.has_value()) place = places_.Of(table.path);
    SIEVEDB_RETURN_IF_ERROR(KeepForAll(table, r, place));
    if (settings_.json) {
      Add({{"file", table.path},
           {"level", LevelJson(place.level)},
           {"present", r.present},
           {"problem", r.problem},
           {"kind", r.kind},
           {"bits_per_key", r.bits_per_key},
           {"bits_per_key_used", r.bits_per_key_used},
           {"probes", r.probes},
           {"keys", r.keys},
           {"prefix_extractor", r.prefix_extractor},
           {"prefixes", r.prefixes},
           {"blocks", r.blocks},
           {"bytes", r.bytes},
           {"fill_ratio", r.fill_ratio},
           {"block_bits_min", r.block_bits_min},
           {"block_bits_median", r.block_bits_median},
           {"block_bits_max", r.block_bits_max},
           {"expected_fpr", r.expected_fpr},
           {"measured_fpr", r.measured_fpr},
           {"absent_keys_asked", r.absent_keys},
           {"present_keys_asked", r.present_keys},
           {"present_keys_denied", r.denied_keys}});
    } else {
      PrintFilter(table, r);
    }
    if (!r.problem.empty()) return absl::DataLossError(r.problem);
    if (r.denied_keys > 0) {
      return absl::DataLossError(absl::StrFormat("%s: the filter denies %d of the table's %d keys",
                                                 table.path, r.denied_keys, r.present_keys));
    }
    return absl::OkStatus();
  }

  // What the levels, the audit and the picture need of this table.
  absl::Status KeepForAll(const OpenedTable& table, const FilterReport& r,
                          const TablePlace& place) {
    const double expected_fpr = r.present ? r.expected_fpr : 1;
    filters_.push_back({place, r.present_keys, r.present ? r.bytes : 0, expected_fpr});
    if (!settings_.svg.empty() && r.present &&
        (!drawn_.has_value() || r.bytes > drawn_->report.bytes)) {
      drawn_ = Drawn{table.path, r, BlockSetBits(*table.reader)};
    }
    if (!settings_.audit_keys.has_value()) return absl::OkStatus();
    AuditRow row{table.path, place, {}, {}};
    SIEVEDB_ASSIGN_OR_RETURN(row.counts, AuditTable(table, expected_fpr, &audit_keys_));
    row.random.said_no = r.absent_keys - r.false_positives;
    row.random.maybe_absent = r.false_positives;
    row.random.expected_false = expected_fpr * static_cast<double>(r.absent_keys);
    audit_.tables.push_back(std::move(row));
    return absl::OkStatus();
  }

  void FinishLevels() {
    for (DatabaseFilters& database : SumFilters(filters_)) {
      database.manifest_tables = places_.TablesOf(database.database);
      if (settings_.json) {
        Add(DatabaseFiltersJson(database));
      } else {
        std::fputs(DatabaseFiltersText(database).c_str(), stdout);
      }
    }
  }

  absl::Status FinishAudit() {
    if (settings_.json) {
      Add({{"audit", AuditJson(audit_)}});
    } else {
      std::fputs(AuditText(audit_).c_str(), stdout);
    }
    return AuditStatus(audit_);
  }

  absl::Status FinishSvg() {
    if (!drawn_.has_value()) return absl::NotFoundError("no table has a filter to draw");
    const std::string svg = DrawFilter(drawn_->path, drawn_->report, drawn_->block_bits);
    const std::shared_ptr<FileSystem> file_system = PosixFileSystem();
    SIEVEDB_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file,
                             file_system->NewWritableFile(settings_.svg));
    SIEVEDB_RETURN_IF_ERROR(file->Append(svg));
    SIEVEDB_RETURN_IF_ERROR(file->Close());
    if (!settings_.json) {
      std::printf("drew the filter of %s in %s\n", drawn_->path.c_str(), settings_.svg.c_str());
    }
    return absl::OkStatus();
  }

  static void PrintFilter(const OpenedTable& table, const FilterReport& r) {
    std::string text = table.path + "\n";
    if (!r.present) {
      absl::StrAppendFormat(&text, "  no filter%s%s; %d keys\n", r.problem.empty() ? "" : ": ",
                            r.problem, r.present_keys);
    } else {
      absl::StrAppendFormat(&text, "  kind            %s\n", r.kind);
      absl::StrAppendFormat(&text, "  bits per key    %.2f asked for, %.2f in the file\n",
                            r.bits_per_key, r.bits_per_key_used);
      absl::StrAppendFormat(&text, "  probes          %d\n", r.probes);
      absl::StrAppendFormat(&text, "  keys            %d\n", r.keys);
      if (!r.prefix_extractor.empty()) {
        absl::StrAppendFormat(&text, "  prefixes        %d of them, of %s\n", r.prefixes,
                              r.prefix_extractor);
      }
      if (r.blocks > 0) {
        absl::StrAppendFormat(&text, "  blocks          %d of 512 bits, %d bytes in all\n",
                              r.blocks, r.bytes);
        absl::StrAppendFormat(
            &text, "  fill            %.2f %% of all bits; a block's bits: %d to %d, median %d\n",
            100 * r.fill_ratio, r.block_bits_min, r.block_bits_max, r.block_bits_median);
      } else {
        absl::StrAppendFormat(&text, "  bytes           %d\n", r.bytes);
        absl::StrAppendFormat(&text, "  fill            %.2f %%\n", 100 * r.fill_ratio);
      }
      absl::StrAppendFormat(&text,
                            "  false positives %.4f %% expected from the bits set, %.4f %% "
                            "measured with %d absent keys\n",
                            100 * r.expected_fpr, 100 * r.measured_fpr, r.absent_keys);
      absl::StrAppendFormat(&text, "  proof           %d of the table's %d keys are denied\n",
                            r.denied_keys, r.present_keys);
    }
    std::fputs(text.c_str(), stdout);
  }

  absl::Status FilterKey(const OpenedTable& table) {
    SIEVEDB_ASSIGN_OR_RETURN(const FilterKeyReport r, ReportFilterKey(table, *settings_.probe_key));
    if (settings_.json) {
      Json probes = Json::array();
      for (const auto& probe : r.probes) probes.push_back({{"bit", probe.bit}, {"set", probe.set}});
      Add({{"file", table.path},
           {"key", Show(r.key)},
           {"hash", absl::StrFormat("%016x", r.hash)},
           {"admitted", r.admitted},
           {"really_there", r.really_there},
           {"block", r.block},
           {"probes", probes}});
      return absl::OkStatus();
    }
    std::string text = absl::StrFormat(
        "%s: key %s\n  filter: %s\n  table:  %s\n  hash:   %016x\n", table.path, Show(r.key),
        !r.admitted                         ? "definitely not"
        : table.reader->filter() == nullptr ? "there is none, so maybe"
                                            : "maybe",
        r.really_there ? "it is there" : "it is not there", r.hash);
    if (r.has_blocks) {
      absl::StrAppendFormat(&text, "  block:  %d\n  bits:  ", r.block);
      for (const auto& probe : r.probes) {
        absl::StrAppendFormat(&text, " %d%s", probe.bit, probe.set ? "=1" : "=0");
      }
      text += "\n";
    }
    std::fputs(text.c_str(), stdout);
    return absl::OkStatus();
  }

  struct Drawn {
    std::string path;
    FilterReport report;
    std::vector<int> block_bits;
  };

  const Settings& settings_;
  Json all_ = Json::array();
  // Of --command=filter.
  TablePlaces places_;
  std::vector<PlacedFilter> filters_;
  std::optional<Drawn> drawn_;  // the largest filter so far
  std::vector<std::string> audit_keys_;
  Audit audit_;
};

// A key on the command line: escaped as it is printed, or hex.
absl::Status DecodeKey(const Flags& flags, const char* name, const std::string& text, bool hex,
                       std::optional<std::string>* key) {
  if (!flags.WasGiven(name)) return absl::OkStatus();
  SIEVEDB_ASSIGN_OR_RETURN(*key, hex ? FromHex(text) : Unescape(text));
  return absl::OkStatus();
}

// What is wrong with flags that are each right; empty where nothing is.
std::string WrongCombination(const Flags& flags, const Settings& settings) {
  for (const char* name : {"svg", "audit"}) {
    if (!flags.WasGiven(name)) continue;
    if (settings.command != "filter") {
      return absl::StrFormat("--%s goes with --command=filter", name);
    }
    if (flags.WasGiven("key")) return absl::StrFormat("--%s and --key exclude each other", name);
  }
  if (flags.WasGiven("svg") && settings.svg.empty()) return "--svg: no file is named";
  if (flags.WasGiven("audit") && settings.audit.empty()) return "--audit: no file is named";
  return "";
}

int Main(int argc, char** argv) {
  Settings settings;
  Flags flags("sst_dump", "[flags] FILE|DIR...",
              "Looks into table files: check (footer, index, properties, filter load), scan "
              "(entries), raw (blocks), verify (read and check every block), properties, filter "
              "(what each table's filter and each level's filters promise and do).");
  flags.AddChoice("command", &settings.command,
                  {"check", "scan", "raw", "verify", "properties", "filter"}, "what to do");
  flags.Add("from", &settings.from, "scan: first user key");
  flags.Add("to", &settings.to, "scan: user key to stop before");
  flags.Add("limit", &settings.limit, "scan, raw: at most so many lines a table; 0: all");
  flags.Add("key", &settings.key, "filter: what the filter says of this user key");
  flags.Add("absent_keys", &settings.absent_keys, "filter: random absent keys to measure with");
  flags.Add("svg", &settings.svg, "filter: draw the largest of the tables' filters in this file");
  flags.Add("audit", &settings.audit,
            "filter: ask for the keys in this file, one a line, and check each answer");
  flags.Add("hex", &settings.hex, "keys and values in hexadecimal, given and shown");
  flags.Add("json", &settings.json, "print JSON");
  if (const std::optional<int> exit_code = flags.ParseOrExit(argc, argv)) return *exit_code;
  if (flags.positional().empty()) return ExitUsage("sst_dump", "no FILE or DIR is given");
  absl::Status status = DecodeKey(flags, "from", settings.from, settings.hex, &settings.from_key);
  if (status.ok()) status = DecodeKey(flags, "to", settings.to, settings.hex, &settings.to_key);
  if (status.ok())
    status = DecodeKey(flags, "key", settings.key, settings.hex, &settings.probe_key);
  if (!status.ok()) return ExitUsage("sst_dump", std::string(status.message()));

  if (const std::string wrong = WrongCombination(flags, settings); !wrong.empty()) {
    return ExitUsage("sst_dump", wrong);
  }
  const absl::StatusOr<std::vector<std::string>> files = ListTableFiles(flags.positional());
  if (!files.ok()) return ExitFailure("sst_dump", files.status());
  // A directory stands for its files, so it is not among them.
  settings.by_level = settings.command == "filter" && !settings.probe_key.has_value() &&
                      (files->size() > 1 || *files != flags.positional());
  if (flags.WasGiven("audit")) {
    absl::StatusOr<AuditKeys> keys = ReadAuditKeys(settings.audit, settings.hex);
    if (!keys.ok()) return ExitFailure("sst_dump", keys.status());
    settings.audit_keys = *std::move(keys);
  }
  Dump dump(settings);
  absl::Status first_failure;
  size_t failures = 0;
  for (const std::string& file : *files) {
    const absl::Status result = dump.Run(file);
    if (result.ok()) continue;
    if (files->size() > 1) dump.AddFailure(file, result);
    first_failure.Update(result);
    ++failures;
  }
  const absl::Status finished = dump.Finish();
  if (failures == 0) {
    return finished.ok() ? ExitAfterOutput("sst_dump") : ExitFailure("sst_dump", finished);
  }
  if (files->size() == 1) return ExitFailure("sst_dump", first_failure);
  return ExitFailure("sst_dump",
                     absl::Status(first_failure.code(),
                                  absl::StrFormat("%d of %d tables failed; the first: %s", failures,
                                                  files->size(), first_failure.message())));
}

}  // namespace
}  // namespace sievedb

int main(int argc, char** argv) { return sievedb::Main(argc, argv); }
