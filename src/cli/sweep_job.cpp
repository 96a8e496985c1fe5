#include "sweep_job.hpp"

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

#include "broadcast_state.hpp"
#include "run_pipeline.hpp"
#include "stop_signals.hpp"
#include "sweep_reference.hpp"

#include "apo/comm/activity.hpp"
#include "apo/comm/cluster_communicator.hpp"
#include "apo/core/error.hpp"
#include "apo/core/log.hpp"
#include "apo/core/sha256.hpp"
#include "apo/core/version.hpp"
#include "apo/federation/sweep_plan.hpp"

namespace apo::cli {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks(1000);
constexpr double kSecondsBetweenMessages = 60.0;

std::string name_of(const std::string& identity, const federation::TrainingGroup& group) {
  std::string text = identity;
  for (const ClientId member : group.members) {
    text += std::to_string(member.value) + "\n";
  }
  return sha256_hex(text).substr(0, 16);
}

std::string stopped() {
  const std::string reason = stop_reason();
  return "stopped(" + (reason.empty() ? std::string("signal on another rank") : reason) + ")";
}

}  // namespace

SweepJob::SweepJob(comm::World& world, const config::RunConfig& config, SweepCommand command)
    : world_(world),
      all_(world.all()),
      config_(config),
      command_(std::move(command)),
      out_(command_.out),
      identity_(identity_of(config)),
      options_(experiment_options(config)) {
  for (const int budget : command_.budgets) {
    SweepBudget& entry = budgets_.emplace_back();
    entry.budget = budget;
    entry.config = config;
    entry.config.clustering.budget = budget;
  }
}

