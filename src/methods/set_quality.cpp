#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "apo/core/error.hpp"
#include "apo/methods/solution_sets.hpp"
#include "apo/metrics/pareto.hpp"

namespace apo::methods {
namespace {

using Points = std::vector<metrics::ScorePoint>;

int stage_rank(const std::string& stage) {
  return stage == "base" ? 0 : stage == "initialiser" ? 1 : 2;
}

/// Numbers for things by first appearance.
template <class T>
class Numbering {
 public:
  int operator()(const T& thing) {
    return numbers_.emplace(thing, static_cast<int>(numbers_.size())).first->second;
  }

 private:
  std::map<T, int> numbers_;
};

/// One method at one stage, as it sorts in tables.
using Entrant = std::tuple<int, int, std::string, std::string>;  // ranks of both, method, stage

/// Where sets are compared.
struct Place {
  std::int64_t cluster = 0;
  int preference_id = 0;
  auto operator<=>(const Place&) const = default;
};

/// Everything of one seed.
struct Replicate {
  std::map<Entrant, bool> entrants;  // whether the stage is the method's final one
  std::map<Place, std::map<Entrant, Points>> sets;
  std::map<Place, std::vector<double>> preference;
};

void mark_final_stages(Replicate& replicate) {
  std::map<std::string, std::vector<std::string>> stages;
  for (const auto& [entrant, unused] : replicate.entrants) {
    stages[std::get<2>(entrant)].push_back(std::get<3>(entrant));
  }
  for (auto& [entrant, is_final] : replicate.entrants) {
    is_final = std::get<3>(entrant) == final_stage(stages[std::get<2>(entrant)]);
  }
}

std::map<std::int64_t, Replicate> replicates_of(std::span<const Solution> solutions,
                                                const NormalisedSet& normalised) {
  Numbering<std::string> method_number;
  Numbering<std::vector<double>> preference_number;
  std::map<std::int64_t, Replicate> replicates;
  for (std::size_t i = 0; i < solutions.size(); ++i) {
    const Solution& solution = solutions[i];
    Replicate& replicate = replicates[solution.seed];
    const Entrant entrant = {method_number(solution.method), stage_rank(solution.stage),
                             solution.method, solution.stage};
    const Place place = {solution.cluster, preference_number(solution.preference)};
    replicate.entrants[entrant] = false;
    replicate.sets[place][entrant].push_back(normalised.point[i]);
    replicate.preference[place] = solution.preference;
  }
  for (auto& [seed, replicate] : replicates) {
    mark_final_stages(replicate);
  }
  return replicates;
}

/// R_{c,p}: duplicates count once, so that no method weighs more by repeating a point.
Points reference_front(const Replicate& replicate, const std::map<Entrant, Points>& sets) {
  Points all;
  for (const auto& [entrant, points] : sets) {
    if (replicate.entrants.at(entrant)) {
      all.insert(all.end(), points.begin(), points.end());
    }
  }
  Points front;
  for (const int k : metrics::nondominated_front(all)) {
    front.push_back(all[static_cast<std::size_t>(k)]);
  }
  return front;
}

/// Sums over the preferences of one cluster, to be divided by their number.
void add_to(ClusterQuality& cluster, const SetQuality& set) {
  ++cluster.num_sets;
  cluster.num_solutions += set.num_solutions;
  cluster.hypervolume += set.hypervolume;
  cluster.igd += set.igd;
  cluster.igd_plus += set.igd_plus;
}

using CheckpointScores = std::map<std::int64_t, std::map<std::vector<double>, std::vector<double>>>;

double mean(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double x : values) {
    sum += x;
  }
  return sum / static_cast<double>(values.size());
}

/// Score of the cluster at each checkpoint: mean over preferences of the mean over their clients.
void set_scores(ClusterQuality& cluster, const CheckpointScores& scores) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> values;
  for (const auto& [start_round, by_preference] : scores) {
    std::vector<double> means;
    for (const auto& [preference, list] : by_preference) {
      means.push_back(mean(list));
    }
    values.push_back(mean(means));
  }
  cluster.num_checkpoints = static_cast<int>(values.size());
  cluster.score_average = values.empty() ? kNaN : mean(values);
  cluster.score_best = values.empty() ? kNaN : *std::max_element(values.begin(), values.end());
}

}  // namespace

