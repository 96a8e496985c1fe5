#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "aggregator_rules.hpp"
#include "scaled_gram.hpp"
#include "solvers.hpp"

#include "apo/core/error.hpp"
#include "apo/direction/direction_solver.hpp"

namespace apo::direction {

namespace {

using Weights = std::vector<double>;

/// What a rule may look at.
struct Input {
  std::span<const double> gram;
  std::span<const double> loss;  // at or above the floor
  std::span<const double> preference;
  std::uint64_t random_key;
};

Weights mgda(const Input& x, const DirectionOptions&) {
  return regularised_min_norm_point(x.gram, Weights(x.loss.size(), 0.0));
}

/// min mu'(C + R)mu (algorithms.md 3.1, 3.2); "mean_diagonal" makes beta dimensionless (3.3).
Weights firm(const Input& x, const DirectionOptions& options) {
  const std::size_t m = x.loss.size();
  const Weights regulariser =
      firm_regulariser(options.firm_preference, options.firm_beta, x.preference);
  Weights gram(x.gram.begin(), x.gram.end());
  if (options.gram_normalisation == "mean_diagonal") {
    double mean = 0.0;
    for (std::size_t j = 0; j < m; ++j) {
      mean += std::sqrt(std::max(0.0, gram[j * m + j])) / static_cast<double>(m);
    }
    for (double& entry : gram) {
      entry = mean > 0.0 ? entry / mean / mean : 0.0;
    }
  }
  return regularised_min_norm_point(gram, regulariser);
}

Weights cagrad(const Input& x, const DirectionOptions& options) {
  return cagrad_weights(x.gram, x.preference, options.cagrad_radius);
}

Weights pcgrad(const Input& x, const DirectionOptions&) {
  return pcgrad_weights(x.gram, x.preference, x.random_key);
}

Weights nash(const Input& x, const DirectionOptions&) { return nash_weights(x.gram); }

Weights upgrad(const Input& x, const DirectionOptions&) {
  return upgrad_weights(x.gram, x.preference);
}

Weights dual_projection(const Input& x, const DirectionOptions&) {
  return dual_projection_weights(x.gram, x.preference);
}

Weights aligned(const Input& x, const DirectionOptions&) {
  return aligned_weights(x.gram, x.preference);
}

Weights equal_projection(const Input& x, const DirectionOptions&) {
  return equal_projection_weights(x.gram);
}

Weights smooth_chebyshev(const Input& x, const DirectionOptions& options) {
  return smooth_chebyshev_weights(x.loss, x.preference, options.chebyshev_smoothing);
}

struct Rule {
  const char* name;
  Weights (*weights)(const Input&, const DirectionOptions&);
  bool needs_gram;
  /// At C = 0 the rule still has an answer of its own: FIRM's limit is p / sum p or 1/m, and
  /// nothing jumps there.
  bool answers_without_gradients;
};

constexpr std::array<Rule, 10> kRules{{
    {"mgda", mgda, true, false},
    {"firm", firm, true, true},
    {"cagrad", cagrad, true, false},
    {"pcgrad", pcgrad, true, false},
    {"nash_mtl", nash, true, false},
    {"upgrad", upgrad, true, false},
    {"dual_proj", dual_projection, true, false},
    {"aligned_mtl", aligned, true, false},
    {"imtl_g", equal_projection, true, false},
    {"smooth_chebyshev", smooth_chebyshev, false, true},
}};

void check_options(const DirectionOptions& options) {
  const auto one_of = [](const std::string& value, std::initializer_list<const char*> words) {
    return std::any_of(words.begin(), words.end(), [&](const char* w) { return value == w; });
  };
  expects(one_of(options.gram_normalisation, {"none", "mean_diagonal"}),
          "direction: unknown Gram normalisation '" + options.gram_normalisation +
              "', expected none or mean_diagonal");
  expects(one_of(options.firm_preference, {"none", "paper", "scaled"}),
          "direction: unknown preference form '" + options.firm_preference +
              "' of firm, expected none, paper or scaled");
  expects(std::isfinite(options.firm_beta) && options.firm_beta >= 0.0,
          "direction: firm_beta is " + std::to_string(options.firm_beta) +
              ", expected a number of at least 0");
  expects(std::isfinite(options.cagrad_radius) && options.cagrad_radius >= 0.0,
          "direction: cagrad_radius is " + std::to_string(options.cagrad_radius) +
              ", expected a number of at least 0");
  expects(std::isfinite(options.chebyshev_smoothing) && options.chebyshev_smoothing > 0.0,
          "direction: chebyshev_smoothing is " + std::to_string(options.chebyshev_smoothing) +
              ", expected a number above 0");
}

/// One rule, and around it what the rules share: checks and records.
class Aggregator final : public DirectionSolver {
 public:
  Aggregator(const Rule& rule, const DirectionOptions& options) : rule_(rule), options_(options) {}

