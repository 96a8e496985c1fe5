// Server-centric multi-gradient methods: FedCMOO and FedCMOO-Pref (Askin et al. 2024), and MGDA at
// the server. Clients send the gradients of all objectives at the common point, the server answers
// with common weights, and the clients take their local steps along the weighted sum.

#include <numeric>

#include "baseline_jacobian.hpp"
#include "baseline_scheme.hpp"
#include "baseline_weights.hpp"
#include "local_round.hpp"

namespace apo::federation {
namespace {

/// The server's rule.
enum class Rule { kMinNorm, kTracker, kPreference };

class FedCmoo final : public BaselineScheme {
 public:
  FedCmoo(Rule rule, RoundResources own)
      : BaselineScheme(std::move(own)),
        rule_(rule),
        estimator_(resources(),
                   rule == Rule::kMinNorm ? "none" : resources().baseline.compression) {
    if (rule_ == Rule::kPreference) {
      const BaselineOptions& baseline = resources().baseline;
      epo_ = direction::make_solver({.solver = "epo",
                                     .beta_tolerance = baseline.pref_beta_tolerance,
                                     .bottleneck_tolerance = baseline.pref_bottleneck_band,
                                     .loss_floor = resources().direction.loss_floor,
                                     .epo_mode = "relaxed"});
    }
  }

  [[nodiscard]] RoundReport run(const RoundPlan& plan, std::vector<float>& parameters,
                                std::vector<double>& memory) override {
    RoundReport report = begin_report(plan);
    const LocalSetting setting{resources(), plan};
    const std::vector<float> start = parameters;
    const std::vector<const data::Client*> clients = my_clients(plan);
    LocalWork work;
    std::vector<LocalRun> runs;
    runs.reserve(clients.size());
    run_timed(resources().team, work.seconds, [&] {
      for (const data::Client* client : clients) {
        runs.emplace_back(setting, *client, client->train, start);
        runs.back().begin_step();
      }
    });
    const JacobianEstimate estimate = estimator_.estimate(plan, runs, work.seconds, report);
    if (estimate.num_present() > 0) {
      report.server_weights = choose_weights(plan, estimate, memory);
    }
    run_timed(resources().team, work.seconds,
              [&] { finish_clients(runs, report.server_weights, work); });
    close_clients(work, report);
    const std::int64_t m = num_objectives();
    report.floats_up = estimator_.floats_up() + model_size() + (rule_ == Rule::kPreference ? m : 0);
    report.floats_down = estimator_.floats_down() + model_size() + m;

    const auto p = static_cast<std::size_t>(model_size());
    TeamSum sum({p, 1});
    for (const std::vector<float>& delta : work.deltas) {
      sum.begin_client();
      sum.add(0, 1.0, delta);
      sum.add(p, std::vector<double>{1.0});
    }
    const std::vector<double> total = sum.reduce(resources(), report);
    server_step(std::span<const double>(total).first(p), total[p], parameters);
    finish_report(start, parameters, report);
    return report;
  }

 private:
  [[nodiscard]] std::vector<double> choose_weights(const RoundPlan& plan,
                                                   const JacobianEstimate& estimate,
                                                   std::vector<double>& memory) {
    switch (rule_) {
      case Rule::kMinNorm:
        return estimate.spread(direction::regularised_min_norm_point(
            estimate.present_gram(), std::vector<double>(estimate.num_present(), 0.0)));
      case Rule::kTracker:
        return tracked(estimate, memory);
      case Rule::kPreference:
        break;
    }
    return estimate.spread(preferred(plan, estimate));
  }

  /// FedCMOO's slow tracker: gradient steps on the simplex from the last round's weights. An
  /// objective that no participant has keeps its share of the memory and gets no weight.
  [[nodiscard]] std::vector<double> tracked(const JacobianEstimate& estimate,
                                            std::vector<double>& memory) const {
    const std::size_t m = estimate.present.size();
    const std::size_t n = estimate.num_present();
    if (memory.empty()) {
      memory.assign(m, 1.0 / static_cast<double>(m));
    }
    std::vector<double> before = estimate.entries(memory);
    const double share = std::accumulate(before.begin(), before.end(), 0.0);
    for (double& x : before) {
      x = share > 0.0 ? x / share : 1.0 / static_cast<double>(n);
    }
    const std::vector<double> weights = estimate.spread(track_min_norm(
        scaled_gram(estimate.present_gram(), n), before, resources().baseline.weight_steps,
        resources().baseline.weight_learning_rate));
    for (std::size_t j = 0; j < m; ++j) {
      memory[j] = estimate.present[j] ? share * weights[j] : memory[j];
    }
    return weights;
  }

  /// EPO's LP for the mean preference of the cluster, mixed with the uniform weights.
  [[nodiscard]] std::vector<double> preferred(const RoundPlan& plan,
                                              const JacobianEstimate& estimate) const {
    std::vector<double> sum(estimate.present.size(), 0.0);
    for (const int id : plan.members) {
      const data::Client& client = resources().partition.clients[static_cast<std::size_t>(id)];
      for (std::size_t j = 0; j < sum.size(); ++j) {
        sum[j] += client.preference[j];
      }
    }
    const std::vector<double> preference = estimate.entries(restricted_to(sum, estimate.present));
    const std::vector<double> loss = estimate.entries(estimate.loss);
    const std::vector<double> gram = estimate.present_gram();
    direction::Problem problem;
    problem.loss = loss;
    problem.gram = gram;
    problem.preference = preference;
    std::vector<double> weights = epo_->solve(problem).mu;
    const double mix = resources().baseline.pref_mix;
    for (double& x : weights) {
      x = (1.0 - mix) * x + mix / static_cast<double>(weights.size());
    }
    return weights;
  }

  /// The first step goes along the gradients that are known already.
  void finish_clients(std::vector<LocalRun>& runs, std::span<const double> weights,
                      LocalWork& work) const {
    for (LocalRun& run : runs) {
      if (run.finite()) {
        run.end_step(weights);
        for (int k = 1; k < local_steps(); ++k) {
          run.step(weights);
        }
      }
      work.take(run);
    }
  }

  Rule rule_;
  JacobianEstimator estimator_;
  std::unique_ptr<direction::DirectionSolver> epo_;
};

}  // namespace

std::unique_ptr<RoundScheme> make_fedcmoo(const std::string& name, RoundResources resources) {
  const Rule rule = name == "server_mgda" ? Rule::kMinNorm
                    : name == "fedcmoo"   ? Rule::kTracker
                                          : Rule::kPreference;
  return std::make_unique<FedCmoo>(rule, std::move(resources));
}

}  // namespace apo::federation
