#include <algorithm>
#include <cmath>

#include "sample_runs.hpp"
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "apo/core/error.hpp"

namespace apo::cli {
namespace {

using test::json_report;
using test::kNaN;
using test::sample_run;
using test::SampleRow;
using test::table_of;

/// 97.5 % quantiles of Student's t, from a printed table.
constexpr double kT1 = 12.7062047364;
constexpr double kT2 = 4.3026527297;

std::string interval(double mean, double half, const char* number = "{:.3f}") {
  return fmt::format("[{}, {}]", fmt::format(fmt::runtime(number), mean - half),
                     fmt::format(fmt::runtime(number), mean + half));
}

bool mentions(const std::vector<std::string>& warnings, const std::string& text) {
  return std::any_of(warnings.begin(), warnings.end(), [&](const std::string& warning) {
    return warning.find(text) != std::string::npos;
  });
}

/// Range of both objectives over these: 0 to 1. Clients 0 and 1 have different preferences.
std::vector<RunResults> two_methods() {
  return {sample_run("fedavg", 1,
                     {{"initialiser", 0, {.0, .4}},
                      {"initialiser", 1, {.4, .0}},
                      {"adapted", 0, {.4, .6}},
                      {"adapted", 1, {.6, .2}}}),
          sample_run("apo", 1,
                     {{"initialiser", 0, {.2, .6}},
                      {"initialiser", 1, {.5, .2}},
                      {"adapted", 0, {.6, .4}},
                      {"adapted", 1, {1., 1.}}})};
}

TEST(Report, ScoresAndSetsOfOneSeedByHand) {
  const auto rows = table_of(json_report(two_methods()), "Normalised preference-weighted score");
  ASSERT_EQ(rows.size(), 4U);
  const nlohmann::json& fedavg = rows[1];
  EXPECT_EQ(fedavg["method"], "fedavg");
  EXPECT_EQ(fedavg["stage"], "adapted");
  EXPECT_EQ(fedavg["over"], "2 clients");
  // s_lambda: client 0 .5, client 1 .75 * .6 + .25 * .2 = .5: no spread. HV: .24 and .12.
  EXPECT_EQ(fedavg["score"], "0.500");
  EXPECT_EQ(fedavg["score 95 %"], "[0.500, 0.500]");
  EXPECT_EQ(fedavg["HV"], "0.180");
  EXPECT_EQ(fedavg["HV 95 %"], "-") << "one seed gives no interval";
  // R of client 0 is {(.4,.6), (.6,.4)}, of client 1 {(1,1)}.
  EXPECT_EQ(fedavg["IGD"], fmt::format("{:.3f}", (std::sqrt(.08) / 2 + std::hypot(.4, .8)) / 2));
  EXPECT_EQ(fedavg["IGD+"], fmt::format("{:.3f}", (.2 / 2 + std::hypot(.4, .8)) / 2));
  EXPECT_EQ(fedavg["sets"], "2");
  EXPECT_EQ(fedavg["solutions"], "2");
  const nlohmann::json& apo = rows[3];
  EXPECT_EQ(apo["method"], "apo");
  // Scores .5 and 1: mean .75, standard error .25.
  EXPECT_EQ(apo["score"], "0.750");
  EXPECT_EQ(apo["score 95 %"], interval(.75, kT1 * .25));
  EXPECT_EQ(apo["HV"], "0.620");
  const auto ranges =
      table_of(json_report(two_methods()), "Score range (exp(-loss), of these runs)");
  ASSERT_EQ(ranges.size(), 2U);
  EXPECT_EQ(ranges[0]["objective"], "helpfulness");
  EXPECT_EQ(ranges[0]["min"], "0");
  EXPECT_EQ(ranges[0]["max"], "1");
  EXPECT_EQ(ranges[0]["clipped"], "0");
}

TEST(Report, SeedsAreAveragedWithIntervalsOverSeeds) {
  std::vector<RunResults> runs;
  // Hypervolumes and scores of apo's single client over the seeds: .04/.2, .16/.4, .36/.6.
  for (const std::int64_t seed : {1, 2, 3}) {
    const double x = .2 * static_cast<double>(seed);
    runs.push_back(sample_run("apo", seed, {{"adapted", 0, {x, x}}}));
    runs.push_back(sample_run("base", seed, {{"base", 0, {0., 1.}}, {"base", 0, {1., 0.}}}));
  }
  const Report report = make_report(runs, {});
  EXPECT_TRUE(report.warnings.empty());
  const auto rows = table_of(json_report(runs), "Normalised preference-weighted score");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0]["method"], "base");
  EXPECT_EQ(rows[0]["sets"], "3");
  EXPECT_EQ(rows[0]["solutions"], "6");
  const nlohmann::json& apo = rows[1];
  EXPECT_EQ(apo["over"], "3 seeds");
  EXPECT_EQ(apo["score"], "0.400");
  EXPECT_EQ(apo["score 95 %"], interval(.4, kT2 * .2 / std::sqrt(3.0)));
  const double mean = (.04 + .16 + .36) / 3;
  const double variance =
      (std::pow(.04 - mean, 2) + std::pow(.16 - mean, 2) + std::pow(.36 - mean, 2)) / 2;
  EXPECT_EQ(apo["HV"], fmt::format("{:.3f}", mean));
  EXPECT_EQ(apo["HV 95 %"], interval(mean, kT2 * std::sqrt(variance / 3)));
  // R is {(0,1), (1,0), (x,x)}: apo misses the corners by sqrt(x^2 + (1-x)^2) each.
  const double igd = 2.0 / 3 * (std::hypot(.2, .8) + std::hypot(.4, .6) + std::hypot(.6, .4)) / 3;
  EXPECT_EQ(apo["IGD"], fmt::format("{:.3f}", igd));
}

