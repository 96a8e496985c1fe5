#include "apo/federation/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "apo/core/clock.hpp"
#include "apo/core/error.hpp"
#include "apo/core/rng.hpp"
#include "apo/federation/batch_sampler.hpp"
#include "apo/federation/local_training.hpp"

namespace apo::federation {
namespace {

constexpr std::uint64_t kStepsPerRound = 1U << 20;  // room for local steps in a step key

std::uint64_t round_key(Phase phase, int start_round, int round) {
  return (static_cast<std::uint64_t>(phase) << 56) |
         (static_cast<std::uint64_t>(start_round) << 28) | static_cast<std::uint64_t>(round);
}

double per_cluster(const std::vector<double>& values, int cluster) {
  return values.size() == 1 ? values[0] : values[static_cast<std::size_t>(cluster)];
}

void check_rates(const char* key, const std::vector<double>& values, std::size_t num_clusters) {
  if (values.size() != 1 && values.size() != num_clusters) {
    throw Error(Fault::kConfig, std::string(key) + " has " + std::to_string(values.size()) +
                                    " values; expected one, or one for each of the " +
                                    std::to_string(num_clusters) + " clusters");
  }
}

std::vector<double> weighted_mean_loss(const std::vector<StepRecord>& steps,
                                       const data::Partition& partition) {
  std::vector<double> sum;
  std::vector<double> mass;
  for (const StepRecord& row : steps) {
    if (row.step != 0 || !row.finite) {
      continue;
    }
    sum.resize(row.loss.size(), 0.0);
    mass.resize(row.loss.size(), 0.0);
    const auto weight =
        static_cast<double>(partition.clients[static_cast<std::size_t>(row.client)].num_pairs());
    for (std::size_t j = 0; j < row.loss.size(); ++j) {
      if (!std::isnan(row.loss[j])) {
        sum[j] += weight * row.loss[j];
        mass[j] += weight;
      }
    }
  }
  for (std::size_t j = 0; j < sum.size(); ++j) {
    sum[j] /= mass[j];  // NaN when no participant has the objective
  }
  return sum;
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
  state_.parameters.assign(groups_.size(), objectives_.initial_parameters(options_.seed));
}

void Trainer::restore(TrainingState state) {
  expects(state.parameters.size() == groups_.size(), "restore: another number of clusters");
  for (const auto& parameters : state.parameters) {
    expects(static_cast<std::int64_t>(parameters.size()) == objectives_.num_parameters(),
            "restore: another number of parameters");
  }
  state_ = std::move(state);
}

int Trainer::total_rounds() const {
  return options_.phase1.rounds + options_.phase2.rounds * static_cast<int>(start_rounds_.size());
}

void Trainer::reduce_updates(const std::vector<std::vector<float>>& updates,
                             const std::vector<double>& weights, std::vector<double>& sum) {
  if (options_.ordered_reduction) {
    team_.ordered_sum(sum, [&](std::size_t begin, std::span<double> slice) {
      for (std::size_t i = 0; i < updates.size(); ++i) {
        const float* update = updates[i].data() + begin;
        for (std::size_t k = 0; k < slice.size(); ++k) {
          slice[k] += weights[i] * static_cast<double>(update[k]);
        }
      }
    });
    return;
  }
  std::vector<float> local(sum.size(), 0.0F);
  for (std::size_t i = 0; i < updates.size(); ++i) {
    const auto weight = static_cast<float>(weights[i]);
    for (std::size_t k = 0; k < local.size(); ++k) {
      local[k] += weight * updates[i][k];
    }
  }
  team_.all_reduce(std::span<float>(local), comm::Reduction::kSum);
  std::copy(local.begin(), local.end(), sum.begin());
}

RoundReport Trainer::run_round(const Round& round, int cluster, std::vector<float>& parameters) {
  const TrainingGroup& group = groups_[static_cast<std::size_t>(cluster)];
  const std::uint64_t key = group_keys_[static_cast<std::size_t>(cluster)];
  const std::uint64_t this_round = round_key(round.phase, round.start_round, round.round);
  const bool meta = round.phase == Phase::kTwo;

  RoundReport report;
  report.phase = round.phase;
  report.start_round = round.start_round;
  report.cluster = cluster;
  report.round = round.round;
  report.learning_rate = round.learning_rate;

  const int num_members = static_cast<int>(group.members.size());
  CounterRng sampling({options_.seed, Purpose::kClientSampling, key, this_round});
  for (const int i : sampling.sample_without_replacement(
           num_members, std::min(num_members, round.clients_per_round))) {
    report.participants.push_back(group.members[static_cast<std::size_t>(i)].value);
  }
  std::sort(report.participants.begin(), report.participants.end());

  StepRecord row;
  row.phase = round.phase;
  row.start_round = round.start_round;
  row.cluster = cluster;
  row.round = round.round;
  LocalOptions local;
  local.learning_rate = round.learning_rate;
  if (meta) {
    local.steps = options_.phase2.inner_steps;
    local.batch_pairs = options_.phase2.inner_batch_size;
    local.clip = options_.phase2.gradient_clip;
    local.force_balancing = true;
  } else {
    local.steps = options_.phase1.local_steps;
    local.batch_pairs = options_.phase1.batch_size * options_.phase1.gradient_accumulation;
    local.optimizer = options_.phase1.optimizer;
    local.clip = options_.phase1.gradient_clip;
  }

  Stopwatch watch;
  const auto [begin, end] =
      block_of(static_cast<int>(report.participants.size()), team_.rank(), team_.size());
  std::vector<std::vector<float>> updates;
  std::vector<int> mine;
  std::vector<StepRecord> steps;
  for (int i = begin; i < end; ++i) {
    const int id = report.participants[static_cast<std::size_t>(i)];
    const data::Client& client = partition_.clients[static_cast<std::size_t>(id)];
    data::Pool pool = client.train;
    if (meta) {
      CounterRng episode(
          {options_.seed, Purpose::kEpisode, key, this_round, static_cast<std::uint64_t>(id)});
      pool = draw_support(pool, options_.phase2.shots, episode);
    }
    LocalResult result = train_client(
        objectives_, *solver_, client, pool, partition_.text_of_pair, parameters, local,
        {options_.seed, Purpose::kBatch, key, this_round, static_cast<std::uint64_t>(id)},
        this_round * kStepsPerRound, row);
    for (StepRecord& step : result.steps) {
      steps.push_back(std::move(step));
    }
    if (result.finite) {
      for (std::size_t k = 0; k < parameters.size(); ++k) {
        result.parameters[k] -= parameters[k];
      }
      updates.push_back(std::move(result.parameters));
      mine.push_back(id);
    }
  }
  std::vector<double> seconds = {watch.seconds()};
  team_.all_reduce(std::span<double>(seconds), comm::Reduction::kMax);
  report.seconds_clients = seconds[0];

  for (const std::string& bytes : team_.all_gather(pack(steps))) {
    for (StepRecord& step : unpack(bytes)) {
      report.steps.push_back(std::move(step));
    }
  }
  double mass = 0.0;  // over the participants whose numbers are finite (algorithms.md 1.6)
  std::set<int> failed;
  for (const StepRecord& step : report.steps) {
    if (!step.finite) {
      failed.insert(step.client);
    }
  }
  for (const int id : report.participants) {
    if (!failed.contains(id)) {
      mass += static_cast<double>(partition_.clients[static_cast<std::size_t>(id)].num_pairs());
    }
  }
  report.num_failed = static_cast<int>(failed.size());
  report.mean_loss = weighted_mean_loss(report.steps, partition_);
  if (mass == 0.0) {
    return report;  // nobody delivered: the round is logged as empty and the model kept
  }
  std::vector<double> weights;
  weights.reserve(mine.size());
  for (const int id : mine) {
    weights.push_back(
        static_cast<double>(partition_.clients[static_cast<std::size_t>(id)].num_pairs()) / mass);
  }
  watch.restart();
  std::vector<double> sum(parameters.size(), 0.0);
  reduce_updates(updates, weights, sum);
  report.seconds_reduction = watch.seconds();
  report.bytes_reduced = static_cast<std::int64_t>(
      sum.size() * (options_.ordered_reduction ? sizeof(double) : sizeof(float)));

  const std::vector<float> before = parameters;
  if (!meta) {
    for (std::size_t k = 0; k < sum.size(); ++k) {
      parameters[k] = static_cast<float>(static_cast<double>(parameters[k]) +
                                         options_.phase1.server_learning_rate * sum[k]);
    }
  } else {
    std::vector<float> pseudo_gradient(sum.size());
    for (std::size_t k = 0; k < sum.size(); ++k) {
      pseudo_gradient[k] = static_cast<float>(-sum[k]);
    }
    const double rate = per_cluster(options_.phase2.server_learning_rate, cluster);
    if (options_.phase2.server_optimizer == "adamw") {
      adamw_step(parameters, pseudo_gradient, state_.server[static_cast<std::size_t>(cluster)],
                 {.learning_rate = rate,
                  .weight_decay = per_cluster(options_.phase2.server_weight_decay, cluster)});
    } else {
      sgd_step(parameters, pseudo_gradient, rate);
    }
  }
  std::vector<float> moved(parameters.size());
  for (std::size_t k = 0; k < moved.size(); ++k) {
    moved[k] = parameters[k] - before[k];
  }
  report.update_norm = norm(moved);
  return report;
}

void Trainer::run_all_clusters(const Round& round, std::vector<std::vector<float>>& parameters,
                               RoundObserver& observer) {
  const Team& team = placement_.teams[static_cast<std::size_t>(
      placement_.team_of_rank[static_cast<std::size_t>(world_.rank())])];
  std::vector<RoundReport> reports;
  for (const int cluster : team.clusters) {
    reports.push_back(run_round(round, cluster, parameters[static_cast<std::size_t>(cluster)]));
  }
  // Each team's first rank speaks for it; rank 0 hears all clusters, in order.
  std::string summary;
  std::string steps;
  std::string packet;
  if (team_.rank() == 0) {
    for (const RoundReport& report : reports) {
      summary = pack(report);
      steps = pack(report.steps);
      packet += std::to_string(summary.size()) + " " + std::to_string(steps.size()) + "\n";
      packet += summary + steps;
    }
  }
  const std::vector<std::string> packets = world_.all().all_gather(packet);
  if (world_.rank() != 0) {
    return;
  }
  std::vector<RoundReport> all;
  for (const std::string& bytes : packets) {
    for (std::size_t at = 0; at < bytes.size();) {
      std::size_t used = 0;
      const std::size_t newline = bytes.find('\n', at);
      const std::string head = bytes.substr(at, newline - at);
      const std::size_t summary_size = std::stoul(head, &used);
      const std::size_t steps_size = std::stoul(head.substr(used));
      at = newline + 1;
      all.push_back(unpack_report(bytes.substr(at, summary_size)));
      all.back().steps = unpack(bytes.substr(at + summary_size, steps_size));
      at += summary_size + steps_size;
    }
  }
  std::sort(all.begin(), all.end(),
            [](const RoundReport& a, const RoundReport& b) { return a.cluster < b.cluster; });
  for (const RoundReport& report : all) {
    observer.on_round(report);
  }
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

void Trainer::begin_variant() {
  state_.meta = state_.starts[static_cast<std::size_t>(state_.variant)];
  state_.server.assign(groups_.size(), AdamWState{});
  state_.phase2_rounds = 0;
}

void Trainer::run(RoundObserver& observer) {
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
    run_all_clusters(
        {Phase::kOne, 0, r, phase1.clients_per_round,
         cosine_learning_rate(phase1.learning_rate, phase1.learning_rate_final, r, phase1.rounds)},
        state_.parameters, observer);
    ++state_.phase1_rounds;
    take_start();
    if (world_.rank() == 0) {
      observer.on_progress(state_.phase1_rounds, total_rounds());
    }
    if (state_.phase1_rounds % options_.checkpoint_every == 0 ||
        state_.phase1_rounds == phase1.rounds) {
      synchronise(state_.parameters);
      observer.on_checkpoint(state_);
    }
  }
  const int num_variants = static_cast<int>(start_rounds_.size());
  while (state_.variant < num_variants) {
    if (state_.meta.empty()) {
      begin_variant();
    }
    while (state_.phase2_rounds < phase2.rounds) {
      run_all_clusters({Phase::kTwo, start_rounds_[static_cast<std::size_t>(state_.variant)],
                        state_.phase2_rounds, phase2.clients_per_round, phase2.inner_learning_rate},
                       state_.meta, observer);
      ++state_.phase2_rounds;
      if (world_.rank() == 0) {
        observer.on_progress(phase1.rounds + state_.variant * phase2.rounds + state_.phase2_rounds,
                             total_rounds());
      }
      if (state_.phase2_rounds % options_.checkpoint_every == 0 &&
          state_.phase2_rounds < phase2.rounds) {
        synchronise(state_.meta);
        observer.on_checkpoint(state_);
      }
    }
    synchronise(state_.meta);
    state_.finished.push_back(std::move(state_.meta));
    state_.meta.clear();
    state_.server.clear();
    state_.phase2_rounds = 0;
    ++state_.variant;
    observer.on_checkpoint(state_);
  }
}

const std::vector<std::vector<float>>& Trainer::final_parameters(int variant) const {
  return state_.finished.at(static_cast<std::size_t>(variant));
}

}  // namespace apo::federation
