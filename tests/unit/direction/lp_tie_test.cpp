#include <cmath>
#include <numeric>

#include "polytope_oracle.hpp"
#include <gtest/gtest.h>

#include "apo/core/error.hpp"
#include "apo/direction/direction_solver.hpp"

namespace apo::direction {
namespace {

using test::Instance;
using test::Vector;

DirectionOptions lexicographic() {
  DirectionOptions options;
  options.beta_tolerance = 1e-10;
  options.ascent_tolerance = 1e-12;
  options.lp_tie = "lexicographic";
  return options;
}

Direction solve(const Vector& loss, const Vector& preference, const Vector& gram,
                DirectionOptions options = lexicographic()) {
  return make_solver(options)->solve({loss, gram, preference});
}

/// Losses with lambda_j l_j all equal.
Vector balanced(const Vector& preference) {
  Vector loss;
  for (const double lambda : preference) {
    loss.push_back(1.0 / lambda);
  }
  return loss;
}

void expect_near(const Vector& found, const Vector& expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t j = 0; j < found.size(); ++j) {
    EXPECT_NEAR(found[j], expected[j], tolerance) << "entry " << j;
  }
}

TEST(LpTie, OrthonormalGradientsGiveTheUniformWeights) {
  for (const std::size_t m : {2U, 3U, 5U, 8U}) {
    Vector identity(m * m, 0.0);
    for (std::size_t j = 0; j < m; ++j) {
      identity[j * m + j] = 4.0;
    }
    const Vector preference(m, 1.0 / static_cast<double>(m));
    const Direction found = solve(Vector(m, 1.0), preference, identity);
    EXPECT_EQ(found.mode, Mode::kUniform);
    EXPECT_TRUE(found.nonunique);
    EXPECT_EQ(found.lp_status, LpStatus::kOptimal);
    expect_near(found.mu, preference, 1e-15);  // smallest mu'mu
    EXPECT_TRUE(std::isnan(found.kappa_lp)) << "no vertex, no basis";
    EXPECT_NE(found.basis_id, 0U);
  }
}

TEST(LpTie, DifferentLengthsOnTheFace) {
  // C 1 = (2, 2, 1): objectives 1 and 2 tie, mu_3 = 0, and C = diag(2, 2) on the face.
  const Vector preference{.5, .3, .2};
  expect_near(solve(balanced(preference), preference, {2, 0, 0, 0, 2, 0, 0, 0, 1}).mu, {.5, .5, 0},
              1e-15);
  // C 1 = (3, 3, 3) with C = (3, 0, 0; 0, 2, 1; 0, 1, 2): the min-norm point is (1, 1, 1) / 3.
  expect_near(solve(balanced(preference), preference, {3, 0, 0, 0, 2, 1, 0, 1, 2}).mu,
              {1. / 3, 1. / 3, 1. / 3}, 1e-15);
}

TEST(LpTie, GoldenEdgeOfTheUniformProgram) {
  // The optimum is the edge (t, 2/7, 5/7 - t); mu'C mu is symmetric in t <-> 5/7 - t.
  const Vector gram = test::gram_of({{1, 0, .5}, {-.5, 1, 0}, {0, -.5, 1}});
  const Vector preference{.5, .3, .2};
  expect_near(solve(balanced(preference), preference, gram).mu, {5. / 14, 4. / 14, 5. / 14}, 1e-14);
}

TEST(LpTie, IdenticalGradientsGoToTheLowestIndex) {
  // Same direction whatever mu: only the lexicographic rule decides.
  const Direction two = solve({1, .5}, {.7, .3}, {2, 2, 2, 2});
  EXPECT_EQ(two.mu, (Vector{1, 0}));
  EXPECT_TRUE(two.nonunique);
  const Vector preference{.5, .3, .2};
  expect_near(solve(balanced(preference), preference, Vector(9, 2.0)).mu, {1, 0, 0}, 1e-15);
}

TEST(LpTie, UniqueOptimaStayAsTheyAre) {
  DirectionOptions vertex = lexicographic();
  vertex.lp_tie = "vertex";
  const auto plain = make_solver(vertex);
  const auto resolved = make_solver(lexicographic());
  CounterRng rng({.seed = 51});
  int unique = 0;
  for (int k = 0; k < 3000; ++k) {
    const auto x = test::draw(rng, 2 + k % 4, static_cast<test::Ensemble>(k / 4 % 3), k % 3 == 0);
    const Direction a = plain->solve({x.loss, x.gram, x.preference});
    const Direction b = resolved->solve({x.loss, x.gram, x.preference});
    if (!a.nonunique) {
      ++unique;
      EXPECT_EQ(a.mu, b.mu);
      EXPECT_EQ(a.basis_id, b.basis_id);
    }
  }
  EXPECT_GT(unique, 2900);
}

/// Small whole numbers make many exact ties.
Instance integer_instance(CounterRng& rng, std::size_t m, bool balanced_losses) {
  std::vector<Vector> gradients(m, Vector(3));
  for (Vector& g : gradients) {
    for (double& entry : g) {
      entry = static_cast<double>(rng.below(3)) - 1.0;
    }
  }
  gradients[0][0] = 1.0;  // not all zero
  Instance x;
  x.gram = test::gram_of(gradients);
  double sum = 0.0;
  for (std::size_t j = 0; j < m; ++j) {
    x.preference.push_back(1.0 + static_cast<double>(rng.below(3)));
    sum += x.preference.back();
  }
  for (double& lambda : x.preference) {
    lambda /= sum;
  }
  for (const double lambda : x.preference) {
    x.loss.push_back(balanced_losses ? 1.0 / lambda : 1.0 + static_cast<double>(rng.below(3)));
  }
  return x;
}

TEST(LpTie, EachRuleHoldsOnTiedPrograms) {
  const auto solver = make_solver(lexicographic());
  CounterRng rng({.seed = 52});
  int tied = 0;
  int decided_by_index = 0;
  for (int k = 0; k < 3000; ++k) {
    const std::size_t m = 2 + static_cast<std::size_t>(k % 4);
    const Instance x = integer_instance(rng, m, k % 2 == 0);
    const Direction found = solver->solve({x.loss, x.gram, x.preference});
    ASSERT_EQ(found.lp_status, LpStatus::kOptimal) << k;
    const auto lp = test::paper_lp(x, 1e-10, 1e-12);
    const auto rows = test::rows_of(x, lp);
    ASSERT_LE(test::violation(rows, found.mu), 1e-11) << k;
    const Vector descent = test::product(x.gram, Vector(m, 1.0));
    // (a), (b): the vertices of the face on which both are largest
    const auto best = test::best_of(test::vertices(m, rows), lp.objective, 1e-9);
    const auto face = test::best_of(best, descent, 1e-9);
    ASSERT_FALSE(face.empty()) << k;
    EXPECT_NEAR(test::dot(lp.objective, found.mu), test::dot(lp.objective, face[0]), 1e-9) << k;
    EXPECT_NEAR(test::dot(descent, found.mu), test::dot(descent, face[0]), 1e-9) << k;
    // (c): first-order optimality of mu'C mu against every vertex, which is sufficient
    const Vector gram_mu = test::product(x.gram, found.mu);
    for (const Vector& v : face) {
      EXPECT_GE(test::dot(gram_mu, v), test::dot(gram_mu, found.mu) - 1e-9) << k;
    }
    // (d): among the points of the face with the same C mu none is lexicographically larger
    for (std::size_t j = 0; j < m; ++j) {
      std::vector<test::OracleRow> same = rows;
      const auto equal = [&same](const Vector& a, double b) {
        Vector minus = a;
        for (double& entry : minus) {
          entry = -entry;
        }
        same.push_back({a, b - 1e-10});
        same.push_back({minus, -b - 1e-10});
      };
      for (std::size_t i = 0; i < m; ++i) {
        equal(Vector(&x.gram[i * m], &x.gram[i * m] + m), gram_mu[i]);
      }
      equal(lp.objective, test::dot(lp.objective, found.mu));
      for (std::size_t i = 0; i < j; ++i) {
        Vector unit(m, 0.0);
        unit[i] = 1.0;
        equal(unit, found.mu[i]);
      }
      if (m > 3) {
        break;  // too many rows for the enumeration
      }
      double largest = 0.0;
      for (const Vector& v : test::vertices(m, same, 1e-9)) {
        largest = std::max(largest, v[j]);
      }
      EXPECT_NEAR(found.mu[j], largest, 1e-6) << "k=" << k << " j=" << j;
    }
    tied += face.size() > 1 ? 1 : 0;
    for (std::size_t i = 0; i < m; ++i) {
      for (std::size_t j = i + 1; j < m; ++j) {
        bool same = true;
        for (std::size_t p = 0; p < m; ++p) {
          same = same && x.gram[i * m + p] == x.gram[j * m + p];
        }
        if (same) {  // equal gradients: weight moves to the lower index without any other change
          ++decided_by_index;
          EXPECT_NEAR(found.mu[j], 0.0, 1e-12) << k;
        }
      }
    }
  }
  EXPECT_GT(tied, 500);
  EXPECT_GT(decided_by_index, 200);
}

TEST(LpTie, RenamingObjectivesRenamesTheAnswer) {
  const auto solver = make_solver(lexicographic());
  CounterRng rng({.seed = 53});
  int checked = 0;
  for (int k = 0; k < 2000; ++k) {
    const std::size_t m = 2 + static_cast<std::size_t>(k % 4);
    const Instance x = integer_instance(rng, m, k % 2 == 0);
    std::vector<std::size_t> place(m);
    std::iota(place.begin(), place.end(), 0);
    rng.shuffle(std::span(place));
    Instance y = x;
    for (std::size_t i = 0; i < m; ++i) {
      y.loss[i] = x.loss[place[i]];
      y.preference[i] = x.preference[place[i]];
      for (std::size_t j = 0; j < m; ++j) {
        y.gram[i * m + j] = x.gram[place[i] * m + place[j]];
      }
    }
    const Direction a = solver->solve({x.loss, x.gram, x.preference});
    const Direction b = solver->solve({y.loss, y.gram, y.preference});
    EXPECT_NEAR(a.direction_norm, b.direction_norm, 1e-7)
        << k;  // the direction never depends on it
    EXPECT_NEAR(a.gamma, b.gamma, 1e-9) << k;
    // The weights do only where several give one direction.
    const Vector ca = test::product(x.gram, a.mu);
    const Vector cb = test::product(y.gram, b.mu);
    for (std::size_t i = 0; i < m; ++i) {
      EXPECT_NEAR(cb[i], ca[place[i]], 1e-9) << k;
    }
    ++checked;
  }
  EXPECT_EQ(checked, 2000);
}

TEST(LpTie, DoesNotDependOnTheHistory) {
  const auto together = make_solver(lexicographic());
  CounterRng rng({.seed = 54});
  for (int k = 0; k < 500; ++k) {
    const Instance x = integer_instance(rng, 2 + static_cast<std::size_t>(k % 4), k % 2 == 0);
    EXPECT_EQ(together->solve({x.loss, x.gram, x.preference}).mu,
              make_solver(lexicographic())->solve({x.loss, x.gram, x.preference}).mu)
        << k;
  }
}

TEST(LpTie, AtMostEightObjectives) {
  const std::size_t m = 9;
  Vector identity(m * m, 0.0);
  for (std::size_t j = 0; j < m; ++j) {
    identity[j * m + j] = 1.0;
  }
  const Vector preference(m, 1.0 / 9.0);
  EXPECT_THROW(static_cast<void>(solve(Vector(m, 1.0), preference, identity)), Error);
  DirectionOptions bad = lexicographic();
  bad.lp_tie = "coin";
  EXPECT_THROW(static_cast<void>(make_solver(bad)), Error);
}

}  // namespace
}  // namespace apo::direction
