/// @file
/// T1 to T3 and T10: whether the shared direction balances every client (Theorem H.13, Cor. H.14,
/// Lemma H.22).

#include <algorithm>
#include <array>
#include <cmath>

#include "probe_check.hpp"
#include "probe_cluster.hpp"
#include "probe_parts.hpp"

#include "apo/core/balance.hpp"

namespace apo::methods::probe {
namespace {

using federation::ClientConditions;
using federation::Confusion;
using federation::RoundConditions;

constexpr std::array<const char*, 3> kFamilies = {"T-D", "T-C", "T-E"};

/// Heterogeneous clusters of every kind: tight and wide, near and far from the front, small and
/// large steps.
Ensemble hard_ensemble(const char* family, CounterRng& rng) {
  Ensemble e;
  e.family = family;
  e.num_objectives = 2 + static_cast<int>(rng.below(3));
  e.clients = 2 + static_cast<int>(rng.below(6));
  e.spread = std::array{0.0, 0.01, 0.1, 0.4}[rng.below(4)];
  e.preferences =
      std::array{Preferences::kCommon, Preferences::kNear, Preferences::kIndependent}[rng.below(3)];
  e.eta = std::pow(10.0, -5.0 + 4.7 * rng.uniform());
  return e;
}

/// (23) where directions are taken after local steps of plain descent: client i's own direction at
/// its last local iterate, judged at the common start.
struct LocalSteps {
  bool range_condition = false;        ///< with L_0
  bool range_condition_sound = false;  ///< with L_bal
  bool balances = false;               ///< dbar'd_bal > 0 at the start
};

std::vector<LocalSteps> run_local_steps(const Scenario& scenario, int steps,
                                        direction::DirectionSolver& solver,
                                        const ProbeOptions& options) {
  struct Last {
    Vector direction;
    Vector balancing;
  };
  std::vector<Last> last;
  double bound = 0.0;
  Vector mean(scenario.w.size(), 0.0);
  for (const Client& client : scenario.clients) {
    Vector w = scenario.w;
    Last now;
    for (int k = 0; k < steps; ++k) {
      const Point point = evaluate(scenario, client, w);
      Vector gram;
      for (const Vector& a : point.gradients) {
        bound = std::max(bound, length(a));
        for (const Vector& b : point.gradients) {
          gram.push_back(inner(a, b));
        }
      }
      const direction::Direction d = solver.solve({point.loss, gram, client.preference});
      now = {combine(point.gradients, d.weight), combine(point.gradients, d.adjustment)};
      if (k + 1 < steps) {
        add(w, -scenario.eta, now.direction);
      }
    }
    add(mean, client.rho, now.direction);
    last.push_back(std::move(now));
  }
  std::vector<LocalSteps> result;
  for (std::size_t i = 0; i < last.size(); ++i) {
    const Client& client = scenario.clients[i];
    const Point start = evaluate(scenario, client, scenario.w);
    const double smoothness = options.smoothness_factor * scenario.problem->smoothness();
    const double reach = steps * scenario.eta;
    const double rest =
        inner(last[i].direction, last[i].balancing) -
        options.deviation_factor * distance(mean, last[i].direction) * length(last[i].balancing);
    const double sound = federation::balancing_smoothness(start.loss, client.preference, smoothness,
                                                          bound, reach * bound);
    const Vector adjustment = balance(start.loss, client.preference).adjustment;
    result.push_back({rest > smoothness * bound * bound * reach,
                      rest > sound * bound * bound * reach,
                      inner(mean, combine(start.gradients, adjustment)) > 0.0});
  }
  return result;
}

std::vector<std::string> confusion_row(const std::string& name, const Confusion& c) {
  return {name, std::to_string(c[0]), std::to_string(c[1]), std::to_string(c[2]),
          std::to_string(c[3])};
}

void accumulate(Confusion& sum, const Confusion& part) {
  for (std::size_t k = 0; k < sum.size(); ++k) {
    sum[k] += part[k];
  }
}

}  // namespace

void check_balancing(const ProbeOptions& options, ProbeReport& report) {
  const std::string where = "T-I clients on T-D, T-C and T-E";
  Check first_order("T2 => T1", "(23) => dbar'd_bal,i > 0", where);
  Check sound("T2 => T1", "(23) with L_bal => beta_i(w - eta dbar) <= beta_i(w)", where);
  Check local("T2 => T1", "(23) with L_bal after 2 to 4 local steps => dbar'd_bal,i > 0", where);
  Check cluster("T3 => T2", "(37) => (23) for every client", where);
  Check floor("T10", "(54) beta_i <= residual floor, where (23) fails and gamma* > 0", where);
  Check printed("T2 -> T1", "(23) with L_0 as printed -> beta_i(w - eta dbar) <= beta_i(w)", where,
                false);
  Check printed_local("T2 -> T1", "(23) with L_0 as printed, after local steps -> dbar'd_bal,i > 0",
                      where, false);
  ProbeTable table{
      "Clients by range condition (23) and balancing descent",
      {"family, T1 as", "T2 no, T1 no", "T2 no, T1 yes", "T2 yes, T1 no", "T2 yes, T1 yes"},
      {}};
  const auto solver = exact_lp();
  for (std::size_t f = 0; f < kFamilies.size(); ++f) {
    Confusion by_product{};
    Confusion by_beta{};
    Confusion by_beta_sound{};
    for (int k = 0; k < options.cases; ++k) {
      CounterRng rng = stream(options, 10 + f, static_cast<std::uint64_t>(k));
      Scenario scenario = draw(hard_ensemble(kFamilies[f], rng), rng);
      const State state = compute_state(scenario, scenario.w, *solver, options);
      const RoundConditions round = federation::evaluate_round(state.terms, state.shared);
      accumulate(by_product, round.t2_first_order);
      accumulate(by_beta, round.t2_observed);
      accumulate(by_beta_sound, round.t2_sound_observed);
      for (std::size_t i = 0; i < round.clients.size(); ++i) {
        const ClientConditions& row = round.clients[i];
        if (row.t2 == 1) {
          first_order.holds(inner(state.mean, state.balancing[i]) > 0.0);
          printed.holds(row.t1_observed == 1);
        }
        if (row.t2_sound == 1) {
          sound.holds(row.t1_observed == 1);
        }
        if (round.t3 == 1 && row.t2 != federation::kNotApplicable) {
          cluster.holds(row.t2 == 1);
        }
        if (row.t10 != federation::kNotApplicable) {
          floor.slack(row.t10_slack, row.uniformity + row.t10_slack);
        }
      }
      for (const LocalSteps& client : run_local_steps(scenario, 2 + k % 3, *solver, options)) {
        if (client.range_condition) {
          printed_local.holds(client.balances);
        }
        if (client.range_condition_sound) {
          local.holds(client.balances);
        }
      }
    }
    const std::string name = kFamilies[f];
    table.rows.push_back(confusion_row(name + ", dbar'd_bal > 0", by_product));
    table.rows.push_back(confusion_row(name + ", beta does not rise", by_beta));
    table.rows.push_back(confusion_row(name + ", the same, T2 with L_bal", by_beta_sound));
  }
  for (const Check* check :
       {&first_order, &sound, &local, &cluster, &floor, &printed, &printed_local}) {
    report.checks.push_back(check->result());
  }
  report.tables.push_back(std::move(table));
}

}  // namespace apo::methods::probe
