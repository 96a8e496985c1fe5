// What holds for every comparison method: the same bits for any number of ranks, failed clients
// left out, traffic counted.

#include "baseline_fixture.hpp"
#include <gtest/gtest.h>

#include "apo/core/error.hpp"

namespace apo::federation {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)

struct Method {
  const char* name;
  const char* compression = "none";
  double quality = 1.0;
  const char* normalisation = "none";
  double topk = 1.0;
};

void PrintTo(const Method& method, std::ostream* out) {
  *out << method.name << " " << method.compression << " " << method.normalisation;
}

Federation federation_of(const Method& method, int m = 3, int p = 5) {
  Federation f = random_federation(m, p);
  f.baseline.compression = method.compression;
  f.baseline.compression_quality = method.quality;
  f.baseline.update_normalisation = method.normalisation;
  f.baseline.update_topk = method.topk;
  f.baseline.num_models = 2;
  f.baseline.init_scale = 0.5;
  return f;
}

class EveryMethod : public ::testing::TestWithParam<Method> {};

// The team of all ranks against this rank alone, which is the serial program.
TEST_P(EveryMethod, SameBitsForAnyNumberOfRanks) {
  for (const char* optimizer : {"sgd", "adamw"}) {
    Federation f = federation_of(GetParam());
    f.phase1.optimizer = optimizer;
    Session together(f, GetParam().name);
    Session alone(f, GetParam().name, true);

    const Outcome a = together.run(4);
    const Outcome b = alone.run(4);

    EXPECT_EQ(a.parameters, b.parameters);
    EXPECT_NE(a.parameters, together.scheme().initial_parameters(77));
    EXPECT_EQ(a.memory, b.memory);
    for (std::size_t r = 0; r < 4; ++r) {
      EXPECT_EQ(a.reports[r].server_weights, b.reports[r].server_weights);
      EXPECT_EQ(a.reports[r].mean_loss, b.reports[r].mean_loss);
      EXPECT_EQ(a.reports[r].update_norm, b.reports[r].update_norm);
      EXPECT_EQ(a.reports[r].bytes_reduced, b.reports[r].bytes_reduced);
      EXPECT_EQ(a.reports[r].participants, f.participants);
      EXPECT_EQ(a.reports[r].round, static_cast<int>(r));
      EXPECT_GE(a.reports[r].seconds_clients, 0.0);
      ASSERT_EQ(a.reports[r].steps.size(), b.reports[r].steps.size());
      for (std::size_t i = 0; i < a.reports[r].steps.size(); ++i) {
        EXPECT_EQ(a.reports[r].steps[i].client, b.reports[r].steps[i].client);
        EXPECT_EQ(a.reports[r].steps[i].step, b.reports[r].steps[i].step);
        EXPECT_EQ(a.reports[r].steps[i].mu, b.reports[r].steps[i].mu);
        EXPECT_EQ(a.reports[r].steps[i].direction_norm, b.reports[r].steps[i].direction_norm);
      }
    }
  }
}

TEST_P(EveryMethod, FloatingPointSumsAgreeToRounding) {
  Federation f = federation_of(GetParam());
  const Outcome ordered = Session(f, GetParam().name).run(2);
  f.ordered = false;

  const Outcome fast = Session(f, GetParam().name).run(2);

  for (std::size_t k = 0; k < ordered.parameters.size(); ++k) {
    EXPECT_NEAR(fast.parameters[k], ordered.parameters[k], 1e-4);
  }
}

// A participant whose numbers are not finite: as if it had not taken part, bit for bit.
TEST_P(EveryMethod, FailedClientIsLeftOutAndCounted) {
  Federation f = federation_of(GetParam());
  Session poisoned(f, GetParam().name, false,
                   [](int id, std::span<const float>) { return id == 2; });

  const Outcome with = poisoned.run(2);

  f.participants = {0, 3, 4, 6};
  const Outcome without = Session(f, GetParam().name).run(2);
  EXPECT_EQ(with.parameters, without.parameters);
  EXPECT_EQ(with.memory, without.memory);
  for (std::size_t r = 0; r < 2; ++r) {
    EXPECT_EQ(with.reports[r].num_failed, 1);
    EXPECT_EQ(without.reports[r].num_failed, 0);
    EXPECT_EQ(with.reports[r].server_weights, without.reports[r].server_weights);
    EXPECT_EQ(with.reports[r].mean_loss, without.reports[r].mean_loss);
    EXPECT_EQ(with.reports[r].participants.size(), 5U);
  }
}

