#pragma once

/// @file
/// Which sequences a batch of pairs needs, and in which forward passes they are computed.
/// Private to objective.

#include <cstdint>
#include <span>
#include <vector>

#include "apo/data/token_pairs.hpp"
#include "apo/model/causal_lm.hpp"
#include "apo/objective/objective_set.hpp"

namespace apo::objective {

/// Two sequences whose log-probabilities are wanted together; first <= second, so that a pair and
/// the same pair with the labels exchanged are one unit.
struct Unit {
  int first = 0;
  int second = 0;
  friend auto operator<=>(const Unit&, const Unit&) = default;
};

/// The distinct (prompt, response) sequences of all pairs, numbered in data order.
class SequenceIndex {
 public:
  /// @param data  must outlive the result
  explicit SequenceIndex(const data::TokenData& data);

  [[nodiscard]] int chosen(int pair) const;    ///< @throws Error(kInternal)  a dropped pair
  [[nodiscard]] int rejected(int pair) const;  ///< @throws Error(kInternal)  a dropped pair
  [[nodiscard]] Unit unit(int pair) const;
  [[nodiscard]] const model::Sequence& sequence(int s) const {
    return sequences_[static_cast<std::size_t>(s)];
  }
  [[nodiscard]] std::size_t length(int s) const {  ///< tokens of prompt and response
    return sequence(s).prompt.size() + sequence(s).response.size();
  }

 private:
  [[nodiscard]] std::size_t checked(int pair) const;
  std::vector<model::Sequence> sequences_;
  std::vector<int> chosen_;    ///< per pair; -1: dropped
  std::vector<int> rejected_;  ///< per pair
};

/// What one forward pass may hold; a single unit may exceed the tokens.
struct PassLimits {
  int max_sequences = 32;
  int max_tokens = 512;
};

/// One forward pass.
struct MicroBatch {
  std::vector<int> sequences;  ///< distinct, ascending by length
  std::vector<Unit> units;
  std::vector<int> objectives;  ///< ascending; every unit is in a pair of each of them
};

/// Units of the same objectives, by length, filled up to the limits.
///
/// Units are grouped by the objectives that use them so that no backward pass runs over sequences
/// its objective does not see. A unit is never split, so losses and their derivatives are complete
/// after each pass. A pure function of the batch.
[[nodiscard]] std::vector<MicroBatch> plan_micro_batches(const SequenceIndex& index,
                                                         const Batch& batch,
                                                         const PassLimits& limits);

}  // namespace apo::objective
