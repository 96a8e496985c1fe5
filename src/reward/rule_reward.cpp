#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apo/core/error.hpp"
#include "apo/data/demo_domain.hpp"
#include "apo/reward/reward_model.hpp"

namespace apo::reward {

namespace {

namespace demo = data::demo;

demo::Prompt parse_last_user_turn(std::span<const text::Turn> prompt) {
  const auto last = std::find_if(prompt.rbegin(), prompt.rend(),
                                 [](const text::Turn& turn) { return turn.role == "user"; });
  if (last == prompt.rend()) {
    throw Error(Fault::kData, "rule reward: expected a prompt with a user turn, found none");
  }
  const std::optional<demo::Prompt> parsed = demo::parse_prompt(last->content);
  if (!parsed) {
    throw Error(Fault::kData,
                fmt::format("rule reward: the rules know prompts of the demo domain only (such as "
                            "'{}'), found '{}'",
                            demo::render(demo::Prompt{}), last->content));
  }
  return *parsed;
}

class RuleReward final : public RewardModel {
 public:
  explicit RuleReward(const std::vector<std::string>& objectives) {
    const auto names = demo::objective_names();
    for (const std::string& objective : objectives) {
      const auto found = std::find(names.begin(), names.end(), objective);
      if (found == names.end()) {
        throw Error(Fault::kConfig,
                    fmt::format("evaluate.reward = rule: objective '{}' has no rule; the rules are "
                                "{}",
                                objective, fmt::join(names, ", ")));
      }
      rules_.push_back(static_cast<std::size_t>(found - names.begin()));
    }
  }

  Score score(std::span<const text::Turn> prompt, const std::string& response) override {
    const demo::Prompt asked = parse_last_user_turn(prompt);
    const std::optional<demo::Answer> answer = demo::parse_answer(response);
    Score result;
    result.parsed = answer.has_value();
    result.value.assign(rules_.size(), 0.0);
    if (answer) {
      const demo::Scores scores = demo::score(asked, *answer);
      for (std::size_t j = 0; j < rules_.size(); ++j) {
        result.value[j] = scores[rules_[j]];
      }
    }
    return result;
  }

  std::optional<Bounds> bounds(std::span<const text::Turn> prompt,
                               std::span<const double> preference) override {
    expects(preference.size() == rules_.size(), "bounds() wants one weight per objective");
    demo::Scores weights{};
    for (std::size_t j = 0; j < rules_.size(); ++j) {
      weights[rules_[j]] += preference[j];
    }
    const demo::ScoreRange range = demo::score_range(parse_last_user_turn(prompt), weights);
    return Bounds{range.worst, range.best};
  }

 private:
  std::vector<std::size_t> rules_;  ///< rule of each requested objective
};

}  // namespace

std::unique_ptr<RewardModel> make_rule_reward(const std::vector<std::string>& objectives) {
  return std::make_unique<RuleReward>(objectives);
}

}  // namespace apo::reward