TEST_P(EveryMethod, RoundWithoutSurvivorsKeepsTheModel) {
  Session session(federation_of(GetParam()), GetParam().name, false,
                  [](int, std::span<const float>) { return true; });

  const Outcome outcome = session.run(1);

  EXPECT_EQ(outcome.reports[0].num_failed, 5);
  EXPECT_EQ(outcome.parameters, session.scheme().initial_parameters(77));
  EXPECT_EQ(outcome.reports[0].update_norm, 0.0);
}

// Finite losses and gradients, but a last step that leaves float32's range.
TEST_P(EveryMethod, DeltaThatOverflowsIsLeftOut) {
  if (std::string(GetParam().normalisation) == "iteration") {
    GTEST_SKIP() << "steps of a given length do not overflow";
  }
  Federation f = federation_of(GetParam());
  f.phase1.local_steps = 1;
  f.learning_rate = 3e38;
  Session session(f, GetParam().name);

  const Outcome outcome = session.run(1);

  EXPECT_GT(outcome.reports[0].num_failed, 0);
  for (const float x : outcome.parameters) {
    EXPECT_TRUE(std::isfinite(x));
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, EveryMethod,
                         ::testing::Values(Method{"server_mgda"}, Method{"fedcmoo"},
                                           Method{"fedcmoo", "svd", 2.0}, Method{"fedcmoo", "topk"},
                                           Method{"fedcmoo_pref"},
                                           Method{"fedcmoo_pref", "svd", 6.0}, Method{"fsmgda"},
                                           Method{"fsmgda", "none", 1.0, "iteration"},
                                           Method{"fsmgda", "none", 1.0, "update", 0.4},
                                           Method{"fedmgda_plus"}, Method{"ifca"},
                                           Method{"rewarded_soup"}));

struct Traffic {
  Method method;
  std::int64_t up;
  std::int64_t down;
  std::int64_t bytes;  ///< of the simulator's own sums, per rank
};

// m = 3, P = 5, two models, five participants, counted by hand. 15 numbers are a Jacobian, which
// folds into 3 x 6.
TEST(Traffic, EqualsTheCountByHand) {
  const std::vector<Traffic> expected = {
      // Jacobian + delta | model + weights | Jacobian, 3 counts, 3 losses; delta, 1 count
      {{"server_mgda"}, 15 + 5, 5 + 3, 8 * (21 + 6)},
      {{"fedcmoo"}, 15 + 5, 5 + 3, 8 * (21 + 6)},
      // rank floor(6 * sqrt(5/3) / 2) = 3: 3 * (3 + 6) numbers; two symmetric 3 x 3 matrices.
      // The second sum has two 3 x 3 matrices and 2 numbers.
      {{"fedcmoo", "svd", 6.0}, 27 + 12 + 5, 5 + 27 + 3, 8 * (21 + 20 + 6)},
      // rank 1
      {{"fedcmoo", "svd", 2.0}, 9 + 12 + 5, 5 + 9 + 3, 8 * (21 + 20 + 6)},
      // 10 of 15 entries, positions as 15 bits (10 positions of 4 bits would take 40): one word
      {{"fedcmoo", "topk", 2.0}, 11 + 12 + 5, 5 + 11 + 3, 8 * (21 + 20 + 6)},
      {{"fedcmoo", "topk", 3.0}, 15 + 12 + 5, 5 + 15 + 3, 8 * (21 + 20 + 6)},
      {{"fedcmoo_pref"}, 15 + 3 + 5, 5 + 3, 8 * (21 + 6)},
      {{"fsmgda"}, 15, 5, 8 * 18},
      // 2 of 5 entries and one word of positions, three times
      {{"fsmgda", "none", 1.0, "none", 0.4}, 3 * (2 + 1), 5, 8 * 18},
      // five deltas of float32 to all ranks, then the sum
      {{"fedmgda_plus"}, 5, 5, 4 * 25 + 8 * 5},
      {{"ifca"}, 5 + 1, 10, 8 * 12},
      {{"rewarded_soup"}, 15, 15, 8 * 18},
  };
  for (const Traffic& row : expected) {
    const Federation f = federation_of(row.method);

    const RoundReport report = Session(f, row.method.name).run(1).reports[0];

    EXPECT_EQ(report.floats_up, row.up) << ::testing::PrintToString(row.method);
    EXPECT_EQ(report.floats_down, row.down) << ::testing::PrintToString(row.method);
    EXPECT_EQ(report.bytes_reduced, row.bytes) << ::testing::PrintToString(row.method);
  }
}

TEST(MakeBaselineScheme, RefusesAnUnknownName) {
  EXPECT_THROW(Session(random_federation(2, 3), "fedprox"), Error);
}

}  // namespace
}  // namespace apo::federation
