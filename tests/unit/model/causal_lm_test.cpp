#include "apo/model/causal_lm.hpp"

#include <array>
#include <fstream>

#include "causal_lm_rope.hpp"
#include "tiny_models.hpp"
#include <ATen/TensorOperators.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "apo/core/error.hpp"

namespace apo::model {
namespace {

using Json = nlohmann::json;

struct Case {
  Architecture architecture;
  const char* key;
};

class CausalLmGolden : public testing::TestWithParam<Case> {
 protected:
  static Json golden() {
    std::ifstream file(APO_SOURCE_DIR "/tests/unit/model/tiny_golden.json");
    return Json::parse(file).at(GetParam().key);
  }
  static std::vector<Sequence> pair() {
    return {{tiny::kPrompt, tiny::kChosen}, {tiny::kPrompt, tiny::kRejected}};
  }
};

at::Tensor ids_tensor(const std::vector<std::int64_t>& ids) {
  return at::tensor(ids, at::kLong).unsqueeze(0);
}

float max_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<float>();
}

TEST_P(CausalLmGolden, LogitsOfEveryPosition) {
  const CausalLm lm = tiny::model(GetParam().architecture);
  const Json rows = golden().at("logits");

  const at::Tensor logits = lm.logits(ids_tensor({1, 5, 7, 2, 11, 3}), {}, {}, nullptr);

  ASSERT_EQ(rows.size(), 6U);
  for (std::int64_t t = 0; t < 6; ++t) {
    for (std::int64_t v = 0; v < 13; ++v) {
      const double expected = rows[static_cast<std::size_t>(t)][static_cast<std::size_t>(v)];
      EXPECT_NEAR(logits[0][t][v].item<double>(), expected, 1e-5) << t << ' ' << v;
    }
  }
}

TEST_P(CausalLmGolden, ReferenceAndPolicyLogProbabilities) {
  const CausalLm lm = tiny::model(GetParam().architecture);
  const AdapterLayout layout = make_layout(lm.config(), tiny::lora_options());
  std::vector<float> flat = tiny::adapter(layout);
  const at::Tensor adapter = at::from_blob(flat.data(), {layout.num_parameters}, at::kFloat);
  const Json expected = golden();

  const at::Tensor reference = lm.response_log_probs(pair(), {}, nullptr);
  const at::Tensor policy = lm.response_log_probs(pair(), adapter, &layout);

  for (std::int64_t s = 0; s < 2; ++s) {
    const auto at = static_cast<std::size_t>(s);
    EXPECT_NEAR(reference[s].item<double>(), expected.at("ref")[at].get<double>(), 1e-5);
    EXPECT_NEAR(policy[s].item<double>(), expected.at("policy")[at].get<double>(), 1e-5);
  }
}

TEST_P(CausalLmGolden, PaddedRowsEqualSingleRows) {
  const CausalLm lm = tiny::model(GetParam().architecture);
  const std::vector<std::vector<std::int64_t>> rows = {
      {1, 5, 7, 2, 11, 3, 4}, {9}, {12, 0, 6, 6, 1}};
  at::Tensor padded = at::zeros({3, 7}, at::kLong);
  std::vector<std::int64_t> lengths;
  for (std::int64_t b = 0; b < 3; ++b) {
    const auto& row = rows[static_cast<std::size_t>(b)];
    const auto length = static_cast<std::int64_t>(row.size());
    padded[b].narrow(0, 0, length).copy_(at::tensor(row, at::kLong));
    lengths.push_back(length);
  }

  const at::Tensor together = lm.logits(padded, lengths, {}, nullptr);

  for (std::int64_t b = 0; b < 3; ++b) {
    const auto length = lengths[static_cast<std::size_t>(b)];
    const at::Tensor alone =
        lm.logits(ids_tensor(rows[static_cast<std::size_t>(b)]), {}, {}, nullptr);
    EXPECT_LT(max_difference(together[b].narrow(0, 0, length), alone[0]), 1e-5F) << b;
  }
}

TEST_P(CausalLmGolden, LaterTokensDoNotChangeEarlierLogits) {
  const CausalLm lm = tiny::model(GetParam().architecture);

  const at::Tensor a = lm.logits(ids_tensor({1, 5, 7, 2, 11, 3}), {}, {}, nullptr);
  const at::Tensor b = lm.logits(ids_tensor({1, 5, 7, 8, 0, 9}), {}, {}, nullptr);

  EXPECT_LT(max_difference(a[0].narrow(0, 0, 3), b[0].narrow(0, 0, 3)), 1e-6F);
  EXPECT_GT(max_difference(a[0][3], b[0][3]), 1e-2F);
}

TEST_P(CausalLmGolden, CachedLogitsEqualUncached) {
  const CausalLm lm = tiny::model(GetParam().architecture);
  const std::vector<std::int64_t> ids = {1, 5, 7, 2, 11, 3, 4, 4, 9, 10};
  const at::Tensor all = lm.logits(ids_tensor(ids), {}, {}, nullptr);
  KvCache cache;
  cache.capacity = 4;  // grows twice

  for (std::int64_t t = 2; t < 10; ++t) {  // three tokens at once, then one by one
    const std::int64_t width = t == 2 ? 3 : 1;
    std::vector<std::int64_t> step_ids(ids.begin() + t + 1 - width, ids.begin() + t + 1);
    std::vector<std::int64_t> positions;
    for (std::int64_t p = t + 1 - width; p <= t; ++p) {
      positions.push_back(p);
    }
    const at::Tensor mask = at::zeros({1, t + 1}, at::kBool).fill_(true);
    const at::Tensor logits =
        lm.next_logits(ids_tensor(step_ids), ids_tensor(positions), mask, cache, {}, nullptr);
    EXPECT_LT(max_difference(logits[0], all[0][t]), 1e-5F) << t;
  }
}

TEST_P(CausalLmGolden, LeftPaddingEqualsRightPadding) {
  const CausalLm lm = tiny::model(GetParam().architecture);
  const at::Tensor ids = at::tensor({0, 0, 1, 5, 7, 8, 2, 11, 3, 4}, at::kLong).view({2, 5});
  const at::Tensor positions = at::tensor({0, 0, 0, 1, 2, 0, 1, 2, 3, 4}, at::kLong).view({2, 5});
  at::Tensor mask = at::zeros({2, 5}, at::kBool).fill_(true);
  mask[0].narrow(0, 0, 2).fill_(false);
  KvCache cache;

  const at::Tensor left = lm.next_logits(ids, positions, mask, cache, {}, nullptr);

  const at::Tensor first = lm.logits(ids_tensor({1, 5, 7}), {}, {}, nullptr);
  const at::Tensor second = lm.logits(ids_tensor({8, 2, 11, 3, 4}), {}, {}, nullptr);
  EXPECT_LT(max_difference(left[0], first[0][2]), 1e-5F);
  EXPECT_LT(max_difference(left[1], second[0][4]), 1e-5F);
}

TEST_P(CausalLmGolden, Bfloat16StaysNear) {
  const ModelConfig config = tiny::config(GetParam().architecture);
  std::map<std::string, at::Tensor> narrow;
  for (const auto& [name, weight] : tiny::weights(config)) {
    narrow.emplace(name, weight.to(at::kBFloat16));
  }
  const CausalLm lm(config, narrow);
  const at::Tensor ids = ids_tensor({1, 5, 7, 2, 11, 3});

  const at::Tensor logits = lm.logits(ids, {}, {}, nullptr);

  const at::Tensor exact = tiny::model(GetParam().architecture).logits(ids, {}, {}, nullptr);
  EXPECT_EQ(logits.scalar_type(), at::kFloat);
  const float spread = exact.std().item<float>();
  EXPECT_LT((logits - exact).square().mean().sqrt().item<float>(), 0.05F * spread);
}

INSTANTIATE_TEST_SUITE_P(, CausalLmGolden,
                         testing::Values(Case{Architecture::kLlama, "tinyA_llama"},
                                         Case{Architecture::kQwen2, "tinyB_qwen2"}),
                         [](const auto& instance) { return std::string(instance.param.key); });

TEST(CausalLm, RefusesAMissingTensorAndAWrongShape) {
  const ModelConfig config = tiny::config(Architecture::kLlama);
  std::map<std::string, at::Tensor> missing = tiny::weights(config);
  missing.erase("model.layers.1.mlp.up_proj.weight");
  EXPECT_THROW(CausalLm(config, missing), Error);

  std::map<std::string, at::Tensor> wrong = tiny::weights(config);
  wrong["model.norm.weight"] = at::zeros({9}, at::kFloat);
  EXPECT_THROW(CausalLm(config, wrong), Error);
}

TEST(CausalLm, RefusesIdsOutsideTheVocabulary) {
  const CausalLm lm = tiny::model(Architecture::kLlama);

  EXPECT_THROW((void)lm.logits(ids_tensor({1, 13}), {}, {}, nullptr), Error);
}

void expect_frequencies(const ModelConfig& config, double sum,
                        const std::vector<std::pair<std::size_t, double>>& some) {
  const std::vector<float> frequencies = rope_frequencies(config);
  double total = 0.0;
  for (const float f : frequencies) {
    total += static_cast<double>(f);
  }
  EXPECT_NEAR(total, sum, 1e-6);
  for (const auto& [d, value] : some) {
    EXPECT_NEAR(static_cast<double>(frequencies[d]) / value, 1.0, 1e-6) << d;
  }
}

TEST(RopeFrequencies, Llama32Scaling) {
  ModelConfig config;
  config.head_dim = 128;
  config.rope_theta = 500000.0;
  config.rope_scaling = {32.0, 1.0, 4.0, 8192.0};
  expect_frequencies(config, 5.385182297,
                     {{0, 1.0},
                      {1, 0.81461722},
                      {20, 0.016560441},
                      {28, 0.0032114461},
                      {29, 0.0021184068},
                      {31, 0.00076254125},
                      {34, 9.7082862e-05},
                      {35, 2.3890530e-05},
                      {63, 7.6723147e-08}});
}

TEST(RopeFrequencies, Qwen25AndSmolLm2AndTinyA) {
  ModelConfig qwen;
  qwen.head_dim = 128;
  qwen.rope_theta = 1e6;
  expect_frequencies(qwen, 5.150444420, {{1, 0.80584222}, {32, 0.001}, {63, 1.24093776e-06}});
  ModelConfig smol;
  smol.head_dim = 64;
  smol.rope_theta = 1e5;
  expect_frequencies(smol, 3.309368646,
                     {{1, 0.69783056}, {16, 0.0031622779}, {31, 1.43301268e-05}});
  expect_frequencies(tiny::config(Architecture::kLlama), 0.5760564011 + 0.00125,
                     {{0, 0.5760564011}, {1, 0.00125}});
}

TEST(RopeTable, CosinesAndSinesAtPosition255) {
  ModelConfig config;
  config.head_dim = 128;
  config.rope_theta = 500000.0;
  config.rope_scaling = {32.0, 1.0, 4.0, 8192.0};
  RopeTable table(config, at::kCPU);

  const RopeTable::Angles angles = table.at(at::tensor({255}, at::kLong), 256);

  EXPECT_NEAR(angles.cosine[0][0].item<double>(), -0.86230361, 1e-6);
  EXPECT_NEAR(angles.cosine[0][1].item<double>(), 0.92781979, 2e-5);  // angle 207.7 in float32
  EXPECT_NEAR(angles.cosine[0][31].item<double>(), 0.98115450, 1e-6);
  EXPECT_NEAR(angles.signed_sine[0][64].item<double>(), -0.50639164, 1e-6);
  EXPECT_NEAR(angles.signed_sine[0][0].item<double>(), 0.50639164, 1e-6);
  EXPECT_NEAR(angles.signed_sine[0][64 + 31].item<double>(), 0.19322500, 1e-6);
}

}  // namespace
}  // namespace apo::model
