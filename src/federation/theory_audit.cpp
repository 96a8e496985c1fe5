/// @file
/// Audits: the theory quantities of a whole cluster at one point (algorithms.md 5.2 to 5.4).

#include <algorithm>
#include <cmath>

#include "theory_algebra.hpp"
#include "theory_vectors.hpp"

#include "apo/core/error.hpp"
#include "apo/core/rng.hpp"
#include "apo/federation/local_training.hpp"
#include "apo/federation/placement.hpp"
#include "apo/federation/theory_monitor.hpp"

namespace apo::federation {
namespace {

constexpr double kMib = 1024.0 * 1024.0;
constexpr int kMinGroups = 8;

/// Members in blocks of fixed composition. A block's terms are added up in order, on one rank, and
/// the blocks are the terms of an exact sum: it does not depend on the number of ranks, although
/// gradients are not kept. As many blocks as sums fit into the memory limit: one per member in
/// small problems.
int num_groups(int num_members, std::size_t numbers_per_sum, int memory_mib) {
  const double fitting =
      memory_mib * kMib / (static_cast<double>(numbers_per_sum) * sizeof(double));
  return static_cast<int>(std::clamp(fitting,
                                     static_cast<double>(std::min(num_members, kMinGroups)),
                                     static_cast<double>(num_members)));
}

/// One member of this rank after the first pass.
struct Member {
  int client = 0;
  ClientTerms terms;
  double mass = 0.0;             ///< N_i, or 1 with uniform aggregation
  std::vector<float> gradients;  ///< [m, P]; empty when they did not fit into memory
};

class Audit {
 public:
  Audit(const RoundPlan& plan, const RoundResources& resources, const TheorySetting& setting,
        std::span<const float> parameters)
      : plan_(plan),
        resources_(resources),
        setting_(setting),
        w_(parameters),
        m_(static_cast<std::size_t>(resources.objectives.num_objectives())),
        p_(parameters.size()) {}

  void run(RoundReport& report) {
    comm::ClusterCommunicator& team = resources_.team;
    const auto count = static_cast<int>(plan_.members.size());
    const int groups = num_groups(count, num_sums(), resources_.monitor.memory_mib);
    const auto [begin, end] = block_of(groups, team.rank(), team.size());
    team.run_and_agree([&] {
      for (int g = begin; g < end; ++g) {
        first_pass(g, groups);
      }
    });
    std::vector<double> masses = masses_;  // whole numbers: their sum is exact
    team.all_reduce(std::span<double>(masses), comm::Reduction::kSum);
    const double total = masses[0] + masses[1];
    if (total > 0.0) {
      finish(masses, total, report);
    } else {
      theory::report_conditions(setting_, {}, {}, static_cast<int>(masses[2]), static_cast<int>(m_),
                                report);
    }
  }

 private:
  /// [N+ d+ (P), N0 d0 (P), N g_j (m P)]
  [[nodiscard]] std::size_t num_sums() const { return (2 + m_) * p_; }

  [[nodiscard]] const data::Client& client(int id) const {
    return resources_.partition.clients[static_cast<std::size_t>(id)];
  }

  objective::Evaluation compute(int id, std::span<const float> parameters,
                                std::span<float> gradients) {
    const objective::Batch batch{client(id).id, client(id).train};
    if (gradients.empty()) {
      return resources_.objectives.evaluate(parameters, batch);
    }
    const objective::StepKey key{resources_.seed, static_cast<std::uint64_t>(id), step_key(),
                                 false};
    return resources_.objectives.gradients(parameters, batch, key, gradients);
  }

  /// Behind the keys of the round's local steps.
  [[nodiscard]] std::uint64_t step_key() const {
    return plan_.round_key * kStepsPerRound + (kStepsPerRound - 1);
  }

  void first_pass(int group, int groups) {
    const auto [first, last] = block_of(static_cast<int>(plan_.members.size()), group, groups);
    std::vector<double> sum(num_sums(), 0.0);
    for (int i = first; i < last; ++i) {
      visit(plan_.members[static_cast<std::size_t>(i)], sum);
    }
    if (!resources_.reproducible && !sums_.empty()) {
      for (std::size_t k = 0; k < sum.size(); ++k) {
        sums_[0][k] += sum[k];
      }
    } else {
      sums_.push_back(std::move(sum));
    }
  }

