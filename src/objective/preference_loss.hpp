#pragma once

/// @file
/// Losses of one pair and their derivatives, in float64 (spec llm.md 6.4, algorithms.md 6). No
/// torch. Private to objective.

#include "apo/objective/options.hpp"

namespace apo::objective {

/// Summed log-probabilities of a pair's responses, nat, and their lengths in tokens.
struct PairLogProbs {
  double chosen = 0.0;    ///< policy
  double rejected = 0.0;  ///< policy; unused by sft
  double reference_chosen = 0.0;
  double reference_rejected = 0.0;
  double chosen_length = 1.0;
  double rejected_length = 1.0;
};

struct PairLoss {
  double loss = 0.0;        ///< nat (ipo: nat^2), with the NLL term
  double margin = 0.0;      ///< h; NaN with sft, which has no implicit reward
  double d_chosen = 0.0;    ///< derivative by the policy's log-probability of the chosen response
  double d_rejected = 0.0;  ///< likewise of the rejected one
};

enum class LossKind { kDpo, kIpo, kSft };

class PreferenceLoss {
 public:
  /// @throws Error(kConfig)    sft with an NLL weight: it is the NLL already
  /// @throws Error(kInternal)  an unknown options.loss
  explicit PreferenceLoss(const DpoOptions& options);

  [[nodiscard]] LossKind kind() const { return kind_; }
  [[nodiscard]] PairLoss operator()(const PairLogProbs& pair) const;

 private:
  LossKind kind_ = LossKind::kDpo;
  double beta_;
  bool average_;
  double nll_weight_;
};

}  // namespace apo::objective
