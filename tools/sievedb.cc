// sievedb: a database in the hands of a person.

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "tools/flags.h"
#include "tools/shell_commands.h"

namespace sievedb {
namespace {

std::string Summary() {
  std::string text = "Reads and writes a database from the command line. Commands:\n";
  for (const ShellCommand& command : ShellCommands()) {
    absl::StrAppendFormat(
        &text, "  %-20s %s\n",
        std::string(command.name) + (*command.arguments == 0 ? "" : " ") + command.arguments,
        command.help);
  }
  return text;
}

const ShellCommand* Find(const std::string& name) {
  for (const ShellCommand& command : ShellCommands()) {
    if (name == command.name) return &command;
  }
  return nullptr;
}

int Main(int argc, char** argv) {
  ShellSettings settings;
  Flags flags("sievedb", "--db=DIR [flags] COMMAND [ARGUMENT...]", Summary());
  flags.Add("db", &settings.db, "directory of the database");
  flags.Add("from", &settings.from, "first key");
  flags.Add("to", &settings.to, "key to stop before");
  flags.Add("limit", &settings.limit, "scan, dump: at most so many records; 0: all");
  flags.Add("reverse", &settings.reverse, "scan: from the last key to the first");
  flags.Add("hex", &settings.hex, "keys and values in hexadecimal, given and shown");
  flags.Add("json", &settings.json, "print JSON");
  flags.AddChoice("format", &settings.format, {"auto", "tsv", "json"},
                  "load, dump, probe: format of the file");
  flags.Add("batch_size", &settings.batch_size, "load: records a write", 1, 1'000'000);
  flags.Add("sorted", &settings.sorted,
            "load: the records come in the order of their keys, each key once: they become "
            "tables that are added as they are, all or none");
  flags.Add("bloom_bits", &settings.bloom_bits, "writing: bits per key of new tables' filters", 1,
            64);
  flags.Add("reverse_comparator", &settings.reverse_comparator,
            "the database is in reverse byte order");
  if (const std::optional<int> exit_code = flags.ParseOrExit(argc, argv)) return *exit_code;

  std::vector<std::string> arguments = flags.positional();
  if (arguments.empty()) return ExitUsage("sievedb", "no COMMAND is given");
  const ShellCommand* const command = Find(arguments[0]);
  if (command == nullptr) {
    return ExitUsage("sievedb", "there is no command " + arguments[0] + "");
  }
  arguments.erase(arguments.begin());
  if (arguments.size() < command->min_arguments || arguments.size() > command->max_arguments) {
    return ExitUsage(
        "sievedb", absl::StrFormat("%s takes: %s", command->name,
                                   *command->arguments == 0 ? "no argument" : command->arguments));
  }
  if (settings.db.empty() && command->needs_db) return ExitUsage("sievedb", "no --db is given");
  settings.has_from = flags.WasGiven("from");
  settings.has_to = flags.WasGiven("to");
  std::vector<std::string> arguments_to_check;
  // What cannot be read as a key is wrong usage, found before anything is done.
  for (const auto& [given, text] :
       {std::pair(settings.has_from, settings.from), std::pair(settings.has_to, settings.to)}) {
    if (given) arguments_to_check.push_back(text);
  }
  if (command->takes_bytes) {
    arguments_to_check.insert(arguments_to_check.end(), arguments.begin(), arguments.end());
  }
  for (const std::string& text : arguments_to_check) {
    const absl::Status parsed = ParseBytesArgument(settings, text).status();
    if (!parsed.ok()) return ExitUsage("sievedb", std::string(parsed.message()));
  }

  if (command->run == nullptr) {
    const absl::Status status = command->run_closed(settings, arguments);
    return status.ok() ? ExitAfterOutput("sievedb") : ExitFailure("sievedb", status);
  }
  Options options = settings.DbOptions();
  options.create_if_missing = command->creates;
  absl::StatusOr<std::unique_ptr<DB>> db =
      command->writes ? DB::Open(options, settings.db) : DB::OpenReadOnly(options, settings.db);
  if (!db.ok()) return ExitFailure("sievedb", db.status());
  absl::Status status = command->run(db->get(), settings, arguments);
  status.Update((*db)->Close());
  return status.ok() ? ExitAfterOutput("sievedb") : ExitFailure("sievedb", status);
}

}  // namespace
}  // namespace sievedb

int main(int argc, char** argv) { return sievedb::Main(argc, argv); }
