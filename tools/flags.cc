#include "tools/flags.h"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/strings/str_format.h"

namespace sievedb {
namespace {

// The whole of text as a number, or nothing.
template <typename T>
std::optional<T> ParseNumber(std::string_view text) {
  T number{};
  const char* end = text.data() + text.size();
  const auto [position, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || position != end) return std::nullopt;
  return number;
}

std::optional<bool> ParseBool(std::string_view text) {
  if (text == "true" || text == "yes" || text == "1" || text == "t" || text == "y") return true;
  if (text == "false" || text == "no" || text == "0" || text == "f" || text == "n") return false;
  return std::nullopt;
}

std::string NumberText(double number) { return absl::StrFormat("%g", number); }
template <typename T>
std::string NumberText(T number) {
  return std::to_string(number);
}

absl::Status BadValue(std::string_view name, std::string_view text, std::string_view wanted) {
  return absl::InvalidArgumentError(absl::StrFormat("--%s: \"%s\" is not %s", name, text, wanted));
}

// Stores number if it lies in [target.min, target.max].
template <typename Target, typename T>
absl::Status StoreInRange(std::string_view name, std::string_view text, const Target& target,
                          T number) {
  if (!(number >= target.min && number <= target.max)) {
    return absl::InvalidArgumentError(
        number < target.min
            ? absl::StrFormat("--%s: %s is less than %s", name, text, NumberText(target.min))
            : absl::StrFormat("--%s: %s is more than %s", name, text, NumberText(target.max)));
  }
  *target.value = number;
  return absl::OkStatus();
}

std::string Join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string text;
  for (const std::string& part : parts) {
    if (!text.empty()) text += separator;
    text += part;
  }
  return text;
}

// stderr gets exactly one line, whatever the message holds.
void PrintErrorLine(std::string_view program, std::string_view message) {
  std::string line = absl::StrFormat("%s: %s", program, message);
  std::replace(line.begin(), line.end(), '\n', ' ');
  line += '\n';
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace

int ExitFailure(std::string_view program, const absl::Status& status) {
  PrintErrorLine(program, status.ToString());
  return kExitFailure;
}

int ExitUsage(std::string_view program, std::string_view message) {
  PrintErrorLine(program, absl::StrFormat("%s (--help shows all flags)", message));
  return kExitUsage;
}

int ExitAfterOutput(std::string_view program) {
  errno = 0;
  const bool failed = std::fflush(stdout) != 0;
  const int error = errno;
  if (!failed && std::ferror(stdout) == 0) return kExitSuccess;
  return ExitFailure(program,
                     absl::UnavailableError(absl::StrFormat(
                         "writing to the standard output failed%s%s", error == 0 ? "" : ": ",
                         error == 0 ? "" : std::generic_category().message(error))));
}

Flags::Flags(std::string_view program, std::string_view synopsis, std::string_view summary)
    : program_(program), synopsis_(synopsis), summary_(summary) {}

void Flags::Add(std::string_view name, bool* value, std::string_view help) {
  Register(name, value, help);
}

void Flags::Add(std::string_view name, std::string* value, std::string_view help) {
  Register(name, value, help);
}

void Flags::Add(std::string_view name, int* value, std::string_view help, int min, int max) {
  Register(name, Number<int>{value, min, max}, help);
}

void Flags::Add(std::string_view name, int64_t* value, std::string_view help, int64_t min,
                int64_t max) {
  Register(name, Number<int64_t>{value, min, max}, help);
}

void Flags::Add(std::string_view name, uint64_t* value, std::string_view help, uint64_t min,
                uint64_t max) {
  Register(name, Number<uint64_t>{value, min, max}, help);
}

void Flags::Add(std::string_view name, double* value, std::string_view help, double min,
                double max) {
  Register(name, Number<double>{value, min, max}, help);
}

void Flags::AddBytes(std::string_view name, uint64_t* value, std::string_view help, uint64_t min,
                     uint64_t max) {
  Register(name, Bytes{value, min, max}, help);
}

void Flags::AddChoice(std::string_view name, std::string* value, std::vector<std::string> choices,
                      std::string_view help) {
  Register(name, Choice{value, std::move(choices)}, help);
}

void Flags::Register(std::string_view name, Target target, std::string_view help) {
  assert(Find(name) == nullptr && name != "help");
  Flag flag;
  flag.name = name;
  flag.help = help;
  flag.default_text = ValueText(target);
  flag.target = std::move(target);
  flags_.push_back(std::move(flag));
}

Flags::Flag* Flags::Find(std::string_view name) {
  const auto flag = std::find_if(flags_.begin(), flags_.end(),
                                 [name](const Flag& candidate) { return candidate.name == name; });
  return flag == flags_.end() ? nullptr : &*flag;
}

bool Flags::WasGiven(std::string_view name) const {
  return std::any_of(flags_.begin(), flags_.end(),
                     [name](const Flag& flag) { return flag.name == name && flag.given; });
}

absl::Status Flags::Parse(const std::vector<std::string>& arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--") {
      positional_.insert(positional_.end(), arguments.begin() + static_cast<ptrdiff_t>(i) + 1,
                         arguments.end());
      break;
    }
    if (argument.size() < 2 || argument[0] != '-') {
      positional_.push_back(argument);
      continue;
    }
    absl::Status status = ParseFlag(arguments, &i);
    if (!status.ok()) return status;
    if (help_asked_) break;
  }
  return absl::OkStatus();
}

