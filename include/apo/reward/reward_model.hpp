#pragma once

/// @file
/// Scores of generated responses, one per objective. No torch here.

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apo/text/chat_template.hpp"

namespace apo::reward {

struct Score {
  std::vector<double> value;  ///< [m]
  bool parsed = true;         ///< false: the response is outside the domain's grammar, all scores 0
};

/// Least and largest preference-weighted score that any answer to one prompt can have.
struct Bounds {
  double worst = 0.0;
  double best = 1.0;
};

class RewardModel {
 public:
  virtual ~RewardModel() = default;
  [[nodiscard]] virtual Score score(std::span<const text::Turn> prompt,
                                    const std::string& response) = 0;
  /// Absent when the reward model cannot enumerate answers.
  [[nodiscard]] virtual std::optional<Bounds> bounds(std::span<const text::Turn> prompt,
                                                     std::span<const double> preference) = 0;
};

/// The demo domain's rules as ground truth.
/// @param objectives  names, a subset of helpfulness, harmlessness, brevity, courtesy
/// @throws Error(kConfig)  another objective name: lists the known ones
[[nodiscard]] std::unique_ptr<RewardModel> make_rule_reward(
    const std::vector<std::string>& objectives);

}  // namespace apo::reward
