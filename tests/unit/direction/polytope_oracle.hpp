#pragma once

/// @file
/// All vertices of { x >= 0, 1'x = 1, a_r'x >= b_r }, by trying every choice of m - 1 tight
/// constraints, and what they certify. Shares no code with the solvers.

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "lp_oracle.hpp"

namespace apo::direction::test {

using Vector = std::vector<double>;

struct OracleRow {
  Vector a;
  double b = 0.0;
};

inline double dot(const Vector& x, const Vector& y) { return dot(x.data(), y.data(), x.size()); }

/// C y
inline Vector product(const Vector& gram, const Vector& y) {
  Vector result;
  for (std::size_t j = 0; j < y.size(); ++j) {
    result.push_back(dot(&gram[j * y.size()], y.data(), y.size()));
  }
  return result;
}

/// The constrained rows of an LP in the paper's numbers, over max_j C_jj.
inline std::vector<OracleRow> rows_of(const Instance& x, const PaperLp& lp) {
  const std::size_t m = x.loss.size();
  std::vector<OracleRow> rows;
  for (std::size_t j = 0; j < m; ++j) {
    if (std::isfinite(lp.bound[j])) {
      OracleRow row;
      for (std::size_t i = 0; i < m; ++i) {
        row.a.push_back(x.gram[j * m + i] / lp.scale);
      }
      row.b = lp.bound[j] / lp.scale;
      rows.push_back(row);
    }
  }
  return rows;
}

/// Largest violation of the simplex and the rows.
inline double violation(const std::vector<OracleRow>& rows, const Vector& x) {
  double sum = 0.0;
  double worst = 0.0;
  for (const double entry : x) {
    sum += entry;
    worst = std::max(worst, -entry);
  }
  for (const OracleRow& row : rows) {
    worst = std::max(worst, row.b - dot(row.a, x));
  }
  return std::max(worst, std::abs(sum - 1.0));
}

/// The solution of a square system by elimination with full pivoting; empty when it is singular.
inline Vector solve_square(std::vector<Vector> a, Vector b) {
  const std::size_t n = b.size();
  std::vector<std::size_t> column(n);
  for (std::size_t k = 0; k < n; ++k) {
    column[k] = k;
  }
  for (std::size_t k = 0; k < n; ++k) {
    std::size_t row = k;
    std::size_t best = k;
    for (std::size_t i = k; i < n; ++i) {
      for (std::size_t j = k; j < n; ++j) {
        if (std::abs(a[i][j]) > std::abs(a[row][best])) {
          row = i;
          best = j;
        }
      }
    }
    if (std::abs(a[row][best]) < 1e-12) {
      return {};
    }
    std::swap(a[k], a[row]);
    std::swap(b[k], b[row]);
    std::swap(column[k], column[best]);
    for (Vector& r : a) {
      std::swap(r[k], r[best]);
    }
    for (std::size_t i = k + 1; i < n; ++i) {
      const double factor = a[i][k] / a[k][k];
      for (std::size_t j = k; j < n; ++j) {
        a[i][j] -= factor * a[k][j];
      }
      b[i] -= factor * b[k];
    }
  }
  Vector x(n, 0.0);
  for (std::size_t k = n; k-- > 0;) {
    double rest = b[k];
    for (std::size_t j = k + 1; j < n; ++j) {
      rest -= a[k][j] * x[column[j]];
    }
    x[column[k]] = rest / a[k][k];
  }
  return x;
}

inline std::vector<Vector> vertices(std::size_t m, const std::vector<OracleRow>& rows,
                                    double tolerance = 1e-11) {
  std::vector<OracleRow> all = rows;
  for (std::size_t j = 0; j < m; ++j) {
    Vector unit(m, 0.0);
    unit[j] = 1.0;
    all.push_back({unit, 0.0});
  }
  std::vector<Vector> result;
  for (unsigned mask = 0; mask < (1U << all.size()); ++mask) {
    if (static_cast<std::size_t>(__builtin_popcount(mask)) + 1 != m) {
      continue;
    }
    std::vector<Vector> a{Vector(m, 1.0)};
    Vector b{1.0};
    for (std::size_t k = 0; k < all.size(); ++k) {
      if ((mask >> k & 1U) != 0) {
        a.push_back(all[k].a);
        b.push_back(all[k].b);
      }
    }
    const Vector x = solve_square(a, b);
    if (!x.empty() && violation(rows, x) <= tolerance) {
      result.push_back(x);
    }
  }
  return result;
}

/// Those with c'x within `tolerance` of the largest.
inline std::vector<Vector> best_of(const std::vector<Vector>& points, const Vector& c,
                                   double tolerance) {
  double best = -std::numeric_limits<double>::infinity();
  for (const Vector& x : points) {
    best = std::max(best, dot(c, x));
  }
  std::vector<Vector> result;
  for (const Vector& x : points) {
    if (dot(c, x) >= best - tolerance) {
      result.push_back(x);
    }
  }
  return result;
}

/// A of the losses, from its definition.
inline Vector adjustment_of(const Instance& x) {
  const std::size_t m = x.loss.size();
  double z = 0.0;
  for (std::size_t j = 0; j < m; ++j) {
    z += x.preference[j] * x.loss[j];
  }
  double beta = 0.0;
  Vector logs;
  for (std::size_t j = 0; j < m; ++j) {
    const double share = x.preference[j] * x.loss[j] / z;
    logs.push_back(std::log(static_cast<double>(m) * share));
    beta += share * logs.back();
  }
  Vector a;
  for (std::size_t j = 0; j < m; ++j) {
    a.push_back(x.preference[j] * (logs[j] - beta));
  }
  return a;
}

}  // namespace apo::direction::test
