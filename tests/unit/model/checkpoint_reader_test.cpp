#include <cmath>
#include <limits>

#include "unit/model/temporary_folder.hpp"
#include <gtest/gtest.h>
#include <unistd.h>

#include "apo/core/error.hpp"
#include "apo/model/model_config.hpp"
#include "apo/model/safetensors.hpp"

namespace apo::model {
namespace {

template <class T>
TensorToWrite tensor(std::string name, std::string dtype, std::vector<std::int64_t> shape,
                     const std::vector<T>& values) {
  return {std::move(name), std::move(dtype), std::move(shape), std::as_bytes(std::span(values))};
}

std::string opening(const std::filesystem::path& path) {
  return error_of(Fault::kData, [&] { (void)CheckpointReader::open(path); });
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(CheckpointReader, WidensEveryFloatType) {
  const TemporaryFolder folder;
  const std::vector<float> f32 = {1.5F, -2.25F, 3e-45F};
  // 1, -2, 65504, smallest subnormal, largest subnormal, smallest normal, -0
  const std::vector<std::uint16_t> f16 = {0x3C00, 0xC000, 0x7BFF, 0x0001, 0x03FF, 0x0400, 0x8000};
  const std::vector<std::uint16_t> bf16 = {0x3F80, 0xC000, 0x7F7F, 0x0001};
  const std::vector<std::uint8_t> u8 = {7, 8};
  write_safetensors(folder.path() / "model.safetensors",
                    {tensor("f32", "F32", {3}, f32), tensor("f16", "F16", {7}, f16),
                     tensor("bf16", "BF16", {2, 2}, bf16), tensor("u8", "U8", {2}, u8)},
                    {{"format", "pt"}});
  const CheckpointReader reader = CheckpointReader::open(folder.path());
  EXPECT_EQ(reader.metadata().at("format"), "pt");
  EXPECT_EQ(reader.tensors().at("bf16").shape, (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(reader.read_float32("f32"), f32);
  EXPECT_EQ(reader.read_float32("f16"), (std::vector<float>{1.0F, -2.0F, 65504.0F, 0x1p-24F,
                                                            1023 * 0x1p-24F, 0x1p-14F, -0.0F}));
  EXPECT_TRUE(std::signbit(reader.read_float32("f16")[6]));
  EXPECT_EQ(reader.read_float32("bf16"), (std::vector<float>{1.0F, -2.0F, 0x1.FEp127F, 0x1p-133F}));
  EXPECT_EQ(reader.read_bytes("u8"), (std::vector<std::byte>{std::byte{7}, std::byte{8}}));
  EXPECT_TRUE(has(error_of(Fault::kData, [&] { (void)reader.read_float32("u8"); }),
                  "tensor 'u8' is U8, expected F32, F16 or BF16"));
  EXPECT_TRUE(
      has(error_of(Fault::kData, [&] { (void)reader.read_float32("none"); }), "no tensor 'none'"));
}

TEST(CheckpointReader, NamesTheValueThatIsNotFinite) {
  const TemporaryFolder folder;
  const std::vector<float> f32 = {1.0F, 2.0F, std::numeric_limits<float>::quiet_NaN()};
  const std::vector<std::uint16_t> f16 = {0x3C00, 0xFC00};
  const std::vector<std::uint16_t> bf16 = {0x7F80};
  write_safetensors(
      folder.path() / "m.safetensors",
      {tensor("w", "F32", {3}, f32), tensor("h", "F16", {2}, f16), tensor("b", "BF16", {1}, bf16)},
      {});
  const CheckpointReader reader = CheckpointReader::open(folder.path() / "m.safetensors");
  EXPECT_TRUE(has(error_of(Fault::kData, [&] { (void)reader.read_float32("w"); }),
                  "tensor 'w' holds nan at position 2"));
  EXPECT_TRUE(has(error_of(Fault::kData, [&] { (void)reader.read_float32("h"); }),
                  "tensor 'h' holds -inf at position 1"));
  EXPECT_TRUE(has(error_of(Fault::kData, [&] { (void)reader.read_float32("b"); }),
                  "tensor 'b' holds inf at position 0"));
}

TEST(CheckpointReader, FilesThatAreNotThere) {
  const TemporaryFolder folder;
  EXPECT_TRUE(has(opening(folder.path() / "none.safetensors"), "No such file"));
  EXPECT_TRUE(has(opening(folder.path()), "holds neither model.safetensors nor"));
  folder.write("pytorch_model.bin", "x");
  EXPECT_TRUE(has(opening(folder.path()), "pytorch_model.bin is not read"));
  folder.write("model.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n");
  EXPECT_TRUE(has(opening(folder.path()), "git lfs pull"));
  folder.write("model.safetensors", "");
  EXPECT_TRUE(has(opening(folder.path()), "empty or cut off"));
}

TEST(CheckpointReader, AFileThatShrinksIsAnError) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "model.safetensors";
  const std::vector<float> values(1000, 1.0F);
  write_safetensors(path, {tensor("w", "F32", {1000}, values)}, {});
  const CheckpointReader reader = CheckpointReader::open(path);
  std::filesystem::resize_file(path, 500);
  EXPECT_TRUE(
      has(error_of(Fault::kData, [&] { (void)reader.read_float32("w"); }), "ends at byte 500"));
}

class Shards : public ::testing::Test {
 protected:
  Shards() {
    write_safetensors(folder.path() / "model-00001-of-00002.safetensors",
                      {tensor("a", "F32", {1}, one), tensor("extra", "F32", {1}, one)}, {});
    write_safetensors(folder.path() / "blob", {tensor("b", "F32", {1}, two)}, {});
    // the Hugging Face cache keeps links
    std::filesystem::create_symlink("blob", folder.path() / "model-00002-of-00002.safetensors");
  }
  std::string opening_index(const std::string& text) {
    folder.write("model.safetensors.index.json", text);
    return opening(folder.path());
  }
  const std::vector<float> one = {1.0F};
  const std::vector<float> two = {2.0F};
  TemporaryFolder folder;
};

TEST_F(Shards, AreReadAsOne) {
  folder.write(
      "model.safetensors.index.json",
      R"({"metadata":{"total_size":8},"weight_map":)"
      R"({"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}})");
  const CheckpointReader reader = CheckpointReader::open(folder.path());
  EXPECT_EQ(reader.tensors().size(), 2U);
  EXPECT_EQ(reader.read_float32("a"), one);
  EXPECT_EQ(reader.read_float32("b"), two);
}

TEST_F(Shards, TheIndexMayNotLeaveItsFolder) {
  for (const char* shard :
       {"../x.safetensors", "/etc/x.safetensors", "sub/x.safetensors", "a\\\\x.safetensors", "",
        "..safetensors", "x\\u0000.safetensors", "x.bin"}) {
    const std::string found =
        opening_index(std::string(R"({"weight_map":{"a":")") + shard + "\"}}");
    EXPECT_TRUE(has(found, "expected a bare file name")) << shard << " -> " << found;
  }
}

TEST_F(Shards, TheIndexIsChecked) {
  EXPECT_TRUE(has(opening_index("{"), "not valid JSON"));
  EXPECT_TRUE(has(opening_index("[]"), "expected a JSON object"));
  EXPECT_TRUE(has(opening_index("{}"), "expected a non-empty object weight_map"));
  EXPECT_TRUE(has(opening_index(R"({"weight_map":{"a":1}})"), "expected a file name"));
  EXPECT_TRUE(has(opening_index(R"({"weight_map":{"b":"model-00001-of-00002.safetensors"}})"),
                  "tensor 'b' should be in model-00001-of-00002.safetensors, which lacks it"));
  EXPECT_TRUE(has(opening_index(R"({"weight_map":{"b":"gone.safetensors"}})"), "No such file"));
  EXPECT_TRUE(has(opening_index(R"({"weight_map":{"a":"x.safetensors","a":"y.safetensors"}})"),
                  "the key 'a' appears twice"));
  EXPECT_TRUE(has(opening_index("{\"weight_map\":" + std::string(100'000, '[')), "nested deeper"));
  std::string many = R"({"weight_map":{"t":"s.safetensors")";
  for (int i = 0; i < 1000; ++i) {
    many += ",\"t" + std::to_string(i) + "\":\"s" + std::to_string(i) + ".safetensors\"";
  }
  EXPECT_TRUE(has(opening_index(many + "}}"), "more than 1000 shards"));
}

TEST(CheckCheckpoint, ListsEverythingThatDoesNotFit) {
  const TemporaryFolder folder;
  ModelConfig config;
  config.hidden_size = 4;
  config.intermediate_size = 6;
  config.num_layers = 1;
  config.vocab_size = 5;
  config.num_heads = 2;
  config.num_kv_heads = 1;
  config.head_dim = 2;
  config.tied_embeddings = true;
  const std::vector<float> zeros(1000, 0.0F);
  std::vector<TensorToWrite> all;
  for (const auto& e : config.expected_tensors()) {
    std::int64_t count = 1;
    for (const auto dim : e.shape) {
      count *= dim;
    }
    all.push_back({e.name, "F32", e.shape,
                   std::as_bytes(std::span(zeros).first(static_cast<std::size_t>(count)))});
  }
  const auto add = [&](std::vector<TensorToWrite>& to, const char* name) {
    to.push_back({name, "F32", {1}, std::as_bytes(std::span(zeros).first(1))});
  };
  const auto check = [&](const std::vector<TensorToWrite>& tensors) {
    write_safetensors(folder.path() / "model.safetensors", tensors, {});
    return error_of(Fault::kData,
                    [&] { check_checkpoint(config, CheckpointReader::open(folder.path())); });
  };
  std::vector<TensorToWrite> good = all;
  add(good, "lm_head.weight");  // tied: the embedding is used
  add(good, "model.layers.0.self_attn.rotary_emb.inv_freq");
  add(good, "something.else");
  EXPECT_EQ(check(good), "(no error)");

  std::vector<TensorToWrite> bad(all.begin() + 1, all.end());
  bad.back().shape = {2, 2};
  bad.back().bytes = std::as_bytes(std::span(zeros).first(4));
  bad[0].dtype = "I32";
  add(bad, "model.layers.0.self_attn.q_proj.bias");
  const std::string found = check(bad);
  EXPECT_TRUE(has(found, "model.embed_tokens.weight is missing")) << found;
  EXPECT_TRUE(has(found, "model.norm.weight has shape [2, 2], config.json needs [4]")) << found;
  EXPECT_TRUE(has(found, "input_layernorm.weight is I32")) << found;
  EXPECT_TRUE(has(found, "q_proj.bias is there")) << found;

  config.tied_embeddings = false;
  EXPECT_TRUE(has(check(all), "lm_head.weight is missing"));
}

}  // namespace
}  // namespace apo::model
