// load, dump and probe: what the `sievedb` program does with files of records.

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"
#include "tools/external_table_files.h"
#include "tools/progress.h"
#include "tools/record_file.h"
#include "tools/shell_commands.h"
#include "util/clock.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

// Calls fn(record, number of its line) for each record of a file, with a progress bar on a
// terminal.
template <typename Fn>
absl::Status ForEachRecord(const ShellSettings& settings, const std::string& path,
                           std::string_view label, Fn fn) {
  SIEVEDB_ASSIGN_OR_RETURN(const auto reader, LineReader::Open(path));
  ProgressBar bar(label, reader->total_bytes());
  RecordFormat format = settings.format == "json" ? RecordFormat::kJsonLines : RecordFormat::kTsv;
  bool guess = settings.format == "auto";
  while (true) {
    SIEVEDB_ASSIGN_OR_RETURN(const std::optional<std::string_view> line, reader->Next());
    if (!line.has_value()) break;
    if (line->empty()) continue;
    if (std::exchange(guess, false)) format = GuessFormat(*line);
    absl::StatusOr<Record> record = ParseRecord(format, *line);
    if (!record.ok()) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "%s: line %d: %s", path, reader->line_number(), record.status().message()));
    }
    SIEVEDB_RETURN_IF_ERROR(fn(*std::move(record), reader->line_number()));
    if (reader->line_number() % 256 == 0) bar.Set(reader->bytes_read());
  }
  bar.Finish();
  return absl::OkStatus();
}

// A batch of large records is written before --batch_size of them are together.
constexpr size_t kMaxBatchBytes = 4 << 20;

double Seconds(uint64_t start_micros) {
  return static_cast<double>(NowMicros() - start_micros) / 1e6;
}

// Sorted records go past the memtable: they are written once, as tables, which are added
// when the last of them is there.
absl::Status LoadSortedRecords(DB* db, const ShellSettings& settings, const std::string& path) {
  const uint64_t start_micros = NowMicros();
  const Options options = settings.DbOptions();
  ExternalTableFiles files(options, settings.db, /*number=*/0);
  uint64_t records = 0;
  uint64_t bytes = 0;
  std::string last_key;
  const auto one = [&](Record record, uint64_t line) -> absl::Status {
    if (records > 0 && options.comparator->Compare(last_key, record.key) >= 0) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "%s: line %d: not sorted: key \"%s\" is not after \"%s\", the one before it; nothing is "
          "loaded (leave out --sorted)",
          path, line, ShowBytes(settings, record.key), ShowBytes(settings, last_key)));
    }
    SIEVEDB_RETURN_IF_ERROR(files.Put(record.key, record.value));
    ++records;
    bytes += record.key.size() + record.value.size();
    last_key = std::move(record.key);
    return absl::OkStatus();
  };
  SIEVEDB_RETURN_IF_ERROR(ForEachRecord(settings, path, "load", one));
  SIEVEDB_RETURN_IF_ERROR(files.Ingest(db));
  std::printf("%s", absl::StrFormat("loaded %d records, %d bytes, as %d tables in %.2f s\n",
                                    records, bytes, files.tables(), Seconds(start_micros))
                        .c_str());
  return absl::OkStatus();
}

}  // namespace

absl::Status LoadRecords(DB* db, const ShellSettings& settings,
                         const std::vector<std::string>& arguments) {
  if (settings.sorted) return LoadSortedRecords(db, settings, arguments[0]);
  const uint64_t start_micros = NowMicros();
  uint64_t records = 0;
  uint64_t bytes = 0;
  WriteBatch batch;
  SIEVEDB_RETURN_IF_ERROR(
      ForEachRecord(settings, arguments[0], "load", [&](const Record& record, uint64_t) {
        batch.Put(record.key, record.value);
        ++records;
        bytes += record.key.size() + record.value.size();
        if (batch.Count() < settings.batch_size && batch.ByteSize() < kMaxBatchBytes) {
          return absl::OkStatus();
        }
        const absl::Status status = db->Write(WriteOptions(), &batch);
        batch.Clear();
        return status;
      }));
  SIEVEDB_RETURN_IF_ERROR(db->Write(WriteOptions(), &batch));
  SIEVEDB_RETURN_IF_ERROR(db->Flush(FlushOptions()));
  std::printf("%s", absl::StrFormat("loaded %d records, %d bytes, in %.2f s\n", records, bytes,
                                    Seconds(start_micros))
                        .c_str());
  return absl::OkStatus();
}

absl::Status DumpRecords(DB* db, const ShellSettings& settings,
                         const std::vector<std::string>& arguments) {
  ReadOptions options;
  SIEVEDB_RETURN_IF_ERROR(SetBounds(settings, &options));
  const bool to_file = !arguments.empty() && arguments[0] != "-";
  std::FILE* const out = to_file ? std::fopen(arguments[0].c_str(), "we") : stdout;
  if (out == nullptr) {
    return absl::UnavailableError("open " + arguments[0] + ": " + std::strerror(errno));
  }
  const RecordFormat format =
      settings.format == "json" || settings.json ? RecordFormat::kJsonLines : RecordFormat::kTsv;
  const auto it = db->NewIterator(options);
  uint64_t shown = 0;
  int write_error = 0;
  for (it->SeekToFirst();
       it->Valid() && write_error == 0 && (settings.limit == 0 || shown < settings.limit);
       it->Next(), ++shown) {
    const std::string line = FormatRecord(format, it->key(), it->value()) + "\n";
    if (std::fwrite(line.data(), 1, line.size(), out) != line.size()) write_error = errno;
  }
  absl::Status status = it->status();
  if (std::fflush(out) != 0 && write_error == 0) write_error = errno;
  if (to_file && std::fclose(out) != 0 && write_error == 0) write_error = errno;
  if (write_error != 0) {
    status.Update(absl::UnavailableError(absl::StrFormat(
        "write %s: %s", to_file ? arguments[0] : "standard output", std::strerror(write_error))));
  }
  return status;
}

absl::Status ProbeRecords(DB* db, const ShellSettings& settings,
                          const std::vector<std::string>& arguments) {
  uint64_t records = 0;
  uint64_t overwritten = 0;
  uint64_t absent = 0;
  PinnedValue value;
  const auto one = [&](Record record, uint64_t) -> absl::Status {
    ++records;
    const absl::Status present = db->Get(ReadOptions(), record.key, &value);
    if (!present.ok()) {
      return absl::Status(present.code(), "reading back " + ShowBytes(settings, record.key) + ": " +
                                              std::string(present.message()));
    }
    // A later record of the same key may have replaced it.
    if (value.view() != record.value) ++overwritten;
    // Falls between this key and the next one.
    record.key += "\x01?";
    const absl::Status missing = db->Get(ReadOptions(), record.key, &value);
    if (missing.code() != absl::StatusCode::kNotFound) return missing;
    ++absent;
    return absl::OkStatus();
  };
  const uint64_t start_micros = NowMicros();
  SIEVEDB_RETURN_IF_ERROR(ForEachRecord(settings, arguments[0], "probe", one));
  const double seconds = Seconds(start_micros);
  std::string text = absl::StrFormat(
      "read back %d records (%d of them with another value by now) and asked for as many absent "
      "keys (%d were not there) in %.2f s\n",
      records, overwritten, absent, seconds);
  text += "\n" + db->GetProperty("sievedb.filters").value_or("");
  std::fputs(text.c_str(), stdout);
  return absl::OkStatus();
}

}  // namespace sievedb