  [[nodiscard]] bool needs_gram() const noexcept override { return rule_.needs_gram; }

  [[nodiscard]] Direction solve(const Problem& problem) override {
    check(problem, rule_.needs_gram);
    const std::size_t m = problem.loss.size();
    Direction result =
        begin_direction(balance(problem.loss, problem.preference, options_.loss_floor), problem,
                        options_.loss_floor);
    result.mode = Mode::kFixed;
    const bool has_gram =
        problem.gram.size() == m * m && std::all_of(problem.gram.begin(), problem.gram.end(),
                                                    [](double c) { return std::isfinite(c); });
    const ScaledGram scaled =
        has_gram ? scale_gram(problem.gram, result.adjustment, options_.ascent_tolerance)
                 : ScaledGram{};
    if (rule_.needs_gram && scaled.vanished()) {
      result.mode = Mode::kStationary;
    }
    result.mu = weights(problem, result.mode);
    result.weight = result.mu;
    if (has_gram) {
      describe_weight(scaled, result);
    } else {
      result.gamma = std::numeric_limits<double>::quiet_NaN();
      result.direction_norm = std::numeric_limits<double>::quiet_NaN();
    }
    return result;
  }

 private:
  [[nodiscard]] Weights weights(const Problem& problem, Mode mode) const {
    const std::size_t m = problem.loss.size();
    if (mode == Mode::kStationary && !rule_.answers_without_gradients) {
      return Weights(m, 1.0 / static_cast<double>(m));
    }
    Weights loss(problem.loss.begin(), problem.loss.end());
    for (double& l : loss) {
      l = std::max(l, options_.loss_floor);
    }
    return rule_.weights({problem.gram, loss, problem.preference, problem.random_key}, options_);
  }

  Rule rule_;
  DirectionOptions options_;
};

}  // namespace

Weights smooth_chebyshev_weights(std::span<const double> loss, std::span<const double> p,
                                 double smoothing) {
  // All in logarithms: at smoothing -> 0 the softmax spans hundreds of decades.
  const std::size_t m = loss.size();
  Weights weight(m);
  double largest = -std::numeric_limits<double>::infinity();
  for (std::size_t j = 0; j < m; ++j) {
    const double log_loss = std::log(loss[j]);
    weight[j] = (std::log(p[j]) + log_loss) / smoothing - log_loss;  // -infinity at p = 0
    largest = std::max(largest, weight[j]);
  }
  double sum = 0.0;
  for (double& w : weight) {
    w = std::exp(w - largest);
    sum += w;
  }
  for (double& w : weight) {
    w /= sum;
  }
  return weight;
}

std::unique_ptr<DirectionSolver> make_aggregator(const DirectionOptions& options) {
  const auto rule = std::find_if(kRules.begin(), kRules.end(),
                                 [&](const Rule& r) { return options.solver == r.name; });
  if (rule == kRules.end()) {
    std::string names;
    for (const Rule& r : kRules) {
      names += (names.empty() ? "" : ", ") + std::string(r.name);
    }
    throw Error(Fault::kInternal,
                "direction: unknown aggregator '" + options.solver + "', expected one of " + names);
  }
  check_options(options);
  return std::make_unique<Aggregator>(*rule, options);
}

}  // namespace apo::direction
