#include "apo/model/model_config.hpp"

#include "unit/model/temporary_folder.hpp"
#include <gtest/gtest.h>

#include "apo/core/error.hpp"

namespace apo::model {
namespace {

constexpr const char* kLlama32 = R"({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama", "attention_bias": false,
  "bos_token_id": 128000, "eos_token_id": [128001, 128008, 128009], "head_dim": 128,
  "hidden_act": "silu", "hidden_size": 3072, "initializer_range": 0.02,
  "intermediate_size": 8192, "max_position_embeddings": 131072, "mlp_bias": false,
  "num_attention_heads": 24, "num_hidden_layers": 28, "num_key_value_heads": 8,
  "pretraining_tp": 1, "rms_norm_eps": 1e-05,
  "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                   "original_max_position_embeddings": 8192, "rope_type": "llama3"},
  "rope_theta": 500000.0, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
  "transformers_version": "4.45.0.dev0", "use_cache": true, "vocab_size": 128256})";

constexpr const char* kQwen25 = R"({
  "architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 151643,
  "eos_token_id": 151645, "hidden_act": "silu", "hidden_size": 2048, "intermediate_size": 11008,
  "max_position_embeddings": 32768, "max_window_layers": 70, "model_type": "qwen2",
  "num_attention_heads": 16, "num_hidden_layers": 36, "num_key_value_heads": 2,
  "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "sliding_window": 32768,
  "tie_word_embeddings": true, "torch_dtype": "bfloat16", "use_cache": true,
  "use_sliding_window": false, "vocab_size": 151936})";

constexpr const char* kMinimal =
    R"({"model_type":"llama","hidden_size":8,"intermediate_size":16,"num_hidden_layers":2,)"
    R"("num_attention_heads":2,"vocab_size":32)";

std::string minimal(const std::string& more = "") { return kMinimal + more + "}"; }

