#include "db/version_builder.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_format.h"
#include "util/escape.h"
#include "util/status_macros.h"

namespace sievedb {

absl::Status VersionBuilder::Add(const VersionEdit& edit) {
  for (const auto& [level, number] : edit.removed_files) {
    const auto it = added_.find(number);
    if (it != added_.end() && it->second.level == level) {
      added_.erase(it);
    } else if (!removed_.emplace(level, number).second) {
      return absl::DataLossError(
          absl::StrFormat("table %d is removed from level %d twice", number, level));
    }
  }
  for (const AddedFile& added : edit.added_files) {
    const uint64_t number = added.file->number;
    if (!added_.try_emplace(number, Added{added.level, added.run, added.file}).second) {
      return absl::DataLossError(absl::StrFormat(
          "table %d is added to level %d, but is there already", number, added.level));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const Version>> VersionBuilder::Build() {
  auto version = std::make_shared<Version>(base_.order_, base_.opener_);
  dropped_.clear();
  size_t found = 0;
  std::array<std::vector<RunTable>, kNumLevels> tables;
  for (int level = 0; level < kNumLevels; ++level) {
    tables[level].reserve(base_.files(level).size() + added_.size());
    for (const Version::Run& run : base_.runs(level)) {
      for (const FileRef& file : base_.files(level, run)) {
        const bool is_removed = !removed_.empty() && removed_.contains({level, file->number});
        const auto added = added_.find(file->number);
        if (is_removed) {
          ++found;
          if (added == added_.end()) {
            dropped_.push_back(file);
          } else {
            // It changes its level. The object stays: it has the open table, and
            // only one object may own the file.
            added->second.file = file;
          }
        } else if (added != added_.end()) {
          return absl::DataLossError(
              absl::StrFormat("table %d is added to level %d, but is there already in level %d",
                              file->number, added->second.level, level));
        } else {
          tables[level].push_back({run.number, file});
        }
      }
    }
  }
  if (found != removed_.size()) {
    return absl::DataLossError(absl::StrFormat("%d tables are removed, of which only %d are there",
                                               removed_.size(), found));
  }
  for (const auto& [number, added] : added_) {
    tables[added.level].push_back({added.run, added.file});
  }
  for (int level = 0; level < kNumLevels; ++level) {
    SIEVEDB_RETURN_IF_ERROR(FillLevel(level, std::move(tables[level]), version.get()));
  }
  version->FinishLevels();
  return version;
}

absl::Status VersionBuilder::FillLevel(int level, std::vector<RunTable> tables,
                                       Version* version) const {
  if (level == 0) {
    std::sort(tables.begin(), tables.end(), [](const RunTable& a, const RunTable& b) {
      return std::pair(a.file->largest_sequence, a.file->number) >
             std::pair(b.file->largest_sequence, b.file->number);
    });
  } else {
    std::sort(tables.begin(), tables.end(), [this](const RunTable& a, const RunTable& b) {
      return a.run != b.run ? a.run > b.run
                            : base_.order_.Compare(a.file->smallest, b.file->smallest) < 0;
    });
  }
  Version::Level& to = version->levels_[level];
  to.files.reserve(tables.size());
  for (const RunTable& table : tables) {
    if (level == 0 || to.runs.empty() || to.runs.back().number != table.run) {
      to.runs.push_back({table.run, to.files.size(), to.files.size(), 0});
    }
    to.files.push_back(table.file);
    ++to.runs.back().end;
    to.runs.back().bytes += table.file->file_bytes;
  }
  for (const Version::Run& run : to.runs) {
    SIEVEDB_RETURN_IF_ERROR(CheckRun(level, version->files(level, run)));
  }
  return absl::OkStatus();
}

absl::Status VersionBuilder::CheckRun(int level, absl::Span<const FileRef> files) const {
  const InternalKeyOrder& order = base_.order_;
  for (size_t i = 0; i < files.size(); ++i) {
    const FileMeta& file = *files[i];
    if (order.Compare(file.smallest, file.largest) > 0) {
      return absl::DataLossError(absl::StrFormat(
          "table %d of level %d has its smallest key %s after its largest %s", file.number, level,
          Escape(UserKey(file.smallest)), Escape(UserKey(file.largest))));
    }
    if (i == 0) continue;
    const FileMeta& before = *files[i - 1];
    const int r = order.user().Compare(UserKey(before.largest), UserKey(file.smallest));
    if (r > 0 || (r == 0 && !before.largest_is_outside())) {
      return absl::DataLossError(absl::StrFormat(
          "tables %d and %d of level %d overlap: %s is not before %s", before.number, file.number,
          level, Escape(UserKey(before.largest)), Escape(UserKey(file.smallest))));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const Version>> Version::Apply(const Version& base,
                                                              const VersionEdit& edit) {
  VersionBuilder builder(base);
  SIEVEDB_RETURN_IF_ERROR(builder.Add(edit));
  return builder.Build();
}

}  // namespace sievedb