std::vector<SetQuality> set_qualities(std::span<const Solution> solutions,
                                      std::span<const metrics::ScoreRange> range) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  std::vector<SetQuality> result;
  for (const auto& [seed, replicate] : replicates_of(solutions, normalise(solutions, range))) {
    for (const auto& [place, sets] : replicate.sets) {
      const Points reference = reference_front(replicate, sets);
      for (const auto& [entrant, is_final] : replicate.entrants) {
        const auto found = sets.find(entrant);
        const Points points = found == sets.end() ? Points() : found->second;
        SetQuality set;
        set.method = std::get<2>(entrant);
        set.seed = seed;
        set.stage = std::get<3>(entrant);
        set.cluster = place.cluster;
        set.preference_id = place.preference_id;
        set.preference = replicate.preference.at(place);
        set.num_solutions = static_cast<int>(points.size());
        set.num_front = static_cast<int>(metrics::nondominated_front(points).size());
        set.num_reference = static_cast<int>(reference.size());
        set.hypervolume = metrics::hypervolume(points);
        set.igd = reference.empty() ? kNaN : metrics::igd(points, reference);
        set.igd_plus = reference.empty() ? kNaN : metrics::igd_plus(points, reference);
        result.push_back(std::move(set));
      }
    }
  }
  return result;
}

std::vector<ClusterQuality> cluster_qualities(std::span<const Solution> solutions,
                                              std::span<const metrics::ScoreRange> range) {
  using Key = std::tuple<std::int64_t, std::int64_t, std::string, std::string>;
  std::map<Key, CheckpointScores> scores;
  const NormalisedSet normalised = normalise(solutions, range);
  for (std::size_t i = 0; i < solutions.size(); ++i) {
    const Solution& solution = solutions[i];
    scores[{solution.seed, solution.cluster, solution.method, solution.stage}][solution.start_round]
          [solution.preference]
              .push_back(normalised.weighted[i]);
  }
  std::vector<ClusterQuality> result;
  std::map<Key, std::size_t> position;
  for (const SetQuality& set : set_qualities(solutions, range)) {
    const Key key = {set.seed, set.cluster, set.method, set.stage};
    const auto [entry, is_new] = position.emplace(key, result.size());
    if (is_new) {
      result.push_back({set.method, set.seed, set.stage, set.cluster});
      set_scores(result.back(), scores[key]);
    }
    add_to(result[entry->second], set);
  }
  for (ClusterQuality& cluster : result) {
    cluster.hypervolume /= cluster.num_sets;
    cluster.igd /= cluster.num_sets;
    cluster.igd_plus /= cluster.num_sets;
  }
  return result;
}

Table front_table(const Table& summary, std::span<const std::vector<double>> preference) {
  const Column* score = summary.find(summary.find("solution") != nullptr ? "solution" : "reward");
  Table table;
  table.text("method", "method under study");
  table.text("stage", "base, initialiser (before adaptation) or adapted");
  table.integer("cluster", "", "row of /clusters");
  table.integer("preference_id", "", "preference of the set, by first appearance");
  table.real("preference", "1", "weights over the objectives (lambda)",
             {score == nullptr ? 1 : score->row_size()});
  table.integer("num_solutions", "solutions", "size of the set: test clients times checkpoints");
  table.integer("num_front", "solutions", "nondominated ones among them");
  table.integer("num_reference", "solutions", "size of this run's own reference front");
  table.real("hypervolume", "1", "of scores normalised by this run's range, from the origin");
  table.real("igd", "1", "inverted generational distance from this run's own reference front");
  table.real("igd_plus", "1", "as igd, counting only what falls short of the front");
  const SolutionList list = solutions_of(summary, preference);
  if (list.solutions.empty()) {
    return table;
  }
  for (const SetQuality& set : set_qualities(list.solutions, score_ranges(list.solutions))) {
    table.push("method", set.method);
    table.push("stage", set.stage);
    table.push("cluster", set.cluster);
    table.push("preference_id", std::int64_t{set.preference_id});
    table.push("preference", std::span<const double>(set.preference));
    table.push("num_solutions", std::int64_t{set.num_solutions});
    table.push("num_front", std::int64_t{set.num_front});
    table.push("num_reference", std::int64_t{set.num_reference});
    table.push("hypervolume", set.hypervolume);
    table.push("igd", set.igd);
    table.push("igd_plus", set.igd_plus);
  }
  return table;
}

}  // namespace apo::methods
