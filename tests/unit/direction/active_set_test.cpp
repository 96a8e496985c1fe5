#include "active_set.hpp"

#include <cmath>
#include <limits>
#include <map>

#include "polytope_oracle.hpp"
#include <gtest/gtest.h>

#include "apo/direction/direction_solver.hpp"

namespace apo::direction {
namespace {

using test::Vector;

DirectionOptions oracle_options() {
  DirectionOptions options;
  options.beta_tolerance = 1e-10;
  options.ascent_tolerance = 1e-12;
  return options;
}

SingularRange range(Vector rows, std::size_t n) { return singular_range(rows, n); }

TEST(SingularRange, KnownMatrices) {
  const SingularRange diagonal = range({3, 0, 0, 0, -7, 0, 0, 0, .5}, 3);
  EXPECT_DOUBLE_EQ(diagonal.smallest, .5);
  EXPECT_DOUBLE_EQ(diagonal.largest, 7);
  // (1 1; 0 1): golden ratio and its inverse
  const double phi = (1.0 + std::sqrt(5.0)) / 2.0;
  const SingularRange shear = range({1, 1, 0, 1}, 2);
  EXPECT_NEAR(shear.largest, phi, 1e-15);
  EXPECT_NEAR(shear.smallest, 1.0 / phi, 1e-15);
  // Two rows at an angle of about 1e-9: the product of the values is the determinant.
  const SingularRange nearly = range({1, 0, 1, 1e-9}, 2);
  EXPECT_NEAR(nearly.smallest * nearly.largest * 1e9, 1.0, 1e-12);
  EXPECT_LT(range({1, 2, 2, 4}, 2).smallest, 1e-15);
  EXPECT_EQ(range({0, 0, 0, 0}, 2).largest, 0.0);
  EXPECT_DOUBLE_EQ(range({-4}, 1).smallest, 4);
}

/// The m active rows of an instance's solution, read off mu itself: zero entries and tight rows.
struct Basis {
  std::vector<Vector> rows;
  std::string name;  // mode, J, J*, zeros, tight rows
};

Basis basis_of(const test::Instance& x, const Direction& d) {
  const std::size_t m = x.loss.size();
  const auto lp = test::paper_lp(x, 1e-10, 1e-12);
  Basis basis;
  basis.rows.emplace_back(m, 1.0);
  basis.name = std::to_string(m) + (d.mode == Mode::kBalancing ? "b" : "u");
  double bottleneck = 0.0;
  for (std::size_t j = 0; j < m; ++j) {
    bottleneck = std::max(bottleneck, x.preference[j] * x.loss[j]);
  }
  const Vector a = test::adjustment_of(x);
  const Vector ca = test::product(x.gram, a);
  for (std::size_t j = 0; j < m; ++j) {
    const double tolerance = 1e-12 * std::sqrt(x.gram[j * m + j] * std::max(0.0, test::dot(a, ca)));
    if (d.mode == Mode::kBalancing) {
      basis.name += ca[j] > tolerance ? 'J' : '-';
      basis.name += x.preference[j] * x.loss[j] >= (1 - 1e-9) * bottleneck ? '*' : '-';
    }
    basis.name += ' ';
    if (d.mu[j] == 0.0) {
      Vector unit(m, 0.0);
      unit[j] = 1.0;
      basis.rows.push_back(unit);
      basis.name += '0';
    }
    if (std::isfinite(lp.bound[j]) &&
        test::dot(&x.gram[j * m], d.mu.data(), m) - lp.bound[j] < 1e-11 * lp.scale) {
      Vector row;
      for (std::size_t i = 0; i < m; ++i) {
        row.push_back(x.gram[j * m + i] / lp.scale);
      }
      basis.rows.push_back(row);
      basis.name += 't';
    }
  }
  return basis;
}

/// ||M^-1||_2 by power iteration on (M'M)^-1, and ||C / s||_2 on C / s.
double kappa_oracle(const std::vector<Vector>& rows, const test::Instance& x, double scale) {
  const std::size_t m = rows.size();
  std::vector<Vector> transposed(m, Vector(m));
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < m; ++j) {
      transposed[j][i] = rows[i][j];
    }
  }
  const auto normalise = [](Vector& v) {
    const double norm = std::sqrt(test::dot(v, v));
    for (double& entry : v) {
      entry /= norm;
    }
    return norm;
  };
  Vector v(m, 1.0);
  Vector w(m, 1.0);
  for (std::size_t j = 0; j < m; ++j) {
    v[j] += 0.37 * static_cast<double>(j);
    w[j] -= 0.21 * static_cast<double>(j);
  }
  normalise(v);
  normalise(w);
  double inverse = 0.0;
  double norm = 0.0;
  for (int k = 0; k < 3000; ++k) {
    v = test::solve_square(rows, test::solve_square(transposed, v));
    inverse = normalise(v);
    w = test::product(x.gram, w);
    norm = normalise(w) / scale;
  }
  return std::sqrt(inverse) * norm;
}

