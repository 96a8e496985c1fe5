#include <filesystem>
#include <memory>
#include <optional>

#include "command_line.hpp"
#include "commands.hpp"
#include "provenance.hpp"
#include "results_table.hpp"
#include "run_adapted.hpp"
#include "run_pipeline.hpp"
#include "run_recorder.hpp"
#include "run_task.hpp"
#include "stop_signals.hpp"
#include "time_limit.hpp"

#include "apo/comm/cluster_communicator.hpp"
#include "apo/comm/device_map.hpp"
#include "apo/comm/nccl_limits.hpp"
#include "apo/comm/watchdog.hpp"
#include "apo/comm/world.hpp"
#include "apo/config/run_config.hpp"
#include "apo/core/clock.hpp"
#include "apo/core/error.hpp"
#include "apo/core/log.hpp"
#include "apo/core/version.hpp"
#include "apo/methods/experiment.hpp"
#include "apo/store/run_directory.hpp"

namespace apo::cli {
namespace {

/// Where a command of the chain stops; each includes the ones before.
enum class Stage { kCluster, kTrain, kMeta, kAdapt, kEvaluate };

struct StageCommand {
  std::string name;
  Stage last = Stage::kEvaluate;
  bool alone = false;  ///< goes on from what the earlier stage left, and refuses to do its work
};

/// One run of one directory, from its inputs to the stage asked for.
class Run {
 public:
  Run(comm::World& world, config::RunConfig config, std::string out, StageCommand command)
      : world_(world),
        all_(world.all()),
        config_(std::move(config)),
        out_(std::move(out)),
        command_(std::move(command)) {}

  int operator()() {
    const comm::Watchdog watchdog(world_, config_.runtime.timeout);
    comm::set_nccl_limits(comm::nccl_limits_before_watchdog(config_.runtime.timeout));
    open();
    if (finished_) {
      return 0;
    }
    prepare();
    if (command_.last == Stage::kCluster) {
      return close("clustered", "apo train");
    }
    if (train() == federation::Outcome::kStopped) {
      return stopped();
    }
    if (command_.last == Stage::kTrain) {
      return close("phase 1 complete", "apo meta");
    }
    if (command_.last == Stage::kMeta) {
      return close("trained", "apo adapt");
    }
    if (command_.last == Stage::kAdapt) {
      return adapt() ? close("adapted", "apo evaluate") : stopped();
    }
    return evaluate() ? 0 : stopped();
  }

 private:
  [[nodiscard]] std::filesystem::path adapted_file() const {
    return std::filesystem::path(out_) / "adapted.h5";
  }

  [[noreturn]] void missing(const std::string& what, const std::string& earlier) const {
    throw Error(Fault::kConfig, "apo " + command_.name + ": " + out_ + " holds no " + what +
                                    "; run apo " + earlier + " with the same configuration first");
  }

  void open() {
    // First of all: a signal during the start may not end the job without a word, and a key that
    // cannot be read may not leave a folder.
    install_stop_signals(config_.checkpoint.stop_signals);
    if (!config_.checkpoint.max_walltime.empty()) {
      (void)parse_walltime("checkpoint.max_walltime", config_.checkpoint.max_walltime);
    }
    const std::string configuration = config::to_ini(config_);
    log::info("apo {} ({}), {} ranks, {}", version(), git_revision(), world_.size(), utc_now());
    log::info("resolved configuration\n{}", configuration);
    device_ = comm::choose_rank_device(world_, config_.runtime.device);
    all_.run_and_agree([&] { task_ = make_task(config_, device_); });
    all_.run_and_agree([&] {
      if (world_.rank() != 0) {
        return;
      }
      if (command_.alone && command_.last != Stage::kCluster && !std::filesystem::exists(out_)) {
        missing("run", "cluster");
      }
      directory_ = std::make_unique<store::RunDirectory>(
          store::RunDirectory::open(out_, configuration, config_.checkpoint));
      log::add_json_file(directory_->path() / "log.jsonl");
    });
    std::vector<double> finished = {directory_ && directory_->finished() ? 1.0 : 0.0};
    all_.broadcast(std::span<double>(finished), 0);
    finished_ = finished[0] != 0.0;
    if (finished_) {
      log::info("{} holds a complete run of this configuration; nothing to do. See: apo report {}",
                out_, out_);
    }
  }

