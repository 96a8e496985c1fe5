// IFCA (Ghosh et al. 2020): k models; every participant trains the one that fits it best.

#include <algorithm>
#include <cmath>
#include <limits>

#include "baseline_scheme.hpp"
#include "local_round.hpp"

#include "apo/core/error.hpp"

namespace apo::federation {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The model a client picked, and its losses there.
struct Choice {
  std::size_t model = 0;
  bool usable = false;       ///< false: no model has a finite loss
  std::vector<double> loss;  ///< [m] at that model
};

/// Parameters are the k models one after the other.
class Ifca final : public BaselineScheme {
 public:
  using BaselineScheme::BaselineScheme;

  [[nodiscard]] std::int64_t num_parameters() const override {
    return static_cast<std::int64_t>(num_models()) * model_size();
  }

  /// The objectives' own start plus noise: equal models would all be picked as the first one.
  [[nodiscard]] std::vector<float> initial_parameters(std::uint64_t cluster_key) const override {
    const std::vector<float> one = BaselineScheme::initial_parameters(cluster_key);
    std::vector<float> all;
    for (std::size_t model = 0; model < num_models(); ++model) {
      CounterRng rng({resources().seed, Purpose::kSchemeInit, cluster_key, model});
      for (const float x : one) {
        all.push_back(static_cast<float>(static_cast<double>(x) +
                                         resources().baseline.init_scale * rng.normal()));
      }
    }
    return all;
  }

  [[nodiscard]] RoundReport run(const RoundPlan& plan, std::vector<float>& parameters,
                                std::vector<double>& /*memory*/) override {
    RoundReport report = begin_report(plan);
    const auto p = static_cast<std::size_t>(model_size());
    const LocalSetting setting{resources(), plan};
    const std::vector<float> start = parameters;
    LocalWork work;
    std::vector<std::size_t> chosen;  // one per client that delivers
    run_timed(resources().team, work.seconds, [&] {
      for (const data::Client* client : my_clients(plan)) {
        const Choice choice = choose(*client, client->train, start);
        LocalRun run(setting, *client, client->train,
                     std::span<const float>(start).subspan(choice.model * p, p));
        if (choice.usable) {
          for (int k = 0; k < local_steps(); ++k) {
            run.step(client->preference);
          }
        } else {
          run.fail(choice.loss);
        }
        if (work.take(run)) {
          chosen.push_back(choice.model);
        }
      }
    });
    close_clients(work, report);
    report.floats_up = model_size() + 1;  // the delta and the number of its model
    report.floats_down = num_parameters();

    TeamSum sum({num_models() * p, num_models()});
    for (std::size_t i = 0; i < work.clients.size(); ++i) {
      const data::Client& client =
          resources().partition.clients[static_cast<std::size_t>(work.clients[i])];
      const double mass = mass_of(static_cast<double>(client.num_pairs()));
      sum.begin_client();
      sum.add(chosen[i] * p, mass, work.deltas[i]);
      sum.add(num_models() * p + chosen[i], std::vector<double>{mass});
    }
    const std::vector<double> total = sum.reduce(resources(), report);
    for (std::size_t model = 0; model < num_models(); ++model) {
      server_step(std::span<const double>(total).subspan(model * p, p),
                  total[num_models() * p + model],
                  std::span<float>(parameters).subspan(model * p, p));
    }
    finish_report(start, parameters, report);
    return report;
  }

  [[nodiscard]] std::vector<float> personal(const data::Client& client,
                                            std::span<const float> parameters) override {
    const data::Pool& pool = data::pool_size(client.adapt) > 0 ? client.adapt : client.train;
    expects(data::pool_size(pool) > 0,
            "ifca: client " + std::to_string(client.id.value) + " has no pairs to choose by");
    const auto p = static_cast<std::size_t>(model_size());
    const std::span<const float> model =
        parameters.subspan(choose(client, pool, parameters).model * p, p);
    return {model.begin(), model.end()};
  }

 private:
  [[nodiscard]] std::size_t num_models() const {
    return static_cast<std::size_t>(resources().baseline.num_models);
  }

  /// The model with the smallest loss, ties to the first; loss that is not finite counts as
  /// infinite.
  [[nodiscard]] Choice choose(const data::Client& client, const data::Pool& pool,
                              std::span<const float> parameters) const {
    const auto p = static_cast<std::size_t>(model_size());
    Choice best;
    double lowest = kInfinity;
    for (std::size_t model = 0; model < num_models(); ++model) {
      const objective::Evaluation evaluation =
          resources().objectives.evaluate(parameters.subspan(model * p, p), {client.id, pool});
      const double loss = scalar_loss(client, evaluation);
      if (loss < lowest || model == 0) {
        lowest = std::min(lowest, loss);
        best = {model, loss < kInfinity, evaluation.loss};
      }
    }
    return best;
  }

  [[nodiscard]] double scalar_loss(const data::Client& client,
                                   const objective::Evaluation& evaluation) const {
    std::vector<bool> present;
    for (const int pairs : evaluation.num_pairs) {
      present.push_back(pairs > 0);
    }
    const std::vector<double> lambda = restricted_to(client.preference, present);
    const bool largest = resources().baseline.cluster_loss == "chebyshev";
    double loss = 0.0;
    for (std::size_t j = 0; j < lambda.size(); ++j) {
      if (present[j]) {
        const double weighted = lambda[j] * evaluation.loss[j];
        if (!std::isfinite(weighted)) {
          return kInfinity;
        }
        loss = largest ? std::max(loss, weighted) : loss + weighted;
      }
    }
    return loss;
  }
};

}  // namespace

std::unique_ptr<RoundScheme> make_ifca(RoundResources resources) {
  return std::make_unique<Ifca>(std::move(resources));
}

}  // namespace apo::federation
