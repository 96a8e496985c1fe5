#include "sequence_plan.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "apo/core/error.hpp"

namespace apo::objective {

bool SequenceIndex::Less::operator()(const model::Sequence& a, const model::Sequence& b) const {
  if (!std::ranges::equal(a.response, b.response)) {
    return std::ranges::lexicographical_compare(a.response, b.response);
  }
  return std::ranges::lexicographical_compare(a.prompt, b.prompt);
}

SequenceIndex::SequenceIndex(const data::TokenData& data, Responses responses)
    : data_(data), responses_(responses) {
  extend();
}

int SequenceIndex::number_of(const std::vector<std::int32_t>& prompt,
                             const std::vector<std::int32_t>& response) {
  const model::Sequence sequence{prompt, response};
  const auto [entry, is_new] = known_.emplace(sequence, static_cast<int>(sequences_.size()));
  if (is_new) {
    sequences_.push_back(sequence);
  }
  return entry->second;
}

void SequenceIndex::extend() {
  const bool chosen_alone = responses_ == Responses::kChosen;
  for (std::size_t i = chosen_.size(); i < data_.pairs.size(); ++i) {
    const data::TokenPair& pair = data_.pairs[i];
    const bool usable = chosen_alone ? !pair.chosen.empty() : pair.usable();
    chosen_.push_back(usable ? number_of(pair.prompt, pair.chosen) : -1);
    rejected_.push_back(usable && !chosen_alone ? number_of(pair.prompt, pair.rejected)
                                                : chosen_.back());
  }
}

std::size_t SequenceIndex::checked(int pair) const {
  expects(pair >= 0 && static_cast<std::size_t>(pair) < chosen_.size(),
          "a batch names a pair that the data does not have");
  const auto at = static_cast<std::size_t>(pair);
  expects(chosen_[at] >= 0, "a batch names a pair that was dropped");
  return at;
}

int SequenceIndex::chosen(int pair) const { return chosen_[checked(pair)]; }
int SequenceIndex::rejected(int pair) const { return rejected_[checked(pair)]; }

Unit SequenceIndex::unit(int pair) const {
  const auto [first, second] = std::minmax({chosen(pair), rejected(pair)});
  return {first, second};
}

std::vector<MicroBatch> plan_micro_batches(const SequenceIndex& index, const Batch& batch,
                                           const PassLimits& limits) {
  std::map<Unit, std::vector<int>> objectives_of;
  for (std::size_t j = 0; j < batch.pairs.size(); ++j) {
    for (const int pair : batch.pairs[j]) {
      std::vector<int>& objectives = objectives_of[index.unit(pair)];
      if (objectives.empty() || objectives.back() != static_cast<int>(j)) {
        objectives.push_back(static_cast<int>(j));
      }
    }
  }
  std::vector<std::pair<Unit, std::vector<int>>> units(objectives_of.begin(), objectives_of.end());
  std::ranges::sort(units, {}, [&index](const auto& entry) {
    const auto& [unit, objectives] = entry;
    const auto [shorter, longer] =
        std::minmax({index.length(unit.first), index.length(unit.second)});
    return std::tuple(objectives, longer, shorter, unit);
  });

  std::vector<MicroBatch> result;
  std::set<int> members;
  for (const auto& [unit, objectives] : units) {
    std::set<int> extended = members;
    extended.insert({unit.first, unit.second});
    std::size_t num_tokens = 0;
    for (const int s : extended) {
      num_tokens += index.length(s);
    }
    if (result.empty() || result.back().objectives != objectives ||
        extended.size() > static_cast<std::size_t>(limits.max_sequences) ||
        num_tokens > static_cast<std::size_t>(limits.max_tokens)) {
      result.push_back({{}, {}, objectives});
      extended = {unit.first, unit.second};
    }
    members = std::move(extended);
    result.back().units.push_back(unit);
    result.back().sequences.assign(members.begin(), members.end());
  }
  for (MicroBatch& micro_batch : result) {
    std::ranges::sort(micro_batch.sequences, {},
                      [&index](int s) { return std::pair(index.length(s), s); });
  }
  return result;
}

}  // namespace apo::objective
