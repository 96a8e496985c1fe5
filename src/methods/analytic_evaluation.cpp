#include <algorithm>
#include <cmath>
#include <limits>

#include "apo/core/balance.hpp"
#include "apo/core/error.hpp"
#include "apo/methods/evaluation.hpp"

namespace apo::methods {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

class AnalyticEvaluator final : public Evaluator {
 public:
  AnalyticEvaluator(const objective::AnalyticTask& task, objective::ObjectiveSet& objectives)
      : task_(task), objectives_(objectives) {}

  void evaluate(const data::Client& client, std::span<const float> adapter,
                const EvaluationKey& key, bool /*sample*/, Table& summary,
                Table& /*responses*/) override {
    const objective::Evaluation held_out =
        objectives_.evaluate(adapter, {client.id, client.evaluate});
    const std::size_t m = held_out.loss.size();
    const objective::ParetoPoint best = task_.optimum(client.id, client.preference);
    std::vector<double> solution(m);
    double chebyshev = 0.0;
    double score = 0.0;
    for (std::size_t j = 0; j < m; ++j) {
      solution[j] = std::exp(-held_out.loss[j]);
      score += client.preference[j] * solution[j];
      chebyshev = std::max(chebyshev, client.preference[j] * held_out.loss[j]);
    }
    const std::vector<double> unknown(m, kNaN);
    summary.push("method", key.method);
    summary.push("start_round", std::int64_t{key.start_round});
    summary.push("cluster", std::int64_t{key.cluster});
    summary.push("client", std::int64_t{client.id.value});
    summary.push("stage", stage_name(key.stage));
    summary.push("loss", std::span<const double>(held_out.loss));
    summary.push("accuracy", std::span<const double>(held_out.accuracy));
    summary.push("reward", std::span<const double>(unknown));
    summary.push("parse_rate", kNaN);
    summary.push("score", score);
    summary.push("score_normalised", kNaN);
    summary.push("solution", std::span<const double>(solution));
    summary.push("uniformity", balance(held_out.loss, client.preference).uniformity);
    summary.push("chebyshev", chebyshev);
    summary.push("chebyshev_optimum", best.chebyshev);
    summary.push("chebyshev_gap", chebyshev - best.chebyshev);
    summary.push("distance", distance(adapter, best.x));
    summary.push("num_prompts", std::int64_t{0});
    summary.push("num_responses", std::int64_t{0});
  }

 private:
  /// NaN where the minimiser is not known, or there are no parameters to compare.
  static double distance(std::span<const float> adapter, const std::vector<double>& best) {
    if (adapter.empty() || best.empty()) {
      return kNaN;
    }
    expects(adapter.size() == best.size(), "analytic evaluation: sizes disagree");
    double sum = 0.0;
    for (std::size_t k = 0; k < best.size(); ++k) {
      const double difference = static_cast<double>(adapter[k]) - best[k];
      sum += difference * difference;
    }
    return std::sqrt(sum);
  }

  const objective::AnalyticTask& task_;
  objective::ObjectiveSet& objectives_;
};

}  // namespace

std::unique_ptr<Evaluator> make_analytic_evaluator(const objective::AnalyticTask& task,
                                                   objective::ObjectiveSet& objectives) {
  return std::make_unique<AnalyticEvaluator>(task, objectives);
}

}  // namespace apo::methods
