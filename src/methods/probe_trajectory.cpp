/// @file
/// T7: contraction of the Chebyshev gap along shared trajectories, with c_d and b of section 5.5
/// fitted to them (Theorem H.28, Cor. H.29, Theorem H.31).

#include <algorithm>
#include <array>
#include <cmath>

#include "probe_check.hpp"
#include "probe_cluster.hpp"
#include "probe_parts.hpp"
#include <fmt/format.h>

namespace apo::methods::probe {
namespace {

constexpr int kRounds = 150;
constexpr std::array<int, 2> kStarts = {0,
                                        60};  // t_0: the statements are about rounds from here on

/// Means over all clients and trajectories of one ensemble.
struct Constants {
  double rate = 0.0;
  double radius = 0.0;
  double radius_deviation = 0.0;
  double radius_step = 0.0;
  double radius_tolerance = 0.0;
  double first_gap = 0.0;
  double last_gap = 0.0;
  int count = 0;
};

struct Checks {
  std::string where = "150 rounds of T-I clients on T-D";
  Check step{"T7", "(62) with c_d over three decades and its b", where};
  Check contraction{"T7", "(65) r+ <= (1 - eta c_d) r + eta c_d eps_0, the same", where};
  Check horizon{"T7", "(66) r after T rounds, the same", where};
};

struct Trajectory {
  std::vector<State> states;
  double bound = 0.0;  ///< B along it
};

Trajectory follow(const Scenario& scenario, direction::DirectionSolver& solver,
                  const ProbeOptions& options) {
  Trajectory trajectory;
  Vector w = scenario.w;
  for (int t = 0; t <= kRounds; ++t) {
    trajectory.states.push_back(compute_state(scenario, w, solver, options));
    w = trajectory.states.back().after;
    for (const Point& point : trajectory.states.back().points) {
      for (const Vector& g : point.gradients) {
        trajectory.bound = std::max(trajectory.bound, length(g));
      }
    }
  }
  return trajectory;
}

/// One client from round t_0 on.
struct Series {
  double lambda_max = 0.0;
  std::vector<federation::MarginSample> samples;
  std::vector<double> deviation;
  double largest_deviation = 0.0;
};

Series series_of(const Scenario& scenario, const Trajectory& trajectory, std::size_t client,
                 int start) {
  const Vector& lambda = scenario.clients[client].preference;
  Series series;
  series.lambda_max = *std::max_element(lambda.begin(), lambda.end());
  // The near-active set of (50) with B of the whole trajectory.
  const double width = 2.0 * scenario.eta * series.lambda_max * trajectory.bound * trajectory.bound;
  for (int t = start; t <= kRounds; ++t) {
    const State& state = trajectory.states[static_cast<std::size_t>(t)];
    const federation::ClientTerms& terms = state.terms[client];
    double psi = 0.0;
    for (std::size_t j = 0; j < lambda.size(); ++j) {
      psi = std::max(psi, lambda[j] * terms.loss[j]);
    }
    double zeta = std::numeric_limits<double>::infinity();
    for (std::size_t j = 0; j < lambda.size(); ++j) {
      if (lambda[j] * terms.loss[j] >= psi - width) {
        zeta = std::min(
            zeta, lambda[j] * inner(state.directions[client], state.points[client].gradients[j]));
      }
    }
    series.samples.push_back({zeta, psi - terms.chebyshev_optimum});
    series.deviation.push_back(terms.deviation);
    series.largest_deviation = std::max(series.largest_deviation, terms.deviation);
  }
  return series;
}

void check_series(const Series& series, const federation::DescentFit& fit, double eta, double bound,
                  double smoothness, Checks& checks) {
  const double keep = 1.0 - eta * fit.rate;
  for (std::size_t t = 0; t + 1 < series.samples.size(); ++t) {
    const double gap = series.samples[t].gap;
    const double next = series.samples[t + 1].gap;
    const double scale = gap + bound * bound * eta;
    checks.step.slack(
        -eta * fit.rate * gap + eta * series.lambda_max * bound * series.deviation[t] +
            eta * fit.tolerance + 0.5 * series.lambda_max * smoothness * bound * bound * eta * eta -
            (next - gap),
        scale);
    checks.contraction.slack(keep * gap + eta * fit.rate * fit.radius - next, scale);
    checks.horizon.slack(
        std::pow(keep, static_cast<double>(t + 1)) * series.samples.front().gap + fit.radius - next,
        scale);
  }
}

void check_clients(const Scenario& scenario, const Trajectory& trajectory, int start,
                   const ProbeOptions& options, Checks& checks, Constants& constants) {
  const double eta = scenario.eta;
  const double smoothness = options.smoothness_factor * scenario.problem->smoothness();
  for (std::size_t i = 0; i < scenario.clients.size(); ++i) {
    const Series series = series_of(scenario, trajectory, i, start);
    for (const double share : {1e-3, 1e-2, 0.03, 0.1, 0.3, 1.0}) {
      check_series(
          series,
          federation::descent_band(share / eta, series.samples, series.lambda_max, trajectory.bound,
                                   series.largest_deviation, smoothness, eta),
          eta, trajectory.bound, smoothness, checks);
    }
    const federation::DescentFit fit =
        federation::fit_descent_margin(series.samples, series.lambda_max, trajectory.bound,
                                       series.largest_deviation, smoothness, eta);
    check_series(series, fit, eta, trajectory.bound, smoothness, checks);
    constants.rate += eta * fit.rate;
    constants.radius += fit.radius;
    constants.radius_deviation += fit.radius_deviation;
    constants.radius_step += fit.radius_step;
    constants.radius_tolerance += fit.radius_tolerance;
    constants.first_gap += series.samples.front().gap;
    constants.last_gap += series.samples.back().gap;
    ++constants.count;
  }
}

}  // namespace

void check_trajectory(const ProbeOptions& options, ProbeReport& report) {
  Checks checks;
  ProbeTable table{
      "Contraction (65): means of the fitted constants, gaps and band radius (64) in nat",
      {"preferences, shifts", "t_0", "eta c_d", "gap at t_0", "gap at the end", "eps_0",
       "from Delta", "from eta", "from b"},
      {}};
  const auto solver = exact_lp(1e-6);
  struct Kind {
    const char* name;
    Preferences preferences;
    double spread;
  };
  const Kind kinds[] = {{"one preference, none", Preferences::kCommon, 0.0},
                        {"one preference, 0.05", Preferences::kCommon, 0.05},
                        {"near, 0.05", Preferences::kNear, 0.05},
                        {"independent, 0.05", Preferences::kIndependent, 0.05}};
  std::uint64_t part = 30;
  for (const Kind& kind : kinds) {
    std::array<Constants, kStarts.size()> constants;
    for (int k = 0; k < scaled(options, 0.01); ++k) {
      CounterRng rng = stream(options, part, static_cast<std::uint64_t>(k));
      Ensemble e;
      e.num_objectives = 2 + k % 3;
      e.clients = 4;
      e.spread = kind.spread;
      e.preferences = kind.preferences;
      e.eta = 0.03;
      Scenario scenario = draw(e, rng);
      scenario.w = scenario.problem->start(rng.next_u64());
      const Trajectory trajectory = follow(scenario, *solver, options);
      for (std::size_t s = 0; s < kStarts.size(); ++s) {
        check_clients(scenario, trajectory, kStarts[s], options, checks, constants[s]);
      }
    }
    ++part;
    for (std::size_t s = 0; s < kStarts.size(); ++s) {
      const Constants& c = constants[s];
      const auto mean = [&](double sum) { return fmt::format("{:.4f}", sum / c.count); };
      table.rows.push_back({kind.name, std::to_string(kStarts[s]), mean(c.rate), mean(c.first_gap),
                            mean(c.last_gap), mean(c.radius), mean(c.radius_deviation),
                            mean(c.radius_step), mean(c.radius_tolerance)});
    }
  }
  for (const Check* check : {&checks.step, &checks.contraction, &checks.horizon}) {
    report.checks.push_back(check->result());
  }
  report.tables.push_back(std::move(table));
}

}  // namespace apo::methods::probe
