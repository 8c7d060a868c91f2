#include "bench/compare_process.h"

#include <malloc.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/strings/str_format.h"
#include "bench/compare_worker.h"

namespace sievedb {
namespace {

// The number behind "name" in a file of lines "name: number …".
std::optional<uint64_t> NumberInFile(const char* path, const std::string& name) {
  std::ifstream file(path);
  std::string word;
  uint64_t number = 0;
  while (file >> word) {
    if (word == name && file >> number) return number;
  }
  return std::nullopt;
}

std::string LineInFile(const char* path, std::string_view name) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos || std::string_view(line).substr(0, name.size()) != name)
      continue;
    return line.substr(line.find_first_not_of(" \t", colon + 1));
  }
  return "";
}

bool WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

// The next line of fd. False at its end.
bool ReadLine(int fd, std::string* buffered, std::string* line) {
  for (;;) {
    const size_t end = buffered->find('\n');
    if (end != std::string::npos) {
      *line = buffered->substr(0, end);
      buffered->erase(0, end + 1);
      return true;
    }
    char bytes[4096];
    const ssize_t count = read(fd, bytes, sizeof(bytes));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    buffered->append(bytes, static_cast<size_t>(count));
  }
}

// The life of a session's process.
void ServeCommands(const EngineKind& kind, const CompareSettings& settings, int in, int out) {
  CompareWorker worker(kind, settings);
  std::string buffered;
  std::string line;
  while (ReadLine(in, &buffered, &line)) {
    const nlohmann::json command = nlohmann::json::parse(line, nullptr, false);
    if (command.value("do", "") == "quit") break;
    const absl::StatusOr<nlohmann::json> figures = worker.Do(command);
    const nlohmann::json answer =
        figures.ok() ? *figures
                     : nlohmann::json{{"error", std::string(figures.status().message())}};
    // Messages may quote keys: any bytes must come through.
    const auto replace = nlohmann::json::error_handler_t::replace;
    if (!WriteAll(out, answer.dump(-1, ' ', false, replace) + "\n")) break;
  }
}

}  // namespace

std::optional<uint64_t> WrittenBytes() { return NumberInFile("/proc/self/io", "write_bytes:"); }

void ResetPeakMemory() {
  malloc_trim(0);  // what an earlier workload freed is not this one's
  std::ofstream("/proc/self/clear_refs") << "5";
}

uint64_t PeakMemoryBytes() {
  const std::optional<uint64_t> kibibytes = NumberInFile("/proc/self/status", "VmHWM:");
  if (kibibytes.has_value()) return *kibibytes * 1024;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

DirectoryFigures MeasureDirectory(const std::string& directory) {
  DirectoryFigures figures;
  std::error_code error;
  // Files may vanish meanwhile: then they don't count.
  for (std::filesystem::recursive_directory_iterator entry(directory, error), end;
       !error && entry != end; entry.increment(error)) {
    struct stat info {};
    if (stat(entry->path().c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    figures.allocated_bytes += static_cast<uint64_t>(info.st_blocks) * 512;
    const std::string extension = entry->path().extension().string();
    if (extension == ".sst" || extension == ".ldb") ++figures.tables;
  }
  return figures;
}

nlohmann::json MachineJson() {
  utsname system{};
  uname(&system);
  return {{"cpu", LineInFile("/proc/cpuinfo", "model name")},
          {"cores", std::thread::hardware_concurrency()},
          {"memory_bytes", NumberInFile("/proc/meminfo", "MemTotal:").value_or(0) * 1024},
          {"system", absl::StrFormat("%s %s", std::string_view(system.sysname),
                                     std::string_view(system.release))}};
}

absl::StatusOr<std::unique_ptr<Session>> Session::Start(const EngineKind& kind,
                                                        const CompareSettings& settings) {
  int commands[2];
  int answers[2];
  if (pipe(commands) != 0) {
    return absl::UnavailableError(absl::StrFormat("pipe: %s", std::strerror(errno)));
  }
  if (pipe(answers) != 0) {
    const int error = errno;
    close(commands[0]);
    close(commands[1]);
    return absl::UnavailableError(absl::StrFormat("pipe: %s", std::strerror(error)));
  }
  std::fflush(nullptr);  // what is buffered would be written twice
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) {
    const int error = errno;
    for (const int fd : {commands[0], commands[1], answers[0], answers[1]}) close(fd);
    return absl::UnavailableError(absl::StrFormat("fork: %s", std::strerror(error)));
  }
  if (pid == 0) {
    // Whatever becomes of the parent, its engines end with it.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    signal(SIGINT, SIG_DFL);
    close(commands[1]);
    close(answers[0]);
    ServeCommands(kind, settings, commands[0], answers[1]);
    _exit(0);  // not exit: the parent's buffers and handlers are not this process's
  }
  close(commands[0]);
  close(answers[1]);
  return std::unique_ptr<Session>(new Session(kind.name, pid, commands[1], answers[0]));
}

Session::Session(std::string engine, int pid, int to_child, int from_child)
    : engine_(std::move(engine)), pid_(pid), to_child_(to_child), from_child_(from_child) {}

Session::~Session() {
  if (pid_ > 0) {
    // The end of the pipe would not do: later sessions inherited its other end.
    WriteAll(to_child_, "{\"do\":\"quit\"}\n");
    waitpid(pid_, nullptr, 0);
  }
  close(to_child_);
  close(from_child_);
}

absl::Status Session::Died() {
  int state = 0;
  const bool waited = waitpid(pid_, &state, 0) == pid_;
  pid_ = -1;
  if (waited && WIFSIGNALED(state)) {
    return absl::InternalError(
        absl::StrFormat("%s: its process was ended by signal %d", engine_, WTERMSIG(state)));
  }
  return absl::InternalError(absl::StrFormat("%s: its process ended", engine_));
}

absl::StatusOr<nlohmann::json> Session::Do(const nlohmann::json& command) {
  std::string line;
  if (!WriteAll(to_child_, command.dump() + "\n") || !ReadLine(from_child_, &buffered_, &line)) {
    return Died();
  }
  nlohmann::json answer = nlohmann::json::parse(line, nullptr, false);
  if (!answer.is_object()) {
    return absl::InternalError(absl::StrFormat("%s: its answer is not understood", engine_));
  }
  if (answer.contains("error")) {
    return absl::InternalError(
        absl::StrFormat("%s: %s", engine_, answer["error"].get<std::string>()));
  }
  return answer;
}

}  // namespace sievedb
