#include "byte_pair_model.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "byte_level.hpp"

#include "apo/core/error.hpp"

namespace apo::text {
namespace {

std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32) |
         static_cast<std::uint32_t>(right);
}

/// Lowest rank first, then leftmost: the heap's order puts the *largest* in front.
bool comes_later(const BytePairModel::Workspace::Candidate& a,
                 const BytePairModel::Workspace::Candidate& b) {
  return std::pair(a.rank, a.position) > std::pair(b.rank, b.position);
}

}  // namespace

BytePairModel::BytePairModel(StringMap<std::int32_t> entries, const std::vector<MergeRule>& merges,
                             bool ignore_merges)
    : entries_(std::move(entries)), ignore_merges_(ignore_merges) {
  byte_ids_.fill(-1);
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const char character = static_cast<char>(byte);
    byte_ids_[byte] = id_of(entry_of_bytes({&character, 1})).value_or(-1);
  }
  if (ignore_merges_) {
    for (const auto& [entry, id] : entries_) {
      if (std::optional<std::string> bytes = bytes_of_entry(entry)) {
        whole_pieces_.emplace(std::move(*bytes), id);
      }
    }
  }
  merge_table_.resize(std::bit_ceil(2 * merges.size() + 2));
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const MergeRule& rule = merges[rank];
    const std::uint64_t pair = pair_key(rule.left, rule.right);
    merge_table_[slot_of(pair)] = {pair, static_cast<std::int32_t>(rank), rule.merged};
  }
}

std::size_t BytePairModel::slot_of(std::uint64_t pair) const {
  const std::size_t mask = merge_table_.size() - 1;
  std::uint64_t mixed = pair * 0x9E3779B97F4A7C15ULL;
  mixed ^= mixed >> 32;
  std::size_t slot = static_cast<std::size_t>(mixed) & mask;
  while (merge_table_[slot].pair != pair && merge_table_[slot].pair != kNoPair) {
    slot = (slot + 1) & mask;
  }
  return slot;
}

const BytePairModel::MergeSlot* BytePairModel::find_merge(std::int32_t left,
                                                          std::int32_t right) const {
  const MergeSlot& slot = merge_table_[slot_of(pair_key(left, right))];
  return slot.pair == kNoPair ? nullptr : &slot;
}

std::optional<std::int32_t> BytePairModel::id_of(std::string_view entry) const {
  const auto found = entries_.find(entry);
  return found == entries_.end() ? std::nullopt : std::optional(found->second);
}

std::int64_t BytePairModel::encode_piece(std::string_view piece, Workspace& workspace,
                                         std::vector<std::int32_t>& ids) const {
  if (ignore_merges_) {
    if (const auto found = whole_pieces_.find(piece); found != whole_pieces_.end()) {
      ids.push_back(found->second);
      return 0;
    }
  }
  if (piece.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
    throw Error(Fault::kData, "a piece of text of more than 2 GiB cannot be encoded");
  }
  std::vector<Workspace::Symbol>& symbols = workspace.symbols;
  std::vector<Workspace::Candidate>& heap = workspace.heap;
  symbols.clear();
  heap.clear();
  std::int64_t num_dropped = 0;
  for (const char byte : piece) {
    const std::int32_t id = byte_ids_[static_cast<unsigned char>(byte)];
    if (id < 0) {
      ++num_dropped;
      continue;
    }
    const auto position = static_cast<std::int32_t>(symbols.size());
    symbols.push_back({id, position - 1, position + 1});
  }
  if (symbols.empty()) {
    return num_dropped;
  }
  symbols.back().next = -1;

  const auto propose = [&](std::int32_t position) {
    const auto& left = symbols[static_cast<std::size_t>(position)];
    if (left.next < 0) {
      return false;
    }
    const MergeSlot* merge = find_merge(left.id, symbols[static_cast<std::size_t>(left.next)].id);
    if (merge == nullptr) {
      return false;
    }
    heap.push_back({merge->rank, position, merge->merged});
    return true;
  };
  for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
    propose(static_cast<std::int32_t>(i));
  }
  std::make_heap(heap.begin(), heap.end(), comes_later);

  constexpr std::int32_t kAbsorbed = -1;  // id of a symbol that its left neighbour has taken in
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), comes_later);
    const Workspace::Candidate best = heap.back();
    heap.pop_back();
    Workspace::Symbol& left = symbols[static_cast<std::size_t>(best.position)];
    if (left.id == kAbsorbed || left.next < 0) {
      continue;
    }
    Workspace::Symbol& right = symbols[static_cast<std::size_t>(left.next)];
    const MergeSlot* merge = find_merge(left.id, right.id);
    // A candidate is stale when the pair at its place has changed since it was proposed.
    if (merge == nullptr || merge->rank != best.rank) {
      continue;
    }
    left.id = best.merged;
    left.next = right.next;
    right.id = kAbsorbed;
    if (left.next >= 0) {
      symbols[static_cast<std::size_t>(left.next)].previous = best.position;
    }
    if (left.previous >= 0 && propose(left.previous)) {
      std::push_heap(heap.begin(), heap.end(), comes_later);
    }
    if (propose(best.position)) {
      std::push_heap(heap.begin(), heap.end(), comes_later);
    }
  }
  for (std::int32_t i = 0; i >= 0; i = symbols[static_cast<std::size_t>(i)].next) {
    ids.push_back(symbols[static_cast<std::size_t>(i)].id);
  }
  return num_dropped;
}

}  // namespace apo::text