  /// Losses at w_ref that an earlier start of this run has measured; empty: none.
  std::vector<std::vector<double>> known_losses() {
    std::vector<double> flat;
    all_.run_and_agree([&] {
      if (!directory_) {
        return;
      }
      (void)directory_->load_checkpoint([&](const store::Document& checkpoint) {
        const Table clients = checkpoint.get_table("clients");
        if (const Column* column = clients.find("measured_loss")) {
          flat = std::get<std::vector<double>>(column->values);
        }
      });
    });
    std::vector<double> size = {static_cast<double>(flat.size())};
    all_.broadcast(std::span<double>(size), 0);
    flat.resize(static_cast<std::size_t>(size[0]));
    all_.broadcast(std::span<double>(flat), 0);
    std::vector<std::vector<double>> losses;
    const std::size_t m = task_->objective_names().size();
    if (flat.size() == m * task_->partition().clients.size()) {
      for (std::size_t at = 0; at < flat.size(); at += m) {
        losses.emplace_back(flat.begin() + static_cast<std::ptrdiff_t>(at),
                            flat.begin() + static_cast<std::ptrdiff_t>(at + m));
      }
    }
    return losses;
  }

  void prepare() {
    all_.run_and_agree([&] { task_->prepare(); });
    const std::vector<std::string>& names = task_->objective_names();
    const methods::ExperimentOptions options = experiment_options(config_);
    experiment_ = std::make_unique<methods::Experiment>(
        world_,
        methods::ExperimentInputs{task_->partition(), task_->objectives(), task_->evaluator(),
                                  task_->personaliser()},
        options);
    log::info("reference losses and clusters ...");
    const methods::Population& population = experiment_->population(known_losses());
    log_population(population, names);
    seconds_population_ = watch_.seconds();

    federation::Trainer& trainer = experiment_->trainer();
    const std::vector<std::string> hosts = all_.all_gather(world_.host());
    store::Document document =
        run_header(config_, world_, hosts, methods::method_label(options), names);
    add_population(document, population, task_->partition(), trainer.placement(),
                   methods::method_traits(config_.method).per_cluster);
    task_->describe(document);
    add_devices(world_, device_, document);
    recorder_ =
        std::make_unique<RunRecorder>(world_, directory_.get(), std::move(document),
                                      static_cast<int>(names.size()), trainer.total_rounds());
    if (auto state = recorder_->resume()) {
      trainer.restore(std::move(*state));
    } else if (command_.alone && command_.last != Stage::kCluster) {
      missing("clusters", "cluster");
    } else if (command_.last == Stage::kCluster) {
      recorder_->on_checkpoint(trainer.state());
    }
  }

  federation::Outcome train() {
    federation::Trainer& trainer = experiment_->trainer();
    const federation::TrainingState& state = trainer.state();
    const int phase1_rounds = experiment_options(config_).training.phase1.rounds;
    if (command_.alone && command_.last >= Stage::kMeta && state.phase1_rounds < phase1_rounds) {
      missing("finished Phase I", "train");
    }
    if (command_.alone && command_.last >= Stage::kAdapt &&
        state.variant < static_cast<int>(trainer.start_rounds().size())) {
      missing("finished Phase II", "meta");
    }
    const federation::Outcome outcome =
        experiment_->train(*recorder_, command_.last == Stage::kTrain ? federation::Phase::kOne
                                                                      : federation::Phase::kTwo);
    seconds_training_ = watch_.seconds() - seconds_population_;
    return outcome;
  }

  /// @returns false: asked to stop
  bool adapt() {
    log::info("adapting {} test clients ...", experiment_->test_clients().size());
    const auto adapted = experiment_->adapt([&] { return recorder_->stop_requested(); });
    if (!adapted) {
      return false;
    }
    all_.run_and_agree([&] {
      if (world_.rank() == 0) {
        write_adapted(adapted_file(), *adapted);
      }
    });
    return true;
  }

  /// @returns false: asked to stop
  bool evaluate() {
    log::info("{}evaluating {} test clients ...", command_.alone ? "" : "adapting and ",
              experiment_->test_clients().size());
    methods::AdaptedClients adapted;
    if (command_.alone) {
      all_.run_and_agree([&] {
        if (!std::filesystem::exists(adapted_file())) {
          missing("adapted clients", "adapt");
        }
        adapted = read_adapted(adapted_file());
      });
    }
    const std::optional<methods::ExperimentResult> result = experiment_->evaluate(
        command_.alone ? &adapted : nullptr, [&] { return recorder_->stop_requested(); });
    if (!result) {
      return false;
    }
    const std::vector<double> peaks = gather_peak_memory(world_);
    const double seconds_total = watch_.seconds();
    all_.run_and_agree([&] {
      if (world_.rank() != 0) {
        return;
      }
      recorder_->publish([&](store::Document& whole) {
        std::vector<std::vector<float>> parameters;
        if (methods::method_traits(config_.method).trains) {
          // With several start rounds the last one is final; the others are in the checkpoint.
          const federation::Trainer& trainer = experiment_->trainer();
          parameters =
              trainer.final_parameters(static_cast<int>(trainer.start_rounds().size()) - 1);
        }
        add_results(whole, *task_, directory_->path(), parameters, *result);
        add_performance(whole,
                        {{"population", seconds_population_},
                         {"training", seconds_training_},
                         {"evaluation", seconds_total - seconds_training_ - seconds_population_}},
                        peaks);
      });
      recorder_->write_status("complete", 0);
      log::info("\n{}", format_tables({read_results(out_)}, TableFormat::kText));
      log::info("result: complete rounds={} wall={} out={}", experiment_->trainer().total_rounds(),
                human_duration(seconds_total), out_);
    });
    return true;
  }

