#include "causal_lm_ops.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "causal_lm_kernels.hpp"
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/silu.h>
#include <torch/csrc/autograd/custom_function.h>

namespace apo::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The hand-written kernels read plain float32 memory.
bool plain_float(const at::Tensor& x) { return x.is_cpu() && x.scalar_type() == at::kFloat; }

/// Rows that one thread should at least have, for rows of `columns` numbers.
std::int64_t grain(std::int64_t columns) { return std::max<std::int64_t>(1, 16384 / columns); }

at::Tensor take_rows(const at::Tensor& x, const at::Tensor& index) {
  if (!x.is_cpu()) {
    const at::Tensor rows = x.index_select(0, index.clamp_min(0));
    return rows.masked_fill(index.lt(0).unsqueeze(1), 0.0);
  }
  const at::Tensor source = x.contiguous();
  const std::int64_t num_rows = index.size(0);
  at::Tensor result = at::empty({num_rows, x.size(1)}, x.options());
  const auto row_bytes = static_cast<std::size_t>(x.size(1)) * x.element_size();
  const auto* from = static_cast<const std::byte*>(source.const_data_ptr());
  auto* to = static_cast<std::byte*>(result.mutable_data_ptr());
  const auto* rows = index.const_data_ptr<std::int64_t>();
  at::parallel_for(0, num_rows, grain(x.size(1)), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      std::byte* target = to + static_cast<std::size_t>(i) * row_bytes;
      if (rows[i] < 0) {
        std::memset(target, 0, row_bytes);
      } else {
        std::memcpy(target, from + static_cast<std::size_t>(rows[i]) * row_bytes, row_bytes);
      }
    }
  });
  return result;
}

struct GatherRows : torch::autograd::Function<GatherRows> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& index,
                            const at::Tensor& inverse) {
    context->save_for_backward({inverse});
    return take_rows(x, index);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    return {take_rows(gradients[0], saved[0]), at::Tensor(), at::Tensor()};
  }
};

at::Tensor swap_halves(const at::Tensor& x) {
  const std::int64_t half = x.size(-1) / 2;
  return at::cat({x.narrow(-1, half, half), x.narrow(-1, 0, half)}, -1);
}

at::Tensor rotate_composite(const at::Tensor& x, const at::Tensor& cosine,
                            const at::Tensor& signed_sine) {
  const auto type = x.scalar_type();
  return x * cosine.to(type).unsqueeze(1) + swap_halves(x) * signed_sine.to(type).unsqueeze(1);
}

/// y[i] = rotation of row index[i] of x [N * heads, hd]; -1 gives zeros.
at::Tensor rotate_gather_float(const at::Tensor& x, const at::Tensor& cosine,
                               const at::Tensor& signed_sine, const at::Tensor& index) {
  const at::Tensor source = x.contiguous();
  const std::int64_t heads = x.size(1);
  const std::int64_t hd = x.size(2);
  at::Tensor result = at::empty({index.size(0), hd}, x.options());
  const float* from = source.const_data_ptr<float>();
  const float* cos = cosine.const_data_ptr<float>();
  const float* sin = signed_sine.const_data_ptr<float>();
  const auto* rows = index.const_data_ptr<std::int64_t>();
  float* to = result.mutable_data_ptr<float>();
  at::parallel_for(0, index.size(0), grain(hd), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = rows[i];
      if (row < 0) {
        std::fill_n(to + i * hd, hd, 0.0F);
      } else {
        const std::int64_t token = row / heads;
        kernels::rotate_row(from + row * hd, cos + token * hd, sin + token * hd, to + i * hd, hd);
      }
    }
  });
  return result;
}

