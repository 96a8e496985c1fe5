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

#include "apo/comm/activity.hpp"
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

// Goes behind "Usage: apo STAGE".
constexpr std::string_view kStageUsage =
    " -c FILE --out DIR [--section.key VALUE ...]\n"
    "\n"
    "One stage of apo run, for chains of jobs. In order: cluster, train, meta, adapt, evaluate;\n"
    "that is: cluster the clients, Phase I, Phase II, few-shot\n"
    "adaptation of new clients, evaluation. Each goes on from what the earlier stages left in DIR\n"
    "with the same configuration, and says which one is missing. A stage that was stopped goes on\n"
    "from its checkpoint; the results are those of apo run.\n"
    "\n"
    "  -c, --config FILE     INI file, as for apo run\n"
    "  -o, --out DIR         the run's folder\n"
    "  --section.key VALUE   overrides one key; the last one counts\n";

constexpr std::string_view kSweepUsage =
    "Usage: apo sweep -c FILE --out DIR --budgets LIST [--claim N] [--no-wait]\n"
    "                 [--section.key VALUE ...]\n"
    "\n"
    "Runs of several cluster budgets, each distinct cluster trained once: DIR/budget-B holds what\n"
    "apo run with --clustering.budget B leaves. Several jobs may work on DIR at the same time, "
    "with\n"
    "any number of ranks each; they share the clusters out among them. Started again, a sweep "
    "goes\n"
    "on where it was stopped.\n"
    "\n"
    "  -c, --config FILE     INI file, as for apo run; its clustering.budget is not used\n"
    "  -o, --out DIR         the sweep's folder\n"
    "  -b, --budgets LIST    budgets, as 1-16 or 1,2,4-8\n"
    "  --claim N             take at most N clusters at a time and leave the rest to other jobs\n"
    "  --no-wait             do not wait for clusters in other jobs' hands; exit code 75 while "
    "there\n"
    "                        are such\n"
    "  --section.key VALUE   overrides one key; the last one counts\n";

constexpr std::string_view kReportUsage =
    "Usage: apo report DIR... [--format text|csv|json|markdown] [--score-range FILE]\n"
    "\n"
    "Tables of the run in DIR, or a comparison of several runs: scores and losses before and "
    "after\n"
    "adaptation per cluster and method, hypervolume, IGD and IGD+ of the solution sets, gaps to "
    "the\n"
    "known optimum on analytic tasks. Runs that differ in the seed alone are put together.\n"
    "\n"
    "  --format FORMAT      text (default), csv, json or markdown\n"
    "  --score-range FILE   frozen (min, max) per objective: read if FILE exists, else made from\n"
    "                       these runs and written there\n";

constexpr std::string_view kVerifyUsage =
    "Usage: apo verify DIR [--format text|json]\n"
    "\n"
    "What the run folder DIR holds: its state, every checkpoint and run.h5 with all hashes "
    "checked,\n"
    "metrics.jsonl against the checkpoint, leftovers, the lock, and where a new start would go "
    "on.\n"
    "Changes nothing, and may be used while a job is running.\n"
    "\n"
    "Exit code 0: the run is complete, or a new start goes on from its newest checkpoint; 65: "
    "data\n"
    "are damaged or missing (older checkpoints aside, which nothing needs any more).\n";

constexpr std::string_view kPlanUsage =
    "Usage: apo plan -c FILE [--ranks N] [--ranks-per-node N] [--memory-per-node SIZE]\n"
    "                [--device-memory SIZE] [--out DIR] [--no-calibration] [--format text|json]\n"
    "                [--section.key VALUE ...]\n"
    "\n"
    "What apo run would do and need: teams of ranks, steps, memory of a rank and a node, bytes "
    "sent\n"
    "and written, time. Trains nothing that stays: a few real steps and answers, some seconds, "
    "tell\n"
    "how fast and how large they are here; under mpirun all ranks work at once, as they would in\n"
    "the run. Exit code 65 with the smallest change that helps when the run cannot fit.\n"
    "\n"
    "  -c, --config FILE       INI file, as for apo run\n"
    "  --ranks N               ranks of the run (default: those of this job)\n"
    "  --ranks-per-node N      (default: all ranks on one node)\n"
    "  --memory-per-node SIZE  such as 64G; K, M, G, T are powers of 1024 (default: this "
    "machine's)\n"
    "  --device-memory SIZE    of a rank's GPU (default: of the one it has here); another "
    "machine's\n"
    "                          times are not predicted\n"
    "  -o, --out DIR           also look at the free space where DIR will be\n"
    "  --no-calibration        arithmetic only; the model is not loaded and time not predicted\n"
    "  --format FORMAT         text (default) or json\n"
    "  --section.key VALUE     overrides one key; the last one counts\n";

constexpr Command kCommands[] = {
    {"run", run, "train, adapt and evaluate: the whole pipeline", kRunUsage},
    {"cluster", cluster, "stage 1 of run: reference losses and clusters", kStageUsage},
    {"train", train, "stage 2 of run: Phase I", kStageUsage},
    {"meta", meta, "stage 3 of run: Phase II", kStageUsage},
    {"adapt", adapt, "stage 4 of run: adaptation of new clients", kStageUsage},
    {"evaluate", evaluate, "stage 5 of run: evaluation", kStageUsage},
    {"sweep", sweep, "runs of several budgets, each distinct cluster trained once", kSweepUsage},
    {"plan", plan, "what a run would need: teams, memory, bytes, steps, time", kPlanUsage},
    {"report", report, "tables of one run, or a comparison of several", kReportUsage},
    {"verify", verify, "is a run whole, and where would it go on", kVerifyUsage},
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
      const bool stage = command.usage.starts_with(' ');
      print(world, (stage ? fmt::format("Usage: apo {}", name) : std::string()) +
                       std::string(command.usage) +
                       (name == "run" ? config::options_text() : std::string()));
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
  std::fputs(marked_lines(comm::at_activity(failure.message)).c_str(), stderr);
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
