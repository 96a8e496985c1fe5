#include "apo/data/preference_vectors.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "spec_text.hpp"
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apo/core/error.hpp"
#include "apo/core/rng.hpp"
#include "apo/core/simplex.hpp"

namespace apo::data {
namespace {

constexpr const char* kKey = "data.preferences";

std::vector<double> draw(const std::vector<double>& alpha, std::uint64_t seed,
                         std::size_t client_index, const std::string& client) {
  CounterRng rng({.seed = seed, .purpose = Purpose::kPreference, .a = client_index});
  std::vector<double> values = rng.dirichlet(alpha);
  // Small concentrations can underflow in every entry; the stream simply goes on.
  while (!std::all_of(values.begin(), values.end(), [](double x) { return std::isfinite(x); })) {
    values = rng.dirichlet(alpha);
  }
  return normalised_preference(values, fmt::format("{}, client '{}'", kKey, client));
}

/// All vectors of num_parts whole numbers with sum `total`, in lexicographic order.
void add_compositions(int total, std::size_t num_parts, std::vector<double>& head,
                      std::vector<std::vector<double>>& all) {
  if (num_parts == 1) {
    head.push_back(total);
    all.push_back(head);
    head.pop_back();
    return;
  }
  for (int part = 0; part <= total; ++part) {
    head.push_back(part);
    add_compositions(total - part, num_parts - 1, head, all);
    head.pop_back();
  }
}

std::vector<std::vector<double>> grid(int num_steps, std::size_t m) {
  double num_points = 1.0;  // binomial(K + m - 1, m - 1)
  for (std::size_t j = 1; j < m; ++j) {
    num_points *= (num_steps + static_cast<double>(j)) / static_cast<double>(j);
  }
  constexpr double kMaxPoints = 1e5;
  if (num_points > kMaxPoints) {
    throw Error(Fault::kConfig,
                fmt::format("{} = grid:{}: has {:.0f} points with {} objectives, expected at most "
                            "{:.0f}",
                            kKey, num_steps, num_points, m, kMaxPoints));
  }
  std::vector<std::vector<double>> points;
  std::vector<double> head;
  add_compositions(num_steps, m, head, points);
  for (std::size_t p = 0; p < points.size(); ++p) {
    points[p] = normalised_preference(points[p], fmt::format("{}, grid point {}", kKey, p + 1));
  }
  return points;
}

[[noreturn]] void fail_count(const std::string& spec, const std::string& wanted) {
  throw Error(Fault::kConfig, fmt::format("{} = {}: expected {}", kKey, spec, wanted));
}

}  // namespace

std::vector<std::vector<double>> make_preferences(const std::string& spec,
                                                  const std::vector<std::string>& clients,
                                                  const std::vector<std::string>& objectives,
                                                  std::uint64_t seed) {
  const std::size_t m = objectives.size();
  const bool dirichlet = spec.starts_with("dirichlet:");
  const bool corners = spec.starts_with("corners:");
  if (!dirichlet && !corners && !spec.starts_with("grid:")) {
    if (!std::filesystem::exists(spec)) {
      fail_count(spec,
                 "an existing file, dirichlet:ALPHA, dirichlet:A1:A2:..., "
                 "corners:STRONG:WEAK or grid:K");
    }
    return read_preference_file(spec, clients, objectives);
  }
  const std::vector<double> numbers = parse_spec(spec, kKey).numbers;
  std::vector<std::vector<double>> preferences(clients.size());
  if (dirichlet || corners) {
    if (dirichlet && numbers.size() != 1 && numbers.size() != m) {
      fail_count(spec, fmt::format("one concentration, or one for each of the {} objectives", m));
    }
    if (corners && numbers.size() != 2) {
      fail_count(spec, "two concentrations");
    }
    for (const double value : numbers) {
      check_concentration(value, kKey);
    }
    for (std::size_t k = 0; k < clients.size(); ++k) {
      std::vector<double> alpha =
          dirichlet && numbers.size() == m ? numbers : std::vector<double>(m, numbers.back());
      if (corners) {
        alpha[k % m] = numbers.front();
      }
      preferences[k] = draw(alpha, seed, k, clients[k]);
    }
    return preferences;
  }
  if (numbers.size() != 1) {
    fail_count(spec, "one number of steps");
  }
  const auto points = grid(whole_number(numbers.front(), 100000, kKey, "the number of steps"), m);
  for (std::size_t k = 0; k < clients.size(); ++k) {
    preferences[k] = points[k % points.size()];
  }
  return preferences;
}

}  // namespace apo::data
