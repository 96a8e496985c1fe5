// T-D of algorithms.md section 7: l_j = 1/2 ||x - r e_j||^2 + b.

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "analytic_problems.hpp"

namespace apo::objective::analytic {
namespace {

class Simplex final : public ProblemBase {
 public:
  explicit Simplex(const AnalyticOptions& options)
      : ProblemBase("simplex", options.num_objectives, options.dimension),
        radius_(options.radius),
        offset_(options.offset) {}

  [[nodiscard]] double smoothness() const override { return 1.0; }

  [[nodiscard]] std::vector<double> start(std::uint64_t seed) const override {
    // The sum of the first m coordinates is negative, so it is not in the hull of the centres.
    std::vector<double> x = random_direction(seed, kStart, size());
    for (std::size_t p = 0; p < size(); ++p) {
      x[p] = radius_ * (x[p] - (p < m() ? 1.5 / std::sqrt(static_cast<double>(m())) : 0.0));
    }
    return x;
  }

  [[nodiscard]] double objective(int j, std::span<const double> x,
                                 std::span<double> gradient) const override {
    const auto center = static_cast<std::size_t>(j);
    double sum = 0.0;
    for (std::size_t p = 0; p < x.size(); ++p) {
      const double difference = p == center ? x[p] - radius_ : x[p];
      sum += difference * difference;
      if (!gradient.empty()) {
        gradient[p] = difference;
      }
    }
    return 0.5 * sum + offset_;
  }

  [[nodiscard]] ParetoPoint pareto_point(std::span<const double> preference) const override {
    // The optimum of the active set S is a lower bound, so a set that violates nothing is the
    // answer. On the border between two sets rounding may leave neither clean: the cleaner one.
    Candidate best;
    for (unsigned set = 1; set < (1U << m()); ++set) {
      const Candidate candidate = solve(preference, set);
      if (candidate.violation < best.violation ||
          (candidate.violation == best.violation && candidate.psi < best.psi)) {
        best = candidate;
      }
    }
    std::vector<double> x(size(), 0.0);
    for (std::size_t j = 0; j < m(); ++j) {
      x[j] = (best.active >> j & 1U) != 0 ? std::max(0.0, coordinate(best, preference[j])) : 0.0;
    }
    const bool all = static_cast<std::size_t>(std::popcount(best.active)) == m();
    return point_at(std::move(x), preference, all);
  }

 private:
  struct Candidate {
    unsigned active = 0;  ///< S as bits
    double psi = std::numeric_limits<double>::infinity();
    double q = 0.0;                                              ///< ||x||^2 + r^2
    double violation = std::numeric_limits<double>::infinity();  ///< 0: the optimum
  };

  [[nodiscard]] double coordinate(const Candidate& candidate, double lambda) const {
    return (candidate.q - 2.0 * (candidate.psi / lambda - offset_)) / (2.0 * radius_);
  }

  [[nodiscard]] Candidate solve(std::span<const double> preference, unsigned active) const {
    Candidate result;
    result.active = active;
    const auto k = static_cast<double>(std::popcount(active));
    const double r2 = radius_ * radius_;
    double s1 = 0.0;
    for (std::size_t j = 0; j < m(); ++j) {
      s1 += (active >> j & 1U) != 0 ? 1.0 / preference[j] : 0.0;
    }
    double spread = 0.0;  // V, in two passes
    for (std::size_t j = 0; j < m(); ++j) {
      const double from_mean = 1.0 / preference[j] - s1 / k;
      spread += (active >> j & 1U) != 0 ? from_mean * from_mean : 0.0;
    }
    const double p = r2 * s1 / k;
    const double c = r2 * r2 * (1.0 - 1.0 / k) + 2.0 * r2 * offset_;
    const double discriminant = p * p - spread * c;
    if (discriminant < 0.0) {
      return result;
    }
    result.psi = c / (p + std::sqrt(discriminant));
    result.q = (2.0 * r2 + 2.0 * (result.psi * s1 - k * offset_)) / k;
    result.violation = 0.0;
    for (std::size_t j = 0; j < m(); ++j) {
      if ((active >> j & 1U) != 0) {
        result.violation = std::max(result.violation, -coordinate(result, preference[j]) / radius_);
      } else if (result.psi > 0.0) {
        const double weighted = preference[j] * (0.5 * result.q + offset_);
        result.violation = std::max(result.violation, weighted / result.psi - 1.0);
      } else {  // offset 0 and a single active objective: psi = 0 needs all other losses to vanish
        result.violation = std::numeric_limits<double>::infinity();
      }
    }
    return result;
  }

  double radius_;
  double offset_;
};

}  // namespace

std::unique_ptr<AnalyticProblem> make_simplex(const AnalyticOptions& options) {
  return std::make_unique<Simplex>(options);
}

}  // namespace apo::objective::analytic
