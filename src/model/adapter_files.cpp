// PEFT's adapter_config.json and adapter_model.safetensors (spec llm.md, section 3.2).
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "json_text.hpp"
#include <fmt/format.h>

#include "apo/core/durable_file.hpp"
#include "apo/core/error.hpp"
#include "apo/model/adapter.hpp"
#include "apo/model/safetensors.hpp"

namespace apo::model {

namespace {

using nlohmann::json;

constexpr std::size_t kMaxConfigBytes = 4U << 20U;
constexpr std::size_t kMaxShown = 20;
constexpr const char* kConfigName = "adapter_config.json";
constexpr const char* kWeightsName = "adapter_model.safetensors";

std::string tensor_name(const AdapterModule& m, char matrix) {
  return fmt::format("base_model.model.model.layers.{}.{}.lora_{}.weight", m.layer,
                     projection_path(m.projection), matrix);
}

/// A key as it is without the adapter's name: ...lora_A.default.weight -> ...lora_A.weight
std::string without_adapter_name(const std::string& key) {
  constexpr std::string_view kNamed = ".default.weight";
  return key.ends_with(kNamed) ? key.substr(0, key.size() - kNamed.size()) + ".weight" : key;
}

/// One matrix of the layout and where it lies in the flat vector.
struct Matrix {
  std::string name;
  std::vector<std::int64_t> shape;
  std::int64_t begin;
};

std::vector<Matrix> matrices(const AdapterLayout& layout) {
  std::vector<Matrix> all;
  for (const AdapterModule& m : layout.modules) {
    all.push_back({tensor_name(m, 'A'), {layout.rank, m.in}, m.a_begin});
    all.push_back({tensor_name(m, 'B'), {m.out, layout.rank}, m.b_begin});
  }
  return all;
}

std::vector<std::string> target_names(const AdapterLayout& layout) {
  std::set<Projection> used;
  for (const AdapterModule& m : layout.modules) {
    used.insert(m.projection);
  }
  std::vector<std::string> names;
  for (const Projection p : used) {
    names.push_back(projection_name(p));
  }
  return names;
}

json number(double value) {
  return value == std::floor(value) && std::abs(value) < 1e15
             ? json(static_cast<std::int64_t>(value))
             : json(value);
}

bool inactive(const json& value) {
  return value.is_null() || value == false ||
         ((value.is_object() || value.is_array()) && value.empty());
}

/// Features of PEFT that would change what the numbers mean.
void refuse_features(const json& config, std::vector<std::string>& problems) {
  for (const char* key :
       {"use_dora", "use_rslora", "rank_pattern", "alpha_pattern", "modules_to_save",
        "fan_in_fan_out", "layers_to_transform", "layer_replication", "lora_bias", "use_qalora",
        "target_parameters", "trainable_token_indices", "exclude_modules", "megatron_config",
        "alora_invocation_tokens", "arrow_config", "use_bdlora"}) {
    const auto found = config.find(key);
    if (found != config.end() && !inactive(*found)) {
      problems.push_back(fmt::format("{} is {}, which is not supported", key, shown(*found)));
    }
  }
  const json bias = config.value("bias", json("none"));
  if (bias != "none") {
    problems.push_back(fmt::format("bias is {}, expected \"none\"", shown(bias)));
  }
  if (config.value("peft_type", json()) != "LORA") {
    problems.push_back(fmt::format("peft_type is {}, expected \"LORA\"",
                                   shown(config.value("peft_type", json()))));
  }
}

double read_number(const json& config, const char* key, double otherwise, double low, double high,
                   std::vector<std::string>& problems) {
  const json value = config.value(key, json(otherwise));
  if (!value.is_number() || value.get<double>() < low || value.get<double>() > high) {
    problems.push_back(
        fmt::format("{} is {}, expected a number in [{}, {}]", key, shown(value), low, high));
    return otherwise;
  }
  return value.get<double>();
}

/// Projections that occur in the keys of the weights, for target_modules given as a pattern.
std::vector<std::string> targets_in_weights(const std::filesystem::path& dir) {
  const CheckpointReader weights = CheckpointReader::open(dir / kWeightsName);
  std::vector<std::string> targets;
  for (int p = 0; p < kNumProjections; ++p) {
    const auto projection = static_cast<Projection>(p);
    const std::string part = "." + projection_path(projection) + ".lora_";
    if (std::any_of(weights.tensors().begin(), weights.tensors().end(),
                    [&](const auto& t) { return t.first.find(part) != std::string::npos; })) {
      targets.push_back(projection_name(projection));
    }
  }
  return targets;
}

std::vector<std::string> read_targets(const json& config, const std::filesystem::path& dir,
                                      std::vector<std::string>& problems) {
  const json targets = config.value("target_modules", json());
  if (targets.is_string()) {
    return targets_in_weights(dir);
  }
  std::set<std::string> given;
  bool good = targets.is_array() && !targets.empty();
  for (const json& target : good ? targets : json::array()) {
    // "q_proj", "self_attn.q_proj", or whole paths as PEFT writes them for "all-linear". Whether
    // every layer has its matrices is checked with the keys of the weights.
    const std::string name = target.is_string() ? target.get<std::string>() : "";
    given.insert(name.substr(name.rfind('.') + 1));
  }
  std::vector<std::string> names;
  for (int p = 0; p < kNumProjections; ++p) {
    const std::string name = projection_name(static_cast<Projection>(p));
    if (given.erase(name) != 0) {
      names.push_back(name);
    }
  }
  if (!good || !given.empty()) {
    problems.push_back(fmt::format(
        "target_modules is {}, expected a list of q_proj, k_proj, v_proj, o_proj, gate_proj, "
        "up_proj, down_proj",
        shown(targets)));
  }
  return names;
}

[[noreturn]] void throw_problems(const std::filesystem::path& path,
                                 std::vector<std::string> problems) {
  const std::size_t num_more = problems.size() - std::min(problems.size(), kMaxShown);
  problems.resize(problems.size() - num_more);
  if (num_more > 0) {
    problems.push_back(fmt::format("and {} more", num_more));
  }
  throw Error(Fault::kData, fmt::format("{}: {}", path.string(), fmt::join(problems, "; ")));
}

}  // namespace

void save_adapter(const std::filesystem::path& dir, const AdapterLayout& layout,
                  std::span<const float> parameters, const std::string& base_name) {
  expects(std::ssize(parameters) == layout.num_parameters,
          fmt::format("save_adapter: {} numbers, the layout has {}", parameters.size(),
                      layout.num_parameters));
  std::error_code code;
  std::filesystem::create_directories(dir, code);
  if (code) {
    throw BackendError("mkdir " + dir.string(), code.value(), code.message());
  }
  std::vector<TensorToWrite> tensors;
  for (Matrix& m : matrices(layout)) {
    const auto count = static_cast<std::size_t>(m.shape[0] * m.shape[1]);
    const auto values = parameters.subspan(static_cast<std::size_t>(m.begin), count);
    tensors.push_back({std::move(m.name), "F32", std::move(m.shape), std::as_bytes(values)});
  }
  write_safetensors(dir / kWeightsName, std::move(tensors), {{"format", "pt"}});

  const json config = {{"peft_type", "LORA"},
                       {"task_type", "CAUSAL_LM"},
                       {"base_model_name_or_path", base_name},
                       {"revision", nullptr},
                       {"inference_mode", true},
                       {"r", layout.rank},
                       {"lora_alpha", number(layout.alpha)},
                       {"lora_dropout", layout.dropout},
                       {"bias", "none"},
                       {"fan_in_fan_out", false},
                       {"target_modules", target_names(layout)},
                       {"modules_to_save", nullptr},
                       {"init_lora_weights", true},
                       {"layers_to_transform", nullptr},
                       {"layers_pattern", nullptr},
                       {"rank_pattern", json::object()},
                       {"alpha_pattern", json::object()},
                       {"use_rslora", false},
                       {"use_dora", false},
                       {"auto_mapping", nullptr}};
  publish_text_file(dir / kConfigName,
                    config.dump(2, ' ', false, json::error_handler_t::replace) + "\n");
}

LoraOptions read_adapter_options(const std::filesystem::path& dir) {
  const std::filesystem::path path = dir / kConfigName;
  const json config = parse_json_object(read_text_file(path, kMaxConfigBytes), path.string());
  std::vector<std::string> problems;
  refuse_features(config, problems);
  LoraOptions options;
  const json rank = config.value("r", json(8));
  if (!rank.is_number_integer() || rank.get<double>() < 1 || rank.get<double>() > 1024) {
    problems.push_back(fmt::format("r is {}, expected an integer in [1, 1024]", shown(rank)));
  } else {
    options.rank = rank.get<int>();
  }
  constexpr double kTiny = std::numeric_limits<double>::min();
  options.alpha = read_number(config, "lora_alpha", 8.0, kTiny, 1e6, problems);
  options.dropout = read_number(config, "lora_dropout", 0.0, 0.0, 0.99, problems);
  options.targets = read_targets(config, dir, problems);
  if (!problems.empty()) {
    throw_problems(path, std::move(problems));
  }
  return options;
}

std::string read_adapter_base_name(const std::filesystem::path& dir) {
  const std::filesystem::path path = dir / kConfigName;
  const json config = parse_json_object(read_text_file(path, kMaxConfigBytes), path.string());
  const json name = config.value("base_model_name_or_path", json());
  return name.is_string() ? name.get<std::string>() : "";
}

std::vector<float> load_adapter(const std::filesystem::path& dir, const AdapterLayout& layout) {
  const LoraOptions options = read_adapter_options(dir);
  std::vector<std::string> problems;
  if (options.rank != layout.rank) {
    problems.push_back(fmt::format("r is {}, expected {}", options.rank, layout.rank));
  }
  if (options.alpha != layout.alpha) {
    problems.push_back(fmt::format("lora_alpha is {}, expected {}", options.alpha, layout.alpha));
  }
  if (options.targets != target_names(layout)) {
    problems.push_back(fmt::format("target_modules are {}, expected {}",
                                   fmt::join(options.targets, ", "),
                                   fmt::join(target_names(layout), ", ")));
  }
  if (!problems.empty()) {
    throw_problems(dir / kConfigName, std::move(problems));
  }

  // PEFT ignores keys it does not know and leaves B at zero: here every key must be the right one.
  const CheckpointReader weights = CheckpointReader::open(dir / kWeightsName);
  std::map<std::string, std::string> key_of;
  for (const auto& [key, info] : weights.tensors()) {
    if (!key_of.emplace(without_adapter_name(key), key).second) {
      problems.push_back(fmt::format("{} is there twice", without_adapter_name(key)));
    }
  }
  std::vector<float> parameters(static_cast<std::size_t>(layout.num_parameters));
  for (const Matrix& m : matrices(layout)) {
    const auto node = key_of.extract(m.name);
    if (node.empty()) {
      problems.push_back(fmt::format("{} is missing", m.name));
      continue;
    }
    const TensorInfo& info = weights.tensors().at(node.mapped());
    if (info.shape != m.shape) {
      problems.push_back(fmt::format("{} has shape [{}], expected [{}]", info.name,
                                     fmt::join(info.shape, ", "), fmt::join(m.shape, ", ")));
      continue;
    }
    const std::vector<float> values = weights.read_float32(node.mapped());
    std::copy(values.begin(), values.end(), parameters.begin() + m.begin);
  }
  for (const auto& [name, key] : key_of) {
    problems.push_back(fmt::format("{} is not expected", key));
  }
  if (!problems.empty()) {
    throw_problems(dir / kWeightsName, std::move(problems));
  }
  return parameters;
}

}  // namespace apo::model
