/// @file
/// Statements about clients that share the losses and differ in preference: T8 (Prop. H.7), T9
/// (Prop. H.10), T11 (Prop. H.36, Cor. H.37).

#include <algorithm>
#include <map>

#include "probe_check.hpp"
#include "probe_cluster.hpp"
#include "probe_parts.hpp"
#include <fmt/format.h>

namespace apo::methods::probe {
namespace {

/// H <= kappa^2 sigma_max V(A) inside every group of clients with equal bases, weights
/// renormalised.
void check_groups(const State& state, Check& check) {
  std::map<std::uint64_t, std::vector<federation::ClientTerms>> groups;
  for (const federation::ClientTerms& terms : state.terms) {
    if (terms.direction.basis_id != 0) {
      groups[terms.direction.basis_id].push_back(terms);
    }
  }
  for (auto& [id, group] : groups) {
    if (group.size() < 2) {
      continue;
    }
    double mass = 0.0;
    for (const federation::ClientTerms& terms : group) {
      mass += terms.rho;
    }
    const std::vector<Vector>& gradients = state.points.front().gradients;  // common to all
    Vector mean(state.mean.size(), 0.0);
    for (federation::ClientTerms& terms : group) {
      terms.rho /= mass;
      add(mean, terms.rho, combine(gradients, terms.direction.weight));
    }
    for (federation::ClientTerms& terms : group) {
      terms.loss_after.clear();
      terms.product_taken.clear();
      terms.gradient_residual.clear();
      terms.deviation = distance(mean, combine(gradients, terms.direction.weight));
      terms.deviation_uniform = terms.deviation_balancing = federation::kUndefined;
      for (std::size_t j = 0; j < gradients.size(); ++j) {
        terms.product[j] = inner(gradients[j], mean);
      }
    }
    federation::SharedTerms shared = state.shared;
    shared.norm = length(mean);
    check.ratio(federation::evaluate_round(group, shared).t8_ratio, 1e-6);
  }
}

}  // namespace

void check_common_losses(const ProbeOptions& options, ProbeReport& report) {
  const std::string where = "one loss vector, T-D, T-C and T-E";
  Check pairs("T8", "||mu_i - mu_i'|| <= kappa_LP ||A_i - A_i'||, equal bases", where);
  Check groups("T8", "(10) H <= kappa_LP^2 sigma_max(C) V(A), equal bases", where);
  Check adjustment("T9", "(14) ||A_i - A_i'|| <= L_adj ||lambda_i - lambda_i'||", where);
  Check transfer("T11", "(78) psi_new <= psi_Cn + delta_lambda ||l||_inf", where);
  Check optimum("T11", "(79) psi_i - psi_i* <= G_opt + delta_lambda (||l||_inf + L*)", where);
  ProbeTable table{"Pairs of clients with equal LP basis and index sets (what T8 needs)",
                   {"preferences", "m", "pairs", "equal", "moving with A"},
                   {}};
  const auto solver = exact_lp();
  struct Kind {
    const char* name;
    Preferences preferences;
  };
  std::uint64_t part = 40;
  for (const Kind kind :
       {Kind{"near (5 %)", Preferences::kNear}, Kind{"independent", Preferences::kIndependent}}) {
    for (int m = 2; m <= 4; ++m) {
      std::int64_t total = 0;
      std::int64_t equal = 0;
      std::int64_t moving = 0;
      const int rounds = scaled(options, 0.4);
      for (int k = 0; k < rounds; ++k) {
        CounterRng rng = stream(options, part, static_cast<std::uint64_t>(k));
        Ensemble e;
        e.family = m > 2 || k % 3 == 0 ? "T-D" : (k % 3 == 1 ? "T-C" : "T-E");
        e.num_objectives = m;
        e.clients = 6;
        e.spread = 0.0;
        e.preferences = kind.preferences;
        const Scenario scenario = draw(e, rng);
        const State state = compute_state(scenario, scenario.w, *solver, options);
        for (const federation::PairConditions& pair : federation::evaluate_pairs(
                 state.terms, state.shared, 1000, {options.seed, Purpose::kMonteCarlo})) {
          ++total;
          adjustment.ratio(pair.t9_ratio);
          if (pair.equal_basis == 1) {
            ++equal;
            moving += pair.multiplier_distance > 1e-9 ? 1 : 0;
            pairs.ratio(pair.t8_ratio, 1e-6);
          }
        }
        check_groups(state, groups);

        const federation::RoundConditions round =
            federation::evaluate_round(state.terms, state.shared);
        // L* of (80) from the optima themselves; the monitors only have psi* / lambda_min.
        double largest = 0.0;
        double at_optima = 0.0;
        for (std::size_t i = 0; i < state.terms.size(); ++i) {
          const Vector& loss = state.terms[i].loss;
          const objective::ParetoPoint best =
              scenario.problem->pareto_point(scenario.clients[i].preference);
          largest = std::max(largest, *std::max_element(loss.begin(), loss.end()));
          at_optima = std::max(at_optima, *std::max_element(best.loss.begin(), best.loss.end()));
        }
        for (const federation::ClientConditions& row : round.clients) {
          transfer.slack(row.t11_transfer_slack, largest);
          optimum.slack(
              round.training_gap + round.preference_diameter * (largest + at_optima) - row.gap,
              largest);
        }
      }
      ++part;
      table.rows.push_back(
          {kind.name, std::to_string(m), std::to_string(total),
           fmt::format("{:.1f} %", 100.0 * static_cast<double>(equal) / static_cast<double>(total)),
           fmt::format("{:.1f} %",
                       100.0 * static_cast<double>(moving) / static_cast<double>(total))});
    }
  }
  for (const Check* check : {&pairs, &groups, &adjustment, &transfer, &optimum}) {
    report.checks.push_back(check->result());
  }
  report.tables.push_back(std::move(table));
}

}  // namespace apo::methods::probe
