#include "baseline_compression.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include <Eigen/Dense>

namespace apo::federation {
namespace {

using Matrix = Eigen::MatrixXf;

/// Orthonormal basis of the columns of `matrix`, which has no more columns than rows.
Matrix orthonormal(const Matrix& matrix) {
  const Eigen::HouseholderQR<Matrix> qr(matrix);
  return qr.householderQ() * Matrix::Identity(matrix.rows(), matrix.cols());
}

/// Orthonormal columns that span the `rank` leading left singular vectors, approximately.
Matrix leading_subspace(const Matrix& a, Eigen::Index rank, const StreamKey& key) {
  const Eigen::Index width = std::min(rank + rank / 10, std::min(a.rows(), a.cols()));
  CounterRng rng(key);
  Matrix q(a.cols(), width);
  for (Eigen::Index c = 0; c < width; ++c) {
    for (Eigen::Index r = 0; r < a.cols(); ++r) {
      q(r, c) = static_cast<float>(rng.normal());
    }
  }
  q = orthonormal(a * q);
  for (int iteration = 0; iteration < 2; ++iteration) {
    q = orthonormal(a.transpose() * q);
    q = orthonormal(a * q);
  }
  // The left singular vectors of Q'A are the eigenvectors of its small Gram matrix.
  const Eigen::MatrixXd small = (q.transpose() * a).cast<double>();
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> eigen(small * small.transpose());
  return q * eigen.eigenvectors().rightCols(rank).cast<float>();  // eigenvalues ascend
}

/// (row, column) of the folded matrix that holds gradient j's number k.
std::pair<Eigen::Index, Eigen::Index> place(const SquareShape& shape, std::size_t j,
                                            std::size_t k) {
  return {static_cast<Eigen::Index>(k % shape.rows),
          static_cast<Eigen::Index>(k / shape.rows * shape.num_objectives + j)};
}

}  // namespace

void keep_largest(std::span<float> values, std::size_t keep) {
  if (keep >= values.size()) {
    return;
  }
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::nth_element(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(keep), order.end(),
                   [&](std::size_t a, std::size_t b) {
                     const float x = std::abs(values[a]);
                     const float y = std::abs(values[b]);
                     return x != y ? x > y : a < b;
                   });
  for (std::size_t i = keep; i < order.size(); ++i) {
    values[order[i]] = 0.0F;
  }
}

std::int64_t floats_of_largest(std::size_t keep, std::size_t size) {
  if (keep >= size) {
    return static_cast<std::int64_t>(size);
  }
  const auto bits = static_cast<std::size_t>(std::bit_width(size - 1));
  const std::size_t position_bits = std::min(keep * bits, size);
  return static_cast<std::int64_t>(keep + (position_bits + 31) / 32);
}

SquareShape square_shape(std::size_t num_objectives, std::size_t num_parameters) {
  const std::size_t size = num_objectives * num_parameters;
  auto rows = static_cast<std::size_t>(std::sqrt(static_cast<double>(size)));
  rows = std::clamp<std::size_t>(rows, 1, num_parameters);
  return {num_objectives, num_parameters, rows,
          num_objectives * ((num_parameters + rows - 1) / rows)};
}

std::size_t rank_of(const SquareShape& shape, double quality) {
  const double rank = quality * 0.5 *
                      std::sqrt(static_cast<double>(shape.num_parameters) /
                                static_cast<double>(shape.num_objectives));
  const auto largest = static_cast<double>(std::min(shape.rows, shape.columns));
  return static_cast<std::size_t>(std::clamp(std::floor(rank), 1.0, largest));
}

std::int64_t floats_of_rank(const SquareShape& shape, std::size_t rank) {
  return static_cast<std::int64_t>(rank * (shape.rows + shape.columns));
}

void approximate(std::span<float> gradients, const SquareShape& shape, std::size_t rank,
                 const StreamKey& key) {
  Matrix a =
      Matrix::Zero(static_cast<Eigen::Index>(shape.rows), static_cast<Eigen::Index>(shape.columns));
  for (std::size_t j = 0; j < shape.num_objectives; ++j) {
    for (std::size_t k = 0; k < shape.num_parameters; ++k) {
      const auto [row, column] = place(shape, j, k);
      a(row, column) = gradients[j * shape.num_parameters + k];
    }
  }
  const Matrix u = leading_subspace(a, static_cast<Eigen::Index>(rank), key);
  a = u * (u.transpose() * a).eval();
  for (std::size_t j = 0; j < shape.num_objectives; ++j) {
    for (std::size_t k = 0; k < shape.num_parameters; ++k) {
      const auto [row, column] = place(shape, j, k);
      gradients[j * shape.num_parameters + k] = a(row, column);
    }
  }
}

void project_on_psd(std::vector<double>& matrix, std::size_t m) {
  const auto size = static_cast<Eigen::Index>(m);
  Eigen::Map<Eigen::MatrixXd> view(matrix.data(), size, size);
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> eigen(view);
  if (eigen.eigenvalues()(0) >= 0.0) {
    return;
  }
  const Eigen::VectorXd kept = eigen.eigenvalues().cwiseMax(0.0);
  view = eigen.eigenvectors() * kept.asDiagonal() * eigen.eigenvectors().transpose();
}

}  // namespace apo::federation
