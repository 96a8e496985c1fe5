#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "apo/core/error.hpp"
#include "apo/core/log.hpp"
#include "apo/model/model_config.hpp"
#include "apo/model/safetensors.hpp"

namespace apo::model {

namespace {

constexpr std::size_t kMaxShown = 20;

bool known_extra(const std::string& name, const ModelConfig& config) {
  return name.ends_with("rotary_emb.inv_freq") ||
         (config.tied_embeddings && name == "lm_head.weight");
}

}  // namespace

void check_checkpoint(const ModelConfig& config, const CheckpointReader& checkpoint) {
  std::vector<std::string> problems;
  std::set<std::string> expected;
  for (const ModelConfig::Expected& e : config.expected_tensors()) {
    expected.insert(e.name);
    const auto found = checkpoint.tensors().find(e.name);
    if (found == checkpoint.tensors().end()) {
      problems.push_back(fmt::format("{} is missing", e.name));
      continue;
    }
    const TensorInfo& t = found->second;
    if (t.shape != e.shape) {
      problems.push_back(fmt::format("{} has shape [{}], config.json needs [{}]", e.name,
                                     fmt::join(t.shape, ", "), fmt::join(e.shape, ", ")));
    }
    if (t.dtype != "F32" && t.dtype != "F16" && t.dtype != "BF16") {
      problems.push_back(fmt::format("{} is {}, expected F32, F16 or BF16", e.name, t.dtype));
    }
  }
  std::vector<std::string> ignored;
  for (const auto& [name, info] : checkpoint.tensors()) {
    if (expected.contains(name) || known_extra(name, config)) {
      continue;
    }
    if (name.ends_with("_proj.bias")) {
      problems.push_back(fmt::format("{} is there, config.json knows no such bias", name));
    } else {
      ignored.push_back(name);
    }
  }
  if (!problems.empty()) {
    const std::size_t num_more = problems.size() - std::min(problems.size(), kMaxShown);
    problems.resize(problems.size() - num_more);
    throw Error(
        Fault::kData,
        fmt::format("the checkpoint does not fit its config.json: {}{}", fmt::join(problems, "; "),
                    num_more > 0 ? fmt::format("; and {} more", num_more) : ""));
  }
  if (!ignored.empty()) {
    log::warn("{} tensors of the checkpoint are not used, the first is {}", ignored.size(),
              ignored.front());
  }
}

}  // namespace apo::model
