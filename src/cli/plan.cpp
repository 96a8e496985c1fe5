#include "apo/methods/plan.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>

#include "command_line.hpp"
#include "commands.hpp"
#include "plan_calibration.hpp"
#include "plan_subject.hpp"
#include "plan_text.hpp"
#include "run_pipeline.hpp"
#include "run_task.hpp"

#include "apo/comm/cluster_communicator.hpp"
#include "apo/comm/world.hpp"
#include "apo/config/run_config.hpp"
#include "apo/core/clock.hpp"
#include "apo/core/error.hpp"
#include "apo/core/log.hpp"
#include "apo/core/process_memory.hpp"
#include "apo/methods/population.hpp"

namespace apo::cli {
namespace {

struct PlanOptions {
  std::string config;
  std::string out;  ///< empty: the disk is not looked at
  int ranks = 1;
  int ranks_per_node = 1;
  double memory_per_node = 0.0;  ///< bytes; 0: this machine's
  double device_memory = 0.0;    ///< bytes of a rank's GPU; 0: that of the one it has here
  bool calibrates = true;
  bool json = false;
};

int positive(const CommandLine& line, const char* name, int preset) {
  const auto text = line.value(name);
  if (!text) {
    return preset;
  }
  int value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size() || value < 1) {
    throw Error(Fault::kConfig,
                fmt::format("--{}: expected a positive integer, found '{}'", name, *text));
  }
  return value;
}

PlanOptions read_options(const CommandLine& line, const comm::World& world) {
  const auto file = line.value("config");
  if (!file || !line.positionals.empty()) {
    throw Error(Fault::kConfig,
                "usage: apo plan -c FILE [--ranks N] [--ranks-per-node N] [--memory-per-node SIZE] "
                "[--device-memory SIZE] [--out DIR] [--no-calibration] [--format text|json] "
                "[--section.key VALUE ...]" +
                    (line.positionals.empty() ? std::string()
                                              : "; unexpected '" + line.positionals[0] + "'"));
  }
  PlanOptions options;
  options.config = *file;
  options.out = line.value("out").value_or("");
  options.ranks = positive(line, "ranks", world.size());
  options.ranks_per_node = positive(line, "ranks-per-node", options.ranks);
  if (const auto memory = line.value("memory-per-node")) {
    options.memory_per_node = parse_bytes("--memory-per-node", *memory);
  }
  if (const auto memory = line.value("device-memory")) {
    options.device_memory = parse_bytes("--device-memory", *memory);
  }
  options.calibrates = !line.has("no-calibration");
  const std::string format = line.value("format").value_or("text");
  if (format != "text" && format != "json") {
    throw Error(Fault::kConfig, fmt::format("--format: expected text or json, found '{}'", format));
  }
  options.json = format == "json";
  return options;
}

/// Adapters' numbers that a cluster trains under a scheme, in adapters.
int models_of(const config::RunConfig& config, const std::string& scheme, int num_objectives) {
  if (scheme == "ifca") {
    return config.baseline.num_models;
  }
  return scheme == "rewarded_soup" ? num_objectives : 1;
}

struct ExpectedLosses {
  std::vector<std::vector<double>> loss;  ///< [N][m]
  std::string from;
};

/// Losses at w_ref, as far as they are known before the run.
/// @param mean  [m] measured on a few clients; empty: none
ExpectedLosses expected_losses(comm::World& world, const config::RunConfig& config, RunTask& task,
                               const std::vector<double>& mean) {
  const data::Partition& partition = task.partition();
  const bool warm = clustering::warm_rounds(config.clustering) > 0;
  const std::string after = warm ? "; the warm-up will change them" : "";
  if (config.method.task == "analytic") {
    return {methods::reference_losses(world, partition, task.objectives()),
            warm ? "from the losses before the warm-up" : "exact"};
  }
  // An untrained adapter is the reference policy: h = 0 for every pair.
  const bool equal = config.dpo.loss != "sft" && config.dpo.nll_weight == 0.0;
  const auto m = static_cast<std::size_t>(task.objective_names().size());
  std::vector<double> loss(m, std::log(2.0));
  std::string from = equal ? "exact: all losses of an untrained adapter are equal"
                           : "as if all losses were equal; the run will measure them";
  if (!equal && !mean.empty()) {
    for (std::size_t j = 0; j < m; ++j) {
      loss[j] = std::isfinite(mean[j]) ? mean[j] : loss[j];
    }
    from = "from the losses of one client; the run will measure all";
  }
  ExpectedLosses expected{{}, from + after};
  for (const data::Client& client : partition.clients) {
    const data::Pool& pool =
        client.split == data::ClientSplit::kTrain ? client.train : client.adapt;
    expected.loss.push_back(loss);
    for (std::size_t j = 0; j < m; ++j) {
      if (pool[j].empty()) {
        expected.loss.back()[j] = std::numeric_limits<double>::quiet_NaN();
      }
    }
  }
  return expected;
}

std::string order_text(const clustering::Cluster& cluster,
                       const std::vector<std::string>& objectives) {
  std::string text;
  for (const int j : cluster.order) {
    text += (text.empty() ? "" : " > ") + objectives[static_cast<std::size_t>(j)];
  }
  return text.empty() ? "(none common)" : text;
}

/// Clusters and the test clients in use.
void add_groups(const methods::Population& population, const RunTask& task, PlanReport& report) {
  methods::PlanInputs& inputs = report.inputs;
  report.clustering_warning = population.clustering.warning;
  for (const clustering::Cluster& cluster : population.clustering.clusters) {
    if (inputs.traits.per_cluster) {
      inputs.groups.push_back(cluster.members);
    }
    report.cluster_names.push_back(order_text(cluster, task.objective_names()));
  }
  if (!inputs.traits.per_cluster) {
    inputs.groups.push_back(inputs.train_clients);
    report.cluster_names = {"(all clients)"};
  }
  inputs.test_clients = methods::chosen_test_clients(task.partition(), population,
                                                     inputs.options.adapt.test_clients_per_cluster);
}

/// Free bytes where DIR is, or will be.
double free_bytes(const std::string& out) {
  std::filesystem::path folder = std::filesystem::absolute(out);
  while (!std::filesystem::exists(folder) && folder.has_relative_path()) {
    folder = folder.parent_path();
  }
  return static_cast<double>(std::filesystem::space(folder).available);
}

class Planner {
 public:
  Planner(comm::World& world, PlanOptions options, config::RunConfig config)
      : world_(world), options_(std::move(options)), config_(std::move(config)) {}

