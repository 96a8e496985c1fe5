#include <cmath>

#include "aggregator_oracle.hpp"
#include "solvers.hpp"
#include <gtest/gtest.h>

#include "apo/core/error.hpp"
#include "apo/direction/direction_solver.hpp"
#include "apo/direction/lemma8.hpp"

namespace apo::direction {
namespace {

using test::Gradients;
using test::inner;
using test::Kind;
using test::kKinds;
using test::Vector;

constexpr double kNone = 0.0;

double distance(const Vector& x, const Vector& y) {
  double sum = 0.0;
  for (std::size_t j = 0; j < x.size(); ++j) {
    sum += (x[j] - y[j]) * (x[j] - y[j]);
  }
  return std::sqrt(sum);
}

Vector with_diagonal(Vector gram, const Vector& regulariser) {
  for (std::size_t j = 0; j < regulariser.size(); ++j) {
    gram[j * regulariser.size() + j] += regulariser[j];
  }
  return gram;
}

/// (mu'H mu - min_j (H mu)_j) / max_j H_jj
double kkt_gap(const Vector& h, const Vector& mu) {
  const Vector y = test::times(h, mu);
  double smallest = y[0];
  double scale = 0.0;
  for (std::size_t j = 0; j < mu.size(); ++j) {
    smallest = std::min(smallest, y[j]);
    scale = std::max(scale, h[j * mu.size() + j]);
  }
  return (inner(mu, y) - smallest) / scale;
}

TEST(RegularisedMinNormPoint, GoldenNumbers) {
  const Vector gram = test::gram({{1, 0, .5}, {-.5, 1, 0}, {0, -.5, 1}});
  const Vector mgda = regularised_min_norm_point(gram, Vector(3, kNone));
  EXPECT_NEAR(mgda[0], .28, 1e-14);
  EXPECT_NEAR(mgda[1], .44, 1e-14);
  EXPECT_NEAR(mgda[2], .28, 1e-14);
  const Vector firm = regularised_min_norm_point(gram, Vector(3, .05));
  EXPECT_NEAR(firm[0], .28125, 1e-14);
  EXPECT_NEAR(firm[1], .4375, 1e-14);
  EXPECT_NEAR(firm[2], .28125, 1e-14);
  EXPECT_NEAR(regularised_min_norm_point(Vector{1, -.3, -.3, .25}, Vector(2, .05))[0], .6 / 1.95,
              1e-15);
}

TEST(RegularisedMinNormPoint, OptimalOnRandomGramMatrices) {
  CounterRng rng({.seed = 41});
  for (int k = 0; k < 2400; ++k) {
    const std::size_t m = 1 + static_cast<std::size_t>(k / 12 % 10);  // 9 and 10: active sets
    const Vector gram =
        test::gram(test::draw_gradients(rng, m, 6, kKinds[static_cast<std::size_t>(k % 4)]));
    const double beta = std::array{0.0, 0.01, 1.0}[static_cast<std::size_t>(k / 4 % 3)];
    Vector regulariser(m, 0.5 * beta);
    if (k % 7 == 0) {
      regulariser = firm_regulariser("scaled", beta, test::draw_preference(rng, m));
    }
    const Vector mu = regularised_min_norm_point(gram, regulariser);
    double sum = 0.0;
    for (const double entry : mu) {
      EXPECT_GE(entry, 0.0);
      sum += entry;
    }
    EXPECT_NEAR(sum, 1.0, 1e-14);
    EXPECT_LE(kkt_gap(with_diagonal(gram, regulariser), mu), 1e-12) << "m=" << m << " k=" << k;
  }
}

TEST(RegularisedMinNormPoint, AgreesWithPairwiseDescent) {
  CounterRng rng({.seed = 42});
  for (int k = 0; k < 240; ++k) {
    const std::size_t m = 2 + static_cast<std::size_t>(k / 4 % 9);
    const Vector gram =
        test::gram(test::draw_gradients(rng, m, 12, kKinds[static_cast<std::size_t>(k % 3)]));
    const Vector regulariser(m, 0.5);
    const Vector expected =
        test::simplex_oracle(with_diagonal(gram, regulariser), Vector(m, 0.0), 1e-13);
    EXPECT_LE(distance(regularised_min_norm_point(gram, regulariser), expected), 1e-11) << k;
  }
}

TEST(RegularisedMinNormPoint, AgreesWithMinNormPointWhereThatIsUnique) {
  CounterRng rng({.seed = 43});
  for (int k = 0; k < 400; ++k) {
    const std::size_t m = 2 + static_cast<std::size_t>(k % 7);
    const Vector gram =
        test::gram(test::draw_gradients(rng, m, 16, k % 2 == 0 ? Kind::kGeneric : Kind::kConflict));
    EXPECT_LE(distance(regularised_min_norm_point(gram, Vector(m, kNone)),
                       min_norm_point(gram, static_cast<int>(m))),
              1e-11)
        << k;
  }
}

TEST(RegularisedMinNormPoint, TwoObjectivesAtTheEdges) {
  const auto solved = [](double a, double b, double c, double r = 0.0) {
    return regularised_min_norm_point(Vector{a, b, b, c}, Vector{r, r});
  };
  EXPECT_EQ(solved(0, 0, 0), (Vector{.5, .5}));
  EXPECT_EQ(solved(2, 2, 2), (Vector{.5, .5})) << "equal gradients";
  EXPECT_EQ(solved(1, -1, 1), (Vector{.5, .5})) << "opposite gradients";
  EXPECT_EQ(solved(4, 2, 1), (Vector{0, 1})) << "parallel: the shorter one, and all of it";
  EXPECT_EQ(solved(1, 2, 4), (Vector{1, 0}));
  EXPECT_EQ(solved(1, 0, 0), (Vector{0, 1}));
  // Nearly equal along their own direction, where a + c - 2b = 1e-18 is lost in rounding.
  const double longer = 1.0 + 1e-9;
  EXPECT_EQ(solved(longer * longer, longer, 1.0), (Vector{0, 1}));
  EXPECT_NEAR(solved(1e300, 0, 1e300)[0], 0.5, 1e-15);
  EXPECT_NEAR(solved(1e-300, 0, 3e-300)[0], 0.75, 1e-15);
}

TEST(RegularisedMinNormPoint, ContinuousAtVanishingBeta) {
  CounterRng rng({.seed = 44});
  for (int k = 0; k < 120; ++k) {
    const std::size_t m = 2 + static_cast<std::size_t>(k % 7);
    Gradients g = test::draw_gradients(rng, m, 16, kKinds[static_cast<std::size_t>(k / 7 % 3)]);
    if (k % 2 == 0) {
      g.back() = g.front();  // the limit shares the weight of duplicates
    }
    const Vector gram = test::gram(g);
    const Vector limit = regularised_min_norm_point(gram, Vector(m, kNone));
    double last = std::numeric_limits<double>::infinity();
    // Smaller beta would only measure rounding: duplicates leave the weights to beta over the Gram
    // matrix, of which 1e-16 is noise.
    for (const double beta : {1.0, 1e-2, 1e-4, 1e-6}) {
      const double away = distance(regularised_min_norm_point(gram, Vector(m, 0.5 * beta)), limit);
      EXPECT_LE(away, std::max(last, 1e-8)) << "k=" << k << " beta=" << beta;
      last = away;
    }
    EXPECT_LE(last, 1e-7) << k;
    if (k % 2 == 0) {
      EXPECT_NEAR(limit.front(), limit.back(), 1e-9) << k;
    }
  }
}

TEST(RegularisedMinNormPoint, UniformAtLargeBeta) {
  CounterRng rng({.seed = 45});
  for (std::size_t m = 1; m <= 10; ++m) {
    const Vector gram = test::gram(test::draw_gradients(rng, m, 6, Kind::kGeneric));
    for (const double entry : regularised_min_norm_point(gram, Vector(m, 1e14))) {
      EXPECT_NEAR(entry, 1.0 / static_cast<double>(m), 1e-12);
    }
  }
}

TEST(FirmRegulariser, Forms) {
  const Vector p{.7, .2, .1};
  EXPECT_EQ(firm_regulariser("none", .02, p), Vector(3, .01));
  const Vector paper = firm_regulariser("paper", .02, p);
  const Vector scaled = firm_regulariser("scaled", .02, p);
  for (std::size_t j = 0; j < 3; ++j) {
    EXPECT_DOUBLE_EQ(paper[j], 1.0 / p[j]);
    EXPECT_DOUBLE_EQ(scaled[j], .01 / (3 * p[j]));
  }
  for (const std::size_t m : {1U, 2U, 3U, 5U, 8U}) {
    const Vector equal(m, 1.0 / static_cast<double>(m));
    for (const double r : firm_regulariser("scaled", .02, equal)) {
      EXPECT_DOUBLE_EQ(r, .01) << "reduces to (beta/2) I";
    }
  }
  EXPECT_DOUBLE_EQ(firm_regulariser("paper", .02, Vector{1, 0})[1], 1e4) << "floor of p";
  EXPECT_THROW(static_cast<void>(firm_regulariser("other", .02, p)), Error);
  EXPECT_THROW(static_cast<void>(firm_regulariser("none", -1, p)), Error);
  EXPECT_THROW(static_cast<void>(firm_regulariser("none", 1, Vector{})), Error);
}

TEST(FirmRegulariser, PreferenceIsTheLimitOfVanishingGradients) {
  CounterRng rng({.seed = 46});
  for (int k = 0; k < 200; ++k) {
    const std::size_t m = 2 + static_cast<std::size_t>(k % 9);
    const Vector p = test::draw_preference(rng, m);
    const Vector gram = test::gram(test::draw_gradients(rng, m, 12, Kind::kGeneric), 1e-18);
    for (const char* form : {"paper", "scaled"}) {
      const Vector regulariser = firm_regulariser(form, 1.0, p);
      EXPECT_LE(distance(regularised_min_norm_point(Vector(m * m, 0.0), regulariser), p), 1e-15);
      EXPECT_LE(distance(regularised_min_norm_point(gram, regulariser), p), 1e-13);
    }
  }
}

TEST(RegularisedMinNormPoint, RefusesBadInput) {
  const auto solved = [](const Vector& gram, const Vector& r) {
    static_cast<void>(regularised_min_norm_point(gram, r));
  };
  EXPECT_THROW(solved({1, 0, 0}, {0, 0}), Error);
  EXPECT_THROW(solved({}, {}), Error);
  EXPECT_THROW(solved({1, 0, 0, std::nan("")}, {0, 0}), Error);
  EXPECT_THROW(solved({1, 0, 0, 1}, {0, -1}), Error);
  EXPECT_THROW(solved({1, 0, 0, 1}, {0, std::nan("")}), Error);
}

TEST(FirmSolver, OptionsChooseTheProgram) {
  CounterRng rng({.seed = 47});
  const Vector loss{1, .5, .7};
  for (int k = 0; k < 60; ++k) {
    const Vector p = test::draw_preference(rng, 3);
    const Vector gram = test::gram(test::draw_gradients(rng, 3, 6, Kind::kGeneric));
    const Problem problem{.loss = loss, .gram = gram, .preference = p};
    DirectionOptions options;
    options.solver = "firm";
    options.firm_beta = 0.3;
    for (const char* form : {"none", "paper", "scaled"}) {
      options.firm_preference = form;
      options.gram_normalisation = "none";
      const Vector regulariser = firm_regulariser(form, 0.3, p);
      EXPECT_EQ(make_aggregator(options)->solve(problem).mu,
                regularised_min_norm_point(gram, regulariser));
      options.gram_normalisation = "mean_diagonal";
      double mean = 0.0;
      for (std::size_t j = 0; j < 3; ++j) {
        mean += std::sqrt(gram[j * 3 + j]) / 3.0;
      }
      Vector normalised = gram;
      for (double& entry : normalised) {
        entry /= mean * mean;
      }
      EXPECT_LE(kkt_gap(with_diagonal(normalised, regulariser),
                        make_aggregator(options)->solve(problem).mu),
                1e-12);
    }
    options.firm_beta = 0.0;
    options.firm_preference = "scaled";
    options.gram_normalisation = "none";
    const Direction unregularised = make_aggregator(options)->solve(problem);
    options.solver = "mgda";
    EXPECT_EQ(make_aggregator(options)->solve(problem).mu, unregularised.mu);
  }
}

TEST(FirmSolver, VanishingGradientsKeepTheLimit) {
  const Vector loss{1, .5};
  const Vector p{.8, .2};
  const Vector gram(4, 0.0);
  DirectionOptions options;
  options.solver = "firm";
  const Direction found =
      make_aggregator(options)->solve({.loss = loss, .gram = gram, .preference = p});
  EXPECT_EQ(found.mode, Mode::kStationary);
  EXPECT_LE(distance(found.mu, p), 1e-15);
  EXPECT_EQ(found.direction_norm, 0.0);
}

TEST(Lemma8, HoldsOnRandomPairs) {
  CounterRng rng({.seed = 48});
  Lemma8Ratios largest;
  for (int k = 0; k < 3000; ++k) {
    const std::size_t m = 2 + static_cast<std::size_t>(k % 4);
    const std::size_t d = 10;
    const Gradients a =
        test::draw_gradients(rng, m, d, kKinds[static_cast<std::size_t>(k / 4 % 3)]);
    Gradients b = a;
    const double change = std::pow(10.0, -4.0 * rng.uniform());
    double away = 0.0;
    double bound = 0.0;
    for (std::size_t j = 0; j < m; ++j) {
      for (double& x : b[j]) {
        x += change * rng.normal();
      }
      away = std::max(away, distance(a[j], b[j]));
      bound = std::max({bound, test::norm(a[j]), test::norm(b[j])});
    }
    const double beta = std::array{0.01, 1.0, 30.0}[static_cast<std::size_t>(k % 3)];
    const char* form = std::array{"none", "scaled", "paper"}[static_cast<std::size_t>(k / 3 % 3)];
    const Vector regulariser = firm_regulariser(form, beta, test::draw_preference(rng, m));
    const double modulus = firm_modulus(regulariser);
    const Vector gram_a = test::gram(a);
    const Vector gram_b = test::gram(b);
    const Vector mu_a = regularised_min_norm_point(gram_a, regulariser);
    const Vector mu_b = regularised_min_norm_point(gram_b, regulariser);
    const Lemma8Ratios found = lemma8_ratios(gram_a, gram_b, mu_a, mu_b, away, bound, modulus);
    EXPECT_DOUBLE_EQ(found.distance, distance(mu_a, mu_b));
    EXPECT_LE(found.paper, 1.0) << k;
    EXPECT_LE(found.root, 1.0) << k;
    EXPECT_LE(found.gram, 1.0 + 1e-9) << k;
    EXPECT_NEAR(found.paper * std::sqrt(static_cast<double>(m)), found.root, 1e-12);
    largest.paper = std::max(largest.paper, found.paper);
    largest.root = std::max(largest.root, found.root);
    largest.gram = std::max(largest.gram, found.gram);
  }
  // The ratios measure something: the Gram form comes near 1, the paper's bound is loose.
  EXPECT_GT(largest.gram, 0.3);
  EXPECT_LT(largest.paper, 0.3);
  EXPECT_GT(largest.paper, 0.005);
}

TEST(Lemma8, FormulasByHand) {
  const Vector gram_a{2, 0, 0, 1};
  const Vector gram_b{2, 0, 0, 4};
  // (C_a - C_b) mu = (0, -3 mu_2): norms 1.5 and 0.75; bounds 2/0.5 * 0.75 = 3, 4 R eps m / 0.5.
  const Lemma8Ratios found =
      lemma8_ratios(gram_a, gram_b, Vector{.5, .5}, Vector{.75, .25}, 1.0, 2.0, 0.5);
  const double away = .25 * std::sqrt(2.0);
  EXPECT_DOUBLE_EQ(found.distance, away);
  EXPECT_DOUBLE_EQ(found.gram, away / 3.0);
  EXPECT_DOUBLE_EQ(found.paper, away / 32.0);
  EXPECT_DOUBLE_EQ(found.root, away / (16.0 * std::sqrt(2.0)));
}

TEST(Lemma8, EqualClientsAndUnknownGradients) {
  const Vector gram{2, 0, 0, 1};
  const Vector mu{.3, .7};
  const Lemma8Ratios same = lemma8_ratios(gram, gram, mu, mu, 0.0, 2.0, 1.0);
  EXPECT_EQ(same.gram, 0.0);
  EXPECT_EQ(same.paper, 0.0);
  const Lemma8Ratios broken = lemma8_ratios(gram, gram, mu, Vector{.4, .6}, 0.0, 2.0, 1.0);
  EXPECT_TRUE(std::isinf(broken.gram)) << "a violation shows";
  const Lemma8Ratios unknown =
      lemma8_ratios(gram, Vector{2, 0, 0, 2}, mu, Vector{.4, .6}, std::nan(""), 2.0, 1.0);
  EXPECT_TRUE(std::isnan(unknown.paper));
  EXPECT_TRUE(std::isnan(unknown.root));
  EXPECT_GT(unknown.gram, 0.0);
  const auto refused = [&](const Vector& c, double eps, double modulus) {
    static_cast<void>(lemma8_ratios(c, gram, mu, mu, eps, 2.0, modulus));
  };
  EXPECT_THROW(refused(gram, 0.1, 0.0), Error);
  EXPECT_THROW(refused(gram, -0.1, 1.0), Error);
  EXPECT_THROW(refused(Vector{1}, 0.1, 1.0), Error);
  EXPECT_THROW(refused(Vector{2, 0, 0, std::nan("")}, 0.1, 1.0), Error);
}

}  // namespace
}  // namespace apo::direction
