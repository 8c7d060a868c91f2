// Finds rows by any combination of their tags, reading only pages whose signature
// admits all of them.

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "tools/examples/signature_pages.h"
#include "tools/flags.h"
#include "tools/key_value_generator.h"
#include "util/clock.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

constexpr char kProgram[] = "signature_index";
constexpr char kSummary[] =
    "Keeps rows of tags in pages and one small Bloom signature of its (column, value) pairs for\n"
    "each page. A query names values of any of the columns; pages whose signature denies one of\n"
    "them are skipped, the rows of the others are compared exactly. With COLUMN=VALUE arguments\n"
    "the rows that have all of them are printed; without, --queries random queries of one column,\n"
    "two columns and so on are counted. Rows come from a TSV file whose first line names its\n"
    "columns, or are made up: columns c1, c2 ... of values v0, v1 ...\n"
    "\n"
    "  signature_index                          a million rows, 200 queries\n"
    "  signature_index --check c1=v7 c3=v12     one query, compared with a full scan\n"
    "  signature_index --tsv=shoes.tsv color=red size=43\n"
    "\n"
    "Pages that are read hold a match, or all tags but in no row together (apart), or lack a tag\n"
    "(false). The expected number of the last follows from the bits that are set, if the columns\n"
    "are independent of each other.";

struct Settings {
  std::string tsv;
  uint64_t rows = 1'000'000;
  uint64_t columns = 6;
  uint64_t values = 1000;
  uint64_t rows_per_page = 64;
  double bits = 10;
  std::string layout = "sliced";
  uint64_t queries = 200;
  uint64_t limit = 20;
  uint64_t seed = 1;
  bool check = false;
  bool json = false;
};

// Queries of the same number of terms.
struct Group {
  size_t terms = 0;
  uint64_t queries = 0;
  uint64_t matches = 0;
  uint64_t pages = 0;
  uint64_t read = 0;
  uint64_t matching = 0;
  uint64_t apart = 0;
  uint64_t false_pages = 0;
  double expected_false = 0;
  double seconds = 0;
  double scan_seconds = 0;
};

double SecondsSince(uint64_t start) { return static_cast<double>(NowNanos() - start) / 1e9; }

std::string Text(const SignatureIndex& index, const std::vector<Term>& terms) {
  std::string text;
  for (const Term& term : terms) {
    absl::StrAppendFormat(&text, "%s%s=%s", text.empty() ? "" : " ",
                          index.table().columns()[term.column], term.value);
  }
  return text;
}

// Runs one query and adds it to its group. Errors: kInternal where a scan finds others.
absl::StatusOr<std::vector<uint64_t>> Ask(const SignatureIndex& index,
                                          const std::vector<Term>& terms, bool check,
                                          Group* group) {
  const uint64_t start = NowNanos();
  QueryResult result = index.Find(terms);
  group->seconds += SecondsSince(start);
  group->terms = terms.size();
  ++group->queries;
  group->matches += result.rows.size();
  group->pages += index.table().pages();
  group->read += result.pages_read;
  group->matching += result.pages_matching;
  group->apart += result.pages_apart;
  group->false_pages += result.pages_false;
  group->expected_false += index.ExpectedFalsePages(terms);
  if (check) {
    const uint64_t scan_start = NowNanos();
    const std::vector<uint64_t> scanned = index.Scan(terms);
    group->scan_seconds += SecondsSince(scan_start);
    if (scanned != result.rows) {
      return absl::InternalError(absl::StrFormat("%s: a scan finds %d rows, the index %d",
                                                 Text(index, terms), scanned.size(),
                                                 result.rows.size()));
    }
  }
  return std::move(result.rows);
}

