// ifca and rewarded_soup: several models per cluster (algorithms.md 2.7 and 6).

#include "baseline_fixture.hpp"
#include <gtest/gtest.h>

namespace apo::federation {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)

Vector part(const std::vector<float>& parameters, std::size_t model, std::size_t p) {
  Vector result;
  for (std::size_t k = 0; k < p; ++k) {
    result.push_back(static_cast<double>(parameters[model * p + k]));
  }
  return result;
}

double scalar_loss(const Federation& f, int id, const Vector& w) {
  const data::Client& client = f.partition.clients[static_cast<std::size_t>(id)];
  double mass = 0.0;
  double sum = 0.0;
  double largest = 0.0;
  for (std::size_t j = 0; j < f.m(); ++j) {
    if (has(f, id, j)) {
      mass += client.preference[j];
      sum += client.preference[j] * loss_of(f, id, j, w);
      largest = std::max(largest, client.preference[j] * loss_of(f, id, j, w));
    }
  }
  return (f.baseline.cluster_loss == "chebyshev" ? largest : sum) / mass;
}

std::size_t best_model(const Federation& f, int id, const std::vector<Vector>& models) {
  std::size_t best = 0;
  for (std::size_t k = 1; k < models.size(); ++k) {
    if (scalar_loss(f, id, models[k]) < scalar_loss(f, id, models[best])) {
      best = k;
    }
  }
  return best;
}

/// One round of IFCA. @return how often each model was picked
std::vector<int> ifca_round(const Federation& f, std::vector<Vector>& models) {
  std::vector<Vector> sum(models.size(), Vector(f.p(), 0.0));
  Vector mass(models.size(), 0.0);
  std::vector<int> picked(models.size(), 0);
  for (const int id : f.participants) {
    const data::Client& client = f.partition.clients[static_cast<std::size_t>(id)];
    const std::size_t k = best_model(f, id, models);
    const double weight =
        f.phase1.aggregation == "uniform" ? 1.0 : static_cast<double>(client.num_pairs());
    axpy(weight, local_delta(f, id, client.preference, models[k]), sum[k]);
    mass[k] += weight;
    ++picked[k];
  }
  for (std::size_t k = 0; k < models.size(); ++k) {
    if (mass[k] > 0.0) {
      axpy(f.phase1.server_learning_rate / mass[k], sum[k], models[k]);
    }
  }
  return picked;
}

class IfcaLoss : public ::testing::TestWithParam<const char*> {};

