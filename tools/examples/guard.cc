#include "tools/examples/guard.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "sievedb/file_system.h"
#include "tools/key_value_generator.h"
#include "util/clock.h"
#include "util/coding.h"
#include "util/file_util.h"
#include "util/status_macros.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace sievedb {
namespace {

constexpr size_t kBatch = 64;

// Lookups that are asked in one way before it is the other's turn: long enough for
// the clock, short enough that a busy moment of the machine meets both.
constexpr size_t kStretch = size_t{1} << 14;

// Between two lookups a server does something else. Without it the CPU would guess an
// answer and be far into the next lookups before this one's line came.
inline void FinishAnswer() {
#if defined(__x86_64__)
  _mm_lfence();
#endif
}

template <typename FilterClass>
absl::StatusOr<std::unique_ptr<const Filter>> Owned(absl::StatusOr<FilterClass> filter) {
  SIEVEDB_RETURN_IF_ERROR(filter.status());
  return std::make_unique<const FilterClass>(*std::move(filter));
}

// For the classes that keys are added to.
template <typename FilterClass>
absl::StatusOr<std::unique_ptr<const Filter>> Filled(absl::StatusOr<FilterClass> filter,
                                                     const std::vector<uint64_t>& hashes) {
  if (filter.ok()) filter->AddManyHashes(hashes);
  return Owned(std::move(filter));
}

absl::StatusOr<std::unique_ptr<const Filter>> BuildFilter(const std::string& kind,
                                                          const std::vector<uint64_t>& hashes,
                                                          double fpr) {
  const FilterSizing sizing = FilterSizing::ForRate(hashes.size(), fpr);
  if (kind == "dense") return Owned(BlockedBloomFilter::CreateDense(sizing, hashes));
  if (kind == "bloom") return Filled(BloomFilter::Create(sizing), hashes);
  if (kind == "ribbon") return Owned(RibbonFilter::Create(sizing, hashes));
  if (kind == "fuse") return Owned(BinaryFuseFilter::Create(hashes));
  assert(kind == "blocked");
  return Filled(BlockedBloomFilter::Create(sizing), hashes);
}

// A file's bytes, at the start of a page; shared by all processes that map it.
class MappedFile {
 public:
  static absl::StatusOr<std::shared_ptr<const MappedFile>> Open(const std::string& path) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return absl::ErrnoToStatus(errno, "opening " + path);
    struct stat info = {};
    absl::Status status;
    void* data = MAP_FAILED;
    if (fstat(file, &info) != 0) {
      status = absl::ErrnoToStatus(errno, "looking at " + path);
    } else if (!S_ISREG(info.st_mode) || info.st_size == 0) {
      status = absl::DataLossError(path + ": expected a filter, found no bytes");
    } else {
      data = mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_SHARED, file, 0);
      if (data == MAP_FAILED) status = absl::ErrnoToStatus(errno, "mapping " + path);
    }
    close(file);
    if (!status.ok()) return status;
    return std::make_shared<const MappedFile>(data, static_cast<size_t>(info.st_size));
  }

  MappedFile(void* data, size_t size) : data_(data), size_(size) {}
  ~MappedFile() { munmap(data_, size_); }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::string_view bytes() const { return {static_cast<const char*>(data_), size_}; }

 private:
  void* const data_;
  const size_t size_;
};

// A lookup of the stream.
struct Lookup {
  uint64_t hash;
  bool present;
};

void Count(const Lookup& lookup, bool maybe, DayReport* report) {
  report->absent += lookup.present ? 0 : 1;
  report->turned_away += maybe ? 0 : 1;
  report->false_positives += maybe && !lookup.present ? 1 : 0;
  report->wrongly_turned_away += !maybe && lookup.present ? 1 : 0;
}

double SecondsSince(uint64_t start) { return static_cast<double>(NowNanos() - start) / 1e9; }

// Asks for the ids of one stretch; the clock runs for the filter's work alone.
void AskStretch(const Guard& guard, const std::vector<Lookup>& lookups, bool batched,
                DayReport* report) {
  std::vector<uint64_t> hashes;
  for (const Lookup& lookup : lookups) hashes.push_back(lookup.hash);
  const auto answers = std::make_unique<bool[]>(hashes.size());
  const uint64_t start = NowNanos();
  if (batched) {
    for (size_t at = 0; at < hashes.size(); at += kBatch) {
      const size_t n = std::min(kBatch, hashes.size() - at);
      guard.MayContainMany(absl::MakeConstSpan(hashes).subspan(at, n), {answers.get() + at, n});
    }
    report->batched_seconds += SecondsSince(start);
    report->batched += hashes.size();
  } else {
    for (size_t i = 0; i < hashes.size(); ++i) {
      answers[i] = guard.MayContain(hashes[i]);
      FinishAnswer();
    }
    report->single_seconds += SecondsSince(start);
    report->single += hashes.size();
  }
  for (size_t i = 0; i < lookups.size(); ++i) Count(lookups[i], answers[i], report);
  report->lookups += lookups.size();
}

}  // namespace

IdSpace::IdSpace(uint64_t seed) : offset_(BenchRandom::Mix(seed + 1)) {}

