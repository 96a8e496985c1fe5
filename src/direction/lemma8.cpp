#include "apo/direction/lemma8.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "apo/core/error.hpp"

namespace apo::direction {

namespace {

double squared_distance(std::span<const double> x, std::span<const double> y) {
  double sum = 0.0;
  for (std::size_t j = 0; j < x.size(); ++j) {
    sum += (x[j] - y[j]) * (x[j] - y[j]);
  }
  return sum;
}

/// ||(C_a - C_b) mu||
double moved(std::span<const double> gram_a, std::span<const double> gram_b,
             std::span<const double> mu) {
  const std::size_t m = mu.size();
  double squared = 0.0;
  for (std::size_t i = 0; i < m; ++i) {
    double row = 0.0;
    for (std::size_t j = 0; j < m; ++j) {
      row += (gram_a[i * m + j] - gram_b[i * m + j]) * mu[j];
    }
    squared += row * row;
  }
  return std::sqrt(squared);
}

double ratio(double distance, double bound) {
  if (bound == 0.0) {
    return distance == 0.0 ? 0.0 : std::numeric_limits<double>::infinity();
  }
  return distance / bound;
}

bool all_finite(std::span<const double> values) {
  return std::all_of(values.begin(), values.end(), [](double x) { return std::isfinite(x); });
}

}  // namespace

Lemma8Ratios lemma8_ratios(std::span<const double> gram_a, std::span<const double> gram_b,
                           std::span<const double> mu_a, std::span<const double> mu_b,
                           double gradient_distance, double gradient_bound, double modulus) {
  const std::size_t m = mu_a.size();
  expects(m > 0 && mu_b.size() == m && gram_a.size() == m * m && gram_b.size() == m * m,
          "lemma8_ratios: expected two multiplier vectors of one size m > 0 and two Gram matrices "
          "of m * m numbers, found " +
              std::to_string(m) + ", " + std::to_string(mu_b.size()) + ", " +
              std::to_string(gram_a.size()) + " and " + std::to_string(gram_b.size()));
  expects(all_finite(gram_a) && all_finite(gram_b), "lemma8_ratios: a Gram matrix is not finite");
  expects(all_finite(mu_a) && all_finite(mu_b), "lemma8_ratios: a multiplier is not finite");
  expects(std::isfinite(modulus) && modulus > 0.0,
          "lemma8_ratios: expected a modulus above 0, found " + std::to_string(modulus));
  // NaN, unknown, passes both comparisons.
  expects(!(gradient_distance < 0.0) && !(gradient_bound < 0.0),
          "lemma8_ratios: the distance and the bound of the gradients may not be negative");

  Lemma8Ratios result;
  result.distance = std::sqrt(squared_distance(mu_a, mu_b));
  const auto objectives = static_cast<double>(m);
  const double reach = 4.0 * gradient_bound * gradient_distance / modulus;
  result.paper = ratio(result.distance, objectives * reach);
  result.root = ratio(result.distance, std::sqrt(objectives) * reach);
  const double change = std::min(moved(gram_a, gram_b, mu_a), moved(gram_a, gram_b, mu_b));
  result.gram = ratio(result.distance, 2.0 / modulus * change);
  return result;
}

double firm_modulus(std::span<const double> regulariser) {
  expects(!regulariser.empty(), "firm_modulus: no objectives");
  return 2.0 * *std::min_element(regulariser.begin(), regulariser.end());
}

}  // namespace apo::direction
