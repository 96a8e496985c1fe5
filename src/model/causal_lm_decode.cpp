#include <algorithm>
#include <cmath>
#include <limits>

#include "causal_lm_impl.hpp"
#include "causal_lm_ops.hpp"
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "apo/core/error.hpp"

namespace apo::model {
namespace {

/// Room for `total` positions in one layer's keys or values; the first `past` are kept.
void reserve(at::Tensor& cache, std::int64_t past, std::int64_t total,
             const std::vector<std::int64_t>& shape, const at::TensorOptions& options) {
  if (cache.defined() && cache.size(2) >= total) {
    return;
  }
  const std::int64_t capacity =
      cache.defined() ? std::max(total, 2 * cache.size(2)) : std::max(total, shape[2]);
  at::Tensor grown = at::empty({shape[0], shape[1], capacity, shape[3]}, options);
  if (past > 0) {
    grown.narrow(2, 0, past).copy_(cache.narrow(2, 0, past));
  }
  cache = grown;
}

/// [B * nkv, g * T, total]: 0 where a query may look, the type's lowest number elsewhere.
at::Tensor additive_mask(const at::Tensor& key_mask, std::int64_t width, std::int64_t num_kv_heads,
                         std::int64_t group, at::ScalarType type) {
  const std::int64_t batch_size = key_mask.size(0);
  const std::int64_t total = key_mask.size(1);
  const auto options = key_mask.options().dtype(at::kLong);
  const at::Tensor allowed = key_mask.unsqueeze(1) &  // [B, 1, total] & [1, T, total]
                             at::arange(total, options)
                                 .unsqueeze(0)
                                 .le(at::arange(total - width, total, options).unsqueeze(1))
                                 .unsqueeze(0);
  const double lowest =
      type == at::kFloat ? std::numeric_limits<float>::lowest() : -3.38e38;  // in bfloat16's range
  return at::zeros(allowed.sizes(), allowed.options().dtype(type))
      .masked_fill(allowed.logical_not(), lowest)
      .view({batch_size, 1, 1, width, total})
      .expand({batch_size, num_kv_heads, group, width, total})
      .reshape({batch_size * num_kv_heads, group * width, total});
}

}  // namespace

at::Tensor CausalLm::next_logits(const at::Tensor& ids, const at::Tensor& positions,
                                 const at::Tensor& key_mask, KvCache& cache,
                                 const at::Tensor& adapter, const AdapterLayout* layout) const {
  const at::NoGradGuard no_grad;
  const ModelConfig& config = impl_->config;
  const std::int64_t batch_size = ids.size(0);
  const std::int64_t width = ids.size(1);
  const std::int64_t total = key_mask.size(1);
  const std::int64_t past = total - width;
  const std::int64_t hd = config.head_dim;
  const std::int64_t num_kv_heads = config.num_kv_heads;
  const std::int64_t group = config.num_heads / num_kv_heads;
  const std::int64_t num_rows = batch_size * width;
  expects(past >= 0 && positions.sizes() == ids.sizes() && key_mask.size(0) == batch_size,
          "ids, positions and key_mask do not fit together");
  const auto num_layers = static_cast<std::size_t>(config.num_layers);
  cache.keys.resize(num_layers);
  cache.values.resize(num_layers);

  const AdapterViews views = impl_->views(adapter, layout, std::nullopt);
  const RowOrigin origin;  // only dropout asks
  const RopeTable::Angles angles = impl_->rope.at(positions.reshape({num_rows}), total);
  const at::Tensor mask =
      additive_mask(key_mask, width, num_kv_heads, group, impl_->embedding.scalar_type());
  const double scale = 1.0 / std::sqrt(static_cast<double>(hd));
  const std::vector<std::int64_t> cache_shape = {batch_size, num_kv_heads, cache.capacity, hd};

  at::Tensor x = at::embedding(impl_->embedding, ids.reshape({num_rows}));
  for (int i = 0; i < static_cast<int>(config.num_layers); ++i) {
    const auto at_layer = static_cast<std::size_t>(i);
    const at::Tensor normed =
        rms_norm(x, impl_->layers[at_layer].attention_norm, config.rms_norm_eps);
    const at::Tensor q = rotate(impl_->project(i, Projection::kQ, normed, views, origin, {})
                                    .view({num_rows, config.num_heads, hd}),
                                angles.cosine, angles.signed_sine);
    const at::Tensor k = rotate(impl_->project(i, Projection::kK, normed, views, origin, {})
                                    .view({num_rows, num_kv_heads, hd}),
                                angles.cosine, angles.signed_sine);
    const at::Tensor v = impl_->project(i, Projection::kV, normed, views, origin, {});
    at::Tensor& keys = cache.keys[at_layer];
    at::Tensor& values = cache.values[at_layer];
    reserve(keys, past, total, cache_shape, x.options());
    reserve(values, past, total, cache_shape, x.options());
    const std::vector<std::int64_t> new_shape = {batch_size, width, num_kv_heads, hd};
    keys.narrow(2, past, width).copy_(k.view(new_shape).transpose(1, 2));
    values.narrow(2, past, width).copy_(v.view(new_shape).transpose(1, 2));

    const at::Tensor queries = q.view({batch_size, width, num_kv_heads, group, hd})
                                   .permute({0, 2, 3, 1, 4})
                                   .reshape({batch_size * num_kv_heads, group * width, hd});
    const std::vector<std::int64_t> blocks = {batch_size * num_kv_heads, keys.size(2), hd};
    const at::Tensor all_keys = keys.view(blocks).narrow(1, 0, total);
    const at::Tensor all_values = values.view(blocks).narrow(1, 0, total);
    const at::Tensor scores = at::baddbmm(mask, queries, all_keys.transpose(1, 2), 1.0, scale);
    const at::Tensor weights_of_keys = at::softmax(scores, -1, at::kFloat).to(x.scalar_type());
    at::Tensor mixed = at::bmm(weights_of_keys, all_values)
                           .view({batch_size, num_kv_heads, group, width, hd})
                           .permute({0, 3, 1, 2, 4})
                           .reshape({num_rows, config.num_heads * hd});
    if (i + 1 == config.num_layers && width > 1) {  // only the last position is asked for
      const at::Tensor last = at::arange(width - 1, num_rows, width, ids.options());
      mixed = mixed.index_select(0, last);
      x = x.index_select(0, last);
    }
    x = x + impl_->project(i, Projection::kO, mixed, views, origin, {});
    x = impl_->feed_forward(i, x, views, origin, {});
  }
  x = rms_norm(x, impl_->final_norm, config.rms_norm_eps);
  return at::linear(x, impl_->head).to(at::kFloat);
}

CausalLm CausalLm::merged(const at::Tensor& adapter, const AdapterLayout& layout) const {
  const at::NoGradGuard no_grad;
  const AdapterViews views = impl_->views(adapter, &layout, std::nullopt);
  std::map<std::string, at::Tensor> weights = impl_->weights;
  for (const AdapterModule& module : layout.modules) {
    const std::string name = "model.layers." + std::to_string(module.layer) + "." +
                             projection_path(module.projection) + ".weight";
    at::Tensor& weight = weights.at(name);
    weight = (weight.to(at::kFloat) + views.delta(module.layer, module.projection))
                 .to(weight.scalar_type());
  }
  return {impl_->config, std::move(weights)};
}

CausalLm CausalLm::to(const std::string& device) const {
  std::map<std::string, at::Tensor> weights = impl_->weights;
  try {
    const at::Device target(device);
    for (auto& [name, weight] : weights) {
      weight = weight.to(target);
    }
  } catch (const c10::Error& error) {
    throw Error(Fault::kDevice,
                "cannot use device '" + device + "': " + error.what_without_backtrace());
  }
  return {impl_->config, std::move(weights)};
}

}  // namespace apo::model
