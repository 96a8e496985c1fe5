#pragma once

/// @file
/// Inside the probe: clients of an analytic problem at one point, as explicit float64 vectors.

#include <memory>
#include <string>
#include <vector>

#include "apo/core/rng.hpp"
#include "apo/direction/direction_solver.hpp"
#include "apo/federation/theory_conditions.hpp"
#include "apo/methods/probe.hpp"
#include "apo/objective/analytic_problem.hpp"

namespace apo::methods::probe {

using Vector = std::vector<double>;

[[nodiscard]] double inner(const Vector& a, const Vector& b);
[[nodiscard]] double length(const Vector& a);
[[nodiscard]] double distance(const Vector& a, const Vector& b);
/// y += factor x
void add(Vector& y, double factor, const Vector& x);
/// sum_j weight_j columns_j
[[nodiscard]] Vector combine(const std::vector<Vector>& columns, const Vector& weight);

struct Client {
  Vector preference;  ///< lambda
  Vector shift;       ///< delta: l_i(w) = l(w - delta_i)
  double rho = 0.0;
};

struct Scenario {
  std::string family;  ///< "T-D", "T-C", "T-E"
  std::shared_ptr<const objective::AnalyticProblem> problem;
  std::vector<Client> clients;
  Vector w;
  double eta = 0.0;
};

struct Point {
  Vector loss;
  std::vector<Vector> gradients;  ///< [m][P]
};
[[nodiscard]] Point evaluate(const Scenario& scenario, const Client& client, const Vector& w);

/// All clients at one point, and the step w - eta dbar.
struct State {
  std::vector<Point> points;
  std::vector<Vector> directions;  ///< d_i
  std::vector<Vector> balancing;   ///< G_i A_i
  Vector mean;                     ///< dbar
  Vector after;                    ///< w - eta dbar
  double dissimilarity = 0.0;      ///< delta_g, exact
  /// Of terms.deviation: the largest difference between the formula from products and the vectors,
  /// over ||dbar|| + ||d||, where the cancellation rule does not ask for the vectors.
  double deviation_mismatch = 0.0;
  std::vector<federation::ClientTerms> terms;
  federation::SharedTerms shared;
};
[[nodiscard]] State compute_state(const Scenario& scenario, const Vector& w,
                                  direction::DirectionSolver& solver, const ProbeOptions& options);

enum class Preferences { kCommon, kNear, kIndependent };

struct Ensemble {
  std::string family = "T-D";
  int num_objectives = 3;  ///< T-D only; T-C and T-E have two
  int clients = 5;
  double spread = 0.1;  ///< of the shifts, per coordinate
  Preferences preferences = Preferences::kIndependent;
  double eta = 0.05;
};
[[nodiscard]] Scenario draw(const Ensemble& ensemble, CounterRng& rng);
[[nodiscard]] Vector draw_preference(CounterRng& rng, int num_objectives);

/// Solver of LP (4) for float64 gradients. @param beta_tolerance  log m and more: always uniform
[[nodiscard]] std::unique_ptr<direction::DirectionSolver> exact_lp(double beta_tolerance = 1e-10);

}  // namespace apo::methods::probe
