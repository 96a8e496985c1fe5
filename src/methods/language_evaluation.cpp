#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "apo/core/balance.hpp"
#include "apo/core/error.hpp"
#include "apo/core/rng.hpp"
#include "apo/methods/evaluation.hpp"

namespace apo::methods {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// Means over the responses of one client.
struct RewardMeans {
  std::vector<double> reward;
  double parse_rate = kNaN;
  double score = kNaN;
  double normalised = kNaN;
  std::int64_t num_prompts = 0;
  std::int64_t num_responses = 0;
};

/// The columns that a language model shares with the analytic tasks.
/// @param solution  [m] what rises with quality; NaN where it was not measured
void push_solution(const objective::Evaluation& held_out, std::span<const double> solution,
                   const std::vector<double>& preference, Table& summary) {
  summary.push("solution", solution);
  bool complete = true;
  double chebyshev = 0.0;
  for (std::size_t j = 0; j < preference.size(); ++j) {
    complete = complete && std::isfinite(held_out.loss[j]);
    chebyshev = std::max(chebyshev, preference[j] * held_out.loss[j]);
  }
  summary.push("uniformity", complete ? balance(held_out.loss, preference).uniformity : kNaN);
  summary.push("chebyshev", complete ? chebyshev : kNaN);
  summary.push("chebyshev_optimum", kNaN);
  summary.push("chebyshev_gap", kNaN);
  summary.push("distance", kNaN);
}

class LanguageEvaluator final : public Evaluator {
 public:
  LanguageEvaluator(const EvaluationInputs& inputs, const EvaluateOptions& options,
                    std::uint64_t seed)
      : inputs_(inputs), options_(options), seed_(seed) {}

  void evaluate(const data::Client& client, std::span<const float> adapter,
                const EvaluationKey& key, bool sample, Table& summary, Table& responses) override;

 private:
  struct Prompt {
    std::vector<text::Turn> turns;
    std::vector<std::int32_t> ids;
    std::string rendered;
  };
  [[nodiscard]] std::vector<Prompt> prompts_of(const data::Client& client) const;

