#include "apo/methods/probe.hpp"

#include <algorithm>
#include <cmath>

#include "probe_check.hpp"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "apo/core/error.hpp"

namespace apo::methods {
namespace {

constexpr int kCases = 60;

const ProbeCheck& find(const ProbeReport& report, const std::string& part) {
  const auto it =
      std::find_if(report.checks.begin(), report.checks.end(), [&](const ProbeCheck& check) {
        return (check.id + " " + check.statement).find(part) != std::string::npos;
      });
  EXPECT_NE(it, report.checks.end()) << part;
  return *it;
}

TEST(Probe, GuaranteedStatementsHold) {
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    ProbeOptions options;
    options.seed = seed;
    options.cases = kCases;
    const ProbeReport report = run_probe(options);
    EXPECT_EQ(report.first_failure(), nullptr) << failure_line(*report.first_failure());
    for (const char* id : {"T2 => T1", "T3 => T2", "H ", "Delta", "T4", "T5", "T6", "T7", "T8",
                           "T9", "T10", "T11", "T12", "T13", "1.5", "T-G"}) {
      EXPECT_GT(find(report, id).cases, 0) << id;
    }
  }
}

TEST(Probe, IsAFunctionOfItsOptions) {
  ProbeOptions options;
  options.cases = 20;
  const std::string once = format_report(run_probe(options), ProbeFormat::kJson);
  EXPECT_EQ(once, format_report(run_probe(options), ProbeFormat::kJson));
  options.seed = 2;
  EXPECT_NE(once, format_report(run_probe(options), ProbeFormat::kJson));
  options.cases = 0;
  EXPECT_THROW((void)run_probe(options), Error);
}

TEST(Probe, ASmoothnessThatIsTooSmallIsFound) {
  ProbeOptions options;
  options.cases = kCases;
  options.smoothness_factor = 0.5;
  const ProbeReport report = run_probe(options);
  const ProbeCheck& loss = find(report, "(56)");
  EXPECT_EQ(loss.verdict, Verdict::kFail);
  EXPECT_GT(loss.violations, 0);
  EXPECT_LT(loss.worst, -1e-3);
  EXPECT_EQ(find(report, "(58)").verdict, Verdict::kFail);
  ASSERT_NE(report.first_failure(), nullptr);
  EXPECT_NE(failure_line(*report.first_failure()).find("violated"), std::string::npos);
  // What does not rest on it stays well.
  for (const char* well : {"(22)", "(14)", "(78)", "(42)", "Lemma 8"}) {
    EXPECT_EQ(find(report, well).verdict, Verdict::kPass) << well;
  }
}

TEST(Probe, ADeviationThatIsTooSmallIsFound) {
  ProbeOptions options;
  options.cases = kCases;
  options.deviation_factor = 0.3;
  const ProbeReport report = run_probe(options);
  EXPECT_EQ(find(report, "(23) => dbar'd_bal").verdict, Verdict::kFail);
  EXPECT_EQ(find(report, "(22)").verdict, Verdict::kFail);
  EXPECT_EQ(find(report, "(56)").verdict, Verdict::kPass);
  // The confusion table shows the same: clients with T2 and without T1.
  const ProbeTable& table = report.tables.front();
  int count = 0;
  for (const auto& row : table.rows) {
    if (row[0].find("dbar'd_bal") != std::string::npos) {
      count += std::stoi(row[3]);
    }
  }
  EXPECT_EQ(count, find(report, "(23) => dbar'd_bal").violations);
}

TEST(Probe, ANoiseVarianceThatIsTooSmallIsFound) {
  ProbeOptions options;
  options.cases = kCases;
  options.noise_factor = 0.5;
  const ProbeReport report = run_probe(options);
  EXPECT_EQ(find(report, "Theorem 3.4").verdict, Verdict::kFail);
  EXPECT_EQ(find(report, "keep the bottleneck").verdict, Verdict::kPass);
}

// Frequencies of algorithms.md 1.5: gamma* <= 0 in 60 % (m = 2) to 84 % (m = 5) of instances with a
// strong common gradient, in 0.5 to 4.5 % of independent ones, never near stationarity.
TEST(Probe, FrequenciesOfStatementsThatFail) {
  ProbeOptions options;
  options.cases = 400;
  const ProbeReport report = run_probe(options);
  const auto table = std::find_if(report.tables.begin(), report.tables.end(), [](const auto& t) {
    return t.title.find("1.5") != std::string::npos;
  });
  ASSERT_NE(table, report.tables.end());
  ASSERT_EQ(table->rows.size(), 12U);
  for (const auto& row : table->rows) {
    const double share = std::stod(row[2]);
    if (row[0] == "independent") {
      EXPECT_LT(share, 6.0);
    } else if (row[0] == "strong common part") {
      EXPECT_NEAR(share, row[1] == "2" ? 60.0 : (row[1] == "5" ? 84.0 : 75.0), 10.0);
    } else {
      EXPECT_EQ(share, 0.0);
    }
    EXPECT_EQ(std::stod(row[6]), 0.0);
  }
  EXPECT_GT(find(report, "premise of (48)").violations, 0);
}

TEST(ProbeCheckTest, AStatementThatWasNeverTestedFails) {
  probe::Check never("X", "never", "nothing");
  EXPECT_EQ(never.result().verdict, Verdict::kFail);
  EXPECT_NE(failure_line(never.result()).find("no case"), std::string::npos);

  probe::Check slack("X", "slack", "two numbers");
  slack.slack(0.5, 2.0);
  slack.slack(-1e-13, 1.0);
  EXPECT_EQ(slack.result().verdict, Verdict::kPass);
  EXPECT_DOUBLE_EQ(slack.result().worst, -1e-13);
  slack.slack(-1e-3, 10.0);
  EXPECT_EQ(slack.result().verdict, Verdict::kFail);
  EXPECT_EQ(slack.result().violations, 1);

  probe::Check undefined("X", "slack that is not a number", "one");
  undefined.slack(std::nan(""), 1.0);
  EXPECT_EQ(undefined.result().verdict, Verdict::kFail);

  probe::Check ratio("X", "ratio", "two numbers");
  ratio.ratio(0.25);
  ratio.ratio(1.0 + 1e-6);
  EXPECT_EQ(ratio.result().violations, 1);
  EXPECT_DOUBLE_EQ(ratio.result().worst, 1.0 + 1e-6);

  probe::Check measured("X", "no promise", "one", false);
  measured.holds(false);
  EXPECT_EQ(measured.result().verdict, Verdict::kMeasured);
}

TEST(ProbeFormat, ThreeFormats) {
  ProbeReport report;
  report.options.seed = 7;
  ProbeCheck good;
  good.id = "T1";
  good.statement = "|x| >= 0";
  good.tested_on = "numbers";
  good.cases = 3;
  good.worst = 0.25;
  good.worst_of = "ratio";
  good.verdict = Verdict::kPass;
  ProbeCheck bad = good;
  bad.id = "T2";
  bad.violations = 1;
  bad.worst = std::nan("");
  bad.verdict = Verdict::kFail;
  report.checks = {good, bad};
  report.tables = {{"A table", {"a", "b"}, {{"1", "2"}}}};

  const std::string text = format_report(report, ProbeFormat::kText);
  EXPECT_NE(text.find("1 of 2 guaranteed statements held, 0 measured (seed 7"), std::string::npos);
  EXPECT_NE(text.find("FAIL: T2"), std::string::npos);
  EXPECT_NE(text.find("A table\na  b\n1  2\n"), std::string::npos);

  const std::string markdown = format_report(report, ProbeFormat::kMarkdown);
  EXPECT_NE(markdown.find("| T1 | \\|x\\| >= 0 | numbers | 3 | 0 | ratio 0.25 | pass |"),
            std::string::npos);
  EXPECT_NE(markdown.find("| a | b |\n| --- | --- |\n| 1 | 2 |"), std::string::npos);

  const auto json = nlohmann::json::parse(format_report(report, ProbeFormat::kJson));
  EXPECT_FALSE(json["passed"].get<bool>());
  EXPECT_EQ(json["checks"][0]["worst"].get<double>(), 0.25);
  EXPECT_TRUE(json["checks"][1]["worst"].is_null());
  EXPECT_EQ(json["tables"][0]["rows"][0][1], "2");
}

}  // namespace
}  // namespace apo::methods
