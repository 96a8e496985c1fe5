#pragma once

/// @file
/// Solution sets A_{c,p} of methods, their hypervolume, IGD and IGD+, and normalised scores
/// (spec algorithms.md, sections 4.1 and 4.2; appendix F of the APO paper). Works on the tables of
/// one run or of many: numbers only, no torch, no MPI.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "apo/core/table.hpp"
#include "apo/metrics/scores.hpp"

namespace apo::methods {

/// What the raw scores of a table are. Numbers of different kinds share no range and no set.
enum class ScoreKind {
  kNone,      ///< no row has scores
  kReward,    ///< mean reward of sampled responses
  kAccuracy,  ///< held-out preference accuracy
  kLossMap,   ///< exp(-loss), on analytic tasks
};
[[nodiscard]] std::string score_kind_name(ScoreKind kind);

/// One solution: what one (test client, checkpoint) pair reaches on each objective; higher is
/// better.
struct Solution {
  std::string method;
  std::int64_t seed = 0;  ///< runs with different seeds are replicates: they never share a set
  std::string stage;      ///< base, initialiser or adapted
  std::int64_t start_round = 0;    ///< the checkpoint
  std::int64_t cluster = 0;        ///< kAllClusters after pool_clusters()
  std::int64_t client = 0;         ///< row of /clients
  std::vector<double> preference;  ///< lambda of the client, [m]
  std::vector<double> score;       ///< raw, [m], finite
};

struct SolutionList {
  std::vector<Solution> solutions;  ///< in the order of the rows
  ScoreKind kind = ScoreKind::kNone;
  std::int64_t num_unscored = 0;    ///< rows without any score of this kind: losses only
  std::int64_t num_incomplete = 0;  ///< rows that lack the score of some objective, left out
};

/// Solutions of one run's evaluation/summary. Reads the column `solution`, or `reward` in files
/// that lack it. Where responses were scored, rows without rewards are unscored: their `solution`,
/// if any, is of another kind.
/// @param preference  [N][m], by client
/// @throws Error(kData)  a column is missing or of another shape, or a client is not in 0..N-1
[[nodiscard]] SolutionList solutions_of(const Table& summary,
                                        std::span<const std::vector<double>> preference,
                                        std::int64_t seed = 0);

/// (min, max) per objective over all solutions given: all methods, clusters, preferences and
/// checkpoints (algorithms.md 4.1). @param solutions  at least one
[[nodiscard]] std::vector<metrics::ScoreRange> score_ranges(std::span<const Solution> solutions);

/// Normalised scores of many solutions, and what the range did to them.
struct NormalisedSet {
  std::vector<std::vector<double>> point;  ///< [n][m], in [0, 1]
  std::vector<double> weighted;            ///< s_lambda = sum_j lambda_j s'_j, [n]
  std::vector<std::int64_t> num_clipped;   ///< scores outside the range, by objective, [m]
  std::vector<std::int64_t> no_range;      ///< objectives whose range is empty: s'_j = 0.5
};
/// @throws Error(kInternal)  a score of another size than the range
[[nodiscard]] NormalisedSet normalise(std::span<const Solution> solutions,
                                      std::span<const metrics::ScoreRange> range);

inline constexpr std::int64_t kAllClusters = -1;

/// Puts every solution into kAllClusters when two methods place the same test client (of one seed)
/// in different clusters: then "cluster c" names different things, and sets can only be compared
/// by preference. @return whether it did
bool pool_clusters(std::vector<Solution>& solutions);

/// What a method leaves its clients with: "adapted", else "initialiser", else "base".
/// @param stages  that the method has
[[nodiscard]] std::string final_stage(std::span<const std::string> stages);

/// One solution set A_{c,p} of one method and stage against the reference front R_{c,p}: the
/// nondominated points of the union, over all methods of this seed, of their final stages.
struct SetQuality {
  std::string method;
  std::int64_t seed = 0;
  std::string stage;
  std::int64_t cluster = 0;
  int preference_id = 0;           ///< p: number of the preference, by first appearance
  std::vector<double> preference;  ///< [m]
  int num_solutions = 0;           ///< |A|; hypervolume grows with it
  int num_front = 0;               ///< nondominated ones among them
  int num_reference = 0;           ///< |R|
  double hypervolume = 0.0;        ///< from the origin, of normalised scores
  double igd = 0.0;                ///< infinity for an empty A; NaN without a reference front
  double igd_plus = 0.0;           ///< as igd
};

/// Every (method, stage) of a seed gets a set for every (cluster, preference) of that seed; those
/// without solutions are empty. By (seed, cluster, preference, method, stage).
/// @param range  one for score, hypervolume and IGD alike
[[nodiscard]] std::vector<SetQuality> set_qualities(std::span<const Solution> solutions,
                                                    std::span<const metrics::ScoreRange> range);

/// Values of one cluster: means over its preferences; of one method, seed and stage.
struct ClusterQuality {
  std::string method;
  std::int64_t seed = 0;
  std::string stage;
  std::int64_t cluster = 0;
  int num_checkpoints = 0;
  int num_sets = 0;            ///< preferences
  int num_solutions = 0;       ///< in all sets together
  double score_average = 0.0;  ///< s_lambda at a checkpoint is the mean over preferences; this
                               ///< is its mean over checkpoints ("Average" of Table 2), ...
  double score_best = 0.0;     ///< ... and this the largest ("Best"); NaN without solutions
  double hypervolume = 0.0;
  double igd = 0.0;
  double igd_plus = 0.0;
};
[[nodiscard]] std::vector<ClusterQuality> cluster_qualities(
    std::span<const Solution> solutions, std::span<const metrics::ScoreRange> range);

/// The table evaluation/fronts of one run: set_qualities() of its own solutions, normalised by
/// their own range, against its own reference front. To compare methods, runs have to be put
/// together (apo report). A run without scores gets the columns and no rows.
/// @param summary, preference  as solutions_of()
[[nodiscard]] Table front_table(const Table& summary,
                                std::span<const std::vector<double>> preference);

}  // namespace apo::methods
