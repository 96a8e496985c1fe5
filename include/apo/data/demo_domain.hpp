#pragma once

/// @file
/// The demo domain: a small grammar of prompts and answers, and rules that score an answer under
/// four objectives that conflict. Everything is a pure function of its arguments; random draws use
/// streams of purpose kDemo. No torch here.
///
/// A prompt asks how to do an action with an object, under a modifier ("How do I clean the kettle
/// in the rain?"). An answer is
///   [greeting] ( [hedge] step{1..4} [warning] | refusal [alternative] ) [closing]
/// with steps like "First rinse the lid."; see configs/demo/README.md.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apo/core/rng.hpp"

namespace apo::data::demo {

inline constexpr int kNumObjectives = 4;
inline constexpr int kNumActions = 16;
inline constexpr int kNumObjects = 32;
inline constexpr int kNumModifiers = 11;
inline constexpr int kNumTemplates = 5;
inline constexpr int kVerbsPerAction = 4;
inline constexpr int kPartsPerObject = 4;
inline constexpr int kMaxSteps = 4;
inline constexpr int kMinLength = 5;   ///< words and punctuation marks of the shortest answer
inline constexpr int kMaxLength = 47;  ///< of the longest; with end-of-text 48 tokens

/// "helpfulness", "harmlessness", "brevity", "courtesy": the order of every score here.
[[nodiscard]] std::span<const std::string_view> objective_names();

struct Prompt {
  int phrasing = 0;  ///< [0, kNumTemplates)
  int action = 0;    ///< [0, kNumActions)
  int object = 0;    ///< [0, kNumObjects)
  int modifier = 0;  ///< [0, kNumModifiers)

  friend bool operator==(const Prompt&, const Prompt&) = default;
};

/// "First VERB the PART."
struct Step {
  int verb = 0;  ///< verb / kVerbsPerAction is the action it belongs to
  int part = 0;  ///< part / kPartsPerObject is the object it belongs to

  friend bool operator==(const Step&, const Step&) = default;
};

inline constexpr int kAbsent = -1;

/// Optional sentences hold the number of their wording, or kAbsent. Exactly one of `steps` and
/// `refusal` is present; hedge and warning go with steps only, an alternative with a refusal only.
struct Answer {
  int greeting = kAbsent;
  int hedge = kAbsent;
  std::vector<Step> steps;
  int warning = kAbsent;
  int refusal = kAbsent;
  int alternative = kAbsent;
  int closing = kAbsent;

  friend bool operator==(const Answer&, const Answer&) = default;
};

/// Number of wordings of each optional sentence.
struct WordingCounts {
  int greeting = 0;
  int hedge = 0;
  int warning = 0;
  int refusal = 0;
  int alternative = 0;
  int closing = 0;
};
[[nodiscard]] WordingCounts wording_counts();

[[nodiscard]] std::string render(const Prompt& prompt);
[[nodiscard]] std::string render(const Answer& answer);
/// Exact inverses of render(); absent when the text is not of the grammar.
[[nodiscard]] std::optional<Prompt> parse_prompt(std::string_view text);
[[nodiscard]] std::optional<Answer> parse_answer(std::string_view text);

/// 2: the modifier is not allowed ("without permission"); 1: a mildly dangerous object; else 0.
[[nodiscard]] int risk(const Prompt& prompt);
/// One (action, object) pair in eight is never seen in pretraining or in training pairs; every
/// action has 4 such objects and every object 2 such actions.
[[nodiscard]] bool held_out(int action, int object);

/// All that the rules look at.
struct Features {
  int risk = 0;
  bool greeting = false;
  bool hedge = false;
  bool warning = false;
  bool refusal = false;
  bool alternative = false;
  bool closing = false;
  int num_steps = 0;
  int num_relevant = 0;  ///< distinct steps whose verb fits the action and whose part the object
  int length = 0;        ///< words and punctuation marks, that is tokens

  friend bool operator==(const Features&, const Features&) = default;
};
[[nodiscard]] Features features(const Prompt& prompt, const Answer& answer);

using Scores = std::array<double, kNumObjectives>;  ///< each in [0, 1]

/// helpfulness  refusal: 0, with alternative .1; else {0, .45, .72, .89, 1}[relevant]
///              - .15 per other step - .1 for a hedge - .1 for a warning
/// harmlessness risk 0: 1; refusal: 1; risk 1: .6 (with warning .9) - .1 per further step;
///              risk 2: .2 (with warning .4) - .05 per further step
/// brevity      (kMaxLength - length) / (kMaxLength - kMinLength)
/// courtesy     {0, .4, .75, 1}[how many of greeting, hedge, closing]
[[nodiscard]] Scores score(const Features& features);
[[nodiscard]] Scores score(const Prompt& prompt, const Answer& answer);

/// Least and largest preference-weighted score over all answers of the grammar; exact, because the
/// rules see counts only and those are enumerated.
struct ScoreRange {
  double worst = 0.0;
  double best = 0.0;
};
/// @param preference  [kNumObjectives] weight of each objective, 0 for one that is not in use
[[nodiscard]] ScoreRange score_range(const Prompt& prompt, std::span<const double> preference);

enum class PromptPool { kSeen, kHeldOut };

[[nodiscard]] Prompt sample_prompt(CounterRng& rng, PromptPool pool);
/// One answer of the pretraining corpus: optional sentences at random, 1 to 4 steps whose verb and
/// part are each spoiled with probability .15.
[[nodiscard]] Answer sample_answer(CounterRng& rng, const Prompt& prompt);

/// One line of the pretraining corpus; a pure function of (seed, step, row).
struct CorpusLine {
  std::string prompt;
  std::string answer;
};
[[nodiscard]] CorpusLine corpus_line(std::uint64_t seed, std::uint64_t step, std::uint64_t row);

/// lambda of one client: Dirichlet(8, 1, 1, 1) with the 8 at objective client_index mod 4.
[[nodiscard]] std::vector<double> client_preference(std::uint64_t seed, int client_index);

/// Two answers to one prompt, scored by the rules.
struct AnswerPair {
  Prompt prompt;
  std::array<std::string, 2> answers;
  std::array<Scores, 2> scores;
  std::string split;  ///< "train", "adapt" or "evaluate"
};

/// Rows of a preference file (JSON lines: client, objective, prompt, chosen, rejected, split): per
/// pair one for each objective whose rule prefers one answer; a tie carries no row.
[[nodiscard]] std::string jsonl_rows(std::string_view client, std::span<const AnswerPair> pairs);

/// gzip file of `text` without name or time, so that equal texts give equal bytes.
[[nodiscard]] std::string gzip(std::string_view text);

/// Every piece of the grammar as the GPT-2 splitter cuts it (" word", and "Word" where a line can
/// start with it), without repetition, in a fixed order. Punctuation marks are single bytes and not
/// listed.
[[nodiscard]] std::vector<std::string> word_pieces();

/// tokenizer.json (byte-level BPE of the GPT-2 kind; every piece of the grammar is one token) and
/// tokenizer_config.json. Id 0 is "<|endoftext|>": end, padding and beginning of text.
[[nodiscard]] std::string tokenizer_json();
[[nodiscard]] std::string tokenizer_config_json();
[[nodiscard]] int tokenizer_size();

}  // namespace apo::data::demo
