// SmolLM2-135M-Instruct from the folder that jobs/smollm2.sh makes; numbers of spec llm.md, 10.4a.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "apo/model/causal_lm.hpp"
#include "apo/model/language_model.hpp"

namespace apo::model {
namespace {

using Ids = std::vector<std::int32_t>;

const Ids kPrompt = {1,     9690, 198,  2683,  359, 253,   5356, 5646, 11173, 3365, 3511, 308,
                     34519, 28,   7018, 411,   407, 19712, 8182, 2,    198,   1,    4093, 198,
                     5820,  1296, 3003, 14797, 30,  2,     198,  1,    520,   9531, 198};
const Ids kGreedy = {504,  3003, 14797, 359,  42,   198, 198,  12869, 314,  260, 768, 4959,
                     7302, 284,  314,   1129, 2188, 351, 2892, 284,   1670, 30,  198, 23390};
const Ids kTower = {504,  11637, 314,  216, 35,    34,   36,  13897, 6780, 28,   563,
                    260,  1142,  4614, 347, 354,   216,  40,  33,    29,   9887, 105,
                    2194, 28,    284,  260, 31469, 2678, 281, 7042,  30};

class SmolLm2 : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const std::filesystem::path dir = APO_SOURCE_DIR "/.cache/smollm2/model";
    if (std::filesystem::exists(dir / "model.safetensors")) {
      configure_torch(1);
      model.emplace(LanguageModel::load({dir.string(), "float32", "none"}, {}, "cpu"));
    }
  }
  static void TearDownTestSuite() { model.reset(); }
  void SetUp() override {
    if (!model) {
      GTEST_SKIP() << "no .cache/smollm2/model: jobs/fetch_smollm2.sh makes it";
    }
  }
  static at::Tensor log_probs(const Ids& ids) {
    const std::vector<std::int64_t> wide(ids.begin(), ids.end());
    return model->lm()
        .logits(at::tensor(wide, at::kLong).unsqueeze(0), {}, {}, nullptr)[0]
        .log_softmax(-1);
  }
  static std::optional<LanguageModel> model;
};

std::optional<LanguageModel> SmolLm2::model;

TEST_F(SmolLm2, LikeliestNextIds) {
  const at::Tensor last = log_probs(kPrompt)[static_cast<std::int64_t>(kPrompt.size()) - 1];

  const auto [values, ids] = last.topk(5);

  const std::vector<std::int64_t> expected_ids = {504, 2122, 33, 788, 16705};
  const std::vector<double> expected = {-1.27666, -2.09546, -2.69314, -3.35801, -3.45583};
  for (std::int64_t i = 0; i < 5; ++i) {
    const auto at = static_cast<std::size_t>(i);
    EXPECT_EQ(ids[i].item<std::int64_t>(), expected_ids[at]);
    EXPECT_NEAR(values[i].item<double>(), expected[at], 1e-4);
  }
}

TEST_F(SmolLm2, GreedyContinuation) {
  const std::vector<GenerationRequest> requests = {{kPrompt, 0}};

  const auto responses =
      model->generate(requests, {}, {.max_new_tokens = 24, .temperature = 0.0, .stop_ids = {2}});

  EXPECT_EQ(responses.at(0), kGreedy);
}

TEST_F(SmolLm2, Perplexity) {
  const at::Tensor rows = log_probs(kTower);
  double loss = 0.0;
  for (std::size_t t = 1; t < kTower.size(); ++t) {
    loss -= rows[static_cast<std::int64_t>(t) - 1][kTower[t]].item<double>();
  }

  EXPECT_NEAR(loss / static_cast<double>(kTower.size() - 1), 3.01998, 1e-4);
}

TEST_F(SmolLm2, ResponseLogProbabilitiesAreSumsOverTheResponse) {
  const at::Tensor rows = log_probs(kTower);
  double expected = 0.0;
  for (std::size_t t = 10; t < kTower.size(); ++t) {
    expected += rows[static_cast<std::int64_t>(t) - 1][kTower[t]].item<double>();
  }
  const std::span<const std::int32_t> all(kTower);
  const std::vector<Sequence> sequences = {{all.first(10), all.subspan(10)}};

  const at::Tensor log_prob = model->lm().response_log_probs(sequences, {}, nullptr);

  EXPECT_NEAR(log_prob[0].item<double>(), expected, 1e-3);
}

}  // namespace
}  // namespace apo::model
