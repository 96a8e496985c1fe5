#include "apo/model/pretraining.hpp"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>
#include <unistd.h>

#include "apo/core/error.hpp"
#include "apo/model/language_model.hpp"
#include "apo/model/model_config.hpp"
#include "apo/model/safetensors.hpp"

namespace apo::model {
namespace {

namespace fs = std::filesystem;

class Pretraining : public testing::Test {
 protected:
  void SetUp() override {
    configure_torch(1);
    dir_ = fs::temp_directory_path() / ("apo_pretraining_" + std::to_string(::getpid()));
    fs::create_directories(dir_);
    ModelConfig config;
    config.hidden_size = 32;
    config.intermediate_size = 48;
    config.num_layers = 1;
    config.vocab_size = 11;
    config.num_heads = 2;
    config.num_kv_heads = 1;
    config.head_dim = 16;
    config.tied_embeddings = true;
    config.eos_ids = {0};
    config.max_position = 32;
    save_model_config(dir_, config);
  }
  void TearDown() override { fs::remove_all(dir_); }

  /// Prompt: one id n of 1..8; answer: n + 1, n + 2, end. Rows of different lengths.
  static TrainingSequence counting(int step, int row) {
    const std::int32_t n = 1 + (step * 7 + row) % 8;
    std::vector<std::int32_t> ids = {n, n + 1, n + 2, 0};
    if (row % 2 == 0) {
      ids.insert(ids.begin(), n);
      return {ids, 2};
    }
    return {ids, 1};
  }

  std::string read(const fs::path& path) const {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  fs::path dir_;
};

TEST_F(Pretraining, LearnsAndWritesBfloat16) {
  PretrainingOptions options;
  options.steps = 200;
  options.batch_size = 8;
  options.warmup_steps = 10;
  options.learning_rate = 1e-2;
  options.seed = 3;
  std::vector<double> losses;
  pretrain(dir_, options, counting,
           [&](const PretrainingStep& step) { losses.push_back(step.nat_per_token); });
  ASSERT_EQ(losses.size(), 200U);
  EXPECT_NEAR(losses.front(), std::log(11.0), 0.5);
  EXPECT_LT(losses.back(), 0.05);

  const CheckpointReader reader = CheckpointReader::open(dir_);
  for (const auto& [name, info] : reader.tensors()) {
    EXPECT_EQ(info.dtype, "BF16") << name;
  }
  ModelOptions model_options;
  model_options.path = dir_.string();
  const LanguageModel model = LanguageModel::load(model_options, {}, "cpu");
  GenerationOptions greedy;
  greedy.temperature = 0.0;
  greedy.max_new_tokens = 5;
  greedy.stop_ids = {0};
  const std::vector<GenerationRequest> requests = {{{3}, 0}, {{7, 7}, 1}};
  const auto responses = model.generate(requests, {}, greedy);
  EXPECT_EQ(responses[0], (std::vector<std::int32_t>{4, 5}));
  EXPECT_EQ(responses[1], (std::vector<std::int32_t>{8, 9}));
}

TEST_F(Pretraining, EqualSeedsGiveEqualBytes) {
  PretrainingOptions options;
  options.steps = 5;
  options.batch_size = 4;
  options.seed = 3;
  const auto quiet = [](const PretrainingStep&) {};
  pretrain(dir_, options, counting, quiet);
  const std::string first = read(dir_ / "model.safetensors");
  pretrain(dir_, options, counting, quiet);
  EXPECT_EQ(first, read(dir_ / "model.safetensors"));
  options.seed = 4;
  pretrain(dir_, options, counting, quiet);
  EXPECT_NE(first, read(dir_ / "model.safetensors"));
}

TEST_F(Pretraining, WarmsUpAndCoolsDown) {
  PretrainingOptions options;
  options.steps = 40;
  options.batch_size = 2;
  options.warmup_steps = 10;
  options.learning_rate = 1e-3;
  std::vector<double> rates;
  pretrain(dir_, options, counting,
           [&](const PretrainingStep& step) { rates.push_back(step.learning_rate); });
  EXPECT_NEAR(rates[0], 1e-4, 1e-9);
  // step 20 of 40: .1 + .9 * .5 (1 + cos(pi / 2)) = .55
  EXPECT_NEAR(rates[20], 0.55e-3, 1e-9);
  EXPECT_LT(rates[39], 0.11e-3);
}

TEST_F(Pretraining, RefusesASequenceWithoutTarget) {
  PretrainingOptions options;
  options.steps = 1;
  options.batch_size = 1;
  const auto quiet = [](const PretrainingStep&) {};
  const auto without_target = [](int, int) { return TrainingSequence{{1, 2}, 2}; };
  EXPECT_THROW(pretrain(dir_, options, without_target, quiet), Error);
  const auto of_one_token = [](int, int) { return TrainingSequence{{1}, 1}; };
  EXPECT_THROW(pretrain(dir_, options, of_one_token, quiet), Error);
}

}  // namespace
}  // namespace apo::model
