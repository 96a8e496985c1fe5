#include "lora.hpp"

#include <cmath>
#include <fstream>

#include "tiny_models.hpp"
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/log_sigmoid.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <torch/csrc/autograd/autograd.h>

#include "apo/core/error.hpp"
#include "apo/core/rng.hpp"

namespace apo::model {
namespace {

using Json = nlohmann::json;

constexpr double kBeta = 0.1;

at::Tensor tensor_of(const std::vector<float>& flat) { return at::tensor(flat, at::kFloat); }

/// Random A and B for all seven projections.
std::vector<float> random_adapter(const AdapterLayout& layout, std::uint64_t seed) {
  CounterRng rng({seed, Purpose::kTest, 1, 0, 0});
  std::vector<float> flat(static_cast<std::size_t>(layout.num_parameters));
  for (float& value : flat) {
    value = static_cast<float>(0.2 * rng.normal());
  }
  return flat;
}

LoraOptions all_projections(double dropout) {
  LoraOptions options;
  options.rank = 3;
  options.alpha = 6.0;
  options.dropout = dropout;
  return options;
}

std::vector<Sequence> pair() {
  return {{tiny::kPrompt, tiny::kChosen}, {tiny::kPrompt, tiny::kRejected}};
}

class LoraGolden : public testing::TestWithParam<std::pair<Architecture, const char*>> {};

TEST_P(LoraGolden, DpoLossAndEveryGradient) {
  std::ifstream file(APO_SOURCE_DIR "/tests/unit/model/tiny_golden.json");
  const Json golden = Json::parse(file).at(GetParam().second);
  const CausalLm lm = tiny::model(GetParam().first);
  const AdapterLayout layout = make_layout(lm.config(), tiny::lora_options());
  const at::Tensor adapter = tensor_of(tiny::adapter(layout)).set_requires_grad(true);

  const at::Tensor reference = lm.response_log_probs(pair(), {}, nullptr);
  const at::Tensor ratio = lm.response_log_probs(pair(), adapter, &layout) - reference;
  const at::Tensor h = ratio[0] - ratio[1];
  const at::Tensor loss = at::log_sigmoid(h * kBeta).neg();
  const at::Tensor gradient = torch::autograd::grad({loss}, {adapter})[0];

  // A difference of four float32 sums of log-probabilities, each of some tens.
  EXPECT_NEAR(h.item<double>(), golden.at("h").get<double>(), 3e-5);
  EXPECT_NEAR(loss.item<double>(), golden.at("dpo").get<double>(), 1e-6);
  EXPECT_NEAR(gradient.norm().item<double>() / golden.at("grad_norm").get<double>(), 1.0, 1e-5);
  std::size_t num_checked = 0;
  for (const AdapterModule& module : layout.modules) {
    const std::string name = "model.layers." + std::to_string(module.layer) + "." +
                             projection_path(module.projection) + ".";
    for (const auto& [letter, begin] : {std::pair{"A", module.a_begin}, {"B", module.b_begin}}) {
      const Json& expected = golden.at("lora_grads").at(name + letter);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_NEAR(gradient[begin + static_cast<std::int64_t>(i)].item<double>(),
                    expected[i].get<double>(), 1e-5)
            << name << letter << ' ' << i;
        ++num_checked;
      }
    }
  }
  EXPECT_EQ(num_checked, static_cast<std::size_t>(layout.num_parameters));
}

INSTANTIATE_TEST_SUITE_P(, LoraGolden,
                         testing::Values(std::pair{Architecture::kLlama, "tinyA_llama"},
                                         std::pair{Architecture::kQwen2, "tinyB_qwen2"}),
                         [](const auto& instance) { return std::string(instance.param.second); });

TEST(Lora, FreshAdapterEqualsTheReferenceExactly) {
  const CausalLm lm = tiny::model(Architecture::kQwen2);
  const AdapterLayout layout = make_layout(lm.config(), all_projections(0.0));
  const at::Tensor adapter = tensor_of(initial_adapter(layout, 1)).set_requires_grad(true);

  const at::Tensor reference = lm.response_log_probs(pair(), {}, nullptr);
  const at::Tensor policy = lm.response_log_probs(pair(), adapter, &layout);
  const at::Tensor gradient = torch::autograd::grad({policy[0] - policy[1]}, {adapter})[0];

  EXPECT_EQ((policy - reference).abs().max().item<double>(), 0.0);
  for (const AdapterModule& module : layout.modules) {
    const at::Tensor d_a = gradient.narrow(0, module.a_begin, layout.rank * module.in);
    const at::Tensor d_b = gradient.narrow(0, module.b_begin, layout.rank * module.out);
    EXPECT_EQ(d_a.abs().max().item<double>(), 0.0) << projection_name(module.projection);
    if (module.projection != Projection::kK) {  // k of one layer may have next to no influence
      EXPECT_GT(d_b.abs().max().item<double>(), 0.0) << projection_name(module.projection);
    }
  }
}

/// Central differences of z = sum_s w_s logp_s along random directions, with frozen masks.
void expect_finite_differences(double dropout) {
  const CausalLm lm = tiny::model(Architecture::kLlama);
  const AdapterLayout layout = make_layout(lm.config(), all_projections(dropout));
  const std::vector<float> flat = random_adapter(layout, 3);
  const DropoutKey key{5, 6, 7};
  const at::Tensor w = at::tensor({1.0, -0.7}, at::kFloat);
  const auto value = [&](const at::Tensor& adapter) {
    return (lm.response_log_probs(pair(), adapter, &layout, key) * w).sum();
  };
  const at::Tensor adapter = tensor_of(flat).set_requires_grad(true);
  const at::Tensor gradient = torch::autograd::grad({value(adapter)}, {adapter})[0];

  const at::NoGradGuard no_grad;
  for (std::uint64_t seed = 10; seed < 14; ++seed) {
    const at::Tensor direction = tensor_of(random_adapter(layout, seed));
    const auto slope = [&](double step) {
      return (value(adapter + direction * step) - value(adapter - direction * step))
                 .item<double>() /
             (2.0 * step);
    };
    const double extrapolated = (4.0 * slope(2e-3) - slope(4e-3)) / 3.0;
    const double expected = gradient.dot(direction).item<double>();
    EXPECT_NEAR(extrapolated, expected, 1e-3 * (1.0 + std::abs(expected))) << seed;
  }
}

TEST(Lora, GradientEqualsFiniteDifferences) { expect_finite_differences(0.0); }
TEST(Lora, GradientEqualsFiniteDifferencesWithFrozenDropout) { expect_finite_differences(0.3); }

TEST(Dropout, DependsOnTheKeyAndTheSequenceButNotOnTheBatch) {
  const CausalLm lm = tiny::model(Architecture::kLlama);
  const AdapterLayout layout = make_layout(lm.config(), all_projections(0.3));
  const at::Tensor adapter = tensor_of(random_adapter(layout, 3));
  const auto log_probs = [&](const std::vector<Sequence>& sequences, DropoutKey key) {
    return lm.response_log_probs(sequences, adapter, &layout, key);
  };
  const std::vector<Sequence> both = pair();

  const at::Tensor forward = log_probs({both[0], both[1]}, {1, 2, 3});
  const at::Tensor again = log_probs({both[0], both[1]}, {1, 2, 3});
  const at::Tensor backward = log_probs({both[1], both[0]}, {1, 2, 3});
  const at::Tensor alone = log_probs({both[1]}, {1, 2, 3});

  EXPECT_EQ((forward - again).abs().max().item<double>(), 0.0);
  EXPECT_NEAR(forward[0].item<double>(), backward[1].item<double>(), 1e-5);
  EXPECT_NEAR(forward[1].item<double>(), alone[0].item<double>(), 1e-5);
  for (const DropoutKey& other : {DropoutKey{9, 2, 3}, {1, 9, 3}, {1, 2, 9}}) {
    EXPECT_GT((forward - log_probs(both, other)).abs().max().item<double>(), 1e-3);
  }
  const at::Tensor off = lm.response_log_probs(both, adapter, &layout);
  EXPECT_GT((forward - off).abs().max().item<double>(), 1e-3);
}

TEST(Dropout, DropsTheRightShareAndKeepsTheMean) {
  LoraOptions options;
  options.rank = 1;
  options.alpha = 1.0;
  options.dropout = 0.05;
  options.targets = {"q_proj"};
  const ModelConfig config = tiny::config(Architecture::kLlama);
  const AdapterLayout layout = make_layout(config, options);
  std::vector<float> flat(static_cast<std::size_t>(layout.num_parameters), 0.0F);
  flat[0] = 1.0F;  // A picks the first input of layer 0
  std::fill_n(flat.begin() + layout.modules[0].b_begin, layout.modules[0].out, 1.0F);
  const AdapterViews views(tensor_of(flat), layout, 2, DropoutKey{1, 2, 3});
  const std::int64_t rows = 200000;
  const std::vector<std::int64_t> lengths = {rows / 2, rows / 2};
  const std::vector<std::uint64_t> keys = {11, 12};
  const at::Tensor x = at::zeros({rows, 8}, at::kFloat).fill_(1.0);
  const at::Tensor base = at::zeros({rows, layout.modules[0].out}, at::kFloat);

  const at::Tensor y = views.apply(0, Projection::kQ, x, base, {lengths, keys}, {});

  const double num_dropped = y.narrow(1, 0, 1).eq(0.0).sum().item<double>();
  EXPECT_NEAR(num_dropped / rows, 0.05, 0.0025);  // five standard deviations
  EXPECT_NEAR(y.mean().item<double>(), 1.0, 0.003);
  const at::Tensor first = y.narrow(0, 0, rows / 2);
  const at::Tensor second = y.narrow(0, rows / 2, rows / 2);
  EXPECT_GT(first.ne(second).sum().item<double>(), 0.0);
}

TEST(Lora, MergedModelEqualsTheAdapter) {
  const CausalLm lm = tiny::model(Architecture::kQwen2);
  const AdapterLayout layout = make_layout(lm.config(), all_projections(0.05));
  const at::Tensor adapter = tensor_of(random_adapter(layout, 4));
  const at::Tensor ids = at::tensor({1, 5, 7, 2, 11, 3}, at::kLong).unsqueeze(0);

  const at::Tensor merged = lm.merged(adapter, layout).logits(ids, {}, {}, nullptr);
  const at::Tensor separate = lm.logits(ids, {}, adapter, &layout);

  EXPECT_LT((merged - separate).abs().max().item<double>(), 2e-5);
  EXPECT_GT((separate - lm.logits(ids, {}, {}, nullptr)).abs().max().item<double>(), 0.1);
}

TEST(Lora, RefusesAnAdapterOfAnotherLength) {
  const CausalLm lm = tiny::model(Architecture::kLlama);
  const AdapterLayout layout = make_layout(lm.config(), tiny::lora_options());
  const at::Tensor adapter = at::zeros({layout.num_parameters - 1}, at::kFloat);

  EXPECT_THROW((void)lm.response_log_probs(pair(), adapter, &layout), Error);
}

}  // namespace
}  // namespace apo::model
