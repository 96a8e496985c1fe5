#pragma once

/// @file
/// The theory quantities of one round as functions of m x m numbers per client (spec algorithms.md,
/// sections 3.4, 3.5 and 5; equation numbers are the APO paper's). Float64, no communicator.
///
/// Conventions: d_i = sum_j weight_j g_j, dbar = sum_i rho_i d_i, the step is w+ = w - eta dbar. A
/// number that is not defined is NaN; a flag is 1 (holds), 0 (does not) or -1 (not applicable).
/// A slack is what an inequality leaves: negative means violated.

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "apo/core/rng.hpp"
#include "apo/direction/direction_solver.hpp"

namespace apo::federation {

inline constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();
inline constexpr int kNotApplicable = -1;

/// One client at the common point w. What was not measured is NaN, or empty.
struct ClientTerms {
  int client = 0;
  double rho = 0.0;                ///< weight in the mean, > 0; 1 in all
  std::vector<double> loss;        ///< l, [m], positive
  std::vector<double> preference;  ///< lambda, [m], on the simplex
  std::vector<double> gram;        ///< C = G'G, [m, m]
  direction::Direction direction;
  std::vector<double> product;              ///< v = G' dbar, [m]
  double deviation = kUndefined;            ///< Delta = ||dbar - d||
  double deviation_uniform = kUndefined;    ///< ||dbar0 - d||; NaN without uniform clients
  double deviation_balancing = kUndefined;  ///< ||dbar+ - d||; NaN without balancing clients
  int recomputed = 0;                       ///< deviations taken from the vectors themselves
  double chebyshev_optimum = kUndefined;    ///< psi*
  double update_norm = kUndefined;          ///< ||theta - w|| after the client's local steps
  std::vector<double> loss_after;           ///< l at w+, [m]
  /// -G'(w+ - w) / eta, [m]: v with the step as the parameters' precision took it
  std::vector<double> product_taken;
  std::vector<double> gradient_residual;  ///< ||g_j - gbar_j||, [m]
};

/// What all clients of the round share.
struct SharedTerms {
  double learning_rate = 0.0;        ///< eta
  int local_steps = 1;               ///< tau
  double smoothness = kUndefined;    ///< L_0; NaN: what the losses after the step show
  double norm = kUndefined;          ///< ||dbar||
  double norm_taken = kUndefined;    ///< ||w+ - w|| / eta
  double update_norm = kUndefined;   ///< ||sum_i rho_i (theta_i - w)||
  std::vector<double> mean_gram;     ///< Gram matrix of gbar_j = sum_i rho_i g_ij, [m, m]
  double disagreement = kUndefined;  ///< ||sum_i rho_i G_i (weight_i - mean weight)||
  double firm_beta = 0.0;            ///< > 0: the multipliers are FIRM's, T13 is evaluated
  std::string firm_preference = "none";
  std::string gram_normalisation = "none";  ///< of the solver, as in DirectionOptions
  /// Relative rounding error of the losses: flags on losses after the step forgive that much.
  double loss_tolerance = 1e-12;
};

/// Whether a client belongs to C0 (uniform descent; its gradients may vanish) or to C+ of (39). By
/// the direction's mode, since beta = 0 has measure zero; fixed weights count as C+.
[[nodiscard]] bool is_uniform_block(direction::Mode mode);

/// ||a - d|| from products with an aggregate a, by ||a||^2 - 2 weight'G'a + weight'C weight.
struct Deviation {
  double value = 0.0;
  bool cancelled = false;  ///< below 1e-3 of the norms: half of the digits are lost, recompute
};
[[nodiscard]] Deviation deviation_from_products(double aggregate_norm,
                                                std::span<const double> product,
                                                std::span<const double> weight,
                                                std::span<const double> gram);

struct ClientConditions {
  int client = 0;
  double rho = 0.0;
  int mode = 0;                           ///< direction::Mode
  std::vector<double> loss;               ///< l, [m]
  std::vector<double> mu;                 ///< [m]
  std::vector<double> adjustment;         ///< A, [m]
  std::vector<double> product;            ///< v = G' dbar, [m]
  double uniformity = kUndefined;         ///< beta
  double chebyshev = kUndefined;          ///< psi
  double chebyshev_optimum = kUndefined;  ///< psi*
  double gap = kUndefined;                ///< r = psi - psi*
  double direction_norm = kUndefined;     ///< ||d||
  double balancing_norm = kUndefined;     ///< ||d_bal|| = ||G A||
  double margin = kUndefined;             ///< gamma* = d'd_bal
  double deviation = kUndefined;          ///< Delta
  int recomputed = 0;
  double balancing_product = kUndefined;  ///< dbar'd_bal = A'v
  int t1_first_order = kNotApplicable;    ///< dbar'd_bal > 0
  int t1_observed = kNotApplicable;       ///< beta(w+) <= beta(w)
  double t2_slack = kUndefined;           ///< (23): gamma* - Delta ||d_bal|| - L_0 B^2 tau eta
  int t2 = kNotApplicable;
  double balancing_smoothness = kUndefined;  ///< L_bal within tau eta B of w
  double t2_sound_slack = kUndefined;        ///< (23) with L_bal for L_0
  int t2_sound = kNotApplicable;
  double deviation_split = kUndefined;  ///< rho0 ||dbar0 - d|| + rho+ ||dbar+ - d||, (45)
  double t4_slack = kUndefined;         ///< (47): (23) with the split for Delta
  int t4 = kNotApplicable;
  double sacrifice_slack = kUndefined;  ///< min_j d'g_j + ||d_bal|| B: premise of (48)
  int sacrifice_free = 0;   ///< j in J \ J* where it fails: the LP does not constrain them
  int sacrifice_bound = 0;  ///< other j where it fails
  int near_active = 0;      ///< size of the near-active set (50)
  double descent_margin = kUndefined;    ///< zeta, lhs of (51)
  double shared_descent = kUndefined;    ///< xi, (57)
  double near_active_norm = kUndefined;  ///< ||d_M||, (52)
  double comparability = kUndefined;     ///< sigma = zeta / ||d_M||^2
  double near_active_pl = kUndefined;    ///< mu_psi = ||d_M||^2 / (2 r)
  double t5_uniform_slack = kUndefined;  ///< (42): min_j v_j + B delta_g
  double t5_mixed_slack = kUndefined;    ///< (48): the same + rho+ B D+
  std::vector<double> loss_after;        ///< [m]
  double chebyshev_after = kUndefined;
  double uniformity_after = kUndefined;
  double smoothness_observed = kUndefined;  ///< max_j 2 (l+ - l + eta v) / (eta ||dbar||)^2
  double t6_loss_slack = kUndefined;        ///< (56), smallest over j
  double t6_chebyshev_slack = kUndefined;   ///< (58)
  int t6 = kNotApplicable;
  double t7_slack = kUndefined;  ///< (62) with zeta for c_d r - b, its largest value at w
  int t7 = kNotApplicable;
  double t10_slack = kUndefined;  ///< (54), where (23) fails
  int t10 = kNotApplicable;
  double t11_transfer_slack = kUndefined;  ///< (78)
  double t11_optimum_slack = kUndefined;   ///< (79)
  int t11 = kNotApplicable;                ///< both, where clients share the losses
  double gradient_residual = kUndefined;   ///< max_j ||g_j - gbar_j||
  double kappa_lp = kUndefined;
  std::uint64_t basis_id = 0;
};

/// Counts of T2 against T1: index 2 * (T2 holds) + (T1 holds).
using Confusion = std::array<int, 4>;

struct RoundConditions {
  int num_clients = 0;
  int num_balancing = 0;
  int num_uniform = 0;
  int num_stationary = 0;
  double mean_chebyshev = kUndefined;  ///< mean of psi over the clients
  double mean_gap = kUndefined;
  double gradient_bound = kUndefined;  ///< B = max_ij ||g_ij|| of this round
  double smoothness = kUndefined;      ///< L_0 as used
  double smoothness_observed = kUndefined;
  int smoothness_is_observed = 0;  ///< 1: L_0 is a lower estimate, so T6 holds by construction
  double aggregate_norm = kUndefined;
  double balancing_mass = 0.0;                ///< rho+
  double dispersion = kUndefined;             ///< H = sum rho Delta^2, (22)
  double dispersion_from_norms = kUndefined;  ///< sum rho ||d||^2 - ||dbar||^2
  double dispersion_mismatch = kUndefined;    ///< their difference over sum rho ||d||^2
  double dispersion_common = kUndefined;      ///< (9): H if all clients had the same gradients
  double max_deviation = kUndefined;
  int num_recomputed = 0;
  double mean_uniformity = kUndefined;      ///< sum rho beta
  std::vector<double> mean_adjustment;      ///< [m]
  double adjustment_variance = kUndefined;  ///< V(A) = sum rho ||A - mean||^2
  double mean_balancing_norm = kUndefined;  ///< D+ of (48)
  double min_rho = kUndefined;
  double min_margin = kUndefined;  ///< min gamma*
  double max_balancing_norm = kUndefined;
  double t3_slack = kUndefined;  ///< (37)
  int t3 = kNotApplicable;
  Confusion t2_first_order{};
  Confusion t2_observed{};
  Confusion t2_sound_observed{};
  double dissimilarity_low = kUndefined;   ///< delta_g >= this, section 5.4
  double dissimilarity_high = kUndefined;  ///< delta_g <= this
  double t5_uniform_slack = kUndefined;
  int t5_uniform = kNotApplicable;  ///< all clients uniform
  double t5_mixed_slack = kUndefined;
  int t5_mixed = kNotApplicable;
  int num_sacrifice_free = 0;   ///< clients that violate the premise of (48) for j in J \ J*
  int num_sacrifice_bound = 0;  ///< elsewhere
  double t6_loss_slack = kUndefined;
  double t6_chebyshev_slack = kUndefined;
  int t6 = kNotApplicable;
  double t7_slack = kUndefined;
  int t7 = kNotApplicable;
  double equal_basis_share = kUndefined;  ///< of all pairs of clients
  int common_gradients = 0;               ///< 1: Gram matrices and products agree to 1e-6
  double t8_ratio = kUndefined;  ///< H over kappa_LP^2 sigma_max(C) V(A), (10); all bases equal
  int t8 = kNotApplicable;
  double margin_rate = kUndefined;     ///< kappa_beta = min gamma* / beta where gamma* > 0
  double balancing_rate = kUndefined;  ///< L_A = max ||d_bal|| / sqrt(beta) over the same
  double t10_slack = kUndefined;
  int t10 = kNotApplicable;
  double preference_diameter = kUndefined;  ///< delta_lambda
  int common_losses = 0;                    ///< 1: losses agree to 1e-9
  double training_gap = kUndefined;         ///< G_opt of (79)
  double t11_transfer_slack = kUndefined;
  double t11_optimum_slack = kUndefined;
  int t11 = kNotApplicable;
  // Multipliers and drift (section 3.5); means over clients are weighted by rho.
  std::vector<double> mean_mu;  ///< [m]
  double multiplier_diameter = kUndefined;
  double multiplier_variance = kUndefined;
  double disagreement_drift = kUndefined;   ///< ||sum rho G (weight - mean)||
  double disagreement_spread = kUndefined;  ///< sum rho ||G (weight - mean)||
  double client_drift = kUndefined;         ///< sum rho ||theta - theta mean||^2
  double stationarity = kUndefined;         ///< min over the simplex of ||Gbar mu||^2
  std::vector<ClientConditions> clients;
};

/// Evaluates T1 to T8, T10 and T11 and the drift metrics over the clients of one round.
/// @throws Error(kInternal)  no clients, or sizes that disagree
[[nodiscard]] RoundConditions evaluate_round(std::span<const ClientTerms> clients,
                                             const SharedTerms& shared);

/// Two clients of the round.
struct PairConditions {
  int client_a = 0;
  int client_b = 0;
  double preference_distance = kUndefined;
  double adjustment_distance = kUndefined;
  double multiplier_distance = kUndefined;
  double gram_distance = kUndefined;  ///< Frobenius
  double loss_distance = kUndefined;  ///< largest difference
  int equal_basis = kNotApplicable;
  double t8_ratio = kUndefined;  ///< ||mu_a - mu_b|| over kappa_LP ||A_a - A_b||; equal bases and C
  double adjustment_constant = kUndefined;  ///< L_adj of (14)
  double t9_ratio = kUndefined;             ///< (14); common losses
  /// max_j r_aj + r_bj >= max_j ||g_j^a - g_j^b||
  double gradient_distance_bound = kUndefined;
  double lemma8_paper = kUndefined;  ///< T13, see direction/lemma8.hpp
  double lemma8_root = kUndefined;
  double lemma8_gram = kUndefined;
};

/// All pairs, or `max_pairs` of them drawn with `key` when there are more, in (a, b) order.
[[nodiscard]] std::vector<PairConditions> evaluate_pairs(std::span<const ClientTerms> clients,
                                                         const SharedTerms& shared, int max_pairs,
                                                         const StreamKey& key);

/// One pair; everything a row of the table holds.
[[nodiscard]] PairConditions evaluate_pair(const ClientTerms& a, const ClientTerms& b,
                                           const SharedTerms& shared);

/// Lower and upper bound of delta_g = max_{i,i',j} ||g_ij - g_i'j|| from distances to the mean
/// (section 5.4). @param residual  [n][m]
struct Sandwich {
  double low = 0.0;
  double high = 0.0;
};
[[nodiscard]] Sandwich gradient_dissimilarity(std::span<const std::vector<double>> residual);

/// Largest distance between two of the points; above kMaxExactDiameter points the upper bound by
/// twice the largest distance to the mean.
inline constexpr std::size_t kMaxExactDiameter = 4096;
[[nodiscard]] double diameter(std::span<const std::vector<double>> points);

/// L_bal: w -> G(w) A(w) has this Lipschitz constant between w and any point within `radius` of it,
/// by ||A||_1 L_0 + m B^2 ||dA/dl||_F with the largest values of the three that gradients of at
/// most B and smoothness L_0 allow there (section 5.3, caveat; 0.1, identity 3). Radius 0: at w
/// itself. Infinite where a loss can reach 0.
[[nodiscard]] double balancing_smoothness(std::span<const double> loss,
                                          std::span<const double> preference, double smoothness,
                                          double gradient_bound, double radius);

/// L_adj of (13), (14). @param c  smallest m l_hat of the clients that are compared
/// @param z_min  their smallest Z
[[nodiscard]] double adjustment_constant(int m, double c, double largest_loss, double z_min);

/// Right-hand side of (54).
[[nodiscard]] double residual_floor(double balancing_rate, double margin_rate, double deviation,
                                    double smoothness, double gradient_bound, int local_steps,
                                    double learning_rate);

/// What (51) is fitted to: the descent margin zeta and the gap r of one client at one iterate.
struct MarginSample {
  double margin = 0.0;
  double gap = 0.0;
};

/// c_d and b of (51) with the smallest band radius (64) on a grid of c_d in (0, 1/eta]: for each
/// c_d, b is the smallest tolerance that every sample allows (section 5.5).
struct DescentFit {
  double rate = kUndefined;       ///< c_d
  double tolerance = kUndefined;  ///< b
  double radius = kUndefined;     ///< eps_0 = the three pieces
  double radius_deviation = kUndefined;
  double radius_step = kUndefined;
  double radius_tolerance = kUndefined;
};
/// @param deviation  bound on Delta along the trajectory
/// @throws Error(kInternal)  no samples, or eta not positive
[[nodiscard]] DescentFit fit_descent_margin(std::span<const MarginSample> samples,
                                            double lambda_max, double gradient_bound,
                                            double deviation, double smoothness,
                                            double learning_rate);
/// The band of a given c_d.
[[nodiscard]] DescentFit descent_band(double rate, std::span<const MarginSample> samples,
                                      double lambda_max, double gradient_bound, double deviation,
                                      double smoothness, double learning_rate);

/// delta_0 of Theorem 3.4.
struct AdaptationProcess {
  double step = 0.0;               ///< alpha
  int steps = 0;                   ///< K
  double start_gap = 0.0;          ///< Delta_0
  double pl = 0.0;                 ///< mu_PL
  double smoothness = 0.0;         ///< L_0
  double precondition_low = 1.0;   ///< p_-
  double precondition_high = 1.0;  ///< p_+
  double noise_variance = 0.0;     ///< sigma_0^2 of one sample's gradient
  int samples = 1;                 ///< S
};
/// @throws Error(kInternal)  alpha beyond p_- / (L_0 p_+^2), where the theorem ends
[[nodiscard]] double adaptation_gap_bound(const AdaptationProcess& process);

/// 1/T sum_t ||mu_t - mu_{t-1}|| of one client's multipliers (section 3.5). @param trajectory [T+1]
[[nodiscard]] double temporal_roughness(std::span<const std::vector<double>> trajectory);

}  // namespace apo::federation
