#include <cstdio>

#include "command_line.hpp"
#include "commands.hpp"
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

}  // namespace

int report(const Arguments& arguments, comm::World& world) {
  const CommandLine line = parse_command_line(arguments, {{"format"}}, false);
  if (line.positionals.empty()) {
    throw Error(Fault::kConfig,
                "usage: apo report DIR... [--format text|csv|json|markdown]; expected at least one "
                "run directory");
  }
  const TableFormat format = parse_format(line.value("format").value_or("text"));
  if (world.rank() != 0) {
    return 0;
  }
  std::vector<RunResults> runs;
  for (const std::string& dir : line.positionals) {
    runs.push_back(read_results(dir));
  }
  const std::string text = format_tables(runs, format);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return 0;
}

}  // namespace apo::cli
