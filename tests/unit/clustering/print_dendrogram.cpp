/// print_dendrogram [METHOD LINKAGE]: reads "n m budget", then n lines
/// "weight loss[m] preference[m]"; prints the merges "left right height weight", a line "labels",
/// and the cluster of each point.

#include <cstdio>
#include <iostream>

#include "apo/clustering/clustering.hpp"

int main(int argc, char** argv) {
  int n = 0;
  int m = 0;
  apo::clustering::ClusteringOptions options;
  if (argc == 3) {
    options.method = argv[1];
    options.linkage = argv[2];
  }
  std::cin >> n >> m >> options.budget;
  std::vector<apo::clustering::Point> points(static_cast<std::size_t>(n));
  for (int i = 0; i < n; ++i) {
    auto& point = points[static_cast<std::size_t>(i)];
    point.client = apo::ClientId(i);
    point.loss.resize(static_cast<std::size_t>(m));
    point.preference.resize(static_cast<std::size_t>(m));
    std::cin >> point.weight;
    for (double& loss : point.loss) {
      std::cin >> loss;
    }
    for (double& preference : point.preference) {
      std::cin >> preference;
    }
  }
  if (!std::cin) {
    std::fprintf(stderr, "print_dendrogram: input ends early\n");
    return 1;
  }
  const auto result = apo::clustering::cluster_clients(points, options);
  for (const auto& merge : result.dendrogram) {
    std::printf("%d %d %.17g %.17g\n", merge.left, merge.right, merge.height, merge.weight);
  }
  std::printf("labels\n");
  for (const auto cluster : result.assignment) {
    std::printf("%d\n", cluster.value);
  }
}
