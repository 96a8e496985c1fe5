#pragma once

/// @file
/// Inside the plan: counts that several of its parts need.

#include "apo/methods/plan.hpp"

namespace apo::methods::plan {

inline constexpr double kMib = 1024.0 * 1024.0;

/// Start rounds that Phase II (or the evaluation) begins from.
[[nodiscard]] int num_variants(const PlanInputs& inputs);

/// Blocks in which an audit of so many members adds up (federation's audits).
[[nodiscard]] int audit_groups(const PlanInputs& inputs, int num_members);

}  // namespace apo::methods::plan