std::string rejection(const std::string& text) {
  return error_of(Fault::kData, [&] { (void)parse_model_config(text, "config.json"); });
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(ModelConfig, Llama32) {
  const ModelConfig c = parse_model_config(kLlama32, "config.json");
  EXPECT_EQ(c.architecture, Architecture::kLlama);
  EXPECT_EQ(c.num_parameters(), 3'212'749'824);
  EXPECT_EQ(c.head_dim, 128);
  EXPECT_EQ(c.eos_ids, (std::vector<std::int32_t>{128001, 128008, 128009}));
  EXPECT_EQ(c.bos_id, 128000);
  EXPECT_EQ(c.pad_id, -1);
  EXPECT_TRUE(c.tied_embeddings);
  EXPECT_FALSE(c.attention_bias);
  EXPECT_EQ(c.rope_theta, 500000.0);
  EXPECT_EQ(c.rope_scaling.factor, 32.0);
  EXPECT_EQ(c.rope_scaling.low_freq_factor, 1.0);
  EXPECT_EQ(c.rope_scaling.high_freq_factor, 4.0);
  EXPECT_EQ(c.rope_scaling.original_max_position, 8192.0);
  EXPECT_EQ(c.dtype, "bfloat16");
  EXPECT_EQ(c.expected_tensors().size(), 28U * 9 + 2);
}

TEST(ModelConfig, Qwen25HasBiases) {
  const ModelConfig c = parse_model_config(kQwen25, "config.json");
  EXPECT_EQ(c.architecture, Architecture::kQwen2);
  EXPECT_EQ(c.num_parameters(), 3'085'938'688);
  EXPECT_EQ(c.head_dim, 128);
  EXPECT_TRUE(c.attention_bias);
  EXPECT_FALSE(c.attention_output_bias);
  EXPECT_EQ(c.eos_ids, (std::vector<std::int32_t>{151645}));
  EXPECT_EQ(c.expected_tensors().size(), 36U * 12 + 2);
}

TEST(ModelConfig, ParameterCountIsTheSumOfTheTensors) {
  for (const std::string& text :
       {std::string(kQwen25), minimal(R"(,"attention_bias":true,"mlp_bias":true)"),
        minimal(R"(,"head_dim":6,"num_key_value_heads":1,"tie_word_embeddings":true)")}) {
    const ModelConfig c = parse_model_config(text, "config.json");
    std::int64_t sum = 0;
    for (const auto& e : c.expected_tensors()) {
      std::int64_t product = 1;
      for (const auto dim : e.shape) {
        product *= dim;
      }
      sum += product;
    }
    EXPECT_EQ(c.num_parameters(), sum);
  }
}

TEST(ModelConfig, DefaultsOfAbsentFields) {
  const ModelConfig c = parse_model_config(minimal(), "config.json");
  EXPECT_EQ(c.num_kv_heads, 2);
  EXPECT_EQ(c.head_dim, 4);
  EXPECT_EQ(c.rms_norm_eps, 1e-6);
  EXPECT_EQ(c.rope_theta, 10000.0);
  EXPECT_EQ(c.rope_scaling.factor, 1.0);
  EXPECT_FALSE(c.tied_embeddings);
  EXPECT_TRUE(c.eos_ids.empty());
  EXPECT_EQ(c.dtype, "");
}

TEST(ModelConfig, TensorShapes) {
  const ModelConfig c = parse_model_config(
      minimal(R"(,"head_dim":6,"num_key_value_heads":1,"attention_bias":true)"), "config.json");
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const auto& e : c.expected_tensors()) {
    shapes[e.name] = e.shape;
  }
  using Shape = std::vector<std::int64_t>;
  EXPECT_EQ(shapes.at("model.embed_tokens.weight"), (Shape{32, 8}));
  EXPECT_EQ(shapes.at("model.layers.1.self_attn.q_proj.weight"), (Shape{12, 8}));
  EXPECT_EQ(shapes.at("model.layers.1.self_attn.q_proj.bias"), (Shape{12}));
  EXPECT_EQ(shapes.at("model.layers.1.self_attn.v_proj.weight"), (Shape{6, 8}));
  EXPECT_EQ(shapes.at("model.layers.1.self_attn.o_proj.weight"), (Shape{8, 12}));
  EXPECT_EQ(shapes.at("model.layers.1.self_attn.o_proj.bias"), (Shape{8}));
  EXPECT_EQ(shapes.at("model.layers.0.mlp.down_proj.weight"), (Shape{8, 16}));
  EXPECT_EQ(shapes.at("lm_head.weight"), (Shape{32, 8}));
}

TEST(ModelConfig, NewSpellingOfTransformers5) {
  const ModelConfig c = parse_model_config(
      minimal(R"(,"dtype":"float32","rope_parameters":{"rope_theta":500000.0,"rope_type":"llama3",)"
              R"("factor":8,"low_freq_factor":1,"high_freq_factor":4,)"
              R"("original_max_position_embeddings":8192})"),
      "config.json");
  EXPECT_EQ(c.dtype, "float32");
  EXPECT_EQ(c.rope_theta, 500000.0);
  EXPECT_EQ(c.rope_scaling.factor, 8.0);
  EXPECT_EQ(parse_model_config(
                minimal(R"(,"rope_parameters":{"rope_theta":7.0,"rope_type":"default"})"), "x")
                .rope_theta,
            7.0);
  // the former name of rope_type
  EXPECT_EQ(parse_model_config(
                minimal(R"(,"rope_scaling":{"type":"llama3","factor":8,"low_freq_factor":1,)"
                        R"("high_freq_factor":4,"original_max_position_embeddings":64})"),
                "x")
                .rope_scaling.original_max_position,
            64.0);
}

struct Case {
  const char* more;
  const char* message;
};

TEST(ModelConfig, RefusesByName) {
  const Case cases[] = {
      {R"(,"architectures":["LlamaForSequenceClassification"])", "architectures is"},
      {R"(,"hidden_act":"gelu")", "hidden_act is \"gelu\", expected \"silu\""},
      {R"(,"use_sliding_window":true)", "use_sliding_window is true"},
      {R"(,"rope_interleaved":true)", "rope_interleaved is true"},
      {R"(,"partial_rotary_factor":0.5)", "partial_rotary_factor is 0.5"},
      {R"(,"quantization_config":{"load_in_4bit":true})", "quantization_config"},
      {R"(,"layer_types":["full_attention","sliding_attention"])", "layer_types"},
      {R"(,"rope_scaling":{"rope_type":"yarn","factor":4})", "rope_scaling.rope_type is \"yarn\""},
      {R"(,"rope_scaling":{"type":"linear","factor":4})", "rope_scaling.type is \"linear\""},
      {R"(,"rope_scaling":{"rope_type":"llama3","factor":4})",
       "rope_scaling.low_freq_factor is absent"},
      {R"(,"rope_scaling":{"factor":4})", "rope_scaling.rope_type is absent"},
      {R"(,"rope_theta":5,"rope_parameters":{"rope_theta":6})", "rope_parameters.rope_theta is 6"},
      {R"(,"num_key_value_heads":3)", "num_key_value_heads is 3, expected a divisor"},
      {R"(,"head_dim":3)", "head_dim is 3, expected an even number"},
      {R"(,"head_dim":null,"rms_norm_eps":0)", "rms_norm_eps is 0"},
      {R"(,"tie_word_embeddings":"yes")", "tie_word_embeddings is \"yes\""},
      {R"(,"eos_token_id":[1,"x"])", "eos_token_id is [1,\"x\"]"},
      {R"(,"eos_token_id":-5)", "eos_token_id is -5"},
  };
  for (const Case& c : cases) {
    EXPECT_TRUE(has(rejection(minimal(c.more)), c.message))
        << c.more << " -> " << rejection(minimal(c.more));
  }
  EXPECT_TRUE(has(rejection(R"({"model_type":"mistral"})"), "model_type is \"mistral\""));
  EXPECT_TRUE(has(rejection("{}"), "architectures is absent"));
}

TEST(ModelConfig, CapsNumbersAndListsAllProblems) {
  const std::string found = rejection(
      R"({"model_type":"llama","hidden_size":65537,"intermediate_size":-1,)"
      R"("num_hidden_layers":1001,"num_attention_heads":2.5,"vocab_size":18446744073709551615})");
  EXPECT_TRUE(has(found, "hidden_size is 65537, expected an integer in [1, 65536]")) << found;
  EXPECT_TRUE(has(found, "intermediate_size is -1")) << found;
  EXPECT_TRUE(has(found, "num_hidden_layers is 1001")) << found;
  EXPECT_TRUE(has(found, "num_attention_heads is 2.5")) << found;
  EXPECT_TRUE(has(found, "vocab_size is 18446744073709551615")) << found;
  EXPECT_TRUE(has(rejection(R"({"model_type":"llama","hidden_size":65536,"vocab_size":1048576,)"
                            R"("intermediate_size":1048576,"num_hidden_layers":1000,)"
                            R"("num_attention_heads":64})"),
                  "parameters, expected at most"));
  EXPECT_TRUE(has(rejection("{"), "not valid JSON"));
  EXPECT_TRUE(has(rejection(minimal(R"(,"vocab_size":3)")), "'vocab_size' appears twice"));
}

TEST(ModelConfig, RoundTrip) {
  const TemporaryFolder folder;
  for (const std::string& text : {std::string(kLlama32), std::string(kQwen25),
                                  minimal(R"(,"attention_bias":true,"mlp_bias":true,)"
                                          R"("pad_token_id":3,"eos_token_id":4)")}) {
    const ModelConfig c = parse_model_config(text, "config.json");
    save_model_config(folder.path(), c);
    const ModelConfig again = load_model_config(folder.path());
    EXPECT_EQ(again.architecture, c.architecture);
    EXPECT_EQ(again.num_parameters(), c.num_parameters());
    EXPECT_EQ(again.attention_bias, c.attention_bias);
    EXPECT_EQ(again.attention_output_bias, c.attention_output_bias);
    EXPECT_EQ(again.rms_norm_eps, c.rms_norm_eps);
    EXPECT_EQ(again.rope_theta, c.rope_theta);
    EXPECT_EQ(again.rope_scaling.factor, c.rope_scaling.factor);
    EXPECT_EQ(again.rope_scaling.original_max_position, c.rope_scaling.original_max_position);
    EXPECT_EQ(again.eos_ids, c.eos_ids);
    EXPECT_EQ(again.bos_id, c.bos_id);
    EXPECT_EQ(again.pad_id, c.pad_id);
    EXPECT_EQ(again.head_dim, c.head_dim);
  }
  EXPECT_TRUE(has(error_of(Fault::kData, [&] { (void)load_model_config(folder.path() / "no"); }),
                  "no such folder"));
}

}  // namespace
}  // namespace apo::model
