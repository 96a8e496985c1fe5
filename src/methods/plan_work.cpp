#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_map>

#include "plan_parts.hpp"

#include "apo/clustering/options.hpp"
#include "apo/core/error.hpp"
#include "apo/methods/plan.hpp"

namespace apo::methods {
namespace {

constexpr int kMinGroups = 8;  // of an audit's sum, see federation's audits

/// Share of a client's texts that a rank has had in its hands after `visits` rounds in which it
/// sees `share` of them, drawn anew each time.
double seen_after(double visits, double share) {
  return 1.0 - std::pow(1.0 - std::clamp(share, 0.0, 1.0), visits);
}

double score(const StageWork& work) {
  return work.reference_tokens + work.forward_tokens + work.gradient_work + work.client_rounds +
         work.responses + work.evaluations;
}

/// One rank's way through the run. Reference log-probabilities are computed by every rank for the
/// texts that it meets, once.
class RankWalk {
 public:
  RankWalk(const PlanInputs& inputs, const WorkPlan& plan, int rank)
      : inputs_(inputs), plan_(plan), rank_(rank) {}

  [[nodiscard]] StageWork reference() {
    StageWork work;
    const auto [begin, end] =
        federation::block_of(static_cast<int>(inputs_.clients.size()), rank_, inputs_.num_ranks);
    for (int i = begin; i < end; ++i) {
      meet(static_cast<std::size_t>(i), 1.0, work);
    }
    return work;
  }

  [[nodiscard]] StageWork warm_up(int rounds) {
    StageWork work;
    add_rounds(inputs_.train_clients, rank_, inputs_.num_ranks, rounds, true, work);
    return work;
  }

  [[nodiscard]] StageWork audits() {
    StageWork work;
    if (plan_.num_audits == 0) {
      return work;
    }
    const auto m = static_cast<double>(inputs_.num_objectives);
    const double kept_each = m * static_cast<double>(inputs_.num_parameters) * sizeof(float);
    const double kept =
        std::floor(inputs_.options.training.monitor.memory_mib * plan::kMib / kept_each);
    for_each_cluster([&](const std::vector<ClientId>& members, int position, int ranks) {
      const auto [begin, end] =
          federation::block_of(static_cast<int>(members.size()), position, ranks);
      for (int i = begin; i < end; ++i) {
        const std::size_t id = members[static_cast<std::size_t>(i)].index();
        const ClientWork& client = inputs_.clients[id];
        meet(id, 1.0, work);
        const double passes = i - begin < kept ? 1.0 : 2.0;  // gradients that were let go
        work.gradient_work += plan_.num_audits * passes * client.pool_work;
        work.forward_tokens += plan_.num_audits * client.pool_tokens;
      }
    });
    return work;
  }

  [[nodiscard]] StageWork phase1() {
    StageWork work;
    for_each_cluster([&](const std::vector<ClientId>& members, int position, int ranks) {
      add_rounds(members, position, ranks, inputs_.options.training.phase1.rounds, true, work);
    });
    return work;
  }

  [[nodiscard]] StageWork phase2(int variants) {
    StageWork work;
    for_each_cluster([&](const std::vector<ClientId>& members, int position, int ranks) {
      add_rounds(members, position, ranks, variants * inputs_.options.training.phase2.rounds, false,
                 work);
    });
    return work;
  }

  [[nodiscard]] StageWork evaluation(int variants) {
    StageWork work;
    const int num_clients = static_cast<int>(inputs_.test_clients.size());
    const auto [begin, end] =
        federation::block_of(variants * num_clients, rank_, inputs_.num_ranks);
    std::set<std::size_t> held_out;  // whose held-out texts the reference has been computed for
    const bool base = inputs_.options.method.name == "base";
    for (int k = begin; k < end; ++k) {
      const std::size_t id =
          inputs_.test_clients[static_cast<std::size_t>(k % num_clients)].index();
      const ClientWork& client = inputs_.clients[id];
      const auto answer = [&](bool sampled) {
        work.evaluations += 1.0;
        work.responses += sampled ? responses_of(client) : 0.0;
      };
      if (held_out.insert(id).second) {
        work.reference_tokens += client.held_out_tokens;
      }
      if (k < num_clients) {  // the base policy, once
        answer(base);
      }
      if (base) {
        continue;
      }
      if (inputs_.traits.trains) {
        work.forward_tokens += client.held_out_tokens;
        answer(true);
      }
      if (inputs_.traits.adapts) {
        meet(id, 1.0, work);
        work.gradient_work += inputs_.options.adapt.steps * client.adapt_step;
        work.forward_tokens += client.held_out_tokens;
        answer(true);
      }
    }
    return work;
  }