/// The transpose: the rotation by the opposite angle, gathered back to [N, heads, hd].
at::Tensor rotate_back_float(const at::Tensor& gradient, const at::Tensor& cosine,
                             const at::Tensor& signed_sine, const at::Tensor& inverse,
                             std::int64_t heads) {
  const at::Tensor source = gradient.contiguous();
  const std::int64_t hd = gradient.size(1);
  at::Tensor result = at::empty({inverse.size(0) / heads, heads, hd}, gradient.options());
  const float* from = source.const_data_ptr<float>();
  const float* cos = cosine.const_data_ptr<float>();
  const float* sin = signed_sine.const_data_ptr<float>();
  const auto* rows = inverse.const_data_ptr<std::int64_t>();
  float* to = result.mutable_data_ptr<float>();
  at::parallel_for(0, inverse.size(0), grain(hd), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t token = i / heads;
      kernels::rotate_row_back(from + rows[i] * hd, cos + token * hd, sin + token * hd, to + i * hd,
                               hd);
    }
  });
  return result;
}

struct RotateAndGather : torch::autograd::Function<RotateAndGather> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& cosine,
                            const at::Tensor& signed_sine, const at::Tensor& index,
                            const at::Tensor& inverse) {
    context->save_for_backward({cosine, signed_sine, inverse});
    context->saved_data["heads"] = x.size(1);
    return rotate_gather_float(x, cosine, signed_sine, index);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    return {rotate_back_float(gradients[0], saved[0], saved[1], saved[2],
                              context->saved_data["heads"].toInt()),
            at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

struct RmsNorm : torch::autograd::Function<RmsNorm> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            double eps) {
    const at::Tensor source = x.contiguous();
    const std::int64_t rows = x.size(0);
    const std::int64_t columns = x.size(1);
    at::Tensor result = at::empty({rows, columns}, x.options());
    at::Tensor inverse_rms = at::empty({rows}, x.options());
    const float* from = source.const_data_ptr<float>();
    const float* g = weight.const_data_ptr<float>();
    float* to = result.mutable_data_ptr<float>();
    float* inv = inverse_rms.mutable_data_ptr<float>();
    at::parallel_for(0, rows, grain(columns), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        inv[i] = kernels::rms_row(from + i * columns, g, static_cast<float>(eps), to + i * columns,
                                  columns);
      }
    });
    context->save_for_backward({source, weight, inverse_rms});
    return result;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor& x = saved[0];
    const at::Tensor& weight = saved[1];
    const at::Tensor& inverse_rms = saved[2];
    const at::Tensor gradient = gradients[0].contiguous();
    const std::int64_t columns = x.size(1);
    at::Tensor dx = at::empty(x.sizes(), x.options());
    const float* from = x.const_data_ptr<float>();
    const float* g = weight.const_data_ptr<float>();
    const float* inv = inverse_rms.const_data_ptr<float>();
    const float* dy = gradient.const_data_ptr<float>();
    float* to = dx.mutable_data_ptr<float>();
    at::parallel_for(0, x.size(0), grain(columns), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        kernels::rms_row_back(from + i * columns, g, inv[i], dy + i * columns, to + i * columns,
                              columns);
      }
    });
    at::Tensor dweight;
    if (weight.requires_grad()) {
      dweight = (gradient * x * inverse_rms.unsqueeze(1)).sum(0);
    }
    return {dx, dweight, at::Tensor()};
  }
};

struct GatedSilu : torch::autograd::Function<GatedSilu> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate,
                            const at::Tensor& up) {
    const at::Tensor a = gate.contiguous();
    const at::Tensor b = up.contiguous();
    const at::Tensor activated = at::silu(a);
    context->save_for_backward({a, b, activated});
    return activated * b;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor gradient = gradients[0].contiguous();
    at::Tensor d_gate = at::empty(gradient.sizes(), gradient.options());
    at::Tensor d_up = at::empty(gradient.sizes(), gradient.options());
    const float* a = saved[0].const_data_ptr<float>();
    const float* b = saved[1].const_data_ptr<float>();
    const float* s = saved[2].const_data_ptr<float>();
    const float* dy = gradient.const_data_ptr<float>();
    float* da = d_gate.mutable_data_ptr<float>();
    float* db = d_up.mutable_data_ptr<float>();
    at::parallel_for(0, gradient.numel(), 16384, [&](std::int64_t begin, std::int64_t end) {
      kernels::gated_silu_back(a + begin, b + begin, s + begin, dy + begin, da + begin, db + begin,
                               end - begin);
    });
    return {d_gate, d_up};
  }
};

