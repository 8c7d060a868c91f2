// What a first user writes: opens a database, writes, reads, scans. Exits 0 if
// all of it worked. Takes the directory of the database.

#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sievedb/db.h"
#include "sievedb/filter.h"
#include "sievedb/iterator.h"
#include "sievedb/options.h"
#include "sievedb/sst_file_writer.h"
#include "sievedb/version.h"

namespace {

int Fail(const std::string& what) {
  std::fprintf(stderr, "consumer: %s\n", what.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return Fail("usage: consumer DIRECTORY");
  absl::StatusOr<std::unique_ptr<sievedb::DB>> opened =
      sievedb::DB::Open(sievedb::Options(), argv[1]);
  if (!opened.ok()) return Fail(opened.status().ToString());
  const std::unique_ptr<sievedb::DB> db = std::move(*opened);

  for (int i = 0; i < 1000; ++i) {
    const std::string number = std::to_string(i);
    const absl::Status put = db->Put(sievedb::WriteOptions(), "key" + number, "value" + number);
    if (!put.ok()) return Fail(put.ToString());
  }
  if (absl::Status flushed = db->Flush(sievedb::FlushOptions()); !flushed.ok()) {
    return Fail(flushed.ToString());
  }

  std::string value;
  if (absl::Status got = db->Get(sievedb::ReadOptions(), "key42", &value); !got.ok()) {
    return Fail(got.ToString());
  }
  if (value != "value42") return Fail("key42 holds " + value);
  if (!absl::IsNotFound(db->Get(sievedb::ReadOptions(), "key4200", &value))) {
    return Fail("an absent key was found");
  }

  int entries = 0;
  const std::unique_ptr<sievedb::Iterator> it = db->NewIterator(sievedb::ReadOptions());
  for (it->SeekToFirst(); it->Valid(); it->Next()) ++entries;
  if (!it->status().ok()) return Fail(it->status().ToString());
  if (entries != 1000) return Fail("scanned " + std::to_string(entries) + " entries");

  const std::string table = std::string(argv[1]) + ".table";
  sievedb::SstFileWriter writer((sievedb::Options()));
  absl::Status made = writer.Open(table);
  made.Update(writer.Put("loaded", "from a table"));
  made.Update(writer.Finish().status());
  made.Update(db->IngestExternalFiles({table}, sievedb::IngestOptions()));
  made.Update(sievedb::PosixFileSystem()->DeleteFile(table));
  made.Update(db->Get(sievedb::ReadOptions(), "loaded", &value));
  if (!made.ok()) return Fail(made.ToString());
  if (value != "from a table") return Fail("loaded holds " + value);

  if (sievedb::FilterSizing::OptimalBits(1000000, 0.01) != 9585059) {
    return Fail("FilterSizing::OptimalBits is wrong");
  }
  std::printf("SieveDB %d.%d.%d works\n", SIEVEDB_VERSION_MAJOR, SIEVEDB_VERSION_MINOR,
              SIEVEDB_VERSION_PATCH);
  return 0;
}
