/// @file
/// What the paper says of the LP's direction and what of it the LP guarantees (algorithms.md 1.2
/// and 1.5), on random gradients; and the paper's two counter-examples (T-G of section 7).

#include <array>
#include <cmath>

#include "probe_check.hpp"
#include "probe_cluster.hpp"
#include "probe_parts.hpp"
#include <fmt/format.h>

namespace apo::methods::probe {
namespace {

constexpr std::size_t kDimension = 20;

enum class Regime { kIndependent, kCommon, kStationary };
struct Kind {
  Regime regime;
  const char* name;
};
constexpr std::array<Kind, 3> kKinds = {{{Regime::kIndependent, "independent"},
                                         {Regime::kCommon, "strong common part"},
                                         {Regime::kStationary, "near Pareto-stationary"}}};

/// Gaussian gradients, uniform losses, Dirichlet preferences: the ensembles of section 1.5.
federation::ClientTerms draw_client(Regime regime, std::size_t m, CounterRng& rng,
                                    std::vector<Vector>& gradients) {
  gradients.assign(m, Vector(kDimension));
  Vector common(kDimension);
  for (double& x : common) {
    x = rng.normal();
  }
  for (Vector& g : gradients) {
    for (std::size_t k = 0; k < kDimension; ++k) {
      g[k] = rng.normal() + (regime == Regime::kCommon ? 3.0 * common[k] : 0.0);
    }
  }
  if (regime == Regime::kStationary) {  // a convex combination of the gradients nearly vanishes
    const Vector weight = draw_preference(rng, static_cast<int>(m));
    Vector& last = gradients.back();
    for (std::size_t k = 0; k < kDimension; ++k) {
      double sum = 0.0;
      for (std::size_t j = 0; j + 1 < m; ++j) {
        sum += weight[j] * gradients[j][k];
      }
      last[k] = -sum / weight.back() + 0.05 * last[k];
    }
  }
  federation::ClientTerms terms;
  terms.rho = 1.0;
  terms.preference = draw_preference(rng, static_cast<int>(m));
  for (std::size_t j = 0; j < m; ++j) {
    terms.loss.push_back(0.1 + 0.9 * rng.uniform());
  }
  for (const Vector& a : gradients) {
    for (const Vector& b : gradients) {
      terms.gram.push_back(inner(a, b));
    }
  }
  return terms;
}

std::string percent(std::int64_t part, std::int64_t all) {
  return fmt::format("{:.2f} %", 100.0 * static_cast<double>(part) / static_cast<double>(all));
}

}  // namespace

void check_statements(const ProbeOptions& options, ProbeReport& report) {
  const std::string where = "Gaussian gradients, m = 2 to 5";
  Check feasible("1.2", "LP (4) is feasible: solved without fallback, slack >= -1e-9 max C", where);
  Check bottleneck("1.5", "(4c) d'g_j >= 0 for every bottleneck j", where);
  Check empty("1.5", "J empty => gamma* <= 0", where);
  Check constrained("1.5", "d'g_j >= -||d_bal|| B for j outside J \\ J*", where);
  Check positive("1.5", "beta > 0 -> gamma* > 0 (property (b))", where, false);
  Check aligned("1.5", "J not empty -> gamma* > 0", where, false);
  Check premise("1.5", "d'g_j >= -||d_bal|| B for every j (premise of (48))", where, false);
  ProbeTable table{"How often statements about balancing directions fail (algorithms.md 1.5)",
                   {"gradients", "m", "gamma* <= 0", "J empty", "gamma* <= 0, J not empty",
                    "(48) fails in J \\ J*", "elsewhere"},
                   {}};
  const auto solver = exact_lp();
  std::uint64_t part = 80;
  for (const Kind& kind : kKinds) {
    for (std::size_t m = 2; m <= 5; ++m, ++part) {
      const int cases = scaled(options, 2.5);
      std::int64_t nonpositive = 0;
      std::int64_t empties = 0;
      std::int64_t surprising = 0;
      std::int64_t free = 0;
      std::int64_t bound = 0;
      for (int k = 0; k < cases; ++k) {
        CounterRng rng = stream(options, part, static_cast<std::uint64_t>(k));
        std::vector<Vector> gradients;
        federation::ClientTerms terms = draw_client(kind.regime, m, rng, gradients);
        terms.direction = solver->solve({terms.loss, terms.gram, terms.preference});
        const Vector d = combine(gradients, terms.direction.weight);
        for (const Vector& g : gradients) {
          terms.product.push_back(inner(g, d));
        }
        terms.deviation = 0.0;
        federation::SharedTerms shared;
        shared.norm = length(d);
        const federation::RoundConditions round = federation::evaluate_round({&terms, 1}, shared);
        const federation::ClientConditions& row = round.clients.front();
        // gamma* from the vectors; what cancels to 1e-12 of its terms counts as 0.
        const Vector balancing = combine(gradients, terms.direction.adjustment);
        const double gamma = inner(d, balancing);
        const bool not_positive = gamma <= 1e-12 * length(d) * length(balancing);
        const bool none = terms.direction.num_aligned == 0;
        for (std::size_t j = 0; j < m; ++j) {
          if (terms.preference[j] * terms.loss[j] == row.chebyshev) {
            bottleneck.slack(inner(d, gradients[j]), round.gradient_bound * round.gradient_bound,
                             1e-9);
          }
        }
        nonpositive += not_positive ? 1 : 0;
        empties += none ? 1 : 0;
        surprising += not_positive && !none ? 1 : 0;
        free += row.sacrifice_free > 0 ? 1 : 0;
        bound += row.sacrifice_bound > 0 ? 1 : 0;
        feasible.holds(terms.direction.lp_status == direction::LpStatus::kOptimal &&
                       terms.direction.min_slack >= -1e-9);
        if (none) {
          empty.holds(not_positive);
        }
      }
      constrained.count(cases, bound);
      positive.count(cases, nonpositive);
      aligned.count(cases - empties, surprising);
      premise.count(cases, free + bound);
      table.rows.push_back({kind.name, std::to_string(m), percent(nonpositive, cases),
                            percent(empties, cases), percent(surprising, cases),
                            percent(free, cases), percent(bound, cases)});
    }
  }
  for (const Check* check :
       {&feasible, &bottleneck, &empty, &constrained, &positive, &aligned, &premise}) {
    report.checks.push_back(check->result());
  }
  report.tables.push_back(std::move(table));
}

void check_examples(const ProbeOptions& options, ProbeReport& report) {
  Check flat("T-G", "double well at w = 0: stationary, margin 0, psi - psi* = 1/2",
             "flat_stationary");
  Check shape("T-G", "V at |w| < eta: both near-active, zeta = -|d| / 2", "v_shape");
  Check tolerance("T-G", "V: (51) needs b = (c_d |w| + |d|) / 2", "v_shape");
  const auto solver = exact_lp();
  Scenario scenario;
  scenario.family = "T-G";
  scenario.clients = {{{0.5, 0.5}, {0.0}, 1.0}};
  scenario.eta = 0.1;
  objective::AnalyticOptions problem;
  problem.num_objectives = 2;
  problem.dimension = 1;
  problem.problem = "flat_stationary";
  scenario.problem = objective::make_analytic_problem(problem);
  {
    const State state = compute_state(scenario, {0.0}, *solver, options);
    const auto round = federation::evaluate_round(state.terms, state.shared);
    const federation::ClientConditions& row = round.clients.front();
    flat.holds(round.num_stationary == 1 && row.descent_margin == 0.0 &&
               std::abs(row.gap - 0.5) <= 1e-12);
  }
  problem.problem = "v_shape";
  scenario.problem = objective::make_analytic_problem(problem);
  for (int k = 0; k < 50; ++k) {
    CounterRng rng = stream(options, 95, static_cast<std::uint64_t>(k));
    // Not at 0 itself, where the losses are balanced and d = 0.
    const double w = scenario.eta * (k % 2 == 0 ? 1.0 : -1.0) * (0.01 + 0.98 * rng.uniform());
    const State state = compute_state(scenario, {w}, *solver, options);
    const auto round = federation::evaluate_round(state.terms, state.shared);
    const federation::ClientConditions& row = round.clients.front();
    const double d = length(state.mean);
    shape.holds(row.near_active == 2 && std::abs(row.descent_margin + 0.5 * d) <= 1e-12 && d > 0.0);
    const federation::MarginSample sample{row.descent_margin, row.gap};
    const federation::DescentFit fit =
        federation::fit_descent_margin({&sample, 1}, 0.5, 1.0, 0.0, 0.0, scenario.eta);
    tolerance.agreement(std::abs(fit.tolerance - 0.5 * (fit.rate * std::abs(w) + d)), 1e-10);
  }
  for (const Check* check : {&flat, &shape, &tolerance}) {
    report.checks.push_back(check->result());
  }
}

}  // namespace apo::methods::probe
