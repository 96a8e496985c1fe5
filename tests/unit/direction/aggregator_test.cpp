#include <cmath>

#include "aggregator_oracle.hpp"
#include "solvers.hpp"
#include <gtest/gtest.h>

#include "apo/core/error.hpp"
#include "apo/direction/direction_solver.hpp"

namespace apo::direction {
namespace {

using test::Gradients;
using test::inner;
using test::Kind;
using test::kKinds;
using test::Vector;

const std::array<const char*, 10> kNames{
    "mgda",   "firm",      "cagrad",      "pcgrad", "nash_mtl",
    "upgrad", "dual_proj", "aligned_mtl", "imtl_g", "smooth_chebyshev"};

DirectionOptions named(const char* name) {
  DirectionOptions options;
  options.solver = name;
  return options;
}

Direction solved(const DirectionOptions& options, const Vector& loss, const Vector& gram,
                 const Vector& preference, std::uint64_t key = 0) {
  return make_aggregator(options)->solve(
      {.loss = loss, .gram = gram, .preference = preference, .random_key = key});
}

Vector draw_loss(CounterRng& rng, std::size_t m) {
  Vector loss(m);
  for (double& l : loss) {
    l = 0.1 + 1.9 * rng.uniform();
  }
  return loss;
}

TEST(Aggregators, GoldenNumbers) {
  const Vector gram = test::gram({{1, 0, .5}, {-.5, 1, 0}, {0, -.5, 1}});
  const Vector loss{.6, .4, .9};
  const Vector preference{.5, .3, .2};
  const Direction mgda = solved(named("mgda"), loss, gram, preference);
  const Vector expected{.28, .44, .28};
  DirectionOptions options = named("firm");
  options.firm_beta = 0.1;
  options.firm_preference = "none";
  const Direction firm = solved(options, loss, gram, preference);
  const Vector expected_firm{.28125, .4375, .28125};
  for (std::size_t j = 0; j < 3; ++j) {
    EXPECT_NEAR(mgda.mu[j], expected[j], 1e-14);
    EXPECT_NEAR(firm.mu[j], expected_firm[j], 1e-14);
  }
  EXPECT_NEAR(mgda.uniformity, 0.0689592746035362, 1e-15);
  EXPECT_NEAR(mgda.adjustment[1], -0.173935469510858, 1e-15);
}

TEST(Aggregators, RecordsDescribeTheDirection) {
  CounterRng rng({.seed = 51});
  for (const char* name : kNames) {
    for (int k = 0; k < 40; ++k) {
      const std::size_t m = 1 + static_cast<std::size_t>(k % 10);
      const Gradients g = test::draw_gradients(rng, m, 16, kKinds[static_cast<std::size_t>(k % 3)]);
      const Vector loss = draw_loss(rng, m);
      const Vector preference = test::draw_preference(rng, m);
      const Direction found = solved(named(name), loss, test::gram(g), preference, rng.next_u64());
      ASSERT_EQ(found.weight.size(), m) << name;
      EXPECT_EQ(found.mu, found.weight) << name;
      EXPECT_EQ(found.mode, Mode::kFixed) << name;
      EXPECT_EQ(found.lp_status, LpStatus::kNone) << name;
      EXPECT_EQ(found.basis_id, 0U) << name;

      // Everything else from the gradients themselves.
      const Vector d = test::combination(g, found.weight);
      double z = 0.0;
      double psi = 0.0;
      for (std::size_t j = 0; j < m; ++j) {
        z += preference[j] * loss[j];
        psi = std::max(psi, preference[j] * loss[j]);
      }
      double beta = 0.0;
      for (std::size_t j = 0; j < m; ++j) {
        const double share = preference[j] * loss[j] / z;
        beta += share * std::log(static_cast<double>(m) * share);
      }
      Vector a(m);
      int ascending = 0;
      for (std::size_t j = 0; j < m; ++j) {
        const double share = preference[j] * loss[j] / z;
        a[j] = preference[j] * (std::log(static_cast<double>(m) * share) - beta);
        ascending += inner(d, g[j]) < -1e-6 * test::norm(d) * test::norm(g[j]) ? 1 : 0;
      }
      const Vector balancing = test::combination(g, a);
      int num_aligned = 0;
      for (std::size_t j = 0; j < m; ++j) {
        num_aligned +=
            inner(balancing, g[j]) > 1e-6 * test::norm(balancing) * test::norm(g[j]) ? 1 : 0;
      }
      const double size = test::norm(d);
      EXPECT_NEAR(found.uniformity, beta, 1e-13) << name;
      EXPECT_NEAR(found.chebyshev, psi, 1e-15) << name;
      EXPECT_NEAR(found.direction_norm, size, 1e-9 * (1.0 + size)) << name;
      EXPECT_NEAR(found.gamma, inner(balancing, d), 1e-9 * (1.0 + size * test::norm(balancing)))
          << name;
      EXPECT_EQ(found.num_ascending, ascending) << name << " m=" << m;
      EXPECT_EQ(found.num_aligned, m == 1 ? 0 : num_aligned) << name << " m=" << m;
    }
  }
}

TEST(Aggregators, AreReachedThroughTheFactory) {
  CounterRng rng({.seed = 57});
  const Vector gram = test::gram(test::draw_gradients(rng, 3, 8, Kind::kConflict));
  const Vector loss = draw_loss(rng, 3);
  const Vector preference = test::draw_preference(rng, 3);
  for (const char* name : kNames) {
    DirectionOptions options = named(name);
    const Vector weight = solved(options, loss, gram, preference, 9).weight;
    const Problem problem{.loss = loss, .gram = gram, .preference = preference, .random_key = 9};
    EXPECT_EQ(make_solver(options)->solve(problem).weight, weight) << name;
    options.mix_floor = 0.2;
    const Vector mixed = make_solver(options)->solve(problem).weight;
    for (std::size_t j = 0; j < 3; ++j) {
      EXPECT_DOUBLE_EQ(mixed[j], 0.8 * weight[j] + 0.2 / 3.0) << name;
    }
  }
}

TEST(Aggregators, ScaleOfTheGradientsDoesNotMatter) {
  CounterRng rng({.seed = 52});
  for (const char* name : kNames) {
    DirectionOptions options = named(name);
    options.gram_normalisation = "mean_diagonal";  // firm's beta has a unit without
    for (int k = 0; k < 24; ++k) {
      const std::size_t m = 1 + static_cast<std::size_t>(k / 3 % 8);
      const Gradients g = test::draw_gradients(rng, m, 12, kKinds[static_cast<std::size_t>(k % 3)]);
      const Vector loss = draw_loss(rng, m);
      const Vector preference = test::draw_preference(rng, m);
      const Direction one = solved(options, loss, test::gram(g), preference, 5);
      for (const double scale : {1e-12, 1e-200, 1e12, 1e200}) {
        const Direction other = solved(options, loss, test::gram(g, scale), preference, 5);
        // Nash-MTL's direction has length sqrt(m) whatever the gradients.
        const double power = std::string(name) == "nash_mtl" ? std::sqrt(scale) : 1.0;
        double largest = 0.0;
        for (const double w : one.weight) {
          largest = std::max(largest, std::abs(w));
        }
        for (std::size_t j = 0; j < m; ++j) {
          EXPECT_NEAR(other.weight[j] * power, one.weight[j], 1e-9 * largest)
              << name << " m=" << m << " scale=" << scale;
        }
      }
    }
  }
}

TEST(Aggregators, VanishingGradientsAreStationary) {
  const Vector loss{1, .5, .8};
  const Vector preference{.5, .3, .2};
  for (const char* name : kNames) {
    DirectionOptions options = named(name);
    options.firm_preference = "none";
    const Direction found = solved(options, loss, Vector(9, 0.0), preference);
    EXPECT_EQ(found.direction_norm, 0.0) << name;
    EXPECT_EQ(found.gamma, 0.0) << name;
    EXPECT_EQ(found.num_ascending, 0) << name;
    if (std::string(name) == "smooth_chebyshev") {
      EXPECT_EQ(found.mode, Mode::kFixed);
      continue;
    }
    EXPECT_EQ(found.mode, Mode::kStationary) << name;
    for (const double w : found.weight) {
      EXPECT_NEAR(w, 1.0 / 3.0, 1e-15) << name;
    }
  }
}

TEST(Aggregators, OneVanishingGradient) {
  CounterRng rng({.seed = 53});
  for (const char* name : kNames) {
    for (int k = 0; k < 12; ++k) {
      const std::size_t m = 2 + static_cast<std::size_t>(k % 9);
      Gradients g = test::draw_gradients(rng, m, 16, Kind::kConflict);
      std::fill(g[1].begin(), g[1].end(), 0.0);
      const Direction found =
          solved(named(name), draw_loss(rng, m), test::gram(g), test::draw_preference(rng, m));
      for (const double w : found.weight) {
        EXPECT_TRUE(std::isfinite(w)) << name << " m=" << m;
      }
      EXPECT_TRUE(std::isfinite(found.direction_norm)) << name;
    }
  }
}

TEST(Aggregators, DegenerateGradientsGiveFiniteWeights) {
  CounterRng rng({.seed = 54});
  for (const char* name : kNames) {
    for (int k = 0; k < 60; ++k) {
      const std::size_t m = 3 + static_cast<std::size_t>(k % 8);
      Gradients g = test::draw_gradients(rng, m, static_cast<std::size_t>(1 + k % 3),
                                         kKinds[static_cast<std::size_t>(k % 4)]);
      g[2] = g[0];
      if (k % 2 == 0) {
        for (double& x : g[1]) {
          x *= 1e-7;
        }
      }
      Vector gram = test::gram(g);
      if (k % 5 == 0) {
        for (double& c : gram) {  // as accumulated in float32
          c = static_cast<double>(static_cast<float>(c)) * (1.0 + 1e-7 * rng.normal());
        }
      }
      const Direction found =
          solved(named(name), draw_loss(rng, m), gram, test::draw_preference(rng, m));
      for (const double w : found.weight) {
        EXPECT_TRUE(std::isfinite(w)) << name << " m=" << m << " k=" << k;
      }
    }
  }
}

TEST(Aggregators, WithoutConflictsThePreferenceStays) {
  CounterRng rng({.seed = 55});
  for (const char* name : {"pcgrad", "upgrad", "dual_proj"}) {
    for (int k = 0; k < 40; ++k) {
      const std::size_t m = 2 + static_cast<std::size_t>(k % 9);
      Gradients g(m, Vector(12));
      for (Vector& x : g) {
        for (double& entry : x) {
          entry = rng.uniform();
        }
      }
      const Vector preference = test::draw_preference(rng, m);
      EXPECT_EQ(solved(named(name), draw_loss(rng, m), test::gram(g), preference).weight,
                preference)
          << name;
    }
  }
}

TEST(SmoothChebyshev, IsTheGradientOfItsScalarisation) {
  CounterRng rng({.seed = 56});
  for (int k = 0; k < 200; ++k) {
    const std::size_t m = 1 + static_cast<std::size_t>(k % 8);
    const Vector loss = draw_loss(rng, m);
    const Vector preference = test::draw_preference(rng, m);
    const double smoothing = std::array{1.0, 0.1, 0.3}[static_cast<std::size_t>(k % 3)];
    const auto scalarised = [&](const Vector& l) {
      double sum = 0.0;
      for (std::size_t j = 0; j < m; ++j) {
        sum += std::pow(preference[j] * l[j], 1.0 / smoothing);
      }
      return smoothing * std::log(sum);
    };
    Vector slope(m);
    double sum = 0.0;
    for (std::size_t j = 0; j < m; ++j) {
      const double step = 1e-5 * loss[j];
      Vector up = loss;
      Vector down = loss;
      up[j] += step;
      down[j] -= step;
      slope[j] = (scalarised(up) - scalarised(down)) / (2.0 * step);
      sum += slope[j];
    }
    DirectionOptions options = named("smooth_chebyshev");
    options.chebyshev_smoothing = smoothing;
    const Direction found = solved(options, loss, Vector{}, preference);
    EXPECT_TRUE(std::isnan(found.gamma));
    EXPECT_TRUE(std::isnan(found.direction_norm));
    for (std::size_t j = 0; j < m; ++j) {
      EXPECT_NEAR(found.weight[j], slope[j] / sum, 1e-7) << "m=" << m << " k=" << k;
    }
  }
}

TEST(SmoothChebyshev, SharpAndBluntLimits) {
  const Vector loss{1, .5, .8};
  const Vector preference{.5, .3, .2};  // weighted losses .5, .15, .16
  DirectionOptions options = named("smooth_chebyshev");
  EXPECT_FALSE(make_aggregator(options)->needs_gram());
  options.chebyshev_smoothing = 1e-3;
  EXPECT_EQ(solved(options, loss, Vector(9, std::nan("")), preference).weight, (Vector{1, 0, 0}));
  options.chebyshev_smoothing = 1e9;  // softmax -> 1/m: the geometric mean, weights 1/l
  const Vector blunt = solved(options, loss, Vector{}, preference).weight;
  for (std::size_t j = 0; j < 3; ++j) {
    EXPECT_NEAR(blunt[j], (1 / loss[j]) / (1 + 2 + 1.25), 1e-8);
  }
  options.chebyshev_smoothing = 1.0;  // sum_j p_j l_j: the preference
  const Vector linear = solved(options, loss, Vector{}, preference).weight;
  for (std::size_t j = 0; j < 3; ++j) {
    EXPECT_NEAR(linear[j], preference[j], 1e-15);
  }
  EXPECT_EQ(solved(options, Vector{1, 0}, Vector{}, Vector{1, 0}).weight[1], 0.0);
}

TEST(Aggregators, RefuseBadInput) {
  const Vector loss{1, .5};
  const Vector preference{.7, .3};
  for (const char* name : kNames) {
    if (std::string(name) != "smooth_chebyshev") {
      EXPECT_TRUE(make_aggregator(named(name))->needs_gram());
      EXPECT_THROW(static_cast<void>(solved(named(name), loss, Vector{}, preference)), Error);
      EXPECT_THROW(
          static_cast<void>(solved(named(name), loss, Vector{1, 0, 0, std::nan("")}, preference)),
          Error)
          << name;
    }
    EXPECT_THROW(static_cast<void>(solved(named(name), loss, Vector{1, 0, 0, 1}, Vector{.7, .7})),
                 Error)
        << name;
  }
  const auto refused = [](auto change) {
    DirectionOptions options = named("firm");
    change(options);
    EXPECT_THROW(static_cast<void>(make_aggregator(options)), Error);
  };
  refused([](DirectionOptions& o) { o.solver = "guess"; });
  refused([](DirectionOptions& o) { o.firm_beta = -1.0; });
  refused([](DirectionOptions& o) { o.firm_preference = "guess"; });
  refused([](DirectionOptions& o) { o.gram_normalisation = "guess"; });
  refused([](DirectionOptions& o) { o.cagrad_radius = -1.0; });
  refused([](DirectionOptions& o) { o.chebyshev_smoothing = 0.0; });
}

}  // namespace
}  // namespace apo::direction
