/// @file
/// T13: Lemma 8 of the FIRM paper on heterogeneous clients (algorithms.md 3.4).

#include <algorithm>
#include <cmath>

#include "probe_check.hpp"
#include "probe_cluster.hpp"
#include "probe_parts.hpp"
#include <fmt/format.h>

#include "apo/direction/lemma8.hpp"

namespace apo::methods::probe {

void check_firm(const ProbeOptions& options, ProbeReport& report) {
  const std::string where = "FIRM clients, T-I on T-D, T-C and T-E";
  Check paper("T13", "Lemma 8: ||mu - mu'|| <= 4 R m eps / beta", where);
  Check root("T13", "the same with sqrt(m) for m", where);
  Check gram("T13", "||mu - mu'|| <= (2 / beta) min ||(C - C') mu||", where);
  ProbeTable table{"Largest ratio of the multipliers' distance to each bound",
                   {"beta", "pairs", "paper", "sqrt(m)", "Gram"},
                   {}};
  std::uint64_t part = 70;
  for (const double beta : {0.01, 0.1, 1.0}) {
    direction::DirectionOptions solver_options;
    solver_options.solver = "firm";
    solver_options.firm_beta = beta;
    solver_options.firm_preference = "none";
    const auto solver = direction::make_solver(solver_options);
    direction::Lemma8Ratios largest;
    int pairs = 0;
    for (int k = 0; k < scaled(options, 0.5); ++k) {
      CounterRng rng = stream(options, part, static_cast<std::uint64_t>(k));
      Ensemble e;
      e.family = k % 3 == 0 ? "T-D" : (k % 3 == 1 ? "T-C" : "T-E");
      e.num_objectives = 2 + k % 4;
      e.clients = 4;
      e.spread = std::pow(10.0, -3.0 + 3.0 * rng.uniform());
      const Scenario scenario = draw(e, rng);
      const State state = compute_state(scenario, scenario.w, *solver, options);
      const double modulus =
          direction::firm_modulus(direction::firm_regulariser("none", beta, {{0.5, 0.5}}));
      for (std::size_t a = 0; a < state.terms.size(); ++a) {
        for (std::size_t b = a + 1; b < state.terms.size(); ++b) {
          double bound = 0.0;
          double epsilon = 0.0;
          for (std::size_t j = 0; j < state.points[a].gradients.size(); ++j) {
            const Vector& g = state.points[a].gradients[j];
            const Vector& h = state.points[b].gradients[j];
            bound = std::max({bound, length(g), length(h)});
            epsilon = std::max(epsilon, distance(g, h));
          }
          const direction::Lemma8Ratios ratios = direction::lemma8_ratios(
              state.terms[a].gram, state.terms[b].gram, state.terms[a].direction.mu,
              state.terms[b].direction.mu, epsilon, bound, modulus);
          paper.ratio(ratios.paper);
          root.ratio(ratios.root);
          gram.ratio(ratios.gram);
          largest.paper = std::max(largest.paper, ratios.paper);
          largest.root = std::max(largest.root, ratios.root);
          largest.gram = std::max(largest.gram, ratios.gram);
          ++pairs;
        }
      }
    }
    ++part;
    table.rows.push_back({fmt::format("{}", beta), std::to_string(pairs),
                          fmt::format("{:.3f}", largest.paper), fmt::format("{:.3f}", largest.root),
                          fmt::format("{:.3f}", largest.gram)});
  }
  for (const Check* check : {&paper, &root, &gram}) {
    report.checks.push_back(check->result());
  }
  report.tables.push_back(std::move(table));
}

}  // namespace apo::methods::probe
