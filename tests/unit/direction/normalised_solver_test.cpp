#include <cmath>
#include <limits>

#include "lp_oracle.hpp"
#include <gtest/gtest.h>

#include "apo/core/error.hpp"
#include "apo/direction/direction_solver.hpp"

namespace apo::direction {
namespace {

using Vector = std::vector<double>;

DirectionOptions options_of(const std::string& solver, const std::string& normalisation,
                            double mix = 0.0) {
  DirectionOptions options;
  options.solver = solver;
  options.gradient_normalisation = normalisation;
  options.mix_floor = mix;
  return options;
}

/// Gradients as vectors, so that the oracle normalises those and not their Gram matrix.
struct Gradients {
  std::vector<Vector> g;
  Vector loss;
  Vector preference;

  explicit Gradients(CounterRng& rng, std::size_t m) : g(m, Vector(5)) {
    for (Vector& row : g) {
      const double length = std::exp(2.0 * rng.normal());
      for (double& entry : row) {
        entry = length * rng.normal();
      }
      loss.push_back(0.1 + rng.uniform());
    }
    preference = normalised_preference(rng.dirichlet(Vector(m, 1.0)), "test", 1e-2);
  }

  [[nodiscard]] double length(std::size_t j) const {
    double sum = 0.0;
    for (const double entry : g[j]) {
      sum += entry * entry;
    }
    return std::sqrt(sum);
  }
  [[nodiscard]] double unit(std::size_t j, const std::string& normalisation) const {
    if (normalisation == "l2") {
      return length(j);
    }
    if (normalisation == "loss") {
      return loss[j];
    }
    return normalisation == "loss+" ? loss[j] * length(j) : 1.0;
  }
};

TEST(NormalisedSolver, IsTheSolverOnDividedGradients) {
  CounterRng rng({.seed = 91});
  for (const char* solver : {"apo_lp", "epo", "fixed", "mgda", "firm"}) {
    for (const char* normalisation : {"none", "l2", "loss", "loss+"}) {
      for (const double mix : {0.0, 0.2, 1.0}) {
        for (int k = 0; k < 40; ++k) {
          const std::size_t m = 2 + static_cast<std::size_t>(k % 3);
          const Gradients x(rng, m);
          const Vector gram = test::gram_of(x.g);
          const Direction found = make_solver(options_of(solver, normalisation, mix))
                                      ->solve({x.loss, gram, x.preference});

          auto divided = x.g;
          for (std::size_t j = 0; j < m; ++j) {
            for (double& entry : divided[j]) {
              entry /= x.unit(j, normalisation);
            }
          }
          const Vector divided_gram = test::gram_of(divided);
          const Vector mu = make_solver(options_of(solver, "none"))
                                ->solve({x.loss, divided_gram, x.preference})
                                .mu;
          Vector d(5, 0.0);
          for (std::size_t j = 0; j < m; ++j) {
            EXPECT_NEAR(found.mu[j], mu[j], 1e-9) << solver << ' ' << normalisation;
            const double mixed = (1.0 - mix) * mu[j] + mix / static_cast<double>(m);
            EXPECT_NEAR(found.weight[j] * x.unit(j, normalisation), mixed, 1e-9);
            for (std::size_t p = 0; p < 5; ++p) {
              d[p] += mixed * divided[j][p];
            }
          }
          // gamma and the norm belong to that direction and the gradients as they are.
          const Balance quantities = balance(x.loss, x.preference);
          double squared = 0.0;
          double gamma = 0.0;
          int rising = 0;
          for (std::size_t j = 0; j < m; ++j) {
            double slope = 0.0;
            for (std::size_t p = 0; p < 5; ++p) {
              slope += x.g[j][p] * d[p];
            }
            gamma += quantities.adjustment[j] * slope;
            rising += slope < -1e-6 * x.length(j) ? 1 : 0;
          }
          for (const double entry : d) {
            squared += entry * entry;
          }
          const double norm = std::sqrt(squared);
          EXPECT_NEAR(found.direction_norm, norm, 1e-8 * (1.0 + norm));
          EXPECT_NEAR(found.gamma, gamma, 1e-7 * (1.0 + std::abs(gamma)));
          EXPECT_LE(rising, found.num_ascending);
        }
      }
    }
  }
}

TEST(NormalisedSolver, HandExample) {
  // Orthogonal gradients of lengths 3 and 4: l2 makes both 1, so the min-norm point is (1, 1) / 2.
  const Vector loss{2, 5};
  const Vector preference{.5, .5};
  const Vector gram{9, 0, 0, 16};
  const Direction l2 = make_solver(options_of("mgda", "l2"))->solve({loss, gram, preference});
  EXPECT_NEAR(l2.mu[0], .5, 1e-15);
  EXPECT_NEAR(l2.weight[0], .5 / 3, 1e-15);
  EXPECT_NEAR(l2.weight[1], .5 / 4, 1e-15);
  EXPECT_NEAR(l2.direction_norm, std::sqrt(.5), 1e-15);
  // loss: lengths 3/2 and 4/5, mu ~ (1 / 2.25, 1 / .64)
  const Direction by_loss =
      make_solver(options_of("mgda", "loss"))->solve({loss, gram, preference});
  EXPECT_NEAR(by_loss.mu[0], .64 / 2.89, 1e-15);
  EXPECT_NEAR(by_loss.weight[0], .64 / 2.89 / 2, 1e-15);
  // loss+: lengths 1/2 and 1/5, mu ~ (4, 25)
  const Direction both = make_solver(options_of("mgda", "loss+"))->solve({loss, gram, preference});
  EXPECT_NEAR(both.mu[0], 4. / 29, 1e-15);
  EXPECT_NEAR(both.weight[0], 4. / 29 / 6, 1e-15);
  EXPECT_NEAR(both.weight[1], 25. / 29 / 20, 1e-15);
  // mixing before the lengths come back
  const Direction mixed =
      make_solver(options_of("mgda", "loss+", .2))->solve({loss, gram, preference});
  EXPECT_NEAR(mixed.weight[0], (.8 * 4. / 29 + .1) / 6, 1e-15);
  EXPECT_NEAR(mixed.mu[0], 4. / 29, 1e-15) << "mu is the solver's own";
}

TEST(NormalisedSolver, MixFloorAlone) {
  const Vector loss{.6, .4, .9};
  const Vector preference{.5, .3, .2};
  const Vector gram = test::gram_of({{1, 0, .5}, {-.5, 1, 0}, {0, -.5, 1}});
  const Direction found =
      make_solver(options_of("apo_lp", "none", .2))->solve({loss, gram, preference});
  EXPECT_NEAR(found.mu[0], 0.876636466422053, 1e-14);
  EXPECT_NEAR(found.weight[0], .8 * 0.876636466422053 + .2 / 3, 1e-14);
  EXPECT_NEAR(found.weight[2], .2 / 3, 1e-14);
  EXPECT_EQ(found.lp_status, LpStatus::kOptimal);
}

TEST(NormalisedSolver, VanishingGradientsAreNotDividedByZero) {
  const Vector loss{.5, 2};
  const Vector preference{.7, .3};
  for (const char* normalisation : {"l2", "loss", "loss+"}) {
    const auto solver = make_solver(options_of("apo_lp", normalisation));
    const Direction one = solver->solve({loss, Vector{4, 0, 0, 0}, preference});
    const Direction none = solver->solve({loss, Vector(4, 0.0), preference});
    for (std::size_t j = 0; j < 2; ++j) {
      EXPECT_TRUE(std::isfinite(one.weight[j])) << normalisation;
      EXPECT_TRUE(std::isfinite(none.weight[j])) << normalisation;
    }
    EXPECT_EQ(none.mode, Mode::kStationary);
    EXPECT_EQ(none.mu, (Vector{.5, .5}));
    EXPECT_EQ(none.direction_norm, 0.0);
  }
  // A loss of 0 is divided by the floor.
  const Direction floored = make_solver(options_of("fixed", "loss"))
                                ->solve({Vector{0, 1}, Vector{1, 0, 0, 1}, preference});
  EXPECT_NEAR(floored.weight[0] * 1e-12, .7, 1e-15);
  EXPECT_EQ(floored.losses_floored, 1);
}

TEST(NormalisedSolver, LengthsNeedTheGram) {
  EXPECT_FALSE(make_solver(options_of("fixed", "none", .5))->needs_gram());
  EXPECT_FALSE(make_solver(options_of("fixed", "loss"))->needs_gram());
  EXPECT_TRUE(make_solver(options_of("fixed", "l2"))->needs_gram());
  EXPECT_TRUE(make_solver(options_of("fixed", "loss+"))->needs_gram());
  EXPECT_TRUE(make_solver(options_of("apo_lp", "loss"))->needs_gram());
  const Vector unknown(4, std::nan(""));
  const Vector loss{.5, 2};
  const Vector preference{.7, .3};
  for (const Vector& gram : {Vector{}, unknown}) {
    const Direction found =
        make_solver(options_of("fixed", "loss", .5))->solve({loss, gram, preference});
    EXPECT_NEAR(found.weight[0], (.35 + .25) / .5, 1e-15);
    EXPECT_TRUE(std::isnan(found.gamma));
    EXPECT_TRUE(std::isnan(found.direction_norm));
  }
  EXPECT_THROW(
      static_cast<void>(make_solver(options_of("fixed", "l2"))->solve({loss, unknown, preference})),
      Error);
}

TEST(NormalisedSolver, RefusesUnknownValues) {
  EXPECT_THROW(static_cast<void>(make_solver(options_of("apo_lp", "l1"))), Error);
  EXPECT_THROW(static_cast<void>(make_solver(options_of("apo_lp", "none", 1.5))), Error);
  EXPECT_THROW(static_cast<void>(make_solver(options_of("apo_lp", "none", std::nan("")))), Error);
}

}  // namespace
}  // namespace apo::direction
