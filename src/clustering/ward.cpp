#include "ward.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace apo::clustering {

namespace {

constexpr int kLeafSize = 8;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
// A bound and a cost may round differently: 9 roundings of 1.1e-16 between them.
constexpr double kBoundSlack = 1.0 - 4e-15;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

}  // namespace

struct WardLinkage::Query {
  const double* mean;
  double weight;
  int slot;
  Candidate best;
};

WardLinkage::WardLinkage(std::vector<double> mean, std::vector<double> weight, int dimension)
    : dimension_(dimension),
      mean_(std::move(mean)),
      weight_(std::move(weight)),
      place_of_(weight_.size()),
      leaf_of_(weight_.size()),
      living_(static_cast<int>(weight_.size())) {
  rebuild();
}

double* WardLinkage::mean_of(int slot) {
  return mean_.data() + static_cast<std::ptrdiff_t>(slot) * dimension_;
}

const double* WardLinkage::mean_of(int slot) const {
  return mean_.data() + static_cast<std::ptrdiff_t>(slot) * dimension_;
}

void WardLinkage::rebuild() {
  std::vector<int> living;
  living.reserve(at(living_));
  for (int slot = 0; slot < static_cast<int>(weight_.size()); ++slot) {
    if (weight_[at(slot)] > 0.0) {
      living.push_back(slot);
    }
  }
  built_for_ = living_;
  tree_ = build_box_tree(mean_, dimension_, std::move(living), kLeafSize);
  const std::size_t num_nodes = tree_.nodes.size();
  lightest_.assign(num_nodes, kInfinity);
  place_mean_.resize(tree_.items.size() * at(dimension_));
  place_weight_.resize(tree_.items.size());
  for (std::size_t reversed = num_nodes; reversed > 0; --reversed) {
    const std::size_t node = reversed - 1;
    const BoxTree::Node& here = tree_.nodes[node];
    if (here.right >= 0) {
      lightest_[node] = std::min(lightest_[node + 1], lightest_[at(here.right)]);
      continue;
    }
    for (int place = here.begin; place < here.end; ++place) {
      const int slot = tree_.items[at(place)];
      place_of_[at(slot)] = place;
      leaf_of_[at(slot)] = static_cast<int>(node);
      std::copy_n(mean_of(slot), dimension_, place_mean_.begin() + place * dimension_);
      place_weight_[at(place)] = weight_[at(slot)];
      lightest_[node] = std::min(lightest_[node], weight_[at(slot)]);
    }
  }
}

double WardLinkage::least_cost(int node, const Query& query) const {
  const double lightest = lightest_[at(node)];
  if (lightest == kInfinity) {
    return kInfinity;
  }
  const double* low = tree_.low(node);
  const double* high = low + dimension_;
  double squared = 0.0;
  for (int j = 0; j < dimension_; ++j) {
    const double x = query.mean[j];
    const double gap = std::max(0.0, std::max(low[j] - x, x - high[j]));
    squared += gap * gap;
  }
  return kBoundSlack * ward_cost(squared, query.weight, lightest);
}

void WardLinkage::scan(int leaf, Query& query) const {
  const BoxTree::Node& node = tree_.nodes[at(leaf)];
  for (int place = node.begin; place < node.end; ++place) {
    const int slot = tree_.items[at(place)];
    if (slot == query.slot) {
      continue;
    }
    const double* mean = place_mean_.data() + static_cast<std::ptrdiff_t>(place) * dimension_;
    const double cost = ward_cost(squared_distance(query.mean, mean, dimension_), query.weight,
                                  place_weight_[at(place)]);
    Candidate& best = query.best;
    if (best.slot < 0 || cost < best.cost || (cost == best.cost && slot < best.slot)) {
      best = {cost, slot};
    }
  }
}

void WardLinkage::descend(int node, Query& query) const {
  const int right = tree_.nodes[at(node)].right;
  if (right < 0) {
    scan(node, query);
    return;
  }
  int near = node + 1;
  int far = right;
  double near_cost = least_cost(near, query);
  double far_cost = least_cost(far, query);
  if (far_cost < near_cost) {
    std::swap(near, far);
    std::swap(near_cost, far_cost);
  }
  // Equal costs are looked at too: the slot there may be lower.
  if (near_cost <= query.best.cost) {
    descend(near, query);
  }
  if (far_cost <= query.best.cost) {
    descend(far, query);
  }
}

Candidate WardLinkage::nearest(int slot) const {
  Query query{mean_of(slot), weight_[at(slot)], slot, {}};
  // Upwards from the slot's own leaf, so that the first candidates are near.
  int node = leaf_of_[at(slot)];
  scan(node, query);
  while (node != 0) {
    const int parent = tree_.nodes[at(node)].parent;
    const int sibling = node == parent + 1 ? tree_.nodes[at(parent)].right : parent + 1;
    if (least_cost(sibling, query) <= query.best.cost) {
      descend(sibling, query);
    }
    node = parent;
  }
  return query.best;
}

void WardLinkage::move(int slot, int place, int leaf) {
  tree_.items[at(place)] = slot;
  place_of_[at(slot)] = place;
  leaf_of_[at(slot)] = leaf;
  std::copy_n(mean_of(slot), dimension_, place_mean_.begin() + place * dimension_);
  place_weight_[at(place)] = weight_[at(slot)];
}

void WardLinkage::remove(int slot) {
  const int leaf = leaf_of_[at(slot)];
  const int last = --tree_.nodes[at(leaf)].end;
  const int place = place_of_[at(slot)];
  if (place != last) {
    move(tree_.items[at(last)], place, leaf);
  }
  update_lightest(leaf);
}

void WardLinkage::update_lightest(int leaf) {
  const BoxTree::Node& node = tree_.nodes[at(leaf)];
  double lightest = kInfinity;
  for (int place = node.begin; place < node.end; ++place) {
    lightest = std::min(lightest, place_weight_[at(place)]);
  }
  int here = leaf;
  while (lightest_[at(here)] != lightest) {
    lightest_[at(here)] = lightest;
    if (here == 0) {
      return;
    }
    here = tree_.nodes[at(here)].parent;
    lightest = std::min(lightest_[at(here + 1)], lightest_[at(tree_.nodes[at(here)].right)]);
  }
}

void WardLinkage::extend(int leaf, const double* mean) {
  for (int node = leaf; node >= 0; node = tree_.nodes[at(node)].parent) {
    double* low = tree_.box.data() + static_cast<std::ptrdiff_t>(node) * 2 * dimension_;
    double* high = low + dimension_;
    bool inside = true;
    for (int j = 0; j < dimension_; ++j) {
      inside = inside && low[j] <= mean[j] && mean[j] <= high[j];
      low[j] = std::min(low[j], mean[j]);
      high[j] = std::max(high[j], mean[j]);
    }
    if (inside) {
      return;
    }
  }
}

void WardLinkage::join(int keep, int gone) {
  // The union takes the place of the heavier one, which it is nearer to.
  const bool stays = weight_[at(keep)] >= weight_[at(gone)];
  remove(stays ? gone : keep);
  const int host = stays ? keep : gone;
  const int place = place_of_[at(host)];
  const int leaf = leaf_of_[at(host)];
  absorb(mean_of(keep), weight_[at(keep)], mean_of(gone), weight_[at(gone)], dimension_);
  weight_[at(gone)] = 0.0;
  move(keep, place, leaf);
  extend(leaf, mean_of(keep));
  update_lightest(leaf);
  if (--living_ > kLeafSize && 2 * living_ <= built_for_) {
    rebuild();
  }
}

}  // namespace apo::clustering
