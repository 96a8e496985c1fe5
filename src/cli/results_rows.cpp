#include "results_rows.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <span>

#include <fmt/format.h>

#include "apo/core/error.hpp"
#include "apo/methods/solution_sets.hpp"

namespace apo::cli {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

template <class T>
const std::vector<T>& column(const Table& table, std::string_view name) {
  const Column* found = table.find(name);
  if (found == nullptr || !std::holds_alternative<std::vector<T>>(found->values)) {
    throw Error(Fault::kData, fmt::format("run.h5: evaluation/summary has no column '{}'", name));
  }
  return std::get<std::vector<T>>(found->values);
}

/// One number per row, NaN in files without this column.
std::vector<double> optional_column(const Table& table, std::string_view name) {
  return table.find(name) == nullptr
             ? std::vector<double>(static_cast<std::size_t>(table.num_rows()), kNaN)
             : column<double>(table, name);
}

/// Preference-weighted mean over the objectives that have a value; NaN when none has.
double weighted(std::span<const double> values, const std::vector<double>& preference) {
  double sum = 0.0;
  double mass = 0.0;
  for (std::size_t j = 0; j < values.size(); ++j) {
    if (!std::isnan(values[j])) {
      sum += preference[j] * values[j];
      mass += preference[j];
    }
  }
  return sum / mass;
}

}  // namespace

void check_objectives(const std::vector<RunResults>& runs) {
  for (const RunResults& run : runs) {
    if (run.objectives != runs[0].objectives) {
      throw Error(Fault::kData,
                  fmt::format("{} and {} have different objectives and cannot share a table",
                              runs[0].dir.string(), run.dir.string()));
    }
  }
}

std::vector<Row> rows_of(const RunResults& run, const std::string& label) {
  const Table& t = run.evaluation;
  const std::size_t m = run.objectives.size();
  const auto& start_round = column<std::int64_t>(t, "start_round");
  const auto& cluster = column<std::int64_t>(t, "cluster");
  const auto& client = column<std::int64_t>(t, "client");
  const auto& stage = column<std::string>(t, "stage");
  const auto& loss = column<double>(t, "loss");
  const auto& accuracy = column<double>(t, "accuracy");
  const auto& reward = column<double>(t, "reward");
  const auto& parse_rate = column<double>(t, "parse_rate");
  const auto& score = column<double>(t, "score");
  const auto& normalised = column<double>(t, "score_normalised");
  const std::vector<double> chebyshev = optional_column(t, "chebyshev");
  const std::vector<double> uniformity = optional_column(t, "uniformity");
  const std::vector<double> gap = optional_column(t, "chebyshev_gap");
  const std::vector<double> distance = optional_column(t, "distance");
  std::vector<Row> rows(static_cast<std::size_t>(t.num_rows()));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (client[i] < 0 || static_cast<std::size_t>(client[i]) >= run.preference.size()) {
      throw Error(
          Fault::kData,
          fmt::format("{}: evaluation/summary row {} is about client {}, expected one of {}",
                      run.dir.string(), i, client[i], run.preference.size()));
    }
    Row& row = rows[i];
    row.label = label;
    row.seed = run.seed;
    row.start_round = start_round[i];
    row.cluster = cluster[i];
    row.client = client[i];
    row.stage = stage[i];
    row.reward.assign(reward.begin() + static_cast<std::ptrdiff_t>(i * m),
                      reward.begin() + static_cast<std::ptrdiff_t>((i + 1) * m));
    const std::vector<double>& preference = run.preference[static_cast<std::size_t>(client[i])];
    row.weighted_loss = weighted(std::span(loss).subspan(i * m, m), preference);
    row.weighted_accuracy = weighted(std::span(accuracy).subspan(i * m, m), preference);
    row.chebyshev = chebyshev[i];
    row.uniformity = uniformity[i];
    row.parse_rate = parse_rate[i];
    row.score = std::isnan(normalised[i]) ? score[i] : normalised[i];
    row.gap = gap[i];
    row.distance = distance[i];
  }
  return rows;
}

std::vector<std::string> labels_of(const std::vector<Row>& rows) {
  std::vector<std::string> labels;
  for (const Row& row : rows) {
    if (labels.empty() || labels.back() != row.label) {
      labels.push_back(row.label);
    }
  }
  std::sort(labels.begin(), labels.end(), label_before);
  labels.erase(std::unique(labels.begin(), labels.end()), labels.end());
  return labels;
}

std::vector<std::string> stages_of(const std::vector<Row>& rows, const std::string& label) {
  std::set<std::string> stages;
  for (const Row& row : rows) {
    if (row.label == label) {
      stages.insert(row.stage);
    }
  }
  return {stages.begin(), stages.end()};
}

Rows at_stage(const std::vector<Row>& rows, const std::string& label, const std::string& stage) {
  Rows chosen;
  for (const Row& row : rows) {
    if (row.label == label && row.stage == stage) {
      chosen.push_back(&row);
    }
  }
  return chosen;
}

Rows after_adaptation(const std::vector<Row>& rows, const std::string& label) {
  return at_stage(rows, label, methods::final_stage(stages_of(rows, label)));
}

Rows before_adaptation(const std::vector<Row>& rows, const std::string& label) {
  std::vector<std::string> stages = stages_of(rows, label);
  if (stages.size() > 1) {
    std::erase(stages, "adapted");
  }
  return at_stage(rows, label, methods::final_stage(stages));
}

Rows in_cluster(const Rows& rows, std::optional<std::int64_t> cluster) {
  Rows chosen;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(chosen),
               [&](const Row* row) { return !cluster || row->cluster == *cluster; });
  return chosen;
}

double mean(const Rows& rows, const Measure& of) {
  double sum = 0.0;
  for (const Row* row : rows) {
    sum += of(*row);
  }
  return rows.empty() ? kNaN : sum / static_cast<double>(rows.size());
}

bool has_any(const std::vector<Row>& rows, const Measure& of) {
  return std::any_of(rows.begin(), rows.end(),
                     [&](const Row& row) { return !std::isnan(of(row)); });
}

std::map<ClientKey, double> by_client(const Rows& rows, const Measure& of) {
  std::map<ClientKey, std::pair<double, int>> sums;
  for (const Row* row : rows) {
    auto& [sum, count] = sums[{row->seed, row->client}];
    sum += of(*row);
    ++count;
  }
  std::map<ClientKey, double> means;
  for (const auto& [key, entry] : sums) {
    means[key] = entry.first / entry.second;
  }
  return means;
}

std::string Estimate::over() const {
  return num_seeds > 1 ? fmt::format("{} seeds", num_seeds)
                       : fmt::format("{} clients", num_clients);
}

std::optional<Estimate> estimate(const std::map<ClientKey, double>& values) {
  std::map<std::int64_t, std::vector<double>> by_seed;
  Estimate result;
  for (const auto& [key, value] : values) {
    if (!std::isnan(value)) {
      by_seed[key.first].push_back(value);
      ++result.num_clients;
    }
  }
  if (by_seed.empty()) {
    return std::nullopt;
  }
  result.num_seeds = static_cast<int>(by_seed.size());
  std::vector<double> units;
  for (const auto& [seed, list] : by_seed) {
    if (result.num_seeds == 1) {
      units = list;
    } else {
      double sum = 0.0;
      for (const double x : list) {
        sum += x;
      }
      units.push_back(sum / static_cast<double>(list.size()));
    }
  }
  result.interval = metrics::mean_interval(units);
  return result;
}

}  // namespace apo::cli
