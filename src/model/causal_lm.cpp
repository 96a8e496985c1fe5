#include "apo/model/causal_lm.hpp"

#include <cmath>
#include <utility>

#include "causal_lm_impl.hpp"
#include "causal_lm_ops.hpp"
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apo/core/error.hpp"

namespace apo::model {
namespace {

/// The tensor `name`, checked against the shape the configuration asks for.
const at::Tensor& checked(const std::map<std::string, at::Tensor>& weights, const std::string& name,
                          const std::vector<std::int64_t>& shape) {
  const auto found = weights.find(name);
  expects(found != weights.end(), fmt::format("the model has no tensor {}", name));
  expects(found->second.sizes().vec() == shape,
          fmt::format("tensor {} has shape [{}], expected [{}]", name,
                      fmt::join(found->second.sizes().vec(), ", "), fmt::join(shape, ", ")));
  return found->second;
}

at::Tensor find(const std::map<std::string, at::Tensor>& weights, const std::string& name) {
  const auto found = weights.find(name);
  return found == weights.end() ? at::Tensor() : found->second;
}

}  // namespace

CausalLm::Impl::Impl(ModelConfig model_config, std::map<std::string, at::Tensor> model_weights)
    : config(std::move(model_config)), weights(std::move(model_weights)) {
  for (const ModelConfig::Expected& expected : config.expected_tensors()) {
    (void)checked(weights, expected.name, expected.shape);
  }
  embedding = weights.at("model.embed_tokens.weight");
  final_norm = weights.at("model.norm.weight");
  head = config.tied_embeddings ? embedding : weights.at("lm_head.weight");
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    const std::string prefix = fmt::format("model.layers.{}.", i);
    Layer& layer = layers.emplace_back();
    layer.attention_norm = weights.at(prefix + "input_layernorm.weight");
    layer.mlp_norm = weights.at(prefix + "post_attention_layernorm.weight");
    for (int p = 0; p < kNumProjections; ++p) {
      const std::string path = prefix + projection_path(static_cast<Projection>(p));
      layer.weights.at(static_cast<std::size_t>(p)) = weights.at(path + ".weight");
      layer.biases.at(static_cast<std::size_t>(p)) = find(weights, path + ".bias");
    }
  }
  rope = RopeTable(config, embedding.device());
}

AdapterViews CausalLm::Impl::views(const at::Tensor& adapter, const AdapterLayout* layout,
                                   const std::optional<DropoutKey>& dropout) const {
  if (!adapter.defined()) {
    return {};
  }
  expects(layout != nullptr, "an adapter needs its layout");
  return {adapter, *layout, static_cast<int>(config.num_layers), dropout};
}

at::Tensor CausalLm::Impl::project(int layer, Projection projection, const at::Tensor& x,
                                   const AdapterViews& adapter, const RowOrigin& origin,
                                   const at::Tensor& kept) const {
  const Layer& weight = layers[static_cast<std::size_t>(layer)];
  const auto p = static_cast<std::size_t>(projection);
  const at::Tensor& bias = weight.biases[p];
  const at::Tensor base =
      bias.defined() ? at::linear(x, weight.weights[p], bias) : at::linear(x, weight.weights[p]);
  return adapter.apply(layer, projection, x, base, origin, kept);
}

at::Tensor CausalLm::Impl::feed_forward(int layer, const at::Tensor& x, const AdapterViews& adapter,
                                        const RowOrigin& origin, const at::Tensor& kept) const {
  const at::Tensor normed =
      rms_norm(x, layers[static_cast<std::size_t>(layer)].mlp_norm, config.rms_norm_eps);
  const at::Tensor gate = project(layer, Projection::kGate, normed, adapter, origin, kept);
  const at::Tensor up = project(layer, Projection::kUp, normed, adapter, origin, kept);
  return x + project(layer, Projection::kDown, gated_silu(gate, up), adapter, origin, kept);
}

