#pragma once

/// @file
/// Byte-pair merges over one piece of text (spec llm.md, section 5.2, step 5).

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace apo::text {

struct StringHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>{}(text);
  }
};
template <class Value>
using StringMap = std::unordered_map<std::string, Value, StringHash, std::equal_to<>>;

struct MergeRule {
  std::int32_t left;
  std::int32_t right;
  std::int32_t merged;
};

/// Immutable; safe to use from several threads with one Workspace each.
class BytePairModel {
 public:
  /// Buffers of encode_piece, so that a text allocates once.
  struct Workspace {
    struct Symbol {
      std::int32_t id;
      std::int32_t previous;
      std::int32_t next;
    };
    struct Candidate {
      std::int32_t rank;
      std::int32_t position;
      std::int32_t merged;
    };
    std::vector<Symbol> symbols;
    std::vector<Candidate> heap;
  };

  /// @param entries        id of each entry, spelled in the byte alphabet
  /// @param merges         in order of rank; of two rules for one pair the later counts, as in the
  ///                       reference
  /// @param ignore_merges  a piece that is an entry becomes that id at once
  BytePairModel(StringMap<std::int32_t> entries, const std::vector<MergeRule>& merges,
                bool ignore_merges);

  /// Appends the ids of `piece` (its raw bytes).
  /// @return number of byte symbols that are not in the vocabulary; they are dropped
  std::int64_t encode_piece(std::string_view piece, Workspace& workspace,
                            std::vector<std::int32_t>& ids) const;

  [[nodiscard]] std::optional<std::int32_t> id_of(std::string_view entry) const;
  [[nodiscard]] const StringMap<std::int32_t>& entries() const { return entries_; }

 private:
  struct MergeSlot {
    std::uint64_t pair = kNoPair;
    std::int32_t rank = 0;
    std::int32_t merged = 0;
  };
  static constexpr std::uint64_t kNoPair = ~std::uint64_t{0};

  [[nodiscard]] std::size_t slot_of(std::uint64_t pair) const;
  [[nodiscard]] const MergeSlot* find_merge(std::int32_t left, std::int32_t right) const;

  StringMap<std::int32_t> entries_;
  StringMap<std::int32_t> whole_pieces_;  // by raw bytes; filled only with ignore_merges
  std::array<std::int32_t, 256> byte_ids_{};
  std::vector<MergeSlot> merge_table_;  // open addressing, a power of two in size
  bool ignore_merges_;
};

}  // namespace apo::text
