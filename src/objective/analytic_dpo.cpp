// T-H of algorithms.md section 7: l_j(w) = mean_k softplus(-beta z_jk' w) + eps/2 ||w||^2.

#include <algorithm>
#include <cmath>

#include "analytic_minimax.hpp"
#include "analytic_problems.hpp"

#include "apo/core/rng.hpp"

namespace apo::objective::analytic {
namespace {

constexpr double kPairSpread = 0.5;  // standard deviation of z per coordinate about its mean

class DpoLinear final : public ProblemBase, public ConvexLosses {
 public:
  DpoLinear(const AnalyticOptions& options, std::uint64_t seed, std::uint64_t stream, int num_pairs,
            int num_judged)
      : ProblemBase("dpo_linear", options.num_objectives, options.dimension),
        beta_(options.dpo_beta),
        ridge_(options.ridge),
        num_pairs_(static_cast<std::size_t>(num_pairs)),
        first_judged_(static_cast<std::size_t>(num_pairs - num_judged)) {
    // Objective j wants more of coordinate j and less of the next one, so that neighbours disagree.
    for (std::size_t j = 0; j < m(); ++j) {
      CounterRng rng(
          {.seed = seed, .purpose = Purpose::kAnalytic, .a = kData, .b = stream, .c = j});
      for (std::size_t k = 0; k < num_pairs_; ++k) {
        for (std::size_t p = 0; p < size(); ++p) {
          const double mean = p == j ? 1.0 : (p == (j + 1) % m() ? -1.0 : 0.0);
          z_.push_back(options.radius * (mean / std::sqrt(2.0) + kPairSpread * rng.normal()));
        }
      }
    }
  }

  [[nodiscard]] double smoothness() const override {
    double largest = 0.0;
    for (std::size_t row = 0; row < m() * num_pairs_; ++row) {
      double squared = 0.0;
      for (std::size_t p = 0; p < size(); ++p) {
        squared += z_[row * size() + p] * z_[row * size() + p];
      }
      largest = std::max(largest, squared);
    }
    return 0.25 * beta_ * beta_ * largest + ridge_;
  }

  /// The reference policy, as an untrained adapter is: every loss is log 2.
  [[nodiscard]] std::vector<double> start(std::uint64_t /*seed*/) const override {
    return std::vector<double>(size(), 0.0);
  }

  [[nodiscard]] double objective(int j, std::span<const double> x,
                                 std::span<double> gradient) const override {
    const auto row = static_cast<std::size_t>(j);
    double loss = begin(x, gradient);
    const double weight = 1.0 / static_cast<double>(num_pairs_ - first_judged_);
    for (std::size_t k = first_judged_; k < num_pairs_; ++k) {
      loss += add_pair(row, k, x, weight, gradient);
    }
    return loss;
  }

  [[nodiscard]] double observation(int j, int k, std::span<const double> x,
                                   std::span<double> gradient) const override {
    const double loss = begin(x, gradient);
    return loss +
           add_pair(static_cast<std::size_t>(j), static_cast<std::size_t>(k), x, 1.0, gradient);
  }

  [[nodiscard]] ParetoPoint pareto_point(std::span<const double> preference) const override {
    Minimax best = minimise_maximum(*this, preference, std::vector<double>(size(), 0.0));
    const bool on_ray =
        std::all_of(best.weight.begin(), best.weight.end(), [](double nu) { return nu > 1e-12; });
    return point_at(std::move(best.w), preference, on_ray);
  }

  // ConvexLosses
  [[nodiscard]] std::size_t count() const override { return m(); }
  [[nodiscard]] std::size_t size() const override { return ProblemBase::size(); }
  [[nodiscard]] double loss(std::size_t j, std::span<const double> w,
                            std::span<double> gradient) const override {
    return objective(static_cast<int>(j), w, gradient);
  }
  void add_hessian(std::size_t j, std::span<const double> w, double weight,
                   std::span<double> hessian) const override {
    const double per_pair =
        weight * beta_ * beta_ / static_cast<double>(num_pairs_ - first_judged_);
    for (std::size_t k = first_judged_; k < num_pairs_; ++k) {
      const double* z = row_of(j, k);
      const double share = sigmoid(-beta_ * inner(z, w));
      const double factor = per_pair * share * (1.0 - share);
      for (std::size_t p = 0; p < size(); ++p) {
        for (std::size_t q = 0; q < size(); ++q) {
          hessian[p * size() + q] += factor * z[p] * z[q];
        }
      }
    }
    for (std::size_t p = 0; p < size(); ++p) {
      hessian[p * size() + p] += weight * ridge_;
    }
  }

 private:
  [[nodiscard]] const double* row_of(std::size_t j, std::size_t k) const {
    return &z_[(j * num_pairs_ + k) * size()];
  }
  [[nodiscard]] double inner(const double* z, std::span<const double> w) const {
    double sum = 0.0;
    for (std::size_t p = 0; p < w.size(); ++p) {
      sum += z[p] * w[p];
    }
    return sum;
  }
  [[nodiscard]] static double sigmoid(double x) {
    return x >= 0.0 ? 1.0 / (1.0 + std::exp(-x)) : std::exp(x) / (1.0 + std::exp(x));
  }

  /// The ridge and its gradient.
  [[nodiscard]] double begin(std::span<const double> x, std::span<double> gradient) const {
    double squared = 0.0;
    for (const double entry : x) {
      squared += entry * entry;
    }
    for (std::size_t p = 0; p < gradient.size(); ++p) {
      gradient[p] = ridge_ * x[p];
    }
    return 0.5 * ridge_ * squared;
  }

  double add_pair(std::size_t j, std::size_t k, std::span<const double> x, double weight,
                  std::span<double> gradient) const {
    const double* z = row_of(j, k);
    const double margin = beta_ * inner(z, x);
    const double slope = -weight * beta_ * sigmoid(-margin);
    for (std::size_t p = 0; p < gradient.size(); ++p) {
      gradient[p] += slope * z[p];
    }
    return weight * (std::max(-margin, 0.0) + std::log1p(std::exp(-std::abs(margin))));
  }

  double beta_;
  double ridge_;
  std::size_t num_pairs_;     // per objective
  std::size_t first_judged_;  // the objective is the mean from here on
  std::vector<double> z_;     // [m, num_pairs, P]
};

}  // namespace

std::unique_ptr<AnalyticProblem> make_dpo_linear(const AnalyticOptions& options, std::uint64_t seed,
                                                 std::uint64_t stream, int num_pairs,
                                                 int num_judged) {
  return std::make_unique<DpoLinear>(options, seed, stream, num_pairs, num_judged);
}

}  // namespace apo::objective::analytic
