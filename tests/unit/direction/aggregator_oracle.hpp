#pragma once

/// @file
/// Random gradients and slow, simple solvers to compare the room's quadratic programs and
/// aggregators with. Shares no code with them: everything here sees the gradients themselves.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <vector>

#include "apo/core/rng.hpp"

namespace apo::direction::test {

using Vector = std::vector<double>;
using Gradients = std::vector<Vector>;  // [m][d]

inline double inner(const Vector& x, const Vector& y) {
  return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
}

inline double norm(const Vector& x) { return std::sqrt(inner(x, x)); }

inline Vector combination(const Gradients& g, const Vector& weight) {
  Vector d(g.front().size(), 0.0);
  for (std::size_t j = 0; j < g.size(); ++j) {
    for (std::size_t p = 0; p < d.size(); ++p) {
      d[p] += weight[j] * g[j][p];
    }
  }
  return d;
}

inline Vector gram(const Gradients& g, double scale = 1.0) {
  Vector result;
  for (const Vector& x : g) {
    for (const Vector& y : g) {
      result.push_back(scale * inner(x, y));
    }
  }
  return result;
}

inline Vector times(const Vector& matrix, const Vector& x) {
  Vector y(x.size(), 0.0);
  for (std::size_t i = 0; i < x.size(); ++i) {
    for (std::size_t j = 0; j < x.size(); ++j) {
      y[i] += matrix[i * x.size() + j] * x[j];
    }
  }
  return y;
}

/// kConflict: several angles above 90 degrees; kLengths: norms from 1e-3 to 1e3.
enum class Kind { kGeneric, kCommon, kConflict, kLengths };
inline constexpr std::array<Kind, 4> kKinds{Kind::kGeneric, Kind::kCommon, Kind::kConflict,
                                            Kind::kLengths};

inline Gradients draw_gradients(CounterRng& rng, std::size_t m, std::size_t dimension, Kind kind) {
  Gradients g(m, Vector(dimension));
  Vector common(dimension);
  for (double& x : common) {
    x = rng.normal();
  }
  for (std::size_t j = 0; j < m; ++j) {
    const double length = kind == Kind::kLengths ? std::pow(10.0, 6.0 * rng.uniform() - 3.0) : 1.0;
    const double shared = kind == Kind::kCommon     ? 1.5
                          : kind == Kind::kConflict ? (j % 2 == 0 ? 1.0 : -1.0)
                                                    : 0.0;
    for (std::size_t p = 0; p < dimension; ++p) {
      g[j][p] = length * (rng.normal() + shared * common[p]);
    }
  }
  return g;
}

inline Vector draw_preference(CounterRng& rng, std::size_t m) {
  Vector p = rng.dirichlet(Vector(m, 1.0));
  double sum = 0.0;
  for (double& x : p) {
    x += 0.02;
    sum += x;
  }
  for (double& x : p) {
    x /= sum;
  }
  return p;
}

/// min 1/2 x'Qx + q'x on the simplex: exact steps along the pair of coordinates that violates the
/// optimality conditions most, until the gap is below `gap`.
inline Vector simplex_oracle(const Vector& matrix, const Vector& linear, double gap) {
  const std::size_t m = linear.size();
  Vector x(m, 1.0 / static_cast<double>(m));
  for (int step = 0; step < 2000000; ++step) {
    Vector y = times(matrix, x);
    std::size_t down = 0;
    std::size_t up = m;
    for (std::size_t j = 0; j < m; ++j) {
      y[j] += linear[j];
      down = y[j] < y[down] ? j : down;
    }
    for (std::size_t j = 0; j < m; ++j) {
      up = x[j] > 0.0 && (up == m || y[j] > y[up]) ? j : up;
    }
    if (y[up] - y[down] <= gap) {
      break;
    }
    const double curvature =
        matrix[up * m + up] + matrix[down * m + down] - 2.0 * matrix[up * m + down];
    const double wanted =
        curvature > 0.0 ? (y[up] - y[down]) / curvature : std::numeric_limits<double>::infinity();
    const double moved = std::min(x[up], wanted);
    x[up] -= moved;
    x[down] += moved;
  }
  return x;
}

/// Projection of g onto the dual cone { d : a_j'd >= 0 for all j } by Dykstra's alternating
/// projections onto the half-spaces.
inline Vector dual_cone_projection(const Gradients& a, Vector g) {
  std::vector<double> multiplier(a.size(), 0.0);
  for (int sweep = 0; sweep < 200000; ++sweep) {
    double change = 0.0;
    for (std::size_t j = 0; j < a.size(); ++j) {
      const double squared = inner(a[j], a[j]);
      const double next = std::max(0.0, multiplier[j] - inner(a[j], g) / squared);
      for (std::size_t p = 0; p < g.size(); ++p) {
        g[p] += (next - multiplier[j]) * a[j][p];
      }
      change = std::max(change, std::abs(next - multiplier[j]) * std::sqrt(squared));
      multiplier[j] = next;
    }
    if (change <= 1e-15 * norm(g)) {
      break;
    }
  }
  return g;
}

}  // namespace apo::direction::test
