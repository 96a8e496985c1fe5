#include <cstring>
#include <map>
#include <string>
#include <utility>

#include <ATen/ops/empty.h>

#include "apo/core/error.hpp"
#include "apo/model/causal_lm.hpp"
#include "apo/model/safetensors.hpp"

namespace apo::model {

CausalLm CausalLm::load(const std::string& dir, const std::string& dtype) {
  expects(dtype == "float32" || dtype == "bfloat16", "dtype must be float32 or bfloat16");
  ModelConfig config = load_model_config(dir);
  const CheckpointReader checkpoint = CheckpointReader::open(dir);
  check_checkpoint(config, checkpoint);
  const at::ScalarType type = dtype == "float32" ? at::kFloat : at::kBFloat16;
  std::map<std::string, at::Tensor> weights;
  for (const ModelConfig::Expected& expected : config.expected_tensors()) {
    const std::vector<float> values = checkpoint.read_float32(expected.name);
    at::Tensor tensor = at::empty(expected.shape, at::kFloat);
    expects(static_cast<std::int64_t>(values.size()) == tensor.numel(),
            "a tensor was read with another size than its shape");
    std::memcpy(tensor.mutable_data_ptr<float>(), values.data(), values.size() * sizeof(float));
    weights.emplace(expected.name, tensor.to(type));
  }
  return {std::move(config), std::move(weights)};
}

}  // namespace apo::model
