#include "apo/objective/preference_objectives.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "preference_loss.hpp"
#include "sequence_plan.hpp"
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/tensor.h>
#include <torch/csrc/autograd/autograd.h>

#include "apo/core/error.hpp"
#include "apo/model/causal_lm.hpp"

namespace apo::objective {
namespace {

/// Summed log-probabilities of a unit's two sequences.
struct LogProbs {
  double first = 0.0;
  double second = 0.0;
};

class PreferenceObjectives final : public ObjectiveSet {
 public:
  PreferenceObjectives(const model::LanguageModel& model, const data::TokenData& data,
                       int num_objectives, const DpoOptions& options, const PassLimits& limits,
                       std::span<const float> reference)
      : model_(model),
        pair_loss_(options),
        index_(data, pair_loss_.kind() == LossKind::kSft ? Responses::kChosen : Responses::kBoth),
        num_objectives_(num_objectives),
        limits_(limits) {
    expects(num_objectives > 0, "at least one objective is needed");
    expects(limits.max_sequences > 1, "a forward pass must hold both sequences of a pair");
    if (!reference.empty()) {
      reference_adapter_ = adapter_tensor(reference);
    }
  }

  [[nodiscard]] int num_objectives() const override { return num_objectives_; }
  [[nodiscard]] std::int64_t num_parameters() const override {
    return model_.layout().num_parameters;
  }
  [[nodiscard]] std::vector<float> initial_parameters(std::uint64_t seed) const override {
    return model::initial_adapter(model_.layout(), seed);
  }

  [[nodiscard]] Evaluation evaluate(std::span<const float> parameters,
                                    const Batch& batch) override {
    check(batch);
    std::map<Unit, LogProbs> policy;
    if (!parameters.empty()) {
      const at::NoGradGuard no_grad;
      const at::Tensor adapter = adapter_tensor(parameters);
      for (const MicroBatch& micro_batch : plan_micro_batches(index_, batch, limits_)) {
        const at::Tensor log_probs = forward(micro_batch, adapter, std::nullopt);
        collect(micro_batch, log_probs, policy);
      }
    }
    return measure(batch, parameters.empty() ? nullptr : &policy);
  }

  [[nodiscard]] Evaluation gradients(std::span<const float> parameters, const Batch& batch,
                                     const StepKey& key, std::span<float> gradients) override {
    const auto m = static_cast<std::size_t>(num_objectives_);
    expects(gradients.size() == m * static_cast<std::size_t>(num_parameters()),
            "gradients must hold [m, P] numbers");
    return backward(parameters, batch, key, gradients,
                    [](std::vector<Cotangent> per_objective) { return per_objective; });
  }

  [[nodiscard]] Evaluation weighted_gradient(std::span<const float> parameters, const Batch& batch,
                                             const StepKey& key, std::span<const double> weights,
                                             std::span<float> gradient) override {
    expects(weights.size() == static_cast<std::size_t>(num_objectives_),
            "one weight per objective is needed");
    expects(gradient.size() == static_cast<std::size_t>(num_parameters()),
            "gradient must hold [P] numbers");
    return backward(parameters, batch, key, gradient,
                    [&](const std::vector<Cotangent>& per_objective) {
                      return std::vector<Cotangent>{weighted_sum(per_objective, weights)};
                    });
  }

 private:
  /// dL / d(log-probability) for the sequences of one pass; empty: no pair in it.
  using Cotangent = std::vector<float>;

  [[nodiscard]] static Cotangent weighted_sum(const std::vector<Cotangent>& per_objective,
                                              std::span<const double> weights) {
    std::vector<double> sum;
    for (std::size_t j = 0; j < per_objective.size(); ++j) {
      sum.resize(std::max(sum.size(), per_objective[j].size()), 0.0);
      for (std::size_t i = 0; i < per_objective[j].size(); ++i) {
        sum[i] += weights[j] * static_cast<double>(per_objective[j][i]);
      }
    }
    return {sum.begin(), sum.end()};
  }