// Takes arguments[*index], and the one behind it where that is its value.
absl::Status Flags::ParseFlag(const std::vector<std::string>& arguments, size_t* index) {
  std::string_view text = arguments[*index];
  text.remove_prefix(text.substr(0, 2) == "--" ? 2 : 1);
  const size_t equals = text.find('=');
  const std::string_view name = text.substr(0, equals);
  if (name == "help" || name == "h") {
    help_asked_ = true;
    return absl::OkStatus();
  }

  Flag* flag = Find(name);
  if (flag == nullptr) {
    if (name.substr(0, 2) == "no" && equals == std::string_view::npos) {
      Flag* negated = Find(name.substr(2));
      if (negated != nullptr && std::holds_alternative<bool*>(negated->target)) {
        return Set(negated, "false");
      }
    }
    return absl::InvalidArgumentError(absl::StrFormat("unknown flag --%s", name));
  }
  if (equals != std::string_view::npos) return Set(flag, text.substr(equals + 1));
  if (std::holds_alternative<bool*>(flag->target)) return Set(flag, "true");
  if (*index + 1 == arguments.size()) {
    return absl::InvalidArgumentError(absl::StrFormat("--%s: a value is missing", name));
  }
  return Set(flag, arguments[++*index]);
}

struct Flags::Setter {
  std::string_view name;
  std::string_view text;

  absl::Status operator()(bool* value) const {
    const std::optional<bool> parsed = ParseBool(text);
    if (!parsed.has_value()) return BadValue(name, text, "true or false");
    *value = *parsed;
    return absl::OkStatus();
  }
  absl::Status operator()(std::string* value) const {
    *value = text;
    return absl::OkStatus();
  }
  template <typename T>
  absl::Status operator()(const Number<T>& target) const {
    const std::optional<T> parsed = ParseNumber<T>(text);
    if (!parsed.has_value()) {
      return BadValue(name, text, std::is_floating_point_v<T> ? "a number" : "a whole number");
    }
    return StoreInRange(name, text, target, *parsed);
  }
  absl::Status operator()(const Bytes& target) const {
    const std::optional<uint64_t> parsed = ParseBytes(text);
    if (!parsed.has_value()) return BadValue(name, text, "a number of bytes, like 4096 or 64M");
    return StoreInRange(name, text, target, *parsed);
  }
  absl::Status operator()(const Choice& target) const {
    if (std::find(target.choices.begin(), target.choices.end(), text) == target.choices.end()) {
      return BadValue(name, text, absl::StrFormat("one of %s", Join(target.choices, ", ")));
    }
    *target.value = text;
    return absl::OkStatus();
  }
};

absl::Status Flags::Set(Flag* flag, std::string_view text) {
  flag->given = true;
  return std::visit(Setter{flag->name, text}, flag->target);
}

