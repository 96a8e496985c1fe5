#include <map>
#include <set>

#include "demo_words.hpp"

#include "apo/core/error.hpp"
#include "apo/data/demo_domain.hpp"

namespace apo::data::demo {

namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// Reads words off the front of a text.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : rest_(text) {}

  [[nodiscard]] bool done() const { return rest_.empty(); }

  bool take(std::string_view literal) {
    if (!rest_.starts_with(literal)) {
      return false;
    }
    rest_.remove_prefix(literal.size());
    return true;
  }

  /// The letters up to the next other character.
  std::string_view take_word() {
    std::size_t n = 0;
    while (n < rest_.size() &&
           ((rest_[n] >= 'a' && rest_[n] <= 'z') || (rest_[n] >= 'A' && rest_[n] <= 'Z'))) {
      ++n;
    }
    const std::string_view word = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return word;
  }

  /// One of the wordings, with the space in front of it unless it is the text's first sentence.
  int take_sentence(std::span<const std::string_view> wordings) {
    for (std::size_t w = 0; w < wordings.size(); ++w) {
      const Cursor before = *this;
      if ((first_ || take(" ")) && take(wordings[w])) {
        first_ = false;
        return static_cast<int>(w);
      }
      *this = before;
    }
    return kAbsent;
  }

  bool take_step_start(std::string_view marker) {
    const Cursor before = *this;
    if ((first_ || take(" ")) && take(marker) && take(" ")) {
      first_ = false;
      return true;
    }
    *this = before;
    return false;
  }

 private:
  std::string_view rest_;
  bool first_ = true;
};

using WordIndex = std::map<std::string_view, int>;

const WordIndex& verb_index() {
  static const WordIndex index = [] {
    WordIndex made;
    for (int v = 0; v < kNumActions * kVerbsPerAction; ++v) {
      made.emplace(verb_word(v), v);
    }
    return made;
  }();
  return index;
}

const WordIndex& part_index() {
  static const WordIndex index = [] {
    WordIndex made;
    for (int p = 0; p < kNumObjects * kPartsPerObject; ++p) {
      made.emplace(part_word(p), p);
    }
    return made;
  }();
  return index;
}

template <class Words>
int position_of(const Words& words, std::string_view name) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].name == name) {
      return static_cast<int>(i);
    }
  }
  return kAbsent;
}

std::optional<Step> take_step(Cursor& cursor) {
  const auto verb = verb_index().find(cursor.take_word());
  if (verb == verb_index().end() || !cursor.take(kArticle)) {
    return std::nullopt;
  }
  const auto part = part_index().find(cursor.take_word());
  if (part == part_index().end() || !cursor.take(".")) {
    return std::nullopt;
  }
  return Step{verb->second, part->second};
}

void append_sentence(std::string& text, std::string_view sentence) {
  if (!text.empty()) {
    text += ' ';
  }
  text += sentence;
}

void append_wording(std::string& text, std::span<const std::string_view> wordings, int wording) {
  if (wording != kAbsent) {
    append_sentence(text, wordings[at(wording)]);
  }
}

}  // namespace

std::span<const std::string_view> objective_names() {
  static constexpr std::array<std::string_view, kNumObjectives> kNames = {
      "helpfulness", "harmlessness", "brevity", "courtesy"};
  return kNames;
}

WordingCounts wording_counts() {
  const auto count = [](std::span<const std::string_view> w) { return static_cast<int>(w.size()); };
  return {count(greetings()), count(hedges()),       count(warnings()),
          count(refusals()),  count(alternatives()), count(closings())};
}

std::string render(const Prompt& prompt) {
  const TemplateWords& words = kTemplates[at(prompt.phrasing)];
  std::string text(words.before);
  text += kActions[at(prompt.action)].name;
  text += words.between;
  text += kObjects[at(prompt.object)].name;
  text += ' ';
  text += kModifiers[at(prompt.modifier)].text;
  text += words.after;
  return text;
}

