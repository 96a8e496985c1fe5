#include <charconv>

#include "command_line.hpp"
#include "commands.hpp"
#include "sweep_job.hpp"

#include "apo/comm/nccl_limits.hpp"
#include "apo/comm/watchdog.hpp"
#include "apo/config/run_config.hpp"
#include "apo/core/error.hpp"
#include "apo/federation/sweep_plan.hpp"
#include "apo/methods/experiment.hpp"

namespace apo::cli {
namespace {

/// Not every configuration has budgets to share clusters between.
void check_sweep(const config::RunConfig& config) {
  const methods::MethodTraits traits = methods::method_traits(config.method);
  std::string problems;
  const auto refuse_if = [&](bool bad, const std::string& message) {
    if (bad) {
      problems += (problems.empty() ? "" : "\n") + message;
    }
  };
  refuse_if(!traits.per_cluster || !traits.trains,
            "apo sweep needs one adapter per cluster: expected method.name = apo, or a method that "
            "trains with method.scope = cluster; found method.name = " +
                config.method.name + ", method.scope = " + config.method.scope);
  refuse_if(config.clustering.method == "none",
            "apo sweep: clustering.method = none has one cluster at every budget; expected bac or "
            "hc");
  refuse_if(config.clustering.allocation != "height",
            "apo sweep: clustering.allocation = " + config.clustering.allocation +
                " does not nest the clusters of the budgets; expected height");
  const auto one_value = [&](const char* key, const std::vector<double>& values) {
    refuse_if(traits.meta && values.size() != 1,
              std::string("apo sweep: ") + key + " has " + std::to_string(values.size()) +
                  " values, one per cluster of a single budget; expected one value");
  };
  one_value("phase2.server_learning_rate", config.phase2.server_learning_rate);
  one_value("phase2.server_weight_decay", config.phase2.server_weight_decay);
  if (!problems.empty()) {
    throw Error(Fault::kConfig, problems);
  }
}

SweepCommand command_of(const CommandLine& line) {
  const auto out = line.value("out");
  const auto budgets = line.value("budgets");
  if (!line.positionals.empty() || !line.value("config") || !out || !budgets) {
    throw Error(Fault::kConfig,
                "usage: apo sweep -c FILE --out DIR --budgets A-B [--claim N] [--no-wait] "
                "[--section.key VALUE ...]" +
                    (line.positionals.empty() ? std::string()
                                              : "; unexpected '" + line.positionals[0] + "'"));
  }
  SweepCommand command;
  command.out = *out;
  command.budgets = federation::parse_budgets(*budgets);
  command.wait = !line.has("no-wait");
  if (const auto claim = line.value("claim")) {
    const char* end = claim->data() + claim->size();
    const auto [stop, code] = std::from_chars(claim->data(), end, command.claim);
    if (code != std::errc{} || stop != end || command.claim < 1 || command.claim > kMaxClaims) {
      throw Error(Fault::kConfig, "--claim " + *claim + ": expected a number of clusters in [1, " +
                                      std::to_string(kMaxClaims) + "]");
    }
  }
  return command;
}

}  // namespace

int sweep(const Arguments& arguments, comm::World& world) {
  const CommandLine line = parse_command_line(arguments,
                                              {{"config", true, 'c'},
                                               {"out", true, 'o'},
                                               {"budgets", true, 'b'},
                                               {"claim", true},
                                               {"no-wait", false}},
                                              true);
  SweepCommand command = command_of(line);
  const config::RunConfig config = config::load_run_config(*line.value("config"), line.overrides);
  check_sweep(config);
  const comm::Watchdog watchdog(world, config.runtime.timeout);
  comm::set_nccl_limits(comm::nccl_limits_before_watchdog(config.runtime.timeout));
  return SweepJob(world, config, std::move(command))();
}

}  // namespace apo::cli
