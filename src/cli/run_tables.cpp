#include "run_tables.hpp"

#include <cmath>

#include <nlohmann/json.hpp>

namespace apo::cli {
namespace {

std::int64_t as_integer(bool x) { return x ? 1 : 0; }

std::vector<double> padded(const std::vector<int>& values, std::size_t size) {
  std::vector<double> row(size, -1.0);
  for (std::size_t k = 0; k < values.size() && k < size; ++k) {
    row[k] = values[k];
  }
  return row;
}

/// JSON has no NaN; absent numbers are null there.
nlohmann::json numbers(const std::vector<double>& values) {
  nlohmann::json list = nlohmann::json::array();
  for (const double x : values) {
    list.push_back(std::isfinite(x) ? nlohmann::json(x) : nlohmann::json());
  }
  return list;
}

}  // namespace

Table step_table(int m) {
  Table table;
  table.integer("start_round", "rounds", "Phase I round that this phase started from");
  table.integer("cluster", "", "training group, row of /clusters");
  table.integer("round", "rounds", "0-based");
  table.integer("client", "", "row of /clients");
  table.integer("step", "steps", "0-based step of the client in this round");
  table.real("loss", "nat", "loss per objective on the step's batch (l)", {m});
  table.real("accuracy", "1", "share of the batch's pairs that the policy orders rightly", {m});
  table.real("uniformity", "nat", "KL divergence of the weighted losses from uniform (beta)");
  table.real("adjustment", "1", "adjustment vector (A)", {m});
  table.integer("mode", "", "0 balancing, 1 uniform, 2 stationary, 3 fixed weights");
  table.real("mu", "1", "solution of the LP or QP, on the simplex", {m});
  table.real("weight", "1", "weights of the gradients in the direction", {m});
  table.real("gram", "1", "inner products of the gradients (G'G)", {m, m});
  table.real("gamma", "1", "inner product of direction and balancing direction (A'G'G mu)");
  table.real("chebyshev", "nat", "largest preference-weighted loss (psi)");
  table.real("direction_norm", "1", "norm of the direction before clipping");
  table.integer("lp_status", "", "0 none, 1 optimal, 2 relaxed, 3 exact, 4 min-norm, 5 uniform");
  table.integer("nonunique", "", "1 when the LP's optimal face is larger than a vertex");
  table.real("min_slack", "1", "smallest slack of the LP's rows over the largest squared gradient");
  table.integer("num_ascending", "objectives", "objectives that the direction makes worse");
  table.integer("num_aligned", "objectives",
                "objectives aligned with the balancing direction, |J|");
  table.integer("num_aligned_ascending", "objectives", "of those, the ones made worse");
  table.integer("losses_floored", "objectives", "losses that were lifted to the floor");
  table.integer("num_missing", "objectives", "objectives without a pair in the batch");
  table.real("kappa_lp", "1", "condition of the LP's basis (kappa_LP)");
  table.integer("basis_id", "", "equal ids: equal mode, index sets and optimal basis; 0: no LP");
  table.integer("finite", "", "0 when a number was not finite and the step was not taken");
  table.real("seconds", "s", "wall time of the step");
  return table;
}

void push(Table& table, const federation::StepRecord& step) {
  table.push("start_round", std::int64_t{step.start_round});
  table.push("cluster", std::int64_t{step.cluster});
  table.push("round", std::int64_t{step.round});
  table.push("client", std::int64_t{step.client});
  table.push("step", std::int64_t{step.step});
  table.push("loss", std::span<const double>(step.loss));
  table.push("accuracy", std::span<const double>(step.accuracy));
  table.push("uniformity", step.uniformity);
  table.push("adjustment", std::span<const double>(step.adjustment));
  table.push("mode", std::int64_t{step.mode});
  table.push("mu", std::span<const double>(step.mu));
  table.push("weight", std::span<const double>(step.weight));
  table.push("gram", std::span<const double>(step.gram));
  table.push("gamma", step.gamma);
  table.push("chebyshev", step.chebyshev);
  table.push("direction_norm", step.direction_norm);
  table.push("lp_status", std::int64_t{step.lp_status});
  table.push("nonunique", as_integer(step.nonunique));
  table.push("min_slack", step.min_slack);
  table.push("num_ascending", std::int64_t{step.num_ascending});
  table.push("num_aligned", std::int64_t{step.num_aligned});
  table.push("num_aligned_ascending", std::int64_t{step.num_aligned_ascending});
  table.push("losses_floored", std::int64_t{step.losses_floored});
  table.push("num_missing", std::int64_t{step.num_missing});
  table.push("kappa_lp", step.kappa_lp);
  table.push("basis_id", static_cast<std::int64_t>(step.basis_id));
  table.push("finite", as_integer(step.finite));
  table.push("seconds", step.seconds);
}

Table round_table(int m) {
  Table table;
  table.integer("start_round", "rounds", "Phase I round that this phase started from");
  table.integer("cluster", "", "training group, row of /clusters");
  table.integer("round", "rounds", "0-based");
  table.integer("num_participants", "clients", "clients sampled in this round");
  table.integer("num_failed", "clients", "participants left out because of non-finite numbers");
  table.real("mean_loss", "nat", "mean loss of the participants' first steps", {m});
  table.real("learning_rate", "1", "client learning rate of the round");
  table.real("update_norm", "1", "norm of the change of the cluster's adapter");
  table.integer("bytes_reduced", "bytes", "payload of the round's sum, per rank");
  table.integer("floats_up", "float32",
                "what one participant would send to a server in this round of the method");
  table.integer("floats_down", "float32", "what a server would send to one participant");
  table.real("server_weights", "1", "common weights of a server-centric method, else NaN", {m});
  table.real("seconds_clients", "s", "client steps, slowest rank of the team");
  table.real("seconds_reduction", "s", "sum over the team");
  table.real("imbalance", "1", "client seconds of the slowest rank over the mean of the team");
  table.integer("committed", "", "1 when the adapter was updated");
  return table;
}

void push(Table& table, const federation::RoundReport& report) {
  table.push("start_round", std::int64_t{report.start_round});
  table.push("cluster", std::int64_t{report.cluster});
  table.push("round", std::int64_t{report.round});
  table.push("num_participants", static_cast<std::int64_t>(report.participants.size()));
  table.push("num_failed", std::int64_t{report.num_failed});
  table.push("mean_loss", std::span<const double>(report.mean_loss));
  table.push("learning_rate", report.learning_rate);
  table.push("update_norm", report.update_norm);
  table.push("bytes_reduced", report.bytes_reduced);
  table.push("floats_up", report.floats_up);
  table.push("floats_down", report.floats_down);
  std::vector<double> weights = report.server_weights;
  weights.resize(report.mean_loss.size(), std::nan(""));
  table.push("server_weights", std::span<const double>(weights));
  table.push("seconds_clients", report.seconds_clients);
  table.push("seconds_reduction", report.seconds_reduction);
  table.push("imbalance", report.imbalance);
  table.push("committed", as_integer(report.bytes_reduced > 0));
}

Table client_table(const data::Partition& partition, const methods::Population& population) {
  const auto m = static_cast<std::int64_t>(population.clients[0].reference_loss.size());
  Table table;
  table.integer("id", "", "row number");
  table.text("name", "name in the data, or made up");
  table.text("split", "train or test");
  table.real("preference", "1", "weights over the objectives (lambda)", {m});
  table.integer("num_pairs", "pairs", "pairs per objective to train or adapt on", {m});
  table.integer("num_evaluation_pairs", "pairs", "held-out pairs per objective", {m});
  table.real("reference_loss", "nat", "loss of the reference policy", {m});
  table.real("measured_loss", "nat", "the same, NaN where the client has no pair", {m});
  table.integer("filled", "objectives", "objectives whose loss is the population's mean");
  table.integer("bottleneck_order", "", "objectives by descending weighted loss", {m});
  table.real("uniformity", "nat", "KL divergence of the weighted losses from uniform (beta)");
  table.real("adjustment", "1", "adjustment vector (A)", {m});
  table.integer("cluster", "", "row of /clusters");
  table.real("distance", "1", "distance of the adjustment to the cluster's centroid");
  table.real("margin", "1", "test clients: distance to the next cluster minus distance");
  table.integer("preference_cluster", "", "cluster of the nearest preference centroid");
  for (const methods::ClientSummary& row : population.clients) {
    const data::Client& client = partition.clients[row.client.index()];
    const bool train = client.split == data::ClientSplit::kTrain;
    const data::Pool& pool = train ? client.train : client.adapt;
    std::vector<double> pairs;
    std::vector<double> held_out;
    for (std::size_t j = 0; j < pool.size(); ++j) {
      pairs.push_back(static_cast<double>(pool[j].size()));
      held_out.push_back(j < client.evaluate.size() ? static_cast<double>(client.evaluate[j].size())
                                                    : 0.0);
    }
    table.push("id", std::int64_t{row.client.value});
    table.push("name", client.name);
    table.push("split", std::string(train ? "train" : "test"));
    table.push("preference", std::span<const double>(client.preference));
    table.push("num_pairs", std::span<const double>(pairs));
    table.push("num_evaluation_pairs", std::span<const double>(held_out));
    table.push("reference_loss", std::span<const double>(row.reference_loss));
    table.push("measured_loss",
               std::span<const double>(population.measured_loss[row.client.index()]));
    table.push("filled", std::int64_t{row.filled});
    const std::vector<double> order = padded(row.order, static_cast<std::size_t>(m));
    table.push("bottleneck_order", std::span<const double>(order));
    table.push("uniformity", row.uniformity);
    table.push("adjustment", std::span<const double>(row.adjustment));
    table.push("cluster", std::int64_t{row.cluster});
    table.push("distance", row.distance);
    table.push("margin", row.margin);
    table.push("preference_cluster", std::int64_t{row.preference_cluster});
  }
  return table;
}

Table cluster_table(const methods::Population& population, const federation::Placement& placement,
                    bool team_per_cluster) {
  const auto m = static_cast<std::int64_t>(population.clients[0].reference_loss.size());
  Table table;
  table.integer("id", "", "row number");
  table.integer("bottleneck_order", "",
                "objectives by descending weighted loss; -1 beyond the common prefix", {m});
  table.integer("bottleneck_mixed", "", "1 when clients with different bottlenecks were merged");
  table.integer("num_clients", "clients", "training clients");
  table.real("weight", "1", "sum of the clients' weights: their pairs, or 1 each");
  table.real("centroid", "1", "weighted mean adjustment", {m});
  table.real("preference_centroid", "1", "weighted mean preference", {m});
  table.real("adjustment_variance", "1", "weighted variance of the adjustment");
  table.real("preference_diameter", "1", "largest distance between two preferences");
  table.integer("team", "", "team of ranks that trained it");
  table.integer("team_ranks", "ranks", "size of that team");
  for (const clustering::Cluster& cluster : population.clustering.clusters) {
    table.push("id", std::int64_t{cluster.id.value});
    const std::vector<double> order = padded(cluster.order, static_cast<std::size_t>(m));
    table.push("bottleneck_order", std::span<const double>(order));
    table.push("bottleneck_mixed", as_integer(cluster.bottleneck_mixed));
    table.push("num_clients", static_cast<std::int64_t>(cluster.members.size()));
    table.push("weight", cluster.weight);
    table.push("centroid", std::span<const double>(cluster.centroid));
    table.push("preference_centroid", std::span<const double>(cluster.preference_centroid));
    table.push("adjustment_variance", cluster.adjustment_variance);
    table.push("preference_diameter", cluster.preference_diameter);
    const std::size_t group = team_per_cluster ? cluster.id.index() : 0;
    const int team = placement.team_of_cluster[group];
    table.push("team", std::int64_t{team});
    table.push("team_ranks",
               std::int64_t{placement.teams[static_cast<std::size_t>(team)].num_ranks});
  }
  return table;
}

Table dendrogram_table(const methods::Population& population) {
  Table table;
  table.integer("left", "", "node; leaves are the training clients in id order");
  table.integer("right", "", "node; merge k makes node n + k");
  table.real("height", "1", "cost of the merge under clustering.linkage");
  table.real("weight", "1", "sum of the weights below");
  for (const clustering::Merge& merge : population.clustering.dendrogram) {
    table.push("left", std::int64_t{merge.left});
    table.push("right", std::int64_t{merge.right});
    table.push("height", merge.height);
    table.push("weight", merge.weight);
  }
  return table;
}

std::string metrics_line(const federation::RoundReport& report) {
  nlohmann::json line;
  line["phase"] = static_cast<int>(report.phase);
  line["start_round"] = report.start_round;
  line["cluster"] = report.cluster;
  line["round"] = report.round;
  line["participants"] = report.participants;
  line["num_failed"] = report.num_failed;
  line["mean_loss"] = numbers(report.mean_loss);
  line["learning_rate"] = report.learning_rate;
  line["update_norm"] = report.update_norm;
  line["bytes_reduced"] = report.bytes_reduced;
  line["floats_up"] = report.floats_up;
  line["floats_down"] = report.floats_down;
  line["seconds_clients"] = report.seconds_clients;
  line["seconds_reduction"] = report.seconds_reduction;
  line["imbalance"] = report.imbalance;
  return line.dump();
}

}  // namespace apo::cli