  /// Losses, gradients and direction of one member; adds its terms to the block's sum.
  void visit(int id, std::vector<double>& sum) {
    Member member;
    member.client = id;
    member.mass = resources_.phase1.aggregation == "uniform"
                      ? 1.0
                      : static_cast<double>(client(id).num_pairs());
    std::vector<float> gradients(m_ * p_);
    const objective::Evaluation evaluation = compute(id, w_, gradients);
    ClientTerms& terms = member.terms;
    terms.client = id;
    terms.loss = evaluation.loss;
    terms.preference = client(id).preference;
    terms.gram = gram_matrix(gradients, static_cast<int>(m_));
    const auto finite = [](double x) { return std::isfinite(x); };
    if (!std::all_of(terms.loss.begin(), terms.loss.end(), finite) ||
        !std::all_of(terms.gram.begin(), terms.gram.end(), finite)) {
      masses_[2] += 1.0;  // an objective is missing, or a number is not finite
      return;
    }
    StepRecord record;
    terms.direction = solve_direction(
        resources_.solver, evaluation, terms.gram, terms.preference,
        {.force_balancing = plan_.phase == Phase::kTwo, .random_key = direction_key(id)}, record);
    terms.chebyshev_optimum =
        resources_.objectives.chebyshev_optimum(client(id).id, terms.preference);

    const std::size_t block = is_uniform_block(terms.direction.mode) ? 1 : 0;
    masses_[block] += member.mass;
    const std::span<double> sums(sum);
    theory::add_direction(gradients, terms.direction.weight, member.mass, 0,
                          sums.subspan(block * p_, p_));
    for (std::size_t k = 0; k < m_ * p_; ++k) {
      sum[2 * p_ + k] += member.mass * static_cast<double>(gradients[k]);
    }
    kept_bytes_ += static_cast<double>(gradients.size() * sizeof(float));
    if (kept_bytes_ <= resources_.monitor.memory_mib * kMib) {
      member.gradients = std::move(gradients);
    }
    members_.push_back(std::move(member));
  }

  [[nodiscard]] std::uint64_t direction_key(int id) const {
    return CounterRng(
               {resources_.seed, Purpose::kDirection, static_cast<std::uint64_t>(id), step_key()})
        .next_u64();
  }

  void finish(const std::vector<double>& masses, double total, RoundReport& report) {
    std::vector<double> sum(num_sums());
    std::vector<std::size_t> cuts;  // the directions and every objective's gradients
    for (std::size_t cut = p_; cut < sum.size(); cut += p_) {
      cuts.push_back(cut);
    }
    sum_over_team(
        resources_.team, resources_.reproducible, sum, sums_.size(), plan_.members.size(),
        [&](std::size_t block, std::size_t begin, std::span<double> slice) {
          for (std::size_t k = 0; k < slice.size(); ++k) {
            slice[k] += sums_[block][begin + k];
          }
        },
        cuts);
    sums_.clear();
    for (double& x : sum) {
      x /= total;
    }
    const std::span<const double> sums(sum);
    const theory::Aggregates aggregates = theory::make_aggregates(
        sums.first(p_), sums.subspan(p_, p_), masses[0] / total, masses[1] / total);
    const std::span<const double> mean_gradients = sums.subspan(2 * p_);
    take_step(aggregates.mean);
    resources_.team.run_and_agree([&] {
      for (Member& member : members_) {
        second_pass(member, aggregates, mean_gradients, total);
      }
    });
    std::vector<ClientTerms> mine;
    for (Member& member : members_) {
      mine.push_back(std::move(member.terms));
    }
    const std::vector<ClientTerms> all = theory::gather(resources_.team, mine);
    SharedTerms shared = theory::shared_terms(setting_, aggregates);
    shared.gram_normalisation = resources_.direction.gram_normalisation;
    shared.norm_taken = std::sqrt(theory::long_dot(step_, step_)) / setting_.learning_rate;
    describe_mean(all, aggregates.mean, mean_gradients, shared);
    theory::report_conditions(setting_, all, shared, static_cast<int>(masses[2]),
                              static_cast<int>(m_), report);
  }

