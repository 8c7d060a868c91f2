#include "db/version_builder.h"

#include <algorithm>

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
  for (const auto& [level, file] : edit.added_files) {
    if (!added_.try_emplace(file->number, Added{level, file}).second) {
      return absl::DataLossError(absl::StrFormat(
          "table %d is added to level %d, but is there already", file->number, level));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const Version>> VersionBuilder::Build() {
  auto version = std::make_shared<Version>(base_.order_, base_.opener_);
  dropped_.clear();
  size_t found = 0;
  for (int level = 0; level < kNumLevels; ++level) {
    std::vector<FileRef>& files = version->levels_[level].files;
    files.reserve(base_.levels_[level].files.size() + added_.size());
    for (const FileRef& file : base_.levels_[level].files) {
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
        files.push_back(file);
      }
    }
  }
  if (found != removed_.size()) {
    return absl::DataLossError(absl::StrFormat("%d tables are removed, of which only %d are there",
                                               removed_.size(), found));
  }
  for (const auto& [number, added] : added_) {
    version->levels_[added.level].files.push_back(added.file);
  }
  for (int level = 0; level < kNumLevels; ++level) {
    std::vector<FileRef>& files = version->levels_[level].files;
    if (level == 0) {
      std::sort(files.begin(), files.end(), [](const FileRef& a, const FileRef& b) {
        return std::pair(a->largest_sequence, a->number) >
               std::pair(b->largest_sequence, b->number);
      });
    } else {
      std::sort(files.begin(), files.end(), [this](const FileRef& a, const FileRef& b) {
        return base_.order_.Compare(a->smallest, b->smallest) < 0;
      });
    }
    SIEVEDB_RETURN_IF_ERROR(CheckLevel(level, files));
  }
  version->FinishLevels();
  return version;
}

absl::Status VersionBuilder::CheckLevel(int level, const std::vector<FileRef>& files) const {
  const InternalKeyOrder& order = base_.order_;
  for (size_t i = 0; i < files.size(); ++i) {
    const FileMeta& file = *files[i];
    if (order.Compare(file.smallest, file.largest) > 0) {
      return absl::DataLossError(absl::StrFormat(
          "table %d of level %d has its smallest key %s after its largest %s", file.number, level,
          Escape(UserKey(file.smallest)), Escape(UserKey(file.largest))));
    }
    if (level == 0 || i == 0) continue;
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