TEST_P(IfcaLoss, EqualsTheSerialLoop) {
  Federation f = random_federation(3, 5);
  f.baseline.cluster_loss = GetParam();
  f.baseline.num_models = 6;
  f.baseline.init_scale = 1.0;
  f.phase1.server_learning_rate = 0.75;
  f.phase1.aggregation = f.baseline.cluster_loss == "weighted" ? "pairs" : "uniform";
  Session session(f, "ifca");
  const std::vector<float> start = session.scheme().initial_parameters(77);
  ASSERT_EQ(start.size(), 6U * f.p());
  ASSERT_EQ(session.scheme().num_parameters(), 30);

  const Outcome outcome = session.run(3);

  std::vector<Vector> models;
  for (std::size_t k = 0; k < 6; ++k) {
    models.push_back(part(start, k, f.p()));
  }
  std::vector<int> picked;
  bool some_model_is_left_out = false;
  for (int r = 0; r < 3; ++r) {
    picked = ifca_round(f, models);
    EXPECT_LT(*std::max_element(picked.begin(), picked.end()), 5) << "one model took all";
    some_model_is_left_out |= std::count(picked.begin(), picked.end(), 0) > 0;
  }
  EXPECT_TRUE(some_model_is_left_out);
  for (std::size_t k = 0; k < 6; ++k) {
    const Vector model = part(outcome.parameters, k, f.p());
    for (std::size_t i = 0; i < f.p(); ++i) {
      EXPECT_NEAR(model[i], models[k][i], 2e-6) << "model " << k;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Losses, IfcaLoss, ::testing::Values("weighted", "chebyshev"));

TEST(Ifca, ModelThatNobodyPicksStays) {
  Federation f = random_federation(1, 2);
  f.baseline.num_models = 2;
  for (auto& center : f.centers) {
    center = {{1.0F, 1.0F}};
  }
  Session session(f, "ifca");

  const Outcome outcome = session.run(2, std::vector<float>{0.5F, 0.5F, -4.0F, 2.0F});

  EXPECT_GT(outcome.parameters[0], 0.5F);
  EXPECT_EQ(outcome.parameters[2], -4.0F);
  EXPECT_EQ(outcome.parameters[3], 2.0F);
}

TEST(Ifca, TiesGoToTheFirstModel) {
  Federation f = random_federation(1, 1);
  f.baseline.num_models = 3;
  for (auto& center : f.centers) {
    center = {{0.0F}};
  }
  Session session(f, "ifca");

  const Outcome outcome = session.run(1, std::vector<float>{2.0F, -1.0F, 1.0F});

  EXPECT_EQ(outcome.parameters[0], 2.0F);
  EXPECT_GT(outcome.parameters[1], -1.0F);
  EXPECT_EQ(outcome.parameters[2], 1.0F);
}

TEST(Ifca, InitialModelsAreDrawnByClusterAndSeed) {
  Federation f = random_federation(2, 2000);
  f.baseline.num_models = 2;
  f.baseline.init_scale = 0.5;
  Session session(f, "ifca");

  const std::vector<float> first = session.scheme().initial_parameters(1);

  EXPECT_EQ(first, session.scheme().initial_parameters(1));
  EXPECT_NE(first, session.scheme().initial_parameters(2));
  double mean = 0.0;
  double square = 0.0;
  double product = 0.0;
  for (std::size_t k = 0; k < 2000; ++k) {
    mean += static_cast<double>(first[k] + first[2000 + k]) / 4000.0;
    square += static_cast<double>(first[k] * first[k]) / 2000.0;
    product += static_cast<double>(first[k] * first[2000 + k]) / 2000.0;
  }
  EXPECT_NEAR(mean, 0.0, 5.0 * 0.5 / std::sqrt(4000.0));
  EXPECT_NEAR(square, 0.25, 5.0 * 0.25 * std::sqrt(2.0 / 2000.0));
  EXPECT_NEAR(product, 0.0, 5.0 * 0.25 / std::sqrt(2000.0));
}

// Two planted groups of four clients around (3, 0, ..) and (-3, 0, ..): each gets a model of its
// own, and a new client of a group is given that group's.
TEST(Ifca, SeparatesTwoPlantedGroups) {
  Federation f;
  CounterRng rng({5, Purpose::kTest});
  for (int i = 0; i < 9; ++i) {
    f.centers.emplace_back();
    for (int j = 0; j < 2; ++j) {
      f.centers.back().emplace_back();
      for (int k = 0; k < 4; ++k) {
        const double shift = k == 0 ? (i % 2 == 0 ? 3.0 : -3.0) : 0.0;
        f.centers.back().back().push_back(static_cast<float>(shift + 0.1 * rng.normal()));
      }
    }
  }
  f.partition = make_clients(std::vector<Vector>(9, Vector{0.5, 0.5}), std::vector<int>(9, 4));
  data::Client& newcomer = f.partition.clients[8];
  newcomer.adapt = newcomer.train;
  newcomer.train = data::Pool(2);
  f.phase1.optimizer = "sgd";
  f.phase1.local_steps = 2;
  f.phase1.batch_size = 4;
  f.baseline.num_models = 2;
  f.learning_rate = 0.25;
  f.participants = {0, 1, 2, 3, 4, 5, 6, 7};
  Session session(f, "ifca");

  const Outcome outcome = session.run(40);

  std::vector<std::vector<float>> given;
  for (const data::Client& client : f.partition.clients) {
    given.push_back(session.scheme().personal(client, outcome.parameters));
    ASSERT_EQ(given.back().size(), 4U);
  }
  for (std::size_t i = 2; i < 9; ++i) {
    EXPECT_EQ(given[i], given[i % 2]) << "client " << i;
  }
  for (std::size_t k = 0; k < 4; ++k) {
    for (std::size_t group = 0; group < 2; ++group) {
      double mean = 0.0;
      for (std::size_t i = group; i < 8; i += 2) {
        mean += static_cast<double>(f.centers[i][0][k] + f.centers[i][1][k]) / 8.0;
      }
      EXPECT_NEAR(static_cast<double>(given[group][k]), mean, 1e-4);
    }
  }
}

TEST(Ifca, ClientWithoutAUsableModelIsLeftOut) {
  Federation f = random_federation(2, 4);
  f.participants = {0, 2, 4};
  Session session(f, "ifca", false, [](int id, std::span<const float>) { return id == 2; });

  const Outcome outcome = session.run(1);

  EXPECT_EQ(outcome.reports[0].num_failed, 1);
  f.participants = {0, 4};
  EXPECT_EQ(outcome.parameters, Session(f, "ifca").run(1).parameters);
}

TEST(RewardedSoup, EachExpertIsFedAvgOnItsObjective) {
  Federation f = random_federation(3, 5);
  f.phase1.server_learning_rate = 0.75;
  Session session(f, "rewarded_soup");

  const Outcome outcome = session.run(3);

  for (std::size_t j = 0; j < 3; ++j) {
    Vector w(f.p(), 0.0);
    Vector alone(3, 0.0);
    alone[j] = 1.0;
    for (int r = 0; r < 3; ++r) {
      Vector sum(f.p(), 0.0);
      double pairs = 0.0;
      for (const int id : f.participants) {
        const auto own =
            static_cast<double>(f.partition.clients[static_cast<std::size_t>(id)].train[j].size());
        axpy(own, local_delta(f, id, alone, w), sum);
        pairs += own;
      }
      axpy(0.75 / pairs, sum, w);
    }
    const Vector expert = part(outcome.parameters, j, f.p());
    for (std::size_t k = 0; k < f.p(); ++k) {
      EXPECT_NEAR(expert[k], w[k], 1e-6) << "expert " << j;
    }
  }
}

TEST(RewardedSoup, PersonalIsTheMeanUnderThePreference) {
  const Federation f = random_federation(3, 5);
  Session session(f, "rewarded_soup");
  const Outcome outcome = session.run(2);
  const data::Client& client = f.partition.clients[5];

  const std::vector<float> soup = session.scheme().personal(client, outcome.parameters);

  ASSERT_EQ(soup.size(), 5U);
  for (std::size_t k = 0; k < 5; ++k) {
    double expected = 0.0;
    for (std::size_t j = 0; j < 3; ++j) {
      expected += client.preference[j] * part(outcome.parameters, j, 5)[k];
    }
    EXPECT_NEAR(static_cast<double>(soup[k]), expected, 1e-6);
  }
}

// Algorithms.md 10.9: identical objectives make identical experts, and any mean of them is the
// expert.
TEST(RewardedSoup, IdenticalExpertsGiveTheExpert) {
  Federation f = random_federation(3, 5);
  f.partition.clients[3].train[1] = f.partition.clients[3].train[0];
  for (auto& client : f.centers) {
    client[1] = client[0];
    client[2] = client[0];
  }
  Session session(f, "rewarded_soup");

  const Outcome outcome = session.run(3);

  const std::vector<float> expert(outcome.parameters.begin(), outcome.parameters.begin() + 5);
  EXPECT_NE(expert, std::vector<float>(5, 0.0F));
  for (const data::Client& client : f.partition.clients) {
    EXPECT_EQ(session.scheme().personal(client, outcome.parameters), expert);
  }
}

}  // namespace
}  // namespace apo::federation
