// What the Python oracles run: our readers and writers, one action per call.
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "apo/core/error.hpp"
#include "apo/model/adapter.hpp"
#include "apo/model/safetensors.hpp"

namespace {

using namespace apo::model;

/// Reads a file with our reader and writes it again with our writer.
void copy_safetensors(const std::string& from, const std::string& to) {
  const CheckpointReader reader = CheckpointReader::open(from);
  std::vector<std::vector<std::byte>> bytes;
  std::vector<TensorToWrite> tensors;
  for (const auto& [name, info] : reader.tensors()) {
    bytes.push_back(reader.read_bytes(name));
    tensors.push_back({name, info.dtype, info.shape, bytes.back()});
  }
  write_safetensors(to, std::move(tensors), reader.metadata());
}

/// Widens every tensor to float32.
void widen_safetensors(const std::string& from, const std::string& to) {
  const CheckpointReader reader = CheckpointReader::open(from);
  std::vector<std::vector<float>> values;
  std::vector<TensorToWrite> tensors;
  for (const auto& [name, info] : reader.tensors()) {
    values.push_back(reader.read_float32(name));
    tensors.push_back({name, "F32", info.shape, std::as_bytes(std::span(values.back()))});
  }
  write_safetensors(to, std::move(tensors), {{"format", "pt"}});
}

/// Reads a PEFT adapter of a model and writes it again; flat.safetensors holds the flat vector.
void copy_adapter(const std::string& model, const std::string& from, const std::string& to) {
  const AdapterLayout layout = make_layout(load_model_config(model), read_adapter_options(from));
  const std::vector<float> parameters = load_adapter(from, layout);
  save_adapter(to, layout, parameters, model);
  write_safetensors(
      to + "/flat.safetensors",
      {{"flat", "F32", {layout.num_parameters}, std::as_bytes(std::span(parameters))}}, {});
}

void make_adapter(const std::string& model, const std::string& to) {
  const AdapterLayout layout = make_layout(load_model_config(model), LoraOptions{});
  std::vector<float> parameters = initial_adapter(layout, 5);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i] == 0.0F) {
      parameters[i] = 1e-3F * static_cast<float>(i % 17);  // B as after some training
    }
  }
  save_adapter(to, layout, parameters, model);
}

int dispatch(const std::vector<std::string>& a) {
  if (a.size() == 3 && a[0] == "copy") {
    copy_safetensors(a[1], a[2]);
  } else if (a.size() == 3 && a[0] == "widen") {
    widen_safetensors(a[1], a[2]);
  } else if (a.size() == 3 && a[0] == "config") {
    save_model_config(a[2], load_model_config(a[1]));
  } else if (a.size() == 2 && a[0] == "check") {
    check_checkpoint(load_model_config(a[1]), CheckpointReader::open(a[1]));
  } else if (a.size() == 4 && a[0] == "copy-adapter") {
    copy_adapter(a[1], a[2], a[3]);
  } else if (a.size() == 3 && a[0] == "make-adapter") {
    make_adapter(a[1], a[2]);
  } else {
    std::fputs("usage: model_files_probe copy|widen|config|check|copy-adapter|make-adapter ...\n",
               stderr);
    return 64;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return dispatch({argv + 1, argv + argc});
  } catch (const apo::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return apo::exit_code(e.fault());
  }
}
