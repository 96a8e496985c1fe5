// Rewarded Soup (Rame et al. 2023), federated: one expert per objective, each by FedAvg on that
// objective alone; a client is given the mean of the experts under its preference.

#include "baseline_scheme.hpp"
#include "local_round.hpp"

namespace apo::federation {
namespace {

/// Parameters are the m experts one after the other.
class RewardedSoup final : public BaselineScheme {
 public:
  using BaselineScheme::BaselineScheme;

  [[nodiscard]] std::int64_t num_parameters() const override {
    return num_objectives() * model_size();
  }

  [[nodiscard]] std::vector<float> initial_parameters(std::uint64_t cluster_key) const override {
    const std::vector<float> one = BaselineScheme::initial_parameters(cluster_key);
    std::vector<float> all;
    for (int j = 0; j < num_objectives(); ++j) {
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }

  [[nodiscard]] RoundReport run(const RoundPlan& plan, std::vector<float>& parameters,
                                std::vector<double>& /*memory*/) override {
    RoundReport report = begin_report(plan);
    const auto m = static_cast<std::size_t>(num_objectives());
    const auto p = static_cast<std::size_t>(model_size());
    const LocalSetting setting{resources(), plan};
    const std::vector<float> start = parameters;
    LocalWork work;
    run_timed(resources().team, work.seconds, [&] {
      train_per_objective(
          setting, my_clients(plan),
          [&](std::size_t j) { return std::span<const float>(start).subspan(j * p, p); }, work);
    });
    close_clients(work, report);
    report.floats_up = num_parameters();
    report.floats_down = num_parameters();

    TeamSum sum({m * p, m});
    for (std::size_t i = 0; i < work.deltas.size(); ++i) {  // m per client
      if (i % m == 0) {
        sum.begin_client();
      }
      if (!work.deltas[i].empty()) {
        const data::Client& client =
            resources().partition.clients[static_cast<std::size_t>(work.clients[i / m])];
        const double mass = mass_of(static_cast<double>(client.train[i % m].size()));
        sum.add(i % m * p, mass, work.deltas[i]);
        sum.add(m * p + i % m, std::vector<double>{mass});
      }
    }
    const std::vector<double> total = sum.reduce(resources(), report);
    for (std::size_t j = 0; j < m; ++j) {
      server_step(std::span<const double>(total).subspan(j * p, p), total[m * p + j],
                  std::span<float>(parameters).subspan(j * p, p));
    }
    finish_report(start, parameters, report);
    return report;
  }

  /// w_lambda = sum_j lambda_j w_j. Adapter tensors are averaged one by one, LoRA's two factors
  /// included, as the method's own code does.
  [[nodiscard]] std::vector<float> personal(const data::Client& client,
                                            std::span<const float> parameters) override {
    const auto p = static_cast<std::size_t>(model_size());
    std::vector<float> soup(p);
    for (std::size_t k = 0; k < p; ++k) {
      double sum = 0.0;
      for (std::size_t j = 0; j < client.preference.size(); ++j) {
        sum += client.preference[j] * static_cast<double>(parameters[j * p + k]);
      }
      soup[k] = static_cast<float>(sum);
    }
    return soup;
  }
};

}  // namespace

std::unique_ptr<RoundScheme> make_rewarded_soup(RoundResources resources) {
  return std::make_unique<RewardedSoup>(std::move(resources));
}

}  // namespace apo::federation
