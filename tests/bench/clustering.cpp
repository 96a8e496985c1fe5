/// Seconds and memory of clustering:
///
///     bench_clustering [CLIENTS=1000000] [OBJECTIVES=3] [BUDGET=16] [METHOD=bac] [SPREAD=0.3]
///
/// Preferences are Dirichlet(1), losses log 2 times exp(SPREAD times a normal number), so that
/// SPREAD 0 is the untrained adapter; weights are 20 to 99 pairs. First the whole of
/// cluster_clients(), then (bac) its parts once more, each by itself.

#include "apo/clustering/clustering.hpp"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "dendrogram.hpp"
#include <sys/resource.h>

#include "apo/core/balance.hpp"
#include "apo/core/rng.hpp"
#include "apo/core/simplex.hpp"

namespace {

using apo::clustering::Point;

class Stopwatch {
 public:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

double peak_megabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024.0;
}

std::vector<Point> draw(int n, int m, double spread) {
  apo::CounterRng rng({.seed = 1});
  const std::vector<double> alpha(static_cast<std::size_t>(m), 1.0);
  std::vector<Point> points;
  points.reserve(static_cast<std::size_t>(n));
  for (int i = 0; i < n; ++i) {
    Point point;
    point.client = apo::ClientId(i);
    point.preference = apo::normalised_preference(rng.dirichlet(alpha), "bench");
    point.loss.reserve(alpha.size());
    for (int j = 0; j < m; ++j) {
      point.loss.push_back(std::log(2.0) * std::exp(spread * rng.normal()));
    }
    point.weight = 20.0 + static_cast<double>(rng.below(80));
    points.push_back(std::move(point));
  }
  return points;
}

void time_parts(const std::vector<Point>& points, int m, int budget) {
  Stopwatch watch;
  apo::clustering::Leaves leaves;
  leaves.dimension = m;
  std::map<std::vector<int>, int> group;
  std::vector<std::vector<int>> orders;
  for (const Point& point : points) {
    orders.push_back(apo::clustering::bottleneck_order(point.loss, point.preference));
    group.try_emplace(orders.back(), 0);
    const std::vector<double> a = apo::balance(point.loss, point.preference).adjustment;
    leaves.position.insert(leaves.position.end(), a.begin(), a.end());
    leaves.weight.push_back(point.weight);
  }
  for (auto& [order, index] : group) {
    index = static_cast<int>(leaves.orders.size());
    leaves.orders.push_back(order);
  }
  for (const std::vector<int>& order : orders) {
    leaves.group.push_back(group.at(order));
  }
  std::printf("  orders and adjustments  %8.2f s\n", watch.seconds());
  watch = {};
  const apo::clustering::Dendrogram tree(leaves, apo::clustering::LinkageKind::kWard);
  std::printf("  dendrogram              %8.2f s\n", watch.seconds());
  watch = {};
  const std::vector<int> labels = tree.labels(tree.cut({tree.root()}, budget, 0.0));
  std::printf("  cut and labels          %8.2f s\n", watch.seconds());
}

}  // namespace

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 1000000;
  const int m = argc > 2 ? std::atoi(argv[2]) : 3;
  const int budget = argc > 3 ? std::atoi(argv[3]) : 16;
  const std::string method = argc > 4 ? argv[4] : "bac";
  const double spread = argc > 5 ? std::atof(argv[5]) : 0.3;
  if (n < 1 || m < 1 || budget < 1) {
    std::fprintf(stderr,
                 "usage: bench_clustering [CLIENTS] [OBJECTIVES] [BUDGET] [METHOD] [SPREAD]\n");
    return 64;
  }
  Stopwatch watch;
  const std::vector<Point> points = draw(n, m, spread);
  std::printf("%d clients, %d objectives, budget %d, method %s, losses spread by %g\n", n, m,
              budget, method.c_str(), spread);
  std::printf("draw                      %8.2f s   %8.0f MB peak\n", watch.seconds(),
              peak_megabytes());
  apo::clustering::ClusteringOptions options;
  options.budget = budget;
  options.method = method;
  watch = {};
  {
    const apo::clustering::Clustering found = apo::clustering::cluster_clients(points, options);
    std::printf("cluster_clients           %8.2f s   %8.0f MB peak   %zu clusters, %zu merges\n",
                watch.seconds(), peak_megabytes(), found.clusters.size(), found.dendrogram.size());
  }
  if (method == "bac") {
    time_parts(points, m, budget);
  }
}
