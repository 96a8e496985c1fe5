#include "apo/methods/ditto.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "ditto_schedule.hpp"
#include "personaliser_descent.hpp"

#include "apo/core/error.hpp"
#include "apo/core/rng.hpp"
#include "apo/objective/preference_objectives.hpp"

namespace apo::methods {
namespace {

using Ids = std::vector<std::int32_t>;

/// A chosen response of the support set.
struct Demonstration {
  int pair = 0;  ///< position in the data
  int objective = 0;
  std::size_t prompt = 0;  ///< position in Imitation::prompts
};

/// What one client imitates.
struct Imitation {
  std::vector<Demonstration> demonstrations;
  std::vector<Ids> prompts;  ///< distinct
};

/// lambda_j times the number of pairs of objective j: every pair counts by its objective's weight.
std::vector<double> pooled_weights(const data::Pool& pairs, const data::Client& client) {
  std::vector<double> weights;
  for (std::size_t j = 0; j < pairs.size(); ++j) {
    weights.push_back(client.preference[j] * static_cast<double>(pairs[j].size()));
  }
  return weights;
}

class DittoPersonaliser final : public Personaliser {
 public:
  DittoPersonaliser(DittoInputs inputs, const DittoOptions& options, int shots, std::uint64_t seed)
      : inputs_(std::move(inputs)),
        options_(options),
        shots_(shots),
        seed_(seed),
        fine_tuning_(objective::make_preference_objectives(
            inputs_.model, inputs_.tokens, inputs_.num_objectives, {.loss = "sft"})) {
    expects(!inputs_.closing_ids.empty(), "ditto: a response needs a closing token");
  }

  [[nodiscard]] std::vector<float> personalise(
      const data::Client& client, int start_round, int cluster, std::span<const float> initialiser,
      std::vector<federation::StepRecord>& steps) override {
    federation::StepRecord record;
    record.phase = federation::Phase::kAdaptation;
    record.start_round = start_round;
    record.cluster = cluster;
    const Imitation imitation = collect(support_pairs(client, shots_, seed_));
    std::vector<float> adapter(initialiser.begin(), initialiser.end());
    if (fine_tune(client, imitation, record, adapter, steps) &&
        play(client, imitation, record, adapter, steps)) {
      return adapter;
    }
    return {initialiser.begin(), initialiser.end()};
  }

 private:
  [[nodiscard]] Imitation collect(const data::Pool& support) const {
    Imitation result;
    std::map<Ids, std::size_t> known;
    for (std::size_t j = 0; j < support.size(); ++j) {
      for (const int pair : support[j]) {
        const Ids& prompt = inputs_.tokens.pairs[static_cast<std::size_t>(pair)].prompt;
        const auto [entry, is_new] = known.emplace(prompt, result.prompts.size());
        if (is_new) {
          result.prompts.push_back(prompt);
        }
        result.demonstrations.push_back({pair, static_cast<int>(j), entry->second});
      }
    }
    return result;
  }

  /// @param[in,out] record  the number of the next step
  /// @return false: a number was not finite
  bool fine_tune(const data::Client& client, const Imitation& imitation,
                 federation::StepRecord& record, std::vector<float>& adapter,
                 std::vector<federation::StepRecord>& steps) {
    WeightedDescent descent(*fine_tuning_, client, adapter,
                            {.gradient_clip = options_.gradient_clip, .seed = seed_}, record);
    for (int k = 0; k < options_.sft_steps; ++k) {
      data::Pool batch(client.preference.size());
      for (const int d : demonstration_batch(count(imitation), options_.sft_batch_size, k, seed_,
                                             DittoStream::kFineTuning, key_of(client))) {
        const Demonstration& demonstration = imitation.demonstrations[static_cast<std::size_t>(d)];
        batch[static_cast<std::size_t>(demonstration.objective)].push_back(demonstration.pair);
      }
      const double rate = options_.sft_learning_rate *
                          cosine_with_warmup(k, options_.sft_steps, options_.sft_warmup);
      if (!descent.step(batch, pooled_weights(batch, client), rate, steps)) {
        return false;
      }
      if (descent.last_loss() < options_.sft_stop_loss) {
        break;
      }
    }
    record.step = descent.next_step();
    adapter = descent.parameters();
    return true;
  }