struct TargetLogProbs : torch::autograd::Function<TargetLogProbs> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& hidden,
                            const at::Tensor& head, const at::Tensor& targets, bool keep_jacobian) {
    const std::int64_t rows = hidden.size(0);
    const std::int64_t vocabulary = head.size(0);
    const std::int64_t chunk = std::clamp<std::int64_t>((1 << 24) / vocabulary, 16, 256);
    at::Tensor result = at::empty({rows}, hidden.options().dtype(at::kFloat));
    at::Tensor jacobian;
    if (keep_jacobian) {
      jacobian = at::empty(hidden.sizes(), hidden.options());
    }
    for (std::int64_t begin = 0; begin < rows; begin += chunk) {
      const std::int64_t count = std::min(chunk, rows - begin);
      const at::Tensor part = hidden.narrow(0, begin, count);
      const at::Tensor target = targets.narrow(0, begin, count).unsqueeze(1);
      at::Tensor log_probs = part.mm(head.t()).to(at::kFloat).log_softmax(-1);
      result.narrow(0, begin, count).copy_(log_probs.gather(1, target).squeeze(1));
      if (keep_jacobian) {  // d log p[y] / d hidden = W[y] - sum_v p[v] W[v]
        at::Tensor coefficients = log_probs.exp_().neg_();
        coefficients.scatter_add_(1, target, at::ones({count, 1}, coefficients.options()));
        jacobian.narrow(0, begin, count).copy_(coefficients.to(head.scalar_type()).mm(head));
      }
    }
    if (keep_jacobian) {
      context->save_for_backward({jacobian});
    }
    return result;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const at::Tensor jacobian = context->get_saved_variables()[0];
    return {jacobian * gradients[0].unsqueeze(1).to(jacobian.scalar_type()), at::Tensor(),
            at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor gather_rows(const at::Tensor& x, const at::Tensor& index, const at::Tensor& inverse) {
  return GatherRows::apply(x, index, inverse);
}

at::Tensor rotate(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& signed_sine) {
  return rotate_composite(x, cosine, signed_sine);
}

at::Tensor rotate_and_gather(const at::Tensor& x, const at::Tensor& cosine,
                             const at::Tensor& signed_sine, const at::Tensor& index,
                             const at::Tensor& inverse) {
  if (plain_float(x)) {
    return RotateAndGather::apply(x, cosine, signed_sine, index, inverse);
  }
  const at::Tensor rotated = rotate_composite(x, cosine, signed_sine);
  return gather_rows(rotated.reshape({-1, x.size(2)}), index, inverse);
}

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  if (plain_float(x)) {
    return RmsNorm::apply(x, weight, eps);
  }
  const at::Tensor wide = x.to(at::kFloat);
  const at::Tensor scaled = wide * at::rsqrt(wide.square().mean(-1, true) + eps);
  return weight * scaled.to(x.scalar_type());
}

at::Tensor gated_silu(const at::Tensor& gate, const at::Tensor& up) {
  if (plain_float(gate)) {
    return GatedSilu::apply(gate, up);
  }
  return at::silu(gate) * up;
}

at::Tensor target_log_probs(const at::Tensor& hidden, const at::Tensor& head,
                            const at::Tensor& targets) {
  const bool recording = at::GradMode::is_enabled();
  if (recording && head.requires_grad()) {  // pretraining: the head learns too
    const at::Tensor log_probs = hidden.mm(head.t()).to(at::kFloat).log_softmax(-1);
    return log_probs.gather(1, targets.unsqueeze(1)).squeeze(1);
  }
  return TargetLogProbs::apply(hidden, head, targets, recording && hidden.requires_grad());
}

}  // namespace apo::model
