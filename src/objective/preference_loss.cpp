#include "preference_loss.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "apo/core/error.hpp"

namespace apo::objective {
namespace {

double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }
double logistic(double x) { return 1.0 / (1.0 + std::exp(-x)); }

}  // namespace

PreferenceLoss::PreferenceLoss(const DpoOptions& options)
    : beta_(options.beta), average_(options.average_log_probs), nll_weight_(options.nll_weight) {
  if (options.loss == "ipo") {
    kind_ = LossKind::kIpo;
  } else if (options.loss == "sft") {
    kind_ = LossKind::kSft;
    if (nll_weight_ != 0.0) {
      throw Error(Fault::kConfig,
                  fmt::format("dpo.nll_weight is {}, expected 0 with dpo.loss = sft: that loss is "
                              "the negative log-likelihood itself",
                              nll_weight_));
    }
  } else {
    expects(options.loss == "dpo", "dpo.loss: expected dpo, ipo or sft, found " + options.loss);
  }
}

PairLoss PreferenceLoss::operator()(const PairLogProbs& pair) const {
  PairLoss result;
  if (kind_ == LossKind::kSft) {
    result.loss = -pair.chosen / pair.chosen_length;
    result.margin = std::numeric_limits<double>::quiet_NaN();
    result.d_chosen = -1.0 / pair.chosen_length;
    return result;
  }
  const double chosen_scale = average_ ? 1.0 / pair.chosen_length : 1.0;
  const double rejected_scale = average_ ? 1.0 / pair.rejected_length : 1.0;
  const double h = (pair.chosen - pair.reference_chosen) * chosen_scale -
                   (pair.rejected - pair.reference_rejected) * rejected_scale;
  double slope = 0.0;  // dL/dh
  if (kind_ == LossKind::kIpo) {
    const double distance = h - 1.0 / (2.0 * beta_);
    result.loss = distance * distance;
    slope = 2.0 * distance;
  } else {
    result.loss = softplus(-beta_ * h);
    slope = -beta_ * logistic(-beta_ * h);
  }
  result.margin = h;
  result.loss -= nll_weight_ * pair.chosen / pair.chosen_length;
  result.d_chosen = slope * chosen_scale - nll_weight_ / pair.chosen_length;
  result.d_rejected = -slope * rejected_scale;
  return result;
}

}  // namespace apo::objective
