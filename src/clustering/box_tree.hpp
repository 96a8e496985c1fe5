#pragma once

/// @file
/// Inside the room: a k-d tree with bounding boxes (Bentley 1975), for exact branch and bound.

#include <cstddef>
#include <span>
#include <vector>

namespace apo::clustering {

/// Nodes in preorder: node 0 is the root, the left child of an inner node is the next node.
struct BoxTree {
  struct Node {
    int begin = 0;   ///< first place in `items`
    int end = 0;     ///< one past the last
    int right = -1;  ///< right child; -1: a leaf
    int parent = -1;
  };

  int dimension = 0;
  std::vector<int> items;  ///< numbers of points, so that every node's are contiguous
  std::vector<Node> nodes;
  std::vector<double> box;  ///< [node, 2, dimension]: lower corner, then upper corner

  [[nodiscard]] const double* low(int node) const {
    return box.data() + static_cast<std::ptrdiff_t>(node) * 2 * dimension;
  }
  [[nodiscard]] const double* high(int node) const { return low(node) + dimension; }
};

/// Splits the longest side of each box at the median until at most `leaf_size` points are left.
///
/// @param positions  [.., dimension], row i is point i
/// @param items      the points to take, at least one
[[nodiscard]] BoxTree build_box_tree(std::span<const double> positions, int dimension,
                                     std::vector<int> items, int leaf_size);

}  // namespace apo::clustering
