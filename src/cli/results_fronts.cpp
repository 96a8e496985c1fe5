#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "results_sections.hpp"
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apo/core/error.hpp"
#include "apo/methods/solution_sets.hpp"

namespace apo::cli {
namespace {

using methods::ClusterQuality;
using methods::NormalisedSet;
using methods::Solution;

/// Mean over the units of one method and stage, with the interval where seeds give one.
struct Cells {
  std::string mean;
  std::string interval = "-";
};

Cells over_seeds(const std::vector<double>& per_seed) {
  double sum = 0.0;
  for (const double x : per_seed) {
    sum += x;
  }
  Cells cells = {cell(sum / static_cast<double>(per_seed.size()))};  // inf stays inf, NaN becomes -
  if (per_seed.size() > 1 && std::isfinite(sum)) {
    const metrics::MeanInterval interval = metrics::mean_interval(per_seed);
    cells.interval = interval_cell(interval.low(), interval.high(), "{:.3f}");
  }
  return cells;
}

/// Means over the clusters of each seed, in the order of seeds.
std::vector<double> means_by_seed(const std::vector<ClusterQuality>& clusters,
                                  double ClusterQuality::*value) {
  std::map<std::int64_t, std::pair<double, int>> sums;
  for (const ClusterQuality& cluster : clusters) {
    auto& [sum, count] = sums[cluster.seed];
    sum += cluster.*value;
    ++count;
  }
  std::vector<double> means;
  for (const auto& [seed, entry] : sums) {
    means.push_back(entry.first / entry.second);
  }
  return means;
}

using MethodStage = std::pair<std::string, std::string>;

struct ByMethod {
  bool operator()(const MethodStage& a, const MethodStage& b) const {
    if (a.first != b.first) {
      return label_before(a.first, b.first);
    }
    const auto rank = [](const std::string& stage) {
      return stage == "base" ? 0 : stage == "initialiser" ? 1 : 2;
    };
    return rank(a.second) < rank(b.second);
  }
};
template <class T>
using PerMethod = std::map<MethodStage, std::vector<T>, ByMethod>;

PerMethod<ClusterQuality> group(const std::vector<ClusterQuality>& clusters) {
  PerMethod<ClusterQuality> groups;
  for (const ClusterQuality& cluster : clusters) {
    groups[{cluster.method, cluster.stage}].push_back(cluster);
  }
  return groups;
}

/// s_lambda of every client, mean over its checkpoints.
std::map<ClientKey, double> client_scores(const std::vector<Solution>& solutions,
                                          const NormalisedSet& normalised,
                                          const MethodStage& which) {
  std::map<ClientKey, std::pair<double, int>> sums;
  for (std::size_t i = 0; i < solutions.size(); ++i) {
    if (solutions[i].method == which.first && solutions[i].stage == which.second) {
      auto& [sum, count] = sums[{solutions[i].seed, solutions[i].client}];
      sum += normalised.weighted[i];
      ++count;
    }
  }
  std::map<ClientKey, double> means;
  for (const auto& [key, entry] : sums) {
    means[key] = entry.first / entry.second;
  }
  return means;
}

TextTable score_table(const std::vector<Solution>& solutions, const NormalisedSet& normalised,
                      const std::vector<ClusterQuality>& clusters) {
  TextTable table;
  table.title = "Normalised preference-weighted score and solution sets, 95 % intervals";
  table.head = {"method",  "stage", "over",     "clients", "score",     "score 95 %", "HV",
                "HV 95 %", "IGD",   "IGD 95 %", "IGD+",    "IGD+ 95 %", "sets",       "solutions"};
  for (const auto& [which, list] : group(clusters)) {
    const auto score = estimate(client_scores(solutions, normalised, which));
    if (!score) {
      continue;
    }
    const Cells hypervolume = over_seeds(means_by_seed(list, &ClusterQuality::hypervolume));
    const Cells igd = over_seeds(means_by_seed(list, &ClusterQuality::igd));
    const Cells igd_plus = over_seeds(means_by_seed(list, &ClusterQuality::igd_plus));
    int num_sets = 0;
    int num_solutions = 0;
    for (const ClusterQuality& cluster : list) {
      num_sets += cluster.num_sets;
      num_solutions += cluster.num_solutions;
    }
    table.rows.push_back({which.first, which.second, score->over(),
                          std::to_string(score->num_clients), cell(score->interval.mean),
                          interval_cell(score->interval.low(), score->interval.high(), "{:.3f}"),
                          hypervolume.mean, hypervolume.interval, igd.mean, igd.interval,
                          igd_plus.mean, igd_plus.interval, std::to_string(num_sets),
                          std::to_string(num_solutions)});
  }
  return table;
}

/// One line per cluster and method at its final stage, as tables 1 and 2 of the paper.
TextTable set_table(const std::vector<ClusterQuality>& clusters) {
  TextTable table;
  table.title = "Solution sets per cluster (means over preferences; score over checkpoints)";
  table.head = {"cluster", "method", "checkpoints", "score average", "score best",
                "HV",      "IGD",    "IGD+",        "sets",          "solutions"};
  std::map<std::string, std::vector<std::string>> stages;
  std::set<std::int64_t> ids;
  for (const ClusterQuality& cluster : clusters) {
    stages[cluster.method].push_back(cluster.stage);
    ids.insert(cluster.cluster);
  }
  const auto add = [&](const std::string& name, const std::string& method,
                       const std::vector<ClusterQuality>& list) {
    const auto value = [&](double ClusterQuality::*member) {
      return over_seeds(means_by_seed(list, member)).mean;
    };
    int num_checkpoints = 0;
    int num_sets = 0;
    int num_solutions = 0;
    for (const ClusterQuality& cluster : list) {
      num_checkpoints = std::max(num_checkpoints, cluster.num_checkpoints);
      num_sets += cluster.num_sets;
      num_solutions += cluster.num_solutions;
    }
    table.rows.push_back({name, method, std::to_string(num_checkpoints),
                          value(&ClusterQuality::score_average), value(&ClusterQuality::score_best),
                          value(&ClusterQuality::hypervolume), value(&ClusterQuality::igd),
                          value(&ClusterQuality::igd_plus), std::to_string(num_sets),
                          std::to_string(num_solutions)});
  };
  const PerMethod<ClusterQuality> groups = group(clusters);
  const auto is_final = [&](const MethodStage& which) {
    return which.second == methods::final_stage(stages[which.first]);
  };
  for (const std::int64_t id : ids) {
    for (const auto& [which, list] : groups) {
      std::vector<ClusterQuality> here;
      std::copy_if(list.begin(), list.end(), std::back_inserter(here),
                   [&](const ClusterQuality& cluster) { return cluster.cluster == id; });
      if (is_final(which) && !here.empty()) {
        add(id == methods::kAllClusters ? "all" : std::to_string(id), which.first, here);
      }
    }
  }
  if (!ids.contains(methods::kAllClusters)) {
    for (const auto& [which, list] : groups) {
      if (is_final(which)) {
        add("all", which.first, list);
      }
    }
  }
  return table;
}

TextTable range_table(const FrozenRange& range, bool is_frozen, const NormalisedSet& normalised,
                      std::size_t num_solutions) {
  TextTable table;
  table.title = fmt::format(
      "Score range ({}, {})", range.score,
      is_frozen ? fmt::format("frozen over {} solutions", range.num_solutions) : "of these runs");
  table.head = {"objective", "min", "max", "clipped", "of", "note"};
  for (std::size_t j = 0; j < range.range.size(); ++j) {
    const bool empty = std::find(normalised.no_range.begin(), normalised.no_range.end(),
                                 static_cast<std::int64_t>(j)) != normalised.no_range.end();
    table.rows.push_back({range.objectives[j], fmt::format("{:.6g}", range.range[j].low),
                          fmt::format("{:.6g}", range.range[j].high),
                          std::to_string(normalised.num_clipped[j]), std::to_string(num_solutions),
                          empty ? "zero range: normalised score 0.5" : ""});
  }
  return table;
}

/// Solutions of all runs under their labels.
struct Collection {
  std::vector<Solution> solutions;
  std::string score;  ///< kind of the scores; empty without any
  std::vector<std::string> warnings;
};

Collection collect(const std::vector<RunResults>& runs, const std::vector<std::string>& labels) {
  Collection all;
  std::set<std::string> kinds;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    methods::SolutionList list =
        methods::solutions_of(runs[r].evaluation, runs[r].preference, runs[r].seed);
    if (list.kind != methods::ScoreKind::kNone) {
      kinds.insert(methods::score_kind_name(list.kind));
    }
    if (list.num_incomplete > 0) {
      all.warnings.push_back(
          fmt::format("{}: {} solutions lack the score of some objective and are left out of the "
                      "solution sets",
                      runs[r].dir.string(), list.num_incomplete));
    }
    for (Solution& solution : list.solutions) {
      solution.method = labels[r];
      all.solutions.push_back(std::move(solution));
    }
  }
  if (kinds.size() > 1) {
    all.warnings.push_back(fmt::format(
        "the runs have scores of different kinds ({}): no solution sets", fmt::join(kinds, ", ")));
    all.solutions.clear();
  }
  all.score = all.solutions.empty() ? std::string() : *kinds.begin();
  return all;
}

/// Reference fronts are the better the more methods they see: all seeds should see the same ones.
void warn_of_missing_methods(Collection& all) {
  std::map<std::int64_t, std::set<std::string>> by_seed;
  std::set<std::string> methods;
  for (const Solution& solution : all.solutions) {
    by_seed[solution.seed].insert(solution.method);
    methods.insert(solution.method);
  }
  for (const auto& [seed, present] : by_seed) {
    std::vector<std::string> missing;
    std::set_difference(methods.begin(), methods.end(), present.begin(), present.end(),
                        std::back_inserter(missing));
    if (!missing.empty()) {
      all.warnings.push_back(
          fmt::format("seed {}: the reference fronts lack {}", seed, fmt::join(missing, ", ")));
    }
  }
}

void check_frozen(const FrozenRange& frozen, const std::vector<std::string>& objectives,
                  const std::string& score) {
  if (frozen.objectives != objectives || frozen.score != score) {
    throw Error(Fault::kData,
                fmt::format("the score range is of '{}' over the objectives {}; the runs have '{}' "
                            "over {}",
                            frozen.score, fmt::join(frozen.objectives, ","), score,
                            fmt::join(objectives, ",")));
  }
}

}  // namespace

