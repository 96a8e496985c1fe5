#include "apo/data/token_pairs.hpp"

#include <algorithm>
#include <array>
#include <unordered_map>

#include <fmt/format.h>

#include "apo/core/error.hpp"

namespace apo::data {
namespace {

using Ids = std::vector<std::int32_t>;

/// Distinct for distinct turns: every part is preceded by its length.
std::string prompt_key(const std::vector<text::Turn>& turns) {
  std::string key;
  for (const text::Turn& turn : turns) {
    key +=
        fmt::format("{}:{}{}:{}", turn.role.size(), turn.role, turn.content.size(), turn.content);
  }
  return key;
}

class PairTokenizer {
 public:
  PairTokenizer(const PreferenceData& data, const text::Tokenizer& tokenizer,
                const text::ChatTemplate& chat, const DataOptions& options,
                std::int64_t vocabulary_limit)
      : data_(data),
        tokenizer_(tokenizer),
        chat_(chat),
        options_(options),
        vocabulary_limit_(vocabulary_limit) {}

  TokenData tokenize() {
    result_.pairs.reserve(data_.pairs.size());
    for (const PreferencePair& pair : data_.pairs) {
      TokenPair tokens;
      tokens.prompt = prompt_ids(pair);
      tokens.chosen = checked(chat_.encode_response(tokenizer_, pair.chosen), pair);
      tokens.rejected = checked(chat_.encode_response(tokenizer_, pair.rejected), pair);
      cut(tokens);
      result_.pairs.push_back(std::move(tokens));
    }
    return std::move(result_);
  }

 private:
  /// The same prompt stands under several pairs and objectives; it is encoded once.
  const Ids& prompt_ids(const PreferencePair& pair) {
    const auto [entry, fresh] = prompts_.try_emplace(prompt_key(pair.prompt));
    if (fresh) {
      entry->second = checked(chat_.encode_prompt(tokenizer_, pair.prompt), pair);
    }
    return entry->second;
  }

  [[nodiscard]] Ids checked(Ids ids, const PreferencePair& pair) const {
    for (const std::int32_t id : ids) {
      if (id < 0 || id >= vocabulary_limit_) {
        const std::array<std::int32_t, 1> one = {id};
        throw Error(Fault::kData,
                    fmt::format("{} row {}: token {} ('{}') is beyond the model's embedding of {} "
                                "rows; tokenizer and model do not belong together",
                                options_.files.at(static_cast<std::size_t>(pair.file)), pair.row,
                                id, tokenizer_.decode(one, false), vocabulary_limit_));
      }
    }
    return ids;
  }

  void cut(TokenPair& tokens) {
    const auto limit = static_cast<std::size_t>(options_.max_length);
    const std::size_t longest = std::max(tokens.chosen.size(), tokens.rejected.size());
    const bool too_long = tokens.prompt.size() + longest > limit;
    if (too_long && options_.truncation == "keep_end") {
      // One token at least is left for the responses, whatever the configuration says.
      const auto kept = std::min(static_cast<std::size_t>(options_.max_prompt_length), limit - 1);
      if (tokens.prompt.size() > kept) {
        tokens.prompt.erase(tokens.prompt.begin(),
                            tokens.prompt.end() - static_cast<std::ptrdiff_t>(kept));
        ++result_.counts["prompt cut"];
      }
    }
    if (tokens.prompt.size() >= limit) {
      drop(tokens, "no room left");
      return;
    }
    const std::size_t room = limit - tokens.prompt.size();
    cut_response(tokens.chosen, room);
    cut_response(tokens.rejected, room);
    if (tokens.chosen == tokens.rejected) {
      drop(tokens, "equal after cutting");
    }
  }

  void cut_response(Ids& ids, std::size_t room) {
    if (ids.size() > room) {
      ids.resize(room);
      ++result_.counts["response cut"];
    }
  }

  void drop(TokenPair& tokens, const char* reason) {
    tokens.chosen.clear();
    tokens.rejected.clear();
    ++result_.counts[reason];
  }

  const PreferenceData& data_;
  const text::Tokenizer& tokenizer_;
  const text::ChatTemplate& chat_;
  const DataOptions& options_;
  std::int64_t vocabulary_limit_;
  std::unordered_map<std::string, Ids> prompts_;
  TokenData result_;
};

}  // namespace

TokenData tokenize_pairs(const PreferenceData& data, const text::Tokenizer& tokenizer,
                         const text::ChatTemplate& chat, const DataOptions& options,
                         std::int64_t vocabulary_limit) {
  return PairTokenizer(data, tokenizer, chat, options, vocabulary_limit).tokenize();
}

}  // namespace apo::data