  PlanReport run() {
    report_.configuration = options_.config;
    comm::ClusterCommunicator& all = world_.all();
    all.run_and_agree([&] { lengths_ = read_lengths(config_); });
    release_freed_memory();
    const Stopwatch watch;
    device_ = comm::choose_rank_device(world_, config_.runtime.device);
    all.run_and_agree([&] { task_ = make_task(config_, device_); });
    start_ = watch.seconds();
    fill_inputs();
    const bool language = lengths_.model.has_value();
    const NodeMemory node = node_memory();
    set_limit(node);
    // The GPUs of another machine: its times and its memory beside them cannot be measured here.
    const bool elsewhere = language && options_.device_memory > 0.0 && !device_.is_gpu();
    if (options_.calibrates && !elsewhere && agreed(model_fits_here(node))) {
      calibrate_here();
    } else if (!language) {
      task_->prepare();
    }
    if (!language) {
      report_.inputs.num_parameters = task_->objectives().num_parameters();
    }
    report_.inputs.scheme_parameters =
        report_.inputs.num_parameters *
        models_of(config_, report_.inputs.traits.scheme, report_.inputs.num_objectives);
    const ExpectedLosses losses = expected_losses(world_, config_, *task_, calibration_.mean_loss);
    report_.clusters_from = losses.from;
    add_groups(methods::make_population(task_->partition(), losses.loss, config_.clustering),
               *task_, report_);
    predict();
    return std::move(report_);
  }

 private:
  void fill_inputs() {
    methods::PlanInputs& inputs = report_.inputs;
    inputs = plan_inputs(config_, task_->partition(), lengths_);
    inputs.options = experiment_options(config_);
    inputs.traits = methods::method_traits(config_.method);
    inputs.num_ranks = options_.ranks;
    inputs.ranks_per_node = std::min(options_.ranks_per_node, options_.ranks);
    inputs.test_clients = task_->partition().test_clients();
    inputs.num_parameters =
        lengths_.model ? num_adapter_parameters(config_, lengths_) : config_.analytic.dimension;
  }

  void set_limit(const NodeMemory& node) {
    const bool given = options_.memory_per_node > 0.0;
    report_.node_limit = given ? options_.memory_per_node : static_cast<double>(node.total);
    report_.node_available = given ? 0.0 : static_cast<double>(node.available);
    report_.limit_from = given ? "--memory-per-node" : "this machine";
    if (lengths_.model) {
      const bool device_given = options_.device_memory > 0.0;
      report_.device_limit = device_given ? options_.device_memory : device_.memory;
      report_.device_from = device_given ? "--device-memory" : device_.model;
    }
  }

  /// A model that this machine cannot hold is planned by arithmetic.
  [[nodiscard]] bool model_fits_here(const NodeMemory& node) const {
    const methods::MemoryBasis basis = model_memory(config_, lengths_);
    const double needed =
        basis.weights + std::max({basis.loading, basis.activations, basis.generation});
    return needed * world_.size() < static_cast<double>(node.available);
  }

