/// The searches (k-d tree, distance table, heap) against comparing all pairs before every join: the
/// same joins, bit for bit, ties included.

#include "agglomerate.hpp"

#include <cmath>
#include <functional>

#include "distance_linkage.hpp"
#include "prefix_linkage.hpp"
#include "ward.hpp"
#include <gtest/gtest.h>

#include "apo/core/rng.hpp"

namespace apo::clustering {
namespace {

using Vector = std::vector<double>;

/// All pairs before every join; ties by the smaller slot, then by the smaller other slot.
std::vector<Join> compare_all_pairs(int count, const std::function<double(int, int)>& cost,
                                    const std::function<void(int, int)>& join) {
  std::vector<int> alive;
  for (int slot = 0; slot < count; ++slot) {
    alive.push_back(slot);
  }
  std::vector<Join> joins;
  while (alive.size() > 1) {
    Join best{-1, -1, 0.0};
    for (std::size_t i = 0; i < alive.size(); ++i) {
      for (std::size_t k = i + 1; k < alive.size(); ++k) {
        const double found = cost(alive[i], alive[k]);
        if (best.slot < 0 || found < best.cost) {
          best = {alive[i], alive[k], found};
        }
      }
    }
    join(best.slot, best.other);
    joins.push_back(best);
    std::erase(alive, best.other);
  }
  return joins;
}

void expect_same(const std::vector<Join>& found, const std::vector<Join>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t k = 0; k < found.size(); ++k) {
    ASSERT_EQ(found[k].slot, expected[k].slot) << "join " << k;
    ASSERT_EQ(found[k].other, expected[k].other) << "join " << k;
    ASSERT_EQ(found[k].cost, expected[k].cost) << "join " << k;
  }
}

void expect_ward_agrees(const Vector& positions, const Vector& weights, int m) {
  Vector mean = positions;
  Vector weight = weights;
  const auto count = static_cast<int>(weight.size());
  const auto row = [&](int slot) { return mean.data() + static_cast<std::ptrdiff_t>(slot) * m; };
  const auto w = [&](int slot) -> double& { return weight[static_cast<std::size_t>(slot)]; };
  const std::vector<Join> expected = compare_all_pairs(
      count,
      [&](int a, int b) { return ward_cost(squared_distance(row(a), row(b), m), w(a), w(b)); },
      [&](int a, int b) { absorb(row(a), w(a), row(b), w(b), m); });
  WardLinkage linkage(positions, weights, m);
  expect_same(agglomerate(count, linkage), expected);
}

Vector draw(std::uint64_t seed, std::size_t count, const std::function<double(CounterRng&)>& one) {
  CounterRng rng({.seed = seed});
  Vector values;
  for (std::size_t i = 0; i < count; ++i) {
    values.push_back(one(rng));
  }
  return values;
}

double uniform(CounterRng& rng) { return rng.uniform(); }
double pairs(CounterRng& rng) { return 1.0 + static_cast<double>(rng.below(50)); }

/// Joins neighbours, or any two slots, and after every join asks some slots for their nearest.
void expect_nearest_is_exact(Vector mean, Vector weight, int m, bool any_two) {
  const auto count = static_cast<int>(weight.size());
  const auto row = [&](int slot) { return mean.data() + static_cast<std::ptrdiff_t>(slot) * m; };
  const auto w = [&](int slot) -> double& { return weight[static_cast<std::size_t>(slot)]; };
  WardLinkage linkage(mean, weight, m);
  std::vector<int> alive;
  for (int slot = 0; slot < count; ++slot) {
    alive.push_back(slot);
  }
  CounterRng rng({.seed = 99});
  const auto anyone = [&] { return alive[rng.below(alive.size())]; };
  const auto nearest = [&](int slot) {
    Candidate best;
    for (const int other : alive) {
      if (other != slot) {
        const double cost =
            ward_cost(squared_distance(row(slot), row(other), m), w(slot), w(other));
        if (best.slot < 0 || cost < best.cost) {
          best = {cost, other};
        }
      }
    }
    return best;
  };
  while (alive.size() > 1) {
    for (int check = 0; check < 4; ++check) {
      const int slot = anyone();
      const Candidate expected = nearest(slot);
      const Candidate found = linkage.nearest(slot);
      ASSERT_EQ(found.slot, expected.slot) << alive.size() << " slots left";
      ASSERT_EQ(found.cost, expected.cost) << alive.size() << " slots left";
    }
    const int a = anyone();
    int b = nearest(a).slot;
    while (any_two && (b = anyone()) == a) {
    }
    const auto [keep, gone] = std::minmax(a, b);
    linkage.join(keep, gone);
    absorb(row(keep), w(keep), row(gone), w(gone), m);
    std::erase(alive, gone);
  }
}

TEST(Ward, NearestIsExactWhileSlotsJoin) {
  const auto coordinate = [](CounterRng& rng) { return static_cast<double>(rng.below(30)); };
  const auto magnitudes = [](CounterRng& rng) { return std::exp(9.0 * rng.uniform()); };
  for (const bool any_two : {false, true}) {
    expect_nearest_is_exact(draw(41, 3 * 1200, uniform), draw(42, 1200, pairs), 3, any_two);
    expect_nearest_is_exact(draw(43, 2 * 1200, uniform), draw(44, 1200, magnitudes), 2, any_two);
    expect_nearest_is_exact(draw(45, 2 * 800, coordinate), Vector(800, 1.0), 2, any_two);
  }
}

TEST(Ward, RandomPoints) {
  std::uint64_t seed = 0;
  for (const int m : {1, 2, 3, 6}) {
    for (const std::size_t n : {1U, 2U, 3U, 9U, 40U, 150U}) {
      const Vector positions = draw(++seed, n * static_cast<std::size_t>(m), uniform);
      expect_ward_agrees(positions, draw(++seed, n, pairs), m);
    }
  }
}

TEST(Ward, LatticesAreFullOfTies) {
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    const auto coordinate = [](CounterRng& rng) { return static_cast<double>(rng.below(8)); };
    const Vector positions = draw(seed, 2 * 120, coordinate);  // duplicates among them
    expect_ward_agrees(positions, Vector(120, 1.0), 2);
    expect_ward_agrees(positions, draw(seed, 120, pairs), 2);
  }
  Vector line;
  for (int i = 0; i < 100; ++i) {
    line.push_back(i);
  }
  expect_ward_agrees(line, Vector(100, 1.0), 1);
  expect_ward_agrees(Vector(60, 0.25), Vector(60, 1.0), 1);  // all at one place
}