TEST(Report, AverageAndBestCheckpointPerCluster) {
  const auto at = [](std::int64_t start_round, std::int64_t client, std::int64_t cluster,
                     std::vector<double> solution) {
    return SampleRow{.stage = "adapted",
                     .client = client,
                     .solution = std::move(solution),
                     .start_round = start_round,
                     .cluster = cluster};
  };
  const std::vector<RunResults> runs = {
      sample_run("apo", 1,
                 {at(130, 0, 0, {.2, .4}), at(130, 1, 1, {1., 1.}), at(150, 0, 0, {.6, .8}),
                  at(150, 1, 1, {0., 0.})}),
      sample_run("fedavg", 1, {at(130, 0, 0, {.2, .4}), at(130, 1, 1, {.5, .5})})};
  const auto rows = table_of(json_report(runs), "Solution sets per cluster");
  ASSERT_EQ(rows.size(), 6U);
  EXPECT_EQ(rows[0]["cluster"], "0");
  EXPECT_EQ(rows[0]["method"], "fedavg");
  EXPECT_EQ(rows[1]["method"], "apo");
  EXPECT_EQ(rows[1]["checkpoints"], "2");
  EXPECT_EQ(rows[1]["score average"], "0.500");
  EXPECT_EQ(rows[1]["score best"], "0.700");
  EXPECT_EQ(rows[1]["solutions"], "2");
  EXPECT_EQ(rows[3]["cluster"], "1");
  EXPECT_EQ(rows[3]["score best"], "1.000");
  EXPECT_EQ(rows[5]["cluster"], "all");
  EXPECT_EQ(rows[5]["score average"], "0.500") << "mean over clusters";
  EXPECT_EQ(rows[5]["score best"], "0.850");
  EXPECT_EQ(rows[5]["IGD"], "0.000");
}

TEST(Report, FrozenRangesClipAndCount) {
  ReportOptions options;
  options.range = FrozenRange{{"helpfulness", "brevity"}, "exp(-loss)", {{.5, .9}, {.3, .3}}, 99};
  const Report report = make_report(two_methods(), options);
  EXPECT_TRUE(mentions(report.warnings, "objective helpfulness: 5 of 8 scores lie outside"));
  EXPECT_TRUE(mentions(report.warnings, "objective brevity: all scores of the range are equal"));
  const auto json = json_report(two_methods(), options);
  const auto ranges = table_of(json, "Score range (exp(-loss), frozen over 99 solutions)");
  ASSERT_EQ(ranges.size(), 2U);
  EXPECT_EQ(ranges[0]["clipped"], "5");
  EXPECT_EQ(ranges[0]["of"], "8");
  EXPECT_EQ(ranges[1]["note"], "zero range: normalised score 0.5");
  // apo adapted: (.6,.4) -> (.25,.5), (1,1) -> (1,.5).
  const auto rows = table_of(json, "Normalised preference-weighted score");
  EXPECT_EQ(rows[3]["score"], fmt::format("{:.3f}", (.375 + .875) / 2));
  // One run alone has sets to show when a range brings the others along.
  EXPECT_TRUE(table_of(json_report({two_methods()[0]}), "Score range").empty());
  EXPECT_FALSE(table_of(json_report({two_methods()[0]}, options), "Score range").empty());
}

