#pragma once

/// @file
/// The adapter term of one forward pass: views into the flat vector, and dropout masks.
/// Private to model.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "apo/model/adapter.hpp"
#include "apo/model/causal_lm.hpp"

namespace apo::model {

/// Where the rows of the packed batch come from; all that a dropout mask may depend on.
struct RowOrigin {
  std::span<const std::int64_t> lengths;        ///< [S] rows of every sequence
  std::span<const std::uint64_t> content_keys;  ///< [S] hash of every sequence's ids
};

/// A and B of every module as views of the flat tensor. Its backward pass is one concatenation.
class AdapterViews {
 public:
  /// The reference policy: apply() returns what it is given.
  AdapterViews() = default;
  /// @param flat  [P] float32
  AdapterViews(const at::Tensor& flat, const AdapterLayout& layout, int num_layers,
               const std::optional<DropoutKey>& dropout);

  /// base + s * (dropout(x) A^T) B^T, in float32, cast back to the type of `base`.
  /// @param x     [N, in]; @param base  [N, out]
  /// @param kept  rows of the packed batch that x holds; undefined: all of them
  [[nodiscard]] at::Tensor apply(int layer, Projection projection, const at::Tensor& x,
                                 const at::Tensor& base, const RowOrigin& origin,
                                 const at::Tensor& kept) const;

  /// s * B A of one module, [out, in]; undefined when the module has no adapter.
  [[nodiscard]] at::Tensor delta(int layer, Projection projection) const;

 private:
  struct Module {
    at::Tensor a;  ///< [r, in]
    at::Tensor b;  ///< [out, r]
  };
  [[nodiscard]] at::Tensor dropout_mask(int layer, Projection projection, std::int64_t columns,
                                        const RowOrigin& origin) const;

  std::vector<std::array<Module, kNumProjections>> modules_;
  double scale_ = 0.0;
  double probability_ = 0.0;
  std::optional<DropoutKey> dropout_;
};

/// Hash of a list of ids, for RowOrigin::content_keys.
[[nodiscard]] std::uint64_t content_key(std::span<const std::int64_t> ids);

}  // namespace apo::model