at::Tensor CausalLm::Impl::attention(int layer, const at::Tensor& normed, const PackedBatch& batch,
                                     const RopeTable::Angles& angles, const AdapterViews& adapter,
                                     const RowOrigin& origin) const {
  const std::int64_t hd = config.head_dim;
  const std::int64_t group = config.num_heads / config.num_kv_heads;
  const std::int64_t n = batch.num_tokens;
  const auto num_blocks = static_cast<std::int64_t>(batch.lengths.size()) * config.num_kv_heads;
  const at::Tensor q = project(layer, Projection::kQ, normed, adapter, origin, {});
  const at::Tensor k = project(layer, Projection::kK, normed, adapter, origin, {});
  const at::Tensor v = project(layer, Projection::kV, normed, adapter, origin, {});
  const at::Tensor queries =
      rotate_and_gather(q.view({n, config.num_heads, hd}), angles.cosine, angles.signed_sine,
                        batch.query_slots, batch.query_rows)
          .view({num_blocks, group * batch.max_length, hd});
  const at::Tensor keys = rotate_and_gather(k.view({n, config.num_kv_heads, hd}), angles.cosine,
                                            angles.signed_sine, batch.key_slots, batch.key_rows)
                              .view({num_blocks, batch.max_length, hd});
  const at::Tensor values =
      gather_rows(v.view({n * config.num_kv_heads, hd}), batch.key_slots, batch.key_rows)
          .view({num_blocks, batch.max_length, hd});
  const double scale = 1.0 / std::sqrt(static_cast<double>(hd));
  const at::Tensor scores = at::baddbmm(batch.mask, queries, keys.transpose(1, 2), 1.0, scale);
  const at::Tensor weights_of_keys = at::softmax(scores, -1, at::kFloat).to(scores.scalar_type());
  const at::Tensor mixed = at::bmm(weights_of_keys, values);  // [S * nkv, g * T, hd]
  return gather_rows(mixed.view({num_blocks * group * batch.max_length, hd}), batch.query_rows,
                     batch.query_slots)
      .view({n, config.num_heads * hd});
}

at::Tensor CausalLm::Impl::hidden(const PackedBatch& batch, const AdapterViews& adapter) const {
  const RowOrigin origin{batch.lengths, batch.content_keys};
  const RopeTable::Angles angles = rope.at(batch.positions, batch.max_length);
  at::Tensor x = at::embedding(embedding, batch.ids);
  at::Tensor kept;
  for (int i = 0; i < static_cast<int>(config.num_layers); ++i) {
    const at::Tensor normed =
        rms_norm(x, layers[static_cast<std::size_t>(i)].attention_norm, config.rms_norm_eps);
    at::Tensor mixed = attention(i, normed, batch, angles, adapter, origin);
    if (i + 1 == config.num_layers && batch.kept.defined()) {  // nobody reads the other rows
      kept = batch.kept;
      mixed = gather_rows(mixed, batch.kept, batch.kept_inverse);
      x = gather_rows(x, batch.kept, batch.kept_inverse);
    }
    x = x + project(i, Projection::kO, mixed, adapter, origin, kept);
    x = feed_forward(i, x, adapter, origin, kept);
  }
  return rms_norm(x, final_norm, config.rms_norm_eps);
}

CausalLm::CausalLm(ModelConfig config, std::map<std::string, at::Tensor> weights)
    : impl_(std::make_unique<Impl>(std::move(config), std::move(weights))) {}
CausalLm::~CausalLm() = default;
CausalLm::CausalLm(CausalLm&&) noexcept = default;
CausalLm& CausalLm::operator=(CausalLm&&) noexcept = default;

const ModelConfig& CausalLm::config() const { return impl_->config; }
const std::map<std::string, at::Tensor>& CausalLm::weights() const { return impl_->weights; }