TEST(Ward, WeightsOfManyMagnitudes) {
  // A heavy point is everybody's nearest neighbour, and changes with every join.
  Vector weights = draw(7, 120, [](CounterRng& rng) { return std::exp(12.0 * rng.uniform()); });
  weights[60] = 1e9;
  expect_ward_agrees(draw(8, 3 * 120, uniform), weights, 3);
  // A light point costs next to nothing to join: the bounds have to take it into account.
  Vector light(120, 1.0);
  light[3] = 1e-9;
  light[77] = 1e-6;
  expect_ward_agrees(draw(9, 3 * 120, uniform), light, 3);
}

TEST(Ward, ClumpsAndGeometricGaps) {
  CounterRng rng({.seed = 10});
  Vector clumps;
  for (int i = 0; i < 150; ++i) {
    const double scale = std::pow(10.0, -static_cast<double>(rng.below(8)));
    clumps.push_back(static_cast<double>(rng.below(3)) + scale * rng.uniform());
    clumps.push_back(static_cast<double>(rng.below(3)) + scale * rng.uniform());
  }
  expect_ward_agrees(clumps, Vector(150, 1.0), 2);
  Vector gaps;
  for (int i = 0; i < 60; ++i) {
    gaps.push_back(std::pow(1.5, i));
  }
  expect_ward_agrees(gaps, Vector(60, 1.0), 1);
}

