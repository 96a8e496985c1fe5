// FedCMOO with compressed gradients, and FedCMOO-Pref, against plain float64 re-implementations.

#include "baseline_server_oracle.hpp"
#include <gtest/gtest.h>

namespace apo::federation {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)

TEST(Fedcmoo, FullRankAndAllEntriesAreExact) {
  Federation f = random_federation(3, 40);
  f.baseline.compression = "none";
  const Outcome exact = Session(f, "fedcmoo").run(3);
  const auto equals_exact = [&](const char* compression, double quality) {
    f.baseline.compression = compression;
    f.baseline.compression_quality = quality;
    const Outcome outcome = Session(f, "fedcmoo").run(3);
    for (std::size_t r = 0; r < 3; ++r) {
      expect_near(outcome.reports[r].server_weights, exact.reports[r].server_weights, 2e-6,
                  compression);
    }
    expect_near(widen(outcome.parameters), widen(exact.parameters), 2e-6, compression);
  };

  equals_exact("svd", 6.0);   // 2 m: full rank
  equals_exact("topk", 3.0);  // m: all entries
}

TEST(Fedcmoo, LowRankDiffersFromExactButStaysNear) {
  Federation f = random_federation(2, 60);
  const Outcome exact = Session(f, "fedcmoo").run(1);
  f.baseline.compression = "svd";
  f.baseline.compression_quality = 1.0;

  const Outcome outcome = Session(f, "fedcmoo").run(1);

  const double gap =
      std::abs(outcome.reports[0].server_weights[0] - exact.reports[0].server_weights[0]);
  EXPECT_GT(gap, 1e-9);
  EXPECT_LT(gap, 0.05);
}

Vector largest_entries(Vector values, std::size_t keep) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::abs(values[a]) > std::abs(values[b]);
  });
  for (std::size_t i = keep; i < order.size(); ++i) {
    values[order[i]] = 0.0;
  }
  return values;
}

/// X'Y of two m x P matrices that are stored row after row.
std::vector<Vector> product(const Vector& x, const Vector& y, std::size_t m) {
  const std::size_t p = x.size() / m;
  std::vector<Vector> result(m, Vector(m, 0.0));
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < m; ++j) {
      for (std::size_t k = 0; k < p; ++k) {
        result[i][j] += x[i * p + k] * y[j * p + k];
      }
    }
  }
  return result;
}

/// The two-way estimate term by term: sum A'A + sum C'(S - C) + 2 sum D'(S - C) + guess, made
/// symmetric.
std::vector<Vector> two_way_gram(const Federation& f, const Vector& w, std::size_t keep,
                                 bool& small) {
  const std::size_t m = f.m();
  std::vector<Vector> own;
  std::vector<Vector> sent;
  Vector total(m * f.p(), 0.0);
  for (const int id : f.participants) {
    Vector a;
    for (std::size_t j = 0; j < m; ++j) {
      const Vector g = gradient_of(f, id, j, w);
      a.insert(a.end(), g.begin(), g.end());
    }
    own.push_back(a);
    sent.push_back(largest_entries(a, keep));
    axpy(1.0, sent.back(), total);
  }
  total = largest_entries(total, keep);
  std::vector<Vector> gram(m, Vector(m, 0.0));
  std::vector<Vector> remainders(m, Vector(m, 0.0));
  double sent_square = 0.0;
  double remainder_square = 0.0;
  const auto add = [&](double factor, const std::vector<Vector>& x, std::vector<Vector>& y) {
    for (std::size_t i = 0; i < m; ++i) {
      for (std::size_t j = 0; j < m; ++j) {
        y[i][j] += factor * 0.5 * (x[i][j] + x[j][i]);
      }
    }
  };
  for (std::size_t i = 0; i < own.size(); ++i) {
    Vector d = own[i];
    axpy(-1.0, sent[i], d);
    Vector others = total;
    axpy(-1.0, sent[i], others);
    add(1.0, product(own[i], own[i], m), gram);
    add(1.0, product(sent[i], others, m), gram);
    add(2.0, product(d, others, m), gram);
    add(1.0, product(d, d, m), remainders);
    sent_square += dot(sent[i], sent[i]);
    remainder_square += dot(d, d);
  }
  const double n = static_cast<double>(own.size());
  small = std::sqrt(sent_square / remainder_square) > 1.5;
  add(small ? 0.0 : n - 1.0, remainders, gram);
  for (Vector& row : gram) {
    for (double& x : row) {
      x /= n * n;
    }
  }
  return gram;
}

// Both branches of the guess about the clients' remainders.
TEST(Fedcmoo, LargestEntriesEqualTheSerialLoop) {
  std::vector<bool> branches;
  for (const double quality : {0.2, 1.5}) {
    Federation f = random_federation(2, 10);
    f.participants = {0, 2, 4, 5, 6};  // all objectives
    f.baseline.compression = "topk";
    f.baseline.compression_quality = quality;
    Session session(f, "fedcmoo");

    const Outcome outcome = session.run(2);

    Vector w(f.p(), 0.0);
    Vector weights(2, 0.5);
    for (std::size_t r = 0; r < 2; ++r) {
      bool small = false;
      const auto keep = static_cast<std::size_t>(quality * 10.0);
      const std::vector<Vector> gram = two_way_gram(f, w, keep, small);
      branches.push_back(small);
      ASSERT_GT(gram[0][0] * gram[1][1] - gram[0][1] * gram[1][0], 0.0) << "no projection needed";
      weights = tracked(f, gram, weights);
      expect_near(outcome.reports[r].server_weights, weights, 1e-6,
                  "weights at quality " + std::to_string(quality));
      server_centric_round(f, weights, w);
    }
    expect_near(widen(outcome.parameters), w, 1e-6, "parameters");
  }
  EXPECT_FALSE(branches.front());
  EXPECT_TRUE(branches.back());
}

