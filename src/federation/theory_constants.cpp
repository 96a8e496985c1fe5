/// @file
/// Constants of algorithms.md 5.3 to 5.5: what the bounds of the theory are made of.

#include <algorithm>
#include <cmath>

#include "theory_algebra.hpp"

#include "apo/core/balance.hpp"
#include "apo/core/error.hpp"
#include "apo/federation/theory_conditions.hpp"

namespace apo::federation {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// An interval [low, high] of positive numbers.
struct Range {
  double low = 0.0;
  double high = 0.0;
};

}  // namespace

double balancing_smoothness(std::span<const double> loss, std::span<const double> preference,
                            double smoothness, double gradient_bound, double radius) {
  const std::size_t m = loss.size();
  const Balance at_w = balance(loss, preference);
  const double reach = gradient_bound * radius + 0.5 * smoothness * radius * radius;
  std::vector<Range> l(m);
  Range z;
  for (std::size_t j = 0; j < m; ++j) {
    l[j] = {loss[j] - reach, loss[j] + reach};
    if (l[j].low <= 0.0) {
      return kInfinity;
    }
    z.low += preference[j] * l[j].low;
    z.high += preference[j] * l[j].high;
  }
  // How far log l_hat_j can move, then beta = sum l_hat log(m l_hat), then A_j.
  double log_move = 0.0;
  double mean_log = 0.0;
  for (std::size_t j = 0; j < m; ++j) {
    log_move = std::max({log_move, std::log(l[j].high / loss[j]), std::log(loss[j] / l[j].low)});
    mean_log += at_w.share[j] * std::abs(std::log(static_cast<double>(m) * at_w.share[j]));
  }
  log_move += std::max(std::log(z.high / at_w.z), std::log(at_w.z / z.low));
  const double beta_move = log_move + std::expm1(log_move) * mean_log;

  double sum_adjustment = 0.0;
  double sum_squares = 0.0;
  for (std::size_t j = 0; j < m; ++j) {
    sum_adjustment += std::abs(at_w.adjustment[j]) + preference[j] * (log_move + beta_move);
  }
  for (std::size_t k = 0; k < m; ++k) {
    // (A_k + lambda_k) / Z lies in `slope`; dA_j/dl_k = lambda_j (delta_jk / l_j - slope).
    const double center = at_w.adjustment[k] + preference[k];
    const double move = preference[k] * (log_move + beta_move);
    const double low = center - move;
    const double high = center + move;
    const Range slope{std::min(low / z.low, low / z.high), std::max(high / z.low, high / z.high)};
    for (std::size_t j = 0; j < m; ++j) {
      const Range inverse = j == k ? Range{1.0 / l[j].high, 1.0 / l[j].low} : Range{};
      const double entry = preference[j] * std::max(std::abs(inverse.high - slope.low),
                                                    std::abs(inverse.low - slope.high));
      sum_squares += entry * entry;
    }
  }
  const double bound = gradient_bound + smoothness * radius;  // of gradients within the radius
  return sum_adjustment * smoothness +
         static_cast<double>(m) * bound * bound * std::sqrt(sum_squares);
}

double adjustment_constant(int m, double c, double largest_loss, double z_min) {
  const double count = m;
  const double log_ratio = std::log(count / c);
  const double phi = log_ratio + std::log(count);
  const double k_squared =
      2.0 * count * count * (1.0 / (c * c) + (log_ratio + 1.0) * (log_ratio + 1.0));
  const double l_z = (1.0 + std::sqrt(count)) * largest_loss / z_min;
  return std::sqrt(2.0 * phi * phi + 2.0 * k_squared * l_z * l_z);
}

double residual_floor(double balancing_rate, double margin_rate, double deviation,
                      double smoothness, double gradient_bound, int local_steps,
                      double learning_rate) {
  const double ratio = balancing_rate / margin_rate;
  return 2.0 * ratio * ratio * deviation * deviation + 2.0 * smoothness * gradient_bound *
                                                           gradient_bound * local_steps *
                                                           learning_rate / margin_rate;
}

