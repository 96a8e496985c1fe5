#pragma once

/// @file
/// Rows of evaluation/summary of one or many runs, and means over them.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "results_table.hpp"

#include "apo/metrics/scores.hpp"

namespace apo::cli {

/// Names of the runs in tables, one per run: the method, followed by the settings in which runs of
/// this method differ ("apo clustering.budget=4"). Seed, machine, checkpoints and monitors are no
/// settings in this sense.
[[nodiscard]] std::vector<std::string> run_labels(const std::vector<RunResults>& runs);

/// Value of "section.key" in a run's configuration; empty when it is not there.
[[nodiscard]] std::string setting(const RunResults& run, const std::string& key);

/// Order of labels in tables: from the untrained model to apo; numbers within labels by value.
[[nodiscard]] bool label_before(const std::string& a, const std::string& b);

/// @throws Error(kData)  runs with different objectives: they cannot share a table
void check_objectives(const std::vector<RunResults>& runs);

/// One row of /evaluation/summary.
struct Row {
  std::string label;  ///< of its run, see run_labels()
  std::int64_t seed = 0;
  std::int64_t start_round = 0;
  std::int64_t cluster = 0;
  std::int64_t client = 0;
  std::string stage;
  std::vector<double> reward;
  double weighted_loss = 0.0;  ///< lambda'l over the objectives that were held out
  double parse_rate = 0.0;
  double score = 0.0;              ///< normalised when the reward can bound it, else raw
  double weighted_accuracy = 0.0;  ///< as weighted_loss; NaN where no pairs were compared
  double chebyshev = 0.0;          ///< psi = max_j lambda_j l_j; NaN in older files
  double uniformity = 0.0;         ///< beta; NaN in older files
  double gap = 0.0;                ///< psi - psi* on analytic tasks, else NaN
  double distance = 0.0;           ///< to the client's Pareto point on analytic tasks, else NaN
};

/// @throws Error(kData)  a column is missing, or a client is unknown
[[nodiscard]] std::vector<Row> rows_of(const RunResults& run, const std::string& label);

using Rows = std::vector<const Row*>;
using Measure = std::function<double(const Row&)>;

/// Labels that occur, in the order of tables.
[[nodiscard]] std::vector<std::string> labels_of(const std::vector<Row>& rows);
/// Stages that a label has.
[[nodiscard]] std::vector<std::string> stages_of(const std::vector<Row>& rows,
                                                 const std::string& label);

/// Rows of one label: at its final stage, or before adaptation. A method that does not adapt has
/// the same rows before and after; one without training starts from the base model.
[[nodiscard]] Rows after_adaptation(const std::vector<Row>& rows, const std::string& label);
[[nodiscard]] Rows before_adaptation(const std::vector<Row>& rows, const std::string& label);
[[nodiscard]] Rows at_stage(const std::vector<Row>& rows, const std::string& label,
                            const std::string& stage);
[[nodiscard]] Rows in_cluster(const Rows& rows, std::optional<std::int64_t> cluster);

/// Mean over rows, NaN without rows.
[[nodiscard]] double mean(const Rows& rows, const Measure& of);
[[nodiscard]] bool has_any(const std::vector<Row>& rows, const Measure& of);  ///< one is not NaN

using ClientKey = std::pair<std::int64_t, std::int64_t>;  ///< (seed, client)
/// Means over the start rounds of every client.
[[nodiscard]] std::map<ClientKey, double> by_client(const Rows& rows, const Measure& of);

/// A mean with its 95 % interval.
struct Estimate {
  metrics::MeanInterval interval;  ///< over the seeds' means; with one seed, over clients
  int num_clients = 0;
  int num_seeds = 0;

  [[nodiscard]] std::string over() const;  ///< "5 seeds" or "12 clients"
};
/// Leaves values out that are NaN. @return nothing when none is left
[[nodiscard]] std::optional<Estimate> estimate(const std::map<ClientKey, double>& values);

}  // namespace apo::cli
