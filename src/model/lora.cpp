#include "lora.hpp"

#include <cmath>

#include "causal_lm_kernels.hpp"
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/split_with_sizes.h>

#include "apo/core/error.hpp"

namespace apo::model {
namespace {

/// One round of splitmix64: every bit of the result depends on every bit of `h` and `value`.
std::uint64_t mix(std::uint64_t h, std::uint64_t value) {
  std::uint64_t z = h ^ (value + 0x9E3779B97F4A7C15ULL + (h << 6) + (h >> 2));
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

}  // namespace

std::uint64_t content_key(std::span<const std::int64_t> ids) {
  std::uint64_t h = ids.size();
  for (const std::int64_t id : ids) {
    h = mix(h, static_cast<std::uint64_t>(id));
  }
  return h;
}

AdapterViews::AdapterViews(const at::Tensor& flat, const AdapterLayout& layout, int num_layers,
                           const std::optional<DropoutKey>& dropout)
    : modules_(static_cast<std::size_t>(num_layers)),
      scale_(layout.scale()),
      probability_(dropout ? layout.dropout : 0.0),
      dropout_(dropout) {
  expects(flat.dim() == 1 && flat.size(0) == layout.num_parameters,
          "the adapter has another length than its layout");
  expects(flat.scalar_type() == at::kFloat, "the adapter must be float32");
  std::vector<std::int64_t> sizes;
  sizes.reserve(2 * layout.modules.size());
  std::int64_t end = 0;
  for (const AdapterModule& module : layout.modules) {
    expects(module.a_begin == end && module.b_begin == end + layout.rank * module.in,
            "the layout's modules are not contiguous, A before B");
    sizes.push_back(layout.rank * module.in);
    sizes.push_back(layout.rank * module.out);
    end = module.b_begin + layout.rank * module.out;
  }
  const std::vector<at::Tensor> parts = at::split_with_sizes(flat, sizes);
  for (std::size_t i = 0; i < layout.modules.size(); ++i) {
    const AdapterModule& module = layout.modules[i];
    modules_.at(static_cast<std::size_t>(module.layer))
        .at(static_cast<std::size_t>(module.projection)) = {
        parts[2 * i].view({layout.rank, module.in}),
        parts[2 * i + 1].view({module.out, layout.rank})};
  }
}

at::Tensor AdapterViews::dropout_mask(int layer, Projection projection, std::int64_t columns,
                                      const RowOrigin& origin) const {
  // 16-bit thresholds: the probability is rounded to 1 / 65536, and `keep` follows the rounding
  const auto threshold = static_cast<std::uint32_t>(std::lround(probability_ * 65536.0));
  const auto keep = static_cast<float>(65536.0 / (65536.0 - threshold));
  std::uint64_t key = mix(dropout_->seed, dropout_->client);
  key = mix(mix(mix(key, dropout_->step), static_cast<std::uint64_t>(layer)),
            static_cast<std::uint64_t>(projection));
  std::vector<std::int64_t> begins;
  std::int64_t rows = 0;
  for (const std::int64_t length : origin.lengths) {
    begins.push_back(rows);
    rows += length;
  }
  at::Tensor mask = at::empty({rows, columns}, at::kFloat);
  float* values = mask.mutable_data_ptr<float>();
  const auto num_sequences = static_cast<std::int64_t>(origin.lengths.size());
  at::parallel_for(0, num_sequences, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t s = first; s < last; ++s) {
      const auto at = static_cast<std::size_t>(s);
      kernels::dropout_mask(mix(key, origin.content_keys[at]), threshold, keep,
                            values + begins[at] * columns, origin.lengths[at] * columns);
    }
  });
  return mask;
}

at::Tensor AdapterViews::apply(int layer, Projection projection, const at::Tensor& x,
                               const at::Tensor& base, const RowOrigin& origin,
                               const at::Tensor& kept) const {
  if (modules_.empty()) {
    return base;
  }
  const Module& module =
      modules_[static_cast<std::size_t>(layer)][static_cast<std::size_t>(projection)];
  if (!module.a.defined()) {
    return base;
  }
  at::Tensor input = x.to(at::kFloat);
  if (probability_ > 0.0) {
    at::Tensor mask = dropout_mask(layer, projection, x.size(1), origin);
    if (kept.defined()) {
      mask = mask.index_select(0, kept.to(mask.device()));
    }
    input = input * mask.to(x.device());
  }
  const at::Tensor low = input.mm(module.a.t());
  if (base.scalar_type() == at::kFloat) {
    return at::addmm(base, low, module.b.t(), 1.0, scale_);
  }
  return at::addmm(base.to(at::kFloat), low, module.b.t(), 1.0, scale_).to(base.scalar_type());
}

at::Tensor AdapterViews::delta(int layer, Projection projection) const {
  if (modules_.empty()) {
    return {};
  }
  const Module& module =
      modules_[static_cast<std::size_t>(layer)][static_cast<std::size_t>(projection)];
  return module.a.defined() ? module.b.mm(module.a).mul(scale_) : at::Tensor();
}

}  // namespace apo::model
