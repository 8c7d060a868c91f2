#include "tests/memory_trace.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <thread>

#include "absl/strings/str_format.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SIEVEDB_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define SIEVEDB_SANITIZED 1
#endif
#endif

#if defined(__linux__) && defined(__x86_64__) && !defined(SIEVEDB_SANITIZED)

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#endif
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <csignal>

namespace sievedb {
namespace {

constexpr uintptr_t kPageBytes = 4096;
constexpr int kLineShift = 6;
constexpr uint64_t kTrapFlag = 0x100;  // in EFLAGS: a trap after the next instruction
constexpr uint64_t kWriteFault = 2;    // in a page fault's error code

struct Range {
  uintptr_t begin = 0;
  uintptr_t end = 0;
  int protection = 0;
};

struct Access {
  uintptr_t address = 0;
  uintptr_t instruction = 0;
  bool write = false;
};

struct OpenPage {
  uintptr_t page = 0;
  int protection = 0;
};

// What the handlers use and the parent reads: pages of its own, shared with the child.
struct State {
  static constexpr size_t kMaxAccesses = 1 << 16;
  static constexpr size_t kMaxRanges = 4096;
  static constexpr size_t kMaxOpen = 8;

  bool tracing = false;
  bool failed = false;
  bool overflow = false;
  bool denied = false;  // the kernel took no page away
  size_t thread = 0;    // 0, then 1
  std::atomic<uint64_t> parked{0};
  std::array<size_t, 2> begun = {};
  std::array<size_t, 2> ended = {};

