#include "probe_cluster.hpp"

#include <algorithm>
#include <cmath>

namespace apo::methods::probe {

double inner(const Vector& a, const Vector& b) {
  double sum = 0.0;
  for (std::size_t k = 0; k < a.size(); ++k) {
    sum += a[k] * b[k];
  }
  return sum;
}

double length(const Vector& a) { return std::sqrt(inner(a, a)); }

double distance(const Vector& a, const Vector& b) {
  Vector difference = a;
  add(difference, -1.0, b);
  return length(difference);
}

void add(Vector& y, double factor, const Vector& x) {
  for (std::size_t k = 0; k < y.size(); ++k) {
    y[k] += factor * x[k];
  }
}

Vector combine(const std::vector<Vector>& columns, const Vector& weight) {
  Vector sum(columns.front().size(), 0.0);
  for (std::size_t j = 0; j < columns.size(); ++j) {
    add(sum, weight[j], columns[j]);
  }
  return sum;
}

Point evaluate(const Scenario& scenario, const Client& client, const Vector& w) {
  const auto m = static_cast<std::size_t>(scenario.problem->num_objectives());
  const std::size_t p = w.size();
  Vector x = w;
  add(x, -1.0, client.shift);
  Point point;
  point.loss.resize(m);
  Vector flat(m * p);
  scenario.problem->evaluate(x, point.loss, flat);
  for (std::size_t j = 0; j < m; ++j) {
    point.gradients.emplace_back(flat.begin() + static_cast<std::ptrdiff_t>(j * p),
                                 flat.begin() + static_cast<std::ptrdiff_t>((j + 1) * p));
  }
  return point;
}

namespace {

Vector gram_matrix(const std::vector<Vector>& gradients) {
  Vector gram;
  for (const Vector& a : gradients) {
    for (const Vector& b : gradients) {
      gram.push_back(inner(a, b));
    }
  }
  return gram;
}

Vector products(const std::vector<Vector>& gradients, const Vector& direction) {
  Vector v;
  for (const Vector& g : gradients) {
    v.push_back(inner(g, direction));
  }
  return v;
}

/// dbar, and the means over the two blocks; an empty block has an empty mean.
struct Means {
  Vector all;
  Vector uniform;
  Vector balancing;
};

Means mean_directions(const Scenario& scenario, const State& state) {
  const std::size_t p = state.directions.front().size();
  Means means{Vector(p, 0.0), Vector(p, 0.0), Vector(p, 0.0)};
  double uniform_mass = 0.0;
  double balancing_mass = 0.0;
  for (std::size_t i = 0; i < state.terms.size(); ++i) {
    const double rho = scenario.clients[i].rho;
    const bool uniform = federation::is_uniform_block(state.terms[i].direction.mode);
    (uniform ? uniform_mass : balancing_mass) += rho;
    add(uniform ? means.uniform : means.balancing, rho, state.directions[i]);
    add(means.all, rho, state.directions[i]);
  }
  for (auto [mean, mass] :
       {std::pair(&means.uniform, uniform_mass), std::pair(&means.balancing, balancing_mass)}) {
    if (mass == 0.0) {
      mean->clear();
    }
    for (double& x : *mean) {
      x /= mass;
    }
  }
  return means;
}

/// Delta as the monitors get it: from products, or from the vectors where those cancel.
double deviation(const Vector& direction, const Vector& mean, const Point& point,
                 const federation::ClientTerms& terms, State& state) {
  const double exact = distance(direction, mean);
  const federation::Deviation formula = federation::deviation_from_products(
      length(mean), products(point.gradients, mean), terms.direction.weight, terms.gram);
  if (formula.cancelled) {
    return exact;
  }
  state.deviation_mismatch =
      std::max(state.deviation_mismatch,
               std::abs(formula.value - exact) / (length(mean) + length(direction)));
  return formula.value;
}

void compare_gradients(const Scenario& scenario, State& state) {
  const std::size_t m = state.points.front().loss.size();
  for (std::size_t j = 0; j < m; ++j) {
    Vector mean(state.mean.size(), 0.0);
    for (std::size_t i = 0; i < state.points.size(); ++i) {
      add(mean, scenario.clients[i].rho, state.points[i].gradients[j]);
    }
    for (std::size_t i = 0; i < state.points.size(); ++i) {
      const Vector& g = state.points[i].gradients[j];
      state.terms[i].gradient_residual.push_back(distance(g, mean));
      for (std::size_t other = 0; other < i; ++other) {
        state.dissimilarity =
            std::max(state.dissimilarity, distance(g, state.points[other].gradients[j]));
      }
    }
  }
}

}  // namespace

State compute_state(const Scenario& scenario, const Vector& w, direction::DirectionSolver& solver,
                    const ProbeOptions& options) {
  State state;
  for (const Client& client : scenario.clients) {
    const Point point = evaluate(scenario, client, w);
    federation::ClientTerms terms;
    terms.client = static_cast<int>(state.terms.size());
    terms.rho = client.rho;
    terms.loss = point.loss;
    terms.preference = client.preference;
    terms.gram = gram_matrix(point.gradients);
    terms.direction = solver.solve({terms.loss, terms.gram, terms.preference});
    terms.chebyshev_optimum = scenario.problem->pareto_point(client.preference).chebyshev;
    state.directions.push_back(combine(point.gradients, terms.direction.weight));
    state.balancing.push_back(combine(point.gradients, terms.direction.adjustment));
    state.points.push_back(point);
    state.terms.push_back(std::move(terms));
  }
  const Means means = mean_directions(scenario, state);
  state.mean = means.all;
  state.after = w;
  add(state.after, -scenario.eta, state.mean);
  for (std::size_t i = 0; i < state.terms.size(); ++i) {
    federation::ClientTerms& terms = state.terms[i];
    const Point& point = state.points[i];
    const auto to = [&](const Vector& mean) {
      return mean.empty() ? federation::kUndefined
                          : options.deviation_factor *
                                deviation(state.directions[i], mean, point, terms, state);
    };
    terms.product = products(point.gradients, state.mean);
    terms.product_taken = terms.product;
    terms.deviation = to(state.mean);
    terms.deviation_uniform = to(means.uniform);
    terms.deviation_balancing = to(means.balancing);
    terms.loss_after = evaluate(scenario, scenario.clients[i], state.after).loss;
  }
  compare_gradients(scenario, state);
  state.shared.learning_rate = scenario.eta;
  state.shared.smoothness = options.smoothness_factor * scenario.problem->smoothness();
  state.shared.norm = state.shared.norm_taken = length(state.mean);
  return state;
}

Vector draw_preference(CounterRng& rng, int num_objectives) {
  const Vector alpha(static_cast<std::size_t>(num_objectives), 1.5);
  Vector lambda = rng.dirichlet(alpha);
  double sum = 0.0;
  for (double& x : lambda) {
    x = std::max(x, 0.02);
    sum += x;
  }
  for (double& x : lambda) {
    x /= sum;
  }
  return lambda;
}

Scenario draw(const Ensemble& ensemble, CounterRng& rng) {
  objective::AnalyticOptions options;
  options.num_objectives = ensemble.family == "T-D" ? ensemble.num_objectives : 2;
  options.dimension = 6;
  if (ensemble.family == "T-D") {
    options.problem = "simplex";
  } else if (ensemble.family == "T-C") {
    options.problem = "quadratic";
    options.curvature = {0.5 + rng.uniform(), 0.5 + rng.uniform()};
  } else {
    options.problem = "anisotropic";
    options.condition = 1.0 + 9.0 * rng.uniform();
  }
  Scenario scenario;
  scenario.family = ensemble.family;
  scenario.problem = objective::make_analytic_problem(options);
  scenario.eta = ensemble.eta / scenario.problem->smoothness();
  const Vector center = draw_preference(rng, options.num_objectives);
  double mass = 0.0;
  for (int i = 0; i < ensemble.clients; ++i) {
    Client client;
    client.preference = ensemble.preferences == Preferences::kIndependent
                            ? draw_preference(rng, options.num_objectives)
                            : center;
    if (ensemble.preferences == Preferences::kNear) {
      double sum = 0.0;
      for (double& x : client.preference) {
        x *= std::exp(0.05 * rng.normal());
        sum += x;
      }
      for (double& x : client.preference) {
        x /= sum;
      }
    }
    for (int k = 0; k < options.dimension; ++k) {
      client.shift.push_back(ensemble.spread * rng.normal());
    }
    client.rho = 0.2 + rng.uniform();
    mass += client.rho;
    scenario.clients.push_back(std::move(client));
  }
  for (Client& client : scenario.clients) {
    client.rho /= mass;
  }
  // Between the first client's Pareto point and the start: from balanced to far away.
  const Client& first = scenario.clients.front();
  scenario.w = scenario.problem->pareto_point(first.preference).x;
  const Vector start = scenario.problem->start(rng.next_u64());
  const double far = rng.uniform();
  for (std::size_t k = 0; k < scenario.w.size(); ++k) {
    scenario.w[k] += first.shift[k] + far * (start[k] - scenario.w[k]) + 0.02 * rng.normal();
  }
  return scenario;
}

std::unique_ptr<direction::DirectionSolver> exact_lp(double beta_tolerance) {
  direction::DirectionOptions options;
  options.beta_tolerance = beta_tolerance;
  options.ascent_tolerance = 1e-12;
  return direction::make_solver(options);
}

}  // namespace apo::methods::probe
