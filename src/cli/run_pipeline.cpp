#include "run_pipeline.hpp"

#include "run_tables.hpp"

#include "apo/comm/cluster_communicator.hpp"
#include "apo/core/log.hpp"
#include "apo/core/process_memory.hpp"
#include "apo/core/sha256.hpp"
#include "apo/core/version.hpp"
#include "apo/methods/solution_sets.hpp"

namespace apo::cli {

std::unique_ptr<RunTask> make_task(const config::RunConfig& config,
                                   const comm::RankDevice& device) {
  return config.method.task == "analytic" ? make_analytic_run_task(config)
                                          : make_language_task(config, device);
}

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
  options.training.reproducible = config.runtime.reduction == "reproducible";
  options.training.backend =
      config.runtime.collectives == "nccl" ? comm::Backend::kNccl : comm::Backend::kMpi;
  options.training.checkpoint_every = config.checkpoint.every_rounds;
  return methods::resolved(std::move(options));
}

store::Document run_header(const config::RunConfig& config, const comm::World& world,
                           const std::vector<std::string>& hosts, const std::string& method,
                           const std::vector<std::string>& objective_names) {
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
  root["objectives"] = objective_names;
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

void add_results(store::Document& document, const RunTask& task, const std::filesystem::path& dir,
                 const std::vector<std::vector<float>>& parameters,
                 const methods::ExperimentResult& result) {
  const int m = static_cast<int>(task.objective_names().size());
  if (!parameters.empty()) {
    task.leave_parameters(dir, parameters, document);
  }
  Table adaptation = step_table(m);
  for (const federation::StepRecord& step : result.adaptation) {
    push(adaptation, step);
  }
  std::vector<std::vector<double>> preference;
  for (const data::Client& client : task.partition().clients) {
    preference.push_back(client.preference);
  }
  document.put_table("adaptation/steps", adaptation, "row");
  document.put_table("evaluation/summary", result.evaluation, "row");
  document.put_table("evaluation/responses", result.responses, "row");
  document.put_table("evaluation/fronts", methods::front_table(result.evaluation, preference),
                     "front");
}

std::vector<double> gather_peak_memory(comm::World& world) {
  double peak = 0.0;
  world.all().run_and_agree([&] { peak = static_cast<double>(process_memory().peak); });
  std::vector<double> peaks(static_cast<std::size_t>(world.size()));
  world.all().all_gather(std::span<const double>(&peak, 1), peaks);
  return peaks;
}

void add_performance(store::Document& document,
                     const std::vector<std::pair<std::string, double>>& parts,
                     std::span<const double> peak_bytes) {
  Table performance;
  performance.text("part", "part of the run");
  performance.real("seconds", "s", "wall time of this process, this part");
  for (const auto& [part, seconds] : parts) {
    performance.push("part", part);
    performance.push("seconds", seconds);
  }
  document.put_table("performance", performance, "part_row");
  Table ranks;
  ranks.integer("rank", "", "rank of the job's last start");
  ranks.real("peak_bytes", "B", "largest resident memory of the rank's process");
  for (std::size_t r = 0; r < peak_bytes.size(); ++r) {
    ranks.push("rank", static_cast<std::int64_t>(r));
    ranks.push("peak_bytes", peak_bytes[r]);
  }
  document.put_table("performance/ranks", ranks, "rank");
}

}  // namespace apo::cli
