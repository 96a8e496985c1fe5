#include "apo/model/adapter.hpp"

#include <algorithm>
#include <cmath>

#include "unit/model/temporary_folder.hpp"
#include <gtest/gtest.h>

#include "apo/core/error.hpp"
#include "apo/model/safetensors.hpp"

namespace apo::model {
namespace {

ModelConfig sizes(std::int64_t hidden, std::int64_t intermediate, std::int64_t layers,
                  std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim) {
  ModelConfig c;
  c.hidden_size = hidden;
  c.intermediate_size = intermediate;
  c.num_layers = layers;
  c.num_heads = heads;
  c.num_kv_heads = kv_heads;
  c.head_dim = head_dim;
  c.vocab_size = 32;
  return c;
}

const ModelConfig kTiny = sizes(8, 12, 2, 2, 1, 6);

LoraOptions lora(std::vector<std::string> targets, int rank = 8) {
  LoraOptions options;
  options.rank = rank;
  options.targets = std::move(targets);
  return options;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(AdapterLayout, SizesOfKnownModels) {
  const ModelConfig llama = sizes(3072, 8192, 28, 24, 8, 128);
  const ModelConfig qwen = sizes(2048, 11008, 36, 16, 2, 128);
  const ModelConfig smol = sizes(576, 1536, 30, 9, 3, 64);
  const LoraOptions qv = lora({"q_proj", "v_proj"});
  const LoraOptions attention = lora({"q_proj", "k_proj", "v_proj", "o_proj"});
  const LoraOptions all;
  EXPECT_EQ(make_layout(llama, qv).num_parameters, 2'293'760);
  EXPECT_EQ(make_layout(llama, attention).num_parameters, 4'587'520);
  EXPECT_EQ(make_layout(llama, all).num_parameters, 12'156'928);
  EXPECT_EQ(make_layout(qwen, qv).num_parameters, 1'843'200);
  EXPECT_EQ(make_layout(qwen, attention).num_parameters, 3'686'400);
  EXPECT_EQ(make_layout(qwen, all).num_parameters, 14'966'784);
  EXPECT_EQ(make_layout(smol, qv).num_parameters, 460'800);
  EXPECT_EQ(make_layout(smol, attention).num_parameters, 921'600);
  EXPECT_EQ(make_layout(smol, all).num_parameters, 2'442'240);
  EXPECT_EQ(make_layout(llama, all).scale(), 2.0);
}

TEST(AdapterLayout, TilesTheVectorInOrder) {
  // the order of the targets in the configuration does not matter
  const AdapterLayout layout = make_layout(kTiny, lora({"down_proj", "q_proj"}, 3));
  ASSERT_EQ(layout.modules.size(), 4U);
  EXPECT_EQ(layout.modules[0].projection, Projection::kQ);
  EXPECT_EQ(layout.modules[1].projection, Projection::kDown);
  EXPECT_EQ(layout.modules[1].in, 12);
  EXPECT_EQ(layout.modules[1].out, 8);
  EXPECT_EQ(layout.modules[2].layer, 1);
  std::int64_t begin = 0;
  for (const AdapterModule& m : layout.modules) {
    EXPECT_EQ(m.a_begin, begin);
    EXPECT_EQ(m.b_begin, begin + 3 * m.in);
    begin = m.b_begin + 3 * m.out;
  }
  EXPECT_EQ(layout.num_parameters, begin);
}

TEST(AdapterLayout, RefusesWrongTargets) {
  const auto message = [](const std::vector<std::string>& targets) {
    return error_of(Fault::kConfig, [&] { (void)make_layout(kTiny, lora(targets)); });
  };
  EXPECT_TRUE(has(message({"lm_head"}), "'lm_head' is not a projection"));
  EXPECT_TRUE(has(message({"q_proj", "q_proj"}), "given twice"));
  EXPECT_TRUE(has(message({}), "at least one target"));
}

TEST(InitialAdapter, UniformAndReproducible) {
  const AdapterLayout layout = make_layout(sizes(576, 1536, 4, 9, 3, 64), LoraOptions{});
  const std::vector<float> start = initial_adapter(layout, 17);
  EXPECT_EQ(start, initial_adapter(layout, 17));
  EXPECT_NE(start, initial_adapter(layout, 18));
  for (const AdapterModule& m : layout.modules) {
    const auto a = std::span(start).subspan(static_cast<std::size_t>(m.a_begin),
                                            static_cast<std::size_t>(m.b_begin - m.a_begin));
    const auto b = std::span(start).subspan(static_cast<std::size_t>(m.b_begin),
                                            static_cast<std::size_t>(layout.rank * m.out));
    const double bound = 1.0 / std::sqrt(static_cast<double>(m.in));
    double sum = 0.0;
    double squares = 0.0;
    for (const float v : a) {
      ASSERT_LE(std::abs(v), static_cast<float>(bound));
      sum += v;
      squares += static_cast<double>(v) * v;
    }
    const auto n = static_cast<double>(a.size());
    // 6 standard errors of the mean and of the mean square (4/45 bound^4 variance)
    EXPECT_LT(std::abs(sum / n), 6 * bound / std::sqrt(3 * n));
    EXPECT_LT(std::abs(squares / n - bound * bound / 3),
              6 * bound * bound * std::sqrt(4.0 / 45.0 / n));
    EXPECT_TRUE(std::all_of(b.begin(), b.end(), [](float v) { return v == 0.0F; }));
  }
  // a module's numbers depend on its place in the list only, not on the modules after it
  const AdapterLayout fewer = make_layout(sizes(576, 1536, 1, 9, 3, 64), LoraOptions{});
  const std::vector<float> short_start = initial_adapter(fewer, 17);
  EXPECT_TRUE(std::equal(short_start.begin(), short_start.end(), start.begin()));
}

class AdapterFiles : public ::testing::Test {
 protected:
  AdapterFiles() {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      parameters[i] = static_cast<float>(i) * 0.25F;
    }
    save_adapter(dir, layout, parameters, "base");
  }
  std::string loading(const AdapterLayout& as) {
    return error_of(Fault::kData, [&] { (void)load_adapter(dir, as); });
  }
  std::string loading() { return loading(layout); }

  /// Rewrites the weights with `change` applied to the list of tensors.
  template <class Change>
  void rewrite(Change&& change) {
    std::vector<std::vector<std::byte>> bytes;
    std::vector<TensorToWrite> tensors;
    {
      const auto reader = CheckpointReader::open(dir / "adapter_model.safetensors");
      for (const auto& [name, info] : reader.tensors()) {
        bytes.push_back(reader.read_bytes(name));
        tensors.push_back({name, info.dtype, info.shape, bytes.back()});
      }
    }
    change(tensors);
    write_safetensors(dir / "adapter_model.safetensors", tensors, {{"format", "pt"}});
  }
  void reconfigure(const std::string& from, const std::string& to) {
    std::string text = folder.read("a/adapter_config.json");
    const auto at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from << " in " << text;
    folder.write("a/adapter_config.json", text.replace(at, from.size(), to));
  }

  const AdapterLayout layout = make_layout(kTiny, lora({"q_proj", "down_proj"}, 2));
  std::vector<float> parameters =
      std::vector<float>(static_cast<std::size_t>(layout.num_parameters));
  TemporaryFolder folder;
  const std::filesystem::path dir = folder.path() / "a";
};

TEST_F(AdapterFiles, RoundTrip) {
  EXPECT_EQ(load_adapter(dir, layout), parameters);
  const LoraOptions options = read_adapter_options(dir);
  EXPECT_EQ(options.rank, 2);
  EXPECT_EQ(read_adapter_base_name(dir), "base");
  EXPECT_EQ(options.alpha, 16.0);
  EXPECT_EQ(options.dropout, 0.05);
  EXPECT_EQ(options.targets, (std::vector<std::string>{"q_proj", "down_proj"}));
  const auto reader = CheckpointReader::open(dir / "adapter_model.safetensors");
  EXPECT_EQ(reader.tensors().size(), 8U);
  EXPECT_EQ(
      reader.tensors().at("base_model.model.model.layers.1.mlp.down_proj.lora_A.weight").shape,
      (std::vector<std::int64_t>{2, 12}));
}

TEST_F(AdapterFiles, AcceptsTheAdapterNameInKeys) {
  rewrite([](auto& tensors) {
    for (TensorToWrite& t : tensors) {
      t.name.insert(t.name.rfind(".weight"), ".default");
    }
  });
  EXPECT_EQ(load_adapter(dir, layout), parameters);
}

TEST_F(AdapterFiles, EveryKeyExactlyOnce) {
  rewrite([](auto& tensors) {
    tensors[0].name = "base_model.model.model.layers.0.mlp.down_proj.lora_a.weight";
    tensors[1].shape = {tensors[1].shape[1], tensors[1].shape[0]};
  });
  const std::string found = loading();
  EXPECT_TRUE(has(found, "layers.0.mlp.down_proj.lora_A.weight is missing")) << found;
  EXPECT_TRUE(has(found, "lora_a.weight is not expected")) << found;
  EXPECT_TRUE(has(found, "lora_B.weight has shape [2, 8], expected [8, 2]")) << found;
}

TEST_F(AdapterFiles, TwoKeysForOneMatrix) {
  rewrite([](auto& tensors) {
    tensors.push_back(tensors[0]);
    tensors.back().name.insert(tensors.back().name.rfind(".weight"), ".default");
  });
  EXPECT_TRUE(has(loading(), "is there twice")) << loading();
}

TEST_F(AdapterFiles, ConfigurationMustFit) {
  EXPECT_TRUE(
      has(loading(make_layout(kTiny, lora({"q_proj", "down_proj"}, 4))), "r is 2, expected 4"));
  EXPECT_TRUE(has(loading(make_layout(kTiny, lora({"q_proj"}, 2))),
                  "target_modules are q_proj, down_proj, expected q_proj"));
  LoraOptions other = lora({"q_proj", "down_proj"}, 2);
  other.alpha = 8;
  EXPECT_TRUE(has(loading(make_layout(kTiny, other)), "lora_alpha is 16, expected 8"));
  EXPECT_TRUE(has(loading(make_layout(sizes(8, 12, 3, 2, 1, 6), lora({"q_proj", "down_proj"}, 2))),
                  "layers.2.self_attn.q_proj.lora_A.weight is missing"));
}

TEST_F(AdapterFiles, RefusesOtherFeatures) {
  const std::pair<const char*, const char*> changes[] = {
      {"\"use_dora\": false", "\"use_dora\": true"},
      {"\"use_rslora\": false", "\"use_rslora\": true"},
      {"\"rank_pattern\": {}", "\"rank_pattern\": {\"q_proj\": 4}"},
      {"\"alpha_pattern\": {}", "\"alpha_pattern\": {\"q_proj\": 4}"},
      {"\"modules_to_save\": null", "\"modules_to_save\": [\"lm_head\"]"},
      {"\"fan_in_fan_out\": false", "\"fan_in_fan_out\": true"},
      {"\"layers_to_transform\": null", "\"layers_to_transform\": [0]"},
      {"\"bias\": \"none\"", "\"bias\": \"all\""},
      {"\"peft_type\": \"LORA\"", "\"peft_type\": \"ADALORA\""},
      {"\"lora_alpha\": 16", "\"lora_alpha\": \"16\""},
      {"\"r\": 2", "\"r\": 0"},
      {"\"q_proj\",", "\"w1\","},
  };
  for (const auto& [from, to] : changes) {
    save_adapter(dir, layout, parameters, "base");
    reconfigure(from, to);
    const std::string changed(to);
    const std::string key = changed.substr(1, changed.find('"', 1) - 1);
    EXPECT_TRUE(has(loading(), key)) << to << " -> " << loading();
  }
}

TEST_F(AdapterFiles, TargetsAsPatternComeFromTheKeys) {
  const std::string text = folder.read("a/adapter_config.json");
  const auto begin = text.find('[', text.find("target_modules"));
  const auto end = text.find(']', begin);
  folder.write("a/adapter_config.json",
               text.substr(0, begin) + R"(".*\\.(q_proj|down_proj)$")" + text.substr(end + 1));
  EXPECT_EQ(load_adapter(dir, layout), parameters);
}

TEST_F(AdapterFiles, AbsentFolder) {
  EXPECT_TRUE(
      has(error_of(Fault::kData, [&] { (void)load_adapter(folder.path() / "none", layout); }),
          "adapter_config.json: no such file"));
}

}  // namespace
}  // namespace apo::model
