#pragma once

/// @file
/// Agglomeration by definition: before every join all pairs are compared, each cost from the
/// members' own coordinates. O(n^3) pairs; for tests.

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "apo/clustering/clustering.hpp"
#include "apo/core/balance.hpp"

namespace apo::clustering::test {

using Rows = std::vector<std::vector<double>>;

/// Cost of joining two clusters given by their members.
inline double naive_cost(const std::string& linkage, const Rows& x, const std::vector<double>& w,
                         const std::vector<int>& a, const std::vector<int>& b) {
  const auto at = [](int i) { return static_cast<std::size_t>(i); };
  if (linkage == "ward") {  // scatter of the union minus both scatters
    const auto scatter = [&](const std::vector<int>& members) {
      const std::size_t m = x.front().size();
      std::vector<double> mean(m, 0.0);
      double weight = 0.0;
      for (const int i : members) {
        weight += w[at(i)];
        for (std::size_t j = 0; j < m; ++j) {
          mean[j] += w[at(i)] * x[at(i)][j];
        }
      }
      double total = 0.0;
      for (const int i : members) {
        for (std::size_t j = 0; j < m; ++j) {
          const double d = x[at(i)][j] - mean[j] / weight;
          total += w[at(i)] * d * d;
        }
      }
      return total;
    };
    std::vector<int> both = a;
    both.insert(both.end(), b.begin(), b.end());
    return scatter(both) - scatter(a) - scatter(b);
  }
  double sum = 0.0;
  double pairs = 0.0;
  double largest = 0.0;
  double smallest = std::numeric_limits<double>::infinity();
  for (const int i : a) {
    for (const int k : b) {
      double squared = 0.0;
      for (std::size_t j = 0; j < x.front().size(); ++j) {
        squared += (x[at(i)][j] - x[at(k)][j]) * (x[at(i)][j] - x[at(k)][j]);
      }
      const double d = std::sqrt(squared);
      sum += w[at(i)] * w[at(k)] * d;
      pairs += w[at(i)] * w[at(k)];
      largest = std::max(largest, d);
      smallest = std::min(smallest, d);
    }
  }
  return linkage == "average" ? sum / pairs : linkage == "complete" ? largest : smallest;
}

struct NaiveMerge {
  std::vector<int> left;  ///< members, ascending; left holds the smaller one
  std::vector<int> right;
  double height = 0.0;
};

/// Merges inside the groups, by ascending height. Members are positions in `x`.
inline std::vector<NaiveMerge> naive_merges(const std::string& linkage, const Rows& x,
                                            const std::vector<double>& w,
                                            const std::vector<std::vector<int>>& groups) {
  std::vector<NaiveMerge> merges;
  for (const std::vector<int>& group : groups) {
    std::vector<std::vector<int>> alive;  // by smallest member
    for (const int i : group) {
      alive.push_back({i});
    }
    std::sort(alive.begin(), alive.end());
    while (alive.size() > 1) {
      std::size_t best_a = 0;
      std::size_t best_b = 1;
      double best = std::numeric_limits<double>::infinity();
      for (std::size_t a = 0; a < alive.size(); ++a) {
        for (std::size_t b = a + 1; b < alive.size(); ++b) {
          const double cost = naive_cost(linkage, x, w, alive[a], alive[b]);
          if (cost < best) {
            best = cost;
            best_a = a;
            best_b = b;
          }
        }
      }
      merges.push_back({alive[best_a], alive[best_b], best});
      std::vector<int>& kept = alive[best_a];
      kept.insert(kept.end(), alive[best_b].begin(), alive[best_b].end());
      std::sort(kept.begin(), kept.end());
      alive.erase(alive.begin() + static_cast<std::ptrdiff_t>(best_b));
    }
  }
  std::stable_sort(merges.begin(), merges.end(),
                   [](const NaiveMerge& a, const NaiveMerge& b) { return a.height < b.height; });
  return merges;
}

/// The vectors that a method clusters by, and the groups it keeps apart.
inline std::vector<NaiveMerge> naive_merges(const std::vector<Point>& points,
                                            const ClusteringOptions& options) {
  Rows x;
  std::vector<double> w;
  std::map<std::vector<int>, std::vector<int>> groups;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const Point& point = points[i];
    const bool hc = options.method == "hc";
    x.push_back(hc ? point.preference : balance(point.loss, point.preference).adjustment);
    w.push_back(options.weights == "equal" ? 1.0 : point.weight);
    groups[hc ? std::vector<int>{} : bottleneck_order(point.loss, point.preference)].push_back(
        static_cast<int>(i));
  }
  std::vector<std::vector<int>> lists;
  for (const auto& [order, members] : groups) {
    lists.push_back(members);
  }
  return naive_merges(options.linkage, x, w, lists);
}

/// Members of every node of a stored dendrogram: the leaves, then one list per merge.
inline std::vector<std::vector<int>> node_members(const std::vector<Merge>& merges) {
  std::vector<std::vector<int>> members;
  for (std::size_t leaf = 0; leaf <= merges.size(); ++leaf) {
    members.push_back({static_cast<int>(leaf)});
  }
  for (const Merge& merge : merges) {
    std::vector<int> both = members.at(static_cast<std::size_t>(merge.left));
    const auto& right = members.at(static_cast<std::size_t>(merge.right));
    both.insert(both.end(), right.begin(), right.end());
    std::sort(both.begin(), both.end());
    members.push_back(std::move(both));
  }
  return members;
}

}  // namespace apo::clustering::test
