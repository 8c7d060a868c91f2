#include "bench/compare_plan.h"

#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "tools/progress.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

std::optional<double> Field(const nlohmann::json& figures, const char* name) {
  const auto field = figures.find(name);
  if (field == figures.end() || !field->is_number()) return std::nullopt;
  return field->get<double>();
}

RoundFigures FromJson(const nlohmann::json& json) {
  RoundFigures figures;
  figures.ops_per_s = Field(json, "ops_per_s").value_or(0);
  figures.p50_ns = Field(json, "p50_ns").value_or(0);
  figures.p99_ns = Field(json, "p99_ns").value_or(0);
  figures.p999_ns = Field(json, "p999_ns").value_or(0);
  figures.max_ns = Field(json, "max_ns").value_or(0);
  figures.syncs_per_put = Field(json, "syncs_per_put");
  if (json.contains("series")) figures.series = LatencySeries::FromJson(json["series"]);
  figures.write_amp = Field(json, "write_amp");
  figures.space_amp = Field(json, "space_amp");
  figures.peak_rss_bytes = Field(json, "peak_rss_bytes").value_or(0);
  return figures;
}

bool CanRun(const EngineKind& kind, std::string_view workload) {
  if (workload == "bulkload") return kind.loads_tables;
  return workload != "memfill" || kind.writes_without_wal;
}

}  // namespace

ComparePlan::ComparePlan(const CompareSettings& settings, std::string directory,
                         CompareReport* report)
    : settings_(settings),
      directory_(std::move(directory)),
      report_(report),
      engines_(settings.Engines()),
      caches_(settings.Caches()) {}

std::string ComparePlan::DirectoryOf(const std::string& engine, const std::string& purpose) const {
  return directory_ + "/" + engine + "-" + purpose;
}

void ComparePlan::Remove(const std::string& directory) const {
  std::error_code ignored;  // what stays is removed with everything at the end
  std::filesystem::remove_all(directory, ignored);
}

absl::Status ComparePlan::Run() {
  SIEVEDB_RETURN_IF_ERROR(RunWrites());

  std::vector<std::string> reads;
  for (const char* workload : {"readrandom", "readmissing", "multiget", "multigetmissing",
                               "seekrandom", "readseq", "readreverse"}) {
    if (settings_.Runs(workload)) reads.push_back(workload);
  }
  // It changes the database, by less for a slow engine than for a fast one: last.
  std::vector<std::string> mixed;
  if (settings_.Runs("readwhilewriting")) mixed.push_back("readwhilewriting");
  if (!reads.empty() || !mixed.empty()) SIEVEDB_RETURN_IF_ERROR(LoadAll());
  if (!reads.empty()) SIEVEDB_RETURN_IF_ERROR(RunReads(reads));
  if (!mixed.empty()) SIEVEDB_RETURN_IF_ERROR(RunReads(mixed));
  for (const EngineKind& kind : engines_) Remove(DirectoryOf(kind.name, "loaded"));

  if (settings_.Runs("open")) SIEVEDB_RETURN_IF_ERROR(RunOpen());
  return absl::OkStatus();
}

absl::Status ComparePlan::RunWrites() {
  // fillrandom and overwrite share a database: the one leaves what the other begins with.
  for (const std::vector<std::string>& group :
       std::vector<std::vector<std::string>>{{"fillseq"},
                                             {"bulkload"},
                                             {"fillsync"},
                                             {"memfill", "memread", "memmissing"},
                                             {"fillrandom", "overwrite"}}) {
    std::vector<std::string> wanted;
    std::string label;
    for (const std::string& workload : group) {
      if (!settings_.Runs(workload)) continue;
      wanted.push_back(workload);
      label += (label.empty() ? "" : ", ") + workload;
    }
    if (wanted.empty()) continue;
    ProgressBar progress(label, static_cast<uint64_t>(settings_.rounds) * engines_.size());
    for (int round = 0; round < settings_.rounds; ++round) {
      for (size_t position = 0; position < engines_.size(); ++position) {
        const EngineKind& kind = engines_[EngineAt(position, round)];
        if (CanRun(kind, group.front())) {
          SIEVEDB_RETURN_IF_ERROR(RunWriteRound(kind, wanted, round));
        }
        progress.Advance(1);
      }
    }
  }
  return absl::OkStatus();
}

absl::Status ComparePlan::RunWriteRound(const EngineKind& kind,
                                        const std::vector<std::string>& workloads, int round) {
  const std::string directory = DirectoryOf(kind.name, "written");
  const CacheSetting& cache = caches_.front();
  SIEVEDB_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::Start(kind, settings_));
  const std::string& first = workloads.front();
  const bool in_memtable = first.starts_with("mem");
  SIEVEDB_RETURN_IF_ERROR(session
                              ->Do({{"do", "open"},
                                    {"directory", directory},
                                    {"cache_bytes", cache.bytes},
                                    {"one_memtable", in_memtable}})
                              .status());
  // What the first one needs, where the workload that would make it is not asked for.
  if (first == "overwrite") {
    SIEVEDB_RETURN_IF_ERROR(session->Do({{"do", "load"}}).status());
  } else if (in_memtable && first != "memfill") {
    SIEVEDB_RETURN_IF_ERROR(
        session->Do({{"do", "run"}, {"workload", "memfill"}, {"round", round}}).status());
  }
  for (const std::string& workload : workloads) {
    SIEVEDB_RETURN_IF_ERROR(RunOne(session.get(), workload, cache.name, round));
  }
  SIEVEDB_RETURN_IF_ERROR(session->Do({{"do", "close"}}).status());
  Remove(directory);
  return absl::OkStatus();
}

