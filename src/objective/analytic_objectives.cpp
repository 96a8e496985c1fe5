#include <algorithm>
#include <cmath>
#include <limits>

#include "analytic_problems.hpp"

#include "apo/core/error.hpp"
#include "apo/core/rng.hpp"
#include "apo/objective/analytic_task.hpp"

namespace apo::objective {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

class AnalyticObjectives final : public ObjectiveSet {
 public:
  explicit AnalyticObjectives(const AnalyticTask& task)
      : task_(task),
        m_(static_cast<std::size_t>(task.problem->num_objectives())),
        size_(static_cast<std::size_t>(task.problem->dimension())),
        per_pair_(task.options.pair_jitter > 0.0 || !task.own_problem.empty()),
        start_(initial_parameters(task.seed)),
        x_(size_),
        pair_x_(size_),
        pair_gradient_(size_),
        gradients_(m_ * size_) {
    smoothness_ = task.own_problem.empty() ? task.problem->smoothness() : 0.0;
    for (const auto& own : task.own_problem) {
      smoothness_ = std::max(smoothness_, own->smoothness());
    }
  }

  [[nodiscard]] int num_objectives() const override { return static_cast<int>(m_); }
  [[nodiscard]] std::int64_t num_parameters() const override {
    return static_cast<std::int64_t>(size_);
  }
  [[nodiscard]] std::vector<float> initial_parameters(std::uint64_t seed) const override {
    const std::vector<double> start = task_.problem->start(seed);
    std::vector<float> parameters(start.size());
    std::transform(start.begin(), start.end(), parameters.begin(),
                   [](double entry) { return static_cast<float>(entry); });
    return parameters;
  }
  [[nodiscard]] double smoothness() const override { return smoothness_; }
  [[nodiscard]] double chebyshev_optimum(ClientId client,
                                         std::span<const double> preference) const override {
    return task_.optimum(client, preference).chebyshev;
  }

  [[nodiscard]] Evaluation evaluate(std::span<const float> parameters,
                                    const Batch& batch) override {
    return compute(parameters, batch, false);
  }

  [[nodiscard]] Evaluation gradients(std::span<const float> parameters, const Batch& batch,
                                     const StepKey& /*key*/, std::span<float> gradients) override {
    expects(gradients.size() == m_ * size_, "AnalyticObjectives: gradients must be [m, P]");
    Evaluation result = compute(parameters, batch, true);
    std::transform(gradients_.begin(), gradients_.end(), gradients.begin(),
                   [](double entry) { return static_cast<float>(entry); });
    return result;
  }

  [[nodiscard]] Evaluation weighted_gradient(std::span<const float> parameters, const Batch& batch,
                                             const StepKey& /*key*/,
                                             std::span<const double> weights,
                                             std::span<float> gradient) override {
    expects(weights.size() == m_ && gradient.size() == size_,
            "AnalyticObjectives: weights must be [m], the gradient [P]");
    Evaluation result = compute(parameters, batch, true);
    for (std::size_t p = 0; p < size_; ++p) {
      double sum = 0.0;
      for (std::size_t j = 0; j < m_; ++j) {  // an absent objective's weight may be anything
        sum += result.num_pairs[j] > 0 ? weights[j] * gradients_[j * size_ + p] : 0.0;
      }
      gradient[p] = static_cast<float>(sum);
    }
    return result;
  }

