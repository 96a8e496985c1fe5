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

/// EPO's LP, restricted or relaxed (options.epo_mode; algorithms.md 1.1 and the EPO paper).
[[nodiscard]] std::unique_ptr<DirectionSolver> make_epo_solver(const DirectionOptions& options);

/// Solvers that are functions of the Gram matrix, losses and preference by a closed rule or a small
/// QP: mgda, firm, cagrad, pcgrad, nash_mtl, upgrad, dual_proj, aligned_mtl, imtl_g,
/// smooth_chebyshev (algorithms.md 3.1 to 3.3 and 3.7).
/// @throws Error(kInternal)  another name
[[nodiscard]] std::unique_ptr<DirectionSolver> make_aggregator(const DirectionOptions& options);

/// `inner` on gradients divided by s_j (options.gradient_normalisation: none; l2: s_j = ||g_j||;
/// loss: l_j; loss+: l_j ||g_j||), its weights mixed with the uniform ones (options.mix_floor). The
/// result's weight, gamma, direction_norm and counts are of the gradients as they are; mu and what
/// belongs to the LP (lp_status, min_slack, basis_id, ...) are the inner solver's.
[[nodiscard]] std::unique_ptr<DirectionSolver> make_normalised_solver(
    std::unique_ptr<DirectionSolver> inner, const DirectionOptions& options);

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
