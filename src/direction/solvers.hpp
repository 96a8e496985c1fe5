#pragma once

/// @file
/// Inside the room: the solvers behind make_solver().

#include <memory>
#include <span>

#include "apo/direction/direction_solver.hpp"

namespace apo::direction {

/// @param first_rung  where the fallback ladder is entered; other than kOptimal only in tests,
///                    since no known input fails on the first rung
[[nodiscard]] std::unique_ptr<DirectionSolver> make_apo_lp_solver(
    const DirectionOptions& options, LpStatus first_rung = LpStatus::kOptimal);

[[nodiscard]] std::unique_ptr<DirectionSolver> make_fixed_solver(const DirectionOptions& options);

/// Checks sizes, simplex and (where given) the Gram matrix of a problem.
void check(const Problem& problem, bool with_gram);

/// What every solver reports alike: balance quantities and psi.
[[nodiscard]] Direction begin_direction(const Balance& balance, const Problem& problem,
                                        double loss_floor);

/// C y
[[nodiscard]] std::vector<double> times(std::span<const double> gram, std::span<const double> y);
[[nodiscard]] double dot(std::span<const double> x, std::span<const double> y);

/// Objectives whose (C mu)_j is negative by more than rounding: 1e-9 of the row's largest entry.
[[nodiscard]] std::vector<bool> ascending(std::span<const double> gram,
                                          std::span<const double> gram_mu);

}  // namespace apo::direction