  /// One forward pass per micro-batch, and one backward pass per row that `rows_of` makes of the
  /// objectives' cotangents; row r adds to gradients[r * P ...].
  template <class RowsOf>
  Evaluation backward(std::span<const float> parameters, const Batch& batch, const StepKey& key,
                      std::span<float> gradients, const RowsOf& rows_of) {
    check(batch);
    const auto p = static_cast<std::size_t>(num_parameters());
    std::fill(gradients.begin(), gradients.end(), 0.0F);
    const at::Tensor adapter = adapter_tensor(parameters).set_requires_grad(true);
    std::optional<model::DropoutKey> dropout;
    if (key.dropout) {
      dropout = {key.seed, key.client, key.step};
    }
    std::map<Unit, LogProbs> policy;
    for (const MicroBatch& micro_batch : plan_micro_batches(index_, batch, limits_)) {
      const at::Tensor log_probs = forward(micro_batch, adapter, dropout);
      collect(micro_batch, log_probs, policy);
      const std::vector<Cotangent> rows = rows_of(loss_derivatives(micro_batch, batch, policy));
      const auto num_used =
          std::ranges::count_if(rows, [](const Cotangent& c) { return !c.empty(); });
      std::ptrdiff_t num_done = 0;
      for (std::size_t r = 0; r < rows.size(); ++r) {
        if (rows[r].empty()) {
          continue;
        }
        const bool keep_graph = ++num_done < num_used;
        const at::Tensor cotangent = at::tensor(rows[r], log_probs.options());
        const at::Tensor gradient =
            torch::autograd::grad({log_probs}, {adapter}, {cotangent}, keep_graph)[0]
                .cpu()
                .contiguous();
        const float* values = gradient.const_data_ptr<float>();
        float* row = gradients.data() + r * p;
        for (std::size_t i = 0; i < p; ++i) {
          row[i] += values[i];
        }
      }
    }
    return measure(batch, &policy);
  }

  void check(const Batch& batch) {
    expects(static_cast<int>(batch.pairs.size()) == num_objectives_,
            "a batch needs one list of pairs per objective");
    index_.extend();
  }

  /// [P] on the model's device.
  [[nodiscard]] at::Tensor adapter_tensor(std::span<const float> parameters) const {
    expects(static_cast<std::int64_t>(parameters.size()) == num_parameters(),
            "the adapter has another length than its layout");
    return at::from_blob(const_cast<float*>(parameters.data()), {num_parameters()}, at::kFloat)
        .clone()
        .to(model_.lm().weights().begin()->second.device());
  }

  /// [S] log-probabilities in the order of micro_batch.sequences; undefined adapter: the base.
  [[nodiscard]] at::Tensor forward(const MicroBatch& micro_batch, const at::Tensor& adapter,
                                   const std::optional<model::DropoutKey>& dropout) const {
    std::vector<model::Sequence> sequences;
    for (const int s : micro_batch.sequences) {
      sequences.push_back(index_.sequence(s));
    }
    return model_.lm().response_log_probs(sequences, adapter, &model_.layout(), dropout);
  }

  static void collect(const MicroBatch& micro_batch, const at::Tensor& log_probs,
                      std::map<Unit, LogProbs>& into) {
    const at::Tensor host = log_probs.detach().cpu().contiguous();
    std::map<int, double> values;
    for (std::size_t i = 0; i < micro_batch.sequences.size(); ++i) {
      values[micro_batch.sequences[i]] = static_cast<double>(host.const_data_ptr<float>()[i]);
    }
    for (const Unit& unit : micro_batch.units) {
      into[unit] = {values.at(unit.first), values.at(unit.second)};
    }
  }

  /// Each unit is computed in a pass of its own: the numbers then do not depend on which batch
  /// asked for them first.
  const LogProbs& reference(const Unit& unit) {
    const auto known = reference_.find(unit);
    if (known != reference_.end()) {
      return known->second;
    }
    const at::NoGradGuard no_grad;
    MicroBatch micro_batch{{unit.first}, {unit}, {}};
    if (unit.second != unit.first) {
      micro_batch.sequences.push_back(unit.second);
    }
    collect(micro_batch, forward(micro_batch, reference_adapter_, std::nullopt), reference_);
    return reference_.at(unit);
  }

