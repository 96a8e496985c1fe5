// What the Python oracles run: logits of a model folder, with or without an adapter.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <ATen/ops/from_blob.h>
#include <ATen/ops/tensor.h>

#include "apo/core/error.hpp"
#include "apo/core/rng.hpp"
#include "apo/model/adapter.hpp"
#include "apo/model/causal_lm.hpp"
#include "apo/model/safetensors.hpp"

namespace {

using namespace apo::model;

/// One list of ids per line.
std::vector<std::vector<std::int64_t>> read_ids(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::vector<std::int64_t>> rows;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::vector<std::int64_t>& row = rows.emplace_back();
    for (std::int64_t id = 0; words >> id;) {
      row.push_back(id);
    }
  }
  return rows;
}

/// Writes logits [B, T, V]; rows are padded on the right, padding positions hold zeros.
void write_logits(const std::string& model_dir, const std::string& dtype,
                  const std::string& ids_path, const std::string& out,
                  const std::string& adapter_dir) {
  const CausalLm lm = CausalLm::load(model_dir, dtype);
  const auto rows = read_ids(ids_path);
  std::vector<std::int64_t> lengths;
  for (const auto& row : rows) {
    lengths.push_back(static_cast<std::int64_t>(row.size()));
  }
  const std::int64_t width = *std::max_element(lengths.begin(), lengths.end());
  std::vector<std::int64_t> padded;
  for (const auto& row : rows) {
    padded.insert(padded.end(), row.begin(), row.end());
    padded.insert(padded.end(), static_cast<std::size_t>(width) - row.size(), 0);
  }
  const auto batch_size = static_cast<std::int64_t>(rows.size());
  const at::Tensor ids = at::tensor(padded, at::kLong).view({batch_size, width});
  AdapterLayout layout;
  at::Tensor adapter;
  if (!adapter_dir.empty()) {
    layout = make_layout(lm.config(), read_adapter_options(adapter_dir));
    adapter = at::tensor(load_adapter(adapter_dir, layout), at::kFloat);
  }
  const at::Tensor logits = lm.logits(ids, lengths, adapter, &layout).contiguous();
  const std::span<const float> values(logits.const_data_ptr<float>(),
                                      static_cast<std::size_t>(logits.numel()));
  write_safetensors(out, {{"logits", "F32", logits.sizes().vec(), std::as_bytes(values)}}, {});
}

/// An adapter whose A and B are both random.
void write_random_adapter(const std::string& model_dir, const std::string& out) {
  LoraOptions options;
  options.rank = 5;
  options.alpha = 10.0;
  const AdapterLayout layout = make_layout(load_model_config(model_dir), options);
  apo::CounterRng rng({1, apo::Purpose::kTest, 0, 0, 0});
  std::vector<float> parameters(static_cast<std::size_t>(layout.num_parameters));
  for (float& value : parameters) {
    value = static_cast<float>(0.1 * rng.normal());
  }
  save_adapter(out, layout, parameters, model_dir);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> a(argv + 1, argv + argc);
  try {
    if (a.size() >= 5 && a[0] == "logits") {
      write_logits(a[1], a[2], a[3], a[4], a.size() > 5 ? a[5] : "");
    } else if (a.size() == 3 && a[0] == "random-adapter") {
      write_random_adapter(a[1], a[2]);
    } else {
      std::fputs(
          "usage: causal_lm_probe logits MODEL DTYPE IDS OUT [ADAPTER]\n"
          "       causal_lm_probe random-adapter MODEL OUT\n",
          stderr);
      return 64;
    }
  } catch (const apo::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return apo::exit_code(error.fault());
  }
  return 0;
}
