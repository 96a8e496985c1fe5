#include "apo/model/model_config.hpp"

#include <cmath>
#include <limits>
#include <optional>
#include <set>

#include "json_text.hpp"
#include <fmt/format.h>

#include "apo/core/durable_file.hpp"
#include "apo/core/error.hpp"

namespace apo::model {

namespace {

using nlohmann::json;

constexpr std::size_t kMaxConfigBytes = 4U << 20U;
constexpr std::int64_t kMaxParameters = 1'000'000'000'000;

/// Reads keys of one JSON object and collects what is wrong with them.
class FieldReader {
 public:
  FieldReader(const json& object, std::string prefix, std::vector<std::string>& problems)
      : object_(object), prefix_(std::move(prefix)), problems_(problems) {}

  [[nodiscard]] const json* find(const char* key) const {
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }

  void problem(const char* key, std::string_view expected) {
    const json* value = find(key);
    problems_.push_back(fmt::format("{}{} is {}, expected {}", prefix_, key,
                                    value == nullptr ? "absent" : shown(*value), expected));
  }

  std::int64_t integer(const char* key, std::int64_t low, std::int64_t high,
                       std::optional<std::int64_t> otherwise = std::nullopt) {
    const json* value = find(key);
    if (value == nullptr && otherwise) {
      return *otherwise;
    }
    const bool fits = value != nullptr && value->is_number_integer() &&
                      (!value->is_number_unsigned() ||
                       value->get<std::uint64_t>() <=
                           static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
    if (!fits || value->get<std::int64_t>() < low || value->get<std::int64_t>() > high) {
      problem(key, fmt::format("an integer in [{}, {}]", low, high));
      return low;
    }
    return value->get<std::int64_t>();
  }

  /// A positive real number.
  double real(const char* key, double high, std::optional<double> otherwise = std::nullopt) {
    const json* value = find(key);
    if (value == nullptr && otherwise) {
      return *otherwise;
    }
    if (value == nullptr || !value->is_number() || !(value->get<double>() > 0.0) ||
        value->get<double>() > high) {
      problem(key, fmt::format("a number in (0, {}]", high));
      return 1.0;
    }
    return value->get<double>();
  }

  bool flag(const char* key, bool otherwise) {
    const json* value = find(key);
    if (value == nullptr) {
      return otherwise;
    }
    if (!value->is_boolean()) {
      problem(key, "true or false");
      return otherwise;
    }
    return value->get<bool>();
  }

  std::optional<std::string> text(const char* key) {
    const json* value = find(key);
    if (value == nullptr) {
      return std::nullopt;
    }
    if (!value->is_string()) {
      problem(key, "text");
      return std::nullopt;
    }
    return value->get<std::string>();
  }

 private:
  const json& object_;
  std::string prefix_;
  std::vector<std::string>& problems_;
};

std::optional<Architecture> read_architecture(FieldReader& in) {
  const auto type = in.text("model_type");
  std::optional<std::string> first;
  if (const json* list = in.find("architectures"); list != nullptr) {
    if (!list->is_array() || list->empty() || !(*list)[0].is_string()) {
      in.problem("architectures", "a list of names");
      return std::nullopt;
    }
    first = (*list)[0].get<std::string>();
  }
  const auto is = [&](const char* model_type, const char* name) {
    return (type || first) && (!type || *type == model_type) && (!first || *first == name);
  };
  if (is("llama", "LlamaForCausalLM")) {
    return Architecture::kLlama;
  }
  if (is("qwen2", "Qwen2ForCausalLM")) {
    return Architecture::kQwen2;
  }
  const bool type_known = type && (*type == "llama" || *type == "qwen2");
  if (type_known || !type) {
    in.problem("architectures", "[\"LlamaForCausalLM\"] or [\"Qwen2ForCausalLM\"]");
  } else {
    in.problem("model_type", "\"llama\" or \"qwen2\"");
  }
  return std::nullopt;
}

/// Options of other models and releases that would change the forward pass.
void refuse_unsupported(FieldReader& in) {
  if (const auto act = in.text("hidden_act"); act && *act != "silu") {
    in.problem("hidden_act", "\"silu\"");
  }
  if (in.flag("use_sliding_window", false)) {
    in.problem("use_sliding_window", "false");
  }
  if (in.flag("rope_interleaved", false)) {
    in.problem("rope_interleaved", "false");
  }
  if (in.real("partial_rotary_factor", 1.0, 1.0) != 1.0) {
    in.problem("partial_rotary_factor", "1");
  }
  if (in.find("quantization_config") != nullptr) {
    in.problem("quantization_config", "none: the checkpoint must hold plain weights");
  }
  if (const json* types = in.find("layer_types"); types != nullptr) {
    for (const json& type : *types) {
      if (type != "full_attention") {
        in.problem("layer_types", "\"full_attention\" in every layer");
        break;
      }
    }
  }
}

RopeScaling read_llama3_scaling(FieldReader& in, std::vector<std::string>& problems) {
  RopeScaling scaling;
  scaling.factor = in.real("factor", 1e6);
  scaling.low_freq_factor = in.real("low_freq_factor", 1e6);
  scaling.high_freq_factor = in.real("high_freq_factor", 1e6);
  scaling.original_max_position = in.real("original_max_position_embeddings", 1e9);
  if (problems.empty() && scaling.high_freq_factor <= scaling.low_freq_factor) {
    in.problem("high_freq_factor", "more than low_freq_factor");
  }
  return scaling;
}

/// Both spellings: rope_theta with rope_scaling, and rope_parameters of transformers 5.
void read_rope(FieldReader& in, ModelConfig& config, std::vector<std::string>& problems) {
  config.rope_theta = in.real("rope_theta", 1e12, 10000.0);
  const json* parameters = in.find("rope_parameters");
  const char* key = parameters != nullptr ? "rope_parameters" : "rope_scaling";
  const json* block = in.find(key);
  if (block == nullptr) {
    return;
  }
  if (!block->is_object()) {
    in.problem(key, "an object");
    return;
  }
  FieldReader rope(*block, std::string(key) + ".", problems);
  if (rope.find("rope_theta") != nullptr) {
    const double theta = rope.real("rope_theta", 1e12);
    if (in.find("rope_theta") != nullptr && theta != config.rope_theta) {
      rope.problem("rope_theta", fmt::format("rope_theta's {}", config.rope_theta));
    }
    config.rope_theta = theta;
  }
  auto type = rope.text("rope_type");
  if (!type) {
    type = rope.text("type");
  }
  if (type && *type == "llama3") {
    config.rope_scaling = read_llama3_scaling(rope, problems);
  } else if (type && *type != "default") {
    rope.problem(rope.find("rope_type") != nullptr ? "rope_type" : "type",
                 "\"default\" or \"llama3\"");
  } else if (!type && rope.find("factor") != nullptr) {
    rope.problem("rope_type", "\"default\" or \"llama3\"");
  }
}

std::int32_t read_id(FieldReader& in, const char* key) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
  return static_cast<std::int32_t>(in.integer(key, -1, kMax, -1));
}

void read_eos(FieldReader& in, ModelConfig& config) {
  const json* value = in.find("eos_token_id");
  if (value == nullptr) {
    return;
  }
  const json list = value->is_array() ? *value : json::array({*value});
  for (const json& id : list) {
    if (!id.is_number_integer() || id.get<double>() < 0 ||
        id.get<double>() > std::numeric_limits<std::int32_t>::max()) {
      in.problem("eos_token_id", "a token id or a list of them");
      return;
    }
    config.eos_ids.push_back(id.get<std::int32_t>());
  }
}

void read_sizes(FieldReader& in, ModelConfig& config) {
  config.hidden_size = in.integer("hidden_size", 1, 65'536);
  config.intermediate_size = in.integer("intermediate_size", 1, 1'048'576);
  config.num_layers = in.integer("num_hidden_layers", 1, 1000);
  config.vocab_size = in.integer("vocab_size", 1, 1'048'576);
  config.num_heads = in.integer("num_attention_heads", 1, 4096);
  config.num_kv_heads = in.integer("num_key_value_heads", 1, 4096, config.num_heads);
  config.max_position = in.integer("max_position_embeddings", 0, 1'000'000'000, 0);
  if (config.num_heads % config.num_kv_heads != 0) {
    in.problem("num_key_value_heads",
               fmt::format("a divisor of num_attention_heads = {}", config.num_heads));
  }
  if (in.find("head_dim") != nullptr) {
    config.head_dim = in.integer("head_dim", 2, 4096);
  } else if (config.hidden_size % config.num_heads == 0) {
    config.head_dim = config.hidden_size / config.num_heads;
  } else {
    in.problem("hidden_size", fmt::format("a multiple of num_attention_heads = {}, as head_dim is "
                                          "absent",
                                          config.num_heads));
  }
  if (config.head_dim % 2 != 0) {
    in.problem("head_dim", "an even number (rotary embedding turns pairs)");
  }
}

[[noreturn]] void throw_problems(const std::string& name,
                                 const std::vector<std::string>& problems) {
  throw Error(Fault::kData, fmt::format("{}: {}", name, fmt::join(problems, "; ")));
}

}  // namespace

std::vector<ModelConfig::Expected> ModelConfig::expected_tensors() const {
  const std::int64_t query = num_heads * head_dim;
  const std::int64_t key_value = num_kv_heads * head_dim;
  std::vector<Expected> all;
  all.push_back({"model.embed_tokens.weight", {vocab_size, hidden_size}});
  for (std::int64_t i = 0; i < num_layers; ++i) {
    const std::string layer = fmt::format("model.layers.{}.", i);
    const auto linear = [&](const char* path, std::int64_t out, std::int64_t in, bool bias) {
      all.push_back({layer + path + ".weight", {out, in}});
      if (bias) {
        all.push_back({layer + path + ".bias", {out}});
      }
    };
    all.push_back({layer + "input_layernorm.weight", {hidden_size}});
    linear("self_attn.q_proj", query, hidden_size, attention_bias);
    linear("self_attn.k_proj", key_value, hidden_size, attention_bias);
    linear("self_attn.v_proj", key_value, hidden_size, attention_bias);
    linear("self_attn.o_proj", hidden_size, query, attention_output_bias);
    all.push_back({layer + "post_attention_layernorm.weight", {hidden_size}});
    linear("mlp.gate_proj", intermediate_size, hidden_size, mlp_bias);
    linear("mlp.up_proj", intermediate_size, hidden_size, mlp_bias);
    linear("mlp.down_proj", hidden_size, intermediate_size, mlp_bias);
  }
  all.push_back({"model.norm.weight", {hidden_size}});
  if (!tied_embeddings) {
    all.push_back({"lm_head.weight", {vocab_size, hidden_size}});
  }
  return all;
}

std::int64_t ModelConfig::num_parameters() const {
  const std::int64_t query = num_heads * head_dim;
  const std::int64_t key_value = num_kv_heads * head_dim;
  std::int64_t layer =
      2 * hidden_size + 2 * hidden_size * (query + key_value) + 3 * hidden_size * intermediate_size;
  layer += attention_bias ? query + 2 * key_value : 0;
  layer += attention_output_bias ? hidden_size : 0;
  layer += mlp_bias ? 2 * intermediate_size + hidden_size : 0;
  return vocab_size * hidden_size * (tied_embeddings ? 1 : 2) + num_layers * layer + hidden_size;
}

ModelConfig parse_model_config(const std::string& json_text, const std::string& name) {
  const json object = parse_json_object(json_text, name);
  std::vector<std::string> problems;
  FieldReader in(object, "", problems);
  const auto architecture = read_architecture(in);
  if (!architecture) {
    throw_problems(name, problems);  // the other keys of a foreign model mean nothing here
  }
  ModelConfig config;
  config.architecture = *architecture;
  read_sizes(in, config);
  config.rms_norm_eps = in.real("rms_norm_eps", 1.0, 1e-6);
  config.tied_embeddings = in.flag("tie_word_embeddings", false);
  if (config.architecture == Architecture::kLlama) {
    config.attention_bias = in.flag("attention_bias", false);
    config.attention_output_bias = config.attention_bias;
    config.mlp_bias = in.flag("mlp_bias", false);
  } else {
    config.attention_bias = true;
  }
  read_rope(in, config, problems);
  read_eos(in, config);
  config.bos_id = read_id(in, "bos_token_id");
  config.pad_id = read_id(in, "pad_token_id");
  config.dtype = in.text("dtype").value_or(in.text("torch_dtype").value_or(""));
  refuse_unsupported(in);
  if (problems.empty() && config.num_parameters() > kMaxParameters) {
    problems.push_back(fmt::format("the sizes give {} parameters, expected at most {}",
                                   config.num_parameters(), kMaxParameters));
  }
  if (!problems.empty()) {
    throw_problems(name, problems);
  }
  return config;
}

ModelConfig load_model_config(const std::filesystem::path& model_dir) {
  std::error_code code;
  if (!std::filesystem::is_directory(model_dir, code)) {
    throw Error(Fault::kData,
                fmt::format("{}: no such folder; expected a Hugging Face model folder",
                            model_dir.string()));
  }
  const std::filesystem::path path = model_dir / "config.json";
  return parse_model_config(read_text_file(path, kMaxConfigBytes), path.string());
}

void save_model_config(const std::filesystem::path& model_dir, const ModelConfig& config) {
  const bool llama = config.architecture == Architecture::kLlama;
  nlohmann::ordered_json out;
  out["architectures"] = {llama ? "LlamaForCausalLM" : "Qwen2ForCausalLM"};
  out["model_type"] = llama ? "llama" : "qwen2";
  out["hidden_size"] = config.hidden_size;
  out["intermediate_size"] = config.intermediate_size;
  out["num_hidden_layers"] = config.num_layers;
  out["num_attention_heads"] = config.num_heads;
  out["num_key_value_heads"] = config.num_kv_heads;
  out["head_dim"] = config.head_dim;
  out["vocab_size"] = config.vocab_size;
  out["max_position_embeddings"] = config.max_position > 0 ? config.max_position : 2048;
  out["hidden_act"] = "silu";
  out["rms_norm_eps"] = config.rms_norm_eps;
  out["rope_theta"] = config.rope_theta;
  if (config.rope_scaling.factor != 1.0) {
    const RopeScaling& scaling = config.rope_scaling;
    const auto old_max = static_cast<std::int64_t>(std::llround(scaling.original_max_position));
    out["rope_scaling"] = {{"rope_type", "llama3"},
                           {"factor", scaling.factor},
                           {"low_freq_factor", scaling.low_freq_factor},
                           {"high_freq_factor", scaling.high_freq_factor},
                           {"original_max_position_embeddings", old_max}};
  } else {
    out["rope_scaling"] = nullptr;
  }
  out["tie_word_embeddings"] = config.tied_embeddings;
  if (llama) {
    out["attention_bias"] = config.attention_bias;
    out["mlp_bias"] = config.mlp_bias;
  } else {
    out["use_sliding_window"] = false;
  }
  const auto id_or_null = [](std::int32_t id) {
    return id >= 0 ? nlohmann::ordered_json(id) : nlohmann::ordered_json(nullptr);
  };
  out["bos_token_id"] = id_or_null(config.bos_id);
  if (config.eos_ids.size() == 1) {
    out["eos_token_id"] = config.eos_ids[0];
  } else {
    out["eos_token_id"] = config.eos_ids.empty() ? nlohmann::ordered_json(nullptr)
                                                 : nlohmann::ordered_json(config.eos_ids);
  }
  out["pad_token_id"] = id_or_null(config.pad_id);
  out["torch_dtype"] = config.dtype.empty() ? "float32" : config.dtype;
  publish_text_file(model_dir / "config.json", out.dump(2) + "\n");
}

}  // namespace apo::model