DescentFit descent_band(double rate, std::span<const MarginSample> samples, double lambda_max,
                        double gradient_bound, double deviation, double smoothness,
                        double learning_rate) {
  DescentFit fit;
  fit.rate = rate;
  fit.tolerance = 0.0;
  for (const MarginSample& sample : samples) {
    fit.tolerance = std::max(fit.tolerance, rate * sample.gap - sample.margin);
  }
  fit.radius_deviation = lambda_max * gradient_bound * deviation / rate;
  fit.radius_step =
      0.5 * lambda_max * smoothness * gradient_bound * gradient_bound * learning_rate / rate;
  fit.radius_tolerance = fit.tolerance / rate;
  fit.radius = fit.radius_deviation + fit.radius_step + fit.radius_tolerance;
  return fit;
}

DescentFit fit_descent_margin(std::span<const MarginSample> samples, double lambda_max,
                              double gradient_bound, double deviation, double smoothness,
                              double learning_rate) {
  expects(!samples.empty() && learning_rate > 0.0,
          "fit_descent_margin: expected samples and a positive learning rate");
  constexpr int kGrid = 400;  // down to 1e-10 of the largest rate
  constexpr double kPerDecade = 40.0;
  DescentFit best;
  for (int k = 0; k < kGrid; ++k) {
    const double rate = std::pow(10.0, -k / kPerDecade) / learning_rate;
    const DescentFit fit = descent_band(rate, samples, lambda_max, gradient_bound, deviation,
                                        smoothness, learning_rate);
    if (std::isnan(best.radius) || fit.radius < best.radius) {
      best = fit;
    }
  }
  return best;
}

double adaptation_gap_bound(const AdaptationProcess& p) {
  const double limit =
      p.precondition_low / (p.smoothness * p.precondition_high * p.precondition_high);
  expects(p.step > 0.0 && p.step <= limit * (1.0 + 1e-12),
          "adaptation_gap_bound: the step is " + std::to_string(p.step) +
              ", Theorem 3.4 takes steps in (0, " + std::to_string(limit) + "]");
  const double contraction = 1.0 - p.step * p.pl * p.precondition_low;
  return std::pow(contraction, p.steps) * p.start_gap +
         p.smoothness * p.step * p.precondition_high * p.precondition_high * p.noise_variance /
             (2.0 * p.pl * p.precondition_low * p.samples);
}

double temporal_roughness(std::span<const std::vector<double>> trajectory) {
  if (trajectory.size() < 2) {
    return kUndefined;
  }
  double sum = 0.0;
  for (std::size_t t = 1; t < trajectory.size(); ++t) {
    sum += theory::distance(trajectory[t], trajectory[t - 1]);
  }
  return sum / static_cast<double>(trajectory.size() - 1);
}

Sandwich gradient_dissimilarity(std::span<const std::vector<double>> residual) {
  Sandwich result{kUndefined, kUndefined};
  if (residual.empty()) {
    return result;
  }
  result = {};
  for (std::size_t j = 0; j < residual.front().size(); ++j) {
    double first = 0.0;
    double second = 0.0;
    for (const std::vector<double>& r : residual) {
      if (r[j] > first) {
        second = first;
        first = r[j];
      } else {
        second = std::max(second, r[j]);
      }
    }
    result.low = std::max(result.low, first);
    result.high = std::max(result.high, first + second);
  }
  if (residual.size() == 1) {
    result = {};  // one client: no pair
  }
  return result;
}

double diameter(std::span<const std::vector<double>> points) {
  double largest = 0.0;
  if (points.size() <= kMaxExactDiameter) {
    for (std::size_t a = 0; a < points.size(); ++a) {
      for (std::size_t b = a + 1; b < points.size(); ++b) {
        largest = std::max(largest, theory::distance(points[a], points[b]));
      }
    }
    return largest;
  }
  std::vector<double> mean(points.front().size(), 0.0);
  for (const std::vector<double>& point : points) {
    for (std::size_t j = 0; j < mean.size(); ++j) {
      mean[j] += point[j] / static_cast<double>(points.size());
    }
  }
  for (const std::vector<double>& point : points) {
    largest = std::max(largest, theory::distance(point, mean));
  }
  return 2.0 * largest;
}

}  // namespace apo::federation
