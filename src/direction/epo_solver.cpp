#include "solvers.hpp"

#include "apo/core/error.hpp"

namespace apo::direction {

/// The linear program of exact Pareto optimal search (Mahapatra and Rajan, 2020). On simplex
/// preferences its balancing mode is LP (4) of the APO paper, which was taken from it. Its descent
/// mode keeps (C mu)_j >= 0 for all objectives; the restricted form also keeps the non-uniformity
/// from rising faster than the best single gradient would make it:
///     mu'C A >= min(0, max_j (C A)_j),
/// which the relaxed form drops. Unlike (4) the restricted program can be infeasible (three or more
/// objectives); the authors then fall back to the preference, here to the relaxed form.
///
/// The authors' code compares exactly (bottleneck_tolerance = ascent_tolerance = 0) with
/// beta_tolerance = 1e-4; their trainers scale mu by m, which is left to the learning rate.
std::unique_ptr<DirectionSolver> make_epo_solver(const DirectionOptions& options) {
  expects(options.epo_mode == "restricted" || options.epo_mode == "relaxed",
          "direction: unknown epo_mode '" + options.epo_mode + "', expected restricted or relaxed");
  DirectionOptions lp = options;
  lp.uniform_guard = options.epo_mode == "restricted" ? "epo_restricted" : "none";
  return make_apo_lp_solver(lp);
}

}  // namespace apo::direction
