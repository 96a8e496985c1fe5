#include "active_set.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace apo::direction {

namespace {

constexpr double kOrthogonal = 1e-13;  // cosine of two rows; bounds the values' relative error

/// Finaliser of splitmix64: every bit of the input reaches every bit of the result.
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31U);
}

class Hash {
 public:
  void add(std::uint64_t word) { state_ = mix(state_ + 0x9e3779b97f4a7c15ULL + mix(word)); }
  void add(const std::vector<bool>& bits) {
    add(bits.size());
    std::uint64_t word = 0;
    for (std::size_t k = 0; k < bits.size(); ++k) {
      word |= static_cast<std::uint64_t>(bits[k]) << (k % 64);
      if (k % 64 == 63 || k + 1 == bits.size()) {
        add(word);
        word = 0;
      }
    }
  }
  [[nodiscard]] std::uint64_t value() const { return state_ == 0 ? 1 : state_; }

 private:
  std::uint64_t state_ = 0;
};

double squared(const double* x, std::size_t n) {
  double sum = 0.0;
  for (std::size_t k = 0; k < n; ++k) {
    sum += x[k] * x[k];
  }
  return sum;
}

/// Rotates rows p and q, of squared lengths a and b, until they are orthogonal; false when they
/// already were.
bool rotate(double* p, double* q, double& a, double& b, std::size_t n) {
  double c = 0.0;
  for (std::size_t k = 0; k < n; ++k) {
    c += p[k] * q[k];
  }
  if (c * c <= kOrthogonal * kOrthogonal * a * b) {
    return false;
  }
  const double zeta = (b - a) / (2.0 * c);
  const double t = (zeta >= 0.0 ? 1.0 : -1.0) / (std::abs(zeta) + std::sqrt(1.0 + zeta * zeta));
  const double cosine = 1.0 / std::sqrt(1.0 + t * t);
  const double sine = cosine * t;
  for (std::size_t k = 0; k < n; ++k) {
    const double x = p[k];
    p[k] = cosine * x - sine * q[k];
    q[k] = sine * x + cosine * q[k];
  }
  a = squared(p, n);
  b = squared(q, n);
  return true;
}

}  // namespace

SingularRange singular_range(std::vector<double>& rows, std::size_t n) {
  constexpr int kMaxSweeps = 40;  // converges quadratically; 6 to 8 are usual
  std::vector<double> lengths(n);
  for (std::size_t p = 0; p < n; ++p) {
    lengths[p] = squared(&rows[p * n], n);
  }
  // Pairs in the order of a round-robin tournament: the rotations of one round touch different
  // rows, so the processor overlaps their square roots.
  const std::size_t players = n + n % 2;
  bool turned = true;
  for (int sweep = 0; sweep < kMaxSweeps && turned; ++sweep) {
    turned = false;
    for (std::size_t round = 0; round + 1 < players; ++round) {
      for (std::size_t k = 0; k < players / 2; ++k) {
        const std::size_t p = k == 0 ? players - 1 : (round + k) % (players - 1);
        const std::size_t q = (round + players - 1 - k) % (players - 1);
        if (p < n && q < n) {
          turned = rotate(&rows[p * n], &rows[q * n], lengths[p], lengths[q], n) || turned;
        }
      }
    }
  }
  SingularRange range{std::numeric_limits<double>::infinity(), 0.0};
  for (std::size_t p = 0; p < n; ++p) {
    const double value = std::sqrt(lengths[p]);
    range.smallest = std::min(range.smallest, value);
    range.largest = std::max(range.largest, value);
  }
  return range;
}

ActiveSet active_set(const LpVertex& vertex) {
  ActiveSet active;
  active.column = vertex.column_active;
  active.row.assign(vertex.row_active.begin(), vertex.row_active.end() - 1);
  active.simplex = vertex.row_active.back();
  return active;
}

std::uint64_t basis_id(const ScaledLp& lp, const std::vector<bool>& aligned,
                       const ActiveSet& active) {
  Hash hash;
  hash.add(static_cast<std::uint64_t>(lp.mode) + (active.simplex ? 16U : 0U));
  if (lp.mode == Mode::kBalancing) {
    hash.add(aligned);
    hash.add(lp.bottleneck);
  }
  hash.add(active.column);
  hash.add(active.row);
  return hash.value();
}

double kappa_lp(const ScaledLp& lp, const ScaledGram& gram, const ActiveSet& active) {
  const std::size_t m = active.column.size();
  std::vector<double> rows;
  rows.reserve(m * m);
  if (active.simplex) {
    rows.assign(m, 1.0);
  }
  for (std::size_t j = 0; j < m; ++j) {
    if (active.column[j]) {
      rows.resize(rows.size() + m, 0.0);
      rows[rows.size() - m + j] = 1.0;
    }
  }
  for (std::size_t r = 0; r < active.row.size(); ++r) {
    if (active.row[r]) {
      for (const double c : lp.row(r)) {
        rows.push_back(c / lp.row_scale[r]);
      }
    }
  }
  if (rows.size() != m * m) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  const double smallest = singular_range(rows, m).smallest;
  rows = gram.gram;
  return singular_range(rows, m).largest / smallest;  // a singular basis: infinity
}

}  // namespace apo::direction