  size_t ranges = 0;
  std::array<Range, kMaxRanges> range;
  size_t open_pages = 0;
  std::array<OpenPage, kMaxOpen> open;
  std::array<size_t, 2> accesses = {};
  std::array<std::array<Access, kMaxAccesses>, 2> access;
  std::array<char, 1 << 20> maps;
};

// The only variable that handlers need, alone on its page.
struct alignas(kPageBytes) Root {
  State* state = nullptr;
};
Root root;

// A handler may touch nothing that was taken away, so it calls no library.
long SystemCall(long number, uintptr_t a, uintptr_t b, uintptr_t c) {
  long result = 0;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(a), "S"(b), "d"(c)
               : "rcx", "r11", "memory");
  return result;
}

bool Protect(uintptr_t begin, uintptr_t bytes, int protection) {
  return SystemCall(SYS_mprotect, begin, bytes, static_cast<uintptr_t>(protection)) == 0;
}

const Range* RangeOf(const State& state, uintptr_t address) {
  for (size_t i = 0; i < state.ranges; ++i) {
    if (address >= state.range[i].begin && address < state.range[i].end) return &state.range[i];
  }
  return nullptr;
}

// Lets the instruction have the page: to read it, or to do both where it writes.
bool OpenPageFor(State* state, uintptr_t page, const Range& range, bool write) {
  size_t i = 0;
  while (i < state->open_pages && state->open[i].page != page) ++i;
  if (i == State::kMaxOpen) return false;
  if (i == state->open_pages) {
    state->open[i].page = page;
    ++state->open_pages;
  }
  return Protect(page, kPageBytes, write ? range.protection : range.protection & ~PROT_WRITE);
}

void GiveBack(const State& state) {
  for (size_t i = 0; i < state.ranges; ++i) {
    const Range& range = state.range[i];
    Protect(range.begin, range.end - range.begin, range.protection);
  }
}

void OnFault(int signal, siginfo_t* info, void* context) {
  State* const state = root.state;
  auto* const registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  const bool write = (static_cast<uint64_t>(registers[REG_ERR]) & kWriteFault) != 0;
  const Range* const range = state->tracing ? RangeOf(*state, address) : nullptr;
  if (range == nullptr || !OpenPageFor(state, address & ~(kPageBytes - 1), *range, write)) {
    // A fault of the program's own. Its second one ends the process.
    state->tracing = false;
    GiveBack(*state);
    struct sigaction by_default = {};
    by_default.sa_handler = SIG_DFL;
    sigaction(signal, &by_default, nullptr);
    return;
  }
  size_t& n = state->accesses[state->thread];
  if (n < State::kMaxAccesses) {
    Access& access = state->access[state->thread][n++];
    access.address = address;
    access.instruction = static_cast<uintptr_t>(registers[REG_RIP]);
    access.write = write;
  } else {
    state->overflow = true;
  }
  registers[REG_EFL] |= kTrapFlag;
}

void OnTrap(int /*signal*/, siginfo_t* /*info*/, void* context) {
  State* const state = root.state;
  for (size_t i = 0; i < state->open_pages; ++i) {
    if (state->tracing) Protect(state->open[i].page, kPageBytes, PROT_NONE);
  }
  state->open_pages = 0;
  auto* const registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  registers[REG_EFL] &= ~static_cast<greg_t>(kTrapFlag);
}

// Appends [begin, end) without what any of the holes cover.
void AddRange(State* state, Range range, const std::array<Range, 3>& holes, size_t hole = 0) {
  for (; hole < holes.size(); ++hole) {
    if (range.begin >= holes[hole].end || range.end <= holes[hole].begin) continue;
    if (range.end > holes[hole].end) {
      AddRange(state, {holes[hole].end, range.end, range.protection}, holes, hole + 1);
    }
    range.end = holes[hole].begin;
  }
  if (range.begin >= range.end) return;
  if (state->ranges == State::kMaxRanges) {
    state->failed = true;
    return;
  }
  state->range[state->ranges++] = range;
}

// The calling thread's stack and, where it is not the main one, its static thread-local
// memory, which glibc puts behind it.
Range OwnStack() {
  pthread_attr_t attributes;
  void* begin = nullptr;
  size_t bytes = 0;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return {};
  pthread_attr_getstack(&attributes, &begin, &bytes);
  pthread_attr_destroy(&attributes);
  return {reinterpret_cast<uintptr_t>(begin), reinterpret_cast<uintptr_t>(begin) + bytes, 0};
}

uintptr_t TakeHex(const char** at) {
  uintptr_t value = 0;
  for (;; ++*at) {
    const char c = **at;
    if (c >= '0' && c <= '9') {
      value = value * 16 + static_cast<uintptr_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      value = value * 16 + static_cast<uintptr_t>(c - 'a' + 10);
    } else {
      return value;
    }
  }
}

// All that can be written, from /proc/self/maps, whose lines are "begin-end rwxp …".
// Allocates nothing, which would change them.
void FindRanges(State* state) {
  const auto address = [](const void* at) { return reinterpret_cast<uintptr_t>(at); };
  const std::array<Range, 3> holes = {
      OwnStack(),
      {address(&root), address(&root) + sizeof(root), 0},
      {address(state), address(state) + (sizeof(State) + kPageBytes - 1) / kPageBytes * kPageBytes,
       0}};
  state->ranges = 0;
  const int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  size_t size = 0;
  ssize_t n = 0;
  while ((n = read(file, state->maps.data() + size, state->maps.size() - 1 - size)) > 0) {
    size += static_cast<size_t>(n);
  }
  close(file);
  if (n != 0 || size == state->maps.size() - 1) state->failed = true;
  state->maps[size] = '\0';
  for (const char* at = state->maps.data(); *at != '\0';) {
    Range range;
    range.begin = TakeHex(&at);
    ++at;
    range.end = TakeHex(&at);
    ++at;
    const bool writable = at[0] == 'r' && at[1] == 'w';
    range.protection = PROT_READ | PROT_WRITE | (at[2] == 'x' ? PROT_EXEC : 0);
    if (writable) AddRange(state, range, holes);
    while (*at != '\n' && *at != '\0') ++at;
    if (*at == '\n') ++at;
  }
}

class PageTrace final : public MemoryTrace {
 public:
  void Begin() override {
    State* const state = root.state;
    ++state->begun[state->thread];
    FindRanges(state);
    state->tracing = true;
    for (size_t i = 0; i < state->ranges; ++i) {
      const Range& range = state->range[i];
      if (!Protect(range.begin, range.end - range.begin, PROT_NONE)) state->denied = true;
    }
  }
  void End() override {
    State* const state = root.state;
    state->tracing = false;
    GiveBack(*state);
    ++state->ended[state->thread];
  }
  void Require(bool condition) override {
    if (!condition) root.state->failed = true;
  }
};

// Stops the calling thread for good, in a loop that touches no memory but the count. Nor
// does the kernel for it: without its restartable sequence, which the C library registers.
[[noreturn]] void Park() {
#if __has_include(<sys/rseq.h>)
  syscall(SYS_rseq, static_cast<char*>(__builtin_thread_pointer()) + __rseq_offset,
          std::max(__rseq_size, 32u), RSEQ_FLAG_UNREGISTER, RSEQ_SIG);
#endif
  asm volatile(
      "lock incq (%0)\n"
      "1: mov %1, %%eax\n"
      "syscall\n"
      "jmp 1b"
      :
      : "r"(&root.state->parked), "i"(SYS_pause)
      : "rax", "rcx", "r11", "memory");
  __builtin_unreachable();
}

void AwaitParked(uint64_t threads) {
  while (root.state->parked.load(std::memory_order_acquire) < threads) std::this_thread::yield();
}

[[noreturn]] void RunChild(const std::function<void(MemoryTrace*)>& body) {
  alarm(200);  // rather than hang
  struct sigaction action = {};
  action.sa_flags = SA_SIGINFO;
  action.sa_sigaction = &OnFault;
  sigaction(SIGSEGV, &action, nullptr);
  action.sa_sigaction = &OnTrap;
  sigaction(SIGTRAP, &action, nullptr);
  // Two new threads, so that both are alike. The first lives on while the second runs, so
  // that nothing of it is used again.
  PageTrace trace;
  const std::thread first([&] {
    AwaitParked(1);
    body(&trace);
    root.state->thread = 1;
    const std::thread second([&] {
      AwaitParked(2);
      body(&trace);
      _exit(0);
    });
    Park();
  });
  Park();
}

std::string Place(uintptr_t instruction) {
  Dl_info info = {};
  if (dladdr(reinterpret_cast<void*>(instruction), &info) == 0) {
    return absl::StrFormat("%#x", instruction);
  }
  return absl::StrFormat("%s+%#x", info.dli_fname,
                         instruction - reinterpret_cast<uintptr_t>(info.dli_fbase));
}

void Evaluate(const State& state, SharedWrites* result) {
  std::array<std::set<uintptr_t>, 2> touched;
  for (size_t t = 0; t < 2; ++t) {
    for (size_t i = 0; i < state.accesses[t]; ++i) {
      touched[t].insert(state.access[t][i].address >> kLineShift);
      ++(state.access[t][i].write ? result->writes : result->reads);
    }
  }
  std::map<uintptr_t, uint64_t> by_instruction;
  for (size_t t = 0; t < 2; ++t) {
    for (size_t i = 0; i < state.accesses[t]; ++i) {
      const Access& access = state.access[t][i];
      if (!access.write || !touched[1 - t].contains(access.address >> kLineShift)) continue;
      ++result->shared;
      ++by_instruction[access.instruction];
    }
  }
  for (const auto& [instruction, writes] : by_instruction) {
    result->where += absl::StrFormat("%d by %s\n", writes, Place(instruction));
  }
}

// The state of one of this process's threads, as in /proc: 'R' where it runs, 'S' where it
// sleeps.
char StateOf(const std::filesystem::path& task) {
  std::ifstream file(task / "stat");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const size_t name_end = text.rfind(')');
  return name_end == std::string::npos || name_end + 2 >= text.size() ? 'S' : text[name_end + 2];
}

// So that none of them has a lock at the fork, which nobody would give back in the child.
void AwaitOtherThreadsAsleep() {
  const std::string self = std::to_string(gettid());
  for (int asleep = 0, tries = 0; asleep < 3 && tries < 10'000; ++tries) {
    bool all = true;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      all = all && (task.path().filename() == self || StateOf(task.path()) == 'S');
    }
    asleep = all ? asleep + 1 : 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

SharedWrites Trace(const std::function<void(MemoryTrace*)>& body) {
  SharedWrites result;
  void* const memory = mmap(nullptr, sizeof(State), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    result.unsupported = "no memory";
    return result;
  }
  root.state = new (memory) State;
  const State& state = *root.state;
  AwaitOtherThreadsAsleep();
  const pid_t child = fork();
  if (child == 0) RunChild(body);
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) {
    result.unsupported = "no child process";
  } else if (state.denied) {
    result.unsupported = "the kernel takes no pages away";
  } else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    result.failed = absl::StrFormat("the child process ended with status %#x", status);
  } else if (state.failed || state.overflow || state.begun != state.ended ||
             state.begun != std::array<size_t, 2>{1, 1}) {
    result.failed = state.overflow ? "too many accesses" : "the body failed";
  } else {
    Evaluate(state, &result);
  }
  munmap(memory, sizeof(State));
  root.state = nullptr;
  return result;
}

}  // namespace

SharedWrites CountSharedWrites(const std::function<void(MemoryTrace*)>& body) {
  // Whether faults and single steps are what they are taken for. Each thread adds to a
  // variable of both: one read and write, or two.
  alignas(64) static std::atomic<int> counter{0};
  const SharedWrites probe = Trace([](MemoryTrace* trace) {
    trace->Begin();
    counter.fetch_add(1, std::memory_order_relaxed);
    trace->End();
  });
  if (!probe.unsupported.empty() || !probe.failed.empty() || probe.shared != 2) {
    SharedWrites result;
    result.unsupported = !probe.unsupported.empty() ? probe.unsupported
                         : !probe.failed.empty()    ? probe.failed
                                                    : "no single steps";
    return result;
  }
  return Trace(body);
}

}  // namespace sievedb

#else

namespace sievedb {

SharedWrites CountSharedWrites(const std::function<void(MemoryTrace*)>& /*body*/) {
  SharedWrites result;
  result.unsupported = "traced on Linux on x86-64, and without sanitizers";
  return result;
}

}  // namespace sievedb

#endif
