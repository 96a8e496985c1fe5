// FSPO and DITTO whole, on a tiny random language model.
#include <cmath>
#include <numbers>

#include "unit/methods/recording_objectives.hpp"
#include "unit/objective/float64_model.hpp"
#include "unit/objective/preference_fixture.hpp"
#include <gtest/gtest.h>

#include "apo/methods/ditto.hpp"
#include "apo/methods/fspo.hpp"
#include "apo/objective/preference_objectives.hpp"

namespace apo::methods {
namespace {

namespace tiny = model::tiny;
using federation::StepRecord;
using model::Architecture;
using objective::testing::all_projections;
using objective::testing::dot;
using objective::testing::Float64Model;
using objective::testing::language_model;
using objective::testing::random_adapter;
using objective::testing::token_data;

constexpr std::uint64_t kSeed = 11;

/// A test client that prefers objective 0 and owns ten pairs, 2 to 6 and 7 to 11.
data::Partition partition() {
  data::Client client;
  client.id = ClientId(0);
  client.split = data::ClientSplit::kTest;
  client.preference = {0.7, 0.3};
  client.train.resize(2);
  client.adapt = {{2, 3, 4, 5, 6}, {7, 8, 9, 10, 11}};
  client.evaluate.resize(2);
  data::Partition result;
  result.clients.push_back(client);
  return result;
}

double weighted(const objective::Evaluation& evaluation) {
  return 0.7 * evaluation.loss[0] + 0.3 * evaluation.loss[1];
}

struct Outcome {
  std::vector<float> adapter;
  std::vector<StepRecord> steps;
};

Outcome personalise(Personaliser& personaliser, const data::Partition& clients,
                    const std::vector<float>& initialiser) {
  Outcome result;
  result.adapter = personaliser.personalise(clients.clients[0], 0, 0, initialiser, result.steps);
  return result;
}

// algorithms.md 10.9: FSPO's gradient against finite differences, in float64.
TEST(Fspo, StepsAlongTheGradientOfTheWeightedIpoLoss) {
  const auto model = language_model(Architecture::kQwen2, all_projections(0.0));
  const Float64Model wide(tiny::config(Architecture::kQwen2),
                          tiny::weights(tiny::config(Architecture::kQwen2)), model.layout());
  const data::TokenData data = token_data();
  const data::Partition clients = partition();
  const double beta = 0.1;
  const auto ipo =
      objective::make_preference_objectives(model, data, 2, {.loss = "ipo", .beta = beta});
  testing::RecordingObjectives recording(*ipo);
  federation::AdaptOptions adapt;
  adapt.learning_rate = 1e-3;
  const auto personaliser =
      make_fspo_personaliser(recording, clients, {.beta = beta}, adapt, kSeed);
  const Outcome outcome = personalise(*personaliser, clients, random_adapter(model.layout(), 3));

  ASSERT_EQ(recording.calls.size(), 3U);  // ten pairs, two of each objective per step
  for (const auto& call : recording.calls) {
    const auto loss_at = [&](const std::vector<float>& along, double step) {
      std::vector<double> moved(call.parameters.begin(), call.parameters.end());
      for (std::size_t i = 0; i < moved.size(); ++i) {
        moved[i] += step * static_cast<double>(along[i]);
      }
      double sum = 0.0;
      for (std::size_t j = 0; j < 2; ++j) {
        for (const int number : call.batch.pairs[j]) {
          const data::TokenPair& pair = data.pairs[static_cast<std::size_t>(number)];
          const double h = wide.log_prob(pair.prompt, pair.chosen, moved) -
                           wide.log_prob(pair.prompt, pair.chosen, {}) -
                           wide.log_prob(pair.prompt, pair.rejected, moved) +
                           wide.log_prob(pair.prompt, pair.rejected, {});
          sum += clients.clients[0].preference[j] * std::pow(h - 0.5 / beta, 2) /
                 static_cast<double>(call.batch.pairs[j].size());
        }
      }
      return sum;
    };
    const double norm = std::sqrt(dot(call.gradient, call.gradient));
    for (std::uint64_t seed = 20; seed < 23; ++seed) {
      const std::vector<float> along = random_adapter(model.layout(), seed, 1.0);
      const double h = 1e-4;
      const double narrow = (loss_at(along, h) - loss_at(along, -h)) / (2.0 * h);
      const double far = (loss_at(along, 2 * h) - loss_at(along, -2 * h)) / (4.0 * h);
      EXPECT_NEAR(dot(call.gradient, along), (4.0 * narrow - far) / 3.0, 1e-5 * norm);
    }
  }
  EXPECT_EQ(outcome.steps.size(), 3U);
}

TEST(Fspo, LowersTheIpoLossOfTheSupport) {
  const auto model = language_model(Architecture::kLlama, all_projections(0.05));
  const data::TokenData data = token_data();
  const data::Partition clients = partition();
  const objective::DpoOptions ipo{.loss = "ipo", .beta = 0.1};
  federation::AdaptOptions adapt;
  adapt.learning_rate = 2e-3;
  const auto objectives = objective::make_preference_objectives(model, data, 2, ipo);
  const std::vector<float> start = objectives->initial_parameters(1);
  for (const char* optimizer : {"rmsprop", "adamw"}) {
    const FspoOptions options{.beta = 0.1, .epochs = 8, .optimizer = optimizer};
    const auto run = [&] {
      const auto personaliser =
          make_fspo_personaliser(model, data, 2, clients, options, adapt, kSeed);
      return personalise(*personaliser, clients, start);
    };
    const Outcome outcome = run();

    const objective::Batch support{ClientId(0), clients.clients[0].adapt};
    EXPECT_NEAR(weighted(objectives->evaluate(start, support)), 25.0, 1e-3);  // (1 / (2 beta))^2
    EXPECT_LT(weighted(objectives->evaluate(outcome.adapter, support)), 15.0) << optimizer;
    EXPECT_EQ(outcome.adapter, run().adapter);
    ASSERT_EQ(outcome.steps.size(), 24U);
    EXPECT_EQ(outcome.steps[3].mu, (std::vector<double>{0.7, 0.3}));
    EXPECT_NEAR(outcome.steps[0].loss[0], 25.0, 1e-3);
    EXPECT_NEAR(outcome.steps[0].chebyshev, 0.7 * 25.0, 1e-3);
  }
}

DittoInputs ditto_inputs_of(const model::LanguageModel& model, const data::TokenData& data) {
  return {model, data, 2, {3}, {3}, 13};
}

DittoOptions quick_ditto() {
  DittoOptions options;
  options.sft_steps = 10;
  options.sft_learning_rate = 1e-2;
  options.sft_stop_loss = 0.0;
  options.steps = 12;
  options.batch_size = 4;
  options.learning_rate = 1e-2;
  options.beta = 0.5;
  options.resample_every = 4;
  options.samples_per_prompt = 3;
  options.max_new_tokens = 6;
  return options;
}

/// Mean token log-probability of the demonstrations, weighted by the preference.
double log_prob_of_demonstrations(const model::LanguageModel& model, const data::TokenData& data,
                                  const std::vector<float>& adapter) {
  const auto sft = objective::make_preference_objectives(model, data, 2, {.loss = "sft"});
  return -weighted(sft->evaluate(adapter, {ClientId(0), partition().clients[0].adapt}));
}

TEST(Ditto, RaisesTheDemonstrationsLogProbability) {
  const auto model = language_model(Architecture::kLlama, all_projections(0.05));
  const data::TokenData data = token_data();
  const data::Partition clients = partition();
  const std::vector<float> start = model::initial_adapter(model.layout(), 1);
  const auto run = [&](const data::TokenData& tokens) {
    return personalise(
        *make_ditto_personaliser(ditto_inputs_of(model, tokens), quick_ditto(), 20, kSeed), clients,
        start);
  };
  const Outcome outcome = run(data);

  const double before = log_prob_of_demonstrations(model, data, start);
  EXPECT_GT(log_prob_of_demonstrations(model, data, outcome.adapter), before + 0.2);
  ASSERT_EQ(outcome.steps.size(), 22U);
  for (int k = 0; k < 22; ++k) {
    const StepRecord& step = outcome.steps[static_cast<std::size_t>(k)];
    EXPECT_EQ(step.step, k);
    EXPECT_TRUE(step.finite);
    EXPECT_EQ(std::isnan(step.accuracy[0]) && std::isnan(step.accuracy[1]), k < 10) << k;
  }
  // self-play starts at its own reference
  const StepRecord& first = outcome.steps[10];
  for (std::size_t j = 0; j < 2; ++j) {
    if (!std::isnan(first.loss[j])) {
      EXPECT_NEAR(first.loss[j], std::numbers::ln2, 1e-5);
    }
  }
  EXPECT_EQ(outcome.adapter, run(data).adapter);

  // no label of the data beside the demonstrations has a part in it
  data::TokenData others = data;
  for (data::TokenPair& pair : others.pairs) {
    pair.rejected = {1, 1, 1};
  }
  EXPECT_EQ(outcome.adapter, run(others).adapter);
}

TEST(Ditto, SelfPlayAloneLearnsToPreferTheDemonstrations) {
  const auto model = language_model(Architecture::kLlama, all_projections(0.0));
  const data::TokenData data = token_data();
  const data::Partition clients = partition();
  const std::vector<float> start = model::initial_adapter(model.layout(), 1);
  DittoOptions options = quick_ditto();
  options.sft_steps = 0;
  options.steps = 20;
  options.resample_every = 20;
  const Outcome outcome = personalise(
      *make_ditto_personaliser(ditto_inputs_of(model, data), options, 20, kSeed), clients, start);

  ASSERT_EQ(outcome.steps.size(), 20U);
  double last = 0.0;
  for (std::size_t k = 16; k < 20; ++k) {
    const StepRecord& step = outcome.steps[k];
    for (std::size_t j = 0; j < 2; ++j) {
      last += step.mu[j] > 0.0 ? step.mu[j] * step.loss[j] / 4.0 : 0.0;
    }
  }
  EXPECT_LT(last, 0.6 * std::numbers::ln2);
  EXPECT_GT(log_prob_of_demonstrations(model, data, outcome.adapter),
            log_prob_of_demonstrations(model, data, start));
}

TEST(Ditto, ClosesTheSamplesThatEndedByThemselves) {
  const auto model = language_model(Architecture::kLlama, all_projections(0.0));
  const data::TokenData data = token_data();
  const data::Partition clients = partition();
  DittoOptions options = quick_ditto();
  options.sft_steps = 0;
  options.steps = 2;
  options.warmup = 0.0;
  const auto run = [&](std::vector<std::int32_t> closing, std::vector<std::int32_t> stop) {
    DittoInputs inputs{model, data, 2, std::move(closing), std::move(stop), 13};
    return personalise(*make_ditto_personaliser(std::move(inputs), options, 20, kSeed), clients,
                       model::initial_adapter(model.layout(), 1))
        .adapter;
  };

  EXPECT_NE(run({3}, {3}), run({4, 5}, {3}));
  EXPECT_EQ(run({3}, {}), run({4, 5}, {}));  // without a stop token all samples are cut off
}

TEST(Ditto, FineTuningStopsAfterTheFirstBatchThatIsGoodEnough) {
  const auto model = language_model(Architecture::kLlama, all_projections(0.0));
  const data::TokenData data = token_data();
  const data::Partition clients = partition();
  DittoOptions options = quick_ditto();
  options.sft_stop_loss = 1e3;
  options.steps = 1;
  const Outcome outcome =
      personalise(*make_ditto_personaliser(ditto_inputs_of(model, data), options, 20, kSeed),
                  clients, model::initial_adapter(model.layout(), 1));

  EXPECT_EQ(outcome.steps.size(), 2U);
}

}  // namespace
}  // namespace apo::methods