 private:
  void meet(std::size_t client, double share, StageWork& work) {
    double& unseen = unseen_.try_emplace(client, 1.0).first->second;
    work.reference_tokens += unseen * share * inputs_.clients[client].pool_tokens;
    unseen *= 1.0 - share;
  }

  template <class Visit>
  void for_each_cluster(const Visit& visit) const {
    const federation::Team& team = plan_.placement.teams[static_cast<std::size_t>(
        plan_.placement.team_of_rank[static_cast<std::size_t>(rank_)])];
    for (const int cluster : team.clusters) {
      visit(inputs_.groups[static_cast<std::size_t>(cluster)], rank_ - team.first_rank,
            team.num_ranks);
    }
  }

  [[nodiscard]] double responses_of(const ClientWork& client) const {
    return inputs_.options.evaluate.samples_per_prompt * static_cast<double>(client.num_prompts);
  }

  void add_rounds(const std::vector<ClientId>& members, int position, int ranks, int rounds,
                  bool first_phase, StageWork& work) {
    const federation::Phase1Options& phase1 = inputs_.options.training.phase1;
    const federation::Phase2Options& phase2 = inputs_.options.training.phase2;
    const auto num_members = static_cast<double>(members.size());
    const int sampled =
        std::min<int>(static_cast<int>(members.size()),
                      first_phase ? phase1.clients_per_round : phase2.clients_per_round);
    const auto [begin, end] = federation::block_of(sampled, position, ranks);
    const int steps = first_phase ? phase1.local_steps : phase2.inner_steps;
    const int pairs = steps * (first_phase ? phase1.batch_size * phase1.gradient_accumulation
                                           : phase2.inner_batch_size);
    const double client_rounds = static_cast<double>(rounds) * (end - begin);
    const double visits = client_rounds / num_members;  // of each member to this rank
    const bool by_tokens = !first_phase || inputs_.traits.scheme == "local_steps";
    double work_of_step = 0.0;
    for (const ClientId member : members) {
      const ClientWork& client = inputs_.clients[member.index()];
      work_of_step += (first_phase ? client.phase1_step : client.phase2_step) / num_members;
      const double episode = first_phase ? pairs : std::min(pairs, phase2.shots);
      meet(member.index(),
           seen_after(visits,
                      episode / static_cast<double>(std::max<std::int64_t>(1, client.num_pairs))),
           work);
    }
    work.client_rounds += client_rounds;
    work.cluster_rounds += rounds;
    if (by_tokens) {
      work.gradient_work += client_rounds * steps * work_of_step;
    }
  }

