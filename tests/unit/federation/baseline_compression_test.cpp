#include "baseline_compression.hpp"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

namespace apo::federation {
namespace {

const StreamKey kKey{7, Purpose::kDirection, 1, 2, 3};

double norm_of(const std::vector<float>& values) {
  double square = 0.0;
  for (const float x : values) {
    square += static_cast<double>(x) * static_cast<double>(x);
  }
  return std::sqrt(square);
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<float> gap = a;
  for (std::size_t k = 0; k < gap.size(); ++k) {
    gap[k] -= b[k];
  }
  return norm_of(gap);
}

TEST(KeepLargest, ByMagnitudeWithTiesToTheFirst) {
  std::vector<float> values = {1.0F, -5.0F, 2.0F, -2.0F, 0.5F, 2.0F};

  keep_largest(values, 3);

  EXPECT_EQ(values, (std::vector<float>{0.0F, -5.0F, 2.0F, -2.0F, 0.0F, 0.0F}));
}

TEST(KeepLargest, AllOrMoreChangesNothing) {
  std::vector<float> values = {1.0F, -5.0F};
  keep_largest(values, 2);
  EXPECT_EQ(values, (std::vector<float>{1.0F, -5.0F}));
  keep_largest(values, 9);
  EXPECT_EQ(values, (std::vector<float>{1.0F, -5.0F}));
}

TEST(FloatsOfLargest, ListOrBitmapWhicheverIsShorter) {
  EXPECT_EQ(floats_of_largest(1000, 1000), 1000);
  EXPECT_EQ(floats_of_largest(8, 1024), 8 + 3);            // 8 positions of 10 bits: 80 bits
  EXPECT_EQ(floats_of_largest(500, 1024), 500 + 32);       // a bit per entry
  EXPECT_EQ(floats_of_largest(1, 1U << 20), 1 + 1);        // 20 bits
  EXPECT_EQ(floats_of_largest(1, (1U << 20) + 1), 1 + 1);  // 21 bits
}

TEST(SquareShape, FoldsAndRanks) {
  const SquareShape shape = square_shape(2, 5000);  // 100 rows, 50 pieces

  EXPECT_EQ(shape.rows, 100U);
  EXPECT_EQ(shape.columns, 100U);
  EXPECT_EQ(rank_of(shape, 1.0), 25U);  // 5000 / (2 * 100)
  EXPECT_EQ(floats_of_rank(shape, 25), 5000);
  EXPECT_EQ(rank_of(shape, 4.0), 100U);
  EXPECT_EQ(rank_of(shape, 60.0), 100U);
  EXPECT_EQ(rank_of(shape, 1e-6), 1U);
  EXPECT_EQ(square_shape(3, 5).rows, 3U);  // floor(sqrt(15))
  EXPECT_EQ(square_shape(3, 5).columns, 6U);
  EXPECT_EQ(square_shape(8, 1).rows, 1U);  // no more rows than the gradients have entries
}

/// Gradients whose folded matrix is sum_t sigma_t u_t v_t' with random orthonormal u, v, made by
/// Gram-Schmidt. Written from the definition: piece b of the P x m matrix, rows b s .. b s + s - 1,
/// fills the columns b m .. b m + m - 1.
std::vector<float> gradients_with(const SquareShape& shape, const std::vector<double>& sigma) {
  CounterRng rng({8, Purpose::kTest});
  const auto orthonormal = [&](std::size_t length, std::size_t valid_rows) {
    std::vector<std::vector<double>> basis;
    while (basis.size() < sigma.size()) {
      std::vector<double> v(length, 0.0);
      for (std::size_t k = 0; k < valid_rows; ++k) {
        v[k] = rng.normal();
      }
      for (const auto& b : basis) {
        double product = 0.0;
        for (std::size_t k = 0; k < length; ++k) {
          product += b[k] * v[k];
        }
        for (std::size_t k = 0; k < length; ++k) {
          v[k] -= product * b[k];
        }
      }
      double square = 0.0;
      for (const double x : v) {
        square += x * x;
      }
      for (double& x : v) {
        x /= std::sqrt(square);
      }
      basis.push_back(v);
    }
    return basis;
  };
  const auto u = orthonormal(shape.rows, shape.rows);
  const auto v = orthonormal(shape.columns, shape.columns);
  std::vector<float> gradients(shape.num_objectives * shape.num_parameters);
  for (std::size_t j = 0; j < shape.num_objectives; ++j) {
    for (std::size_t k = 0; k < shape.num_parameters; ++k) {
      const std::size_t piece = k / shape.rows;
      double sum = 0.0;
      for (std::size_t t = 0; t < sigma.size(); ++t) {
        sum += sigma[t] * u[t][k - piece * shape.rows] * v[t][piece * shape.num_objectives + j];
      }
      gradients[j * shape.num_parameters + k] = static_cast<float>(sum);
    }
  }
  return gradients;
}

TEST(Approximate, FullRankReproduces) {
  for (const std::size_t p : {1U, 7U, 60U, 333U}) {
    const SquareShape shape = square_shape(3, p);
    CounterRng rng({9, Purpose::kTest, p});
    std::vector<float> gradients(3 * p);
    for (float& x : gradients) {
      x = static_cast<float>(rng.normal());
    }
    std::vector<float> copy = gradients;

    approximate(copy, shape, std::min(shape.rows, shape.columns), kKey);

    EXPECT_LE(distance(copy, gradients), 3e-6 * norm_of(gradients)) << "P = " << p;
  }
}

TEST(Approximate, MatrixOfThatRankIsReproduced) {
  const SquareShape shape = square_shape(2, 1250);  // 50 x 50
  const std::vector<float> gradients = gradients_with(shape, {5.0, 3.0, 2.0, 0.5});
  std::vector<float> copy = gradients;

  approximate(copy, shape, 4, kKey);

  EXPECT_LE(distance(copy, gradients), 1e-5 * norm_of(gradients));
}

// The best error of rank k is the norm of the singular values beyond k (Eckart-Young).
TEST(Approximate, NearlyTheBestErrorOfItsRank) {
  const SquareShape shape = square_shape(2, 1250);
  std::vector<double> sigma;
  for (int t = 0; t < 50; ++t) {
    sigma.push_back(std::pow(0.8, t));
  }
  const std::vector<float> gradients = gradients_with(shape, sigma);
  for (const std::size_t rank : {1U, 5U, 12U, 25U}) {
    std::vector<float> copy = gradients;
    double tail = 0.0;
    for (std::size_t t = rank; t < sigma.size(); ++t) {
      tail += sigma[t] * sigma[t];
    }

    approximate(copy, shape, rank, kKey);

    EXPECT_LE(distance(copy, gradients), 1.1 * std::sqrt(tail) + 1e-5) << "rank " << rank;
    EXPECT_GE(distance(copy, gradients), std::sqrt(tail) - 1e-5) << "rank " << rank;
  }
}

TEST(Approximate, IsAFunctionOfTheKey) {
  const SquareShape shape = square_shape(2, 1250);
  std::vector<double> sigma(50, 1.0);  // no gap: the subspace depends on the draw
  const std::vector<float> gradients = gradients_with(shape, sigma);
  std::vector<float> a = gradients;
  std::vector<float> b = gradients;
  std::vector<float> c = gradients;

  approximate(a, shape, 10, kKey);
  approximate(b, shape, 10, kKey);
  approximate(c, shape, 10, {7, Purpose::kDirection, 1, 2, 4});

  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
}

TEST(Approximate, ZeroStaysZero) {
  const SquareShape shape = square_shape(2, 30);
  std::vector<float> gradients(60, 0.0F);

  approximate(gradients, shape, 2, kKey);

  EXPECT_EQ(gradients, std::vector<float>(60, 0.0F));
}

TEST(ProjectOnPsd, ClipsTheNegativeEigenvalue) {
  std::vector<double> matrix = {1.0, 2.0, 2.0, 1.0};  // eigenvalues 3 and -1

  project_on_psd(matrix, 2);

  for (const double x : matrix) {
    EXPECT_NEAR(x, 1.5, 1e-14);
  }
  std::vector<double> good = {2.0, 1.0, 1.0, 2.0};
  project_on_psd(good, 2);
  EXPECT_EQ(good, (std::vector<double>{2.0, 1.0, 1.0, 2.0}));
}

}  // namespace
}  // namespace apo::federation
