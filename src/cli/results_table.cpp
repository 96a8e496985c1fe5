#include "results_table.hpp"

#include <map>
#include <utility>

#include "results_rows.hpp"
#include "results_sections.hpp"
#include "results_text.hpp"
#include <fmt/format.h>

#include "apo/core/error.hpp"
#include "apo/store/document.hpp"

namespace apo::cli {
namespace {

/// Runs that look alike in everything that counts are averaged as if they were one.
std::vector<std::string> warn_of_twins(const std::vector<RunResults>& runs,
                                       const std::vector<std::string>& labels) {
  std::map<std::pair<std::string, std::int64_t>, std::vector<std::string>> dirs;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    dirs[{labels[r], runs[r].seed}].push_back(runs[r].dir.string());
  }
  std::vector<std::string> warnings;
  for (const auto& [key, list] : dirs) {
    if (list.size() > 1) {
      warnings.push_back(
          fmt::format("{} runs of '{}' with seed {} and equal settings are averaged: {} and {}",
                      list.size(), key.first, key.second, list[0], list[1]));
    }
  }
  return warnings;
}

}  // namespace

RunResults read_results(const std::filesystem::path& dir) {
  const std::filesystem::path file = std::filesystem::is_directory(dir) ? dir / "run.h5" : dir;
  if (!std::filesystem::exists(file)) {
    throw Error(Fault::kData, fmt::format("{}: no such file; expected a run directory with run.h5",
                                          file.string()));
  }
  const store::Document document = store::read_document(file);
  RunResults run;
  run.dir = dir;
  run.method = std::get<std::string>(document.attribute("", "method"));
  run.seed = std::get<std::int64_t>(document.attribute("", "seed"));
  run.objectives = std::get<std::vector<std::string>>(document.attribute("", "objectives"));
  const store::Array& preference = document.array("clients/preference");
  const auto& flat = std::get<std::vector<double>>(preference.values);
  const std::size_t m = run.objectives.size();
  for (std::size_t i = 0; i < flat.size(); i += m) {
    run.preference.emplace_back(flat.begin() + static_cast<std::ptrdiff_t>(i),
                                flat.begin() + static_cast<std::ptrdiff_t>(i + m));
  }
  if (!document.arrays.contains("evaluation/summary/client")) {
    throw Error(Fault::kData,
                fmt::format("{}: the run is not finished, it has no evaluation yet; continue it "
                            "with apo run --out {}",
                            file.string(), dir.string()));
  }
  run.evaluation = document.get_table("evaluation/summary");
  if (document.attributes.at("").contains("configuration")) {
    run.configuration = std::get<std::string>(document.attribute("", "configuration"));
  }
  if (const auto clusters = document.arrays.find("clusters/id");
      clusters != document.arrays.end()) {
    run.num_clusters = clusters->second.shape.at(0);
  }
  return run;
}

Report make_report(const std::vector<RunResults>& runs, const ReportOptions& options) {
  check_objectives(runs);
  const std::vector<std::string> labels = run_labels(runs);
  std::vector<Row> rows;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const std::vector<Row> more = rows_of(runs[r], labels[r]);
    rows.insert(rows.end(), more.begin(), more.end());
  }
  if (rows.empty()) {
    return {"no test clients, nothing to compare\n", {}};
  }
  Report report;
  report.warnings = warn_of_twins(runs, labels);
  std::vector<TextTable> tables = {cluster_table(rows, runs[0].objectives)};
  for (TextTable& table : comparison_tables(rows)) {
    tables.push_back(std::move(table));
  }
  tables.push_back(loss_table(rows));
  tables.push_back(gap_table(runs, labels, rows));
  // One run alone has no other methods to be measured against, unless a range brings them along.
  if (runs.size() > 1 || options.range) {
    FrontSection fronts = front_section(runs, labels, options.range ? &*options.range : nullptr);
    tables.insert(tables.end(), fronts.tables.begin(), fronts.tables.end());
    report.warnings.insert(report.warnings.end(), fronts.warnings.begin(), fronts.warnings.end());
  }
  TextTable warnings = {"Warnings", {"warning"}, {}};
  for (const std::string& warning : report.warnings) {
    warnings.rows.push_back({warning});
  }
  tables.push_back(std::move(warnings));
  report.text = render(tables, options.format);
  return report;
}

std::string format_tables(const std::vector<RunResults>& runs, TableFormat format) {
  return make_report(runs, {format, std::nullopt}).text;
}

}  // namespace apo::cli