 private:
  /// Losses, and with_gradients: gradients_ [m, P].
  Evaluation compute(std::span<const float> parameters, const Batch& batch, bool with_gradients) {
    const std::span<const float> w =
        parameters.empty() ? std::span<const float>(start_) : parameters;
    expects(w.size() == size_, "AnalyticObjectives: parameters must be [P] or empty");
    expects(batch.pairs.size() == m_, "AnalyticObjectives: a batch has one list per objective");
    const AnalyticProblem& problem = task_.problem_of(batch.client);
    const std::vector<double>& shift = task_.shift[batch.client.index()];
    for (std::size_t p = 0; p < size_; ++p) {
      x_[p] = static_cast<double>(w[p]) - shift[p];
    }
    Evaluation result;
    result.loss.assign(m_, kNaN);
    result.accuracy.assign(m_, kNaN);
    result.num_pairs.assign(m_, 0);
    result.loss_variance.assign(m_, kNaN);
    for (std::size_t j = 0; j < m_; ++j) {
      const std::vector<int>& pairs = batch.pairs[j];
      std::span<double> gradient;
      if (with_gradients) {
        gradient = std::span(gradients_).subspan(j * size_, size_);
        std::fill(gradient.begin(), gradient.end(), 0.0);
      }
      const auto count = static_cast<int>(pairs.size());
      result.num_pairs[j] = count;
      if (count == 0) {
        continue;
      }
      check_pairs(batch.client, j, pairs);
      if (!per_pair_) {
        result.loss[j] = problem.objective(static_cast<int>(j), x_, gradient);
        result.loss_variance[j] = count > 1 ? 0.0 : kNaN;
        continue;
      }
      double mean = 0.0;
      double squares = 0.0;  // sum of squared distances from the mean (Welford 1962)
      for (int n = 0; n < count; ++n) {
        const double loss = pair_loss(problem, batch.client, j, pairs[static_cast<std::size_t>(n)],
                                      gradient, 1.0 / count);
        const double distance = loss - mean;
        mean += distance / (n + 1);
        squares += distance * (loss - mean);
      }
      result.loss[j] = mean;
      result.loss_variance[j] = count > 1 ? squares / (count - 1) : kNaN;
    }
    return result;
  }

  /// Loss of one pair at x_; adds weight times its gradient to `gradient` unless that is empty.
  double pair_loss(const AnalyticProblem& problem, ClientId client, std::size_t j, int pair,
                   std::span<double> gradient, double weight) {
    const int k = pair - first_pair(client, j);
    std::span<const double> x = x_;
    if (task_.options.pair_jitter > 0.0) {
      CounterRng rng({.seed = task_.seed,
                      .purpose = Purpose::kAnalytic,
                      .a = analytic::kJitter,
                      .b = client.index(),
                      .c = j << 32U | static_cast<std::uint64_t>(k)});
      for (std::size_t p = 0; p < size_; ++p) {
        pair_x_[p] = x_[p] - task_.options.pair_jitter * rng.normal();
      }
      x = pair_x_;
    }
    const auto own = gradient.empty() ? gradient : std::span<double>(pair_gradient_);
    const double loss = problem.observation(static_cast<int>(j), k, x, own);
    for (std::size_t p = 0; p < gradient.size(); ++p) {
      gradient[p] += weight * own[p];
    }
    return loss;
  }

  /// Position of the client's first pair of objective j.
  [[nodiscard]] int first_pair(ClientId id, std::size_t j) const {
    const data::Client& client = task_.partition.clients[id.index()];
    return (client.split == data::ClientSplit::kTest ? client.adapt : client.train)[j].front();
  }

  void check_pairs(ClientId client, std::size_t j, const std::vector<int>& pairs) const {
    const bool is_test = task_.partition.clients[client.index()].split == data::ClientSplit::kTest;
    const int first = first_pair(client, j);
    const int count = task_.options.pairs_per_objective * (is_test ? 2 : 1);
    for (const int pair : pairs) {
      expects(pair >= first && pair < first + count,
              "AnalyticObjectives: a pair that is not the client's of that objective");
    }
  }

  const AnalyticTask& task_;
  std::size_t m_;
  std::size_t size_;
  bool per_pair_;
  double smoothness_ = kNaN;
  std::vector<float> start_;
  std::vector<double> x_;              // w - delta_i, [P]
  std::vector<double> pair_x_;         // the same minus the pair's jitter, [P]
  std::vector<double> pair_gradient_;  // [P]
  std::vector<double> gradients_;      // [m, P]
};

}  // namespace

std::unique_ptr<ObjectiveSet> make_analytic_objectives(const AnalyticTask& task) {
  return std::make_unique<AnalyticObjectives>(task);
}

}  // namespace apo::objective
