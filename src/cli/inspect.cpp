// apo inspect PATH: what a model folder, an adapter, a .safetensors file or an .h5 file holds.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>

#include "commands.hpp"
#include <fmt/format.h>

#include "apo/comm/world.hpp"
#include "apo/core/error.hpp"
#include "apo/model/adapter.hpp"
#include "apo/model/model_config.hpp"
#include "apo/model/safetensors.hpp"
#include "apo/store/document.hpp"
#include "apo/text/chat_template.hpp"
#include "apo/text/tokenizer.hpp"

namespace apo::cli {

namespace {

namespace fs = std::filesystem;

constexpr const char* kUsage =
    "usage: apo inspect PATH\n"
    "\n"
    "Prints what PATH holds:\n"
    "  a model folder (config.json)             architecture, sizes, tensors, tokenizer\n"
    "  an adapter folder (adapter_config.json)  LoRA options, sizes, norms of A and B\n"
    "  a .safetensors file                      every tensor\n"
    "  an .h5 file, or a run folder with run.h5 attributes and data sets\n";

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::string bytes_text(std::uint64_t num_bytes) {
  const auto value = static_cast<double>(num_bytes);
  if (num_bytes < 1024) {
    return fmt::format("{} B", num_bytes);
  }
  if (num_bytes < 1024 * 1024) {
    return fmt::format("{:.1f} KiB", value / 1024);
  }
  return num_bytes < 1024ULL * 1024 * 1024 ? fmt::format("{:.1f} MiB", value / (1024 * 1024))
                                           : fmt::format("{:.2f} GiB", value / std::exp2(30));
}

/// 134515008 -> "134 515 008"
std::string grouped(std::int64_t value) {
  std::string text = std::to_string(value);
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > 0; at -= 3) {
    text.insert(static_cast<std::size_t>(at), 1, ' ');
  }
  return text;
}

void row(std::string_view label, std::string_view value) { fmt::print("{:<16}{}\n", label, value); }

std::int64_t num_elements(const model::TensorInfo& t) {
  std::int64_t product = 1;
  for (const std::int64_t dim : t.shape) {
    product *= dim;
  }
  return product;
}

/// "272 tensors, 134 515 008 elements: F32 272 (513.1 MiB)"
std::string summary(const model::CheckpointReader& reader) {
  struct Share {
    std::size_t num_tensors = 0;
    std::uint64_t num_bytes = 0;
  };
  std::map<std::string, Share> shares;
  std::int64_t elements = 0;
  for (const auto& [name, info] : reader.tensors()) {
    Share& share = shares[info.dtype];
    ++share.num_tensors;
    share.num_bytes += info.end - info.begin;
    elements += num_elements(info);
  }
  std::vector<std::string> parts;
  for (const auto& [dtype, share] : shares) {
    parts.push_back(
        fmt::format("{} {} ({})", dtype, share.num_tensors, bytes_text(share.num_bytes)));
  }
  return fmt::format("{} tensors, {} elements: {}", reader.tensors().size(), grouped(elements),
                     fmt::join(parts, ", "));
}

void print_safetensors(const fs::path& path) {
  const auto reader = model::CheckpointReader::open(path);
  row("safetensors", path.string());
  row("tensors", summary(reader));
  for (const auto& [key, value] : reader.metadata()) {
    row("metadata", fmt::format("{} = {}", key, value.substr(0, 100)));
  }
  std::size_t width = 0;
  for (const auto& [name, info] : reader.tensors()) {
    width = std::max(width, name.size());
  }
  for (const auto& [name, info] : reader.tensors()) {
    fmt::print("  {:<{}}  {:<6}{:>12}  {}\n", name, width, info.dtype,
               bytes_text(info.end - info.begin), shape_text(info.shape));
  }
}

void print_rope(const model::ModelConfig& c) {
  const model::RopeScaling& s = c.rope_scaling;
  row("rope", s.factor == 1.0
                  ? fmt::format("theta {:g}", c.rope_theta)
                  : fmt::format("theta {:g}, llama3 scaling: factor {:g}, low {:g}, high {:g}, "
                                "original length {:g}",
                                c.rope_theta, s.factor, s.low_freq_factor, s.high_freq_factor,
                                s.original_max_position));
}

void print_config(const model::ModelConfig& c) {
  row("architecture", c.architecture == model::Architecture::kLlama ? "llama" : "qwen2");
  row("parameters", grouped(c.num_parameters()));
  row("sizes", fmt::format("hidden {}, intermediate {}, layers {}, vocabulary {}", c.hidden_size,
                           c.intermediate_size, c.num_layers, c.vocab_size));
  row("attention", fmt::format("{} heads, {} key-value heads, head dimension {}", c.num_heads,
                               c.num_kv_heads, c.head_dim));
  row("biases",
      fmt::format("{}{}{}", c.attention_bias ? "q k v " : "", c.attention_output_bias ? "o " : "",
                  c.mlp_bias         ? "mlp"
                  : c.attention_bias ? ""
                                     : "none"));
  row("embeddings", c.tied_embeddings ? "tied (no lm_head)" : "separate lm_head");
  print_rope(c);
  row("rms norm", fmt::format("epsilon {:g}", c.rms_norm_eps));
  row("tokens",
      fmt::format("bos {}, eos {}, pad {}, at most {} positions",
                  c.bos_id >= 0 ? std::to_string(c.bos_id) : "none",
                  c.eos_ids.empty() ? "none" : fmt::format("{}", fmt::join(c.eos_ids, " ")),
                  c.pad_id >= 0 ? std::to_string(c.pad_id) : "none",
                  c.max_position > 0 ? std::to_string(c.max_position) : "unknown"));
}

void print_tokenizer(const fs::path& dir, const model::ModelConfig& config) {
  if (!fs::exists(dir / "tokenizer.json") && !fs::exists(dir / "tokenizer.json.gz")) {
    row("tokenizer", "none");
    return;
  }
  const auto tokenizer = text::Tokenizer::load(dir);
  row("tokenizer", fmt::format("{}, {} tokens, largest id {}", tokenizer.kind(),
                               tokenizer.vocabulary_size(), tokenizer.max_id()));
  if (tokenizer.max_id() >= config.vocab_size) {
    row("", fmt::format("ids from {} on are outside the model's vocabulary", config.vocab_size));
  }
  try {
    row("chat template", text::ChatTemplate::load(dir, "auto", "26 Jul 2024").name());
  } catch (const Error& e) {
    row("chat template", e.what());
  }
}

void print_model(const fs::path& dir) {
  row("model", dir.string());
  const model::ModelConfig config = model::load_model_config(dir);
  print_config(config);
  print_tokenizer(dir, config);
  std::fflush(stdout);
  const auto reader = model::CheckpointReader::open(dir);
  row("tensors", summary(reader));
  std::fflush(stdout);
  model::check_checkpoint(config, reader);
  row("check", "every tensor of config.json is there with its shape");
}

void print_adapter(const fs::path& dir) {
  row("adapter", dir.string());
  const model::LoraOptions options = model::read_adapter_options(dir);
  const std::string base = model::read_adapter_base_name(dir);
  row("base model", base.empty() ? "not named" : base);
  row("lora", fmt::format("rank {}, alpha {:g} (scale {:g}), dropout {:g}", options.rank,
                          options.alpha, options.alpha / options.rank, options.dropout));
  row("targets", fmt::format("{}", fmt::join(options.targets, ", ")));
  const auto reader = model::CheckpointReader::open(dir / "adapter_model.safetensors");
  row("tensors", summary(reader));
  double squares_a = 0.0;
  double squares_b = 0.0;
  for (const auto& [name, info] : reader.tensors()) {
    double& squares = name.find(".lora_A.") != std::string::npos ? squares_a : squares_b;
    for (const float v : reader.read_float32(name)) {
      squares += static_cast<double>(v) * static_cast<double>(v);
    }
  }
  row("norms", fmt::format("A {:.6g}, B {:.6g}{}", std::sqrt(squares_a), std::sqrt(squares_b),
                           squares_b == 0.0 ? " (untrained: the base model's policy)" : ""));
}

template <class T>
std::string one_line(const T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    std::string text = value.substr(0, 100);
    std::replace(text.begin(), text.end(), '\n', ' ');
    return value.size() > 100 ? text + fmt::format("... ({} bytes)", value.size()) : text;
  } else if constexpr (std::is_arithmetic_v<T>) {
    return fmt::format("{}", value);
  } else {
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < std::min<std::size_t>(value.size(), 8); ++i) {
      parts.push_back(one_line(value[i]));
    }
    return fmt::format("[{}{}]", fmt::join(parts, ", "),
                       value.size() > 8 ? fmt::format(", ... {} in all", value.size()) : "");
  }
}

