#include "apo/model/adapter.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "apo/core/error.hpp"
#include "apo/core/rng.hpp"

namespace apo::model {

namespace {

struct Names {
  const char* name;
  const char* path;
};
constexpr std::array<Names, kNumProjections> kNames = {{
    {"q_proj", "self_attn.q_proj"},
    {"k_proj", "self_attn.k_proj"},
    {"v_proj", "self_attn.v_proj"},
    {"o_proj", "self_attn.o_proj"},
    {"gate_proj", "mlp.gate_proj"},
    {"up_proj", "mlp.up_proj"},
    {"down_proj", "mlp.down_proj"},
}};

struct Widths {
  std::int64_t in;
  std::int64_t out;
};

Widths widths(const ModelConfig& c, Projection p) {
  const std::int64_t query = c.num_heads * c.head_dim;
  const std::int64_t key_value = c.num_kv_heads * c.head_dim;
  switch (p) {
    case Projection::kQ:
      return {c.hidden_size, query};
    case Projection::kK:
    case Projection::kV:
      return {c.hidden_size, key_value};
    case Projection::kO:
      return {query, c.hidden_size};
    case Projection::kGate:
    case Projection::kUp:
      return {c.hidden_size, c.intermediate_size};
    case Projection::kDown:
      break;
  }
  return {c.intermediate_size, c.hidden_size};
}

}  // namespace

std::string projection_name(Projection p) { return kNames.at(static_cast<std::size_t>(p)).name; }
std::string projection_path(Projection p) { return kNames.at(static_cast<std::size_t>(p)).path; }

AdapterLayout make_layout(const ModelConfig& config, const LoraOptions& options) {
  std::array<bool, kNumProjections> wanted{};
  for (const std::string& target : options.targets) {
    const auto found = std::find_if(kNames.begin(), kNames.end(),
                                    [&](const Names& n) { return n.name == target; });
    if (found == kNames.end()) {
      throw Error(Fault::kConfig, fmt::format("lora.targets: '{}' is not a projection", target));
    }
    bool& flag = wanted.at(static_cast<std::size_t>(found - kNames.begin()));
    if (flag) {
      throw Error(Fault::kConfig, fmt::format("lora.targets: '{}' is given twice", target));
    }
    flag = true;
  }
  if (options.targets.empty() || options.rank < 1) {
    throw Error(Fault::kConfig,
                "lora.targets and lora.rank: expected at least one target and a "
                "rank of at least 1");
  }
  AdapterLayout layout;
  layout.rank = options.rank;
  layout.alpha = options.alpha;
  layout.dropout = options.dropout;
  std::int64_t begin = 0;
  for (int layer = 0; layer < config.num_layers; ++layer) {
    for (std::size_t p = 0; p < wanted.size(); ++p) {
      if (!wanted[p]) {
        continue;
      }
      const auto projection = static_cast<Projection>(p);
      const auto [in, out] = widths(config, projection);
      const std::int64_t b_begin = begin + in * layout.rank;
      layout.modules.push_back({layer, projection, in, out, begin, b_begin});
      begin = b_begin + out * layout.rank;
    }
  }
  layout.num_parameters = begin;
  return layout;
}

std::vector<float> initial_adapter(const AdapterLayout& layout, std::uint64_t seed) {
  std::vector<float> parameters(static_cast<std::size_t>(layout.num_parameters), 0.0F);
  for (std::size_t i = 0; i < layout.modules.size(); ++i) {
    const AdapterModule& m = layout.modules[i];
    CounterRng rng({seed, Purpose::kAdapterInit, i, 0, 0});
    // kaiming_uniform with a = sqrt(5): the bound is 1/sqrt(fan_in) (spec llm.md, section 3.1)
    const double bound = 1.0 / std::sqrt(static_cast<double>(m.in));
    for (std::int64_t k = m.a_begin; k < m.b_begin; ++k) {
      parameters[static_cast<std::size_t>(k)] =
          static_cast<float>((2.0 * rng.uniform() - 1.0) * bound);
    }
  }
  return parameters;
}

}  // namespace apo::model