  /// w+ = w - eta dbar in the parameters' precision, and the step that this really is.
  void take_step(std::span<const double> direction) {
    w_after_.resize(p_);
    step_.resize(p_);
    for (std::size_t k = 0; k < p_; ++k) {
      const auto before = static_cast<double>(w_[k]);
      w_after_[k] = static_cast<float>(before - setting_.learning_rate * direction[k]);
      step_[k] = static_cast<double>(w_after_[k]) - before;
    }
  }

  /// What needs the mean: products, deviations, distances to the mean gradients, losses at w+.
  void second_pass(Member& member, const theory::Aggregates& aggregates,
                   std::span<const double> mean_gradients, double total) {
    ClientTerms& terms = member.terms;
    terms.rho = member.mass / total;
    if (member.gradients.empty()) {
      member.gradients.resize(m_ * p_);
      (void)compute(member.client, w_, member.gradients);
    }
    const std::span<const float> gradients(member.gradients);
    theory::measure(gradients, aggregates, terms);
    for (std::size_t j = 0; j < m_; ++j) {
      const std::span<const float> row = gradients.subspan(j * p_, p_);
      terms.product_taken.push_back(-theory::long_dot(row, step_) / setting_.learning_rate);
      double squared = 0.0;
      for (std::size_t k = 0; k < p_; ++k) {
        const double x = static_cast<double>(row[k]) - mean_gradients[j * p_ + k];
        squared += x * x;
      }
      terms.gradient_residual.push_back(std::sqrt(squared));
    }
    std::vector<float>().swap(member.gradients);
    terms.loss_after = compute(member.client, w_after_, {}).loss;
  }

  /// Gram matrix of the mean gradients, and ||dbar - Gbar mean(weight)||.
  void describe_mean(std::span<const ClientTerms> clients, std::span<const double> direction,
                     std::span<const double> mean_gradients, SharedTerms& shared) const {
    std::vector<double> weight(m_, 0.0);
    for (const ClientTerms& terms : clients) {
      for (std::size_t j = 0; j < m_; ++j) {
        weight[j] += terms.rho * terms.direction.weight[j];
      }
    }
    const auto row = [&](std::size_t j) { return mean_gradients.subspan(j * p_, p_); };
    std::vector<double> rest(direction.begin(), direction.end());
    shared.mean_gram.resize(m_ * m_);
    for (std::size_t i = 0; i < m_; ++i) {
      for (std::size_t j = 0; j < m_; ++j) {
        shared.mean_gram[i * m_ + j] = theory::long_dot(row(i), row(j));
      }
      for (std::size_t k = 0; k < p_; ++k) {
        rest[k] -= weight[i] * row(i)[k];
      }
    }
    shared.disagreement = std::sqrt(theory::long_dot(rest, rest));
  }

  const RoundPlan& plan_;
  const RoundResources& resources_;
  const TheorySetting& setting_;
  std::span<const float> w_;
  std::size_t m_;
  std::size_t p_;
  std::vector<Member> members_;
  std::vector<std::vector<double>> sums_;         ///< of this rank's blocks; fast: joined to one
  std::vector<double> masses_ = {0.0, 0.0, 0.0};  ///< of C+, of C0; members left out
  double kept_bytes_ = 0.0;
  std::vector<float> w_after_;
  std::vector<double> step_;
};

}  // namespace

void audit(const RoundPlan& plan, const RoundResources& resources, const TheorySetting& setting,
           std::span<const float> parameters, RoundReport& report) {
  expects(setting.learning_rate > 0.0 && !plan.members.empty(),
          "audit: expected a positive learning rate and members");
  Audit(plan, resources, setting, parameters).run(report);
}

}  // namespace apo::federation