std::string render(const Answer& answer) {
  expects(answer.steps.empty() == (answer.refusal != kAbsent),
          "an answer of the demo domain has steps or a refusal");
  expects(answer.steps.size() <= kMaxSteps, "an answer of the demo domain has at most 4 steps");
  std::string text;
  append_wording(text, greetings(), answer.greeting);
  append_wording(text, hedges(), answer.hedge);
  for (std::size_t s = 0; s < answer.steps.size(); ++s) {
    std::string sentence(kStepMarkers[s]);
    sentence += ' ';
    sentence += verb_word(answer.steps[s].verb);
    sentence += kArticle;
    sentence += part_word(answer.steps[s].part);
    sentence += '.';
    append_sentence(text, sentence);
  }
  append_wording(text, warnings(), answer.warning);
  append_wording(text, refusals(), answer.refusal);
  append_wording(text, alternatives(), answer.alternative);
  append_wording(text, closings(), answer.closing);
  return text;
}

std::optional<Prompt> parse_prompt(std::string_view text) {
  for (int phrasing = 0; phrasing < kNumTemplates; ++phrasing) {
    const TemplateWords& words = kTemplates[at(phrasing)];
    Cursor cursor(text);
    if (!cursor.take(words.before)) {
      continue;
    }
    Prompt prompt{phrasing, position_of(kActions, cursor.take_word()), kAbsent, kAbsent};
    if (prompt.action == kAbsent || !cursor.take(words.between)) {
      continue;
    }
    prompt.object = position_of(kObjects, cursor.take_word());
    if (prompt.object == kAbsent || !cursor.take(" ")) {
      continue;
    }
    for (int modifier = 0; modifier < kNumModifiers; ++modifier) {
      Cursor end = cursor;
      if (end.take(kModifiers[at(modifier)].text) && end.take(words.after) && end.done()) {
        prompt.modifier = modifier;
        return prompt;
      }
    }
  }
  return std::nullopt;
}

std::optional<Answer> parse_answer(std::string_view text) {
  Cursor cursor(text);
  Answer answer;
  answer.greeting = cursor.take_sentence(greetings());
  answer.refusal = cursor.take_sentence(refusals());
  if (answer.refusal != kAbsent) {
    answer.alternative = cursor.take_sentence(alternatives());
  } else {
    answer.hedge = cursor.take_sentence(hedges());
    for (const std::string_view marker : kStepMarkers) {
      if (!cursor.take_step_start(marker)) {
        break;
      }
      const std::optional<Step> step = take_step(cursor);
      if (!step) {
        return std::nullopt;
      }
      answer.steps.push_back(*step);
    }
    if (answer.steps.empty()) {
      return std::nullopt;
    }
    answer.warning = cursor.take_sentence(warnings());
  }
  answer.closing = cursor.take_sentence(closings());
  return cursor.done() ? std::optional(answer) : std::nullopt;
}

std::vector<std::string> word_pieces() {
  std::vector<std::string> pieces;
  std::set<std::string> seen;
  const auto add = [&](std::string piece) {
    if (piece.size() > 1 && seen.insert(piece).second) {  // single bytes are tokens anyway
      pieces.push_back(std::move(piece));
    }
  };
  const auto add_text = [&](std::string_view text, bool starts_line) {
    std::string word;
    const auto flush = [&] {
      if (!word.empty()) {
        add(starts_line ? word : ' ' + word);
        starts_line = false;
        word.clear();
      }
    };
    for (const char c : text) {
      if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
        word += c;
      } else {
        flush();
      }
    }
    flush();
  };
  for (const TemplateWords& t : kTemplates) {
    add_text(t.before, true);
    add_text(t.between, false);
    add_text(t.after, false);
  }
  for (const ActionWords& a : kActions) {
    add_text(a.name, false);
  }
  for (const ObjectWords& o : kObjects) {
    add_text(o.name, false);
  }
  for (const ModifierWords& m : kModifiers) {
    add_text(m.text, false);
  }
  const auto add_sentences = [&](std::span<const std::string_view> sentences) {
    for (const std::string_view sentence : sentences) {
      add_text(sentence, true);  // any sentence but a few may open an answer
      add_text(sentence, false);
    }
  };
  add_sentences(greetings());
  add_sentences(hedges());
  add_sentences(kStepMarkers);
  add_sentences(warnings());
  add_sentences(refusals());
  add_sentences(alternatives());
  add_sentences(closings());
  for (const ActionWords& a : kActions) {
    for (const std::string_view verb : a.verbs) {
      add_text(verb, false);
    }
  }
  for (const ObjectWords& o : kObjects) {
    for (const std::string_view part : o.parts) {
      add_text(part, false);
    }
  }
  return pieces;
}

}  // namespace apo::data::demo
