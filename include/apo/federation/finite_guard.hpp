#pragma once

/// @file
/// Ends a training that has diverged, instead of letting it run on with nothing to show.

#include <map>

#include "apo/federation/records.hpp"

namespace apo::federation {

/// A participant whose numbers are not finite leaves its round (algorithms.md 1.6), which is no
/// reason to stop. But a cluster none of whose participants has finite numbers in kMaxEmptyRounds
/// rounds in a row learns nothing any more, and parameters that are not finite are lost.
class FiniteGuard {
 public:
  static constexpr int kMaxEmptyRounds = 3;

  /// To be called with each round of each cluster, in order; on one rank (the message is for the
  /// user, once) or on all.
  ///
  /// @param report  with its steps
  /// @throws Error(kData)  names phase, round, cluster and clients. Not worth a requeue: the same
  ///         numbers come again
  void check(const RoundReport& report);

 private:
  std::map<int, int> empty_rounds_;  ///< by cluster: in a row, up to now
};

}  // namespace apo::federation
