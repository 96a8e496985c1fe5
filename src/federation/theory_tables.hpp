#pragma once

/// @file
/// Inside the room: the conditions of a round as rows of the theory tables.

#include <span>

#include "apo/federation/theory_conditions.hpp"
#include "apo/federation/theory_monitor.hpp"

namespace apo::federation::theory {

/// Appends one row, or one row per client or pair, to the report's tables.
void append_rows(const TheorySetting& setting, int left_out, const RoundConditions& round,
                 std::span<const PairConditions> pairs, RoundReport& report);

}  // namespace apo::federation::theory