at::Tensor CausalLm::logits(const at::Tensor& ids, std::span<const std::int64_t> lengths,
                            const at::Tensor& adapter, const AdapterLayout* layout,
                            const std::optional<DropoutKey>& dropout) const {
  expects(ids.dim() == 2 && ids.scalar_type() == at::kLong, "ids must be [B, T] int64");
  const std::int64_t batch_size = ids.size(0);
  const std::int64_t width = ids.size(1);
  expects(lengths.empty() || static_cast<std::int64_t>(lengths.size()) == batch_size,
          "one length per row of ids");
  const at::Tensor host_ids = ids.cpu().contiguous();
  const auto* values = host_ids.const_data_ptr<std::int64_t>();
  std::vector<std::int64_t> packed_ids;
  std::vector<std::int64_t> packed_lengths;
  std::vector<std::int64_t> places;  // of every packed row in [B * T]
  std::vector<std::int64_t> inverse(static_cast<std::size_t>(batch_size * width), -1);
  for (std::int64_t b = 0; b < batch_size; ++b) {
    const std::int64_t length = lengths.empty() ? width : lengths[static_cast<std::size_t>(b)];
    expects(length > 0 && length <= width, "a length is outside [1, T]");
    packed_lengths.push_back(length);
    for (std::int64_t t = 0; t < length; ++t) {
      const std::int64_t place = b * width + t;
      packed_ids.push_back(values[place]);
      inverse[static_cast<std::size_t>(place)] = static_cast<std::int64_t>(places.size());
      places.push_back(place);
    }
  }
  const PackedBatch batch =
      make_packed_batch(impl_->config, std::move(packed_ids), std::move(packed_lengths), {},
                        impl_->embedding.options());
  const at::Tensor rows = impl_->hidden(batch, impl_->views(adapter, layout, dropout));
  at::Tensor result = at::linear(rows, impl_->head).to(at::kFloat);
  if (batch.num_tokens != batch_size * width) {
    const auto device = result.device();
    result = gather_rows(result, at::tensor(inverse, at::kLong).to(device),
                         at::tensor(places, at::kLong).to(device));
  }
  return result.view({batch_size, width, impl_->config.vocab_size});
}

at::Tensor CausalLm::response_log_probs(std::span<const Sequence> sequences,
                                        const at::Tensor& adapter, const AdapterLayout* layout,
                                        const std::optional<DropoutKey>& dropout) const {
  std::vector<std::int64_t> ids;
  std::vector<std::int64_t> lengths;
  std::vector<std::int64_t> kept;
  std::vector<std::int64_t> targets;
  std::vector<std::int64_t> owners;
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    const Sequence& sequence = sequences[s];
    expects(!sequence.prompt.empty() && !sequence.response.empty(),
            "a sequence needs a prompt and a response");
    const auto begin = static_cast<std::int64_t>(ids.size());
    ids.insert(ids.end(), sequence.prompt.begin(), sequence.prompt.end());
    // the last token predicts nothing that is asked for
    ids.insert(ids.end(), sequence.response.begin(), sequence.response.end() - 1);
    const auto end = static_cast<std::int64_t>(ids.size());
    lengths.push_back(end - begin);
    for (std::size_t t = 0; t < sequence.response.size(); ++t) {
      kept.push_back(begin + static_cast<std::int64_t>(sequence.prompt.size() + t) - 1);
      targets.push_back(sequence.response[t]);
      owners.push_back(static_cast<std::int64_t>(s));
      expects(sequence.response[t] >= 0 && sequence.response[t] < impl_->config.vocab_size,
              "a token id is outside the vocabulary");
    }
  }
  const PackedBatch batch = make_packed_batch(impl_->config, std::move(ids), std::move(lengths),
                                              kept, impl_->embedding.options());
  const at::Tensor rows = impl_->hidden(batch, impl_->views(adapter, layout, dropout));
  const auto device = rows.device();
  const at::Tensor log_probs =
      target_log_probs(rows, impl_->head, at::tensor(targets, at::kLong).to(device));
  return at::zeros({static_cast<std::int64_t>(sequences.size())}, log_probs.options())
      .index_add(0, at::tensor(owners, at::kLong).to(device), log_probs);
}

}  // namespace apo::model