absl::Status ComparePlan::LoadAll() {
  ProgressBar progress("load", engines_.size());
  for (const EngineKind& kind : engines_) {
    SIEVEDB_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                             Session::Start(kind, settings_));
    SIEVEDB_RETURN_IF_ERROR(session
                                ->Do({{"do", "open"},
                                      {"directory", DirectoryOf(kind.name, "loaded")},
                                      {"cache_bytes", caches_.front().bytes}})
                                .status());
    SIEVEDB_ASSIGN_OR_RETURN(load_figures_[kind.name], session->Do({{"do", "load"}}));
    SIEVEDB_RETURN_IF_ERROR(session->Do({{"do", "close"}}).status());
    progress.Advance(1);
  }
  return absl::OkStatus();
}

absl::Status ComparePlan::RunReads(const std::vector<std::string>& workloads) {
  for (const CacheSetting& cache : caches_) {
    Sessions sessions;
    for (const EngineKind& kind : engines_) {
      SIEVEDB_ASSIGN_OR_RETURN(sessions.emplace_back(), Session::Start(kind, settings_));
      SIEVEDB_RETURN_IF_ERROR(sessions.back()
                                  ->Do({{"do", "open"},
                                        {"directory", DirectoryOf(kind.name, "loaded")},
                                        {"cache_bytes", cache.bytes}})
                                  .status());
      if (cache.holds_all) {
        SIEVEDB_RETURN_IF_ERROR(sessions.back()->Do({{"do", "warm"}}).status());
      }
    }
    for (const std::string& workload : workloads) {
      SIEVEDB_RETURN_IF_ERROR(RunRounds(sessions, workload, cache.name));
    }
    for (const std::unique_ptr<Session>& session : sessions) {
      SIEVEDB_RETURN_IF_ERROR(session->Do({{"do", "close"}}).status());
    }
  }
  return absl::OkStatus();
}

absl::Status ComparePlan::RunOpen() {
  const CacheSetting& cache = caches_.front();
  Sessions sessions;
  for (const EngineKind& kind : engines_) {
    SIEVEDB_ASSIGN_OR_RETURN(sessions.emplace_back(), Session::Start(kind, settings_));
    Session* const session = sessions.back().get();
    SIEVEDB_RETURN_IF_ERROR(session
                                ->Do({{"do", "open"},
                                      {"directory", DirectoryOf(kind.name, "tables")},
                                      {"cache_bytes", cache.bytes},
                                      {"small_tables", true}})
                                .status());
    SIEVEDB_ASSIGN_OR_RETURN(const nlohmann::json figures, session->Do({{"do", "load_tables"}}));
    report_->NoteOpenTables(kind.name, figures.value("tables", uint64_t{0}));
  }
  return RunRounds(sessions, "open", cache.name);
}

absl::Status ComparePlan::RunRounds(const Sessions& sessions, const std::string& workload,
                                    const std::string& cache) {
  ProgressBar progress(workload + ", cache " + cache,
                       static_cast<uint64_t>(settings_.rounds) * sessions.size());
  for (int round = 0; round < settings_.rounds; ++round) {
    for (size_t position = 0; position < sessions.size(); ++position) {
      SIEVEDB_RETURN_IF_ERROR(
          RunOne(sessions[EngineAt(position, round)].get(), workload, cache, round));
      progress.Advance(1);
    }
  }
  return absl::OkStatus();
}

absl::Status ComparePlan::RunOne(Session* session, const std::string& workload,
                                 const std::string& cache, int round) {
  SIEVEDB_ASSIGN_OR_RETURN(const nlohmann::json json,
                           session->Do({{"do", "run"}, {"workload", workload}, {"round", round}}));
  RoundFigures figures = FromJson(json);
  // Reads have the amplification of the database that they read.
  const auto loaded = load_figures_.find(session->engine());
  if (loaded != load_figures_.end() && workload != "open") {
    figures.write_amp = Field(loaded->second, "write_amp");
    figures.space_amp = Field(loaded->second, "space_amp");
  }
  report_->Add(workload, cache, session->engine(), figures);
  if (const std::optional<double> quiesced = Field(json, "quiesced_ops_per_s");
      quiesced.has_value() && (workload == "fillrandom" || workload == "overwrite")) {
    figures.ops_per_s = *quiesced;
    figures.series.clear();
    report_->Add(workload + "_quiesced", cache, session->engine(), figures);
  }
  return absl::OkStatus();
}

}  // namespace sievedb
