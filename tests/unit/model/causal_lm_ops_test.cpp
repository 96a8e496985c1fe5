#include "causal_lm_ops.hpp"

#include <functional>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "apo/core/rng.hpp"

namespace apo::model {
namespace {

at::Tensor random_tensor(const std::vector<std::int64_t>& shape, std::uint64_t seed,
                         at::ScalarType type = at::kFloat) {
  CounterRng rng({seed, Purpose::kTest, 0, 0, 0});
  at::Tensor result = at::empty(shape, at::kDouble);
  double* values = result.mutable_data_ptr<double>();
  for (std::int64_t i = 0; i < result.numel(); ++i) {
    values[i] = rng.normal();
  }
  return result.to(type);
}

double max_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

using Operation = std::function<at::Tensor(const std::vector<at::Tensor>&)>;

/// Gradients of sum(w * f(x)) in float32 by `fast` against the float64 path by `exact`.
void expect_same(const Operation& fast, const Operation& exact, std::vector<at::Tensor> inputs) {
  std::vector<at::Tensor> wide;
  for (at::Tensor& input : inputs) {
    wide.push_back(input.to(at::kDouble).set_requires_grad(true));
    input.set_requires_grad(true);
  }
  const at::Tensor y = fast(inputs);
  const at::Tensor y_wide = exact(wide);
  EXPECT_LT(max_difference(y, y_wide), 2e-6);
  const at::Tensor w = random_tensor(y.sizes().vec(), 99);
  const auto gradients = torch::autograd::grad({y}, inputs, {w});
  const auto expected = torch::autograd::grad({y_wide}, wide, {w.to(at::kDouble)});
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_LT(max_difference(gradients[i], expected[i]), 2e-5) << "input " << i;
  }
}

TEST(RmsNorm, PublishedVectorInBothTypes) {
  const at::Tensor x = at::tensor({1.0, -2.0, 3.0, 0.5}, at::kFloat).unsqueeze(0);
  const at::Tensor g = at::tensor({1.0, 0.5, 2.0, -1.0}, at::kFloat);

  const at::Tensor wide = rms_norm(x, g, 1e-5);
  const at::Tensor narrow = rms_norm(x.to(at::kBFloat16), g.to(at::kBFloat16), 1e-5);

  const std::vector<double> expected_wide = {0.52981216, -0.52981216, 3.17887306, -0.26490608};
  const std::vector<double> expected_narrow = {0.53125, -0.53125, 3.171875, -0.265625};
  for (std::int64_t i = 0; i < 4; ++i) {
    const auto at = static_cast<std::size_t>(i);
    EXPECT_NEAR(wide[0][i].item<double>(), expected_wide[at], 1e-7);
    EXPECT_EQ(narrow[0][i].item<double>(), expected_narrow[at]);  // the cast comes before g
  }
}

TEST(RmsNorm, GradientsOfBothArguments) {
  for (const std::int64_t columns : {5, 16, 37, 128}) {  // with and without a remainder
    expect_same([](const auto& in) { return rms_norm(in[0], in[1], 1e-5); },
                [](const auto& in) {
                  return in[1] * in[0] * (in[0].square().mean(-1, true) + 1e-5).rsqrt();
                },
                {random_tensor({3, columns}, 1), random_tensor({columns}, 2)});
  }
}

TEST(GatedSilu, GradientsIncludingZeroAndLargeArguments) {
  at::Tensor gate = random_tensor({4, 9}, 3);
  gate[0].copy_(at::tensor({0.0, 1e-5, -1e-5, 1e-3, -1e-3, 30.0, -30.0, 90.0, -90.0}, at::kFloat));
  expect_same([](const auto& in) { return gated_silu(in[0], in[1]); },
              [](const auto& in) { return in[0] * in[0].sigmoid() * in[1]; },
              {gate, random_tensor({4, 9}, 4)});
}

TEST(GatherRows, GradientIsTheInverseGather) {
  const at::Tensor index = at::tensor({2, -1, 0, 1, -1}, at::kLong);
  const at::Tensor inverse = at::tensor({2, 3, 0}, at::kLong);
  at::Tensor x = random_tensor({3, 4}, 5).set_requires_grad(true);

  const at::Tensor y = gather_rows(x, index, inverse);
  const at::Tensor w = random_tensor({5, 4}, 6);
  const at::Tensor gradient = torch::autograd::grad({y}, {x}, {w})[0];

  EXPECT_EQ(max_difference(y[0], x[2]), 0.0);
  EXPECT_EQ(y[1].abs().max().item<double>(), 0.0);
  EXPECT_EQ(max_difference(gradient[0], w[2]), 0.0);
  EXPECT_EQ(max_difference(gradient[1], w[3]), 0.0);
  EXPECT_EQ(max_difference(gradient[2], w[0]), 0.0);
}

TEST(RotateAndGather, EqualsTheTwoStepsAndTheirGradient) {
  const std::int64_t heads = 2;
  const at::Tensor angles = random_tensor({3, 4}, 7);
  const at::Tensor cosine = at::cat({angles.cos(), angles.cos()}, 1);
  const at::Tensor sine = at::cat({angles.sin().neg(), angles.sin()}, 1);
  const at::Tensor index = at::tensor({0, 2, 4, -1, 1, 3, 5, -1}, at::kLong);  // [heads, T = 4]
  const at::Tensor inverse = at::tensor({0, 4, 1, 5, 2, 6}, at::kLong);
  expect_same(
      [&](const auto& in) {
        return rotate_and_gather(in[0].view({3, heads, 8}), cosine, sine, index, inverse);
      },
      [&](const auto& in) {  // q' = q cos + rot(q) sin, rot([a, b]) = [-b, a]
        const at::Tensor q = in[0].view({3, heads, 8});
        const at::Tensor rot = at::cat({q.narrow(2, 4, 4).neg(), q.narrow(2, 0, 4)}, 2);
        const at::Tensor plain_sine = angles.sin().repeat({1, 2}).unsqueeze(1);
        const at::Tensor y = q * cosine.unsqueeze(1) + rot * plain_sine;
        return y.reshape({6, 8}).index_select(0, index.clamp_min(0)) *
               index.ge(0).unsqueeze(1).to(at::kDouble);
      },
      {random_tensor({6, 8}, 8)});
}

TEST(TargetLogProbs, ValuesAndGradientAcrossChunks) {
  const std::int64_t rows = 300;  // more than one chunk of 256
  at::Tensor hidden = random_tensor({rows, 6}, 9);
  const at::Tensor head = random_tensor({11, 6}, 10);
  std::vector<std::int64_t> targets;
  for (std::int64_t i = 0; i < rows; ++i) {
    targets.push_back(i % 11);
  }
  const at::Tensor target = at::tensor(targets, at::kLong);
  expect_same([&](const auto& in) { return target_log_probs(in[0], head, target); },
              [&](const auto& in) {
                return in[0]
                    .mm(head.to(at::kDouble).t())
                    .log_softmax(-1)
                    .gather(1, target.unsqueeze(1))
                    .squeeze(1);
              },
              {hidden});
}

TEST(TargetLogProbs, LearnsTheHeadWhenItMay) {
  const at::Tensor target = at::tensor({1, 0, 3}, at::kLong);
  expect_same(
      [&](const auto& in) { return target_log_probs(in[0], in[1], target); },
      [&](const auto& in) {
        return in[0].mm(in[1].t()).log_softmax(-1).gather(1, target.unsqueeze(1)).squeeze(1);
      },
      {random_tensor({3, 6}, 11), random_tensor({5, 6}, 12)});
}

}  // namespace
}  // namespace apo::model
