#include "prefix_linkage.hpp"

#include <algorithm>
#include <utility>

#include "ward.hpp"

namespace apo::clustering {

namespace {

/// Ward costs among groups that share their first `length` entries. Groups with a longer prefix in
/// common have been joined before, so no pair has a longer one.
class PrefixLinkage final : public Linkage {
 public:
  PrefixLinkage(std::vector<PrefixGroup> groups, std::size_t length)
      : groups_(std::move(groups)), begin_(groups_.size()), end_(groups_.size()) {
    // Lexicographic order puts groups with a common prefix side by side.
    for (std::size_t first = 0; first < groups_.size();) {
      std::size_t end = first + 1;
      while (end < groups_.size() &&
             common_prefix(groups_[first].order, groups_[end].order) >= length) {
        ++end;
      }
      std::fill(begin_.begin() + static_cast<std::ptrdiff_t>(first),
                begin_.begin() + static_cast<std::ptrdiff_t>(end), first);
      std::fill(end_.begin() + static_cast<std::ptrdiff_t>(first),
                end_.begin() + static_cast<std::ptrdiff_t>(end), end);
      first = end;
    }
  }

  [[nodiscard]] Candidate nearest(int slot) const override {
    const auto own = static_cast<std::size_t>(slot);
    Candidate best;
    for (std::size_t other = begin_[own]; other < end_[own]; ++other) {
      if (other == own || groups_[other].weight == 0.0) {
        continue;
      }
      const double squared = squared_distance(groups_[own].mean.data(), groups_[other].mean.data(),
                                              static_cast<int>(groups_[own].mean.size()));
      const double cost = ward_cost(squared, groups_[own].weight, groups_[other].weight);
      if (best.slot < 0 || cost < best.cost) {
        best = {cost, static_cast<int>(other)};
      }
    }
    return best;
  }

  void join(int keep, int gone) override {
    PrefixGroup& own = groups_[static_cast<std::size_t>(keep)];
    PrefixGroup& other = groups_[static_cast<std::size_t>(gone)];
    absorb(own.mean.data(), own.weight, other.mean.data(), other.weight,
           static_cast<int>(own.mean.size()));
    own.order.resize(common_prefix(own.order, other.order));
    other.weight = 0.0;
  }

  [[nodiscard]] std::vector<PrefixGroup> release() { return std::move(groups_); }

 private:
  std::vector<PrefixGroup> groups_;  // weight 0: gone
  std::vector<std::size_t> begin_;   // [group], the groups with its prefix
  std::vector<std::size_t> end_;
};

}  // namespace

std::size_t common_prefix(const std::vector<int>& a, const std::vector<int>& b) {
  const auto [end, other] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<std::size_t>(end - a.begin());
}

std::vector<Join> join_by_prefix(std::vector<PrefixGroup> groups) {
  std::vector<Join> joins;
  std::vector<int> number(groups.size());  // of the groups that are left
  for (std::size_t g = 0; g < groups.size(); ++g) {
    number[g] = static_cast<int>(g);
  }
  for (std::size_t length = groups.front().order.size(); groups.size() > 1; --length) {
    PrefixLinkage linkage(std::move(groups), length);
    for (const Join& join : agglomerate(static_cast<int>(number.size()), linkage)) {
      joins.push_back({number[static_cast<std::size_t>(join.slot)],
                       number[static_cast<std::size_t>(join.other)], join.cost});
    }
    std::vector<PrefixGroup> left;
    std::vector<int> numbers_left;
    groups = linkage.release();
    for (std::size_t g = 0; g < groups.size(); ++g) {
      if (groups[g].weight > 0.0) {
        left.push_back(std::move(groups[g]));
        numbers_left.push_back(number[g]);
      }
    }
    groups = std::move(left);
    number = std::move(numbers_left);
  }
  return joins;
}

}  // namespace apo::clustering
