#include "analytic_linear_algebra.hpp"

#include <cmath>
#include <limits>
#include <utility>

namespace apo::objective::analytic {

bool solve_dense(std::span<double> matrix, std::span<double> right) {
  const std::size_t n = right.size();
  for (std::size_t k = 0; k < n; ++k) {
    std::size_t pivot = k;
    for (std::size_t i = k + 1; i < n; ++i) {
      pivot = std::abs(matrix[i * n + k]) > std::abs(matrix[pivot * n + k]) ? i : pivot;
    }
    if (!(std::abs(matrix[pivot * n + k]) > std::numeric_limits<double>::min())) {
      return false;
    }
    for (std::size_t j = k; j < n && pivot != k; ++j) {
      std::swap(matrix[k * n + j], matrix[pivot * n + j]);
    }
    std::swap(right[k], right[pivot]);
    for (std::size_t i = k + 1; i < n; ++i) {
      const double factor = matrix[i * n + k] / matrix[k * n + k];
      for (std::size_t j = k + 1; j < n; ++j) {
        matrix[i * n + j] -= factor * matrix[k * n + j];
      }
      right[i] -= factor * right[k];
    }
  }
  for (std::size_t k = n; k-- > 0;) {
    for (std::size_t j = k + 1; j < n; ++j) {
      right[k] -= matrix[k * n + j] * right[j];
    }
    right[k] /= matrix[k * n + k];
  }
  return true;
}

Eigen symmetric_eigen(std::vector<double> a, std::size_t n) {
  Eigen result;
  result.vectors.assign(n * n, 0.0);
  for (std::size_t k = 0; k < n; ++k) {
    result.vectors[k * n + k] = 1.0;
  }
  for (int sweep = 0; sweep < 60; ++sweep) {
    double off_diagonal = 0.0;
    double diagonal = 0.0;
    for (std::size_t p = 0; p < n; ++p) {
      diagonal += a[p * n + p] * a[p * n + p];
      for (std::size_t q = p + 1; q < n; ++q) {
        off_diagonal += a[p * n + q] * a[p * n + q];
      }
    }
    if (off_diagonal <= 1e-40 * diagonal) {
      break;
    }
    for (std::size_t p = 0; p < n; ++p) {
      for (std::size_t q = p + 1; q < n; ++q) {
        if (a[p * n + q] == 0.0) {
          continue;
        }
        // Rotation by the smaller angle that annihilates a_pq (Golub and Van Loan, section 8.5).
        const double theta = (a[q * n + q] - a[p * n + p]) / (2.0 * a[p * n + q]);
        const double t = std::copysign(1.0, theta) / (std::abs(theta) + std::hypot(1.0, theta));
        const double c = 1.0 / std::hypot(1.0, t);
        const double s = t * c;
        for (std::size_t k = 0; k < n; ++k) {
          const double left = a[k * n + p];
          const double right = a[k * n + q];
          a[k * n + p] = c * left - s * right;
          a[k * n + q] = s * left + c * right;
        }
        for (std::size_t k = 0; k < n; ++k) {
          const double upper = a[p * n + k];
          const double lower = a[q * n + k];
          a[p * n + k] = c * upper - s * lower;
          a[q * n + k] = s * upper + c * lower;
          const double left = result.vectors[k * n + p];
          const double right = result.vectors[k * n + q];
          result.vectors[k * n + p] = c * left - s * right;
          result.vectors[k * n + q] = s * left + c * right;
        }
      }
    }
  }
  for (std::size_t k = 0; k < n; ++k) {
    result.values.push_back(a[k * n + k]);
  }
  return result;
}

}  // namespace apo::objective::analytic