  bool play(const data::Client& client, const Imitation& imitation,
            const federation::StepRecord& record, std::vector<float>& adapter,
            std::vector<federation::StepRecord>& steps) {
    data::TokenData compared;  // grows by each step's comparisons
    const auto objectives = objective::make_preference_objectives(
        inputs_.model, compared, inputs_.num_objectives, {.beta = options_.beta}, 32, 512, adapter);
    WeightedDescent descent(
        *objectives, client, adapter,
        {.gradient_clip = options_.gradient_clip, .dropout = false, .seed = seed_}, record);
    const SelfPlaySchedule schedule{options_.batch_size, options_.resample_every,
                                    options_.samples_per_prompt};
    std::vector<std::vector<Ids>> samples;  // [stage][prompt * samples_per_prompt + sample]
    for (int k = 0; k < options_.steps; ++k) {
      if (k % options_.resample_every == 0) {
        samples.push_back(sample(client, imitation, static_cast<std::uint64_t>(samples.size()),
                                 descent.parameters()));
      }
      data::Pool batch(client.preference.size());
      for (const Comparison& comparison :
           super_batch(schedule, count(imitation), k, seed_, key_of(client))) {
        const Demonstration& demonstration =
            imitation.demonstrations[static_cast<std::size_t>(comparison.demonstration)];
        batch[static_cast<std::size_t>(demonstration.objective)].push_back(
            static_cast<int>(compared.pairs.size()));
        compared.pairs.push_back({imitation.prompts[demonstration.prompt],
                                  response(demonstration, comparison.preferred, samples),
                                  response(demonstration, comparison.other, samples)});
      }
      const double rate =
          options_.learning_rate * constant_with_warmup(k, options_.steps, options_.warmup);
      if (!descent.step(batch, pooled_weights(batch, client), rate, steps)) {
        return false;
      }
    }
    adapter = descent.parameters();
    return true;
  }

  [[nodiscard]] const Ids& response(const Demonstration& demonstration, const ResponseName& name,
                                    const std::vector<std::vector<Ids>>& samples) const {
    if (name.stage == kDemonstration) {
      return inputs_.tokens.pairs[static_cast<std::size_t>(demonstration.pair)].chosen;
    }
    return samples[static_cast<std::size_t>(name.stage)]
                  [demonstration.prompt * static_cast<std::size_t>(options_.samples_per_prompt) +
                   static_cast<std::size_t>(name.sample)];
  }

  /// Responses of the present policy to every prompt, with closing tokens where they ended by
  /// themselves.
  [[nodiscard]] std::vector<Ids> sample(const data::Client& client, const Imitation& imitation,
                                        std::uint64_t stage, std::span<const float> policy) const {
    const auto per_prompt = static_cast<std::uint64_t>(options_.samples_per_prompt);
    CounterRng names(ditto_key(seed_, DittoStream::kSample, stage, key_of(client)));
    std::vector<model::GenerationRequest> requests;
    for (const Ids& prompt : imitation.prompts) {
      for (std::uint64_t s = 0; s < per_prompt; ++s) {
        requests.push_back({prompt, names.next_u64()});
      }
    }
    model::GenerationOptions generation;
    generation.max_new_tokens = options_.max_new_tokens;
    generation.temperature = options_.temperature;
    generation.batch_size = 64;
    generation.seed = seed_;
    generation.stop_ids = inputs_.stop_ids;
    generation.num_ids = inputs_.num_ids;
    std::vector<Ids> responses = inputs_.model.generate(requests, policy, generation);
    for (Ids& ids : responses) {
      if (static_cast<int>(ids.size()) < options_.max_new_tokens) {  // it chose to end
        ids.insert(ids.end(), inputs_.closing_ids.begin(), inputs_.closing_ids.end());
      }
    }
    return responses;
  }

  static int count(const Imitation& imitation) {
    return static_cast<int>(imitation.demonstrations.size());
  }
  static std::uint64_t key_of(const data::Client& client) {
    return static_cast<std::uint64_t>(client.id.value);
  }

  DittoInputs inputs_;
  DittoOptions options_;
  int shots_;
  std::uint64_t seed_;
  std::unique_ptr<objective::ObjectiveSet> fine_tuning_;
};

}  // namespace

DittoInputs ditto_inputs(const EvaluationInputs& inputs, const data::TokenData& tokens) {
  return {inputs.model,
          tokens,
          inputs.objectives.num_objectives(),
          inputs.chat.encode_response(inputs.tokenizer, ""),
          inputs.chat.stop_ids(),
          inputs.tokenizer.max_id() + 1};
}

std::unique_ptr<Personaliser> make_ditto_personaliser(DittoInputs inputs,
                                                      const DittoOptions& options, int shots,
                                                      std::uint64_t seed) {
  return std::make_unique<DittoPersonaliser>(std::move(inputs), options, shots, seed);
}

}  // namespace apo::methods
