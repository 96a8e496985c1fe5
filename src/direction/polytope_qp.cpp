#include "polytope_qp.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "small_system.hpp"

#include "apo/core/error.hpp"

namespace apo::direction {

namespace {

constexpr double kPivot = 1e-12;      // rows and objective are scaled to 1
constexpr double kPrecise = 1e-12;    // violation of a candidate that needs no rival
constexpr double kOptimal = 1e-11;    // violation up to which rivals count as optimal too
constexpr double kAcceptable = 1e-9;  // violation of the best candidate
constexpr double kSameEntry = 1e-9;   // of the lexicographic order

/// Unknowns: the free columns and the multipliers of the simplex and the tight rows.
using System = SmallSystem<2 * kMaxQpColumns + 1>;

class Enumerator {
 public:
  Enumerator(std::span<const double> hessian, std::span<const double> linear,
             std::span<const LpRow> rows, const std::vector<bool>& absent)
      : m_(linear.size()), rows_(rows) {
    double largest = 0.0;
    for (std::size_t j = 0; j < m_; ++j) {
      if (absent.empty() || !absent[j]) {
        columns_.push_back(j);
        largest = std::max({largest, std::abs(linear[j]), std::abs(hessian[j * m_ + j])});
      }
    }
    const double scale = largest > 0.0 ? 1.0 / largest : 1.0;
    for (const double h : hessian) {
      hessian_.push_back(h * scale);
    }
    for (const double c : linear) {
      linear_.push_back(c * scale);
    }
    for (std::size_t r = 0; r < rows.size(); ++r) {
      if (rows[r].kind == LpRowKind::kAtLeast) {
        inequalities_.push_back(r);
      } else if (rows[r].kind == LpRowKind::kEqual && independent(r)) {
        equalities_.push_back(r);
      }
    }
  }

  std::optional<QpPoint> run(const QpPoint* start) {
    const std::size_t bits = columns_.size() + inequalities_.size();
    const std::size_t fixed = 1 + equalities_.size();
    if (columns_.size() < fixed) {
      return std::nullopt;
    }
    const bool unique = try_active(0).has_value();
    if (unique && start != nullptr && walk(*start)) {
      return best_;
    }
    for (std::size_t size = 0; size <= columns_.size() - fixed; ++size) {
      // Gosper's hack: all masks of `size` bits in increasing order
      for (std::uint32_t mask = (1U << size) - 1; mask < (1U << bits);) {
        if (const auto violation = try_active(mask)) {
          consider(*violation, unique);
        }
        if (unique && best_violation_ <= kPrecise) {
          return best_;
        }
        if (mask == 0) {
          break;
        }
        const std::uint32_t low = mask & (~mask + 1U);
        const std::uint32_t carried = mask + low;
        mask = carried | (((mask ^ carried) >> 2U) / low);
      }
    }
    return best_violation_ <= kAcceptable ? std::optional(best_) : std::nullopt;
  }

 private:
  /// Whether row r, with 1' and the equalities so far, is linearly independent on the columns.
  bool independent(std::size_t r) {
    std::vector<double> v;
    for (const std::size_t j : columns_) {
      v.push_back(rows_[r].coefficients[j]);
    }
    if (basis_.empty()) {
      basis_.emplace_back(columns_.size(), 1.0 / std::sqrt(static_cast<double>(columns_.size())));
    }
    for (int pass = 0; pass < 2; ++pass) {  // Gram-Schmidt, twice for accuracy
      for (const auto& q : basis_) {
        double c = 0.0;
        for (std::size_t k = 0; k < v.size(); ++k) {
          c += q[k] * v[k];
        }
        for (std::size_t k = 0; k < v.size(); ++k) {
          v[k] -= c * q[k];
        }
      }
    }
    double norm = 0.0;
    for (const double x : v) {
      norm += x * x;
    }
    norm = std::sqrt(norm);
    if (!(norm > 1e-9)) {
      return false;
    }
    for (double& x : v) {
      x /= norm;
    }
    basis_.push_back(std::move(v));
    return true;
  }

