#include <cmath>

#include <gtest/gtest.h>

#include "apo/core/error.hpp"
#include "apo/direction/direction_solver.hpp"

namespace apo::direction {
namespace {

using Vector = std::vector<double>;

DirectionOptions fixed() {
  DirectionOptions options;
  options.solver = "fixed";
  return options;
}

TEST(FixedSolver, TakesThePreference) {
  const auto solver = make_solver(fixed());
  EXPECT_FALSE(solver->needs_gram());
  const Vector loss{1, .5};
  const Vector preference{.7, .3};
  const Vector gram{1, -.3, -.3, .25};
  const Direction found = solver->solve({loss, gram, preference, false});
  EXPECT_EQ(found.mu, preference);
  EXPECT_EQ(found.mode, Mode::kFixed);
  EXPECT_EQ(found.lp_status, LpStatus::kNone);
  EXPECT_NEAR(found.uniformity, 0.227147923598903, 1e-15);
  EXPECT_DOUBLE_EQ(found.chebyshev, .7);
  EXPECT_NEAR(found.direction_norm, std::sqrt(.49 - .126 + .0225), 1e-15);
  EXPECT_NEAR(found.gamma, .7 * 0.304464431622495 + .3 * -0.152232215811248, 1e-14);
  EXPECT_EQ(found.num_aligned, 1);
  EXPECT_EQ(found.num_ascending, 1);  // (C mu)_2 = -.21 + .075
}

TEST(FixedSolver, NeedsNoGram) {
  const auto solver = make_solver(fixed());
  const Vector loss{1, .5};
  const Vector preference{.7, .3};
  const Vector unknown(4, std::nan(""));
  for (const Vector& gram : {Vector{}, unknown}) {
    const Direction found = solver->solve({loss, gram, preference, false});
    EXPECT_EQ(found.mu, preference);
    EXPECT_TRUE(std::isnan(found.gamma));
    EXPECT_TRUE(std::isnan(found.direction_norm));
  }
  EXPECT_THROW(static_cast<void>(solver->solve({Vector{1}, Vector{}, preference, false})), Error);
}

TEST(FixedSolver, UnknownSolverIsRefused) {
  DirectionOptions options;
  options.solver = "guess";
  EXPECT_THROW(static_cast<void>(make_solver(options)), Error);
}

}  // namespace
}  // namespace apo::direction