TEST(Report, RefusesRangesOfSomethingElse) {
  ReportOptions options;
  options.range = FrozenRange{{"helpfulness", "honesty"}, "exp(-loss)", {{0, 1}, {0, 1}}, 9};
  EXPECT_THROW(static_cast<void>(make_report(two_methods(), options)), Error);
  options.range = FrozenRange{{"helpfulness", "brevity"}, "mean reward", {{0, 1}, {0, 1}}, 9};
  EXPECT_THROW(static_cast<void>(make_report(two_methods(), options)), Error);
}

TEST(Report, SaysWhatWeakensTheComparison) {
  std::vector<RunResults> runs = two_methods();
  runs.push_back(sample_run("apo", 2, {{"adapted", 0, {.6, .4}}}));
  EXPECT_TRUE(mentions(make_report(runs, {}).warnings, "seed 2: the reference fronts lack fedavg"));
  runs = two_methods();
  runs.push_back(runs[0]);
  EXPECT_TRUE(mentions(make_report(runs, {}).warnings, "2 runs of 'fedavg' with seed 1"));
  runs = two_methods();
  runs[1] = sample_run("apo", 1, {{.stage = "adapted", .solution = {.6, .4}, .cluster = 3}});
  EXPECT_TRUE(mentions(make_report(runs, {}).warnings, "in different clusters"));
  const auto rows = table_of(json_report(runs), "Solution sets per cluster");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0]["cluster"], "all");
  runs[1] = sample_run("apo", 1, {{.stage = "adapted", .solution = {3, 4}, .reward = {3, 4}}});
  EXPECT_TRUE(mentions(make_report(runs, {}).warnings, "scores of different kinds"));
  EXPECT_TRUE(table_of(json_report(runs), "Solution sets").empty());
  runs[1] = sample_run("apo", 1, {{"adapted", 0, {.6, kNaN}}});
  EXPECT_TRUE(mentions(make_report(runs, {}).warnings, "1 solutions lack the score"));
  const auto warnings = table_of(json_report(runs), "Warnings");
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0]["warning"].get<std::string>().find("apo-1: 1 solutions"),
            std::string::npos);
  EXPECT_TRUE(make_report(two_methods(), {}).warnings.empty());
  EXPECT_TRUE(table_of(json_report(two_methods()), "Warnings").empty());
}

