#pragma once

/// @file
/// Inside the probe: its parts, in the order of the report. Each appends checks and tables.

#include "apo/core/rng.hpp"
#include "apo/methods/probe.hpp"

namespace apo::methods::probe {

void check_balancing(const ProbeOptions& options, ProbeReport& report);      ///< T1 to T3, T10
void check_descent(const ProbeOptions& options, ProbeReport& report);        ///< H, Delta, T4 to T6
void check_trajectory(const ProbeOptions& options, ProbeReport& report);     ///< T7
void check_common_losses(const ProbeOptions& options, ProbeReport& report);  ///< T8, T9, T11
void check_adaptation(const ProbeOptions& options, ProbeReport& report);     ///< T12
void check_firm(const ProbeOptions& options, ProbeReport& report);           ///< T13
void check_statements(const ProbeOptions& options, ProbeReport& report);     ///< section 1.5
void check_examples(const ProbeOptions& options, ProbeReport& report);       ///< T-G

/// A stream of its own for each part and case.
[[nodiscard]] CounterRng stream(const ProbeOptions& options, std::uint64_t part,
                                std::uint64_t index);
/// `share` of options.cases, at least 1.
[[nodiscard]] int scaled(const ProbeOptions& options, double share);

}  // namespace apo::methods::probe
