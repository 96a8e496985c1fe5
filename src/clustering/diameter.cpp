#include "diameter.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "box_tree.hpp"
#include "ward.hpp"

namespace apo::clustering {

namespace {

constexpr int kLeafSize = 16;

class Search {
 public:
  Search(std::span<const double> positions, int dimension)
      : positions_(positions), dimension_(dimension) {
    std::vector<int> all(positions.size() / static_cast<std::size_t>(dimension));
    std::iota(all.begin(), all.end(), 0);
    tree_ = build_box_tree(positions, dimension, std::move(all), kLeafSize);
  }

  double run() {
    // From anywhere to the farthest point and on to the farthest from there: a good start.
    farthest_from(farthest_from(0));
    visit(0, 0);
    return std::sqrt(largest_);
  }

 private:
  [[nodiscard]] const double* at(int point) const {
    return positions_.data() + static_cast<std::ptrdiff_t>(point) * dimension_;
  }
  [[nodiscard]] const BoxTree::Node& node(int index) const {
    return tree_.nodes[static_cast<std::size_t>(index)];
  }
  [[nodiscard]] int size(int index) const { return node(index).end - node(index).begin; }

  int farthest_from(int point) {
    int farthest = point;
    double found = 0.0;
    for (const int other : tree_.items) {
      const double squared = squared_distance(at(point), at(other), dimension_);
      if (squared > found) {
        found = squared;
        farthest = other;
      }
    }
    largest_ = std::max(largest_, found);
    return farthest;
  }

  /// Largest squared distance that two points of these boxes can have.
  [[nodiscard]] double most(int a, int b) const {
    double squared = 0.0;
    for (int j = 0; j < dimension_; ++j) {
      const double span =
          std::max(tree_.high(a)[j] - tree_.low(b)[j], tree_.high(b)[j] - tree_.low(a)[j]);
      squared += span * span;
    }
    return squared;
  }

  void visit(int a, int b) {
    if (most(a, b) <= largest_) {
      return;
    }
    if (node(a).right < 0 && node(b).right < 0) {
      for (int i = node(a).begin; i < node(a).end; ++i) {
        for (int j = node(b).begin; j < node(b).end; ++j) {
          largest_ = std::max(
              largest_, squared_distance(at(tree_.items[static_cast<std::size_t>(i)]),
                                         at(tree_.items[static_cast<std::size_t>(j)]), dimension_));
        }
      }
      return;
    }
    if (a == b) {
      visit(a + 1, node(a).right);
      visit(a + 1, a + 1);
      visit(node(a).right, node(a).right);
      return;
    }
    if (size(a) < size(b)) {
      std::swap(a, b);
    }
    int near = a + 1;
    int far = node(a).right;
    if (most(near, b) > most(far, b)) {
      std::swap(near, far);
    }
    visit(far, b);
    visit(near, b);
  }

  std::span<const double> positions_;
  int dimension_;
  BoxTree tree_;
  double largest_ = 0.0;  // squared
};

}  // namespace

double diameter(std::span<const double> positions, int dimension) {
  return Search(positions, dimension).run();
}

}  // namespace apo::clustering
