#include "dendrogram.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <queue>

#include "prefix_linkage.hpp"
#include "ward.hpp"

#include "apo/core/error.hpp"

namespace apo::clustering {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// `members` by position, equal positions side by side and ascending.
std::vector<int> by_position(const std::vector<int>& members, const Leaves& leaves) {
  std::vector<int> sorted = members;
  std::sort(sorted.begin(), sorted.end(), [&](int a, int b) {
    const double* x = leaves.at(a);
    const double* y = leaves.at(b);
    for (int j = 0; j < leaves.dimension; ++j) {
      if (x[j] != y[j]) {
        return x[j] < y[j];
      }
    }
    return a < b;
  });
  return sorted;
}

/// Sets of members at one place, by ascending smallest member.
struct Coincident {
  std::vector<int> member;  // set after set, ascending within
  std::vector<int> begin;   // first of each set, and the end
};

Coincident find_coincident(const std::vector<int>& members, const Leaves& leaves) {
  const std::vector<int> sorted = by_position(members, leaves);
  std::vector<std::pair<int, int>> sets;  // [begin, end) in sorted
  for (int first = 0; first < static_cast<int>(sorted.size());) {
    int end = first + 1;
    while (end < static_cast<int>(sorted.size()) &&
           std::equal(leaves.at(sorted[at(first)]), leaves.at(sorted[at(first)]) + leaves.dimension,
                      leaves.at(sorted[at(end)]))) {
      ++end;
    }
    sets.emplace_back(first, end);
    first = end;
  }
  std::sort(sets.begin(), sets.end(), [&](const auto& a, const auto& b) {
    return sorted[at(a.first)] < sorted[at(b.first)];
  });
  Coincident result;
  result.member.reserve(sorted.size());
  for (const auto& [first, end] : sets) {
    result.begin.push_back(static_cast<int>(result.member.size()));
    result.member.insert(result.member.end(), sorted.begin() + first, sorted.begin() + end);
  }
  result.begin.push_back(static_cast<int>(result.member.size()));
  return result;
}

std::unique_ptr<Linkage> make_linkage(LinkageKind kind, std::vector<double> positions,
                                      std::vector<double> weights, int dimension) {
  if (kind == LinkageKind::kWard) {
    return std::make_unique<WardLinkage>(std::move(positions), std::move(weights), dimension);
  }
  if (weights.size() > static_cast<std::size_t>(kMaxDistancePoints)) {
    throw Error(Fault::kConfig, "clustering.linkage: only ward takes more than " +
                                    std::to_string(kMaxDistancePoints) +
                                    " different points in one bottleneck order, found " +
                                    std::to_string(weights.size()));
  }
  return std::make_unique<DistanceLinkage>(kind, positions, std::move(weights), dimension);
}

}  // namespace

Dendrogram::Dendrogram(const Leaves& leaves, LinkageKind linkage)
    : num_leaves_(leaves.count()), leaf_weight_(leaves.weight) {
  std::vector<std::vector<int>> members(leaves.orders.size());  // ascending
  for (int leaf = 0; leaf < num_leaves_; ++leaf) {
    members[at(leaves.group[at(leaf)])].push_back(leaf);
  }
  merges_.reserve(at(num_leaves_) - 1);
  smallest_leaf_.reserve(at(num_leaves_) - 1);
  for (const std::vector<int>& group : members) {
    group_roots_.push_back(grow(group, leaves, linkage));
  }
  sort_by_height();
  join_groups(leaves, std::move(members));
}

int Dendrogram::smallest_leaf(int node) const {
  return node < num_leaves_ ? node : smallest_leaf_[at(node - num_leaves_)];
}

double Dendrogram::height(int node) const {
  return node < num_leaves_ ? 0.0 : merges_[at(node - num_leaves_)].height;
}

double Dendrogram::weight(int node) const {
  return node < num_leaves_ ? leaf_weight_[at(node)] : merges_[at(node - num_leaves_)].weight;
}

int Dendrogram::add(int a, int b, double cost) {
  const int left = smallest_leaf(a) < smallest_leaf(b) ? a : b;
  const int right = left == a ? b : a;
  // Costs rise along the tree in exact arithmetic; rounding may not undo that.
  merges_.push_back(
      {left, right, std::max({cost, height(a), height(b)}), weight(left) + weight(right)});
  smallest_leaf_.push_back(smallest_leaf(left));
  return root();
}

int Dendrogram::grow(const std::vector<int>& members, const Leaves& leaves, LinkageKind linkage) {
  // Members at one place come first: joining them costs 0, ties by the smallest leaves.
  const Coincident sets = find_coincident(members, leaves);
  const auto num_slots = static_cast<int>(sets.begin.size()) - 1;
  const auto m = at(leaves.dimension);
  std::vector<int> node(at(num_slots));
  std::vector<double> positions(at(num_slots) * m);
  std::vector<double> weights(at(num_slots));
  for (int slot = 0; slot < num_slots; ++slot) {
    const int first = sets.begin[at(slot)];
    int& top = node[at(slot)] = sets.member[at(first)];
    for (int next = first + 1; next < sets.begin[at(slot) + 1]; ++next) {
      top = add(top, sets.member[at(next)], 0.0);
    }
    std::copy_n(leaves.at(sets.member[at(first)]), m, positions.begin() + slot * leaves.dimension);
    weights[at(slot)] = weight(top);
  }
  const std::unique_ptr<Linkage> costs =
      make_linkage(linkage, std::move(positions), std::move(weights), leaves.dimension);
  for (const Join& join : agglomerate(num_slots, *costs)) {
    node[at(join.slot)] = add(node[at(join.slot)], node[at(join.other)], join.cost);
  }
  return node.front();
}

