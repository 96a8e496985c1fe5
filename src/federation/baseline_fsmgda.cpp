// FSMGDA (Yang et al. 2023): every client trains on each objective alone and sends m deltas; the
// server steps along the min-norm combination of their means.

#include <cmath>

#include "baseline_compression.hpp"
#include "baseline_scheme.hpp"
#include "local_round.hpp"

namespace apo::federation {
namespace {

class Fsmgda final : public BaselineScheme {
 public:
  using BaselineScheme::BaselineScheme;

  [[nodiscard]] RoundReport run(const RoundPlan& plan, std::vector<float>& parameters,
                                std::vector<double>& /*memory*/) override {
    RoundReport report = begin_report(plan);
    const BaselineOptions& baseline = resources().baseline;
    const LocalSetting setting{resources(), plan, baseline.update_normalisation == "iteration"};
    const std::vector<float> start = parameters;
    LocalWork work;
    run_timed(resources().team, work.seconds, [&] {
      train_per_objective(
          setting, my_clients(plan), [&](std::size_t) { return std::span<const float>(start); },
          work);
      for (std::vector<float>& delta : work.deltas) {
        keep_largest(delta, kept_entries());
      }
    });
    close_clients(work, report);
    const std::int64_t m = num_objectives();
    report.floats_up =
        m * floats_of_largest(kept_entries(), static_cast<std::size_t>(model_size()));
    report.floats_down = model_size();

    const std::vector<double> means = mean_deltas(work, report);
    step(means, parameters, report);
    finish_report(start, parameters, report);
    return report;
  }

 private:
  [[nodiscard]] std::size_t kept_entries() const {
    const auto p = static_cast<double>(model_size());
    return static_cast<std::size_t>(
        std::max(1.0, std::floor(resources().baseline.update_topk * p)));
  }

  /// Mean delta per objective over the clients that have it, [m, P], then the clients' number, [m].
  [[nodiscard]] std::vector<double> mean_deltas(const LocalWork& work, RoundReport& report) const {
    const auto m = static_cast<std::size_t>(num_objectives());
    const auto p = static_cast<std::size_t>(model_size());
    TeamSum sum({m * p, m});
    for (std::size_t i = 0; i < work.deltas.size(); ++i) {  // m per client
      if (i % m == 0) {
        sum.begin_client();
      }
      if (!work.deltas[i].empty()) {
        sum.add(i % m * p, 1.0, work.deltas[i]);
        sum.add(m * p + i % m, std::vector<double>{1.0});
      }
    }
    std::vector<double> means = sum.reduce(resources(), report);
    for (std::size_t j = 0; j < m; ++j) {
      const double count = means[m * p + j];
      double square = 0.0;
      for (std::size_t k = j * p; k < (j + 1) * p && count > 0.0; ++k) {
        means[k] /= count;
        square += means[k] * means[k];
      }
      if (resources().baseline.update_normalisation == "update" && square > 0.0) {
        for (std::size_t k = j * p; k < (j + 1) * p; ++k) {
          means[k] /= std::sqrt(square);
        }
      }
    }
    return means;
  }

  void step(std::span<const double> means, std::vector<float>& parameters,
            RoundReport& report) const {
    const auto m = static_cast<std::size_t>(num_objectives());
    const auto p = static_cast<std::size_t>(model_size());
    std::vector<std::size_t> present;
    for (std::size_t j = 0; j < m; ++j) {
      if (means[m * p + j] > 0.0) {
        present.push_back(j);
      }
    }
    if (present.empty()) {
      return;
    }
    const std::vector<double> gram = gram_of(means.first(m * p), m);
    std::vector<double> part;
    for (const std::size_t i : present) {
      for (const std::size_t j : present) {
        part.push_back(gram[i * m + j]);
      }
    }
    const std::vector<double> weights =
        direction::regularised_min_norm_point(part, std::vector<double>(present.size(), 0.0));
    report.server_weights.assign(m, 0.0);
    std::vector<double> update(p, 0.0);
    for (std::size_t a = 0; a < present.size(); ++a) {
      report.server_weights[present[a]] = weights[a];
      for (std::size_t k = 0; k < p; ++k) {
        update[k] += weights[a] * means[present[a] * p + k];
      }
    }
    server_step(update, 1.0, parameters);
  }
};

}  // namespace

std::unique_ptr<RoundScheme> make_fsmgda(RoundResources resources) {
  return std::make_unique<Fsmgda>(std::move(resources));
}

}  // namespace apo::federation
