#include "apo/objective/preference_objectives.hpp"

#include <array>
#include <cmath>
#include <fstream>

#include "unit/objective/preference_fixture.hpp"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "apo/core/error.hpp"
#include "apo/core/rng.hpp"
#include "apo/model/causal_lm.hpp"

namespace apo::objective {
namespace {

namespace tiny = model::tiny;
using model::Architecture;
using testing::all_projections;
using testing::dot;
using testing::language_model;
using testing::max_difference;
using testing::random_adapter;
using testing::token_data;

class PreferenceGolden : public ::testing::TestWithParam<std::pair<Architecture, const char*>> {};

TEST_P(PreferenceGolden, LossAccuracyAndGradientNorm) {
  std::ifstream file(APO_SOURCE_DIR "/tests/unit/model/tiny_golden.json");
  const auto golden = nlohmann::json::parse(file).at(GetParam().second);
  const auto model = language_model(GetParam().first, tiny::lora_options());
  const data::TokenData data = token_data();
  const auto objectives = make_preference_objectives(model, data, 2, {});
  const std::vector<float> adapter = tiny::adapter(model.layout());
  const auto p = static_cast<std::size_t>(objectives->num_parameters());
  std::vector<float> gradients(2 * p);

  const Batch batch{ClientId(0), {{0}, {1}}};
  const Evaluation trained = objectives->gradients(adapter, batch, {}, gradients);
  const Evaluation evaluated = objectives->evaluate(adapter, batch);

  const double h = golden.at("h");
  EXPECT_NEAR(trained.loss[0], golden.at("dpo").get<double>(), 1e-6);
  EXPECT_NEAR(trained.loss[1], golden.at("dpo").get<double>() + 0.1 * h, 1e-6);
  EXPECT_EQ(trained.accuracy, (std::vector<double>{1.0, 0.0}));
  for (std::size_t j = 0; j < 2; ++j) {
    EXPECT_NEAR(evaluated.loss[j], trained.loss[j], 1e-7);
  }
  const std::span<const float> all(gradients);
  const double norm = std::sqrt(dot(all.first(p), all.first(p)));
  EXPECT_NEAR(norm / golden.at("grad_norm").get<double>(), 1.0, 1e-5);
  // the second objective is the first one's pair with the labels exchanged
  const double ratio = (1.0 / (1.0 + std::exp(-0.1 * h))) / (1.0 / (1.0 + std::exp(0.1 * h)));
  EXPECT_NEAR(dot(all.first(p), all.last(p)), -ratio * norm * norm, 1e-5 * norm * norm);
}

INSTANTIATE_TEST_SUITE_P(, PreferenceGolden,
                         ::testing::Values(std::pair{Architecture::kLlama, "tinyA_llama"},
                                           std::pair{Architecture::kQwen2, "tinyB_qwen2"}),
                         [](const auto& instance) { return std::string(instance.param.second); });

TEST(PreferenceObjectives, FirstLossIsLn2AndOnlyBMoves) {
  const auto model = language_model(Architecture::kLlama, all_projections(0.05));
  const data::TokenData data = token_data();
  const auto objectives = make_preference_objectives(model, data, 2, {});
  const std::vector<float> adapter = objectives->initial_parameters(3);
  const auto p = static_cast<std::size_t>(objectives->num_parameters());
  std::vector<float> gradients(2 * p);

  const Batch batch{ClientId(0), {{0, 2, 3}, {4, 5, 6, 7}}};
  const Evaluation result = objectives->gradients(adapter, batch, {1, 2, 3}, gradients);

  for (std::size_t j = 0; j < 2; ++j) {
    EXPECT_NEAR(result.loss[j], std::log(2.0), 1e-6);
    const std::span<const float> row = std::span(gradients).subspan(j * p, p);
    double b_norm = 0.0;
    for (const model::AdapterModule& module : model.layout().modules) {
      for (std::int64_t i = module.a_begin; i < module.b_begin; ++i) {
        EXPECT_EQ(row[static_cast<std::size_t>(i)], 0.0F);
      }
      for (std::int64_t i = module.b_begin; i < module.b_begin + 2 * module.out; ++i) {
        b_norm += std::abs(static_cast<double>(row[static_cast<std::size_t>(i)]));
      }
    }
    EXPECT_GT(b_norm, 1e-3);
  }
}

TEST(PreferenceObjectives, ReferencePolicyHasLossLn2) {
  const auto model = language_model(Architecture::kLlama, all_projections(0.05));
  const data::TokenData data = token_data();
  const auto objectives = make_preference_objectives(model, data, 2, {.nll_weight = 0.5});
  const auto plain = make_preference_objectives(model, data, 2, {});
  const Batch batch{ClientId(0), {{0, 2, 3}, {}}};

  const Evaluation result = objectives->evaluate({}, batch);

  EXPECT_EQ(plain->evaluate({}, batch).loss[0], std::log(2.0));
  EXPECT_GT(result.loss[0], std::log(2.0) + 0.1);
  EXPECT_TRUE(std::isnan(result.loss[1]));
  EXPECT_FALSE(result.present(1));
  EXPECT_EQ(result.num_pairs, (std::vector<int>{3, 0}));
  // the base model and an adapter that does nothing have the same loss
  const Evaluation fresh = objectives->evaluate(objectives->initial_parameters(1), batch);
  EXPECT_NEAR(result.loss[0], fresh.loss[0], 1e-6);
}

TEST(PreferenceObjectives, GradientsEqualFiniteDifferences) {
  const auto model = language_model(Architecture::kQwen2, all_projections(0.3));
  const data::TokenData data = token_data();
  const auto objectives =
      make_preference_objectives(model, data, 3, {.beta = 0.5, .nll_weight = 0.7}, 4);
  const std::vector<float> adapter = random_adapter(model.layout(), 5);
  const auto p = static_cast<std::size_t>(objectives->num_parameters());
  const Batch batch{ClientId(0), {{0, 2, 3, 3}, {1, 4, 5, 6}, {7, 8, 9, 10, 11}}};
  const StepKey key{1, 2, 3};  // frozen masks
  std::vector<float> gradients(3 * p);
  std::vector<float> unused(3 * p);
  (void)objectives->gradients(adapter, batch, key, gradients);

  for (std::uint64_t seed = 20; seed < 23; ++seed) {
    const std::vector<float> direction = random_adapter(model.layout(), seed);
    const auto losses = [&](float step) {
      std::vector<float> moved = adapter;
      for (std::size_t i = 0; i < p; ++i) {
        moved[i] += step * direction[i];
      }
      return objectives->gradients(moved, batch, key, unused).loss;
    };
    const std::array<std::vector<double>, 4> at = {losses(8e-3F), losses(4e-3F), losses(-4e-3F),
                                                   losses(-8e-3F)};
    for (std::size_t j = 0; j < 3; ++j) {
      const double narrow = (at[1][j] - at[2][j]) / 8e-3;
      const double wide = (at[0][j] - at[3][j]) / 16e-3;
      const double expected = dot(std::span(gradients).subspan(j * p, p), direction);
      EXPECT_NEAR((4.0 * narrow - wide) / 3.0, expected, 1e-3 * (1.0 + std::abs(expected)))
          << j << ' ' << seed;
    }
  }
}

TEST(PreferenceObjectives, DoesNotDependOnTheOtherPairsOrTheMicroBatches) {
  const auto model = language_model(Architecture::kLlama, all_projections(0.3));
  const data::TokenData data = token_data();
  const std::vector<float> adapter = random_adapter(model.layout(), 6);
  const DpoOptions options{.beta = 0.3, .nll_weight = 0.5};
  const StepKey key{1, 2, 3};
  const auto p = static_cast<std::size_t>(model.layout().num_parameters);
  const auto run = [&](const std::vector<std::vector<int>>& pairs, int max_sequences) {
    const auto objectives = make_preference_objectives(model, data, 2, options, max_sequences);
    std::vector<float> gradients(2 * p);
    const Evaluation result = objectives->gradients(adapter, {ClientId(0), pairs}, key, gradients);
    return std::pair(gradients, result);
  };
  const auto [together, loss] = run({{2, 3, 4, 5}, {4, 5, 6, 7, 8, 9}}, 32);
  const auto [split, split_loss] = run({{2, 3, 4, 5}, {4, 5, 6, 7, 8, 9}}, 2);
  const auto [alone, alone_loss] = run({{2, 3, 4, 5}, {}}, 32);

  const double scale = std::sqrt(dot(together, together));  // float32 noise grows with it
  EXPECT_LT(max_difference(together, split), 1e-5 * scale);
  EXPECT_LT(max_difference(std::span(together).first(p), std::span(alone).first(p)), 1e-5 * scale);
  EXPECT_NEAR(loss.loss[1], split_loss.loss[1], 5e-6);
  EXPECT_NEAR(loss.loss[0], alone_loss.loss[0], 5e-6);
  for (const float value : std::span(alone).last(p)) {
    EXPECT_EQ(value, 0.0F);  // an absent objective
  }
}

TEST(PreferenceObjectives, SumsOverPairsAreMeans) {
  const auto model = language_model(Architecture::kLlama, tiny::lora_options());
  const data::TokenData data = token_data();
  const std::vector<float> adapter = random_adapter(model.layout(), 7);
  const auto objectives = make_preference_objectives(model, data, 1, {.nll_weight = 1.0});
  const auto p = static_cast<std::size_t>(model.layout().num_parameters);
  std::vector<float> mean(p, 0.0F);
  std::vector<float> one(p);
  double loss = 0.0;
  const std::vector<int> pairs = {2, 3, 3, 4};
  for (const int pair : pairs) {
    loss += objectives->gradients(adapter, {ClientId(0), {{pair}}}, {}, one).loss[0] / 4.0;
    for (std::size_t i = 0; i < p; ++i) {
      mean[i] += one[i] / 4.0F;
    }
  }

  std::vector<float> all(p);
  const Evaluation result = objectives->gradients(adapter, {ClientId(0), {pairs}}, {}, all);

  EXPECT_NEAR(result.loss[0], loss, 1e-6);
  EXPECT_LT(max_difference(all, mean), 1e-5 * std::sqrt(dot(all, all)));
}

TEST(PreferenceObjectives, RepeatsBitForBit) {
  const auto model = language_model(Architecture::kLlama, all_projections(0.05));
  const data::TokenData data = token_data();
  const std::vector<float> adapter = random_adapter(model.layout(), 8);
  const auto p = static_cast<std::size_t>(model.layout().num_parameters);
  const Batch batch{ClientId(0), {{0, 2, 3}, {4, 5}}};
  const auto run = [&](bool another_batch_first) {
    const auto objectives = make_preference_objectives(model, data, 2, {}, 4);
    if (another_batch_first) {  // fills the cache of reference log-probabilities differently
      (void)objectives->evaluate(adapter, {ClientId(1), {{5, 8, 3}, {0, 9}}});
    }
    std::vector<float> gradients(2 * p);
    const Evaluation result = objectives->gradients(adapter, batch, {1, 2, 3}, gradients);
    return std::pair(gradients, result.loss);
  };

  EXPECT_EQ(run(false), run(false));
  EXPECT_EQ(run(false), run(true));
}

TEST(PreferenceObjectives, TheGramMatrixOfThreeLabellings) {
  const auto model = language_model(Architecture::kQwen2, tiny::lora_options());
  data::TokenData data = token_data(3);
  data.pairs.push_back({data.pairs[2].prompt, data.pairs[2].rejected, data.pairs[2].chosen});
  const std::vector<float> adapter = tiny::adapter(model.layout());
  const auto p = static_cast<std::size_t>(model.layout().num_parameters);
  const auto objectives = make_preference_objectives(model, data, 3, {});
  std::vector<float> g(3 * p);
  // the same two pairs under three objectives that disagree about their labels
  (void)objectives->gradients(adapter, {ClientId(0), {{0, 2}, {0, 3}, {1, 2}}}, {}, g);
  std::vector<float> single(3 * p);
  const Evaluation one = objectives->gradients(adapter, {ClientId(0), {{0}, {2}, {}}}, {}, single);

  // M = C K C^T, with K the Gram matrix of the two log-ratios h and C = dL/dh (llm.md 9.3)
  const auto row = [p](const std::vector<float>& of, std::size_t j) {
    return std::span(of).subspan(j * p, p);
  };
  const auto slope = [](double h) { return -0.1 / (1.0 + std::exp(0.1 * h)); };
  std::array<double, 2> h{};
  for (std::size_t i = 0; i < 2; ++i) {
    h[i] = -std::log(std::expm1(one.loss[i])) / 0.1;  // inverse of softplus(-0.1 h)
  }
  std::array<std::array<double, 2>, 2> k{};
  for (std::size_t a = 0; a < 2; ++a) {
    for (std::size_t b = 0; b < 2; ++b) {
      k[a][b] = dot(row(single, a), row(single, b)) / (slope(h[a]) * slope(h[b]));
    }
  }
  const std::array<std::array<double, 2>, 3> c = {{{slope(h[0]) / 2, slope(h[1]) / 2},
                                                   {slope(h[0]) / 2, -slope(-h[1]) / 2},
                                                   {-slope(-h[0]) / 2, slope(h[1]) / 2}}};
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 3; ++j) {
      double expected = 0.0;
      for (std::size_t a = 0; a < 2; ++a) {
        for (std::size_t b = 0; b < 2; ++b) {
          expected += c[i][a] * k[a][b] * c[j][b];
        }
      }
      EXPECT_NEAR(dot(row(g, i), row(g, j)), expected, 1e-4 * (1.0 + std::abs(expected)));
    }
  }
}

TEST(PreferenceObjectives, RefusesADroppedPairAndAnUnknownOne) {
  const auto model = language_model(Architecture::kLlama, tiny::lora_options());
  data::TokenData data = token_data(4);
  data.pairs[3].chosen.clear();
  const auto objectives = make_preference_objectives(model, data, 1, {});

  EXPECT_THROW((void)objectives->evaluate({}, {ClientId(0), {{3}}}), Error);
  EXPECT_THROW((void)objectives->evaluate({}, {ClientId(0), {{4}}}), Error);
  EXPECT_THROW((void)objectives->evaluate({}, {ClientId(0), {{0}, {1}}}), Error);
}

}  // namespace
}  // namespace apo::objective