int SweepJob::operator()() {
  open();
  if (num_open_budgets() == 0) {
    log::info("{} holds complete runs of all {} budgets; nothing to do. See: apo report {}",
              command_.out, budgets_.size(), (out_ / "budget-*").string());
    return 0;
  }
  prepare();
  Stopwatch since_message;
  for (bool waiting = false;;) {
    std::vector<Claim> claims = claim();
    if (agreed(training_->should_stop())) {
      return requeue(stopped());
    }
    if (!claims.empty()) {
      waiting = false;
      if (training_->run(std::move(claims)) == federation::Outcome::kStopped) {
        return requeue(stopped());
      }
      continue;
    }
    assemble_budgets();
    if (num_open_budgets() == 0) {
      return finish();
    }
    if (!command_.wait) {
      return requeue(others());
    }
    if (!waiting || since_message.seconds() > kSecondsBetweenMessages) {
      log::info("waiting: {}", others());
      since_message.restart();
      waiting = true;
    }
    comm::note_progress();  // waiting for another job is no hang
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

std::filesystem::path SweepJob::folder_of(const SweepBudget& budget) const {
  return out_ / ("budget-" + std::to_string(budget.budget));
}
std::size_t SweepJob::num_open_budgets() const {
  return static_cast<std::size_t>(
      std::count_if(budgets_.begin(), budgets_.end(),
                    [](const SweepBudget& budget) { return !budget.complete; }));
}
bool SweepJob::agreed(bool mine) {
  std::vector<double> any = {mine ? 1.0 : 0.0};
  all_.all_reduce(std::span<double>(any), comm::Reduction::kMax);
  return any[0] != 0.0;
}

void SweepJob::open() {
  log::info("apo {} ({}), {} ranks, {}", version(), git_revision(), world_.size(), utc_now());
  log::info("resolved configuration, budgets {}\n{}", budget_list(), config::to_ini(config_));
  install_stop_signals(config_.checkpoint.stop_signals);
  device_ = comm::choose_rank_device(world_, config_.runtime.device);
  all_.run_and_agree([&] { task_ = make_task(config_, device_); });
  all_.run_and_agree([&] {
    if (world_.rank() == 0) {
      std::filesystem::create_directories(out_);
      check_configuration(out_, identity_);
      log::add_json_file(out_ / "log.jsonl");
      for (SweepBudget& budget : budgets_) {
        if (std::filesystem::exists(folder_of(budget))) {
          (void)try_open_budget(budget);
        }
      }
    }
  });
  share_complete();
}

std::string SweepJob::budget_list() const {
  std::string list;
  for (const SweepBudget& budget : budgets_) {
    list += (list.empty() ? "" : ",") + std::to_string(budget.budget);
  }
  return list;
}

/// Rank 0. Null: complete, or in other hands.
std::unique_ptr<store::RunDirectory> SweepJob::try_open_budget(SweepBudget& budget) const {
  auto directory =
      try_open(folder_of(budget), config::to_ini(budget.config), budget.config.checkpoint);
  if (directory && directory->finished()) {
    budget.complete = true;
    directory.reset();
  }
  return directory;
}

void SweepJob::share_complete() {
  std::vector<double> complete;
  for (const SweepBudget& budget : budgets_) {
    complete.push_back(budget.complete ? 1.0 : 0.0);
  }
  all_.broadcast(std::span<double>(complete), 0);
  for (std::size_t k = 0; k < budgets_.size(); ++k) {
    budgets_[k].complete = complete[k] != 0.0;
  }
}

void SweepJob::prepare() {
  all_.run_and_agree([&] { task_->prepare(); });
  inputs_ = std::make_unique<methods::ExperimentInputs>(methods::ExperimentInputs{
      task_->partition(), task_->objectives(), task_->evaluator(), task_->personaliser()});
  hosts_ = all_.all_gather(world_.host());
  const std::vector<std::vector<double>> losses =
      shared_reference_losses(world_, out_, identity_, *inputs_, options_);
  for (SweepBudget& budget : budgets_) {
    budget.population =
        methods::make_population(inputs_->partition, losses, budget.config.clustering);
    budget.test_clients = methods::chosen_test_clients(inputs_->partition, budget.population,
                                                       config_.adapt.test_clients_per_cluster);
    if (!budget.population.clustering.warning.empty()) {
      log::warn("clustering: {}", budget.population.clustering.warning);
    }
  }
  collect_clusters();
  training_ = std::make_unique<SweepTraining>(world_, *inputs_, options_, config_.checkpoint,
                                              clusters_, folders_);
  seconds_population_ = watch_.seconds();
}

void SweepJob::collect_clusters() {
  std::vector<std::vector<federation::TrainingGroup>> groups;
  std::size_t num_in_budgets = 0;
  for (const SweepBudget& budget : budgets_) {
    std::vector<federation::TrainingGroup>& own = groups.emplace_back();
    for (const clustering::Cluster& cluster : budget.population.clustering.clusters) {
      own.push_back({cluster.members});
      ++num_in_budgets;
    }
  }
  federation::SweepPlan plan = federation::plan_sweep(groups);
  std::vector<std::set<ClientId>> test_clients(plan.clusters.size());
  for (std::size_t k = 0; k < budgets_.size(); ++k) {
    SweepBudget& budget = budgets_[k];
    budget.cluster_of = std::move(plan.cluster_of[k]);
    for (const ClientId client : budget.test_clients) {
      const int own = budget.population.clients[client.index()].cluster;
      const int cluster = budget.cluster_of[static_cast<std::size_t>(own)];
      test_clients[static_cast<std::size_t>(cluster)].insert(client);
    }
  }
  for (std::size_t c = 0; c < plan.clusters.size(); ++c) {
    SweepCluster& cluster = clusters_.emplace_back();
    cluster.name = name_of(identity_, plan.clusters[c]);
    cluster.group = std::move(plan.clusters[c]);
    cluster.test_clients.assign(test_clients[c].begin(), test_clients[c].end());
    if (world_.rank() == 0) {
      folders_.emplace_back(out_ / "clusters" / cluster.name, identity_, config_.checkpoint);
    }
  }
  results_.resize(clusters_.size());
  log::info("{} budgets with {} clusters, {} of them distinct", budgets_.size(), num_in_budgets,
            clusters_.size());
}

/// Rank 0. Whether the cluster has its result, which is then kept.
bool SweepJob::look_for_result(std::size_t c) {
  if (!results_[c]) {
    std::optional<ClusterResult> result = folders_[c].load_result();
    if (result && result->covers(clusters_[c].test_clients)) {
      results_[c] = std::move(result);
    }
  }
  return results_[c].has_value();
}

/// Locks clusters that nobody has finished or works on.
std::vector<Claim> SweepJob::claim() {
  std::vector<Claim> claims;
  all_.run_and_agree([&] {
    if (world_.rank() != 0) {
      return;
    }
    num_elsewhere_ = 0;
    for (std::size_t c = 0; c < clusters_.size(); ++c) {
      if (static_cast<int>(claims.size()) == command_.claim) {
        break;
      }
      if (look_for_result(c)) {
        continue;
      }
      if (!folders_[c].try_lock()) {
        ++num_elsewhere_;
        continue;
      }
      if (look_for_result(c)) {  // finished between the two looks
        folders_[c].unlock();
        continue;
      }
      claims.push_back(claim_of(c));
    }
  });
  share(claims);
  return claims;
}

/// Rank 0, with the lock.
Claim SweepJob::claim_of(std::size_t c) {
  Claim claim;
  claim.cluster = static_cast<int>(c);
  claim.known = folders_[c].load_result();
  if (claim.known) {
    federation::TrainingState state;
    for (const std::vector<float>& variant : folders_[c].load_parameters()) {
      state.finished.push_back({variant});
    }
    state.phase1_rounds = options_.training.phase1.rounds;
    state.variant = static_cast<int>(state.finished.size());
    state.parameters = state.finished.back();
    state.memory.resize(1);
    state.was_uniform.assign(inputs_->partition.clients.size(), 0);
    claim.state = std::move(state);
    for (const federation::RoundReport& report : claim.known->reports) {
      add_report(claim.reports, report);
    }
  } else if (auto checkpoint = folders_[c].load_checkpoint()) {
    claim.state = std::move(checkpoint->state);
    claim.reports = std::move(checkpoint->reports);
  }
  return claim;
}

void SweepJob::share(std::vector<Claim>& claims) {
  std::vector<double> head = {static_cast<double>(claims.size())};
  all_.broadcast(std::span<double>(head), 0);
  claims.resize(static_cast<std::size_t>(head[0]));
  for (Claim& claim : claims) {
    std::vector<double> what = {static_cast<double>(claim.cluster), claim.state ? 1.0 : 0.0};
    all_.broadcast(std::span<double>(what), 0);
    claim.cluster = static_cast<int>(what[0]);
    if (what[1] != 0.0) {
      if (!claim.state) {
        claim.state.emplace();
      }
      broadcast_state(all_, *claim.state);
    }
  }
  if (!claims.empty()) {
    log::info("{} clusters are trained here", claims.size());
  }
}

/// Assembles every budget whose clusters are all there and that nobody else works on.
void SweepJob::assemble_budgets() {
  const SweepSetting setting{world_, *task_, options_, hosts_, device_};
  for (SweepBudget& budget : budgets_) {
    std::vector<ClusterResult*> results;
    std::unique_ptr<store::RunDirectory> directory;
    all_.run_and_agree([&] {
      if (world_.rank() == 0 && !budget.complete) {
        results = results_of(budget);
        directory = results.empty() ? nullptr : try_open_budget(budget);
      }
    });
    if (!agreed(directory != nullptr)) {
      continue;
    }
    log::info("budget {}: {} clusters", budget.budget, results.size());
    assemble(setting, budget, results, folders_, directory.get(),
             {{"population", seconds_population_},
              {"training", training_->seconds_training()},
              {"evaluation", training_->seconds_evaluation()}});
    budget.complete = true;
  }
  share_complete();
}

/// Rank 0. Empty while a cluster is missing.
std::vector<ClusterResult*> SweepJob::results_of(const SweepBudget& budget) {
  std::vector<ClusterResult*> results;
  for (const int cluster : budget.cluster_of) {
    const auto c = static_cast<std::size_t>(cluster);
    if (!look_for_result(c)) {
      return {};
    }
    results.push_back(&*results_[c]);
  }
  return results;
}

std::string SweepJob::others() const {
  return std::to_string(num_elsewhere_) + " clusters and " + std::to_string(num_open_budgets()) +
         " budgets are in other jobs' hands";
}

/// Rank 0 alone returns the code: see run.cpp.
int SweepJob::requeue(const std::string& why) {
  log::info("result: {} wall={} out={}", why, human_duration(watch_.seconds()), command_.out);
  return world_.rank() == 0 ? exit_code(Fault::kRequeue) : 0;
}

int SweepJob::finish() {
  log::info(
      "result: complete budgets={} clusters={} trained_here={} wall={} out={}; see: apo "
      "report {}",
      budgets_.size(), clusters_.size(), training_->num_trained(), human_duration(watch_.seconds()),
      command_.out, (out_ / "budget-*").string());
  return 0;
}

}  // namespace apo::cli
