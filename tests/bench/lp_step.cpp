/// @file
/// What the linear program of one client step costs: microseconds per DirectionSolver::solve() of
/// apo_lp and its variants, and how much of it the reset of GLPK's basis takes.
///
///     bench_lp_step [INSTANCES]      default 20000 per row

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "linear_program.hpp"
#include "scaled_gram.hpp"
#include "scaled_lp.hpp"

#include "apo/core/rng.hpp"
#include "apo/core/simplex.hpp"
#include "apo/direction/direction_solver.hpp"

namespace {

using apo::CounterRng;
using apo::direction::Direction;
using apo::direction::DirectionOptions;
using Clock = std::chrono::steady_clock;

struct Instance {
  std::vector<double> loss;
  std::vector<double> preference;
  std::vector<double> gram;
};

std::vector<double> gram_of(const std::vector<std::vector<double>>& gradients) {
  std::vector<double> gram;
  for (const auto& g : gradients) {
    for (const auto& h : gradients) {
      double sum = 0.0;
      for (std::size_t p = 0; p < g.size(); ++p) {
        sum += g[p] * h[p];
      }
      gram.push_back(sum);
    }
  }
  return gram;
}

/// Gaussian gradients, a third of them with a strong common part; a quarter of the loss vectors is
/// balanced, so that both modes are timed.
std::vector<Instance> draw(std::size_t m, std::size_t count) {
  CounterRng rng({.seed = 7, .a = m});
  std::vector<Instance> instances(count);
  for (std::size_t k = 0; k < count; ++k) {
    std::vector<std::vector<double>> gradients(m, std::vector<double>(8));
    std::vector<double> common(8);
    for (double& c : common) {
      c = k % 3 == 0 ? 2.0 * rng.normal() : 0.0;
    }
    for (auto& g : gradients) {
      for (std::size_t p = 0; p < g.size(); ++p) {
        g[p] = common[p] + rng.normal();
      }
    }
    Instance& x = instances[k];
    x.gram = gram_of(gradients);
    x.preference =
        apo::normalised_preference(rng.dirichlet(std::vector<double>(m, 1.0)), "bench", 1e-2);
    for (const double lambda : x.preference) {
      x.loss.push_back(k % 4 == 3 ? 0.1 / lambda : 0.1 + 1.9 * rng.uniform());
    }
  }
  return instances;
}

struct Times {
  double mean;
  double median;
  double slow;  // 99th percentile
};

Times summary(std::vector<double>& microseconds) {
  std::sort(microseconds.begin(), microseconds.end());
  double sum = 0.0;
  for (const double t : microseconds) {
    sum += t;
  }
  const std::size_t n = microseconds.size();
  return {sum / static_cast<double>(n), microseconds[n / 2], microseconds[n * 99 / 100]};
}

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

void print_solver(const char* name, const DirectionOptions& options, std::size_t m,
                  const std::vector<Instance>& instances) {
  const auto solver = apo::direction::make_solver(options);
  std::vector<double> times;
  double checksum = 0.0;  // keeps the calls alive
  int lower_rungs = 0;
  for (const Instance& x : instances) {
    const auto start = Clock::now();
    const Direction found = solver->solve({x.loss, x.gram, x.preference});
    times.push_back(microseconds_since(start));
    checksum += found.gamma;
    lower_rungs += found.lp_status > apo::direction::LpStatus::kOptimal ? 1 : 0;
  }
  const Times t = summary(times);
  std::printf("%-24s %zu  %8.2f %8.2f %8.2f   %d of %zu on lower rungs, sum of gamma %.6g\n", name,
              m, t.mean, t.median, t.slow, lower_rungs, instances.size(), checksum);
}

/// GLPK alone on one client's trajectory: losses and gradients that change by 2 % per step, where a
/// warm start has most to offer.
void print_restarts(std::size_t m, std::size_t steps) {
  const DirectionOptions options;
  CounterRng rng({.seed = 8, .a = m});
  Instance x = draw(m, 1).front();
  std::vector<std::vector<double>> gradients(m, std::vector<double>(8));
  for (auto& g : gradients) {
    for (double& entry : g) {
      entry = rng.normal();
    }
  }
  apo::direction::LinearProgram cold(static_cast<int>(m), static_cast<int>(m));
  apo::direction::LinearProgram warm(static_cast<int>(m), static_cast<int>(m));
  warm.set_warm_start(true);
  std::vector<double> cold_times;
  std::vector<double> warm_times;
  std::size_t differing = 0;
  for (std::size_t k = 0; k < steps; ++k) {
    for (std::size_t j = 0; j < m; ++j) {
      x.loss[j] *= 1.0 + 0.02 * rng.normal();
      x.loss[j] = std::clamp(x.loss[j], 0.1, 2.0);
      for (double& entry : gradients[j]) {
        entry += 0.02 * rng.normal();
      }
    }
    const auto quantities = apo::balance(x.loss, x.preference);
    const auto gram = apo::direction::scale_gram(gram_of(gradients), quantities.adjustment,
                                                 options.ascent_tolerance);
    const auto lp = apo::direction::build_lp(gram, quantities, apo::direction::Mode::kBalancing,
                                             options.bottleneck_tolerance, false);
    const auto rows = lp.rows();
    auto start = Clock::now();
    const auto* a = cold.solve(lp.normalised, rows, apo::direction::LpMethod::kSimplex);
    cold_times.push_back(microseconds_since(start));
    start = Clock::now();
    const auto* b = warm.solve(lp.normalised, rows, apo::direction::LpMethod::kSimplex);
    warm_times.push_back(microseconds_since(start));
    differing += a == nullptr || b == nullptr || a->column_active != b->column_active ? 1 : 0;
  }
  const Times c = summary(cold_times);
  const Times w = summary(warm_times);
  std::printf("%-24s %zu  %8.2f %8.2f %8.2f\n", "GLPK, standard basis", m, c.mean, c.median,
              c.slow);
  std::printf("%-24s %zu  %8.2f %8.2f %8.2f   %zu of %zu with another basis\n", "GLPK, warm start",
              m, w.mean, w.median, w.slow, differing, steps);
}

}  // namespace

int main(int argc, char** argv) {
  const long count = argc > 1 ? std::atol(argv[1]) : 20000;
  if (count < 1) {
    std::fprintf(stderr, "bench_lp_step: expected a positive number of instances, found '%s'\n",
                 argv[1]);
    return 64;
  }
  std::printf("%-24s m  %8s %8s %8s   microseconds per call\n", "", "mean", "median", "99 %");
  for (const std::size_t m : {2U, 3U, 4U, 6U}) {
    const auto instances = draw(m, static_cast<std::size_t>(count));
    DirectionOptions options;
    print_solver("apo_lp", options, m, instances);
    options.uniform_guard = "epo_restricted";
    options.beta_tolerance = 0.05;  // the guard belongs to the uniform mode
    print_solver("apo_lp, guard", options, m, instances);
    options = {};
    options.lp_tie = "lexicographic";
    print_solver("apo_lp, lexicographic", options, m, instances);
    options = {};
    options.lp_regulariser = 0.01;
    const std::vector<Instance> few(instances.begin(),
                                    instances.begin() + std::min<std::ptrdiff_t>(count, 2000));
    print_solver("apo_lp, lp_regulariser", options, m, few);
    print_restarts(m, static_cast<std::size_t>(count));
  }
  return 0;
}
