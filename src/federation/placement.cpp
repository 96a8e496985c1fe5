#include "apo/federation/placement.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "apo/core/error.hpp"

namespace apo::federation {
namespace {

/// Team sizes: each cluster one rank, the rest by largest remainder of its share of the cost.
std::vector<int> team_sizes(std::span<const double> cost, int num_ranks) {
  const std::size_t b = cost.size();
  const double total = std::accumulate(cost.begin(), cost.end(), 0.0);
  std::vector<int> sizes(b, 1);
  const int spare = num_ranks - static_cast<int>(b);
  std::vector<double> remainder(b);
  int given = 0;
  for (std::size_t c = 0; c < b; ++c) {
    const double wish = spare * cost[c] / total;
    const int whole = static_cast<int>(std::floor(wish));
    sizes[c] += whole;
    given += whole;
    remainder[c] = wish - whole;
  }
  std::vector<std::size_t> order(b);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t c) { return remainder[a] > remainder[c]; });
  for (std::size_t k = 0; given < spare; ++k, ++given) {
    ++sizes[order[k % b]];
  }
  return sizes;
}

}  // namespace

Placement place_clusters(std::span<const double> cost, int num_ranks) {
  expects(!cost.empty() && num_ranks > 0, "place_clusters: no clusters or no ranks");
  expects(std::all_of(cost.begin(), cost.end(), [](double x) { return x > 0.0; }),
          "place_clusters: costs must be positive");
  const int b = static_cast<int>(cost.size());
  Placement placement;
  placement.team_of_rank.resize(static_cast<std::size_t>(num_ranks));
  placement.team_of_cluster.resize(cost.size());
  if (num_ranks >= b) {
    const std::vector<int> sizes = team_sizes(cost, num_ranks);
    int first = 0;
    for (int c = 0; c < b; ++c) {
      const int size = sizes[static_cast<std::size_t>(c)];
      placement.teams.push_back({first, size, {c}});
      first += size;
    }
  } else {
    std::vector<int> order(cost.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int c) {
      return cost[static_cast<std::size_t>(a)] > cost[static_cast<std::size_t>(c)];
    });
    std::vector<double> load(static_cast<std::size_t>(num_ranks), 0.0);
    for (int r = 0; r < num_ranks; ++r) {
      placement.teams.push_back({r, 1, {}});
    }
    for (const int c : order) {
      const auto r = static_cast<std::size_t>(
          std::distance(load.begin(), std::min_element(load.begin(), load.end())));
      load[r] += cost[static_cast<std::size_t>(c)];
      placement.teams[r].clusters.push_back(c);
    }
  }
  for (std::size_t t = 0; t < placement.teams.size(); ++t) {
    Team& team = placement.teams[t];
    std::sort(team.clusters.begin(), team.clusters.end());
    for (const int c : team.clusters) {
      placement.team_of_cluster[static_cast<std::size_t>(c)] = static_cast<int>(t);
    }
    for (int r = 0; r < team.num_ranks; ++r) {
      const int rank = team.first_rank + r;
      placement.team_of_rank[static_cast<std::size_t>(rank)] = static_cast<int>(t);
    }
  }
  return placement;
}

std::pair<int, int> block_of(int count, int rank, int size) {
  const int base = count / size;
  const int extra = count % size;
  const int begin = rank * base + std::min(rank, extra);
  return {begin, begin + base + (rank < extra ? 1 : 0)};
}

}  // namespace apo::federation