  /// Primal active-set method from a vertex: towards the minimiser on the tight constraints until
  /// another one blocks; there, drop the one whose multiplier is most negative. Short, but without
  /// a guarantee on degenerate polytopes: true when it ends at a point that passes the test, which
  /// is right however it was found.
  bool walk(const QpPoint& start) {
    std::uint32_t mask = 0;
    for (std::size_t k = 0; k < columns_.size(); ++k) {
      mask |= start.column_active[columns_[k]] ? 1U << k : 0U;
    }
    for (std::size_t k = 0; k < inequalities_.size(); ++k) {
      mask |= start.row_active[inequalities_[k]] ? 1U << (columns_.size() + k) : 0U;
    }
    std::vector<double> x = start.x;
    for (std::size_t step = 0; step < 8 * kMaxQpColumns; ++step) {
      const auto violation = try_active(mask);
      if (!violation) {
        return false;
      }
      if (*violation <= kPrecise) {
        consider(*violation, true);
        return true;
      }
      const auto [fraction, bit] = first_block(mask, x);
      for (std::size_t j = 0; j < m_; ++j) {
        x[j] += fraction * (point_[j] - x[j]);
      }
      if (fraction < 1.0) {
        mask |= 1U << bit;
      } else {
        mask &= ~(1U << most_negative_);
      }
    }
    return false;
  }

  struct Block {
    double fraction;  // of the way from x to point_; 1: nothing blocks
    std::size_t bit;
  };
  [[nodiscard]] Block first_block(std::uint32_t mask, const std::vector<double>& x) const {
    Block block{1.0, 0};
    for (std::size_t bit = 0; bit < columns_.size() + inequalities_.size(); ++bit) {
      if ((mask >> bit & 1U) != 0) {
        continue;
      }
      const double here = slack(bit, x);
      const double there = slack(bit, point_);
      if (there < -kPrecise && here < block.fraction * (here - there)) {
        block = {std::max(0.0, here) / (std::max(0.0, here) - there), bit};
      }
    }
    return block;
  }

  /// x_j, or a_r'x - b_r.
  [[nodiscard]] double slack(std::size_t bit, const std::vector<double>& x) const {
    if (bit < columns_.size()) {
      return x[columns_[bit]];
    }
    const LpRow& row = rows_[inequalities_[bit - columns_.size()]];
    double result = -row.bound;
    for (std::size_t j = 0; j < m_; ++j) {
      result += row.coefficients[j] * x[j];
    }
    return result;
  }

  /// Solves with the constraints of the mask active: bits of the columns first, then of the
  /// inequality rows. Leaves x in point_; returns the largest violation of the optimality
  /// conditions, or nothing when the system is singular.
  std::optional<double> try_active(std::uint32_t mask) {
    free_.clear();
    tight_ = equalities_;
    for (std::size_t k = 0; k < columns_.size(); ++k) {
      if ((mask >> k & 1U) == 0) {
        free_.push_back(columns_[k]);
      }
    }
    for (std::size_t k = 0; k < inequalities_.size(); ++k) {
      if ((mask >> (columns_.size() + k) & 1U) != 0) {
        tight_.push_back(inequalities_[k]);
      }
    }
    const std::size_t n = free_.size();
    if (n < 1 + tight_.size()) {
      return std::nullopt;
    }
    // H x - 1 nu - sum_r a_r y_r = c on the free columns, 1'x = 1, a_r'x = b_r
    System system(n + 1 + tight_.size());
    for (std::size_t a = 0; a < n; ++a) {
      for (std::size_t b = 0; b < n; ++b) {
        system.at(a, b) = hessian_[free_[a] * m_ + free_[b]];
      }
      system.at(a, n) = -1.0;
      system.at(n, a) = 1.0;
      system.right(a) = linear_[free_[a]];
      for (std::size_t r = 0; r < tight_.size(); ++r) {
        const double coefficient = rows_[tight_[r]].coefficients[free_[a]];
        system.at(a, n + 1 + r) = -coefficient;
        system.at(n + 1 + r, a) = coefficient;
      }
    }
    system.right(n) = 1.0;
    for (std::size_t r = 0; r < tight_.size(); ++r) {
      system.right(n + 1 + r) = rows_[tight_[r]].bound;
    }
    if (!system.solve(kPivot)) {
      return std::nullopt;
    }
    return violation(mask, system);
  }

