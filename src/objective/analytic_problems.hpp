#pragma once

/// @file
/// The problems of algorithms.md section 7, one maker each, and what they share. Makers take
/// options that check_options() has accepted.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "apo/objective/analytic_problem.hpp"

namespace apo::objective::analytic {

inline constexpr int kMaxObjectives = 8;

/// First word of the key of each stream of Purpose::kAnalytic.
enum Use : std::uint64_t { kStart = 0, kShift = 1, kJitter = 2, kData = 3 };

class ProblemBase : public AnalyticProblem {
 public:
  ProblemBase(std::string name, int m, int dimension)
      : name_(std::move(name)), m_(m), dimension_(dimension) {}

  [[nodiscard]] std::string name() const override { return name_; }
  [[nodiscard]] int num_objectives() const override { return m_; }
  [[nodiscard]] int dimension() const override { return dimension_; }

 protected:
  [[nodiscard]] std::size_t m() const { return static_cast<std::size_t>(m_); }
  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(dimension_); }

  /// Point, losses and psi of `x`, which the ray meets or not.
  [[nodiscard]] ParetoPoint point_at(std::vector<double> x, std::span<const double> preference,
                                     bool on_ray) const;

 private:
  std::string name_;
  int m_;
  int dimension_;
};

[[nodiscard]] std::unique_ptr<AnalyticProblem> make_epo2(const AnalyticOptions& options);
[[nodiscard]] std::unique_ptr<AnalyticProblem> make_epo3(const AnalyticOptions& options);
[[nodiscard]] std::unique_ptr<AnalyticProblem> make_quadratic(const AnalyticOptions& options);
[[nodiscard]] std::unique_ptr<AnalyticProblem> make_consensus(const AnalyticOptions& options);
[[nodiscard]] std::unique_ptr<AnalyticProblem> make_simplex(const AnalyticOptions& options);
[[nodiscard]] std::unique_ptr<AnalyticProblem> make_anisotropic(const AnalyticOptions& options);
[[nodiscard]] std::unique_ptr<AnalyticProblem> make_front(const AnalyticOptions& options);
[[nodiscard]] std::unique_ptr<AnalyticProblem> make_flat_stationary(const AnalyticOptions& options);
[[nodiscard]] std::unique_ptr<AnalyticProblem> make_v_shape(const AnalyticOptions& options);

/// T-H with data drawn for one owner of pairs.
/// @param stream   names the draw: (seed, stream)
/// @param num_pairs  observations per objective
/// @param num_judged the last of them, whose mean the objective is
[[nodiscard]] std::unique_ptr<AnalyticProblem> make_dpo_linear(const AnalyticOptions& options,
                                                               std::uint64_t seed,
                                                               std::uint64_t stream, int num_pairs,
                                                               int num_judged);

/// @throws Error(kConfig)  names the key, its value and what is possible
void check_options(const AnalyticOptions& options);

/// b_j: options.offsets, or all options.offset.
[[nodiscard]] std::vector<double> offsets_of(const AnalyticOptions& options);

/// Uniform on the unit sphere. @return [dimension]
[[nodiscard]] std::vector<double> random_direction(std::uint64_t seed, std::uint64_t use,
                                                   std::size_t dimension);

/// All entries equal, of this norm. @return [dimension]
[[nodiscard]] std::vector<double> constant(int dimension, double norm);

/// A start beside the segment from -end to end, at 0.8 of its half length from the axis; in one
/// dimension, where there is no beside, at 1.5 end.
[[nodiscard]] std::vector<double> beside_segment(std::span<const double> end, std::uint64_t seed);

/// Root of a decreasing function with value(low) > 0 > value(high), to adjacent numbers.
template <class Function>
[[nodiscard]] double bisect_decreasing(const Function& value, double low, double high) {
  // 200 halvings end at adjacent numbers unless the root is 0, which they meet to 1e-60.
  for (int step = 0; step < 200; ++step) {
    const double middle = low + 0.5 * (high - low);
    if (middle <= low || middle >= high) {
      break;
    }
    (value(middle) > 0.0 ? low : high) = middle;
  }
  return low;
}

}  // namespace apo::objective::analytic
