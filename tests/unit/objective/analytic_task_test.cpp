// Clients of analytic problems (T-I of algorithms.md section 7).

#include "apo/objective/analytic_task.hpp"

#include <cmath>
#include <set>

#include "analytic_oracles.hpp"
#include <gtest/gtest.h>

#include "apo/core/error.hpp"
#include "apo/data/preference_vectors.hpp"

namespace apo::objective::test {
namespace {

using Vector = std::vector<double>;

AnalyticOptions heterogeneous(int clients, int test_clients) {
  AnalyticOptions options = options_for("simplex", 3, 5);
  options.clients = clients;
  options.test_clients = test_clients;
  options.pairs_per_objective = 4;
  options.shift = 0.3;
  return options;
}

TEST(AnalyticTask, TrainClientsComeFirstAndEveryPairHasOneOwner) {
  const AnalyticTask task = make_analytic_task(heterogeneous(7, 3), "dirichlet:1", 5);
  ASSERT_EQ(task.partition.clients.size(), 10U);
  EXPECT_EQ(task.objectives,
            (std::vector<std::string>{"objective_1", "objective_2", "objective_3"}));
  std::set<int> seen;
  const auto own = [&](const data::Pool& pool, std::size_t count) {
    ASSERT_EQ(pool.size(), 3U);
    for (const std::vector<int>& pairs : pool) {
      EXPECT_EQ(pairs.size(), count);
      for (const int pair : pairs) {
        EXPECT_TRUE(seen.insert(pair).second) << "pair " << pair << " has two owners";
      }
    }
  };
  for (std::size_t i = 0; i < 10; ++i) {
    const data::Client& client = task.partition.clients[i];
    const bool is_test = i >= 7;
    EXPECT_EQ(client.id.index(), i);
    EXPECT_EQ(client.split == data::ClientSplit::kTest, is_test);
    own(client.train, is_test ? 0 : 4);
    own(client.adapt, is_test ? 4 : 0);
    own(client.evaluate, is_test ? 4 : 0);
    EXPECT_EQ(client.num_pairs(), 12);
    EXPECT_EQ(client.name,
              (is_test ? "test-000" : "client-000") + std::to_string(is_test ? i - 7 : i));
  }
  // Numbered without gaps, each with a text of its own.
  EXPECT_EQ(seen.size(), task.partition.text_of_pair.size());
  EXPECT_EQ(*seen.begin(), 0);
  EXPECT_EQ(*seen.rbegin() + 1, static_cast<int>(seen.size()));
  EXPECT_EQ(std::set<int>(task.partition.text_of_pair.begin(), task.partition.text_of_pair.end()),
            seen);
  EXPECT_EQ(task.partition.train_clients().size(), 7U);
  EXPECT_EQ(task.partition.test_clients().size(), 3U);
}

TEST(AnalyticTask, PreferencesAreThoseOfTheSpec) {
  const AnalyticTask task = make_analytic_task(heterogeneous(7, 3), "dirichlet:0.5", 5);
  std::vector<std::string> names;
  for (const data::Client& client : task.partition.clients) {
    names.push_back(client.name);
  }
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  const auto expected = data::make_preferences("dirichlet:0.5", names, task.objectives, 5);
  for (std::size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(task.partition.clients[i].preference, expected[i]);
  }
  EXPECT_THROW((void)make_analytic_task(heterogeneous(7, 3), "dirichlet:-1", 5), Error);
}

TEST(AnalyticTask, AClientsNumbersDoNotDependOnHowManyThereAre) {
  const AnalyticTask few = make_analytic_task(heterogeneous(4, 0), "dirichlet:1", 5);
  const AnalyticTask many = make_analytic_task(heterogeneous(40, 8), "dirichlet:1", 5);
  const AnalyticTask other = make_analytic_task(heterogeneous(4, 0), "dirichlet:1", 6);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(few.shift[i], many.shift[i]);
    EXPECT_EQ(few.partition.clients[i].preference, many.partition.clients[i].preference);
    EXPECT_NE(few.shift[i], other.shift[i]);
  }
}

TEST(AnalyticTask, ShiftsHaveTheirStandardDeviation) {
  AnalyticOptions options = heterogeneous(4000, 0);
  const AnalyticTask task = make_analytic_task(options, "dirichlet:1", 5);
  double sum = 0.0;
  double squares = 0.0;
  for (const Vector& shift : task.shift) {
    for (const double entry : shift) {
      sum += entry;
      squares += entry * entry;
    }
  }
  const double count = 4000.0 * 5.0;
  EXPECT_NEAR(sum / count, 0.0, 5.0 * 0.3 / std::sqrt(count));
  EXPECT_NEAR(std::sqrt(squares / count), 0.3, 5.0 * 0.3 / std::sqrt(2.0 * count));
  options.shift = 0.0;
  EXPECT_EQ(make_analytic_task(options, "dirichlet:1", 5).shift[17], Vector(5, 0.0));
}

TEST(AnalyticTask, AClientsOptimumIsTheProblemsShifted) {
  const AnalyticTask task = make_analytic_task(heterogeneous(20, 5), "dirichlet:1", 5);
  for (const data::Client& client : task.partition.clients) {
    const ParetoPoint common = task.problem->pareto_point(client.preference);
    const ParetoPoint own = task.optimum(client.id, client.preference);
    EXPECT_EQ(own.chebyshev, common.chebyshev);
    EXPECT_EQ(own.loss, common.loss);
    for (std::size_t p = 0; p < own.x.size(); ++p) {
      EXPECT_EQ(own.x[p], common.x[p] + task.shift[client.id.index()][p]);
    }
  }
}

TEST(AnalyticTask, GradientDifferencesAreTheShiftsDiameterOnSimplexCentres) {
  const AnalyticTask task = make_analytic_task(heterogeneous(30, 0), "dirichlet:1", 5);
  const std::vector<ClientId> members{ClientId(3), ClientId(29), ClientId(11), ClientId(0),
                                      ClientId(17)};
  const Vector w{0.3, -0.2, 0.9, 0.0, 1.1};
  double largest = 0.0;
  for (const ClientId a : members) {
    for (const ClientId b : members) {
      std::vector<Vector> gradients;
      for (const ClientId id : {a, b}) {
        Vector x = w;
        for (std::size_t p = 0; p < x.size(); ++p) {
          x[p] -= task.shift[id.index()][p];
        }
        gradients.push_back(gradients_at(*task.problem, x));
      }
      for (std::size_t j = 0; j < 3; ++j) {
        double squared = 0.0;
        for (std::size_t p = 0; p < 5; ++p) {
          const double difference = gradients[0][j * 5 + p] - gradients[1][j * 5 + p];
          squared += difference * difference;
        }
        largest = std::max(largest, std::sqrt(squared));
      }
    }
  }
  EXPECT_NEAR(task.shift_diameter(members), largest, 1e-14);
  EXPECT_GT(largest, 0.1);
  EXPECT_EQ(task.shift_diameter(std::vector<ClientId>{ClientId(3)}), 0.0);
  EXPECT_EQ(task.shift_diameter({}), 0.0);
}

TEST(AnalyticTask, ConsensusClientsHaveTheirOwnCentres) {
  AnalyticOptions options = options_for("consensus", 1, 3);
  options.clients = 6;
  options.shift = 1.0;
  const AnalyticTask task = make_analytic_task(options, "dirichlet:1", 9);
  std::set<double> first;
  for (const ClientId id : task.partition.train_clients()) {
    const ParetoPoint own = task.optimum(id, Vector{1.0});
    EXPECT_NEAR(own.x[0], 1.0 / std::sqrt(3.0) + task.shift[id.index()][0], 1e-15);
    first.insert(own.x[0]);
  }
  EXPECT_EQ(first.size(), 6U);
}

TEST(AnalyticTask, DpoClientsHaveTheirOwnPairs) {
  AnalyticOptions options = options_for("dpo_linear", 2, 3);
  options.clients = 3;
  options.test_clients = 2;
  options.pairs_per_objective = 5;
  options.shift = 0.2;
  const AnalyticTask task = make_analytic_task(options, "dirichlet:1", 9);
  options.clients = 1;
  const AnalyticTask less = make_analytic_task(options, "dirichlet:1", 9);
  ASSERT_EQ(task.own_problem.size(), 5U);
  std::set<double> optima;
  const Vector half{0.5, 0.5};
  for (const data::Client& client : task.partition.clients) {
    const AnalyticProblem& problem = task.problem_of(client.id);
    optima.insert(task.optimum(client.id, half).chebyshev);
    // The objective is the mean of the pairs of `train` or, of test clients, of `evaluate`.
    const bool is_test = client.split == data::ClientSplit::kTest;
    double sum = 0.0;
    for (int k = is_test ? 5 : 0; k < (is_test ? 10 : 5); ++k) {
      sum += problem.observation(1, k, Vector{1.0, 2.0, -0.5}, {});
    }
    EXPECT_NEAR(problem.objective(1, Vector{1.0, 2.0, -0.5}, {}), sum / 5.0, 1e-14);
  }
  EXPECT_EQ(optima.size(), 5U);
  EXPECT_EQ(task.optimum(ClientId(0), half).chebyshev, less.optimum(ClientId(0), half).chebyshev);
}

TEST(AnalyticTask, TooManyPairsAreRefused) {
  AnalyticOptions options = heterogeneous(1000000, 0);
  options.pairs_per_objective = 1000;
  try {
    (void)make_analytic_task(options, "dirichlet:1", 1);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::kConfig);
    EXPECT_STREQ(error.what(),
                 "task.analytic.pairs_per_objective = 1000: with 1000000 training clients, 0 test "
                 "clients and 3 objectives there are more than 2147483647 pairs; expected at most "
                 "715");
  }
}

}  // namespace
}  // namespace apo::objective::test
