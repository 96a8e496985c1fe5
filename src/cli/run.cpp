#include <filesystem>
#include <memory>

#include "command_line.hpp"
#include "commands.hpp"
#include "results_table.hpp"
#include "run_recorder.hpp"
#include "run_tables.hpp"
#include "run_task.hpp"

#include "apo/comm/cluster_communicator.hpp"
#include "apo/comm/world.hpp"
#include "apo/config/run_config.hpp"
#include "apo/core/clock.hpp"
#include "apo/core/error.hpp"
#include "apo/core/log.hpp"
#include "apo/core/sha256.hpp"
#include "apo/core/version.hpp"
#include "apo/methods/experiment.hpp"
#include "apo/methods/solution_sets.hpp"
#include "apo/store/run_directory.hpp"

namespace apo::cli {
namespace {

methods::ExperimentOptions experiment_options(const config::RunConfig& config) {
  methods::ExperimentOptions options;
  options.method = config.method;
  options.evaluate = config.evaluate;
  options.clustering = config.clustering;
  options.adapt = config.adapt;
  options.training.phase1 = config.phase1;
  options.training.phase2 = config.phase2;
  options.training.baseline = config.baseline;
  options.training.monitor = config.monitor;
  options.training.direction = config.direction;
  options.training.seed = *config.runtime.seed;
  options.training.ordered_reduction = config.runtime.reduction == "ordered";
  options.training.backend =
      config.runtime.collectives == "nccl" ? comm::Backend::kNccl : comm::Backend::kMpi;
  options.training.checkpoint_every = config.checkpoint.every_rounds;
  return methods::resolved(std::move(options));
}

store::Document header(const config::RunConfig& config, const comm::World& world,
                       const std::vector<std::string>& hosts, const std::string& method) {
  const std::string text = config::to_ini(config);
  store::Document document;
  auto& root = document.attributes[""];
  root["format_version"] = std::int64_t{1};
  root["apo_version"] = std::string(version());
  root["git_revision"] = std::string(git_revision());
  root["configuration"] = text;
  root["configuration_sha256"] = sha256_hex(text);
  root["method"] = method;
  root["seed"] = static_cast<std::int64_t>(*config.runtime.seed);
  root["libraries"] = std::vector<std::string>{world.library_version()};
  root["hosts"] = hosts;
  root["world_size"] = std::int64_t{world.size()};
  return document;
}

void add_population(store::Document& document, const methods::Population& population,
                    const data::Partition& partition, const federation::Placement& placement,
                    bool per_cluster) {
  document.put_table("clients", client_table(partition, population), "client");
  document.put_table("clusters", cluster_table(population, placement, per_cluster), "cluster");
  document.put_table("dendrogram", dendrogram_table(population), "merge");
}

void log_population(const methods::Population& population,
                    const std::vector<std::string>& objectives) {
  if (!population.clustering.warning.empty()) {
    log::warn("clustering: {}", population.clustering.warning);
  }
  for (const clustering::Cluster& cluster : population.clustering.clusters) {
    std::string order;
    for (const int j : cluster.order) {
      order += (order.empty() ? "" : " > ") + objectives[static_cast<std::size_t>(j)];
    }
    log::info("cluster {}: {} clients, weight {:.0f}, bottleneck order {}{}", cluster.id.value,
              cluster.members.size(), cluster.weight, order.empty() ? "(none common)" : order,
              cluster.bottleneck_mixed ? " (mixed)" : "");
  }
}

}  // namespace

int run(const Arguments& arguments, comm::World& world) {
  const CommandLine line =
      parse_command_line(arguments, {{"config", true, 'c'}, {"out", true, 'o'}}, true);
  const auto file = line.value("config");
  const auto out = line.value("out");
  if (!line.positionals.empty() || !file || !out) {
    throw Error(Fault::kConfig,
                "usage: apo run -c FILE --out DIR [--section.key VALUE ...]" +
                    (line.positionals.empty() ? std::string()
                                              : "; unexpected '" + line.positionals[0] + "'"));
  }
  const config::RunConfig config = config::load_run_config(*file, line.overrides);
  const std::string configuration = config::to_ini(config);
  const Stopwatch watch;
  log::info("apo {} ({}), {} ranks, {}", version(), git_revision(), world.size(), utc_now());
  log::info("resolved configuration\n{}", configuration);

  comm::ClusterCommunicator& all = world.all();
  std::unique_ptr<RunTask> task;
  all.run_and_agree([&] {
    task = config.method.task == "analytic" ? make_analytic_run_task(config)
                                            : make_language_task(config);
  });
  std::unique_ptr<store::RunDirectory> directory;
  all.run_and_agree([&] {
    if (world.rank() == 0) {
      directory = std::make_unique<store::RunDirectory>(
          store::RunDirectory::open(*out, configuration, config.checkpoint));
      log::add_json_file(directory->path() / "log.jsonl");
    }
  });
  std::vector<double> finished = {directory && directory->finished() ? 1.0 : 0.0};
  all.broadcast(std::span<double>(finished), 0);
  if (finished[0] != 0.0) {
    log::info("{} holds a complete run of this configuration; nothing to do. See: apo report {}",
              *out, *out);
    return 0;
  }

  all.run_and_agree([&] { task->prepare(); });
  const std::vector<std::string>& objective_names = task->objective_names();
  const int m = static_cast<int>(objective_names.size());

  const methods::ExperimentOptions options = experiment_options(config);
  methods::Experiment experiment(
      world, {task->partition(), task->objectives(), task->evaluator(), task->personaliser()},
      options);
  log::info("reference losses and clusters ...");
  const methods::Population& population = experiment.population();
  log_population(population, objective_names);
  const double seconds_population = watch.seconds();

  federation::Trainer& trainer = experiment.trainer();
  const std::vector<std::string> hosts = all.all_gather(world.host());
  store::Document document = header(config, world, hosts, methods::method_label(options));
  document.attributes[""]["objectives"] = objective_names;
  add_population(document, population, task->partition(), trainer.placement(),
                 methods::method_traits(config.method).per_cluster);
  task->describe(document);
  RunRecorder recorder(world, directory.get(), std::move(document), m, trainer.total_rounds());
  if (auto state = recorder.resume()) {
    trainer.restore(std::move(*state));
  }
  experiment.train(recorder);
  const double seconds_training = watch.seconds() - seconds_population;

  log::info("adapting and evaluating {} test clients ...", experiment.test_clients().size());
  const methods::ExperimentResult result = experiment.evaluate();
  const double seconds_total = watch.seconds();
  all.run_and_agree([&] {
    if (world.rank() != 0) {
      return;
    }
    Table adaptation = step_table(m);
    for (const federation::StepRecord& step : result.adaptation) {
      push(adaptation, step);
    }
    Table performance;
    performance.text("part", "part of the run");
    performance.real("seconds", "s", "wall time of this process, this part");
    const std::vector<std::pair<std::string, double>> parts = {
        {"population", seconds_population},
        {"training", seconds_training},
        {"evaluation", seconds_total - seconds_training - seconds_population}};
    for (const auto& [part, seconds] : parts) {
      performance.push("part", part);
      performance.push("seconds", seconds);
    }
    std::vector<std::vector<double>> preference;
    for (const data::Client& client : task->partition().clients) {
      preference.push_back(client.preference);
    }
    const Table fronts = methods::front_table(result.evaluation, preference);
    recorder.publish([&](store::Document& whole) {
      if (methods::method_traits(config.method).trains) {
        // With several start rounds the last one is final; the others are in the checkpoint.
        const int variant = static_cast<int>(trainer.start_rounds().size()) - 1;
        task->leave_parameters(directory->path(), trainer.final_parameters(variant), whole);
      }
      whole.put_table("adaptation/steps", adaptation, "row");
      whole.put_table("evaluation/summary", result.evaluation, "row");
      whole.put_table("evaluation/responses", result.responses, "row");
      whole.put_table("evaluation/fronts", fronts, "front");
      whole.put_table("performance", performance, "part_row");
    });
    recorder.write_status("complete", 0);
    const RunResults results = read_results(*out);
    log::info("\n{}", format_tables({results}, TableFormat::kText));
    log::info("result: complete rounds={} wall={} out={}", trainer.total_rounds(),
              human_duration(seconds_total), *out);
  });
  return 0;
}

}  // namespace apo::cli
