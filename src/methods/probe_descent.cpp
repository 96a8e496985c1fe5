/// @file
/// H and Delta in both formulas, the blocks of mixed clusters (T4), simultaneous descent (T5) and
/// the one-step bounds (T6).

#include <algorithm>
#include <array>
#include <cmath>

#include "probe_check.hpp"
#include "probe_cluster.hpp"
#include "probe_parts.hpp"

namespace apo::methods::probe {
namespace {

using federation::ClientConditions;
using federation::RoundConditions;

constexpr std::array<const char*, 3> kFamilies = {"T-D", "T-C", "T-E"};

double largest_loss(const State& state) {
  double largest = 0.0;
  for (const Point& point : state.points) {
    largest = std::max(largest, *std::max_element(point.loss.begin(), point.loss.end()));
  }
  return largest;
}

/// min over clients and objectives of dbar'g.
double smallest_product(const State& state) {
  double smallest = std::numeric_limits<double>::infinity();
  for (const Point& point : state.points) {
    for (const Vector& g : point.gradients) {
      smallest = std::min(smallest, inner(state.mean, g));
    }
  }
  return smallest;
}

double shift_diameter(const Scenario& scenario) {
  double largest = 0.0;
  for (const Client& a : scenario.clients) {
    for (const Client& b : scenario.clients) {
      largest = std::max(largest, distance(a.shift, b.shift));
    }
  }
  return largest;
}

struct Checks {
  std::string where = "T-I clients on T-D, T-C and T-E";
  Check dispersion{"H", "(22) sum rho Delta^2 = sum rho ||d||^2 - ||dbar||^2", where};
  Check common{"H", "(9) = (22) where clients share the gradients", "T-D, one loss vector"};
  Check deviation{"Delta", "sqrt(||dbar||^2 - 2 mu'v + mu'C mu) = ||dbar - d||", where};
  Check shifts{"delta_g", "max ||g_i - g_i'|| = max ||delta_i - delta_i'||", "T-I on T-D"};
  Check low{"delta_g", "max r <= delta_g (sandwich of section 5.4)", where};
  Check high{"delta_g", "delta_g <= sum of the two largest r", where};
  Check split{"T4", "(45) Delta <= rho0 ||dbar0 - d|| + rho+ ||dbar+ - d||", "mixed clusters"};
  Check mixed_range{"T4", "(47) => (23)", "mixed clusters"};
  Check uniform{"T5", "(42) dbar'g >= -B delta_g", "clusters in uniform mode"};
  Check mixed{"T5", "(48) dbar'g >= -B delta_g - rho+ B D+, where its premise holds",
              "mixed clusters"};
  Check mixed_printed{"T5", "(48) as printed, premise or not", "mixed clusters", false};
  Check mixed_later{"T5", "dbar'g >= -rho+ B (delta_g + D+), as the text after (48) says",
                    "mixed clusters", false};
  Check loss{"T6", "(56) loss after one step", where};
  Check chebyshev{"T6", "(58) Chebyshev value after one step", where};
  Check margin{"T7", "(62) with zeta for c_d r - b", where};
};

void check_any(const Scenario& scenario, const State& state, const RoundConditions& round,
               Checks& checks) {
  const double b = round.gradient_bound;
  checks.dispersion.agreement(round.dispersion_mismatch, 1e-10);
  checks.deviation.agreement(state.deviation_mismatch, 1e-9);
  if (scenario.family == "T-D") {
    checks.shifts.agreement(std::abs(state.dissimilarity - shift_diameter(scenario)) / b, 1e-12);
  }
  checks.low.slack(state.dissimilarity - round.dissimilarity_low, b);
  checks.high.slack(round.dissimilarity_high - state.dissimilarity, b);
  const double scale = largest_loss(state);
  for (const ClientConditions& row : round.clients) {
    checks.loss.slack(row.t6_loss_slack, scale);
    checks.chebyshev.slack(row.t6_chebyshev_slack, scale);
    checks.margin.slack(row.t7_slack, scale);
  }
}

void check_mixed(const State& state, const RoundConditions& round, Checks& checks) {
  const double b = round.gradient_bound;
  if (round.num_balancing == 0 || round.num_balancing == round.num_clients) {
    return;
  }
  bool premise = true;
  for (const ClientConditions& row : round.clients) {
    // Both sides carry the rounding of deviations near the cancellation limit.
    checks.split.slack(row.deviation_split - row.deviation, b, 1e-9);
    if (row.t4 == 1) {
      checks.mixed_range.holds(row.t2 == 1);
    }
    premise = premise && (row.mode != static_cast<int>(direction::Mode::kBalancing) ||
                          row.sacrifice_free + row.sacrifice_bound == 0);
  }
  const double slack = smallest_product(state) + b * state.dissimilarity +
                       round.balancing_mass * b * round.mean_balancing_norm;
  if (premise) {
    checks.mixed.slack(slack, b * b);
  }
  checks.mixed_printed.holds(slack >= -1e-12 * b * b);
  const double later = round.balancing_mass * b * (state.dissimilarity + round.mean_balancing_norm);
  checks.mixed_later.holds(smallest_product(state) + later >= -1e-12 * b * b);
}

}  // namespace

void check_descent(const ProbeOptions& options, ProbeReport& report) {
  Checks checks;
  const auto balancing = exact_lp();
  const auto uniform = exact_lp(10.0);  // beta is at most log m
  for (std::size_t f = 0; f < kFamilies.size(); ++f) {
    for (int k = 0; k < options.cases; ++k) {
      CounterRng rng = stream(options, 20 + f, static_cast<std::uint64_t>(k));
      Ensemble e;
      e.family = kFamilies[f];
      e.num_objectives = 2 + k % 3;
      e.clients = 1 + k % 7;
      e.spread = std::array{0.0, 0.01, 0.1, 0.4}[rng.below(4)];
      e.eta = 0.005 + rng.uniform();
      const Scenario scenario = draw(e, rng);
      const State state = compute_state(scenario, scenario.w, *balancing, options);
      const RoundConditions round = federation::evaluate_round(state.terms, state.shared);
      check_any(scenario, state, round, checks);
      if (scenario.family == "T-D" && e.spread == 0.0) {
        checks.common.agreement(std::abs(round.dispersion_common - round.dispersion) /
                                    (round.gradient_bound * round.gradient_bound),
                                1e-10);
      }

      const State descent = compute_state(scenario, scenario.w, *uniform, options);
      const RoundConditions all_uniform = federation::evaluate_round(descent.terms, descent.shared);
      const double b = all_uniform.gradient_bound;
      checks.uniform.slack(smallest_product(descent) + b * descent.dissimilarity, b * b, 1e-9);

      // A tolerance at the middle beta makes about half of the clients uniform.
      std::vector<double> beta;
      for (const ClientConditions& row : round.clients) {
        beta.push_back(row.uniformity);
      }
      std::nth_element(beta.begin(), beta.begin() + static_cast<std::ptrdiff_t>(beta.size() / 2),
                       beta.end());
      const auto mixing = exact_lp(beta[beta.size() / 2]);
      Scenario short_step = scenario;  // the range condition (47) is about small steps
      short_step.eta *= 1e-3;
      const State mixed = compute_state(short_step, scenario.w, *mixing, options);
      check_mixed(mixed, federation::evaluate_round(mixed.terms, mixed.shared), checks);
    }
  }
  for (const Check* check :
       {&checks.dispersion, &checks.common, &checks.deviation, &checks.shifts, &checks.low,
        &checks.high, &checks.split, &checks.mixed_range, &checks.uniform, &checks.mixed,
        &checks.mixed_printed, &checks.mixed_later, &checks.loss, &checks.chebyshev,
        &checks.margin}) {
    report.checks.push_back(check->result());
  }
}

}  // namespace apo::methods::probe
