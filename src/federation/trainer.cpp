#include "apo/federation/trainer.hpp"

#include <algorithm>
#include <set>

#include "local_round.hpp"

#include "apo/core/error.hpp"
#include "apo/core/log.hpp"
#include "apo/core/rng.hpp"
#include "apo/federation/batch_sampler.hpp"
#include "apo/federation/round_activity.hpp"

namespace apo::federation {
namespace {

std::uint64_t round_key(Phase phase, int start_round, int round) {
  return (static_cast<std::uint64_t>(phase) << 56) |
         (static_cast<std::uint64_t>(start_round) << 28) | static_cast<std::uint64_t>(round);
}

double per_cluster(const std::vector<double>& values, int cluster) {
  return values.size() == 1 ? values[0] : values[static_cast<std::size_t>(cluster)];
}

/// Seconds of the slowest team's round, for rank-seconds per cluster.
double slowest_team(const Placement& placement, const std::vector<double>& cost) {
  double slowest = 0.0;
  for (const Team& team : placement.teams) {
    double work = 0.0;
    for (const int cluster : team.clusters) {
      work += cost[static_cast<std::size_t>(cluster)];
    }
    slowest = std::max(slowest, work / team.num_ranks);
  }
  return slowest;
}

void check_rates(const char* key, const std::vector<double>& values, std::size_t num_clusters) {
  if (values.size() != 1 && values.size() != num_clusters) {
    throw Error(Fault::kConfig, std::string(key) + " has " + std::to_string(values.size()) +
                                    " values; expected one, or one for each of the " +
                                    std::to_string(num_clusters) + " clusters");
  }
}

}  // namespace

std::uint64_t group_key(const TrainingGroup& group) {
  std::uint64_t key = 0;
  for (const ClientId client : group.members) {
    key = CounterRng({key, Purpose::kClientSampling, static_cast<std::uint64_t>(client.value)})
              .next_u64();
  }
  return key;
}

Trainer::Trainer(comm::World& world, const data::Partition& partition,
                 objective::ObjectiveSet& objectives, TrainingOptions options,
                 std::vector<TrainingGroup> groups)
    : world_(world),
      partition_(partition),
      objectives_(objectives),
      options_(std::move(options)),
      groups_(std::move(groups)),
      placement_([&] {
        std::vector<double> cost;
        for (const TrainingGroup& group : groups_) {
          expects(!group.members.empty(), "Trainer: a cluster without clients");
          const auto sampled = std::min<std::size_t>(
              group.members.size(), static_cast<std::size_t>(options_.phase1.clients_per_round));
          cost.push_back(static_cast<double>(sampled));
          group_keys_.push_back(group_key(group));
        }
        return place_clusters(cost, world.size());
      }()),
      team_(comm::ClusterCommunicator::split(
          world, placement_.team_of_rank[static_cast<std::size_t>(world.rank())],
          options_.backend)),
      solver_(direction::make_solver(options_.direction)) {
  check_rates("phase2.server_learning_rate", options_.phase2.server_learning_rate, groups_.size());
  check_rates("phase2.server_weight_decay", options_.phase2.server_weight_decay, groups_.size());
  const std::set<int> unique(options_.phase2.start_rounds.begin(),
                             options_.phase2.start_rounds.end());
  start_rounds_.assign(unique.begin(), unique.end());
  if (start_rounds_.empty()) {
    start_rounds_.push_back(options_.phase1.rounds);
  }
  if (start_rounds_.back() > options_.phase1.rounds) {
    throw Error(Fault::kConfig, "phase2.start_rounds names round " +
                                    std::to_string(start_rounds_.back()) + ", but Phase I has " +
                                    std::to_string(options_.phase1.rounds) + " rounds");
  }
  scheme_ = options_.scheme == "local_steps" ? make_local_steps_scheme(resources())
                                             : make_baseline_scheme(options_.scheme, resources());
  expects(options_.phase2.rounds == 0 || scheme_->num_parameters() == objectives_.num_parameters(),
          "Trainer: Phase II needs a scheme that trains one adapter per cluster");
  for (const std::uint64_t key : group_keys_) {
    state_.parameters.push_back(scheme_->initial_parameters(key));
  }
  cost_.assign(groups_.size(), 0.0);
  state_.memory.resize(groups_.size());
  state_.was_uniform.assign(partition_.clients.size(), 0);
}

RoundResources Trainer::resources() {
  return {partition_,      objectives_,          *solver_,           team_,
          options_.phase1, options_.baseline,    options_.direction, options_.monitor,
          options_.seed,   options_.reproducible};
}

void Trainer::restore(TrainingState state) {
  expects(state.parameters.size() == groups_.size(), "restore: another number of clusters");
  for (const auto& parameters : state.parameters) {
    expects(static_cast<std::int64_t>(parameters.size()) == scheme_->num_parameters(),
            "restore: another number of parameters");
  }
  expects(state.memory.size() == groups_.size() &&
              state.was_uniform.size() == partition_.clients.size(),
          "restore: another number of clusters or clients");
  state_ = std::move(state);
}

int Trainer::total_rounds() const {
  return options_.phase1.rounds + options_.phase2.rounds * static_cast<int>(start_rounds_.size());
}

RoundPlan Trainer::plan_of(const Round& round, int cluster) const {
  const TrainingGroup& group = groups_[static_cast<std::size_t>(cluster)];
  RoundPlan plan;
  plan.phase = round.phase;
  plan.start_round = round.start_round;
  plan.round = round.round;
  plan.cluster = cluster;
  plan.cluster_key = group_keys_[static_cast<std::size_t>(cluster)];
  plan.round_key = round_key(round.phase, round.start_round, round.round);
  plan.learning_rate = round.learning_rate;
  for (const ClientId member : group.members) {
    plan.members.push_back(member.value);
  }
  const int num_members = static_cast<int>(plan.members.size());
  CounterRng sampling({options_.seed, Purpose::kClientSampling, plan.cluster_key, plan.round_key});
  for (const int i : sampling.sample_without_replacement(
           num_members, std::min(num_members, round.clients_per_round))) {
    plan.participants.push_back(plan.members[static_cast<std::size_t>(i)]);
  }
  std::sort(plan.participants.begin(), plan.participants.end());
  if (round.phase == Phase::kOne) {
    for (const int id : plan.participants) {
      plan.was_uniform.push_back(state_.was_uniform[static_cast<std::size_t>(id)]);
    }
  }
  return plan;
}

RoundReport Trainer::run_meta_round(const RoundPlan& plan, std::vector<float>& parameters) {
  LocalOptions local;
  local.learning_rate = plan.learning_rate;
  local.steps = options_.phase2.inner_steps;
  local.batch_pairs = options_.phase2.inner_batch_size;
  local.optimizer = options_.phase2.inner_optimizer;
  local.clip = options_.phase2.gradient_clip;
  local.force_balancing = true;
  const auto episode = [&](const data::Client& client) {
    CounterRng rng({options_.seed, Purpose::kEpisode, plan.cluster_key, plan.round_key,
                    static_cast<std::uint64_t>(client.id.value)});
    return draw_support(client.train, options_.phase2.shots, rng);
  };
  LocalRound round = run_local_round(plan, resources(), local, parameters, episode, nullptr);
  if (!round.delivered) {
    return std::move(round.report);
  }
  const std::vector<float> before = parameters;
  std::vector<float> pseudo_gradient(round.update.size());
  for (std::size_t k = 0; k < pseudo_gradient.size(); ++k) {
    pseudo_gradient[k] = static_cast<float>(-round.update[k]);
  }
  const double rate = per_cluster(options_.phase2.server_learning_rate, plan.cluster);
  if (options_.phase2.server_optimizer == "adamw") {
    adamw_step(parameters, pseudo_gradient, state_.server[static_cast<std::size_t>(plan.cluster)],
               {.learning_rate = rate,
                .weight_decay = per_cluster(options_.phase2.server_weight_decay, plan.cluster)});
  } else {
    sgd_step(parameters, pseudo_gradient, rate);
  }
  finish_report(before, parameters, round.report);
  return std::move(round.report);
}

void Trainer::remember_modes(const RoundReport& report) {
  for (const StepRecord& step : report.steps) {  // by (client, step): the last one stays
    state_.was_uniform[static_cast<std::size_t>(step.client)] =
        step.mode == static_cast<int>(direction::Mode::kUniform) ? 1 : 0;
  }
}

RoundRequest Trainer::run_all_clusters(const Round& round,
                                       std::vector<std::vector<float>>& parameters,
                                       RoundObserver& observer) {
  const Team& team = placement_.teams[static_cast<std::size_t>(
      placement_.team_of_rank[static_cast<std::size_t>(world_.rank())])];
  std::vector<RoundReport> reports;
  const auto activity = round_activity(round.phase, round.round, -1);
  for (const int cluster : team.clusters) {
    const auto cluster_activity = round_activity(round.phase, round.round, cluster);
    const RoundPlan plan = plan_of(round, cluster);
    const auto c = static_cast<std::size_t>(cluster);
    if (round.phase == Phase::kTwo) {
      reports.push_back(run_meta_round(plan, parameters[c]));
    } else {
      reports.push_back(scheme_->run(plan, parameters[c], state_.memory[c]));
      remember_modes(reports.back());
    }
  }
  // Each team's first rank speaks for it; every rank says what it asks for. One exchange for all.
  const RoundRequest mine = observer.request();
  RoundPacket packet{mine.stop, mine.checkpoint, {}};
  if (team_.rank() == 0) {
    packet.reports = std::move(reports);
  }
  RoundRequest agreed;
  std::vector<RoundReport> all;
  for (const std::string& bytes : world_.all().all_gather(pack(packet))) {
    RoundPacket theirs = unpack_packet(bytes);
    agreed.stop = agreed.stop || theirs.stop;
    agreed.checkpoint = agreed.checkpoint || theirs.checkpoint;
    for (RoundReport& report : theirs.reports) {
      const auto c = static_cast<std::size_t>(report.cluster);
      const Team& owner = placement_.teams[static_cast<std::size_t>(placement_.team_of_cluster[c])];
      cost_[c] += report.seconds_clients / report.imbalance * owner.num_ranks;
      if (world_.rank() == 0) {
        all.push_back(std::move(report));
      }
    }
  }
  std::sort(all.begin(), all.end(),
            [](const RoundReport& a, const RoundReport& b) { return a.cluster < b.cluster; });
  for (const RoundReport& report : all) {
    guard_.check(report);
    observer.on_round(report);
  }
  return agreed;
}

void Trainer::rebalance() {
  const bool measured = std::all_of(cost_.begin(), cost_.end(), [](double x) { return x > 0.0; });
  if (measured && options_.reproducible && world_.size() > 1) {
    Placement better = place_clusters(cost_, world_.size());
    const double ratio = slowest_team(placement_, cost_) / slowest_team(better, cost_);
    if (ratio > 1.0 / 0.9) {
      placement_ = std::move(better);
      team_.close();
      team_ = comm::ClusterCommunicator::split(
          world_, placement_.team_of_rank[static_cast<std::size_t>(world_.rank())],
          options_.backend);
      log::info("teams formed anew: the slowest one took {:.0f} % longer than it has to",
                100.0 * (ratio - 1.0));
    }
  }
  std::fill(cost_.begin(), cost_.end(), 0.0);
}

void Trainer::synchronise(std::vector<std::vector<float>>& parameters) {
  for (std::size_t c = 0; c < parameters.size(); ++c) {
    const int leader =
        placement_.teams[static_cast<std::size_t>(placement_.team_of_cluster[c])].first_rank;
    world_.all().broadcast(std::span<float>(parameters[c]), leader);
    if (&parameters == &state_.meta && !state_.server.empty()) {
      AdamWState& server = state_.server[c];
      std::vector<double> step = {static_cast<double>(server.step)};
      world_.all().broadcast(std::span<double>(step), leader);
      server.step = static_cast<std::int64_t>(step[0]);
      if (server.step > 0) {
        server.m.resize(parameters[c].size());
        server.v.resize(parameters[c].size());
        world_.all().broadcast(std::span<float>(server.m), leader);
        world_.all().broadcast(std::span<float>(server.v), leader);
      }
    }
  }
}

void Trainer::synchronise_memory() {
  const int my_team = placement_.team_of_rank[static_cast<std::size_t>(world_.rank())];
  std::vector<double> modes(state_.was_uniform.size(), 0.0);
  for (std::size_t c = 0; c < groups_.size(); ++c) {
    const int leader =
        placement_.teams[static_cast<std::size_t>(placement_.team_of_cluster[c])].first_rank;
    std::vector<double> size = {static_cast<double>(state_.memory[c].size())};
    world_.all().broadcast(std::span<double>(size), leader);
    state_.memory[c].resize(static_cast<std::size_t>(size[0]));
    world_.all().broadcast(std::span<double>(state_.memory[c]), leader);
    if (placement_.team_of_cluster[c] == my_team) {  // others know old modes only
      for (const ClientId client : groups_[c].members) {
        modes[client.index()] = state_.was_uniform[client.index()];
      }
    }
  }
  world_.all().all_reduce(std::span<double>(modes), comm::Reduction::kMax);
  std::transform(modes.begin(), modes.end(), state_.was_uniform.begin(),
                 [](double x) { return static_cast<std::int8_t>(x); });
}

void Trainer::begin_variant() {
  state_.meta = state_.starts[static_cast<std::size_t>(state_.variant)];
  state_.server.assign(groups_.size(), AdamWState{});
  state_.phase2_rounds = 0;
}

bool Trainer::end_round(const RoundRequest& request, int round, bool last_of_phase,
                        std::vector<std::vector<float>>& parameters, RoundObserver& observer) {
  if (world_.rank() == 0) {
    observer.on_progress(
        state_.phase1_rounds + state_.variant * options_.phase2.rounds + state_.phase2_rounds,
        total_rounds());
  }
  const bool due = round % options_.checkpoint_every == 0 || last_of_phase;
  if (due || request.checkpoint || request.stop) {
    synchronise(parameters);
    synchronise_memory();
    observer.on_checkpoint(state_);
    rebalance();
  }
  return request.stop;
}

Outcome Trainer::run(RoundObserver& observer, Phase last) {
  const Phase1Options& phase1 = options_.phase1;
  const Phase2Options& phase2 = options_.phase2;
  const auto take_start = [&] {
    if (std::find(start_rounds_.begin(), start_rounds_.end(), state_.phase1_rounds) !=
        start_rounds_.end()) {
      synchronise(state_.parameters);
      state_.starts.push_back(state_.parameters);
    }
  };
  if (state_.phase1_rounds == 0 && state_.starts.empty()) {
    take_start();  // start round 0: no Phase I at all
  }
  while (state_.phase1_rounds < phase1.rounds) {
    const int r = state_.phase1_rounds;
    const RoundRequest request = run_all_clusters(
        {Phase::kOne, 0, r, phase1.clients_per_round,
         cosine_learning_rate(phase1.learning_rate, phase1.learning_rate_final, r, phase1.rounds)},
        state_.parameters, observer);
    ++state_.phase1_rounds;
    take_start();
    const bool last_round = state_.phase1_rounds == phase1.rounds;
    if (end_round(request, state_.phase1_rounds, last_round, state_.parameters, observer)) {
      return Outcome::kStopped;
    }
  }
  if (last == Phase::kOne) {
    return Outcome::kComplete;
  }
  const int num_variants = static_cast<int>(start_rounds_.size());
  while (state_.variant < num_variants) {
    if (state_.meta.empty()) {
      begin_variant();
    }
    RoundRequest request;
    while (state_.phase2_rounds < phase2.rounds) {
      request = run_all_clusters(
          {Phase::kTwo, start_rounds_[static_cast<std::size_t>(state_.variant)],
           state_.phase2_rounds, phase2.clients_per_round, phase2.inner_learning_rate},
          state_.meta, observer);
      ++state_.phase2_rounds;
      if (state_.phase2_rounds == phase2.rounds) {
        break;  // the checkpoint below holds the finished variant
      }
      if (end_round(request, state_.phase2_rounds, false, state_.meta, observer)) {
        return Outcome::kStopped;
      }
    }
    synchronise(state_.meta);
    state_.finished.push_back(std::move(state_.meta));
    state_.meta.clear();
    state_.server.clear();
    state_.phase2_rounds = 0;
    ++state_.variant;
    if (end_round(request, 0, true, state_.meta, observer)) {
      return Outcome::kStopped;
    }
  }
  return Outcome::kComplete;
}

std::vector<float> Trainer::personal(const data::Client& client, int variant, int cluster) const {
  return scheme_->personal(client, final_parameters(variant).at(static_cast<std::size_t>(cluster)));
}

const std::vector<std::vector<float>>& Trainer::final_parameters(int variant) const {
  return state_.finished.at(static_cast<std::size_t>(variant));
}

}  // namespace apo::federation
