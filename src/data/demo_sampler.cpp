#include <algorithm>

#include "demo_words.hpp"

#include "apo/data/demo_domain.hpp"

namespace apo::data::demo {

namespace {

// Field `a` of the streams of purpose kDemo.
constexpr std::uint64_t kCorpusStream = 1;
constexpr std::uint64_t kPreferenceStream = 2;

// With these the corpus is varied and mediocre: there is something to gain under each objective.
constexpr double kRefusalProbability = 0.2;
constexpr double kOptionalProbability = 0.42;
constexpr double kSpoilProbability = 0.15;

int draw(CounterRng& rng, int n) {
  return static_cast<int>(rng.below(static_cast<std::uint64_t>(n)));
}

int draw_optional(CounterRng& rng, int num_wordings) {
  const bool present = rng.uniform() < kOptionalProbability;
  const int wording = draw(rng, num_wordings);
  return present ? wording : kAbsent;
}

int draw_word(CounterRng& rng, int owner, int words_per_owner, int num_words) {
  const bool spoiled = rng.uniform() < kSpoilProbability;
  return spoiled ? draw(rng, num_words) : owner * words_per_owner + draw(rng, words_per_owner);
}

}  // namespace

Prompt sample_prompt(CounterRng& rng, PromptPool pool) {
  for (;;) {
    const Prompt prompt{draw(rng, kNumTemplates), draw(rng, kNumActions), draw(rng, kNumObjects),
                        draw(rng, kNumModifiers)};
    if (held_out(prompt.action, prompt.object) == (pool == PromptPool::kHeldOut)) {
      return prompt;
    }
  }
}

Answer sample_answer(CounterRng& rng, const Prompt& prompt) {
  const WordingCounts counts = wording_counts();
  Answer answer;
  answer.greeting = draw_optional(rng, counts.greeting);
  if (rng.uniform() < kRefusalProbability) {
    answer.refusal = draw(rng, counts.refusal);
    answer.alternative = draw_optional(rng, counts.alternative);
  } else {
    answer.hedge = draw_optional(rng, counts.hedge);
    const auto num_steps = static_cast<std::size_t>(1 + draw(rng, kMaxSteps));
    while (answer.steps.size() < num_steps) {
      const Step step{
          draw_word(rng, prompt.action, kVerbsPerAction, kNumActions * kVerbsPerAction),
          draw_word(rng, prompt.object, kPartsPerObject, kNumObjects * kPartsPerObject)};
      if (std::find(answer.steps.begin(), answer.steps.end(), step) == answer.steps.end()) {
        answer.steps.push_back(step);
      }
    }
    answer.warning = draw_optional(rng, counts.warning);
  }
  answer.closing = draw_optional(rng, counts.closing);
  return answer;
}

CorpusLine corpus_line(std::uint64_t seed, std::uint64_t step, std::uint64_t row) {
  CounterRng rng({seed, Purpose::kDemo, kCorpusStream, step, row});
  const Prompt prompt = sample_prompt(rng, PromptPool::kSeen);
  return {render(prompt), render(sample_answer(rng, prompt))};
}

std::vector<double> client_preference(std::uint64_t seed, int client_index) {
  std::array<double, kNumObjectives> alpha;
  alpha.fill(1.0);
  alpha[static_cast<std::size_t>(client_index % kNumObjectives)] = 8.0;
  CounterRng rng(
      {seed, Purpose::kDemo, kPreferenceStream, static_cast<std::uint64_t>(client_index), 0});
  return rng.dirichlet(alpha);
}

}  // namespace apo::data::demo
