// apo probe: the theory monitors' self-test on analytic tasks.
#include "apo/methods/probe.hpp"

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <string>

#include "command_line.hpp"
#include "commands.hpp"
#include <fmt/format.h>

#include "apo/comm/world.hpp"
#include "apo/core/error.hpp"

namespace apo::cli {
namespace {

constexpr const char* kUsage =
    "Usage: apo probe [--cases N] [--seed N] [--format text|markdown|json]\n"
    "\n"
    "Puts the theory's statements to the test on analytic tasks, where every constant is known,\n"
    "and prints what was tested, on how many cases, and the worst case. Ends with 70 when a\n"
    "guaranteed statement fails.\n"
    "\n"
    "  --cases N         scale: rounds per family of problems, at least 20 (default 1000, a few\n"
    "                    seconds)\n"
    "  --seed N          of all random numbers (default 1)\n"
    "  --format FORMAT   text (default), markdown or json\n";

template <class Integer>
Integer parse_integer(const std::string& option, const std::string& text, Integer low,
                      Integer high) {
  Integer value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high) {
    throw Error(Fault::kConfig, fmt::format("apo probe --{}: expected an integer in [{}, {}], "
                                            "found '{}'",
                                            option, low, high, text));
  }
  return value;
}

methods::ProbeFormat parse_format(const std::string& name) {
  if (name == "text") {
    return methods::ProbeFormat::kText;
  }
  if (name == "markdown") {
    return methods::ProbeFormat::kMarkdown;
  }
  if (name == "json") {
    return methods::ProbeFormat::kJson;
  }
  throw Error(Fault::kConfig,
              "apo probe --format: expected text, markdown or json, found '" + name + "'");
}

void print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw Error(Fault::kBackend, "standard output: cannot be written");
  }
}

}  // namespace

int probe(const Arguments& arguments, comm::World& world) {
  const CommandLine line =
      parse_command_line(arguments, {{"cases"}, {"seed"}, {"format"}, {"help", false, 'h'}}, false);
  if (line.has("help")) {
    if (world.rank() == 0) {
      print(kUsage);
    }
    return 0;
  }
  if (!line.positionals.empty()) {
    throw Error(Fault::kConfig, fmt::format("apo probe takes no '{}'", line.positionals.front()));
  }
  methods::ProbeOptions options;
  if (const auto text = line.value("cases")) {
    options.cases = parse_integer("cases", *text, 20, 1000000);
  }
  if (const auto text = line.value("seed")) {
    options.seed = parse_integer<std::uint64_t>("seed", *text, 0, UINT64_MAX);
  }
  const methods::ProbeFormat format = parse_format(line.value("format").value_or("text"));
  if (world.rank() != 0) {
    return 0;
  }
  const methods::ProbeReport report = methods::run_probe(options);
  print(methods::format_report(report, format));
  if (const methods::ProbeCheck* failure = report.first_failure()) {
    throw Error(Fault::kInternal, "apo probe: " + methods::failure_line(*failure));
  }
  return 0;
}

}  // namespace apo::cli
