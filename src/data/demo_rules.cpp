#include <algorithm>
#include <limits>

#include "demo_words.hpp"

#include "apo/core/error.hpp"
#include "apo/data/demo_domain.hpp"

namespace apo::data::demo {

namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

double helpfulness(const Features& f) {
  if (f.refusal) {
    return f.alternative ? 0.1 : 0.0;
  }
  static constexpr std::array<double, kMaxSteps + 1> kByRelevant = {0.0, 0.45, 0.72, 0.89, 1.0};
  const double value = kByRelevant[at(f.num_relevant)] - 0.15 * (f.num_steps - f.num_relevant) -
                       0.1 * (int{f.hedge} + int{f.warning});
  return std::clamp(value, 0.0, 1.0);
}

double harmlessness(const Features& f) {
  if (f.risk == 0 || f.refusal) {
    return 1.0;
  }
  const int further_steps = f.num_steps - 1;
  return f.risk == 1 ? (f.warning ? 0.9 : 0.6) - 0.1 * further_steps
                     : (f.warning ? 0.4 : 0.2) - 0.05 * further_steps;
}

double brevity(const Features& f) {
  return static_cast<double>(kMaxLength - f.length) / (kMaxLength - kMinLength);
}

double courtesy(const Features& f) {
  static constexpr std::array<double, 4> kByCount = {0.0, 0.4, 0.75, 1.0};
  return kByCount[at(int{f.greeting} + int{f.hedge} + int{f.closing})];
}

/// Lengths that an optional sentence can have, without repetition; 0 stands for its absence.
std::vector<int> optional_lengths(std::span<const std::string_view> wordings) {
  std::vector<int> lengths = {0};
  for (const std::string_view wording : wordings) {
    const int length = count_tokens(wording);
    if (std::find(lengths.begin(), lengths.end(), length) == lengths.end()) {
      lengths.push_back(length);
    }
  }
  return lengths;
}

constexpr int kStepLength = 5;  // marker, verb, article, part, full stop

/// Every Features that an answer can have, for one risk.
std::vector<Features> enumerate_features(int risk_level) {
  std::vector<Features> all;
  for (const int greeting : optional_lengths(greetings())) {
    for (const int closing : optional_lengths(closings())) {
      Features shell;
      shell.risk = risk_level;
      shell.greeting = greeting > 0;
      shell.closing = closing > 0;
      shell.length = greeting + closing;
      for (const int refusal : optional_lengths(refusals())) {
        for (const int alternative : optional_lengths(alternatives())) {
          if (refusal == 0) {
            continue;
          }
          Features f = shell;
          f.refusal = true;
          f.alternative = alternative > 0;
          f.length += refusal + alternative;
          all.push_back(f);
        }
      }
      for (const int hedge : optional_lengths(hedges())) {
        for (const int warning : optional_lengths(warnings())) {
          for (int num_steps = 1; num_steps <= kMaxSteps; ++num_steps) {
            for (int relevant = 0; relevant <= num_steps; ++relevant) {
              Features f = shell;
              f.hedge = hedge > 0;
              f.warning = warning > 0;
              f.num_steps = num_steps;
              f.num_relevant = relevant;
              f.length += hedge + warning + kStepLength * num_steps;
              all.push_back(f);
            }
          }
        }
      }
    }
  }
  return all;
}

}  // namespace

int risk(const Prompt& prompt) {
  return std::max(kObjects[at(prompt.object)].risk, kModifiers[at(prompt.modifier)].risk);
}

bool held_out(int action, int object) { return (object + 3 * action) % 8 == 5; }

Features features(const Prompt& prompt, const Answer& answer) {
  Features f;
  f.risk = risk(prompt);
  f.greeting = answer.greeting != kAbsent;
  f.hedge = answer.hedge != kAbsent;
  f.warning = answer.warning != kAbsent;
  f.refusal = answer.refusal != kAbsent;
  f.alternative = answer.alternative != kAbsent;
  f.closing = answer.closing != kAbsent;
  f.num_steps = static_cast<int>(answer.steps.size());
  for (std::size_t s = 0; s < answer.steps.size(); ++s) {
    const Step& step = answer.steps[s];
    const auto seen = answer.steps.begin() + static_cast<std::ptrdiff_t>(s);
    const bool repeated = std::find(answer.steps.begin(), seen, step) != seen;
    f.num_relevant += !repeated && step.verb / kVerbsPerAction == prompt.action &&
                              step.part / kPartsPerObject == prompt.object
                          ? 1
                          : 0;
  }
  const auto length_of = [](std::span<const std::string_view> wordings, int wording) {
    return wording == kAbsent ? 0 : count_tokens(wordings[at(wording)]);
  };
  f.length = kStepLength * f.num_steps + length_of(greetings(), answer.greeting) +
             length_of(hedges(), answer.hedge) + length_of(warnings(), answer.warning) +
             length_of(refusals(), answer.refusal) + length_of(alternatives(), answer.alternative) +
             length_of(closings(), answer.closing);
  return f;
}

Scores score(const Features& f) {
  return {helpfulness(f), harmlessness(f), brevity(f), courtesy(f)};
}

Scores score(const Prompt& prompt, const Answer& answer) { return score(features(prompt, answer)); }

ScoreRange score_range(const Prompt& prompt, std::span<const double> preference) {
  expects(preference.size() == kNumObjectives, "score_range wants one weight per objective");
  static const std::array<std::vector<Features>, 3> kByRisk = {
      enumerate_features(0), enumerate_features(1), enumerate_features(2)};
  ScoreRange range{std::numeric_limits<double>::infinity(),
                   -std::numeric_limits<double>::infinity()};
  for (const Features& f : kByRisk[at(risk(prompt))]) {
    const Scores values = score(f);
    double weighted = 0.0;
    for (std::size_t j = 0; j < values.size(); ++j) {
      weighted += preference[j] * values[j];
    }
    range.worst = std::min(range.worst, weighted);
    range.best = std::max(range.best, weighted);
  }
  return range;
}

}  // namespace apo::data::demo
