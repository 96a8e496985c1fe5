#pragma once

/// @file
/// Finished runs in memory, for the tables of apo report.

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "results_table.hpp"
#include <nlohmann/json.hpp>

namespace apo::cli::test {

inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// One row of evaluation/summary over two objectives.
struct SampleRow {
  std::string stage;
  std::int64_t client = 0;
  std::vector<double> solution = {kNaN, kNaN};
  std::vector<double> loss = {1.0, 1.0};
  double score = kNaN;
  double gap = kNaN;
  std::int64_t start_round = 0;
  std::int64_t cluster = 0;
  std::vector<double> reward = {kNaN, kNaN};
  std::vector<double> accuracy = {kNaN, kNaN};
  double chebyshev = kNaN;
};

/// Without the newer columns when `old`: then a row's solution stands in the column `reward`.
inline RunResults sample_run(const std::string& method, std::int64_t seed,
                             const std::vector<SampleRow>& rows, bool old = false) {
  RunResults run;
  run.dir = method + "-" + std::to_string(seed);
  run.method = method;
  run.seed = seed;
  run.objectives = {"helpfulness", "brevity"};
  run.preference = {{.5, .5}, {.75, .25}, {.25, .75}};
  run.configuration = "[method]\nname = " + method +
                      "\n\n[clustering]\nbudget = 1\n\n[runtime]\nseed = " + std::to_string(seed) +
                      "\n";
  run.num_clusters = 1;
  Table& table = run.evaluation;
  table.text("method", "");
  table.integer("start_round", "rounds", "");
  table.integer("cluster", "", "");
  table.integer("client", "", "");
  table.text("stage", "");
  table.real("loss", "nat", "", {2});
  table.real("accuracy", "1", "", {2});
  table.real("reward", "1", "", {2});
  for (const char* name : {"parse_rate", "score", "score_normalised"}) {
    table.real(name, "1", "");
  }
  if (!old) {
    table.real("solution", "1", "", {2});
    table.real("chebyshev", "nat", "");
    table.real("uniformity", "nat", "");
    table.real("chebyshev_gap", "nat", "");
    table.real("distance", "1", "");
  }
  for (const SampleRow& row : rows) {
    table.push("method", method);
    table.push("start_round", row.start_round);
    table.push("cluster", row.cluster);
    table.push("client", row.client);
    table.push("stage", row.stage);
    table.push("loss", std::span<const double>(row.loss));
    table.push("accuracy", std::span<const double>(row.accuracy));
    table.push("reward", std::span<const double>(old ? row.solution : row.reward));
    table.push("parse_rate", kNaN);
    table.push("score", row.score);
    table.push("score_normalised", kNaN);
    if (!old) {
      table.push("solution", std::span<const double>(row.solution));
      table.push("chebyshev", row.chebyshev);
      table.push("uniformity", .5 * row.chebyshev);
      table.push("chebyshev_gap", row.gap);
      table.push("distance", 2.0 * row.gap);
    }
  }
  return run;
}

inline void set_budget(RunResults& run, std::int64_t budget) {
  const std::string text = "budget = 1\n";
  run.configuration.replace(run.configuration.find(text), text.size(),
                            "budget = " + std::to_string(budget) + "\n");
  run.num_clusters = budget;
  run.dir += "-b" + std::to_string(budget);
}

inline nlohmann::json json_report(const std::vector<RunResults>& runs, ReportOptions options = {}) {
  options.format = TableFormat::kJson;
  return nlohmann::json::parse(make_report(runs, options).text);
}

/// Rows of the table whose title begins so; an empty list when there is none.
inline nlohmann::json table_of(const nlohmann::json& report, const std::string& title) {
  for (const nlohmann::json& table : report) {
    if (table["title"].get<std::string>().starts_with(title)) {
      return table["rows"];
    }
  }
  return nlohmann::json::array();
}

}  // namespace apo::cli::test