// Every other query asks for the tags of a row that is there, the rest for tags of
// rows drawn for each column: alone they are there, together hardly ever.
std::vector<Term> RandomTerms(const TagTable& table, size_t columns, bool of_one_row,
                              BenchRandom* random) {
  std::vector<size_t> order(table.columns().size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::vector<Term> terms;
  uint64_t row = random->Uniform(table.rows());
  for (size_t i = 0; i < columns; ++i) {
    std::swap(order[i], order[i + random->Uniform(order.size() - i)]);
    if (!of_one_row) row = random->Uniform(table.rows());
    const auto page = table.ReadPage(static_cast<size_t>(row / table.rows_per_page()));
    const std::string_view value = page[row % table.rows_per_page()][order[i]];
    terms.push_back({order[i], std::string(value)});
  }
  return terms;
}

absl::StatusOr<std::vector<Group>> AskRandomly(const SignatureIndex& index,
                                               const Settings& settings) {
  const size_t columns = index.table().columns().size();
  std::vector<Group> groups(columns);
  BenchRandom random(BenchRandom::Mix(settings.seed));
  for (uint64_t i = 0; i < settings.queries; ++i) {
    const size_t terms = i % columns + 1;
    const bool of_one_row = i / columns % 2 == 0;
    SIEVEDB_RETURN_IF_ERROR(Ask(index, RandomTerms(index.table(), terms, of_one_row, &random),
                                settings.check, &groups[terms - 1])
                                .status());
  }
  groups.resize(std::min<uint64_t>(columns, settings.queries));
  return groups;
}

double Percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

void PrintText(const SignatureIndex& index, const std::vector<Group>& groups,
               const Settings& settings) {
  const TagTable& table = index.table();
  absl::PrintF("%d rows in %d pages of %d, %d columns; signatures: %d bytes, %.1f tags a page\n",
               table.rows(), table.pages(), table.rows_per_page(), table.columns().size(),
               index.signatures().MemoryBytes(), index.mean_tags());
  absl::PrintF("%5s %8s %9s %11s %9s %9s %9s %9s %10s %10s %12s%s\n", "terms", "queries", "matches",
               "pages", "read", "matching", "apart", "false", "false %", "expected", "us a query",
               settings.check ? "   us a scan" : "");
  for (const Group& group : groups) {
    const auto pages = static_cast<double>(group.pages);
    const auto queries = static_cast<double>(group.queries);
    absl::PrintF("%5d %8d %9d %11d %9d %9d %9d %9d %8.4f %% %8.4f %% %12.1f", group.terms,
                 group.queries, group.matches, group.pages, group.read, group.matching, group.apart,
                 group.false_pages, Percent(static_cast<double>(group.false_pages), pages),
                 Percent(group.expected_false, pages), group.seconds * 1e6 / queries);
    if (settings.check) absl::PrintF(" %11.1f", group.scan_seconds * 1e6 / queries);
    std::fputc('\n', stdout);
  }
  if (settings.check) std::puts("a full scan found the same rows for every query");
}

nlohmann::ordered_json ToJson(const SignatureIndex& index, const std::vector<Group>& groups,
                              const Settings& settings) {
  const TagTable& table = index.table();
  nlohmann::ordered_json json = {{"rows", table.rows()},
                                 {"pages", table.pages()},
                                 {"rows_per_page", table.rows_per_page()},
                                 {"columns", table.columns()},
                                 {"layout", settings.layout},
                                 {"bits_per_tag", settings.bits},
                                 {"tags_per_page", index.mean_tags()},
                                 {"signature_bytes", index.signatures().MemoryBytes()},
                                 {"checked", settings.check},
                                 {"groups", nlohmann::ordered_json::array()}};
  for (const Group& group : groups) {
    json["groups"].push_back({{"terms", group.terms},
                              {"queries", group.queries},
                              {"matches", group.matches},
                              {"pages", group.pages},
                              {"pages_read", group.read},
                              {"pages_matching", group.matching},
                              {"pages_apart", group.apart},
                              {"pages_false", group.false_pages},
                              {"expected_false", group.expected_false},
                              {"seconds", group.seconds},
                              {"scan_seconds", group.scan_seconds}});
  }
  return json;
}

// Row by row, as in a TSV file.
std::vector<std::string> Lines(const TagTable& table, const std::vector<uint64_t>& rows,
                               uint64_t limit) {
  std::vector<std::string> lines;
  for (const uint64_t row : rows) {
    if (limit != 0 && lines.size() == limit) break;
    const auto page = table.ReadPage(static_cast<size_t>(row / table.rows_per_page()));
    std::string line;
    for (const std::string_view value : page[row % table.rows_per_page()]) {
      line += value;
      line += '\t';
    }
    line.pop_back();  // there is a column at least
    lines.push_back(std::move(line));
  }
  return lines;
}

absl::StatusOr<std::vector<Term>> ParseTerms(const std::vector<std::string>& arguments,
                                             const std::vector<std::string>& columns) {
  std::vector<Term> terms;
  for (const std::string& argument : arguments) {
    const size_t equals = argument.find('=');
    const auto column = std::find(columns.begin(), columns.end(), argument.substr(0, equals));
    if (equals == std::string::npos || column == columns.end()) {
      return absl::InvalidArgumentError(
          absl::StrFormat("\"%s\" is not COLUMN=VALUE of a column that is there", argument));
    }
    terms.push_back({static_cast<size_t>(column - columns.begin()), argument.substr(equals + 1)});
  }
  return terms;
}

absl::Status Report(const SignatureIndex& index, const std::vector<Term>& terms,
                    const Settings& settings) {
  std::vector<Group> groups(1);
  std::vector<std::string> lines;
  if (!terms.empty()) {
    SIEVEDB_ASSIGN_OR_RETURN(const std::vector<uint64_t> rows,
                             Ask(index, terms, settings.check, &groups[0]));
    lines = Lines(index.table(), rows, settings.limit);
  } else if (index.table().rows() > 0) {
    SIEVEDB_ASSIGN_OR_RETURN(groups, AskRandomly(index, settings));
  } else {
    groups.clear();  // no rows to draw tags from
  }
  if (settings.json) {
    nlohmann::ordered_json json = ToJson(index, groups, settings);
    if (!terms.empty()) json["found"] = lines;
    std::puts(json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
  } else {
    for (const std::string& line : lines) std::puts(line.c_str());
    PrintText(index, groups, settings);
  }
  return absl::OkStatus();
}

void Register(Flags* flags, Settings* settings) {
  flags->Add("tsv", &settings->tsv, "file with the rows, -: the standard input");
  flags->Add("rows", &settings->rows, "rows to make up", 1, 1'000'000'000);
  flags->Add("columns", &settings->columns, "of them", 1, 64);
  flags->Add("values", &settings->values, "distinct values of a column", 1, 1'000'000'000);
  flags->Add("rows_per_page", &settings->rows_per_page, "rows a page", 1, 1'000'000);
  flags->Add("bits", &settings->bits, "of the signature, for each distinct tag of a page", 1, 64);
  flags->AddChoice("layout", &settings->layout, {"sliced", "pages"},
                   "a bitmap of pages for each bit, or a BloomFilter for each page");
  flags->Add("queries", &settings->queries, "random queries", 1, 100'000'000);
  flags->Add("limit", &settings->limit, "at most so many rows are printed; 0: all");
  flags->Add("seed", &settings->seed, "rows and queries follow from it");
  flags->Add("check", &settings->check, "compare each query with a full scan");
  flags->Add("json", &settings->json, "print JSON");
}

int Main(int argc, char** argv) {
  Settings settings;
  Flags flags(kProgram, "[flags] [COLUMN=VALUE ...]", kSummary);
  Register(&flags, &settings);
  if (const std::optional<int> exit_code = flags.ParseOrExit(argc, argv)) return *exit_code;
  for (const char* generating : {"rows", "columns", "values"}) {
    if (!settings.tsv.empty() && flags.WasGiven(generating)) {
      return ExitUsage(kProgram, absl::StrFormat("--tsv and --%s exclude each other", generating));
    }
  }
  absl::StatusOr<TagTable> table =
      settings.tsv.empty() ? TagTable::Generate(settings.columns, settings.rows, settings.values,
                                                settings.rows_per_page, settings.seed)
                           : TagTable::FromTsv(settings.tsv, settings.rows_per_page);
  if (!table.ok()) return ExitFailure(kProgram, table.status());
  const absl::StatusOr<std::vector<Term>> terms = ParseTerms(flags.positional(), table->columns());
  if (!terms.ok()) return ExitUsage(kProgram, std::string(terms.status().message()));
  const absl::StatusOr<SignatureIndex> index =
      SignatureIndex::Build(*std::move(table), settings.layout, settings.bits);
  if (!index.ok()) return ExitFailure(kProgram, index.status());
  const absl::Status status = Report(*index, *terms, settings);
  return status.ok() ? ExitAfterOutput(kProgram) : ExitFailure(kProgram, status);
}

}  // namespace
}  // namespace sievedb

int main(int argc, char** argv) { return sievedb::Main(argc, argv); }