  /// Whether a later stage has begun: an earlier one is then done already.
  [[nodiscard]] bool is_past(Stage stage) const {
    const federation::TrainingState& state = experiment_->trainer().state();
    switch (stage) {
      case Stage::kCluster:
        return state.phase1_rounds > 0 || state.variant > 0;
      case Stage::kTrain:
        return state.variant > 0 || state.phase2_rounds > 0;
      case Stage::kMeta:
        return std::filesystem::exists(adapted_file());
      default:
        return false;
    }
  }

  /// A stage of a chain is done.
  int close(const std::string& state, const std::string& next) {
    all_.run_and_agree([&] {
      if (world_.rank() != 0) {
        return;
      }
      if (is_past(command_.last)) {
        log::info("{} was done before; nothing to do. Next: {}", state, next);
        return;
      }
      recorder_->publish([](store::Document& /*whole*/) {});
      recorder_->write_status(state, 0);
      log::info("result: {} wall={} out={}; next: {}", state, human_duration(watch_.seconds()),
                out_, next);
    });
    return 0;
  }

  /// Rank 0 alone returns 75: a launcher reports the highest code, and a rank that is late with its
  /// own would be taken for a failure (operations.md 4.3).
  int stopped() {
    all_.run_and_agree([&] {
      if (world_.rank() == 0) {
        recorder_->write_status("stopped", exit_code(Fault::kRequeue));
        log::info("result: {} wall={} out={}", recorder_->stop_text(),
                  human_duration(watch_.seconds()), out_);
      }
    });
    return world_.rank() == 0 ? exit_code(Fault::kRequeue) : 0;
  }

  comm::World& world_;
  comm::ClusterCommunicator& all_;
  config::RunConfig config_;
  std::string out_;
  StageCommand command_;
  comm::RankDevice device_;
  Stopwatch watch_;
  bool finished_ = false;
  double seconds_population_ = 0.0;
  double seconds_training_ = 0.0;
  std::unique_ptr<RunTask> task_;
  std::unique_ptr<store::RunDirectory> directory_;
  std::unique_ptr<methods::Experiment> experiment_;
  std::unique_ptr<RunRecorder> recorder_;
};

int run_stage(const Arguments& arguments, comm::World& world, StageCommand command) {
  const CommandLine line =
      parse_command_line(arguments, {{"config", true, 'c'}, {"out", true, 'o'}}, true);
  const auto file = line.value("config");
  const auto out = line.value("out");
  if (!line.positionals.empty() || !file || !out) {
    throw Error(Fault::kConfig,
                "usage: apo " + command.name + " -c FILE --out DIR [--section.key VALUE ...]" +
                    (line.positionals.empty() ? std::string()
                                              : "; unexpected '" + line.positionals[0] + "'"));
  }
  return Run(world, config::load_run_config(*file, line.overrides), *out, std::move(command))();
}

}  // namespace

int run(const Arguments& arguments, comm::World& world) {
  return run_stage(arguments, world, {"run", Stage::kEvaluate, false});
}
int cluster(const Arguments& arguments, comm::World& world) {
  return run_stage(arguments, world, {"cluster", Stage::kCluster, true});
}
int train(const Arguments& arguments, comm::World& world) {
  return run_stage(arguments, world, {"train", Stage::kTrain, true});
}
int meta(const Arguments& arguments, comm::World& world) {
  return run_stage(arguments, world, {"meta", Stage::kMeta, true});
}
int adapt(const Arguments& arguments, comm::World& world) {
  return run_stage(arguments, world, {"adapt", Stage::kAdapt, true});
}
int evaluate(const Arguments& arguments, comm::World& world) {
  return run_stage(arguments, world, {"evaluate", Stage::kEvaluate, true});
}

}  // namespace apo::cli