/// Renumbers the merges of all groups by ascending height; children stay before their parents.
void Dendrogram::sort_by_height() {
  std::vector<int> order(merges_.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return merges_[at(a)].height < merges_[at(b)].height; });
  std::vector<int> place(merges_.size());
  for (std::size_t k = 0; k < order.size(); ++k) {
    place[at(order[k])] = static_cast<int>(k);
  }
  const auto moved = [&](int node) {
    return node < num_leaves_ ? node : num_leaves_ + place[at(node - num_leaves_)];
  };
  std::vector<Merge> merges;
  std::vector<int> smallest;
  merges.reserve(merges_.capacity());
  smallest.reserve(smallest_leaf_.capacity());
  for (const int old : order) {
    Merge merge = merges_[at(old)];
    merge.left = moved(merge.left);
    merge.right = moved(merge.right);
    merges.push_back(merge);
    smallest.push_back(smallest_leaf_[at(old)]);
  }
  merges_ = std::move(merges);
  smallest_leaf_ = std::move(smallest);
  for (int& group_root : group_roots_) {
    group_root = moved(group_root);
  }
}

/// Bottleneck orders down to one, for budgets below their number.
void Dendrogram::join_groups(const Leaves& leaves, std::vector<std::vector<int>> members) {
  std::vector<PrefixGroup> groups;
  for (std::size_t g = 0; g < members.size(); ++g) {
    PrefixGroup group{leaves.orders[g], {}, 0.0};
    for (const int leaf : members[g]) {
      if (group.mean.empty()) {
        group.mean.assign(leaves.at(leaf), leaves.at(leaf) + leaves.dimension);
        group.weight = leaves.weight[at(leaf)];
      } else {
        absorb(group.mean.data(), group.weight, leaves.at(leaf), leaves.weight[at(leaf)],
               leaves.dimension);
      }
    }
    groups.push_back(std::move(group));
  }
  std::vector<int> node = group_roots_;
  for (const Join& join : join_by_prefix(std::move(groups))) {
    node[at(join.slot)] = add(node[at(join.slot)], node[at(join.other)], kInfinity);
  }
}

std::vector<int> Dendrogram::cut(std::vector<int> roots, int count, double zero_height) const {
  // Strict weak order of positions in `roots`: leaves last.
  const auto splits_later = [&](int i, int j) {
    const int a = roots[at(i)];
    const int b = roots[at(j)];
    if ((a < num_leaves_) != (b < num_leaves_)) {
      return a < num_leaves_;
    }
    if (height(a) != height(b)) {
      return height(a) < height(b);
    }
    if (height(a) == kInfinity) {
      return a < b;
    }
    if (weight(a) != weight(b)) {
      return weight(a) < weight(b);
    }
    return smallest_leaf(a) > smallest_leaf(b);
  };
  std::priority_queue<int, std::vector<int>, decltype(splits_later)> queue(splits_later);
  for (std::size_t i = 0; i < roots.size(); ++i) {
    queue.push(static_cast<int>(i));
  }
  while (static_cast<int>(roots.size()) < count) {
    const int next = queue.top();
    const int node = roots[at(next)];
    if (node < num_leaves_ || height(node) <= zero_height) {
      break;
    }
    queue.pop();
    const Merge& merge = merges_[at(node - num_leaves_)];
    roots[at(next)] = merge.left;
    roots.push_back(merge.right);
    queue.push(next);
    queue.push(static_cast<int>(roots.size()) - 1);
  }
  return roots;
}

std::vector<int> Dendrogram::labels(std::span<const int> roots) const {
  std::vector<int> label(at(num_leaves_) + merges_.size(), -1);
  for (std::size_t i = 0; i < roots.size(); ++i) {
    label[at(roots[i])] = static_cast<int>(i);
  }
  for (std::size_t k = merges_.size(); k > 0; --k) {  // parents before their children
    const int above = label[at(num_leaves_) + k - 1];
    if (above >= 0) {
      label[at(merges_[k - 1].left)] = above;
      label[at(merges_[k - 1].right)] = above;
    }
  }
  label.resize(at(num_leaves_));
  return label;
}

std::vector<int> Dendrogram::capacities(double zero_height) const {
  std::vector<int> group(at(num_leaves_) + merges_.size(), -1);
  std::vector<int> capacity(group_roots_.size(), 1);
  for (std::size_t g = 0; g < group_roots_.size(); ++g) {
    group[at(group_roots_[g])] = static_cast<int>(g);
  }
  for (std::size_t k = merges_.size(); k > 0; --k) {
    const Merge& merge = merges_[k - 1];
    const int own = group[at(num_leaves_) + k - 1];
    if (own >= 0) {
      group[at(merge.left)] = group[at(merge.right)] = own;
      capacity[at(own)] += merge.height > zero_height ? 1 : 0;
    }
  }
  return capacity;
}

}  // namespace apo::clustering
