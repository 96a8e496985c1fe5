#include "generation.hpp"

#include <array>
#include <cmath>
#include <fstream>
#include <map>

#include "tiny_models.hpp"
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "apo/core/error.hpp"
#include "apo/model/language_model.hpp"

namespace apo::model {
namespace {

using Ids = std::vector<std::int32_t>;

LanguageModel language_model(Architecture architecture) {
  return {tiny::model(architecture), tiny::lora_options(), "tiny"};
}

class GenerationGolden : public testing::TestWithParam<std::pair<Architecture, const char*>> {};

TEST_P(GenerationGolden, GreedyContinuation) {
  std::ifstream file(APO_SOURCE_DIR "/tests/unit/model/tiny_golden.json");
  const auto golden = nlohmann::json::parse(file).at(GetParam().second);
  const Ids all = golden.at("greedy_from_1_5_7").get<Ids>();
  const LanguageModel model = language_model(GetParam().first);
  const std::vector<GenerationRequest> requests = {{tiny::kPrompt, 0}};

  const auto responses =
      model.generate(requests, {}, {.max_new_tokens = 6, .temperature = 0.0, .stop_ids = {}});

  EXPECT_EQ(responses.at(0), Ids(all.begin() + 3, all.end()));
}

INSTANTIATE_TEST_SUITE_P(, GenerationGolden,
                         testing::Values(std::pair{Architecture::kLlama, "tinyA_llama"},
                                         std::pair{Architecture::kQwen2, "tinyB_qwen2"}),
                         [](const auto& instance) { return std::string(instance.param.second); });

std::vector<GenerationRequest> many_requests() {
  std::vector<GenerationRequest> requests;
  for (std::uint64_t i = 0; i < 40; ++i) {
    Ids prompt;
    for (std::uint64_t t = 0; t <= i % 7; ++t) {
      prompt.push_back(static_cast<std::int32_t>((3 * i + 5 * t) % 13));
    }
    requests.push_back({prompt, 100 + i});
  }
  return requests;
}

TEST(Generation, SamplesDoNotDependOnTheBatch) {
  const LanguageModel model = language_model(Architecture::kLlama);
  const std::vector<GenerationRequest> requests = many_requests();
  GenerationOptions options{.max_new_tokens = 12, .temperature = 1.0, .seed = 4, .stop_ids = {3}};

  options.batch_size = 40;
  const auto together = model.generate(requests, {}, options);
  options.batch_size = 1;
  const auto alone = model.generate(requests, {}, options);

  EXPECT_EQ(together, alone);
  std::size_t num_short = 0;
  for (const Ids& response : together) {
    EXPECT_EQ(std::count(response.begin(), response.end(), 3), 0);
    num_short += response.size() < 12 ? 1 : 0;
  }
  EXPECT_GT(num_short, 4U);  // rows ended and left the batch
  EXPECT_LT(num_short, 40U);
}

TEST(Generation, SeedAndKeyChangeTheSample) {
  const LanguageModel model = language_model(Architecture::kLlama);
  std::vector<GenerationRequest> requests = {{{1, 2}, 7}};
  GenerationOptions options{.max_new_tokens = 30, .temperature = 2.0, .seed = 4, .stop_ids = {}};
  const auto first = model.generate(requests, {}, options);

  EXPECT_EQ(model.generate(requests, {}, options), first);
  options.seed = 5;
  EXPECT_NE(model.generate(requests, {}, options), first);
  options.seed = 4;
  requests[0].key = 8;
  EXPECT_NE(model.generate(requests, {}, options), first);
}

TEST(Generation, StopIdEndsAndIsNotPartOfTheResponse) {
  const LanguageModel model = language_model(Architecture::kLlama);  // greedy: 11, 1, 1, ...
  const std::vector<GenerationRequest> requests = {{tiny::kPrompt, 0}};

  const auto responses =
      model.generate(requests, {}, {.max_new_tokens = 6, .temperature = 0.0, .stop_ids = {1}});

  EXPECT_EQ(responses.at(0), Ids{11});
}

TEST(Generation, MaskedIdsAreNeverSampled) {
  const LanguageModel model = language_model(Architecture::kLlama);
  const GenerationOptions options{
      .max_new_tokens = 20, .temperature = 3.0, .seed = 1, .stop_ids = {}, .num_ids = 5};

  for (const Ids& response : model.generate(many_requests(), {}, options)) {
    EXPECT_EQ(response.size(), 20U);
    for (const std::int32_t id : response) {
      EXPECT_LT(id, 5);
    }
  }
}

TEST(Generation, AdapterChangesWhatIsGenerated) {
  const LanguageModel model = language_model(Architecture::kLlama);
  const std::vector<float> adapter = tiny::adapter(model.layout());
  const GenerationOptions options{.max_new_tokens = 8, .temperature = 0.0, .stop_ids = {}};
  const std::vector<GenerationRequest> requests = many_requests();

  const auto merged = model.generate(requests, adapter, options);
  const at::Tensor flat = at::tensor(adapter, at::kFloat);
  const auto separate = generate_responses(model.lm(), flat, &model.layout(), requests, options);

  EXPECT_EQ(merged, separate);
  EXPECT_NE(merged, model.generate(requests, {}, options));
}

TEST(Generation, RefusesAnEmptyPrompt) {
  const LanguageModel model = language_model(Architecture::kLlama);
  const std::vector<GenerationRequest> requests = {{{}, 0}};

  EXPECT_THROW((void)model.generate(requests, {}, {}), Error);
}

TEST(SampleId, FollowsTheDistribution) {
  const std::array<float, 4> logits = {0.0F, 1.0F, -1.0F, 9.0F};  // the last id is masked
  const int num_draws = 20000;
  std::map<std::int32_t, int> counts;
  for (int i = 0; i < num_draws; ++i) {
    ++counts[sample_id(logits, 3, 0.5, (i + 0.5) / num_draws)];
  }

  const double norm = 1.0 + std::exp(2.0) + std::exp(-2.0);
  EXPECT_NEAR(counts[0], num_draws / norm, 2);
  EXPECT_NEAR(counts[1], num_draws * std::exp(2.0) / norm, 2);
  EXPECT_NEAR(counts[2], num_draws * std::exp(-2.0) / norm, 2);
  EXPECT_EQ(counts.count(3), 0U);
  EXPECT_EQ(sample_id(logits, 3, 0.0, 0.99), 1);
}

TEST(LanguageModel, RefusesAnUnknownDevice) {
  EXPECT_THROW((void)LanguageModel::load({}, {}, "abacus"), Error);
}

TEST(LanguageModel, SaysWhatItRunsOn) {
  configure_torch(1);

  EXPECT_NE(torch_description().find("1 thread"), std::string::npos);
}

}  // namespace
}  // namespace apo::model