std::optional<int> Flags::ParseOrExit(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  const absl::Status status = Parse(arguments);
  if (!status.ok()) return ExitUsage(program_, std::string(status.message()));
  if (!help_asked_) return std::nullopt;
  const std::string help = Help();
  std::fwrite(help.data(), 1, help.size(), stdout);
  return ExitAfterOutput(program_);
}

std::string Flags::Help() const {
  std::string text =
      absl::StrFormat("Usage: %s %s\n\n%s\n\nFlags:\n", program_, synopsis_, summary_);
  std::vector<std::string> heads;
  size_t width = std::string_view("--help").size();
  for (const Flag& flag : flags_) {
    const std::string_view placeholder = Placeholder(flag.target);
    heads.push_back("--" + flag.name);
    if (!placeholder.empty()) heads.back() += absl::StrFormat("=%s", placeholder);
    width = std::max(width, heads.back().size());
  }
  for (size_t i = 0; i < flags_.size(); ++i) {
    const Flag& flag = flags_[i];
    absl::StrAppendFormat(&text, "  %-*s  %s", static_cast<int>(width), heads[i], flag.help);
    if (const Choice* choice = std::get_if<Choice>(&flag.target)) {
      absl::StrAppendFormat(&text, ": %s", Join(choice->choices, ", "));
    }
    if (!flag.default_text.empty()) {
      absl::StrAppendFormat(&text, " (default: %s)", flag.default_text);
    }
    text += '\n';
  }
  absl::StrAppendFormat(&text, "  %-*s  this text\n", static_cast<int>(width), "--help");
  return text;
}

std::string Flags::ValueText(const Target& target) {
  struct Printer {
    std::string operator()(bool* value) const { return *value ? "true" : "false"; }
    std::string operator()(std::string* value) const { return *value; }
    std::string operator()(const Bytes& bytes) const { return FormatBytes(*bytes.value); }
    std::string operator()(const Choice& choice) const { return *choice.value; }
    std::string operator()(const Number<int>& number) const { return NumberText(*number.value); }
    std::string operator()(const Number<int64_t>& number) const {
      return NumberText(*number.value);
    }
    std::string operator()(const Number<uint64_t>& number) const {
      return NumberText(*number.value);
    }
    std::string operator()(const Number<double>& number) const { return NumberText(*number.value); }
  };
  return std::visit(Printer{}, target);
}

std::string_view Flags::Placeholder(const Target& target) {
  if (std::holds_alternative<bool*>(target)) return "";
  if (std::holds_alternative<std::string*>(target)) return "TEXT";
  if (std::holds_alternative<Bytes>(target)) return "BYTES";
  if (std::holds_alternative<Choice>(target)) return "NAME";
  return "N";
}

std::optional<uint64_t> ParseBytes(std::string_view text) {
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::optional<uint64_t> number = ParseNumber<uint64_t>(text.substr(0, digits));
  if (!number.has_value()) return std::nullopt;
  std::string_view suffix = text.substr(digits);
  if (suffix.empty()) return number;
  int shift = 0;
  switch (suffix[0]) {
    case 'k':
    case 'K':
      shift = 10;
      break;
    case 'm':
    case 'M':
      shift = 20;
      break;
    case 'g':
    case 'G':
      shift = 30;
      break;
    default:
      return std::nullopt;
  }
  suffix.remove_prefix(1);
  if (!suffix.empty() && suffix != "B" && suffix != "iB") return std::nullopt;
  if (*number > std::numeric_limits<uint64_t>::max() >> shift) return std::nullopt;
  return *number << shift;
}

std::string FormatBytes(uint64_t bytes) {
  constexpr std::pair<int, char> kUnits[] = {{30, 'G'}, {20, 'M'}, {10, 'K'}};
  for (const auto& [shift, letter] : kUnits) {
    if (bytes != 0 && (bytes >> shift) << shift == bytes) {
      return absl::StrFormat("%d%c", bytes >> shift, letter);
    }
  }
  return std::to_string(bytes);
}

std::vector<std::string> SplitList(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    if (comma > 0) parts.emplace_back(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return parts;
}

}  // namespace sievedb