uint64_t IdSpace::HashOf(uint64_t number) const {
  // Mix is a bijection, so ids differ where their numbers do.
  char id[sizeof(uint64_t)];
  EncodeFixed64(id, BenchRandom::Mix(offset_ + number));
  return FilterHash({id, sizeof(id)});
}

absl::StatusOr<Guard> Guard::Build(const std::string& kind, const IdSpace& space, uint64_t ids,
                                   double fpr) {
  std::vector<uint64_t> hashes(ids);
  for (uint64_t i = 0; i < ids; ++i) hashes[i] = space.HashOf(i);
  Guard guard;
  SIEVEDB_ASSIGN_OR_RETURN(guard.built_, BuildFilter(kind, hashes, fpr));
  return guard;
}

absl::StatusOr<Guard> Guard::Map(const std::string& path) {
  SIEVEDB_ASSIGN_OR_RETURN(const std::shared_ptr<const MappedFile> file, MappedFile::Open(path));
  absl::StatusOr<std::unique_ptr<FilterReader>> reader = OpenFilter(file->bytes());
  if (!reader.ok()) {
    return absl::Status(reader.status().code(),
                        absl::StrFormat("%s: %s", path, reader.status().message()));
  }
  Guard guard;
  guard.mapping_ = file;
  guard.mapped_ = *std::move(reader);
  return guard;
}

absl::Status Guard::Save(const std::string& path) const {
  assert(built_ != nullptr);
  const size_t slash = path.rfind('/');
  const bool here = slash == std::string::npos;
  return WriteFileAtomically(PosixFileSystem().get(), here ? "." : path.substr(0, slash + 1),
                             here ? path : path.substr(slash + 1), built_->Serialize());
}

void Guard::MayContainMany(absl::Span<const uint64_t> hashes, absl::Span<bool> results) const {
  if (built_ != nullptr) {
    built_->ContainsManyHashes(hashes, results);
  } else {
    mapped_->MayContainMany(hashes, results);
  }
}

FilterFigures Guard::Figures() const {
  return built_ != nullptr ? built_->Figures() : mapped_->Figures();
}

size_t Guard::MemoryBytes() const {
  return built_ != nullptr ? built_->MemoryBytes() : mapped_->MemoryBytes();
}

ObservedShare ObservedShare::Of(uint64_t hits, uint64_t trials) {
  ObservedShare observed;
  if (trials == 0) return observed;
  constexpr double kZ = 1.959964;  // of the normal distribution, for 95 %
  const auto n = static_cast<double>(trials);
  observed.share = static_cast<double>(hits) / n;
  const double center = observed.share + kZ * kZ / (2 * n);
  const double half =
      kZ * std::sqrt(observed.share * (1 - observed.share) / n + kZ * kZ / (4 * n * n));
  observed.low = std::max(0.0, (center - half) / (1 + kZ * kZ / n));
  observed.high = std::min(1.0, (center + half) / (1 + kZ * kZ / n));
  return observed;
}

void DayReport::Add(const DayReport& other) {
  lookups += other.lookups;
  absent += other.absent;
  turned_away += other.turned_away;
  false_positives += other.false_positives;
  wrongly_turned_away += other.wrongly_turned_away;
  batched += other.batched;
  single += other.single;
  batched_seconds += other.batched_seconds;
  single_seconds += other.single_seconds;
}

DayReport RunDay(const Guard& guard, const IdSpace& space, const StreamSettings& settings,
                 uint64_t day) {
  DayReport report;
  BenchRandom random(BenchRandom::Mix(settings.seed) + day);
  // Numbers behind the ids that are there, each used once.
  uint64_t next_absent = settings.ids + day * settings.lookups;
  std::vector<Lookup> stretch;
  while (report.lookups < settings.lookups) {
    // Both ways see some of the stream, however short it is.
    const uint64_t least = std::max<uint64_t>(1, settings.lookups / 2);
    const uint64_t length =
        std::min({uint64_t{kStretch}, least, settings.lookups - report.lookups});
    stretch.clear();
    for (uint64_t i = 0; i < length; ++i) {
      const double draw = std::ldexp(static_cast<double>(random.Next() >> 11), -53);
      const bool present = draw >= settings.absent;
      stretch.push_back(
          {space.HashOf(present ? random.Uniform(settings.ids) : next_absent++), present});
    }
    AskStretch(guard, stretch, report.batched <= report.single, &report);
  }
  return report;
}

uint64_t CountDenied(const Guard& guard, const IdSpace& space, uint64_t ids) {
  uint64_t denied = 0;
  std::array<uint64_t, kBatch> hashes;
  std::array<bool, kBatch> answers;
  for (uint64_t begin = 0; begin < ids; begin += kBatch) {
    const size_t n = static_cast<size_t>(std::min<uint64_t>(kBatch, ids - begin));
    for (size_t i = 0; i < n; ++i) hashes[i] = space.HashOf(begin + i);
    guard.MayContainMany({hashes.data(), n}, {answers.data(), n});
    denied += static_cast<uint64_t>(std::count(answers.begin(), answers.begin() + n, false));
  }
  return denied;
}

}  // namespace sievedb