const char* type_name(const store::Array& array) {
  constexpr const char* kNames[] = {"float64", "float32", "int64", "text"};
  return kNames[array.values.index()];
}

void print_document(const fs::path& path) {
  const store::Document document = store::read_document(path);
  row("file", path.string());
  for (const auto& [group, attributes] : document.attributes) {
    fmt::print("/{}\n", group);
    for (const auto& [name, value] : attributes) {
      if (name == "columns") {
        continue;  // the data sets below
      }
      fmt::print("  {:<28}{}\n", name,
                 std::visit([](const auto& v) { return one_line(v); }, value));
    }
  }
  fmt::print("data sets\n");
  std::size_t width = 0;
  for (const auto& [name, array] : document.arrays) {
    width = std::max(width, name.size());
  }
  for (const auto& [name, array] : document.arrays) {
    fmt::print("  {:<{}}  {:<8}{:<16}{:<10}{}\n", name, width, type_name(array),
               shape_text(array.shape), array.units, array.long_name);
  }
}

void print_path(const fs::path& path) {
  std::error_code code;
  if (!fs::exists(path, code)) {
    throw Error(Fault::kData, fmt::format("{}: no such file or folder", path.string()));
  }
  if (!fs::is_directory(path, code)) {
    if (path.extension() == ".safetensors") {
      return print_safetensors(path);
    }
    if (path.extension() == ".h5" || path.extension() == ".hdf5") {
      return print_document(path);
    }
  } else if (fs::exists(path / "adapter_config.json", code)) {
    return print_adapter(path);
  } else if (fs::exists(path / "config.json", code)) {
    return print_model(path);
  } else if (fs::exists(path / "run.h5", code)) {
    return print_document(path / "run.h5");
  } else if (fs::exists(path / "model.safetensors", code) ||
             fs::exists(path / "model.safetensors.index.json", code)) {
    return print_safetensors(path);
  }
  throw Error(Fault::kData,
              fmt::format("{}: not something that is understood; expected a model folder "
                          "(config.json), an adapter folder (adapter_config.json), a run folder "
                          "(run.h5), a .safetensors file or an .h5 file",
                          path.string()));
}

}  // namespace

int inspect(const Arguments& arguments, comm::World& world) {
  const bool help = std::any_of(arguments.begin(), arguments.end(),
                                [](const std::string& a) { return a == "--help" || a == "-h"; });
  if (!help && (arguments.size() != 1 || arguments[0].starts_with("-"))) {
    throw Error(
        Fault::kConfig,
        fmt::format("apo inspect: expected one path, found {} arguments (apo inspect --help)",
                    arguments.size()));
  }
  if (world.rank() != 0) {
    return 0;
  }
  if (help) {
    fmt::print("{}", kUsage);
  } else {
    print_path(arguments[0]);
  }
  std::fflush(stdout);
  return 0;
}

}  // namespace apo::cli
