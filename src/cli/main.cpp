#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "command_line.hpp"
#include "commands.hpp"
#include <fmt/format.h>

#include "apo/comm/world.hpp"
#include "apo/config/reference.hpp"
#include "apo/core/error.hpp"
#include "apo/core/log.hpp"
#include "apo/core/version.hpp"

namespace apo::cli {
namespace {

struct Command {
  std::string_view name;
  int (*function)(const Arguments&, comm::World&);
  std::string_view summary;
  std::string_view usage;  ///< what --help prints; empty: the command answers --help itself
};

constexpr std::string_view kRunUsage =
    "Usage: apo run -c FILE --out DIR [--section.key VALUE ...]\n"
    "       mpirun -n RANKS apo run -c FILE --out DIR [--section.key VALUE ...]\n"
    "\n"
    "Runs the whole pipeline of the configuration FILE: clusters the clients, trains both phases,\n"
    "adapts and evaluates new clients, and leaves everything measured in DIR. Continues by itself\n"
    "when DIR holds an unfinished run of the same configuration; refuses another configuration.\n"
    "\n"
    "  -c, --config FILE     INI file with the keys below\n"
    "  -o, --out DIR         the run's folder\n"
    "  --section.key VALUE   overrides one key; the last one counts\n"
    "\n"
    "Configuration keys\n";

constexpr std::string_view kReportUsage =
    "Usage: apo report DIR... [--format text|csv|json|markdown] [--score-range FILE]\n"
    "\n"
    "Tables of the run in DIR, or a comparison of several runs: scores and losses before and after\n"
    "adaptation per cluster and method, hypervolume, IGD and IGD+ of the solution sets, gaps to the\n"
    "known optimum on analytic tasks. Runs that differ in the seed alone are put together.\n"
    "\n"
    "  --format FORMAT      text (default), csv, json or markdown\n"
    "  --score-range FILE   frozen (min, max) per objective: read if FILE exists, else made from\n"
    "                       these runs and written there\n";

constexpr Command kCommands[] = {
    {"run", run, "train, adapt and evaluate: the whole pipeline", kRunUsage},
    {"report", report, "tables of one run, or a comparison of several", kReportUsage},
    {"inspect", inspect, "what a file or model folder holds", ""},
    {"tokenize", tokenize, "text to token ids and back", ""},
    {"generate", generate, "a response of a model, with or without an adapter", ""},
    {"probe", probe, "the theory's statements put to the test on analytic tasks", ""},
    {"demo", demo, "rebuild the demo domain's corpus, model and pairs", ""},
};

constexpr std::string_view kExitCodes =
    "Exit codes\n"
    "  0   done\n"
    "  64  command line or configuration\n"
    "  65  data or model files\n"
    "  69  no such device\n"
    "  70  our fault\n"
    "  74  cannot write, or MPI, NCCL, CUDA or HDF5 failed\n"
    "  75  stopped at a checkpoint, wants to be requeued\n";

std::string general_help() {
  std::string text =
      "apo: collaborative personalised preference alignment of language models\n"
      "\n"
      "Usage: apo COMMAND [ARGUMENTS]      apo COMMAND --help tells more\n"
      "       mpirun -n RANKS apo COMMAND [ARGUMENTS]\n"
      "\n"
      "Commands\n";
  for (const Command& command : kCommands) {
    text += fmt::format("  {:<9} {}\n", command.name, command.summary);
  }
  text += "  options   the configuration keys (--markdown: as Markdown tables)\n";
  text += "\n  --help, -h   this text\n  --version    version, revision and licence\n\n";
  text += kExitCodes;
  return text;
}

std::string version_text() {
  return fmt::format(
      "apo {} ({})\n"
      "Licence GPL-3.0-or-later. There is no warranty.\n",
      version(), git_revision());
}

void print(const comm::World& world, std::string_view text) {
  if (world.rank() != 0) {
    return;
  }
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw Error(Fault::kBackend, "standard output: cannot be written");
  }
}

bool asks_for_help(const Arguments& arguments) {
  for (const std::string& argument : arguments) {
    if (argument == "--") {
      return false;
    }
    if (argument == "--help" || argument == "-h") {
      return true;
    }
  }
  return false;
}

int print_options(const Arguments& arguments, const comm::World& world) {
  const CommandLine line =
      parse_command_line(arguments, {{"markdown", false}, {"help", false, 'h'}}, false);
  if (!line.positionals.empty()) {
    throw Error(Fault::kConfig, fmt::format("apo options takes no '{}'", line.positionals.front()));
  }
  if (line.has("help")) {
    print(world, "Usage: apo options [--markdown]\n\nPrints every configuration key.\n");
  } else {
    print(world, line.has("markdown") ? config::options_markdown() : config::options_text());
  }
  return 0;
}

[[noreturn]] void refuse_command(const std::string& name) {
  std::vector<std::string> names = {"options", "help"};
  for (const Command& command : kCommands) {
    names.emplace_back(command.name);
  }
  std::string message = fmt::format("unknown command '{}'", name);
  if (const std::string near = nearest_word(name, names); !near.empty()) {
    message += fmt::format("; did you mean '{}'?", near);
  }
  throw Error(Fault::kConfig, message + "\nsee apo --help");
}

int dispatch(Arguments arguments, comm::World& world) {
  if (arguments.empty()) {
    throw Error(Fault::kConfig, "expected a command, found nothing\nsee apo --help");
  }
  std::string name = arguments.front();
  arguments.erase(arguments.begin());
  if (name == "help" && !arguments.empty()) {  // apo help COMMAND
    name = arguments.front();
    arguments = {"--help"};
    if (name == "options") {
      arguments.clear();
    }
  }
  if (name == "--help" || name == "-h" || name == "help") {
    print(world, general_help());
    return 0;
  }
  if (name == "--version") {
    print(world, version_text());
    return 0;
  }
  if (name == "options") {
    return print_options(arguments, world);
  }
  for (const Command& command : kCommands) {
    if (command.name != name) {
      continue;
    }
    if (!command.usage.empty() && asks_for_help(arguments)) {
      print(world,
            std::string(command.usage) + (name == "run" ? config::options_text() : std::string()));
      return 0;
    }
    return command.function(arguments, world);
  }
  refuse_command(name);
}

struct Failure {
  int code = 70;
  std::string message;
};

/// What the exception in flight means to the user.
Failure current_failure() {
  try {
    throw;
  } catch (const Error& error) {
    return {exit_code(error.fault()), error.what()};
  } catch (const std::bad_alloc&) {
    return {exit_code(Fault::kInternal), "out of memory"};
  } catch (const std::filesystem::filesystem_error& error) {
    return {exit_code(Fault::kBackend), error.what()};
  } catch (const std::exception& error) {
    return {exit_code(Fault::kInternal), std::string("unexpected: ") + error.what()};
  } catch (...) {
    return {exit_code(Fault::kInternal), "unexpected exception of unknown type"};
  }
}

std::string marked_lines(const std::string& message) {
  std::string text;
  std::istringstream lines(message);
  for (std::string line; std::getline(lines, line);) {
    text += "apo: error: " + line + "\n";
  }
  return text;
}

/// Tells the user and returns the exit code, or ends the job when other ranks may be waiting.
int fail(const comm::World& world, const Failure& failure) {
  std::fflush(stdout);
  if (world.size() > 1 && world.rank() != 0) {
    // When all ranks fail alike, rank 0 has spoken and ended the job before this is over.
    std::this_thread::sleep_for(std::chrono::seconds(2));
    comm::World::abort(failure.code, failure.message);
  }
  std::fputs(marked_lines(failure.message).c_str(), stderr);
  std::fflush(stderr);
  if (world.size() > 1) {
    comm::World::abort(failure.code, "ends the job");
  }
  return failure.code;
}

/// An exception where none may pass, for example out of a destructor.
[[noreturn]] void on_terminate() {
  if (std::current_exception()) {
    const Failure failure = current_failure();
    comm::World::abort(failure.code, failure.message);
  }
  comm::World::abort(exit_code(Fault::kInternal), "terminated without an exception");
}

}  // namespace
}  // namespace apo::cli

int main(int argc, char** argv) {
  std::set_terminate(apo::cli::on_terminate);  // World may fail too
  apo::comm::World world(&argc, &argv);
  try {
    apo::log::init(world.rank(), world.size());
    return apo::cli::dispatch({argv + 1, argv + argc}, world);
  } catch (...) {
    return apo::cli::fail(world, apo::cli::current_failure());
  }
}