  EvaluationInputs inputs_;
  EvaluateOptions options_;
  std::uint64_t seed_;
};

std::vector<LanguageEvaluator::Prompt> LanguageEvaluator::prompts_of(
    const data::Client& client) const {
  std::vector<Prompt> prompts;
  std::set<std::string> seen;
  for (const auto& pairs : client.evaluate) {
    for (const int position : pairs) {
      const data::PreferencePair& pair = inputs_.data.pairs[static_cast<std::size_t>(position)];
      Prompt prompt;
      prompt.turns = pair.prompt;
      prompt.rendered = inputs_.chat.render_prompt(pair.prompt);
      if (seen.insert(prompt.rendered).second) {
        prompts.push_back(std::move(prompt));
      }
    }
  }
  // By text, not by first appearance: the same prompts in the same order whatever the objectives.
  std::sort(prompts.begin(), prompts.end(),
            [](const Prompt& a, const Prompt& b) { return a.rendered < b.rendered; });
  if (options_.prompts_per_client > 0 &&
      static_cast<int>(prompts.size()) > options_.prompts_per_client) {
    CounterRng rng({seed_, Purpose::kGeneration, static_cast<std::uint64_t>(client.id.value)});
    std::vector<int> kept = rng.sample_without_replacement(static_cast<int>(prompts.size()),
                                                           options_.prompts_per_client);
    std::sort(kept.begin(), kept.end());
    std::vector<Prompt> chosen;
    for (const int k : kept) {
      chosen.push_back(std::move(prompts[static_cast<std::size_t>(k)]));
    }
    prompts = std::move(chosen);
  }
  for (Prompt& prompt : prompts) {
    prompt.ids = inputs_.chat.encode_prompt(inputs_.tokenizer, prompt.turns);
  }
  return prompts;
}

void LanguageEvaluator::evaluate(const data::Client& client, std::span<const float> adapter,
                                 const EvaluationKey& key, bool sample, Table& summary,
                                 Table& responses) {
  const auto m = static_cast<std::size_t>(inputs_.objectives.num_objectives());
  const objective::Evaluation held_out =
      inputs_.objectives.evaluate(adapter, {client.id, client.evaluate});
  RewardMeans means;
  means.reward.assign(m, kNaN);
  if (sample && inputs_.reward != nullptr) {
    const std::vector<Prompt> prompts = prompts_of(client);
    std::vector<model::GenerationRequest> requests;
    for (std::size_t q = 0; q < prompts.size(); ++q) {
      for (int s = 0; s < options_.samples_per_prompt; ++s) {
        CounterRng name({seed_, Purpose::kGeneration, static_cast<std::uint64_t>(client.id.value),
                         q + 1, static_cast<std::uint64_t>(s)});
        requests.push_back({prompts[q].ids, name.next_u64()});
      }
    }
    model::GenerationOptions generation;
    generation.max_new_tokens = options_.max_new_tokens;
    generation.temperature = options_.temperature;
    generation.seed = seed_;
    generation.batch_size = 64;
    generation.stop_ids = inputs_.chat.stop_ids();
    generation.num_ids = inputs_.tokenizer.max_id() + 1;
    const auto answers = inputs_.model.generate(requests, adapter, generation);
    means.reward.assign(m, 0.0);
    means.parse_rate = means.score = means.normalised = 0.0;
    for (std::size_t k = 0; k < answers.size(); ++k) {
      const Prompt& prompt = prompts[k / static_cast<std::size_t>(options_.samples_per_prompt)];
      const std::string text = inputs_.tokenizer.decode(answers[k]);
      const reward::Score score = inputs_.reward->score(prompt.turns, text);
      double weighted = 0.0;
      for (std::size_t j = 0; j < m; ++j) {
        means.reward[j] += score.value[j];
        weighted += client.preference[j] * score.value[j];
      }
      means.score += weighted;
      means.parse_rate += score.parsed ? 1.0 : 0.0;
      const auto bounds = inputs_.reward->bounds(prompt.turns, client.preference);
      means.normalised +=
          bounds ? (weighted - bounds->worst) / (bounds->best - bounds->worst) : kNaN;
      responses.push("client", std::int64_t{client.id.value});
      responses.push("start_round", std::int64_t{key.start_round});
      responses.push("method", key.method);
      responses.push("stage", stage_name(key.stage));
      responses.push(
          "prompt_index",
          static_cast<std::int64_t>(k / static_cast<std::size_t>(options_.samples_per_prompt)));
      responses.push("sample", static_cast<std::int64_t>(
                                   k % static_cast<std::size_t>(options_.samples_per_prompt)));
      responses.push("prompt", prompt.turns.back().content);
      responses.push("response", text);
      responses.push("score", std::span<const double>(score.value));
      responses.push("parsed", std::int64_t{score.parsed ? 1 : 0});
    }
    means.num_prompts = static_cast<std::int64_t>(prompts.size());
    means.num_responses = static_cast<std::int64_t>(answers.size());
    const auto count = static_cast<double>(answers.size());  // 0: NaN, nothing was measured
    for (double& x : means.reward) {
      x /= count;
    }
    means.parse_rate /= count;
    means.score /= count;
    means.normalised /= count;
  }
  summary.push("method", key.method);
  summary.push("start_round", std::int64_t{key.start_round});
  summary.push("cluster", std::int64_t{key.cluster});
  summary.push("client", std::int64_t{client.id.value});
  summary.push("stage", stage_name(key.stage));
  summary.push("loss", std::span<const double>(held_out.loss));
  summary.push("accuracy", std::span<const double>(held_out.accuracy));
  summary.push("reward", std::span<const double>(means.reward));
  summary.push("parse_rate", means.parse_rate);
  summary.push("score", means.score);
  summary.push("score_normalised", means.normalised);
  push_solution(held_out, inputs_.reward != nullptr ? means.reward : held_out.accuracy,
                client.preference, summary);
  summary.push("num_prompts", means.num_prompts);
  summary.push("num_responses", means.num_responses);
}

}  // namespace

std::unique_ptr<Evaluator> make_language_evaluator(const EvaluationInputs& inputs,
                                                   const EvaluateOptions& options,
                                                   std::uint64_t seed) {
  return std::make_unique<LanguageEvaluator>(inputs, options, seed);
}

}  // namespace apo::methods
