#pragma once

/// @file
/// Which sequences a batch of pairs needs, and in which forward passes they are computed.
/// Private to objective.

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "apo/data/token_pairs.hpp"
#include "apo/model/causal_lm.hpp"
#include "apo/objective/objective_set.hpp"

namespace apo::objective {

/// Two sequences whose log-probabilities are wanted together; first <= second, so that a pair and
/// the same pair with the labels exchanged are one unit. Equal: one sequence alone.
struct Unit {
  int first = 0;
  int second = 0;
  friend auto operator<=>(const Unit&, const Unit&) = default;
};

/// Which responses of a pair a loss looks at.
enum class Responses { kBoth, kChosen };

/// The distinct (prompt, response) sequences of all pairs, numbered in data order.
class SequenceIndex {
 public:
  /// @param data  must outlive the result; pairs may be appended to it, see extend()
  SequenceIndex(const data::TokenData& data, Responses responses);
  SequenceIndex(const SequenceIndex&) = delete;  // known_ orders what sequences_ views
  SequenceIndex& operator=(const SequenceIndex&) = delete;

  /// Takes in the pairs that were appended to the data since the last call. Numbers that were given
  /// stay, and so do the ids that sequences view: a growing vector moves its pairs, not their ids.
  void extend();

  [[nodiscard]] int chosen(int pair) const;    ///< @throws Error(kInternal)  a dropped pair
  [[nodiscard]] int rejected(int pair) const;  ///< @throws Error(kInternal)  a dropped pair
  [[nodiscard]] Unit unit(int pair) const;     ///< kChosen: the chosen sequence alone
  [[nodiscard]] const model::Sequence& sequence(int s) const {
    return sequences_[static_cast<std::size_t>(s)];
  }
  [[nodiscard]] std::size_t length(int s) const {  ///< tokens of prompt and response
    return sequence(s).prompt.size() + sequence(s).response.size();
  }

 private:
  struct Less {
    bool operator()(const model::Sequence& a, const model::Sequence& b) const;
  };

  [[nodiscard]] std::size_t checked(int pair) const;
  [[nodiscard]] int number_of(const std::vector<std::int32_t>& prompt,
                              const std::vector<std::int32_t>& response);

  const data::TokenData& data_;
  Responses responses_;
  std::map<model::Sequence, int, Less> known_;
  std::vector<model::Sequence> sequences_;
  std::vector<int> chosen_;    ///< per pair; -1: dropped
  std::vector<int> rejected_;  ///< per pair; as chosen_ with kChosen
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