TEST(Report, ChebyshevGapsByBudget) {
  std::vector<RunResults> runs;
  for (const std::int64_t budget : {16, 2}) {
    for (const std::int64_t seed : {1, 2, 3}) {
      const double gap = static_cast<double>(seed) / static_cast<double>(budget);
      runs.push_back(sample_run("apo", seed,
                                {{.stage = "base", .gap = 8},
                                 {.stage = "initialiser", .gap = 2 * gap},
                                 {.stage = "initialiser", .client = 1, .gap = 4 * gap},
                                 {.stage = "adapted", .gap = gap},
                                 {.stage = "adapted", .client = 1, .gap = 2 * gap}}));
      test::set_budget(runs.back(), budget);
    }
  }
  runs.push_back(sample_run("fedavg", 1,
                            {{.stage = "initialiser", .gap = 3},
                             {.stage = "adapted", .gap = 1},
                             {.stage = "adapted", .client = 1, .gap = 5}}));
  const auto report = json_report(runs);
  const auto rows = table_of(report, "Chebyshev gap of test clients");
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0]["method"], "fedavg");
  EXPECT_EQ(rows[0]["over"], "2 clients");
  EXPECT_EQ(rows[0]["adapted"], "3");
  EXPECT_EQ(rows[0]["adapted 95 %"], interval(3, kT1 * 2, "{:.4g}"));
  EXPECT_EQ(rows[0]["initialiser 95 %"], "-") << "one client";
  EXPECT_EQ(rows[0]["base"], "-");
  EXPECT_EQ(rows[1]["method"], "apo");
  EXPECT_EQ(rows[1]["budget"], "2");
  EXPECT_EQ(rows[1]["clusters"], "2");
  EXPECT_EQ(rows[2]["budget"], "16");
  EXPECT_EQ(rows[2]["over"], "3 seeds");
  EXPECT_EQ(rows[2]["clients"], "6");
  EXPECT_EQ(rows[2]["base"], "8");
  // Means of the seeds: 1.5/16, 3/16, 4.5/16.
  EXPECT_EQ(rows[2]["adapted"], "0.1875");
  EXPECT_EQ(rows[2]["adapted 95 %"], interval(.1875, kT2 * (1.5 / 16) / std::sqrt(3.0), "{:.4g}"));
  EXPECT_EQ(rows[2]["initialiser"], "0.375");
  EXPECT_EQ(rows[2]["distance adapted"], "0.375");
  const auto pairs = table_of(report, "Paired differences of the Chebyshev gap");
  ASSERT_FALSE(pairs.empty());
  EXPECT_EQ(pairs[0]["difference"], "apo clustering.budget=16 - fedavg");
  EXPECT_EQ(pairs[0]["over"], "2 clients") << "seed 1 alone has both";
  EXPECT_EQ(pairs[0]["better for"], "2 of 2 clients");
  // Clients: 1/16 - 1 and 2/16 - 5.
  EXPECT_EQ(pairs[0]["mean"], fmt::format("{:+.3g}", (1.0 / 16 - 1 + 2.0 / 16 - 5) / 2));
  EXPECT_EQ(pairs[1]["difference"], "apo clustering.budget=16 - apo clustering.budget=2");
  EXPECT_EQ(pairs[1]["over"], "3 seeds");
  EXPECT_TRUE(table_of(json_report(two_methods()), "Chebyshev gap").empty());
}

TEST(Report, LossesChebyshevUniformityAndAccuracyPerStage) {
  const RunResults run = sample_run(
      "apo", 1,
      {{.stage = "adapted", .client = 0, .loss = {2, 4}, .accuracy = {.5, 1}, .chebyshev = 2},
       {.stage = "adapted",
        .client = 1,
        .loss = {1, kNaN},
        .accuracy = {.25, kNaN},
        .chebyshev = 1},
       {.stage = "base", .client = 0, .loss = {8, 8}, .chebyshev = 4}});
  const auto rows = table_of(json_report({run}), "Held-out losses and accuracy");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0]["stage"], "base");
  EXPECT_EQ(rows[0]["loss"], "8");
  EXPECT_EQ(rows[0]["accuracy"], "-");
  EXPECT_EQ(rows[1]["stage"], "adapted");
  EXPECT_EQ(rows[1]["over"], "2 clients");
  EXPECT_EQ(rows[1]["loss"], "2") << "3 and 1: over the objectives that were held out";
  EXPECT_EQ(rows[1]["loss 95 %"], interval(2, kT1, "{:.4g}"));
  EXPECT_EQ(rows[1]["chebyshev"], "1.5");
  EXPECT_EQ(rows[1]["uniformity"], "0.75");
  EXPECT_EQ(rows[1]["accuracy"], "0.5");
  EXPECT_TRUE(table_of(json_report(two_methods()), "Held-out losses").empty());
}

