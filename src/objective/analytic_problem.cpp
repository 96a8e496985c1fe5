#include "apo/objective/analytic_problem.hpp"

#include <algorithm>
#include <cmath>

#include "analytic_problems.hpp"

#include "apo/core/error.hpp"
#include "apo/core/rng.hpp"

namespace apo::objective {

double AnalyticProblem::observation(int j, int /*k*/, std::span<const double> x,
                                    std::span<double> gradient) const {
  return objective(j, x, gradient);
}

void AnalyticProblem::evaluate(std::span<const double> x, std::span<double> loss,
                               std::span<double> gradients) const {
  const auto m = static_cast<std::size_t>(num_objectives());
  const auto size = static_cast<std::size_t>(dimension());
  expects(
      x.size() == size && loss.size() == m && (gradients.empty() || gradients.size() == m * size),
      "AnalyticProblem::evaluate: expected x [P], loss [m], gradients [m, P] or empty");
  for (std::size_t j = 0; j < m; ++j) {
    loss[j] = objective(static_cast<int>(j), x,
                        gradients.empty() ? gradients : gradients.subspan(j * size, size));
  }
}

namespace analytic {

ParetoPoint ProblemBase::point_at(std::vector<double> x, std::span<const double> preference,
                                  bool on_ray) const {
  ParetoPoint point;
  point.loss.resize(m());
  evaluate(x, point.loss, {});
  for (std::size_t j = 0; j < m(); ++j) {
    point.chebyshev = std::max(point.chebyshev, preference[j] * point.loss[j]);
  }
  point.x = std::move(x);
  point.on_ray = on_ray;
  return point;
}

std::vector<double> offsets_of(const AnalyticOptions& options) {
  return options.offsets.empty()
             ? std::vector<double>(static_cast<std::size_t>(options.num_objectives), options.offset)
             : options.offsets;
}

std::vector<double> random_direction(std::uint64_t seed, std::uint64_t use, std::size_t dimension) {
  CounterRng rng({.seed = seed, .purpose = Purpose::kAnalytic, .a = use});
  std::vector<double> direction(dimension);
  double squared = 0.0;
  while (squared < 1e-20) {
    squared = 0.0;
    for (double& entry : direction) {
      entry = rng.normal();
      squared += entry * entry;
    }
  }
  for (double& entry : direction) {
    entry /= std::sqrt(squared);
  }
  return direction;
}

std::vector<double> constant(int dimension, double norm) {
  return std::vector<double>(static_cast<std::size_t>(dimension),
                             norm / std::sqrt(static_cast<double>(dimension)));
}

std::vector<double> beside_segment(std::span<const double> end, std::uint64_t seed) {
  CounterRng rng({.seed = seed, .purpose = Purpose::kAnalytic, .a = kStart, .b = 1});
  const double along = rng.uniform() - 0.5;
  std::vector<double> x(end.begin(), end.end());
  if (end.size() == 1) {
    x[0] *= 1.5;
    return x;
  }
  double length = 0.0;
  for (const double entry : end) {
    length += entry * entry;
  }
  std::vector<double> beside;
  double squared = 0.0;
  // A direction along the axis itself has no part beside it: the next seed's.
  for (std::uint64_t attempt = seed; squared < 1e-6; ++attempt) {
    beside = random_direction(attempt, kStart, end.size());
    double inner = 0.0;
    for (std::size_t p = 0; p < end.size(); ++p) {
      inner += beside[p] * end[p];
    }
    squared = 0.0;
    for (std::size_t p = 0; p < end.size(); ++p) {
      beside[p] -= inner / length * end[p];
      squared += beside[p] * beside[p];
    }
  }
  for (std::size_t p = 0; p < end.size(); ++p) {
    x[p] = along * end[p] + 0.8 * std::sqrt(length / squared) * beside[p];
  }
  return x;
}

}  // namespace analytic

std::unique_ptr<AnalyticProblem> make_analytic_problem(const AnalyticOptions& options,
                                                       std::uint64_t seed) {
  analytic::check_options(options);
  const std::string& name = options.problem;
  if (name == "epo2") {
    return analytic::make_epo2(options);
  }
  if (name == "epo3") {
    return analytic::make_epo3(options);
  }
  if (name == "quadratic") {
    return analytic::make_quadratic(options);
  }
  if (name == "simplex") {
    return analytic::make_simplex(options);
  }
  if (name == "anisotropic") {
    return analytic::make_anisotropic(options);
  }
  if (name == "flat_stationary") {
    return analytic::make_flat_stationary(options);
  }
  if (name == "v_shape") {
    return analytic::make_v_shape(options);
  }
  if (name == "dpo_linear") {
    return analytic::make_dpo_linear(options, seed, 0, options.pairs_per_objective,
                                     options.pairs_per_objective);
  }
  if (name == "consensus") {
    return analytic::make_consensus(options);
  }
  return analytic::make_front(options);
}

std::vector<double> classical_front_point(ClassicalFront front,
                                          std::span<const double> preference) {
  const std::size_t m = preference.size();
  const bool zdt = front == ClassicalFront::kZdt1 || front == ClassicalFront::kZdt2;
  expects(zdt ? m == 2 : m >= 2, "classical_front_point: ZDT has 2 objectives, DTLZ at least 2");
  expects(std::all_of(preference.begin(), preference.end(), [](double x) { return x > 0.0; }),
          "classical_front_point: preferences must be positive");
  double s1 = 0.0;
  double s2 = 0.0;
  for (const double lambda : preference) {
    s1 += 1.0 / lambda;
    s2 += 1.0 / (lambda * lambda);
  }
  if (front == ClassicalFront::kZdt1) {  // f_2 = 1 - sqrt(f_1)
    const double root = 2.0 * preference[1] /
                        (preference[1] + std::sqrt(preference[1] * preference[1] +
                                                   4.0 * preference[0] * preference[1]));
    return {root * root, 1.0 - root};
  }
  if (front == ClassicalFront::kZdt2) {  // f_2 = 1 - f_1^2
    const double f = 2.0 * preference[1] /
                     (preference[0] + std::sqrt(preference[0] * preference[0] +
                                                4.0 * preference[1] * preference[1]));
    return {f, 1.0 - f * f};
  }
  std::vector<double> f;
  for (const double lambda : preference) {
    f.push_back(front == ClassicalFront::kDtlz1 ? 0.5 / (lambda * s1)
                                                : 1.0 / (lambda * std::sqrt(s2)));
  }
  return f;
}

}  // namespace apo::objective
