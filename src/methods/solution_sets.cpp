#include "apo/methods/solution_sets.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "apo/core/error.hpp"

namespace apo::methods {
namespace {

/// From what a method starts with to what it ends with.
const std::array<std::string, 3> kStages = {"base", "initialiser", "adapted"};

template <class T>
const std::vector<T>& values_of(const Table& table, std::string_view name) {
  const Column* column = table.find(name);
  const auto* values = column == nullptr ? nullptr : std::get_if<std::vector<T>>(&column->values);
  if (values == nullptr) {
    throw Error(Fault::kData,
                fmt::format("evaluation/summary: expected a column '{}' of {}, found {}", name,
                            std::is_same_v<T, std::string> ? "text" : "numbers",
                            column == nullptr ? "none" : "another type"));
  }
  return *values;
}

/// Entries of one row, [m].
std::span<const double> row_of(const std::vector<double>& values, std::size_t row, std::size_t m) {
  return std::span<const double>(values).subspan(row * m, m);
}

int num_finite(std::span<const double> row) {
  return static_cast<int>(
      std::count_if(row.begin(), row.end(), [](double x) { return std::isfinite(x); }));
}

bool any_finite(const Table& summary, std::string_view name) {
  const Column* column = summary.find(name);
  return column != nullptr && num_finite(values_of<double>(summary, name)) > 0;
}

}  // namespace

std::string score_kind_name(ScoreKind kind) {
  switch (kind) {
    case ScoreKind::kNone:
      return "no scores";
    case ScoreKind::kReward:
      return "mean reward";
    case ScoreKind::kAccuracy:
      return "held-out accuracy";
    case ScoreKind::kLossMap:
      return "exp(-loss)";
  }
  return "unknown";
}

SolutionList solutions_of(const Table& summary, std::span<const std::vector<double>> preference,
                          std::int64_t seed) {
  const std::string_view name = summary.find("solution") != nullptr ? "solution" : "reward";
  const auto& score = values_of<double>(summary, name);
  const std::int64_t m = summary.find(name)->row_size();
  const auto& method = values_of<std::string>(summary, "method");
  const auto& stage = values_of<std::string>(summary, "stage");
  const auto& start_round = values_of<std::int64_t>(summary, "start_round");
  const auto& cluster = values_of<std::int64_t>(summary, "cluster");
  const auto& client = values_of<std::int64_t>(summary, "client");

  SolutionList list;
  const bool rewarded = any_finite(summary, "reward");
  if (rewarded) {
    list.kind = ScoreKind::kReward;
  } else if (any_finite(summary, name)) {
    list.kind = any_finite(summary, "accuracy") ? ScoreKind::kAccuracy : ScoreKind::kLossMap;
  }
  const auto width = static_cast<std::size_t>(m);
  for (std::size_t i = 0; i < method.size(); ++i) {
    const bool on_scale =
        !rewarded || num_finite(row_of(values_of<double>(summary, "reward"), i, width)) > 0;
    const std::span<const double> row = row_of(score, i, width);
    if (!on_scale || num_finite(row) == 0) {
      ++list.num_unscored;
      continue;
    }
    if (num_finite(row) < m) {
      ++list.num_incomplete;
      continue;
    }
    if (client[i] < 0 || static_cast<std::size_t>(client[i]) >= preference.size() ||
        preference[static_cast<std::size_t>(client[i])].size() != width) {
      throw Error(Fault::kData,
                  fmt::format("evaluation/summary row {}: expected a client in 0..{} with {} "
                              "preferences, found client {}",
                              i, static_cast<std::int64_t>(preference.size()) - 1, m, client[i]));
    }
    list.solutions.push_back({method[i], seed, stage[i], start_round[i], cluster[i], client[i],
                              preference[static_cast<std::size_t>(client[i])],
                              std::vector<double>(row.begin(), row.end())});
  }
  return list;
}

std::vector<metrics::ScoreRange> score_ranges(std::span<const Solution> solutions) {
  std::vector<std::vector<double>> scores;
  scores.reserve(solutions.size());
  for (const Solution& solution : solutions) {
    scores.push_back(solution.score);
  }
  return metrics::score_ranges(scores);
}

NormalisedSet normalise(std::span<const Solution> solutions,
                        std::span<const metrics::ScoreRange> range) {
  NormalisedSet result;
  result.num_clipped.assign(range.size(), 0);
  for (std::size_t j = 0; j < range.size(); ++j) {
    if (range[j].low == range[j].high) {
      result.no_range.push_back(static_cast<std::int64_t>(j));
    }
  }
  for (const Solution& solution : solutions) {
    metrics::NormalisedScores scores = metrics::normalise(solution.score, range);
    for (std::size_t j = 0; j < range.size() && scores.num_clipped > 0; ++j) {
      const bool outside = solution.score[j] < range[j].low || solution.score[j] > range[j].high;
      result.num_clipped[j] += outside ? 1 : 0;
    }
    result.weighted.push_back(metrics::preference_weighted(scores.value, solution.preference));
    result.point.push_back(std::move(scores.value));
  }
  return result;
}

bool pool_clusters(std::vector<Solution>& solutions) {
  // One method may move a client between checkpoints (IFCA), so placements are sets of clusters.
  using Placements = std::map<std::string, std::set<std::int64_t>>;  // by method
  std::map<std::pair<std::int64_t, std::int64_t>, Placements> clients;
  for (const Solution& solution : solutions) {
    clients[{solution.seed, solution.client}][solution.method].insert(solution.cluster);
  }
  const bool agree = std::all_of(clients.begin(), clients.end(), [](const auto& client) {
    const Placements& placements = client.second;
    return std::all_of(placements.begin(), placements.end(), [&](const auto& entry) {
      return entry.second == placements.begin()->second;
    });
  });
  if (!agree) {
    for (Solution& solution : solutions) {
      solution.cluster = kAllClusters;
    }
  }
  return !agree;
}

std::string final_stage(std::span<const std::string> stages) {
  for (auto stage = kStages.rbegin(); stage != kStages.rend(); ++stage) {
    if (std::find(stages.begin(), stages.end(), *stage) != stages.end()) {
      return *stage;
    }
  }
  return stages.empty() ? std::string() : stages.front();
}

}  // namespace apo::methods
