// What the problems can be asked for.

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "analytic_problems.hpp"
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apo/core/error.hpp"

namespace apo::objective::analytic {
namespace {

// Dense systems of P unknowns are solved for the optimum of these.
constexpr int kMaxDenseDimension = 128;

struct Limits {
  std::string_view name;
  int low_m;
  int high_m;
  bool curvature;  ///< takes the key of that name
  bool offsets;
};

constexpr std::array<Limits, 12> kProblems{{{"epo2", 2, 2, false, false},
                                            {"epo3", 3, 3, false, false},
                                            {"quadratic", 2, 2, true, true},
                                            {"simplex", 1, kMaxObjectives, false, false},
                                            {"anisotropic", 2, 2, false, true},
                                            {"linear_front", 2, kMaxObjectives, false, false},
                                            {"concave_front", 2, kMaxObjectives, false, false},
                                            {"convex_front", 2, kMaxObjectives, false, false},
                                            {"flat_stationary", 2, 2, false, false},
                                            {"v_shape", 2, 2, false, false},
                                            {"dpo_linear", 1, kMaxObjectives, false, false},
                                            {"consensus", 1, 1, true, false}}};

template <class Value>
[[noreturn]] void fail(std::string_view key, const Value& value, const std::string& expected) {
  throw Error(Fault::kConfig, fmt::format("task.analytic.{} = {}: {}", key, value, expected));
}

const Limits& limits_of(const std::string& problem) {
  const auto* const row =
      std::find_if(kProblems.begin(), kProblems.end(),
                   [&](const Limits& candidate) { return candidate.name == problem; });
  if (row != kProblems.end()) {
    return *row;
  }
  std::vector<std::string> names;
  for (const Limits& candidate : kProblems) {
    names.emplace_back(candidate.name);
  }
  std::string expected = fmt::format("expected one of {}", fmt::join(names, ", "));
  if (const std::string near = nearest_word(problem, names); !near.empty()) {
    expected += fmt::format("; did you mean '{}'?", near);
  }
  fail("problem", problem, expected);
}

void check_dimension(const AnalyticOptions& options) {
  const std::string& problem = options.problem;
  const int m = options.num_objectives;
  int low = 1;
  int high = 1000000;
  std::string why;
  if (problem == "epo3") {
    if (options.dimension < 2 || options.dimension % 2 != 0) {
      fail("dimension", options.dimension, "epo3 has an even number of parameters, at least 2");
    }
  } else if (problem == "flat_stationary" || problem == "v_shape") {
    high = 1;
  } else if (problem == "simplex") {
    low = m;
    why = " (one per objective)";
  } else if (problem == "dpo_linear") {
    low = m;
    high = kMaxDenseDimension;
    why = " (one per objective; its optimum solves dense systems)";
  } else if (problem == "anisotropic") {
    high = kMaxDenseDimension;
    why = " (its optimum needs a dense eigenvalue problem)";
  } else if (problem.ends_with("_front")) {
    low = m + 1;
    why = " (one per objective, and one beside the front)";
  }
  if (options.dimension < low || options.dimension > high) {
    fail("dimension", options.dimension,
         low == high ? fmt::format("{} has {} parameter", problem, low)
                     : fmt::format("with {} objectives {} has {} to {} parameters{}", m, problem,
                                   low, high, why));
  }
}

void check_list(std::string_view key, const std::vector<double>& values, bool taken,
                double smallest, bool open, const AnalyticOptions& options) {
  if (values.empty()) {
    return;
  }
  const std::string text = fmt::format("{}", fmt::join(values, ","));
  if (!taken) {
    fail(key, text, fmt::format("{} has no such key; leave it empty", options.problem));
  }
  if (values.size() != static_cast<std::size_t>(options.num_objectives)) {
    fail(key, text,
         fmt::format("expected one number for each of the {} objectives, or none",
                     options.num_objectives));
  }
  for (const double value : values) {
    if (!std::isfinite(value) || value < smallest || (open && value == smallest)) {
      fail(key, text,
           fmt::format("expected finite numbers {} {}", open ? "above" : "of at least", smallest));
    }
  }
}

void check_number(std::string_view key, double value, double smallest, bool open) {
  if (!std::isfinite(value) || value < smallest || (open && value == smallest)) {
    fail(key, value,
         fmt::format("expected a finite number {} {}", open ? "above" : "of at least", smallest));
  }
}

void check_count(std::string_view key, int value, int smallest) {
  if (value < smallest) {
    fail(key, value, fmt::format("expected at least {}", smallest));
  }
}

}  // namespace

void check_options(const AnalyticOptions& options) {
  const Limits& limits = limits_of(options.problem);
  if (options.num_objectives < limits.low_m || options.num_objectives > limits.high_m) {
    fail("num_objectives", options.num_objectives,
         limits.low_m == limits.high_m
             ? fmt::format("{} has {}", options.problem, limits.low_m)
             : fmt::format("{} has {} to {}", options.problem, limits.low_m, limits.high_m));
  }
  check_dimension(options);
  check_number("offset", options.offset, 0.0, false);
  check_number("radius", options.radius, 0.0, true);
  check_list("curvature", options.curvature, limits.curvature, 0.0, true, options);
  check_list("offsets", options.offsets, limits.offsets, 0.0, false, options);
  check_number("condition", options.condition, 1.0, false);
  check_number("dpo_beta", options.dpo_beta, 0.0, true);
  check_number("ridge", options.ridge, 0.0, true);
  check_number("shift", options.shift, 0.0, false);
  check_number("pair_jitter", options.pair_jitter, 0.0, false);
  check_count("clients", options.clients, 1);
  check_count("test_clients", options.test_clients, 0);
  check_count("pairs_per_objective", options.pairs_per_objective, 1);
}

}  // namespace apo::objective::analytic
