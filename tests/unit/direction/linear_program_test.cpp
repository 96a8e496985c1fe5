#include "linear_program.hpp"

#include <cmath>

#include "polytope_qp.hpp"
#include <gtest/gtest.h>

#include "apo/core/error.hpp"

namespace apo::direction {
namespace {

using Vector = std::vector<double>;

TEST(LinearProgram, VertexWithItsBasis) {
  LinearProgram program(3, 2);
  const Vector first{1, -1, 0};
  const Vector second{0, 1, 1};
  // max x_1 + x_3 / 2 with x_1 - x_2 >= 0 (slack) and x_2 + x_3 >= .25 (tight): (.75, 0, .25)
  const std::vector<LpRow> rows{{first, 0.0, LpRowKind::kAtLeast},
                                {second, 0.25, LpRowKind::kAtLeast}};
  const LpVertex* vertex = program.solve(Vector{1, 0, .5}, rows, LpMethod::kSimplex);
  ASSERT_NE(vertex, nullptr);
  EXPECT_NEAR(vertex->x[0], .75, 1e-15);
  EXPECT_NEAR(vertex->x[1], 0.0, 1e-15);
  EXPECT_NEAR(vertex->x[2], .25, 1e-15);
  EXPECT_EQ(vertex->column_active, (std::vector<bool>{false, true, false}));
  EXPECT_EQ(vertex->row_active, (std::vector<bool>{false, true, true}));
  EXPECT_NEAR(vertex->column_dual[1], -.5, 1e-15);  // x_2 would replace x_3
  EXPECT_NEAR(vertex->row_dual[1], -.5, 1e-15);     // a unit of x_3 replaces one of x_1
  EXPECT_TRUE(std::isnan(vertex->column_dual[0]));
  EXPECT_TRUE(std::isnan(vertex->row_dual[0]));
}

TEST(LinearProgram, FreeAndEqualRowsAndAbsentColumns) {
  LinearProgram program(3, 1);
  const Vector row{1, 0, -1};
  const Vector objective{3, 2.5, 1};
  const auto best = [&](LpRowKind kind, const std::vector<bool>& absent) {
    const LpVertex* vertex =
        program.solve(objective, std::vector<LpRow>{{row, -.5, kind}}, LpMethod::kSimplex, absent);
    return vertex == nullptr ? Vector{} : vertex->x;
  };
  const auto expect = [](const Vector& found, const Vector& x) {
    ASSERT_EQ(found.size(), x.size());
    for (std::size_t j = 0; j < x.size(); ++j) {
      EXPECT_NEAR(found[j], x[j], 1e-15);
    }
  };
  expect(best(LpRowKind::kFree, {}), {1, 0, 0});
  expect(best(LpRowKind::kAtLeast, {}), {1, 0, 0});
  expect(best(LpRowKind::kEqual, {}), {0, .5, .5});  // 1.75, against 1.5 at (.25, 0, .75)
  expect(best(LpRowKind::kAtLeast, {true, false, false}), {0, 1, 0});
  expect(best(LpRowKind::kEqual, {false, true, false}), {.25, 0, .75});
  EXPECT_TRUE(best(LpRowKind::kEqual, {false, false, true}).empty()) << "x_1 = -1/2";
  expect(best(LpRowKind::kFree, {}), {1, 0, 0});  // nothing of the calls before is left
}

TEST(LinearProgram, WarmStartsAreForMeasurements) {
  LinearProgram cold(3, 0);
  LinearProgram warm(3, 0);
  warm.set_warm_start(true);
  for (const Vector& objective : {Vector{1, 2, 3}, Vector{3, 2, 1}, Vector{1, 3, 2}}) {
    EXPECT_EQ(cold.solve(objective, {}, LpMethod::kSimplex)->x,
              warm.solve(objective, {}, LpMethod::kSimplex)->x);
  }
  // A tie: the warm one stays where it was.
  EXPECT_EQ(warm.solve(Vector{1, 1, 1}, {}, LpMethod::kSimplex)->x, (Vector{0, 1, 0}));
}

TEST(LinearProgram, RefusesWrongSizes) {
  LinearProgram program(2, 1);
  const Vector row{1, 1};
  EXPECT_THROW(static_cast<void>(
                   program.solve(Vector{1}, std::vector<LpRow>{{row, 0.0}}, LpMethod::kSimplex)),
               Error);
  EXPECT_THROW(static_cast<void>(program.solve(Vector{1, 1}, {}, LpMethod::kSimplex)), Error);
  EXPECT_THROW(LinearProgram(0, 1), Error);
}

TEST(PolytopeQp, ProjectionOnTheSimplex) {
  // min |x - c|^2 / 2: by hand
  const Vector identity{1, 0, 0, 0, 1, 0, 0, 0, 1};
  const auto inside = minimise_on_polytope(identity, Vector{.5, .3, .2}, {});
  ASSERT_TRUE(inside);
  EXPECT_NEAR(inside->x[0], .5, 1e-15);
  EXPECT_EQ(inside->column_active, (std::vector<bool>{false, false, false}));
  const auto outside = minimise_on_polytope(identity, Vector{1, .5, -4}, {});
  ASSERT_TRUE(outside);
  EXPECT_NEAR(outside->x[0], .75, 1e-15);
  EXPECT_NEAR(outside->x[1], .25, 1e-15);
  EXPECT_EQ(outside->column_active, (std::vector<bool>{false, false, true}));
}

TEST(PolytopeQp, RowsAndAbsentColumns) {
  const Vector identity{1, 0, 0, 0, 1, 0, 0, 0, 1};
  const Vector zero(3, 0.0);
  const Vector row{1, 0, 0};
  // x_1 >= .6: the rest is shared
  const auto at_least =
      minimise_on_polytope(identity, zero, std::vector<LpRow>{{row, .6, LpRowKind::kAtLeast}});
  ASSERT_TRUE(at_least);
  EXPECT_NEAR(at_least->x[0], .6, 1e-15);
  EXPECT_NEAR(at_least->x[1], .2, 1e-15);
  EXPECT_TRUE(at_least->row_active[0]);
  const auto loose =
      minimise_on_polytope(identity, zero, std::vector<LpRow>{{row, .1, LpRowKind::kAtLeast}});
  EXPECT_NEAR(loose->x[0], 1.0 / 3.0, 1e-15);
  EXPECT_FALSE(loose->row_active[0]);
  const auto equal =
      minimise_on_polytope(identity, zero, std::vector<LpRow>{{row, .1, LpRowKind::kEqual}});
  EXPECT_NEAR(equal->x[0], .1, 1e-15);
  // twice the same equality counts once
  const auto twice = minimise_on_polytope(
      identity, zero,
      std::vector<LpRow>{{row, .1, LpRowKind::kEqual}, {row, .1, LpRowKind::kEqual}});
  EXPECT_NEAR(twice->x[1], .45, 1e-15);
  const auto absent = minimise_on_polytope(identity, zero, {}, {true, false, false});
  EXPECT_EQ(absent->x[0], 0.0);
  EXPECT_NEAR(absent->x[1], .5, 1e-15);
  EXPECT_FALSE(
      minimise_on_polytope(identity, zero, std::vector<LpRow>{{row, 1.5, LpRowKind::kAtLeast}}))
      << "no point has x_1 >= 1.5";
}

TEST(PolytopeQp, SeveralMinimisers) {
  // H = 0: all points are optimal, the lexicographically largest feasible one wins.
  const Vector zero(3, 0.0);
  const Vector flat(9, 0.0);
  const auto any = minimise_on_polytope(flat, zero, {});
  EXPECT_NEAR(any->x[0], 1.0, 1e-15);
  const Vector row{-1, 0, 0};
  const auto limited =
      minimise_on_polytope(flat, zero, std::vector<LpRow>{{row, -.3, LpRowKind::kAtLeast}});
  EXPECT_NEAR(limited->x[0], .3, 1e-15);
  EXPECT_NEAR(limited->x[1], .7, 1e-15);
  // H sees x_1 + x_2 - x_3 only.
  const Vector rank_one{1, 1, -1, 1, 1, -1, -1, -1, 1};
  const auto half = minimise_on_polytope(rank_one, zero, {});
  EXPECT_NEAR(half->x[0], .5, 1e-15);
  EXPECT_NEAR(half->x[2], .5, 1e-15);
}

TEST(PolytopeQp, RefusesWrongSizes) {
  EXPECT_THROW(static_cast<void>(minimise_on_polytope(Vector{1}, Vector{1, 2}, {})), Error);
  EXPECT_THROW(static_cast<void>(minimise_on_polytope(Vector(81, 0.0), Vector(9, 0.0), {})), Error);
}

}  // namespace
}  // namespace apo::direction
