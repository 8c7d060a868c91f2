#ifndef SIEVEDB_TOOLS_FLAGS_H_
#define SIEVEDB_TOOLS_FLAGS_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"

namespace sievedb {

// How every program ends.
inline constexpr int kExitSuccess = 0;
inline constexpr int kExitFailure = 1;  // one line on stderr says what failed
inline constexpr int kExitUsage = 2;    // one line on stderr says what was asked wrongly

// Print "program: message" on stderr, as one line, and return the exit code.
int ExitFailure(std::string_view program, const absl::Status& status);
int ExitUsage(std::string_view program, std::string_view message);

// The end of a program that did its work: what it printed must have been written
// (a full disk, a closed pipe), or it failed after all.
int ExitAfterOutput(std::string_view program);

// The command line of one program. Flags are bound to variables, whose values at
// the time of registration are the defaults that --help shows:
//
//   Flags flags("db_bench", "[flags]", "Measures the speed of SieveDB.");
//   flags.Add("num", &num, "keys in the database", 1);
//   if (std::optional<int> exit_code = flags.ParseOrExit(argc, argv)) return *exit_code;
//
// Understood are --name=value, --name value, and for booleans --name,
// --name=false (true, yes, 1, no, 0) and --noname; one dash does as well as two.
// A flag that is given twice takes its last value. All that follows "--", and a
// single "-", is positional.
//
// Threads: not safe for concurrent use.
class Flags {
 public:
  // synopsis is what follows the program's name in the usage line.
  Flags(std::string_view program, std::string_view synopsis, std::string_view summary);
  Flags(const Flags&) = delete;
  Flags& operator=(const Flags&) = delete;

  // Requires: a name that is not taken; value outlives the parser.
  void Add(std::string_view name, bool* value, std::string_view help);
  void Add(std::string_view name, std::string* value, std::string_view help);
  void Add(std::string_view name, int* value, std::string_view help,
           int min = std::numeric_limits<int>::min(), int max = std::numeric_limits<int>::max());
  void Add(std::string_view name, int64_t* value, std::string_view help,
           int64_t min = std::numeric_limits<int64_t>::min(),
           int64_t max = std::numeric_limits<int64_t>::max());
  void Add(std::string_view name, uint64_t* value, std::string_view help, uint64_t min = 0,
           uint64_t max = std::numeric_limits<uint64_t>::max());
  void Add(std::string_view name, double* value, std::string_view help,
           double min = std::numeric_limits<double>::lowest(),
           double max = std::numeric_limits<double>::max());

  // A number of bytes, with an optional K, M or G (powers of 1024; KB and KiB
  // mean the same).
  void AddBytes(std::string_view name, uint64_t* value, std::string_view help, uint64_t min = 0,
                uint64_t max = std::numeric_limits<uint64_t>::max());

  // One of choices.
  void AddChoice(std::string_view name, std::string* value, std::vector<std::string> choices,
                 std::string_view help);

  // Sets the variables. kInvalidArgument for a flag that is not known, or whose
  // value is missing, malformed or out of range: the variables of the flags
  // before it are set then. --help stops at once: help_asked() is true then.
  absl::Status Parse(const std::vector<std::string>& arguments);

  // Parse for main: an exit code where the program should end now, after --help
  // (printed on stdout) or an error (printed on stderr).
  std::optional<int> ParseOrExit(int argc, char** argv);

  bool help_asked() const { return help_asked_; }
  std::string Help() const;

  // Whether the command line named the flag.
  bool WasGiven(std::string_view name) const;

  const std::vector<std::string>& positional() const { return positional_; }
  const std::string& program() const { return program_; }

 private:
  template <typename T>
  struct Number {
    T* value;
    T min;
    T max;
  };
  struct Bytes {
    uint64_t* value;
    uint64_t min;
    uint64_t max;
  };
  struct Choice {
    std::string* value;
    std::vector<std::string> choices;
  };
  using Target = std::variant<bool*, std::string*, Number<int>, Number<int64_t>, Number<uint64_t>,
                              Number<double>, Bytes, Choice>;
  struct Flag {
    std::string name;
    std::string help;
    Target target;
    std::string default_text;
    bool given = false;
  };

  struct Setter;  // parses a text into a target

  void Register(std::string_view name, Target target, std::string_view help);
  Flag* Find(std::string_view name);
  absl::Status ParseFlag(const std::vector<std::string>& arguments, size_t* index);
  static absl::Status Set(Flag* flag, std::string_view text);
  static std::string ValueText(const Target& target);
  static std::string_view Placeholder(const Target& target);

  std::string program_;
  std::string synopsis_;
  std::string summary_;
  std::vector<Flag> flags_;
  std::vector<std::string> positional_;
  bool help_asked_ = false;
};

// "64M" -> 67108864. nullopt where text is no number of bytes.
std::optional<uint64_t> ParseBytes(std::string_view text);

// 67108864 -> "64M": the shortest form that ParseBytes reads back.
std::string FormatBytes(uint64_t bytes);

// "a,b,,c" -> {"a", "b", "c"}.
std::vector<std::string> SplitList(std::string_view text);

}  // namespace sievedb

#endif  // SIEVEDB_TOOLS_FLAGS_H_