TEST(Report, ComparesScoresOrElseLosses) {
  const std::vector<RunResults> scored = {
      sample_run("base", 1,
                 {{.stage = "base", .client = 0, .score = .1},
                  {.stage = "base", .client = 1, .score = .2}},
                 true),
      sample_run("apo", 1,
                 {{.stage = "initialiser", .client = 0, .score = .2},
                  {.stage = "initialiser", .client = 1, .score = .3},
                  {.stage = "adapted", .client = 0, .score = .5},
                  {.stage = "adapted", .client = 1, .score = .2}},
                 true)};
  auto rows = table_of(json_report(scored), "Paired differences of the preference-weighted score");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0]["difference"], "apo - base");
  EXPECT_EQ(rows[0]["mean"], "+0.200");
  EXPECT_EQ(rows[0]["95 % interval"], interval(.2, kT1 * .2, "{:+.3f}"));
  EXPECT_EQ(rows[0]["better for"], "1 of 2 clients");
  EXPECT_EQ(rows[1]["difference"], "apo: adaptation");
  EXPECT_EQ(rows[1]["mean"], "+0.100");
  const auto clusters = table_of(json_report(scored), "Test clients per cluster");
  ASSERT_EQ(clusters.size(), 4U);
  EXPECT_EQ(clusters[3]["method"], "apo");
  EXPECT_EQ(clusters[3]["score before"], "0.250");
  EXPECT_EQ(clusters[3]["score after"], "0.350");

  const std::vector<RunResults> losses = {
      sample_run("apo", 1,
                 {{.stage = "base", .client = 1, .loss = {2, 1}},
                  {.stage = "initialiser", .client = 1, .loss = {1, 1}},
                  {.stage = "adapted", .client = 1, .loss = {.5, kNaN}}},
                 true)};
  rows = table_of(json_report(losses), "Paired differences of the held-out loss");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0]["mean"], "-0.500") << "lambda'l over what was held out";
  EXPECT_EQ(rows[1]["difference"], "apo - its base");
  EXPECT_EQ(rows[1]["mean"], "-1.250");
  EXPECT_EQ(rows[1]["better for"], "1 of 1 clients");
}

TEST(Report, MethodsWithoutAdaptationOrTrainingHaveTheirPlace) {
  const std::vector<RunResults> runs = {
      sample_run("rewarded_soup", 1,
                 {{.stage = "base", .score = .1}, {.stage = "initialiser", .score = .4}}),
      sample_run("fspo", 1, {{.stage = "base", .score = .1}, {.stage = "adapted", .score = .3}})};
  const auto clusters = table_of(json_report(runs), "Test clients per cluster");
  ASSERT_EQ(clusters.size(), 4U);
  EXPECT_EQ(clusters[0]["method"], "rewarded_soup");
  EXPECT_EQ(clusters[0]["score before"], "0.400");
  EXPECT_EQ(clusters[0]["score after"], "0.400");
  EXPECT_EQ(clusters[1]["score before"], "0.100");
  const auto rows = table_of(json_report(runs), "Paired differences");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0]["difference"], "fspo - rewarded_soup");
  EXPECT_EQ(rows[1]["difference"], "fspo: adaptation") << "a soup does not adapt";
}

TEST(Report, Formats) {
  std::vector<RunResults> runs = two_methods();
  for (RunResults& run : runs) {
    run.objectives = {"help, \"really\"", "brevity"};
  }
  const std::string csv = format_tables(runs, TableFormat::kCsv);
  EXPECT_NE(csv.find("\"help, \"\"really\"\"\",0,1,0,8,\n"), std::string::npos) << csv;
  EXPECT_NE(csv.find("fedavg,adapted,2 clients,2,0.500,\"[0.500, 0.500]\",0.180,-"),
            std::string::npos);
  const std::string markdown = format_tables(runs, TableFormat::kMarkdown);
  EXPECT_NE(markdown.find("**Solution sets per cluster"), std::string::npos);
  EXPECT_NE(markdown.find("\n| objective | min | max | clipped | of | note |\n| --- | --- |"),
            std::string::npos);
  const std::string text = format_tables(runs, TableFormat::kText);
  EXPECT_NE(text.find("\nbrevity         0    1    0        8\n"), std::string::npos) << text;
  EXPECT_EQ(format_tables({sample_run("apo", 1, {})}, TableFormat::kText),
            "no test clients, nothing to compare\n");
  runs[1].objectives = {"a", "b", "c"};
  EXPECT_THROW(static_cast<void>(format_tables(runs, TableFormat::kText)), Error);
  EXPECT_THROW(static_cast<void>(score_range_of(runs)), Error);
}

}  // namespace
}  // namespace apo::cli