  /// @param policy  null: the reference policy
  PairLoss loss_of(int pair, const std::map<Unit, LogProbs>* policy) {
    const Unit unit = index_.unit(pair);
    const bool needs_reference = policy == nullptr || pair_loss_.kind() != LossKind::kSft;
    const LogProbs ref = needs_reference ? reference(unit) : LogProbs{};
    const LogProbs now = policy != nullptr ? policy->at(unit) : ref;
    const bool chosen_first = index_.chosen(pair) == unit.first;
    const auto length = [this](int sequence) {
      return static_cast<double>(index_.sequence(sequence).response.size());
    };
    return pair_loss_({chosen_first ? now.first : now.second, chosen_first ? now.second : now.first,
                       chosen_first ? ref.first : ref.second, chosen_first ? ref.second : ref.first,
                       length(index_.chosen(pair)), length(index_.rejected(pair))});
  }

  /// dL_j / d(log-probability) for the sequences of one pass; an empty row where objective j has
  /// no pair in it (llm.md, section 9.3).
  std::vector<Cotangent> loss_derivatives(const MicroBatch& micro_batch, const Batch& batch,
                                          const std::map<Unit, LogProbs>& policy) {
    const std::set<Unit> units(micro_batch.units.begin(), micro_batch.units.end());
    std::map<int, std::size_t> place;
    for (std::size_t i = 0; i < micro_batch.sequences.size(); ++i) {
      place[micro_batch.sequences[i]] = i;
    }
    std::vector<std::vector<float>> result(batch.pairs.size());
    for (const int objective : micro_batch.objectives) {
      const auto j = static_cast<std::size_t>(objective);
      const auto num_pairs = static_cast<double>(batch.pairs[j].size());
      std::vector<double> row(micro_batch.sequences.size(), 0.0);
      for (const int pair : batch.pairs[j]) {
        if (!units.contains(index_.unit(pair))) {
          continue;
        }
        const PairLoss pair_loss = loss_of(pair, &policy);
        row[place.at(index_.chosen(pair))] += pair_loss.d_chosen / num_pairs;
        row[place.at(index_.rejected(pair))] += pair_loss.d_rejected / num_pairs;
      }
      for (const double c : row) {
        result[j].push_back(static_cast<float>(c));
      }
    }
    return result;
  }

  [[nodiscard]] Evaluation measure(const Batch& batch, const std::map<Unit, LogProbs>* policy) {
    const double absent = std::numeric_limits<double>::quiet_NaN();
    const bool has_margin = pair_loss_.kind() != LossKind::kSft;
    Evaluation result;
    for (const std::vector<int>& pairs : batch.pairs) {
      const auto count = static_cast<double>(pairs.size());
      std::vector<double> losses;
      double sum = 0.0;
      double num_right = 0.0;
      for (const int pair : pairs) {
        const PairLoss pair_loss = loss_of(pair, policy);
        losses.push_back(pair_loss.loss);
        sum += pair_loss.loss;
        num_right += pair_loss.margin > 0.0 ? 1.0 : 0.0;
      }
      double squares = 0.0;
      for (const double loss : losses) {
        squares += (loss - sum / count) * (loss - sum / count);
      }
      result.loss.push_back(pairs.empty() ? absent : sum / count);
      result.accuracy.push_back(pairs.empty() || !has_margin ? absent : num_right / count);
      result.num_pairs.push_back(static_cast<int>(pairs.size()));
      result.loss_variance.push_back(pairs.size() < 2 ? absent : squares / (count - 1.0));
    }
    return result;
  }

  const model::LanguageModel& model_;
  PreferenceLoss pair_loss_;
  SequenceIndex index_;
  int num_objectives_;
  PassLimits limits_;
  at::Tensor reference_adapter_;  ///< [P]; undefined: the base model
  std::map<Unit, LogProbs> reference_;
};

}  // namespace

std::unique_ptr<ObjectiveSet> make_preference_objectives(const model::LanguageModel& model,
                                                         const data::TokenData& data,
                                                         int num_objectives,
                                                         const DpoOptions& options,
                                                         int max_sequences, int max_tokens,
                                                         std::span<const float> reference) {
  return std::make_unique<PreferenceObjectives>(model, data, num_objectives, options,
                                                PassLimits{max_sequences, max_tokens}, reference);
}

}  // namespace apo::objective
