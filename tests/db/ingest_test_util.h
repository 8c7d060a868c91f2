#ifndef SIEVEDB_TESTS_DB_INGEST_TEST_UTIL_H_
#define SIEVEDB_TESTS_DB_INGEST_TEST_UTIL_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "sievedb/sst_file_writer.h"
#include "tests/db/db_test_util.h"
#include "util/mutex.h"

namespace sievedb {

class IngestListener final : public EventListener {
 public:
  void OnIngestCompleted(const IngestEvent& event) override {
    const MutexLock lock(&mu_);
    events_.push_back(event);
  }
  std::vector<IngestEvent> Take() {
    const MutexLock lock(&mu_);
    return std::exchange(events_, {});
  }

 private:
  Mutex mu_;
  std::vector<IngestEvent> events_ ABSL_GUARDED_BY(mu_);
};

class IngestTest : public DBTest {
 protected:
  IngestTest() {
    options_.disable_auto_compaction = true;
    options_.listeners = {listener_};
  }

  // Keys first to last - 1 with the value "text N".
  void MakeTable(const std::string& path, int first, int last, const std::string& text) {
    SstFileWriter writer(options_);
    ASSERT_TRUE(writer.Open(path).ok());
    for (int i = first; i < last; ++i) {
      ASSERT_TRUE(writer.Put(Key(i), text + " " + std::to_string(i)).ok());
    }
    const absl::StatusOr<ExternalTableInfo> info = writer.Finish();
    ASSERT_TRUE(info.ok()) << info.status();
  }

  absl::Status Ingest(const std::vector<std::string>& files,
                      const IngestOptions& options = IngestOptions()) {
    return db_->IngestExternalFiles(files, options);
  }

  // The level of the one table that the last call added.
  int LastLevel() {
    const std::vector<IngestEvent> events = listener_->Take();
    if (events.empty() || events.back().tables.size() != 1) return -1;
    return events.back().tables[0].level;
  }

  void ExpectRefused(const std::vector<std::string>& files, absl::StatusCode code,
                     const std::string& text, const IngestOptions& options = IngestOptions()) {
    const std::vector<std::string> before = FilesEndingWith(".sst");
    const std::string scan = Scan();
    const uint64_t sequence = db_->LatestSequence();
    const absl::Status status = Ingest(files, options);
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_NE(status.message().find(text), absl::string_view::npos) << status;
    EXPECT_EQ(FilesEndingWith(".sst"), before) << "a file is left";
    EXPECT_EQ(Scan(), scan);
    EXPECT_EQ(db_->LatestSequence(), sequence);
    EXPECT_TRUE(Put("still", "writable").ok());
    EXPECT_TRUE(Delete("still").ok());
  }

  const std::shared_ptr<IngestListener> listener_ = std::make_shared<IngestListener>();
};

}  // namespace sievedb

#endif  // SIEVEDB_TESTS_DB_INGEST_TEST_UTIL_H_
