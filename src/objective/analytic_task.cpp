#include "apo/objective/analytic_task.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>

#include "analytic_problems.hpp"
#include <fmt/format.h>

#include "apo/core/error.hpp"
#include "apo/core/rng.hpp"
#include "apo/data/preference_vectors.hpp"

namespace apo::objective {
namespace {

/// `count` names that sort in the order of their numbers.
void add_names(std::string_view stem, int count, std::vector<std::string>& names) {
  const std::size_t num_digits =
      std::max<std::size_t>(4, std::to_string(std::max(0, count - 1)).size());
  for (int k = 0; k < count; ++k) {
    names.push_back(fmt::format("{}-{:0{}}", stem, k, num_digits));
  }
}

/// Positions first, first + 1, ... in pools of `count` pairs each, [m]; `stride` between
/// objectives.
data::Pool make_pool(int first, int stride, int count, std::size_t m) {
  data::Pool pool(m, std::vector<int>(static_cast<std::size_t>(count)));
  for (std::size_t j = 0; j < m; ++j) {
    std::iota(pool[j].begin(), pool[j].end(), first + static_cast<int>(j) * stride);
  }
  return pool;
}

void check_num_pairs(const AnalyticOptions& options) {
  const std::int64_t num_clients = std::int64_t{options.clients} + 2 * options.test_clients;
  const std::int64_t limit = std::numeric_limits<std::int32_t>::max();
  if (num_clients > limit / options.num_objectives / options.pairs_per_objective) {
    throw Error(
        Fault::kConfig,
        fmt::format("task.analytic.pairs_per_objective = {}: with {} training clients, {} "
                    "test clients and {} objectives there are more than {} pairs; expected "
                    "at most {}",
                    options.pairs_per_objective, options.clients, options.test_clients,
                    options.num_objectives, limit, limit / options.num_objectives / num_clients));
  }
}

std::vector<double> draw_shift(const AnalyticOptions& options, std::uint64_t seed,
                               std::size_t client) {
  std::vector<double> shift(static_cast<std::size_t>(options.dimension), 0.0);
  if (options.shift > 0.0) {
    CounterRng rng(
        {.seed = seed, .purpose = Purpose::kAnalytic, .a = analytic::kShift, .b = client});
    for (double& entry : shift) {
      entry = options.shift * rng.normal();
    }
  }
  return shift;
}

}  // namespace

AnalyticTask make_analytic_task(const AnalyticOptions& options, const std::string& preferences,
                                std::uint64_t seed) {
  AnalyticTask task;
  task.problem = make_analytic_problem(options, seed);
  task.options = options;
  task.seed = seed;
  check_num_pairs(options);
  const auto m = static_cast<std::size_t>(options.num_objectives);
  for (std::size_t j = 0; j < m; ++j) {
    task.objectives.push_back(fmt::format("objective_{}", j + 1));
  }
  std::vector<std::string> names;
  add_names("client", options.clients, names);
  add_names("test", options.test_clients, names);
  const auto lambda = data::make_preferences(preferences, names, task.objectives, seed);
  const int num_pairs = options.pairs_per_objective;
  int next_pair = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const bool is_test = i >= static_cast<std::size_t>(options.clients);
    data::Client client;
    client.id = ClientId{static_cast<std::int32_t>(i)};
    client.name = names[i];
    client.split = is_test ? data::ClientSplit::kTest : data::ClientSplit::kTrain;
    client.preference = lambda[i];
    const int stride = is_test ? 2 * num_pairs : num_pairs;
    client.train = client.adapt = client.evaluate = data::Pool(m);
    if (is_test) {
      client.adapt = make_pool(next_pair, stride, num_pairs, m);
      client.evaluate = make_pool(next_pair + num_pairs, stride, num_pairs, m);
    } else {
      client.train = make_pool(next_pair, stride, num_pairs, m);
    }
    next_pair += options.num_objectives * stride;
    task.partition.clients.push_back(std::move(client));
    task.shift.push_back(draw_shift(options, seed, i));
    if (options.problem == "dpo_linear") {
      task.own_problem.push_back(
          analytic::make_dpo_linear(options, seed, i + 1, stride, num_pairs));
    }
  }
  task.partition.text_of_pair.resize(static_cast<std::size_t>(next_pair));
  std::iota(task.partition.text_of_pair.begin(), task.partition.text_of_pair.end(), 0);
  return task;
}

const AnalyticProblem& AnalyticTask::problem_of(ClientId client) const {
  expects(client.valid() && client.index() < shift.size(), "AnalyticTask: there is no such client");
  return own_problem.empty() ? *problem : *own_problem[client.index()];
}

ParetoPoint AnalyticTask::optimum(ClientId client, std::span<const double> preference) const {
  ParetoPoint point = problem_of(client).pareto_point(preference);
  for (std::size_t p = 0; p < point.x.size(); ++p) {
    point.x[p] += shift[client.index()][p];
  }
  return point;
}

double AnalyticTask::shift_diameter(std::span<const ClientId> members) const {
  double largest = 0.0;
  for (std::size_t a = 0; a < members.size(); ++a) {
    for (std::size_t b = a + 1; b < members.size(); ++b) {
      const std::vector<double>& x = shift.at(members[a].index());
      const std::vector<double>& y = shift.at(members[b].index());
      double squared = 0.0;
      for (std::size_t p = 0; p < x.size(); ++p) {
        squared += (x[p] - y[p]) * (x[p] - y[p]);
      }
      largest = std::max(largest, squared);
    }
  }
  return std::sqrt(largest);
}

}  // namespace apo::objective