/// EPO's relaxed LP for two objectives in closed form (algorithms.md 1.4, 7): mu = (t, 1 - t).
/// @param band  of the bottlenecks
Vector epo_oracle(const std::vector<Vector>& c, const Vector& loss, const Vector& lambda,
                  double tolerance, double band, bool& uniform) {
  const Vector weighted = {lambda[0] * loss[0], lambda[1] * loss[1]};
  const double z = weighted[0] + weighted[1];
  const Vector share = {weighted[0] / z, weighted[1] / z};
  const double beta = share[0] * std::log(2.0 * share[0]) + share[1] * std::log(2.0 * share[1]);
  uniform = beta <= tolerance;
  const Vector a = {lambda[0] * (std::log(2.0 * share[0]) - beta),
                    lambda[1] * (std::log(2.0 * share[1]) - beta)};
  const Vector ca = {dot(c[0], a), dot(c[1], a)};
  const double largest = std::max(weighted[0], weighted[1]);
  const bool some = ca[0] > 0.0 || ca[1] > 0.0;
  double low = 0.0;
  double high = 1.0;
  for (std::size_t j = 0; j < 2; ++j) {
    double bound = 0.0;
    if (!uniform && weighted[j] < (1.0 - band) * largest) {  // no bottleneck
      if (ca[j] > 0.0) {
        continue;
      }
      bound = some ? ca[j] : 0.0;
    }
    const double slope = c[j][0] - c[j][1];
    const double at = (bound - c[j][1]) / slope;
    (slope > 0.0 ? low : high) = slope > 0.0 ? std::max(low, at) : std::min(high, at);
  }
  const double gain = uniform ? c[0][0] + c[0][1] - c[1][0] - c[1][1] : ca[0] - ca[1];
  const double t = gain > 0.0 ? high : low;
  return {t, 1.0 - t};
}

TEST(FedcmooPref, EqualsTheSerialLoopInBothModes) {
  std::vector<bool> modes;
  for (const double tolerance : {1e-4, 0.5}) {
    Federation f = random_federation(2, 6);
    f.baseline.pref_beta_tolerance = tolerance;
    Session session(f, "fedcmoo_pref");

    const Outcome outcome = session.run(3);

    Vector lambda(2, 0.0);
    for (const data::Client& client : f.partition.clients) {
      axpy(1.0 / 7.0, client.preference, lambda);
    }
    Vector w(f.p(), 0.0);
    for (std::size_t r = 0; r < 3; ++r) {
      Vector loss(2, 0.0);
      for (std::size_t j = 0; j < 2; ++j) {
        double count = 0.0;
        for (const int id : f.participants) {
          loss[j] += has(f, id, j) ? loss_of(f, id, j, w) : 0.0;
          count += has(f, id, j) ? 1.0 : 0.0;
        }
        loss[j] /= count;
      }
      bool uniform = false;
      Vector weights =
          epo_oracle(gram_of_rows(mean_gradients(f, w)), loss, lambda, tolerance, 0.1, uniform);
      modes.push_back(uniform);
      for (double& x : weights) {
        x = 0.8 * x + 0.1;
      }
      expect_near(outcome.reports[r].server_weights, weights, 1e-5,
                  "weights of round " + std::to_string(r));
      server_centric_round(f, weights, w);
    }
    expect_near(widen(outcome.parameters), w, 1e-5, "parameters");
  }
  EXPECT_FALSE(modes.front());
  EXPECT_TRUE(modes.back());
}

// Weighted losses of 0.35 and 0.37: with the band both are bottlenecks, and none may rise.
TEST(FedcmooPref, BandOfBottlenecks) {
  Federation f;
  f.centers = {{{1.0F, 0.25F}, {-1.0F, 0.25F}}};
  f.partition = make_clients({{0.5, 0.5}}, {4});
  f.phase1.optimizer = "sgd";
  f.phase1.local_steps = 1;
  f.participants = {0};
  const Vector w = {0.03125, 0.0};
  const Vector loss = {loss_of(f, 0, 0, w), loss_of(f, 0, 1, w)};
  const std::vector<Vector> gram = gram_of_rows(mean_gradients(f, w));
  std::vector<Vector> found;
  for (const double band : {0.0, 0.1}) {
    f.baseline.pref_bottleneck_band = band;
    f.baseline.pref_beta_tolerance = 1e-4;
    f.baseline.pref_mix = 0.0;

    const Outcome outcome = Session(f, "fedcmoo_pref").run(1, std::vector<float>{0.03125F, 0.0F});

    bool uniform = true;
    const Vector expected = epo_oracle(gram, loss, {0.5, 0.5}, 1e-4, band, uniform);
    EXPECT_FALSE(uniform);
    expect_near(outcome.reports[0].server_weights, expected, 1e-6, "weights");
    found.push_back(outcome.reports[0].server_weights);
  }
  EXPECT_GT(std::abs(found[0][0] - found[1][0]), 0.01);
}

}  // namespace
}  // namespace apo::federation