TEST(ActiveSet, IdsNameBasesAndKappaMeasuresThem) {
  const auto solver = make_solver(oracle_options());
  CounterRng rng({.seed = 101});
  std::map<std::string, std::uint64_t> id_of;
  std::map<std::uint64_t, std::string> name_of;
  int repeated = 0;
  int compared = 0;
  for (int k = 0; k < 6000; ++k) {
    const int m = 2 + k % 4;
    const auto x = test::draw(rng, m, static_cast<test::Ensemble>(k / 4 % 3), k % 5 == 4);
    const Direction found = solver->solve({x.loss, x.gram, x.preference});
    ASSERT_NE(found.basis_id, 0U);
    const Basis basis = basis_of(x, found);
    if (found.nonunique || basis.rows.size() != static_cast<std::size_t>(m)) {
      continue;  // a degenerate vertex has several bases
    }
    ++compared;
    const auto [by_name, new_name] = id_of.emplace(basis.name, found.basis_id);
    const auto [by_id, new_id] = name_of.emplace(found.basis_id, basis.name);
    ASSERT_EQ(by_name->second, found.basis_id) << basis.name;
    ASSERT_EQ(by_id->second, basis.name);
    repeated += new_name ? 0 : 1;
    if (k % 20 == 0) {
      const double expected = kappa_oracle(basis.rows, x, test::paper_lp(x, 1e-10, 1e-12).scale);
      EXPECT_NEAR(found.kappa_lp, expected, 1e-5 * expected) << k;
    }
  }
  EXPECT_GT(compared, 5000);
  EXPECT_GT(id_of.size(), 100U);
  EXPECT_GT(repeated, 3000);
}

TEST(ActiveSet, KappaBoundsTheMultipliersOfEqualBases) {
  // Section 5.3, T8: with common C, equal index sets and basis, mu moves by kappa ||dA|| at most.
  const auto solver = make_solver(oracle_options());
  CounterRng rng({.seed = 102});
  int pairs = 0;
  int moved = 0;
  double largest_ratio = 0.0;
  for (int k = 0; k < 4000; ++k) {
    const int m = 2 + k % 4;
    auto x = test::draw(rng, m, static_cast<test::Ensemble>(k / 4 % 3), false);
    const Direction a = solver->solve({x.loss, x.gram, x.preference});
    for (double& loss : x.loss) {
      loss *= 1.0 + 0.05 * rng.uniform();
    }
    const Direction b = solver->solve({x.loss, x.gram, x.preference});
    if (a.basis_id != b.basis_id) {
      continue;
    }
    EXPECT_DOUBLE_EQ(a.kappa_lp, b.kappa_lp);
    ++pairs;
    double mu = 0.0;
    double adjustment = 0.0;
    for (std::size_t j = 0; j < x.loss.size(); ++j) {
      mu += (a.mu[j] - b.mu[j]) * (a.mu[j] - b.mu[j]);
      adjustment += (a.adjustment[j] - b.adjustment[j]) * (a.adjustment[j] - b.adjustment[j]);
    }
    EXPECT_LE(std::sqrt(mu), a.kappa_lp * std::sqrt(adjustment) * (1 + 1e-9) + 1e-9) << k;
    moved += mu > 1e-12 ? 1 : 0;
    largest_ratio = std::max(largest_ratio, std::sqrt(mu / adjustment) / a.kappa_lp);
  }
  EXPECT_GT(pairs, 2000);
  EXPECT_GT(moved, 200);
  EXPECT_GT(largest_ratio, 0.1) << "the bound is not vacuous";
}

TEST(ActiveSet, HandExamples) {
  const auto solver = make_solver(oracle_options());
  // C = I, balancing: the vertex e_1 with rows (1, 1) and (0, 1)
  const Direction vertex = solver->solve({Vector{1, .5}, Vector{4, 0, 0, 4}, Vector{.7, .3}});
  EXPECT_EQ(vertex.mu, (Vector{1, 0}));
  EXPECT_NEAR(vertex.kappa_lp, (1.0 + std::sqrt(5.0)) / 2.0, 1e-14);
  // Identical gradients: row 2 of C is a multiple of the simplex row and must not be in the basis.
  const Direction same = solver->solve({Vector{1, .5}, Vector{2, 2, 2, 2}, Vector{.7, .3}});
  EXPECT_TRUE(std::isfinite(same.kappa_lp));
  // No LP: no id, no kappa
  for (const Direction& d :
       {solver->solve({Vector{1}, Vector{4}, Vector{1}}),
        solver->solve({Vector{1, 2}, Vector(4, 0.0), Vector{.5, .5}}), [] {
          DirectionOptions fixed;
          fixed.solver = "fixed";
          return make_solver(fixed)->solve({Vector{1, 2}, Vector{1, 0, 0, 1}, Vector{.5, .5}});
        }()}) {
    EXPECT_EQ(d.basis_id, 0U);
    EXPECT_TRUE(std::isnan(d.kappa_lp));
  }
}

TEST(ActiveSet, TheModeAndTheIndexSetsCount) {
  // Equal vertices e_1 in different modes.
  const auto solver = make_solver(oracle_options());
  const Vector gram{1, .2, .2, .5};
  const Vector preference{.5, .5};
  const Direction balancing = solver->solve({Vector{2, 1}, gram, preference});
  const Direction uniform = solver->solve({Vector{1, 1}, gram, preference});
  EXPECT_EQ(balancing.mu, (Vector{1, 0}));
  EXPECT_EQ(uniform.mu, (Vector{1, 0}));
  EXPECT_NE(balancing.basis_id, uniform.basis_id);
  EXPECT_DOUBLE_EQ(balancing.kappa_lp, uniform.kappa_lp);
}

}  // namespace
}  // namespace apo::direction
