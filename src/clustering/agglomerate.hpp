#pragma once

/// @file
/// Inside the room: greedy agglomeration of numbered slots. What a join costs, and how the cheapest
/// one is found, is up to a Linkage.

#include <limits>
#include <vector>

namespace apo::clustering {

/// The cheapest partner of a slot.
struct Candidate {
  double cost = std::numeric_limits<double>::infinity();
  int slot = -1;  ///< -1: nobody is left to join
};

/// One join: `slot` (the smaller number) keeps the union, `other` is gone afterwards.
struct Join {
  int slot = 0;
  int other = 0;
  double cost = 0.0;
};

/// Costs between the living slots. The cost of a pair is one number, the same bits asked from
/// either side, and stays what it is while both live unchanged.
class Linkage {
 public:
  Linkage() = default;
  Linkage(const Linkage&) = delete;
  Linkage& operator=(const Linkage&) = delete;
  virtual ~Linkage() = default;

  /// Among the living slots the one that is cheapest to join with `slot`; ties to the lower slot.
  [[nodiscard]] virtual Candidate nearest(int slot) const = 0;

  /// `keep` becomes the union of both, `gone` dies.
  virtual void join(int keep, int gone) = 0;
};

/// Joins the slots 0..count-1 until no slot has a partner: always the pair of smallest cost, ties
/// by the smaller slot, then by the smaller other slot. So the result is that of comparing all
/// pairs before every join, bit for bit, ties included, and whether or not costs rise.
///
/// Every slot waits in a heap with the partner that was its cheapest when it last looked, and looks
/// again only when that entry comes up and the partner has changed. Of two living slots the one
/// that looked later saw the other, so its entry costs no more than the pair: no pair is missed.
/// About 3 count searches on data in general position.
[[nodiscard]] std::vector<Join> agglomerate(int count, Linkage& linkage);

}  // namespace apo::clustering