  /// The largest violation; the active constraint whose multiplier is most negative becomes
  /// most_negative_.
  double violation(std::uint32_t mask, const System& system) {
    const std::size_t n = free_.size();
    point_.assign(m_, 0.0);
    for (std::size_t a = 0; a < n; ++a) {
      point_[free_[a]] = system.solution(a);
    }
    double outside = 0.0;
    double negative = 0.0;
    std::size_t tight = equalities_.size();  // position of the inequality's multiplier
    for (std::size_t bit = 0; bit < columns_.size() + inequalities_.size(); ++bit) {
      if ((mask >> bit & 1U) == 0) {
        outside = std::max(outside, -slack(bit, point_));
        continue;
      }
      double multiplier = 0.0;
      if (bit < columns_.size()) {
        const std::size_t j = columns_[bit];
        multiplier = -linear_[j] - system.solution(n);
        for (std::size_t i = 0; i < m_; ++i) {
          multiplier += hessian_[j * m_ + i] * point_[i];
        }
        for (std::size_t r = 0; r < tight_.size(); ++r) {
          multiplier -= rows_[tight_[r]].coefficients[j] * system.solution(n + 1 + r);
        }
      } else {
        multiplier = system.solution(n + 1 + tight++);
      }
      if (-multiplier > negative) {
        negative = -multiplier;
        most_negative_ = bit;
      }
    }
    return std::max(outside, negative);
  }

  [[nodiscard]] bool lexicographically_larger() const {
    for (std::size_t j = 0; j < m_; ++j) {
      if (std::abs(point_[j] - best_.x[j]) > kSameEntry) {
        return point_[j] > best_.x[j];
      }
    }
    return false;
  }

  void consider(double violation, bool unique) {
    const bool rivals = !unique && violation <= kOptimal && best_violation_ <= kOptimal;
    if (rivals ? !lexicographically_larger() : !(violation < best_violation_)) {
      return;
    }
    best_violation_ = rivals ? std::max(violation, best_violation_) : violation;
    best_.x = point_;
    best_.column_active.assign(m_, true);
    for (const std::size_t j : free_) {
      best_.column_active[j] = false;
    }
    best_.row_active.assign(rows_.size(), false);
    for (const std::size_t r : tight_) {
      best_.row_active[r] = true;
    }
  }

  std::size_t m_;
  std::span<const LpRow> rows_;
  std::vector<double> hessian_;
  std::vector<double> linear_;
  std::vector<std::size_t> columns_;       // that may be positive
  std::vector<std::size_t> inequalities_;  // rows
  std::vector<std::size_t> equalities_;    // rows, linearly independent
  std::vector<std::vector<double>> basis_;
  std::vector<std::size_t> free_;
  std::vector<std::size_t> tight_;
  std::vector<double> point_;
  std::size_t most_negative_ = 0;
  QpPoint best_;
  double best_violation_ = std::numeric_limits<double>::infinity();
};

}  // namespace

std::optional<QpPoint> minimise_on_polytope(std::span<const double> hessian,
                                            std::span<const double> linear,
                                            std::span<const LpRow> rows,
                                            const std::vector<bool>& absent, const QpPoint* start) {
  const std::size_t m = linear.size();
  expects(m >= 1 && m <= kMaxQpColumns && rows.size() <= kMaxQpColumns + 1,
          "quadratic program: expected 1 to 8 objectives, found " + std::to_string(m));
  expects(hessian.size() == m * m && (absent.empty() || absent.size() == m),
          "quadratic program: sizes disagree");
  return Enumerator(hessian, linear, rows, absent).run(start);
}

}  // namespace apo::direction
