#include "aggregator_algebra.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace apo::direction {

namespace {

constexpr double kPivot = 1e-13;  // of the diagonal entry
constexpr int kMaxSweeps = 60;    // Jacobi converges quadratically; 6 to 10 are usual

/// Rotates rows and columns p and q of a, and rows p and q of v, so that a_pq becomes 0.
void rotate(std::vector<double>& a, std::vector<double>& v, std::size_t n, std::size_t p,
            std::size_t q) {
  const double theta = (a[q * n + q] - a[p * n + p]) / (2.0 * a[p * n + q]);
  // The smaller root keeps the angle within 45 degrees, which convergence needs.
  const double t = std::copysign(1.0, theta) / (std::abs(theta) + std::hypot(1.0, theta));
  const double c = 1.0 / std::hypot(1.0, t);
  const double s = t * c;
  const double shift = t * a[p * n + q];
  a[p * n + p] -= shift;
  a[q * n + q] += shift;
  a[p * n + q] = a[q * n + p] = 0.0;
  for (std::size_t k = 0; k < n; ++k) {
    if (k != p && k != q) {
      const double kp = a[k * n + p];
      const double kq = a[k * n + q];
      a[k * n + p] = a[p * n + k] = c * kp - s * kq;
      a[k * n + q] = a[q * n + k] = s * kp + c * kq;
    }
    const double vp = v[p * n + k];
    const double vq = v[q * n + k];
    v[p * n + k] = c * vp - s * vq;
    v[q * n + k] = s * vp + c * vq;
  }
}

}  // namespace

SymmetricEigen symmetric_eigen(std::span<const double> matrix, std::size_t n) {
  std::vector<double> a(matrix.begin(), matrix.end());
  std::vector<double> v(n * n, 0.0);
  for (std::size_t k = 0; k < n; ++k) {
    v[k * n + k] = 1.0;
  }
  constexpr double kEps = std::numeric_limits<double>::epsilon();
  for (int sweep = 0; sweep < kMaxSweeps; ++sweep) {
    bool rotated = false;
    for (std::size_t p = 0; p + 1 < n; ++p) {
      for (std::size_t q = p + 1; q < n; ++q) {
        // Relative to both diagonal entries: small eigenvalues of graded matrices keep their
        // digits. 1e-300 stops at matrices with a zero diagonal that have become diagonal.
        const double bound =
            0.1 * kEps * std::sqrt(std::abs(a[p * n + p])) * std::sqrt(std::abs(a[q * n + q]));
        if (std::abs(a[p * n + q]) > std::max(bound, 1e-300)) {
          rotate(a, v, n, p, q);
          rotated = true;
        }
      }
    }
    if (!rotated) {
      break;
    }
  }
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t i, std::size_t j) { return a[i * n + i] < a[j * n + j]; });
  SymmetricEigen result;
  for (const std::size_t k : order) {
    result.values.push_back(a[k * n + k]);
    result.vectors.insert(result.vectors.end(), v.begin() + static_cast<std::ptrdiff_t>(k * n),
                          v.begin() + static_cast<std::ptrdiff_t>((k + 1) * n));
  }
  return result;
}

double rank_tolerance(const SymmetricEigen& eigen) {
  const double largest = eigen.values.empty() ? 0.0
                                              : std::max(std::abs(eigen.values.front()),
                                                         std::abs(eigen.values.back()));
  return static_cast<double>(eigen.values.size()) * std::numeric_limits<double>::epsilon() *
         largest;
}

std::vector<double> pseudo_solve(std::span<const double> matrix,
                                 std::span<const double> right_side) {
  const std::size_t n = right_side.size();
  const SymmetricEigen eigen = symmetric_eigen(matrix, n);
  const double tolerance = rank_tolerance(eigen);
  std::vector<double> x(n, 0.0);
  for (std::size_t k = 0; k < n; ++k) {
    if (std::abs(eigen.values[k]) > tolerance) {
      const double* vector = &eigen.vectors[k * n];
      const double amount =
          std::inner_product(vector, vector + n, right_side.begin(), 0.0) / eigen.values[k];
      for (std::size_t j = 0; j < n; ++j) {
        x[j] += amount * vector[j];
      }
    }
  }
  return x;
}

bool cholesky(std::span<double> matrix, std::size_t n) {
  for (std::size_t j = 0; j < n; ++j) {
    const double diagonal = matrix[j * n + j];
    for (std::size_t i = j; i < n; ++i) {
      double rest = matrix[i * n + j];
      for (std::size_t k = 0; k < j; ++k) {
        rest -= matrix[i * n + k] * matrix[j * n + k];
      }
      if (i == j) {
        if (!(rest > kPivot * diagonal)) {
          return false;
        }
        matrix[j * n + j] = std::sqrt(rest);
      } else {
        matrix[i * n + j] = rest / matrix[j * n + j];
      }
    }
  }
  return true;
}

void cholesky_solve(std::span<const double> factor, std::span<double> right_side) {
  const std::size_t n = right_side.size();
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      right_side[i] -= factor[i * n + k] * right_side[k];
    }
    right_side[i] /= factor[i * n + i];
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) {
      right_side[i] -= factor[k * n + i] * right_side[k];
    }
    right_side[i] /= factor[i * n + i];
  }
}

std::vector<double> symmetrised(std::span<const double> gram, std::size_t m, double scale) {
  std::vector<double> result(m * m);
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < m; ++j) {
      result[i * m + j] = 0.5 * (gram[i * m + j] / scale + gram[j * m + i] / scale);
    }
    result[i * m + i] = std::max(0.0, result[i * m + i]);
  }
  return result;
}

void make_semidefinite(std::span<double> matrix, std::size_t n) {
  std::vector<double> factor(matrix.begin(), matrix.end());
  if (cholesky(factor, n)) {
    return;
  }
  const SymmetricEigen eigen = symmetric_eigen(matrix, n);
  const double tolerance = rank_tolerance(eigen);
  for (std::size_t k = 0; k < n && eigen.values[k] < -tolerance; ++k) {
    const double* vector = &eigen.vectors[k * n];
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        matrix[i * n + j] -= eigen.values[k] * (vector[i] * vector[j]);
      }
    }
  }
}

std::vector<double> part(std::span<const double> vector, std::span<const std::size_t> positions) {
  std::vector<double> result;
  result.reserve(positions.size());
  for (const std::size_t j : positions) {
    result.push_back(vector[j]);
  }
  return result;
}

std::vector<double> block(std::span<const double> matrix, std::size_t m,
                          std::span<const std::size_t> positions) {
  std::vector<double> result;
  result.reserve(positions.size() * positions.size());
  for (const std::size_t i : positions) {
    for (const std::size_t j : positions) {
      result.push_back(matrix[i * m + j]);
    }
  }
  return result;
}

}  // namespace apo::direction
