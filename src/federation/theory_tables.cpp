#include "theory_tables.hpp"

#include <algorithm>

#include "theory_algebra.hpp"

namespace apo::federation {
namespace {

/// A column and the member that fills it: declared and written from one list.
template <class Row, class Member>
struct Entry {
  const char* name;
  const char* units;
  const char* long_name;
  Member Row::*member;
};

template <class Row>
using Real = Entry<Row, double>;
template <class Row>
using Whole = Entry<Row, int>;
template <class Row>
using Vector = Entry<Row, std::vector<double>>;

constexpr const char* kFlag = "";  // 1 holds, 0 does not, -1 not applicable

using C = ClientConditions;
using R = RoundConditions;
using P = PairConditions;

constexpr Vector<C> kClientVectors[] = {
    {"loss", "nat", "losses at the common point (l)", &C::loss},
    {"mu", "1", "multipliers of the client's direction", &C::mu},
    {"adjustment", "1", "adjustment vector (A)", &C::adjustment},
    {"product", "1", "inner products of the shared direction with the gradients (v = G'dbar)",
     &C::product},
    {"loss_after", "nat", "losses after the shared step; NaN outside audits", &C::loss_after},
};

constexpr Real<C> kClientReals[] = {
    {"weight", "1", "weight in the mean (rho)", &C::rho},
    {"uniformity", "nat", "KL divergence of the weighted losses from uniform (beta)",
     &C::uniformity},
    {"chebyshev", "nat", "largest preference-weighted loss (psi)", &C::chebyshev},
    {"chebyshev_optimum", "nat", "its minimum over the parameters (psi*), where known",
     &C::chebyshev_optimum},
    {"gap", "nat", "Chebyshev suboptimality (r = psi - psi*)", &C::gap},
    {"direction_norm", "1", "norm of the client's direction (d)", &C::direction_norm},
    {"balancing_norm", "1", "norm of the balancing direction (G A)", &C::balancing_norm},
    {"margin", "1", "inner product of direction and balancing direction (gamma*)", &C::margin},
    {"deviation", "1", "distance of the client's direction to the shared one (Delta)",
     &C::deviation},
    {"balancing_product", "1", "inner product of shared and balancing direction",
     &C::balancing_product},
    {"t2_slack", "1", "slack of (23): margin - Delta ||d_bal|| - L_0 B^2 tau eta", &C::t2_slack},
    {"balancing_smoothness", "1", "Lipschitz constant of the balancing direction (L_bal)",
     &C::balancing_smoothness},
    {"t2_sound_slack", "1", "slack of (23) with L_bal in place of L_0", &C::t2_sound_slack},
    {"deviation_split", "1", "right-hand side of (45), at least Delta", &C::deviation_split},
    {"t4_slack", "1", "slack of (47)", &C::t4_slack},
    {"sacrifice_slack", "1", "smallest d'g_j + ||d_bal|| B over the objectives: premise of (48)",
     &C::sacrifice_slack},
    {"descent_margin", "1", "own-direction margin over the near-active set (zeta, (51))",
     &C::descent_margin},
    {"shared_descent", "1", "shared-direction margin over the near-active set (xi, (57))",
     &C::shared_descent},
    {"near_active_norm", "1", "norm of the shortest vector of the near-active hull ((52))",
     &C::near_active_norm},
    {"comparability", "1", "zeta over the squared near-active norm (sigma)", &C::comparability},
    {"near_active_pl", "1", "squared near-active norm over twice the gap (mu_psi)",
     &C::near_active_pl},
    {"t5_uniform_slack", "1", "slack of (42) with the upper bound of delta_g",
     &C::t5_uniform_slack},
    {"t5_mixed_slack", "1", "slack of (48) with the upper bound of delta_g", &C::t5_mixed_slack},
    {"chebyshev_after", "nat", "psi after the shared step", &C::chebyshev_after},
    {"uniformity_after", "nat", "beta after the shared step", &C::uniformity_after},
    {"smoothness_observed", "1", "largest curvature along the shared step (L_dir)",
     &C::smoothness_observed},
    {"t6_loss_slack", "nat", "smallest slack of (56) over the objectives", &C::t6_loss_slack},
    {"t6_chebyshev_slack", "nat", "slack of (58)", &C::t6_chebyshev_slack},
    {"t7_slack", "nat", "slack of (62) with zeta for c_d r - b", &C::t7_slack},
    {"t10_slack", "nat", "slack of the residual floor (54), where (23) fails", &C::t10_slack},
    {"t11_transfer_slack", "nat", "slack of (78)", &C::t11_transfer_slack},
    {"t11_optimum_slack", "nat", "slack of (79)", &C::t11_optimum_slack},
    {"gradient_residual", "1", "largest distance of a gradient to the clients' mean gradient",
     &C::gradient_residual},
    {"kappa_lp", "1", "condition of the LP's basis (kappa_LP)", &C::kappa_lp},
};

constexpr Whole<C> kClientWholes[] = {
    {"mode", "", "0 balancing, 1 uniform, 2 stationary, 3 fixed weights", &C::mode},
    {"recomputed", "", "1 when Delta was taken from the vectors, to keep its digits",
     &C::recomputed},
    {"t1_first_order", kFlag, "1 when dbar'd_bal > 0; -1: not applicable", &C::t1_first_order},
    {"t1_observed", kFlag,
     "1 when beta did not rise by more than 1e-6 in the step; -1: not applicable", &C::t1_observed},
    {"t2", kFlag, "1 when (23) holds; -1: not applicable", &C::t2},
    {"t2_sound", kFlag, "1 when (23) holds with L_bal; -1: not applicable", &C::t2_sound},
    {"t4", kFlag, "1 when (47) holds; -1: not applicable", &C::t4},
    {"sacrifice_free", "objectives", "j in J \\ J* that violate the premise of (48)",
     &C::sacrifice_free},
    {"sacrifice_bound", "objectives", "other objectives that violate it", &C::sacrifice_bound},
    {"near_active", "objectives", "size of the near-active set ((50))", &C::near_active},
    {"t6", kFlag, "1 when (56) and (58) hold; -1: not applicable", &C::t6},
    {"t7", kFlag, "1 when (62) holds; -1: not applicable", &C::t7},
    {"t10", kFlag, "1 when (54) holds; -1: not applicable", &C::t10},
    {"t11", kFlag, "1 when (78) and (79) hold; -1: losses differ between the clients", &C::t11},
};

constexpr Vector<R> kRoundVectors[] = {
    {"mean_adjustment", "1", "mean adjustment vector", &R::mean_adjustment},
    {"mean_mu", "1", "mean multipliers", &R::mean_mu},
};

constexpr Real<R> kRoundReals[] = {
    {"mean_chebyshev", "nat", "mean of psi over the clients", &R::mean_chebyshev},
    {"mean_gap", "nat", "mean Chebyshev suboptimality", &R::mean_gap},
    {"gradient_bound", "1", "largest gradient norm of the round (B)", &R::gradient_bound},
    {"smoothness", "1", "smoothness constant in use (L_0)", &R::smoothness},
    {"smoothness_observed", "1", "largest curvature along the shared step (L_dir)",
     &R::smoothness_observed},
    {"aggregate_norm", "1", "norm of the shared direction (dbar)", &R::aggregate_norm},
    {"balancing_mass", "1", "weight of the clients in balancing mode (rho+)", &R::balancing_mass},
    {"dispersion", "1", "direction heterogeneity from the deviations (H, (22))", &R::dispersion},
    {"dispersion_from_norms", "1", "the same from the norms alone", &R::dispersion_from_norms},
    {"dispersion_mismatch", "1", "their difference over the mean squared norm",
     &R::dispersion_mismatch},
    {"dispersion_common", "1", "heterogeneity if all clients had the same gradients ((9))",
     &R::dispersion_common},
    {"max_deviation", "1", "largest deviation (Delta)", &R::max_deviation},
    {"mean_uniformity", "nat", "weighted mean of beta", &R::mean_uniformity},
    {"adjustment_variance", "1", "weighted variance of the adjustment", &R::adjustment_variance},
    {"mean_balancing_norm", "1", "mean norm of the balancing directions (D+ of (48))",
     &R::mean_balancing_norm},
    {"min_weight", "1", "smallest weight (rho_min)", &R::min_rho},
    {"min_margin", "1", "smallest margin (gamma*)", &R::min_margin},
    {"max_balancing_norm", "1", "largest norm of a balancing direction", &R::max_balancing_norm},
    {"t3_slack", "1", "slack of (37)", &R::t3_slack},
    {"dissimilarity_low", "1", "lower bound of the gradient dissimilarity (delta_g)",
     &R::dissimilarity_low},
    {"dissimilarity_high", "1", "upper bound of the gradient dissimilarity (delta_g)",
     &R::dissimilarity_high},
    {"t5_uniform_slack", "1", "smallest slack of (42)", &R::t5_uniform_slack},
    {"t5_mixed_slack", "1", "smallest slack of (48)", &R::t5_mixed_slack},
    {"t6_loss_slack", "nat", "smallest slack of (56)", &R::t6_loss_slack},
    {"t6_chebyshev_slack", "nat", "smallest slack of (58)", &R::t6_chebyshev_slack},
    {"t7_slack", "nat", "smallest slack of (62)", &R::t7_slack},
    {"equal_basis_share", "1", "share of pairs of clients with equal LP basis and index sets",
     &R::equal_basis_share},
    {"t8_ratio", "1", "H over the bound (10); all bases equal and common gradients", &R::t8_ratio},
    {"margin_rate", "1", "smallest margin over beta where the margin is positive (kappa_beta)",
     &R::margin_rate},
    {"balancing_rate", "1", "largest ||d_bal|| over sqrt(beta) of the same clients (L_A)",
     &R::balancing_rate},
    {"t10_slack", "nat", "smallest slack of (54)", &R::t10_slack},
    {"preference_diameter", "1", "largest distance of two preferences (delta_lambda)",
     &R::preference_diameter},
    {"training_gap", "nat", "mean psi minus mean psi* (G_opt)", &R::training_gap},
    {"t11_transfer_slack", "nat", "smallest slack of (78)", &R::t11_transfer_slack},
    {"t11_optimum_slack", "nat", "smallest slack of (79)", &R::t11_optimum_slack},
    {"multiplier_diameter", "1", "largest distance of two clients' multipliers",
     &R::multiplier_diameter},
    {"multiplier_variance", "1", "weighted variance of the multipliers", &R::multiplier_variance},
    {"disagreement_drift", "1", "norm of the mean of G (weights - mean weights); audits",
     &R::disagreement_drift},
    {"disagreement_spread", "1", "mean of the norms of G (weights - mean weights)",
     &R::disagreement_spread},
    {"client_drift", "1", "mean squared distance of the clients' parameters to their mean",
     &R::client_drift},
    {"stationarity", "1",
     "squared norm of the shortest convex combination of mean gradients; audits", &R::stationarity},
};

constexpr Whole<R> kRoundWholes[] = {
    {"num_clients", "clients", "clients of this row", &R::num_clients},
    {"num_balancing", "clients", "clients in balancing mode, or with fixed weights",
     &R::num_balancing},
    {"num_uniform", "clients", "clients in uniform mode", &R::num_uniform},
    {"num_stationary", "clients", "clients whose gradients vanish", &R::num_stationary},
    {"smoothness_is_observed", "", "1: L_0 is the observed curvature, so T6 holds by construction",
     &R::smoothness_is_observed},
    {"num_recomputed", "clients", "deviations taken from the vectors", &R::num_recomputed},
    {"t3", kFlag, "1 when (37) holds; -1: not applicable", &R::t3},
    {"t5_uniform", kFlag, "1 when (42) holds; -1: some client balances", &R::t5_uniform},
    {"t5_mixed", kFlag, "1 when (48) holds; -1: no LP directions", &R::t5_mixed},
    {"num_sacrifice_free", "clients", "clients that violate the premise of (48) in J \\ J*",
     &R::num_sacrifice_free},
    {"num_sacrifice_bound", "clients", "clients that violate it elsewhere",
     &R::num_sacrifice_bound},
    {"t6", kFlag, "1 when (56) and (58) hold for all; -1: not applicable", &R::t6},
    {"t7", kFlag, "1 when (62) holds for all; -1: not applicable", &R::t7},
    {"common_gradients", "", "1: Gram matrices and products agree to 1e-6", &R::common_gradients},
    {"t8", kFlag, "1 when (10) holds; -1: not applicable", &R::t8},
    {"t10", kFlag, "1 when (54) holds for all; -1: not applicable", &R::t10},
    {"common_losses", "", "1: the clients' losses agree to 1e-9", &R::common_losses},
    {"t11", kFlag, "1 when (78) and (79) hold for all; -1: losses differ", &R::t11},
};

constexpr Entry<R, Confusion> kRoundConfusions[] = {
    {"t2_first_order", "clients", "counts, row: (23) fails, holds; column: T1 to first order",
     &R::t2_first_order},
    {"t2_observed", "clients", "counts, row: (23) fails, holds; column: beta did not rise",
     &R::t2_observed},
    {"t2_sound_observed", "clients", "counts, row: (23) with L_bal; column: beta did not rise",
     &R::t2_sound_observed},
};

constexpr Real<P> kPairReals[] = {
    {"preference_distance", "1", "distance of the preferences", &P::preference_distance},
    {"adjustment_distance", "1", "distance of the adjustment vectors", &P::adjustment_distance},
    {"multiplier_distance", "1", "distance of the multipliers", &P::multiplier_distance},
    {"gram_distance", "1", "Frobenius distance of the Gram matrices", &P::gram_distance},
    {"loss_distance", "nat", "largest difference of the losses", &P::loss_distance},
    {"t8_ratio", "1", "multiplier distance over kappa_LP times adjustment distance", &P::t8_ratio},
    {"adjustment_constant", "1", "L_adj of (14); common losses", &P::adjustment_constant},
    {"t9_ratio", "1", "adjustment distance over its bound (14)", &P::t9_ratio},
    {"gradient_distance_bound", "1", "upper bound of the largest gradient distance; audits",
     &P::gradient_distance_bound},
    {"lemma8_paper", "1", "T13: multiplier distance over 4 R m eps / beta", &P::lemma8_paper},
    {"lemma8_root", "1", "T13: over 4 R sqrt(m) eps / beta", &P::lemma8_root},
    {"lemma8_gram", "1", "T13: over the bound by Gram matrices", &P::lemma8_gram},
};

void declare_keys(Table& table) {
  table.integer("start_round", "rounds", "Phase I round that this phase started from");
  table.integer("cluster", "", "training group, row of /clusters");
  table.integer("round", "rounds", "0-based");
  table.integer("audit", "", "1: all members on all their pairs; 0: the round's participants");
}

void push_keys(Table& table, const TheorySetting& setting) {
  table.push("start_round", std::int64_t{setting.start_round});
  table.push("cluster", std::int64_t{setting.cluster});
  table.push("round", std::int64_t{setting.round});
  table.push("audit", std::int64_t{setting.audit ? 1 : 0});
}

template <class List>
void declare_reals(Table& table, const List& list, std::vector<std::int64_t> shape = {}) {
  for (const auto& entry : list) {
    table.real(entry.name, entry.units, entry.long_name, shape);
  }
}

template <class List>
void declare_wholes(Table& table, const List& list, std::vector<std::int64_t> shape = {}) {
  for (const auto& entry : list) {
    table.integer(entry.name, entry.units, entry.long_name, shape);
  }
}

template <class Row, std::size_t N>
void push_reals(Table& table, const Real<Row> (&list)[N], const Row& row) {
  for (const auto& entry : list) {
    table.push(entry.name, row.*entry.member);
  }
}

template <class Row, std::size_t N>
void push_wholes(Table& table, const Whole<Row> (&list)[N], const Row& row) {
  for (const auto& entry : list) {
    table.push(entry.name, std::int64_t{row.*entry.member});
  }
}

template <class Row, std::size_t N>
void push_vectors(Table& table, const Vector<Row> (&list)[N], const Row& row) {
  for (const auto& entry : list) {
    table.push(entry.name, std::span<const double>(row.*entry.member));
  }
}

}  // namespace

Table theory_round_table(int num_objectives) {
  Table table;
  declare_keys(table);
  table.integer("num_left_out", "clients", "clients without some objective, or not finite");
  table.real("learning_rate", "1", "step size (eta)");
  table.integer("local_steps", "steps", "local steps between two aggregations (tau)");
  table.real("t9_ratio", "1", "largest T9 ratio of the pairs in the table of pairs");
  table.real("lemma8_paper", "1", "largest T13 ratio, 4 R m eps / beta");
  table.real("lemma8_root", "1", "largest T13 ratio, 4 R sqrt(m) eps / beta");
  table.real("lemma8_gram", "1", "largest T13 ratio, bound by Gram matrices");
  declare_wholes(table, kRoundWholes);
  declare_reals(table, kRoundReals);
  declare_reals(table, kRoundVectors, {num_objectives});
  declare_wholes(table, kRoundConfusions, {2, 2});
  return table;
}

Table theory_client_table(int num_objectives) {
  Table table;
  declare_keys(table);
  table.integer("client", "", "row of /clients");
  table.integer("basis_id", "", "equal ids: equal mode, index sets and optimal basis; 0: no LP");
  declare_wholes(table, kClientWholes);
  declare_reals(table, kClientReals);
  declare_reals(table, kClientVectors, {num_objectives});
  return table;
}

Table theory_pair_table(int /*num_objectives*/) {
  Table table;
  declare_keys(table);
  table.integer("client_a", "", "row of /clients");
  table.integer("client_b", "", "row of /clients");
  table.integer("equal_basis", kFlag, "1: equal LP basis and index sets; -1: no LP");
  declare_reals(table, kPairReals);
  return table;
}

namespace theory {

void append_rows(const TheorySetting& setting, int left_out, const RoundConditions& round,
                 std::span<const PairConditions> pairs, RoundReport& report) {
  Table& table = report.theory_round;
  push_keys(table, setting);
  table.push("num_left_out", std::int64_t{left_out});
  table.push("learning_rate", setting.learning_rate);
  table.push("local_steps", std::int64_t{setting.local_steps});
  PairConditions worst;
  for (const PairConditions& pair : pairs) {
    worst.t9_ratio = larger(worst.t9_ratio, pair.t9_ratio);
    worst.lemma8_paper = larger(worst.lemma8_paper, pair.lemma8_paper);
    worst.lemma8_root = larger(worst.lemma8_root, pair.lemma8_root);
    worst.lemma8_gram = larger(worst.lemma8_gram, pair.lemma8_gram);
  }
  table.push("t9_ratio", worst.t9_ratio);
  table.push("lemma8_paper", worst.lemma8_paper);
  table.push("lemma8_root", worst.lemma8_root);
  table.push("lemma8_gram", worst.lemma8_gram);
  push_wholes(table, kRoundWholes, round);
  push_reals(table, kRoundReals, round);
  push_vectors(table, kRoundVectors, round);
  for (const auto& entry : kRoundConfusions) {
    const Confusion& counts = round.*entry.member;
    table.push(entry.name, std::vector<double>(counts.begin(), counts.end()));
  }

  for (const ClientConditions& row : round.clients) {
    push_keys(report.theory_clients, setting);
    report.theory_clients.push("client", std::int64_t{row.client});
    report.theory_clients.push("basis_id", static_cast<std::int64_t>(row.basis_id));
    push_wholes(report.theory_clients, kClientWholes, row);
    push_reals(report.theory_clients, kClientReals, row);
    push_vectors(report.theory_clients, kClientVectors, row);
  }
  for (const PairConditions& pair : pairs) {
    push_keys(report.theory_pairs, setting);
    report.theory_pairs.push("client_a", std::int64_t{pair.client_a});
    report.theory_pairs.push("client_b", std::int64_t{pair.client_b});
    report.theory_pairs.push("equal_basis", std::int64_t{pair.equal_basis});
    push_reals(report.theory_pairs, kPairReals, pair);
  }
}

}  // namespace theory
}  // namespace apo::federation