TEST(Distances, AgreeWithAllPairs) {
  constexpr int kCount = 80;
  for (const bool lattice : {false, true}) {
    const Vector positions = draw(21, 2 * kCount, [&](CounterRng& rng) {
      return lattice ? static_cast<double>(rng.below(9)) : rng.uniform();
    });
    const Vector weights = draw(22, kCount, pairs);
    for (const LinkageKind kind : {LinkageKind::kComplete, LinkageKind::kSingle}) {
      // Members' distances, looked up anew for every pair of clusters.
      std::vector<std::vector<int>> members;
      for (int i = 0; i < kCount; ++i) {
        members.push_back({i});
      }
      const auto list = [&](int slot) -> std::vector<int>& {
        return members[static_cast<std::size_t>(slot)];
      };
      const std::vector<Join> expected = compare_all_pairs(
          kCount,
          [&](int a, int b) {
            double least = INFINITY;
            double most = 0.0;
            for (const int i : list(a)) {
              for (const int k : list(b)) {
                const auto x = static_cast<std::size_t>(2 * i);
                const auto y = static_cast<std::size_t>(2 * k);
                const double dx = positions[x] - positions[y];
                const double dy = positions[x + 1] - positions[y + 1];
                least = std::min(least, std::sqrt(dx * dx + dy * dy));
                most = std::max(most, std::sqrt(dx * dx + dy * dy));
              }
            }
            return kind == LinkageKind::kComplete ? most : least;
          },
          [&](int a, int b) { list(a).insert(list(a).end(), list(b).begin(), list(b).end()); });
      DistanceLinkage linkage(kind, positions, weights, 2);
      expect_same(agglomerate(kCount, linkage), expected);
    }
  }
}

TEST(JoinByPrefix, AgreesWithAllPairs) {
  CounterRng rng({.seed = 31});
  for (const int m : {1, 2, 3, 4, 5}) {
    std::vector<int> order;
    for (int j = 0; j < m; ++j) {
      order.push_back(j);
    }
    std::vector<PrefixGroup> groups;
    do {  // all permutations, lexicographic, a third of them left out
      if (m < 3 || rng.below(3) > 0) {
        PrefixGroup group{order, {}, pairs(rng)};
        for (int j = 0; j < m; ++j) {
          group.mean.push_back(static_cast<double>(rng.below(4)));  // ties
        }
        groups.push_back(group);
      }
    } while (std::next_permutation(order.begin(), order.end()));

    // One key for all pairs: the prefix outweighs any Ward cost.
    std::vector<PrefixGroup> left = groups;
    const auto at = [&](int g) -> PrefixGroup& { return left[static_cast<std::size_t>(g)]; };
    const auto prefix = [&](int a, int b) {
      std::size_t length = 0;
      while (length < std::min(at(a).order.size(), at(b).order.size()) &&
             at(a).order[length] == at(b).order[length]) {
        ++length;
      }
      return length;
    };
    const auto cost = [&](int a, int b) {
      return ward_cost(squared_distance(at(a).mean.data(), at(b).mean.data(), m), at(a).weight,
                       at(b).weight);
    };
    std::vector<Join> expected = compare_all_pairs(
        static_cast<int>(groups.size()),
        [&](int a, int b) { return cost(a, b) - 1e6 * static_cast<double>(prefix(a, b)); },
        [&](int a, int b) {
          at(a).order.resize(prefix(a, b));
          absorb(at(a).mean.data(), at(a).weight, at(b).mean.data(), at(b).weight, m);
        });
    const std::vector<Join> found = join_by_prefix(groups);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t k = 0; k < found.size(); ++k) {
      ASSERT_EQ(found[k].slot, expected[k].slot) << "m=" << m << " join " << k;
      ASSERT_EQ(found[k].other, expected[k].other) << "m=" << m << " join " << k;
    }
  }
}

}  // namespace
}  // namespace apo::clustering
