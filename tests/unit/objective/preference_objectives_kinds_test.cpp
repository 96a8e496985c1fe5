// Loss kinds, reference adapters and growing data; what all kinds share is in the other test.
#include <cmath>

#include "unit/objective/float64_model.hpp"
#include "unit/objective/preference_fixture.hpp"
#include <gtest/gtest.h>

#include "apo/core/error.hpp"
#include "apo/model/causal_lm.hpp"
#include "apo/objective/preference_objectives.hpp"

namespace apo::objective {
namespace {

namespace tiny = model::tiny;
using model::Architecture;
using testing::all_projections;
using testing::dot;
using testing::Float64Model;
using testing::language_model;
using testing::max_difference;
using testing::random_adapter;
using testing::token_data;

std::size_t num_parameters(const model::LanguageModel& model) {
  return static_cast<std::size_t>(model.layout().num_parameters);
}

/// The losses of section 6 written out again, in float64 and from log-probabilities alone.
double oracle_loss(const Float64Model& model, const DpoOptions& options,
                   const data::TokenPair& pair, std::span<const double> policy,
                   std::span<const double> reference) {
  const auto chosen_length = static_cast<double>(pair.chosen.size());
  const double log_prob = model.log_prob(pair.prompt, pair.chosen, policy);
  if (options.loss == "sft") {
    return -log_prob / chosen_length;
  }
  double up = log_prob - model.log_prob(pair.prompt, pair.chosen, reference);
  double down = model.log_prob(pair.prompt, pair.rejected, policy) -
                model.log_prob(pair.prompt, pair.rejected, reference);
  if (options.average_log_probs) {
    up /= chosen_length;
    down /= static_cast<double>(pair.rejected.size());
  }
  const double nll = -options.nll_weight * log_prob / chosen_length;
  return options.loss == "ipo" ? std::pow(up - down - 0.5 / options.beta, 2) + nll
                               : std::log1p(std::exp(-options.beta * (up - down))) + nll;
}

class GradientOracle : public ::testing::TestWithParam<DpoOptions> {};

TEST_P(GradientOracle, FloatGradientsEqualFloat64FiniteDifferences) {
  const DpoOptions& options = GetParam();
  const auto model = language_model(Architecture::kQwen2, all_projections(0.0));
  const Float64Model wide(tiny::config(Architecture::kQwen2),
                          tiny::weights(tiny::config(Architecture::kQwen2)), model.layout());
  const data::TokenData data = token_data();
  const std::vector<float> reference = random_adapter(model.layout(), 31);
  const std::vector<float> adapter = random_adapter(model.layout(), 32);
  const auto objectives = make_preference_objectives(model, data, 2, options, 4, 512, reference);
  const std::size_t p = num_parameters(model);
  const Batch batch{ClientId(0), {{0, 2, 3, 3}, {1, 4, 5}}};
  std::vector<float> gradients(2 * p);
  const Evaluation result = objectives->gradients(adapter, batch, {}, gradients);

  const std::vector<double> fixed(reference.begin(), reference.end());
  const auto loss_at = [&](std::size_t j, const std::vector<float>& along, double step) {
    std::vector<double> moved(adapter.begin(), adapter.end());
    for (std::size_t i = 0; i < p; ++i) {
      moved[i] += step * static_cast<double>(along[i]);
    }
    double sum = 0.0;
    for (const int pair : batch.pairs[j]) {
      sum += oracle_loss(wide, options, data.pairs[static_cast<std::size_t>(pair)], moved, fixed);
    }
    return sum / static_cast<double>(batch.pairs[j].size());
  };
  for (std::size_t j = 0; j < 2; ++j) {
    const std::span<const float> row = std::span(gradients).subspan(j * p, p);
    const double norm = std::sqrt(dot(row, row));
    EXPECT_NEAR(result.loss[j], loss_at(j, adapter, 0.0), 1e-5 * (1.0 + result.loss[j]));
    for (std::uint64_t seed = 40; seed < 44; ++seed) {
      const std::vector<float> along = random_adapter(model.layout(), seed, 1.0);
      const double h = 1e-4;
      const double narrow = (loss_at(j, along, h) - loss_at(j, along, -h)) / (2.0 * h);
      const double far = (loss_at(j, along, 2 * h) - loss_at(j, along, -2 * h)) / (4.0 * h);
      EXPECT_NEAR(dot(row, along), (4.0 * narrow - far) / 3.0, 1e-5 * norm)
          << "objective " << j << " direction " << seed;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    , GradientOracle,
    ::testing::Values(DpoOptions{.loss = "ipo", .beta = 0.1},
                      DpoOptions{.loss = "ipo", .beta = 0.5, .average_log_probs = true},
                      DpoOptions{.loss = "ipo", .beta = 0.2, .nll_weight = 0.4},
                      DpoOptions{.loss = "sft"},
                      DpoOptions{.loss = "dpo", .beta = 0.3, .average_log_probs = true}),
    [](const auto& instance) {
      return instance.param.loss + (instance.param.average_log_probs ? "_averaged" : "") +
             (instance.param.nll_weight > 0.0 ? "_with_nll" : "");
    });

// algorithms.md 6: over labels that agree with share q, E (h - 1/(2 beta))^2 is least at
// h = (2q - 1) / (2 beta).
TEST(PreferenceObjectivesIpo, MinimiserIsTheMeanLabelOverTwoBeta) {
  const auto model = language_model(Architecture::kLlama, all_projections(0.0));
  const data::TokenData data = token_data(2);  // one pair, labelled both ways
  const auto objectives = make_preference_objectives(model, data, 1, {.loss = "ipo", .beta = 0.25});
  const Batch three_of_four{ClientId(0), {{0, 0, 0, 1}}};
  std::vector<float> adapter = random_adapter(model.layout(), 45);
  std::vector<float> gradient(adapter.size());
  for (int step = 0; step < 300; ++step) {
    (void)objectives->gradients(adapter, three_of_four, {}, gradient);
    for (std::size_t i = 0; i < adapter.size(); ++i) {
      adapter[i] -= 2e-3F * gradient[i];
    }
  }

  const auto dpo = make_preference_objectives(model, data, 1, {.beta = 1.0});
  const double loss = dpo->evaluate(adapter, {ClientId(0), {{0}}}).loss[0];
  const double h = -std::log(std::expm1(loss));  // inverse of softplus(-h)
  EXPECT_NEAR(h, (2.0 * 0.75 - 1.0) / (2.0 * 0.25), 2e-3);
}

TEST(PreferenceObjectivesSft, NeverLooksAtTheRejectedResponse) {
  const auto model = language_model(Architecture::kLlama, all_projections(0.3));
  const data::TokenData data = token_data();
  data::TokenData changed = data;
  for (data::TokenPair& pair : changed.pairs) {
    pair.rejected.clear();
  }
  const std::vector<float> adapter = random_adapter(model.layout(), 50);
  const Batch batch{ClientId(0), {{0, 2, 3}, {4}}};
  const auto run = [&](const data::TokenData& pairs) {
    const auto objectives = make_preference_objectives(model, pairs, 2, {.loss = "sft"});
    std::vector<float> gradients(2 * num_parameters(model));
    const Evaluation result = objectives->gradients(adapter, batch, {1, 2, 3}, gradients);
    EXPECT_TRUE(std::isnan(result.accuracy[0]));
    return std::tuple(gradients, result.loss, objectives->evaluate({}, batch).loss);
  };

  EXPECT_EQ(run(data), run(changed));
}

TEST(PreferenceObjectivesReference, AdapterInPlaceOfTheBase) {
  const auto model = language_model(Architecture::kLlama, all_projections(0.0));
  const data::TokenData data = token_data();
  const std::vector<float> anchor = random_adapter(model.layout(), 60);
  const std::vector<float> policy = random_adapter(model.layout(), 61);
  const DpoOptions dpo{.beta = 0.4};
  const auto anchored = make_preference_objectives(model, data, 1, dpo, 32, 512, anchor);
  const auto plain = make_preference_objectives(model, data, 1, dpo);
  const auto ipo =
      make_preference_objectives(model, data, 1, {.loss = "ipo", .beta = 0.4}, 32, 512, anchor);
  const Batch batch{ClientId(0), {{2}}};

  EXPECT_EQ(anchored->evaluate({}, batch).loss[0], std::log(2.0));
  EXPECT_NEAR(anchored->evaluate(anchor, batch).loss[0], std::log(2.0), 1e-6);
  EXPECT_NEAR(ipo->evaluate(anchor, batch).loss[0], std::pow(1.0 / 0.8, 2), 1e-5);
  const auto margin = [&](const std::unique_ptr<ObjectiveSet>& set,
                          const std::vector<float>& adapter) {
    return -std::log(std::expm1(set->evaluate(adapter, batch).loss[0])) / 0.4;
  };
  EXPECT_NEAR(margin(anchored, policy), margin(plain, policy) - margin(plain, anchor), 1e-5);
}

TEST(PreferenceObjectivesDropout, CanBeSwitchedOffForAStep) {
  const auto with = language_model(Architecture::kLlama, all_projections(0.4));
  const auto without = language_model(Architecture::kLlama, all_projections(0.0));
  const data::TokenData data = token_data();
  const std::vector<float> adapter = random_adapter(with.layout(), 70);
  const Batch batch{ClientId(0), {{0, 2, 3}}};
  const auto run = [&](const model::LanguageModel& model, bool dropout) {
    const auto objectives = make_preference_objectives(model, data, 1, {});
    std::vector<float> gradient(num_parameters(model));
    const Evaluation result = objectives->gradients(adapter, batch, {1, 2, 3, dropout}, gradient);
    return std::pair(gradient, result.loss);
  };

  EXPECT_EQ(run(with, false), run(without, true));
  EXPECT_NE(run(with, true), run(with, false));
}

TEST(PreferenceObjectivesVariance, IsThatOfThePairsLosses) {
  const auto model = language_model(Architecture::kLlama, all_projections(0.0));
  const data::TokenData data = token_data();
  const auto objectives = make_preference_objectives(model, data, 3, {.beta = 0.5});
  const std::vector<float> adapter = random_adapter(model.layout(), 80);
  const auto loss_of = [&](int pair) {
    return objectives->evaluate(adapter, {ClientId(0), {{pair}, {}, {}}}).loss[0];
  };
  const double a = loss_of(2);
  const double b = loss_of(3);
  const double c = loss_of(4);
  const double mean = (a + b + c) / 3.0;
  const double expected =
      ((a - mean) * (a - mean) + (b - mean) * (b - mean) + (c - mean) * (c - mean)) / 2.0;

  const Evaluation result = objectives->evaluate(adapter, {ClientId(0), {{2, 3, 4}, {5}, {}}});

  ASSERT_EQ(result.loss_variance.size(), 3U);
  EXPECT_GT(expected, 1e-3);
  EXPECT_NEAR(result.loss_variance[0], expected, 1e-4 * expected);
  EXPECT_TRUE(std::isnan(result.loss_variance[1]));
  EXPECT_TRUE(std::isnan(result.loss_variance[2]));
}

TEST(PreferenceObjectivesData, MayGrowBetweenCalls) {
  const auto model = language_model(Architecture::kLlama, all_projections(0.0));
  const data::TokenData whole = token_data(12);
  const std::vector<float> adapter = random_adapter(model.layout(), 90);
  const Batch early{ClientId(0), {{0, 2}}};
  const Batch late{ClientId(0), {{0, 11, 2, 7}}};
  data::TokenData growing;
  growing.pairs.assign(whole.pairs.begin(), whole.pairs.begin() + 3);
  growing.pairs.shrink_to_fit();  // so that growth moves the pairs
  const auto at_once = make_preference_objectives(model, whole, 1, {});
  const auto in_steps = make_preference_objectives(model, growing, 1, {});

  EXPECT_EQ(in_steps->evaluate(adapter, early).loss, at_once->evaluate(adapter, early).loss);
  EXPECT_THROW((void)in_steps->evaluate(adapter, late), Error);
  for (std::size_t i = 3; i < whole.pairs.size(); ++i) {
    growing.pairs.push_back(whole.pairs[i]);
  }
  std::vector<float> a(num_parameters(model));
  std::vector<float> b(num_parameters(model));
  EXPECT_EQ(in_steps->gradients(adapter, late, {}, a).loss,
            at_once->gradients(adapter, late, {}, b).loss);
  EXPECT_EQ(a, b);
}

}  // namespace
}  // namespace apo::objective
