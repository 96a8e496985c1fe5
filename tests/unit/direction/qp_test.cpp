#include <cmath>

#include "aggregator_algebra.hpp"
#include "aggregator_oracle.hpp"
#include "aggregator_qp.hpp"
#include <gtest/gtest.h>

#include "apo/core/error.hpp"

namespace apo::direction {
namespace {

using test::Gradients;
using test::inner;
using test::Kind;
using test::kKinds;
using test::Vector;

/// The gap from its definition, over the size of the program.
double relative_gap(const QuadraticProgram& program, const Vector& x) {
  const std::size_t m = x.size();
  const Vector matrix(program.matrix.begin(), program.matrix.end());
  Vector y = test::times(matrix, x);
  double smallest = std::numeric_limits<double>::infinity();
  double size = 0.0;
  double at_support = 0.0;
  for (std::size_t j = 0; j < m; ++j) {
    y[j] += program.linear[j];
    smallest = std::min(smallest, y[j]);
    at_support = x[j] > 0.0 ? std::max(at_support, std::abs(y[j])) : at_support;
    size = std::max({size, matrix[j * m + j], std::abs(program.linear[j])});
  }
  return (program.on_simplex ? inner(x, y) - smallest : std::max(at_support, -smallest)) / size;
}

void expect_feasible(const Vector& x, bool on_simplex) {
  double sum = 0.0;
  for (const double entry : x) {
    EXPECT_GE(entry, 0.0);
    sum += entry;
  }
  if (on_simplex) {
    EXPECT_NEAR(sum, 1.0, 1e-14);
  }
}

TEST(QuadraticProgram, BothMethodsAreOptimalOnTheSimplex) {
  CounterRng rng({.seed = 31});
  for (int k = 0; k < 1200; ++k) {
    const std::size_t m = 1 + static_cast<std::size_t>(k / 4 % 12);
    // 6 dimensions: from m = 7 on the gradients are dependent.
    const Vector matrix =
        test::gram(test::draw_gradients(rng, m, 6, kKinds[static_cast<std::size_t>(k % 4)]));
    Vector linear(m, 0.0);
    if (k % 3 == 0) {
      linear = test::times(matrix, test::draw_preference(rng, m));
    }
    const QuadraticProgram program{matrix, linear, true};
    const Vector by_sets = solve_by_active_set(program);
    expect_feasible(by_sets, true);
    EXPECT_LE(relative_gap(program, by_sets), 1e-12) << "m=" << m << " k=" << k;
    if (m <= kMaxEnumeratedObjectives) {
      const Vector by_supports = solve_by_supports(program);
      expect_feasible(by_supports, true);
      EXPECT_LE(relative_gap(program, by_supports), 1e-12) << "m=" << m << " k=" << k;
      for (std::size_t j = 0; j < m && m <= 5; ++j) {
        EXPECT_NEAR(by_supports[j], by_sets[j], 1e-8) << "m=" << m << " k=" << k;
      }
    }
  }
}

TEST(QuadraticProgram, BothMethodsAreOptimalOverTheOrthant) {
  CounterRng rng({.seed = 32});
  for (int k = 0; k < 1200; ++k) {
    const std::size_t m = 1 + static_cast<std::size_t>(k / 4 % 12);
    const Vector matrix =
        test::gram(test::draw_gradients(rng, m, 6, kKinds[static_cast<std::size_t>(k % 4)]));
    Vector shift(m);
    for (double& entry : shift) {
      entry = rng.normal();
    }
    const Vector linear = test::times(matrix, shift);  // in the range
    const QuadraticProgram program{matrix, linear, false};
    const Vector by_sets = solve_by_active_set(program);
    expect_feasible(by_sets, false);
    EXPECT_LE(relative_gap(program, by_sets), 1e-11) << "m=" << m << " k=" << k;
    if (m <= kMaxEnumeratedObjectives) {
      const Vector by_supports = solve_by_supports(program);
      expect_feasible(by_supports, false);
      EXPECT_LE(relative_gap(program, by_supports), 1e-11) << "m=" << m << " k=" << k;
    }
  }
}

TEST(QuadraticProgram, AgreesWithPairwiseDescent) {
  CounterRng rng({.seed = 33});
  for (int k = 0; k < 200; ++k) {
    const std::size_t m = 2 + static_cast<std::size_t>(k % 9);
    Vector matrix = test::gram(test::draw_gradients(rng, m, 12, Kind::kConflict));
    for (std::size_t j = 0; j < m; ++j) {
      matrix[j * m + j] += 0.5;  // else the oracle takes its time
    }
    Vector linear(m);
    for (double& entry : linear) {
      entry = rng.normal();
    }
    const Vector expected = test::simplex_oracle(matrix, linear, 1e-13);
    const Vector found = solve({matrix, linear, true});
    for (std::size_t j = 0; j < m; ++j) {
      EXPECT_NEAR(found[j], expected[j], 1e-11) << "m=" << m << " k=" << k;
    }
  }
}

TEST(QuadraticProgram, SmallestNormAmongEquals) {
  // Duplicates share their weight: gradients a, a, a, b with b orthogonal and of the same length.
  for (const bool by_supports : {true, false}) {
    const auto solved = [&](const Vector& matrix, const Vector& linear, bool simplex) {
      const QuadraticProgram program{matrix, linear, simplex};
      return by_supports ? solve_by_supports(program) : solve_by_active_set(program);
    };
    const Vector a_a_a_b{1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1, 0, 0, 0, 0, 1};
    const Vector found = solved(a_a_a_b, Vector(4, 0.0), true);
    for (std::size_t j = 0; j < 3; ++j) {
      EXPECT_NEAR(found[j], 1.0 / 6.0, 1e-12);
    }
    EXPECT_NEAR(found[3], 0.5, 1e-12);

    // Opposite pairs (+-e1, +-e2): every mixture of the two pairs has norm 0; 1/4 each is smallest.
    const Vector crossed{1, -1, 0, 0, -1, 1, 0, 0, 0, 0, 1, -1, 0, 0, -1, 1};
    for (const double entry : solved(crossed, Vector(4, 0.0), true)) {
      EXPECT_NEAR(entry, 0.25, 1e-12);
    }

    // e1, e2 and their midpoint: only the midpoint's direction is optimal, from t(1/2, 1/2, 0) +
    // (1 - t)(0, 0, 1); the norm t^2/2 + (1 - t)^2 is smallest at t = 2/3.
    const Vector midpoint{1, 0, .5, 0, 1, .5, .5, .5, .5};
    const Vector third = solved(midpoint, Vector(3, 0.0), true);
    for (const double entry : third) {
      EXPECT_NEAR(entry, 1.0 / 3.0, 1e-12);
    }

    EXPECT_EQ(solved(Vector(9, 0.0), Vector(3, 0.0), true), Vector(3, 1.0 / 3.0));
    // Over x >= 0: x_1 + x_2 = 1 is optimal for two equal columns.
    const Vector orthant = solved({1, 1, 1, 1}, {-1, -1}, false);
    EXPECT_NEAR(orthant[0], 0.5, 1e-12);
    EXPECT_NEAR(orthant[1], 0.5, 1e-12);
    EXPECT_EQ(solved({1, 0, 0, 1}, {1, 0}, false), (Vector{0, 0}));
  }
}

TEST(QuadraticProgram, FollowsItsObjectives) {
  CounterRng rng({.seed = 34});
  for (int k = 0; k < 200; ++k) {
    const std::size_t m = 3 + static_cast<std::size_t>(k % 8);
    Gradients g = test::draw_gradients(rng, m, 4, Kind::kGeneric);  // dependent: the norm decides
    const std::size_t i = rng.below(m);
    const std::size_t j = rng.below(m);
    const Vector zeros(m, 0.0);
    Vector before = solve({test::gram(g), zeros, true});
    std::swap(g[i], g[j]);
    const Vector after = solve({test::gram(g), zeros, true});
    std::swap(before[i], before[j]);
    for (std::size_t p = 0; p < m; ++p) {
      EXPECT_NEAR(before[p], after[p], 1e-7) << "m=" << m << " k=" << k;
    }
  }
}

TEST(QuadraticProgram, RefusesBadSizes) {
  EXPECT_THROW(static_cast<void>(solve({Vector(3, 1.0), Vector(2, 0.0), true})), Error);
  EXPECT_THROW(static_cast<void>(solve({Vector{}, Vector{}, true})), Error);
  EXPECT_THROW(static_cast<void>(solve_by_supports({Vector(81, 1.0), Vector(9, 0.0), true})),
               Error);
}

TEST(SmallMatrices, EigenDecomposition) {
  CounterRng rng({.seed = 35});
  for (int k = 0; k < 200; ++k) {
    const std::size_t n = 1 + static_cast<std::size_t>(k % 9);
    Vector matrix(n * n);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j <= i; ++j) {
        matrix[i * n + j] = matrix[j * n + i] = rng.normal();
      }
    }
    const SymmetricEigen eigen = symmetric_eigen(matrix, n);
    for (std::size_t a = 0; a < n; ++a) {
      const Vector v(eigen.vectors.begin() + static_cast<std::ptrdiff_t>(a * n),
                     eigen.vectors.begin() + static_cast<std::ptrdiff_t>((a + 1) * n));
      const Vector image = test::times(matrix, v);
      for (std::size_t j = 0; j < n; ++j) {
        EXPECT_NEAR(image[j], eigen.values[a] * v[j], 1e-13);
      }
      EXPECT_NEAR(inner(v, v), 1.0, 1e-14);
      if (a > 0) {
        EXPECT_LE(eigen.values[a - 1], eigen.values[a]);
      }
    }
  }
  // A graded matrix keeps the digits of its small eigenvalue: det = 1e-12 - 1e-14.
  const SymmetricEigen graded = symmetric_eigen(Vector{1, 1e-7, 1e-7, 1e-12}, 2);
  EXPECT_NEAR(graded.values[0] / (0.99e-12 / graded.values[1]), 1.0, 1e-12);
}

