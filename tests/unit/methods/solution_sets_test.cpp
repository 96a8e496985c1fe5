#include "apo/methods/solution_sets.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include <gtest/gtest.h>

#include "apo/core/error.hpp"
#include "apo/core/rng.hpp"

namespace apo::methods {
namespace {

using Vector = std::vector<double>;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
const std::vector<metrics::ScoreRange> kUnit = {{0.0, 1.0}, {0.0, 1.0}};
const std::vector<Vector> kPreference = {{.5, .5}, {.5, .5}, {.9, .1}};

Table empty_summary(bool with_solution) {
  Table table;
  table.text("method", "");
  table.text("stage", "");
  table.integer("start_round", "rounds", "");
  table.integer("cluster", "", "");
  table.integer("client", "", "");
  table.real("reward", "1", "", {2});
  table.real("accuracy", "1", "", {2});
  if (with_solution) {
    table.real("solution", "1", "", {2});
  }
  return table;
}

struct SummaryRow {
  std::string stage;
  std::int64_t client = 0;
  Vector reward = {kNaN, kNaN};
  Vector accuracy = {kNaN, kNaN};
  Vector solution = {kNaN, kNaN};
};

Table summary_of(const std::vector<SummaryRow>& rows, bool with_solution = true) {
  Table table = empty_summary(with_solution);
  for (const SummaryRow& row : rows) {
    table.push("method", std::string("apo"));
    table.push("stage", row.stage);
    table.push("start_round", std::int64_t{130});
    table.push("cluster", std::int64_t{1});
    table.push("client", row.client);
    table.push("reward", std::span<const double>(row.reward));
    table.push("accuracy", std::span<const double>(row.accuracy));
    if (with_solution) {
      table.push("solution", std::span<const double>(row.solution));
    }
  }
  return table;
}

Solution solution(const std::string& method, Vector score, std::int64_t client = 0,
                  std::int64_t start_round = 0, const std::string& stage = "adapted") {
  return {method,
          1,
          stage,
          start_round,
          0,
          client,
          kPreference[static_cast<std::size_t>(client)],
          std::move(score)};
}

TEST(SolutionsOf, ReadsTheRowsThatHaveScores) {
  const Table summary = summary_of({{"base", 0},
                                    {"adapted", 2, {kNaN, kNaN}, {.1, .2}, {.25, .75}},
                                    {"adapted", 1, {kNaN, kNaN}, {.1, .2}, {kNaN, .75}}});
  const SolutionList list = solutions_of(summary, kPreference, 7);
  EXPECT_EQ(list.kind, ScoreKind::kAccuracy);
  EXPECT_EQ(list.num_unscored, 1);
  EXPECT_EQ(list.num_incomplete, 1);
  ASSERT_EQ(list.solutions.size(), 1U);
  const Solution& only = list.solutions[0];
  EXPECT_EQ(only.method, "apo");
  EXPECT_EQ(only.seed, 7);
  EXPECT_EQ(only.stage, "adapted");
  EXPECT_EQ(only.start_round, 130);
  EXPECT_EQ(only.cluster, 1);
  EXPECT_EQ(only.client, 2);
  EXPECT_EQ(only.preference, kPreference[2]);
  EXPECT_EQ(only.score, (Vector{.25, .75}));
}

TEST(SolutionsOf, FilesWithoutSolutionsGiveTheirRewards) {
  const Table summary = summary_of({{"base", 0, {3, 4}}, {"adapted", 0}}, false);
  const SolutionList list = solutions_of(summary, kPreference);
  EXPECT_EQ(list.kind, ScoreKind::kReward);
  EXPECT_EQ(list.num_unscored, 1);
  ASSERT_EQ(list.solutions.size(), 1U);
  EXPECT_EQ(list.solutions[0].score, (Vector{3, 4}));
}

TEST(SolutionsOf, NeverMixesRewardsWithAccuracies) {
  // The base model answered no prompts here: its "solution" is an accuracy, on another scale.
  const Table summary = summary_of({{"base", 0, {kNaN, kNaN}, {.5, .6}, {.5, .6}},
                                    {"adapted", 0, {-3, 12}, {.7, .8}, {-3, 12}}});
  const SolutionList list = solutions_of(summary, kPreference);
  EXPECT_EQ(list.kind, ScoreKind::kReward);
  EXPECT_EQ(list.num_unscored, 1);
  ASSERT_EQ(list.solutions.size(), 1U);
  EXPECT_EQ(list.solutions[0].score, (Vector{-3, 12}));
}

TEST(SolutionsOf, KindsOfScores) {
  EXPECT_EQ(
      solutions_of(summary_of({{"adapted", 0, {kNaN, kNaN}, {kNaN, kNaN}, {.5, .6}}}), kPreference)
          .kind,
      ScoreKind::kLossMap);
  EXPECT_EQ(solutions_of(summary_of({{"base", 0}}), kPreference).kind, ScoreKind::kNone);
}

TEST(SolutionsOf, RefusesTablesThatDoNotFit) {
  EXPECT_THROW(static_cast<void>(solutions_of(Table(), kPreference)), Error);
  const Table stranger = summary_of({{"adapted", 3, {1, 2}, {kNaN, kNaN}, {1, 2}}});
  EXPECT_THROW(static_cast<void>(solutions_of(stranger, kPreference)), Error);
  const std::vector<Vector> three = {{.5, .3, .2}, {.5, .3, .2}, {.5, .3, .2}};
  const Table summary = summary_of({{"adapted", 2, {1, 2}, {kNaN, kNaN}, {1, 2}}});
  EXPECT_THROW(static_cast<void>(solutions_of(summary, three)), Error);
}

TEST(Normalise, OneRangeForAllCountsWhatItClips) {
  const std::vector<Solution> all = {solution("a", {1, 5}), solution("b", {3, 5}, 2),
                                     solution("b", {2, 5})};
  const auto range = score_ranges(all);
  EXPECT_EQ(range[0].low, 1);
  EXPECT_EQ(range[0].high, 3);
  const NormalisedSet inside = normalise(all, range);
  EXPECT_EQ(inside.point, (std::vector<Vector>{{0, .5}, {1, .5}, {.5, .5}}));
  EXPECT_EQ(inside.num_clipped, (std::vector<std::int64_t>{0, 0}));
  EXPECT_EQ(inside.no_range, (std::vector<std::int64_t>{1}));
  EXPECT_DOUBLE_EQ(inside.weighted[0], .5 * 0 + .5 * .5);
  EXPECT_DOUBLE_EQ(inside.weighted[1], .9 * 1 + .1 * .5);
  const std::vector<metrics::ScoreRange> frozen = {{1.5, 2.5}, {0, 10}};
  const NormalisedSet outside = normalise(all, frozen);
  EXPECT_EQ(outside.num_clipped, (std::vector<std::int64_t>{2, 0}));
  EXPECT_EQ(outside.point[0], (Vector{0, .5}));
  EXPECT_TRUE(outside.no_range.empty());
}

/// Two methods, one preference (clients 0 and 1 share it). On paper:
/// a = {(.2,.8), (.6,.4), (.5,.3)}, b = {(.4,.7), (.2,.8)}; R = {(.2,.8), (.4,.7), (.6,.4)}.
TEST(SetQualities, OfTwoMethodsByHand) {
  const std::vector<Solution> all = {
      solution("a", {.2, .8}, 0),     solution("a", {.6, .4}, 1),
      solution("a", {.5, .3}, 0, 10), solution("b", {.4, .7}, 0),
      solution("b", {.2, .8}, 1),     solution("b", {.9, .9}, 1, 0, "initialiser")};
  const auto sets = set_qualities(all, kUnit);
  ASSERT_EQ(sets.size(), 3U);
  EXPECT_EQ(sets[0].method, "a");
  EXPECT_EQ(sets[0].num_solutions, 3);
  EXPECT_EQ(sets[0].num_front, 2);
  EXPECT_EQ(sets[0].num_reference, 3) << "shared points count once, initialisers do not";
  EXPECT_NEAR(sets[0].hypervolume, .2 * .8 + .4 * .4, 1e-15);
  // Of R only (.4,.7) is not in a: its nearest is (.2,.8), sqrt(.05) away; (.6,.4) is farther.
  EXPECT_NEAR(sets[0].igd, std::sqrt(.05) / 3, 1e-15);
  EXPECT_NEAR(sets[0].igd_plus, .2 / 3, 1e-15);
  EXPECT_EQ(sets[1].stage, "initialiser");
  EXPECT_NEAR(sets[1].hypervolume, .81, 1e-15);
  EXPECT_NEAR(sets[1].igd, (std::sqrt(.5) + std::sqrt(.29) + std::sqrt(.34)) / 3, 1e-15);
  EXPECT_EQ(sets[1].igd_plus, 0.0) << "ahead of every reference point";
  EXPECT_EQ(sets[2].method, "b");
  EXPECT_NEAR(sets[2].hypervolume, .4 * .7 + .2 * .1, 1e-15);
  EXPECT_NEAR(sets[2].igd, std::sqrt(.13) / 3, 1e-15);
  EXPECT_NEAR(sets[2].igd_plus, .2 / 3, 1e-15);
}

TEST(SetQualities, EmptySetsAreInfinitelyFar) {
  // Method b was not evaluated on the client with the other preference.
  const std::vector<Solution> all = {solution("a", {.2, .8}, 0), solution("a", {.6, .4}, 2),
                                     solution("b", {.3, .9}, 0)};
  const auto sets = set_qualities(all, kUnit);
  ASSERT_EQ(sets.size(), 4U);
  EXPECT_EQ(sets[2].method, "a");
  EXPECT_EQ(sets[2].preference, kPreference[2]);
  EXPECT_EQ(sets[2].preference_id, 1);
  EXPECT_EQ(sets[2].igd, 0.0);
  EXPECT_EQ(sets[3].method, "b");
  EXPECT_EQ(sets[3].num_solutions, 0);
  EXPECT_EQ(sets[3].hypervolume, 0.0);
  EXPECT_TRUE(std::isinf(sets[3].igd));
  EXPECT_TRUE(std::isinf(sets[3].igd_plus));
  const auto clusters = cluster_qualities(all, kUnit);
  ASSERT_EQ(clusters.size(), 2U);
  EXPECT_TRUE(std::isinf(clusters[1].igd)) << "a mean over something infinite";
  EXPECT_NEAR(clusters[1].hypervolume, .27 / 2, 1e-15);
}

TEST(SetQualities, SeedsAndClustersShareNothing) {
  std::vector<Solution> all = {solution("a", {.2, .8}), solution("b", {.6, .4}),
                               solution("a", {.9, .9}), solution("b", {.1, .1})};
  all[2].seed = all[3].seed = 2;
  auto sets = set_qualities(all, kUnit);
  ASSERT_EQ(sets.size(), 4U);
  EXPECT_EQ(sets[0].num_reference, 2);
  EXPECT_EQ(sets[2].num_reference, 1);
  EXPECT_NEAR(sets[1].hypervolume, .24, 1e-15);
  all[2].seed = all[3].seed = 1;
  all[2].cluster = all[3].cluster = 5;
  sets = set_qualities(all, kUnit);
  ASSERT_EQ(sets.size(), 4U);
  EXPECT_EQ(sets[2].cluster, 5);
  EXPECT_NEAR(sets[2].hypervolume, .81, 1e-15);
  EXPECT_NEAR(sets[3].igd, std::sqrt(1.28), 1e-15);
}

/// Sets drawn at random, measured by definition: area by a fine grid of cells, distances by loops.
TEST(SetQualities, AgreeWithTheDefinitions) {
  CounterRng rng({.seed = 81});
  std::vector<Solution> all;
  for (int k = 0; k < 120; ++k) {
    // On a grid of tenths, so that counting cells gives areas exactly; ties and duplicates abound.
    all.push_back(solution(
        rng.below(2) == 0 ? "a" : "b",
        {static_cast<double>(rng.below(11)) / 10.0, static_cast<double>(rng.below(11)) / 10.0},
        static_cast<std::int64_t>(rng.below(3)), static_cast<std::int64_t>(rng.below(2)),
        rng.below(3) == 0 ? "initialiser" : "adapted"));
    all.back().cluster = all.back().client == 1 ? 1 : 0;
  }
  const auto sets = set_qualities(all, kUnit);
  ASSERT_EQ(sets.size(), 3U * 4U);
  for (const SetQuality& set : sets) {
    std::vector<Vector> own;
    std::set<Vector> candidates;
    for (const Solution& one : all) {
      if (one.cluster == set.cluster && one.preference == set.preference) {
        if (one.method == set.method && one.stage == set.stage) {
          own.push_back(one.score);
        }
        if (one.stage == "adapted") {
          candidates.insert(one.score);
        }
      }
    }
    ASSERT_EQ(set.num_solutions, static_cast<int>(own.size()));
    int cells = 0;
    for (int x = 0; x < 10; ++x) {
      for (int y = 0; y < 10; ++y) {
        cells += std::any_of(own.begin(), own.end(), [&](const Vector& p) {
          return p[0] > (x + .5) / 10 && p[1] > (y + .5) / 10;
        });
      }
    }
    EXPECT_NEAR(set.hypervolume, cells / 100.0, 1e-12);
    double igd = 0.0;
    double igd_plus = 0.0;
    int num_reference = 0;
    for (const Vector& z : candidates) {
      if (std::any_of(candidates.begin(), candidates.end(), [&](const Vector& other) {
            return other != z && other[0] >= z[0] && other[1] >= z[1];
          })) {
        continue;
      }
      ++num_reference;
      double nearest = 1e9;
      double nearest_plus = 1e9;
      for (const Vector& x : own) {
        nearest = std::min(nearest, std::hypot(x[0] - z[0], x[1] - z[1]));
        nearest_plus = std::min(nearest_plus,
                                std::hypot(std::max(z[0] - x[0], 0.0), std::max(z[1] - x[1], 0.0)));
      }
      igd += nearest;
      igd_plus += nearest_plus;
    }
    EXPECT_EQ(set.num_reference, num_reference);
    EXPECT_NEAR(set.igd, igd / num_reference, 1e-12);
    EXPECT_NEAR(set.igd_plus, igd_plus / num_reference, 1e-12);
  }
}

TEST(PoolClusters, OnlyWhenMethodsDisagree) {
  std::vector<Solution> all = {solution("a", {.2, .8}, 0), solution("b", {.6, .4}, 0),
                               solution("a", {.2, .8}, 2)};
  all[2].cluster = 3;
  EXPECT_FALSE(pool_clusters(all));
  EXPECT_EQ(all[2].cluster, 3);
  all[1].cluster = 4;
  all[1].seed = 2;
  EXPECT_FALSE(pool_clusters(all)) << "another seed is another experiment";
  all[1].seed = 1;
  EXPECT_TRUE(pool_clusters(all));
  for (const Solution& one : all) {
    EXPECT_EQ(one.cluster, kAllClusters);
  }
  // One method alone may move a client between its checkpoints.
  std::vector<Solution> moving = {solution("ifca", {.2, .8}, 0, 0),
                                  solution("ifca", {.2, .8}, 0, 9)};
  moving[1].cluster = 1;
  EXPECT_FALSE(pool_clusters(moving));
}

TEST(FinalStage, IsTheLastThatTheMethodHas) {
  using Stages = std::vector<std::string>;
  EXPECT_EQ(final_stage(Stages{"base", "adapted", "initialiser"}), "adapted");
  EXPECT_EQ(final_stage(Stages{"initialiser", "base"}), "initialiser");
  EXPECT_EQ(final_stage(Stages{"base"}), "base");
  EXPECT_EQ(final_stage(Stages{}), "");
}

/// A checkpoint's score weighs preferences alike, however many clients share one.
TEST(ClusterQualities, AverageAndBestOverCheckpoints) {
  const std::vector<Solution> all = {
      solution("a", {.2, .4}, 0, 130), solution("a", {.4, .6}, 1, 130),
      solution("a", {.8, .0}, 2, 130),  // (.4 + .72) / 2
      solution("a", {.1, .1}, 0, 150), solution("a", {.3, .3}, 1, 150),
      solution("a", {.1, .1}, 2, 150),  // (.2 + .1) / 2
  };
  const auto clusters = cluster_qualities(all, kUnit);
  ASSERT_EQ(clusters.size(), 1U);
  EXPECT_EQ(clusters[0].num_checkpoints, 2);
  EXPECT_EQ(clusters[0].num_sets, 2);
  EXPECT_EQ(clusters[0].num_solutions, 6);
  EXPECT_NEAR(clusters[0].score_average, (.56 + .15) / 2, 1e-15);
  EXPECT_NEAR(clusters[0].score_best, .56, 1e-15);
  EXPECT_NEAR(clusters[0].hypervolume, (.4 * .6 + .1 * .1) / 2, 1e-15);
  EXPECT_EQ(clusters[0].igd, 0.0);
}

TEST(FrontTable, OfOneRun) {
  const Table table =
      front_table(summary_of({{"initialiser", 0, {kNaN, kNaN}, {kNaN, kNaN}, {.1, .5}},
                              {"initialiser", 2, {kNaN, kNaN}, {kNaN, kNaN}, {.5, .1}},
                              {"adapted", 0, {kNaN, kNaN}, {kNaN, kNaN}, {.3, .5}},
                              {"adapted", 2, {kNaN, kNaN}, {kNaN, kNaN}, {.5, .3}}}),
                  kPreference);
  ASSERT_EQ(table.num_rows(), 4);
  table.check();
  const auto real = [&](const char* name) { return std::get<Vector>(table.find(name)->values); };
  const auto integer = [&](const char* name) {
    return std::get<std::vector<std::int64_t>>(table.find(name)->values);
  };
  EXPECT_EQ(std::get<std::vector<std::string>>(table.find("stage")->values),
            (std::vector<std::string>{"initialiser", "adapted", "initialiser", "adapted"}));
  EXPECT_EQ(integer("preference_id"), (std::vector<std::int64_t>{0, 0, 1, 1}));
  EXPECT_EQ(integer("num_solutions"), (std::vector<std::int64_t>{1, 1, 1, 1}));
  EXPECT_EQ(real("preference"), (Vector{.5, .5, .5, .5, .9, .1, .9, .1}));
  // Range of both objectives: .1 to .5. (.1,.5) -> (0,1), (.3,.5) -> (.5,1).
  const Vector hypervolume = real("hypervolume");
  const Vector igd = real("igd");
  const Vector igd_plus = real("igd_plus");
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(hypervolume[i], i % 2 == 0 ? 0.0 : .5, 1e-15);
    EXPECT_NEAR(igd[i], i % 2 == 0 ? .5 : 0.0, 1e-15);
    EXPECT_NEAR(igd_plus[i], i % 2 == 0 ? .5 : 0.0, 1e-15);
  }
}

TEST(FrontTable, ARunWithoutScoresHasColumnsOnly) {
  for (const Table& summary : {summary_of({{"adapted", 0}}), empty_summary(true)}) {
    const Table table = front_table(summary, kPreference);
    EXPECT_EQ(table.num_rows(), 0);
    EXPECT_EQ(table.find("preference")->row_size(), 2);
    EXPECT_NE(table.find("igd_plus"), nullptr);
  }
}

}  // namespace
}  // namespace apo::methods
