#include "theory_algebra.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace apo::federation::theory {
namespace {

template <class A>
double blocked_dot(std::span<const A> a, std::span<const double> b) {
  std::array<double, 8> partial{};
  std::size_t k = 0;
  for (; k + 8 <= a.size(); k += 8) {
    for (std::size_t lane = 0; lane < 8; ++lane) {
      partial[lane] += static_cast<double>(a[k + lane]) * b[k + lane];
    }
  }
  for (; k < a.size(); ++k) {
    partial[0] += static_cast<double>(a[k]) * b[k];
  }
  return ((partial[0] + partial[1]) + (partial[2] + partial[3])) +
         ((partial[4] + partial[5]) + (partial[6] + partial[7]));
}

}  // namespace

double dot(std::span<const double> x, std::span<const double> y) {
  double sum = 0.0;
  for (std::size_t j = 0; j < x.size(); ++j) {
    sum += x[j] * y[j];
  }
  return sum;
}

double norm_of(std::span<const double> x) { return std::sqrt(dot(x, x)); }

double distance(std::span<const double> x, std::span<const double> y) {
  double sum = 0.0;
  for (std::size_t j = 0; j < x.size(); ++j) {
    sum += (x[j] - y[j]) * (x[j] - y[j]);
  }
  return std::sqrt(sum);
}

std::vector<double> times(std::span<const double> matrix, std::span<const double> y) {
  const std::size_t m = y.size();
  std::vector<double> result(m);
  for (std::size_t i = 0; i < m; ++i) {
    result[i] = dot(matrix.subspan(i * m, m), y);
  }
  return result;
}

double quadratic_form(std::span<const double> matrix, std::span<const double> x) {
  const std::vector<double> y = times(matrix, x);
  return std::max(0.0, dot(x, y));
}

std::vector<double> minus(std::span<const double> x, std::span<const double> y) {
  std::vector<double> result(x.begin(), x.end());
  for (std::size_t j = 0; j < result.size(); ++j) {
    result[j] -= y[j];
  }
  return result;
}

double largest_eigenvalue(std::span<const double> matrix, std::size_t m) {
  std::vector<double> a(matrix.begin(), matrix.end());
  for (int sweep = 0; sweep < 60; ++sweep) {
    double off = 0.0;
    double diagonal = 0.0;
    for (std::size_t i = 0; i < m; ++i) {
      diagonal = std::max(diagonal, std::abs(a[i * m + i]));
      for (std::size_t j = i + 1; j < m; ++j) {
        off = std::max(off, std::abs(a[i * m + j]));
      }
    }
    if (off <= 1e-16 * diagonal) {
      break;
    }
    for (std::size_t p = 0; p < m; ++p) {
      for (std::size_t q = p + 1; q < m; ++q) {
        if (a[p * m + q] == 0.0) {
          continue;
        }
        const double theta = 0.5 * (a[q * m + q] - a[p * m + p]) / a[p * m + q];
        const double t = std::copysign(1.0, theta) / (std::abs(theta) + std::hypot(1.0, theta));
        const double c = 1.0 / std::hypot(1.0, t);
        const double s = t * c;
        for (std::size_t k = 0; k < m; ++k) {
          const double x = a[k * m + p];
          const double y = a[k * m + q];
          a[k * m + p] = c * x - s * y;
          a[k * m + q] = s * x + c * y;
        }
        for (std::size_t k = 0; k < m; ++k) {
          const double x = a[p * m + k];
          const double y = a[q * m + k];
          a[p * m + k] = c * x - s * y;
          a[q * m + k] = s * x + c * y;
        }
      }
    }
  }
  double largest = a[0];
  for (std::size_t i = 1; i < m; ++i) {
    largest = std::max(largest, a[i * m + i]);
  }
  return largest;
}

double smaller(double a, double b) { return std::isnan(a) || b < a ? b : a; }
double larger(double a, double b) { return std::isnan(a) || b > a ? b : a; }

double long_dot(std::span<const float> a, std::span<const double> b) { return blocked_dot(a, b); }
double long_dot(std::span<const double> a, std::span<const double> b) { return blocked_dot(a, b); }

}  // namespace apo::federation::theory