TEST(SmallMatrices, PseudoInverseHasSmallestNormAndResidual) {
  // [[1, 1], [1, 1]] x = (3, 1): least squares x_1 + x_2 = 2, smallest norm (1, 1).
  const Vector x = pseudo_solve(Vector{1, 1, 1, 1}, Vector{3, 1});
  EXPECT_NEAR(x[0], 1.0, 1e-14);
  EXPECT_NEAR(x[1], 1.0, 1e-14);
  EXPECT_EQ(pseudo_solve(Vector(4, 0.0), Vector{1, 2}), (Vector{0, 0}));
}

TEST(SmallMatrices, CholeskyRefusesSemidefinite) {
  Vector singular{1, 1, 1, 1};
  EXPECT_FALSE(cholesky(singular, 2));
  Vector zero{0};
  EXPECT_FALSE(cholesky(zero, 1));
  Vector graded{1, 0, 0, 1e-20};  // short gradients are no dependent gradients
  EXPECT_TRUE(cholesky(graded, 2));
  Vector matrix{4, 2, 2, 3};
  ASSERT_TRUE(cholesky(matrix, 2));
  Vector x{8, 7};
  cholesky_solve(matrix, x);
  EXPECT_NEAR(x[0], 1.25, 1e-15);
  EXPECT_NEAR(x[1], 1.5, 1e-15);
}

}  // namespace
}  // namespace apo::direction
