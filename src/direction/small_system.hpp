#pragma once

/// @file
/// Inside the room: systems of a few linear equations without heap memory.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>

namespace apo::direction {

/// A x = b by Gaussian elimination with partial pivoting, for at most kCapacity unknowns.
template <std::size_t kCapacity>
class SmallSystem {
 public:
  explicit SmallSystem(std::size_t n) : n_(n) {
    for (std::size_t i = 0; i < n; ++i) {
      std::fill_n(a_[i].begin(), n + 1, 0.0);
    }
  }
  double& at(std::size_t i, std::size_t j) { return a_[i][j]; }
  double& right(std::size_t i) { return a_[i][n_]; }
  [[nodiscard]] double solution(std::size_t i) const { return a_[i][n_]; }

  /// @param smallest_pivot  absolute
  /// @return false when the matrix is singular up to that
  bool solve(double smallest_pivot) {
    for (std::size_t k = 0; k < n_; ++k) {
      std::size_t pivot = k;
      for (std::size_t i = k + 1; i < n_; ++i) {
        pivot = std::abs(a_[i][k]) > std::abs(a_[pivot][k]) ? i : pivot;
      }
      if (std::abs(a_[pivot][k]) <= smallest_pivot) {
        return false;
      }
      std::swap(a_[k], a_[pivot]);
      for (std::size_t i = k + 1; i < n_; ++i) {
        const double factor = a_[i][k] / a_[k][k];
        for (std::size_t j = k; j <= n_ && factor != 0.0; ++j) {
          a_[i][j] -= factor * a_[k][j];
        }
      }
    }
    for (std::size_t k = n_; k-- > 0;) {
      for (std::size_t j = k + 1; j < n_; ++j) {
        a_[k][n_] -= a_[k][j] * a_[j][n_];
      }
      a_[k][n_] /= a_[k][k];
    }
    return true;
  }

 private:
  std::size_t n_;
  std::array<std::array<double, kCapacity + 1>, kCapacity> a_;
};

}  // namespace apo::direction
