#include "box_tree.hpp"

#include <algorithm>

namespace apo::clustering {

namespace {

class Builder {
 public:
  Builder(std::span<const double> positions, BoxTree& tree, int leaf_size)
      : positions_(positions), tree_(tree), leaf_size_(leaf_size) {}

  int grow(int begin, int end, int parent) {
    const int node = static_cast<int>(tree_.nodes.size());
    tree_.nodes.push_back({begin, end, -1, parent});
    bound(begin, end);
    if (end - begin <= leaf_size_) {
      return node;
    }
    int widest = 0;
    for (int j = 1; j < tree_.dimension; ++j) {
      if (side(node, j) > side(node, widest)) {
        widest = j;
      }
    }
    const int middle = begin + (end - begin) / 2;
    std::nth_element(tree_.items.begin() + begin, tree_.items.begin() + middle,
                     tree_.items.begin() + end, [&](int a, int b) {
                       const double x = at(a, widest);
                       const double y = at(b, widest);
                       return x != y ? x < y : a < b;
                     });
    grow(begin, middle, node);
    const int right = grow(middle, end, node);
    tree_.nodes[static_cast<std::size_t>(node)].right = right;
    return node;
  }

 private:
  [[nodiscard]] double at(int point, int axis) const {
    return positions_[static_cast<std::size_t>(point) * static_cast<std::size_t>(tree_.dimension) +
                      static_cast<std::size_t>(axis)];
  }
  [[nodiscard]] double side(int node, int axis) const {
    return tree_.high(node)[axis] - tree_.low(node)[axis];
  }

  void bound(int begin, int end) {
    const std::size_t low = tree_.box.size();
    const auto m = static_cast<std::size_t>(tree_.dimension);
    tree_.box.resize(low + 2 * m);
    for (std::size_t j = 0; j < m; ++j) {
      const int axis = static_cast<int>(j);
      double least = at(tree_.items[static_cast<std::size_t>(begin)], axis);
      double most = least;
      for (int place = begin + 1; place < end; ++place) {
        const double x = at(tree_.items[static_cast<std::size_t>(place)], axis);
        least = std::min(least, x);
        most = std::max(most, x);
      }
      tree_.box[low + j] = least;
      tree_.box[low + m + j] = most;
    }
  }

  std::span<const double> positions_;
  BoxTree& tree_;
  int leaf_size_;
};

}  // namespace

BoxTree build_box_tree(std::span<const double> positions, int dimension, std::vector<int> items,
                       int leaf_size) {
  BoxTree tree;
  tree.dimension = dimension;
  tree.items = std::move(items);
  const std::size_t nodes = 4 * tree.items.size() / static_cast<std::size_t>(leaf_size) + 1;
  tree.nodes.reserve(nodes);
  tree.box.reserve(nodes * 2 * static_cast<std::size_t>(dimension));
  Builder(positions, tree, leaf_size).grow(0, static_cast<int>(tree.items.size()), -1);
  return tree;
}

}  // namespace apo::clustering