std::optional<FrozenRange> score_range_of(const std::vector<RunResults>& runs) {
  check_objectives(runs);
  const Collection all = collect(runs, run_labels(runs));
  if (all.solutions.empty()) {
    return std::nullopt;
  }
  return FrozenRange{runs[0].objectives, all.score, methods::score_ranges(all.solutions),
                     static_cast<std::int64_t>(all.solutions.size())};
}

FrontSection front_section(const std::vector<RunResults>& runs,
                           const std::vector<std::string>& labels, const FrozenRange* frozen) {
  Collection all = collect(runs, labels);
  FrontSection section;
  if (all.solutions.empty()) {
    section.warnings = std::move(all.warnings);
    return section;
  }
  if (frozen != nullptr) {
    check_frozen(*frozen, runs[0].objectives, all.score);
  }
  const FrozenRange range =
      frozen != nullptr
          ? *frozen
          : FrozenRange{runs[0].objectives, all.score, methods::score_ranges(all.solutions),
                        static_cast<std::int64_t>(all.solutions.size())};
  warn_of_missing_methods(all);
  if (methods::pool_clusters(all.solutions)) {
    all.warnings.emplace_back(
        "the runs place test clients in different clusters: solution sets are formed per "
        "preference, over all clusters");
  }
  const NormalisedSet normalised = methods::normalise(all.solutions, range.range);
  for (std::size_t j = 0; j < range.range.size(); ++j) {
    if (normalised.num_clipped[j] > 0) {
      all.warnings.push_back(fmt::format(
          "objective {}: {} of {} scores lie outside the frozen range [{:.6g}, {:.6g}] and were "
          "clipped",
          range.objectives[j], normalised.num_clipped[j], all.solutions.size(), range.range[j].low,
          range.range[j].high));
    }
  }
  for (const std::int64_t j : normalised.no_range) {
    all.warnings.push_back(
        fmt::format("objective {}: all scores of the range are equal, so its normalised score is "
                    "0.5 everywhere",
                    range.objectives[static_cast<std::size_t>(j)]));
  }
  const auto clusters = methods::cluster_qualities(all.solutions, range.range);
  section.tables = {score_table(all.solutions, normalised, clusters), set_table(clusters),
                    range_table(range, frozen != nullptr, normalised, all.solutions.size())};
  section.warnings = std::move(all.warnings);
  return section;
}

}  // namespace apo::cli
