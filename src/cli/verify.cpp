// apo verify DIR: is the run in DIR whole, and where would a new start go on.
#include <cstdio>

#include "command_line.hpp"
#include "commands.hpp"
#include "verify_directory.hpp"

#include "apo/comm/world.hpp"
#include "apo/core/error.hpp"

namespace apo::cli {

int verify(const Arguments& arguments, comm::World& world) {
  const CommandLine line = parse_command_line(arguments, {{"format"}}, false);
  if (line.positionals.size() != 1) {
    throw Error(Fault::kConfig,
                "usage: apo verify DIR [--format text|json]; expected one run directory");
  }
  const std::string format = line.value("format").value_or("text");
  if (format != "text" && format != "json") {
    throw Error(Fault::kConfig, "--format: expected text or json, found '" + format + "'");
  }
  if (world.rank() != 0) {
    return 0;
  }
  const DirectoryReport report = verify_directory(line.positionals[0]);
  const std::string text = format == "json" ? verify_json(report) : verify_text(report);
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw Error(Fault::kBackend, "standard output: cannot be written");
  }
  return report.problems.empty() ? 0 : exit_code(Fault::kData);
}

}  // namespace apo::cli