  /// True when it is on all ranks: nodes differ.
  [[nodiscard]] bool agreed(bool mine) {
    std::vector<double> all = {mine ? 1.0 : 0.0};
    world_.all().all_reduce(std::span<double>(all), comm::Reduction::kMin);
    return all[0] != 0.0;
  }

  void calibrate_here() {
    if (!options_.json && world_.rank() == 0) {
      std::fprintf(stderr, "apo: calibrating on this machine ...\n");
    }
    calibration_ = calibrate(world_, config_, *task_, report_.inputs, lengths_, start_);
    report_.calibrated = true;
    report_.calibration_seconds = calibration_.seconds;
  }

  [[nodiscard]] methods::MemoryBasis memory_basis() const {
    if (report_.calibrated) {
      return calibration_.memory;
    }
    // What the libraries take on first use, as a measured run shows it.
    constexpr double kMib = 1024.0 * 1024.0;
    constexpr double kTorchPages = 20.0 * kMib;
    constexpr double kTorchHeap = 8.0 * kMib;
    constexpr double kFirstRank = 20.0 * kMib;
    methods::MemoryBasis basis = model_memory(config_, lengths_);
    if (report_.device_limit > 0.0) {  // the model passes through here
      basis.loading += basis.weights;
      basis.weights = basis.activations = basis.forward = basis.generation = 0.0;
    }
    const ProcessMemory now = process_memory();
    basis.libraries = static_cast<double>(now.file) + (lengths_.model ? kTorchPages : 0.0);
    basis.process = static_cast<double>(now.anonymous) + (lengths_.model ? kTorchHeap : 0.0);
    basis.first_rank = kFirstRank;
    return basis;
  }

  void predict() {
    const methods::PlanInputs& inputs = report_.inputs;
    const methods::MemoryBasis basis = memory_basis();
    const methods::RowBytes rows = run_file_rows(inputs.num_objectives, config_);
    report_.work = methods::plan_work(inputs);
    report_.traffic = methods::plan_traffic(inputs, report_.work);
    report_.disk = methods::plan_disk(inputs, report_.work, rows);
    report_.memory = methods::plan_memory(inputs, report_.work, report_.disk, basis);
    if (report_.calibrated) {
      report_.time = methods::plan_time(
          report_.work, calibration_.unit,
          report_.disk.checkpoint_bytes / 2.0 + report_.disk.run_file_bytes / 2.0);
    }
    if (!options_.out.empty()) {
      report_.disk_free = free_bytes(options_.out);
    }
    const bool memory_fits = report_.memory.node <= report_.node_limit;
    if (report_.device_limit > 0.0) {
      const methods::MemoryBasis model = model_memory(config_, lengths_);
      report_.device = methods::plan_device(inputs, model);
      if (report_.device.total > report_.device_limit) {
        report_.device_change =
            methods::smallest_device_change(inputs, model, report_.device_limit);
      }
    }
    report_.fits = memory_fits && report_.device.total <= report_.device_limit &&
                   (report_.disk_free < 0.0 || report_.disk.total_bytes <= report_.disk_free);
    if (!memory_fits) {
      report_.change = methods::smallest_change(inputs, basis, rows, report_.node_limit);
    }
  }

  comm::World& world_;
  PlanOptions options_;
  config::RunConfig config_;
  PairLengths lengths_;
  comm::RankDevice device_;
  std::unique_ptr<RunTask> task_;
  double start_ = 0.0;
  Calibration calibration_;
  PlanReport report_;
};

}  // namespace

int plan(const Arguments& arguments, comm::World& world) {
  const CommandLine line = parse_command_line(arguments,
                                              {{"config", true, 'c'},
                                               {"out", true, 'o'},
                                               {"ranks"},
                                               {"ranks-per-node"},
                                               {"memory-per-node"},
                                               {"device-memory"},
                                               {"no-calibration", false},
                                               {"format"}},
                                              true);
  PlanOptions options = read_options(line, world);
  config::RunConfig config = config::load_run_config(options.config, line.overrides);
  spdlog::set_level(spdlog::level::err);  // stdout is the plan's
  const bool json = options.json;
  const PlanReport report = Planner(world, std::move(options), std::move(config)).run();
  if (world.rank() == 0) {
    const std::string text = json ? plan_json(report) : plan_text(report);
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() ||
        std::fflush(stdout) != 0) {
      throw Error(Fault::kBackend, "standard output: cannot be written");
    }
  }
  if (!report.fits) {
    throw Error(Fault::kData, refusal(report));
  }
  return 0;
}

}  // namespace apo::cli