  const PlanInputs& inputs_;
  const WorkPlan& plan_;
  int rank_;
  /// Share of a client's texts that are new to this rank; absent: all of them.
  std::unordered_map<std::size_t, double> unseen_;
};

void count_phases(const PlanInputs& inputs, int variants, int warm_rounds, WorkPlan& plan) {
  const federation::Phase1Options& phase1 = inputs.options.training.phase1;
  const federation::Phase2Options& phase2 = inputs.options.training.phase2;
  const auto count = [&](const char* name, int rounds, int clients_per_round, int steps,
                         const std::vector<std::vector<ClientId>>& groups) {
    PhaseCount phase{name, rounds, 0, 0};
    for (const auto& group : groups) {
      phase.client_rounds +=
          std::int64_t{rounds} * std::min(static_cast<int>(group.size()), clients_per_round);
    }
    phase.steps = phase.client_rounds * steps;
    if (rounds > 0) {
      plan.phases.push_back(phase);
    }
  };
  count("warm-up", warm_rounds, phase1.clients_per_round, phase1.local_steps,
        {inputs.train_clients});
  count("phase1", phase1.rounds, phase1.clients_per_round, phase1.local_steps, inputs.groups);
  count("phase2", variants * phase2.rounds, phase2.clients_per_round, phase2.inner_steps,
        inputs.groups);
  PhaseCount adaptation{"adaptation", 0, 0, 0};
  if (inputs.traits.adapts) {
    adaptation.client_rounds =
        static_cast<std::int64_t>(variants) * static_cast<std::int64_t>(inputs.test_clients.size());
    adaptation.steps = adaptation.client_rounds * inputs.options.adapt.steps;
  }
  plan.phases.push_back(adaptation);
}

}  // namespace

namespace plan {

int num_variants(const PlanInputs& inputs) {
  const std::vector<int>& starts = inputs.options.training.phase2.start_rounds;
  return std::max(1, static_cast<int>(std::set<int>(starts.begin(), starts.end()).size()));
}

int audit_groups(const PlanInputs& inputs, int num_members) {
  const double numbers = (2.0 + inputs.num_objectives) * static_cast<double>(inputs.num_parameters);
  const double fitting =
      inputs.options.training.monitor.memory_mib * plan::kMib / (numbers * sizeof(double));
  return static_cast<int>(std::clamp(fitting,
                                     static_cast<double>(std::min(num_members, kMinGroups)),
                                     static_cast<double>(num_members)));
}

}  // namespace plan

double batch_work(const data::Pool& batch, std::span<const int> tokens,
                  std::span<const int> text_of_pair, Gradients gradients) {
  std::set<int> texts;
  double forward = 0.0;
  double backward = 0.0;
  for (const std::vector<int>& pairs : batch) {
    std::set<int> of_objective;
    for (const int pair : pairs) {
      const auto at = static_cast<std::size_t>(pair);
      const int text = text_of_pair.empty() ? pair : text_of_pair[at];
      const double length = tokens.empty() ? 1.0 : tokens[at];
      forward += texts.insert(text).second ? length : 0.0;
      backward += of_objective.insert(text).second ? length : 0.0;
    }
  }
  switch (gradients) {
    case Gradients::kNone:
      return forward;
    case Gradients::kWeighted:
      return forward * (1.0 + kBackwardWork);
    case Gradients::kPerObjective:
      return forward + kBackwardWork * backward;
  }
  return forward;
}

WorkPlan plan_work(const PlanInputs& inputs) {
  expects(!inputs.groups.empty() && inputs.num_ranks > 0, "plan_work: no groups or no ranks");
  const federation::TrainingOptions& training = inputs.options.training;
  WorkPlan result;
  std::vector<double> cost;
  for (const auto& group : inputs.groups) {
    expects(!group.empty(), "plan_work: a cluster without clients");
    cost.push_back(static_cast<double>(std::min<std::size_t>(
        group.size(), static_cast<std::size_t>(training.phase1.clients_per_round))));
  }
  result.placement = federation::place_clusters(cost, inputs.num_ranks);

  const int variants = plan::num_variants(inputs);
  const int warm_rounds = clustering::warm_rounds(inputs.options.clustering);
  result.monitored = training.monitor.theory && inputs.one_by_one && inputs.traits.trains &&
                     inputs.traits.scheme == "local_steps";
  if (result.monitored && training.monitor.audit_every > 0) {
    result.num_audits =
        (training.phase1.rounds + training.monitor.audit_every - 1) / training.monitor.audit_every;
  }
  double largest_cost = 0.0;
  for (std::size_t c = 0; c < cost.size(); ++c) {
    const int ranks =
        result.placement.teams[static_cast<std::size_t>(result.placement.team_of_cluster[c])]
            .num_ranks;
    const auto per_rank = [ranks](std::size_t count) {
      return (static_cast<int>(count) + ranks - 1) / ranks;
    };
    largest_cost = std::max(largest_cost, cost[c]);
    result.max_participants_per_rank =
        std::max(result.max_participants_per_rank, per_rank(static_cast<std::size_t>(cost[c])));
    result.max_members_per_rank =
        std::max(result.max_members_per_rank, per_rank(inputs.groups[c].size()));
  }
  result.keeps_gradients = result.monitored && largest_cost * inputs.num_objectives *
                                                       static_cast<double>(inputs.num_parameters) *
                                                       sizeof(float) <=
                                                   training.monitor.memory_mib * plan::kMib;
  const int every = training.checkpoint_every;
  result.num_checkpoints = (training.phase1.rounds + every - 1) / every +
                           variants * (training.phase2.rounds / every + 1);
  count_phases(inputs, variants, warm_rounds, result);

  for (int rank = 0; rank < inputs.num_ranks; ++rank) {
    RankWalk walk(inputs, result, rank);
    const auto keep_largest = [&result](const std::string& stage, const StageWork& work) {
      StageWork& largest = result.stages[stage];
      if (score(work) >= score(largest)) {
        largest = work;
      }
    };
    if (warm_rounds > 0) {
      keep_largest("warm-up", walk.warm_up(warm_rounds));
    }
    keep_largest("reference", walk.reference());
    keep_largest("audits", walk.audits());
    keep_largest("phase1", walk.phase1());
    keep_largest("phase2", walk.phase2(variants));
    keep_largest("evaluation", walk.evaluation(variants));
  }
  return result;
}

}  // namespace apo::methods
