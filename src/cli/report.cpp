#include <cstdio>
#include <filesystem>

#include "command_line.hpp"
#include "commands.hpp"
#include "results_score_range.hpp"
#include "results_table.hpp"

#include "apo/comm/world.hpp"
#include "apo/core/error.hpp"

namespace apo::cli {
namespace {

TableFormat parse_format(const std::string& name) {
  if (name == "text") {
    return TableFormat::kText;
  }
  if (name == "csv") {
    return TableFormat::kCsv;
  }
  if (name == "json") {
    return TableFormat::kJson;
  }
  if (name == "markdown") {
    return TableFormat::kMarkdown;
  }
  throw Error(Fault::kConfig,
              "--format: expected text, csv, json or markdown, found '" + name + "'");
}

/// The range in the file; or that of the runs, which the file then holds.
FrozenRange frozen_range(const std::filesystem::path& file, const std::vector<RunResults>& runs) {
  if (std::filesystem::exists(file)) {
    return read_score_range(file);
  }
  const std::optional<FrozenRange> range = score_range_of(runs);
  if (!range) {
    throw Error(Fault::kData, "--score-range " + file.string() +
                                  ": there is no such file, and the runs have no scores of one "
                                  "kind from which to make it");
  }
  write_score_range(file, *range);
  std::fprintf(stderr, "apo: wrote the score range of %lld solutions to %s\n",
               static_cast<long long>(range->num_solutions), file.c_str());
  return *range;
}

}  // namespace

int report(const Arguments& arguments, comm::World& world) {
  const CommandLine line = parse_command_line(arguments, {{"format"}, {"score-range"}}, false);
  if (line.positionals.empty()) {
    throw Error(Fault::kConfig,
                "usage: apo report DIR... [--format text|csv|json|markdown] [--score-range FILE]; "
                "expected at least one run directory");
  }
  ReportOptions options;
  options.format = parse_format(line.value("format").value_or("text"));
  if (world.rank() != 0) {
    return 0;
  }
  std::vector<RunResults> runs;
  for (const std::string& dir : line.positionals) {
    runs.push_back(read_results(dir));
  }
  if (const auto file = line.value("score-range")) {
    options.range = frozen_range(*file, runs);
  }
  const std::string text = make_report(runs, options).text;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw Error(Fault::kBackend, "standard output: cannot be written");
  }
  return 0;
}

}  // namespace apo::cli
