#include "baseline_jacobian.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "baseline_compression.hpp"

namespace apo::federation {
namespace {

constexpr std::uint64_t kServer = std::numeric_limits<std::uint64_t>::max();  // beside client ids

/// Number of participants that have each objective [m], then the sums of their losses [m].
std::vector<double> counts_and_losses(const LocalRun& run) {
  const std::size_t m = run.present().size();
  std::vector<double> numbers(2 * m, 0.0);
  for (std::size_t j = 0; j < m; ++j) {
    if (run.present()[j]) {
      numbers[j] = 1.0;
      numbers[m + j] = run.loss()[j];
    }
  }
  return numbers;
}

/// Turns sums into means. @param gram  of the summed gradients; @param numbers  [2 m], see above
JacobianEstimate means(std::vector<double> gram, std::span<const double> numbers) {
  const std::size_t m = numbers.size() / 2;
  JacobianEstimate estimate;
  for (std::size_t i = 0; i < m; ++i) {
    const double count = numbers[i];
    estimate.present.push_back(count > 0.0);
    estimate.loss.push_back(count > 0.0 ? numbers[m + i] / count : 0.0);
    for (std::size_t j = 0; j < m; ++j) {
      const double both = count * numbers[j];
      gram[i * m + j] = both > 0.0 ? gram[i * m + j] / both : 0.0;
    }
  }
  estimate.gram = std::move(gram);
  return estimate;
}

/// One client's share of the two-way estimate of the Gram matrix of sum_i A_i: the client knows its
/// own A = C + D (C what it has sent) and S, the compressed sum of all C. What it does not know,
/// the others' D, is left to the server.
struct GramShare {
  std::vector<double> known;      ///< A'A + C'(S - C) + D'(S - C) + (S - C)'D, [m, m]
  std::vector<double> remainder;  ///< D'D, [m, m]
  double sent_square = 0.0;       ///< ||C||^2
};

GramShare gram_share(std::span<const float> own, std::span<const float> sent,
                     std::span<const float> total, std::size_t m) {
  const std::size_t p = own.size() / m;
  GramShare share{std::vector<double>(m * m), std::vector<double>(m * m), 0.0};
  std::vector<double> a(m);
  std::vector<double> d(m);
  std::vector<double> others(m);
  for (std::size_t k = 0; k < p; ++k) {
    for (std::size_t j = 0; j < m; ++j) {
      const auto c = static_cast<double>(sent[j * p + k]);
      a[j] = static_cast<double>(own[j * p + k]);
      d[j] = a[j] - c;
      others[j] = static_cast<double>(total[j * p + k]) - c;
      share.sent_square += c * c;
    }
    for (std::size_t i = 0; i < m; ++i) {
      for (std::size_t j = 0; j < m; ++j) {
        share.known[i * m + j] += a[i] * (a[j] + others[j]) + others[i] * d[j];  // C'X + D'X = A'X
        share.remainder[i * m + j] += d[i] * d[j];
      }
    }
  }
  return share;
}

/// The clients' shares, summed, and what nobody knows, sum_{i != k} D_i'D_k: taken for nothing
/// while the remainders are small beside what was sent (ratio of their norms above 1.5), else as if
/// all clients had the same one.
/// @param shares  known [m, m], remainder [m, m], ||C||^2, number of clients
std::vector<double> complete(std::span<const double> shares, std::size_t m) {
  constexpr double kSmallRemainders = 1.5;
  const std::span<const double> known = shares.first(m * m);
  const std::span<const double> remainder = shares.subspan(m * m, m * m);
  const double sent_square = shares[2 * m * m];
  const double clients = shares[2 * m * m + 1];
  double remainder_square = 0.0;
  for (std::size_t j = 0; j < m; ++j) {
    remainder_square += remainder[j * m + j];
  }
  const bool small = sent_square > kSmallRemainders * kSmallRemainders * remainder_square;
  std::vector<double> gram(m * m);
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < m; ++j) {
      gram[i * m + j] = 0.5 * (known[i * m + j] + known[j * m + i]) +
                        (small ? 0.0 : (clients - 1.0) * remainder[i * m + j]);
    }
  }
  return gram;
}

}  // namespace

std::size_t JacobianEstimate::num_present() const {
  return static_cast<std::size_t>(std::count(present.begin(), present.end(), true));
}

std::vector<double> JacobianEstimate::entries(std::span<const double> values) const {
  std::vector<double> result;
  for (std::size_t j = 0; j < present.size(); ++j) {
    if (present[j]) {
      result.push_back(values[j]);
    }
  }
  return result;
}

std::vector<double> JacobianEstimate::present_gram() const {
  const std::size_t m = present.size();
  std::vector<double> result;
  for (std::size_t i = 0; i < m; ++i) {
    if (present[i]) {
      const std::vector<double> row = entries(std::span<const double>(gram).subspan(i * m, m));
      result.insert(result.end(), row.begin(), row.end());
    }
  }
  return result;
}

std::vector<double> JacobianEstimate::spread(std::span<const double> present_values) const {
  std::vector<double> result(present.size(), 0.0);
  std::size_t next = 0;
  for (std::size_t j = 0; j < present.size(); ++j) {
    if (present[j]) {
      result[j] = present_values[next++];
    }
  }
  return result;
}

JacobianEstimator::JacobianEstimator(const RoundResources& resources, std::string compression)
    : resources_(resources),
      compression_(std::move(compression)),
      m_(static_cast<std::size_t>(resources.objectives.num_objectives())),
      p_(static_cast<std::size_t>(resources.objectives.num_parameters())) {}

JacobianEstimate JacobianEstimator::estimate(const RoundPlan& plan,
                                             const std::vector<LocalRun>& runs, double& seconds,
                                             RoundReport& report) const {
  return compression_ == "none" ? exact(runs, report) : two_way(plan, runs, seconds, report);
}

JacobianEstimate JacobianEstimator::exact(const std::vector<LocalRun>& runs,
                                          RoundReport& report) const {
  TeamSum sum({m_ * p_, m_, m_});
  for (const LocalRun& run : runs) {
    if (run.finite()) {
      sum.begin_client();
      sum.add(0, 1.0, run.gradients());
      sum.add(m_ * p_, counts_and_losses(run));
    }
  }
  const std::vector<double> total = sum.reduce(resources_, report);
  const std::span<const double> all(total);
  return means(gram_of(all.first(m_ * p_), m_), all.subspan(m_ * p_));
}

JacobianEstimate JacobianEstimator::two_way(const RoundPlan& plan,
                                            const std::vector<LocalRun>& runs, double& seconds,
                                            RoundReport& report) const {
  std::vector<std::vector<float>> sent(runs.size());
  run_timed(resources_.team, seconds, [&] {
    for (std::size_t i = 0; i < runs.size(); ++i) {
      if (runs[i].finite()) {
        sent[i].assign(runs[i].gradients().begin(), runs[i].gradients().end());
        compress(plan, static_cast<std::uint64_t>(runs[i].client().id.value), sent[i]);
      }
    }
  });
  TeamSum first({m_ * p_, m_, m_});
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].finite()) {
      first.begin_client();
      first.add(0, 1.0, sent[i]);
      first.add(m_ * p_, counts_and_losses(runs[i]));
    }
  }
  const std::vector<double> sums = first.reduce(resources_, report);
  // The server's answer: every rank plays the server and gets the same bits.
  std::vector<float> total(m_ * p_);
  for (std::size_t k = 0; k < total.size(); ++k) {
    total[k] = static_cast<float>(sums[k]);
  }
  compress(plan, kServer, total);

  TeamSum second({m_ * m_, m_ * m_, 1, 1});
  run_timed(resources_.team, seconds, [&] {
    for (std::size_t i = 0; i < runs.size(); ++i) {
      if (runs[i].finite()) {
        GramShare share = gram_share(runs[i].gradients(), sent[i], total, m_);
        second.begin_client();
        second.add(0, std::move(share.known));
        second.add(m_ * m_, std::move(share.remainder));
        second.add(2 * m_ * m_, {share.sent_square, 1.0});
      }
    }
  });
  std::vector<double> gram = complete(second.reduce(resources_, report), m_);
  project_on_psd(gram, m_);
  return means(std::move(gram), std::span<const double>(sums).subspan(m_ * p_));
}

void JacobianEstimator::compress(const RoundPlan& plan, std::uint64_t who,
                                 std::span<float> gradients) const {
  if (compression_ == "topk") {
    keep_largest(gradients, kept_entries());
    return;
  }
  const SquareShape shape = square_shape(m_, p_);
  approximate(gradients, shape, rank_of(shape, resources_.baseline.compression_quality),
              {resources_.seed, Purpose::kDirection, plan.cluster_key, plan.round_key, who});
}

/// q / m of the m P entries.
std::size_t JacobianEstimator::kept_entries() const {
  const double wish = resources_.baseline.compression_quality * static_cast<double>(p_);
  return static_cast<std::size_t>(std::clamp(std::floor(wish), 1.0, static_cast<double>(m_ * p_)));
}

std::int64_t JacobianEstimator::floats_of_gradients() const {
  if (compression_ == "svd") {
    const SquareShape shape = square_shape(m_, p_);
    return floats_of_rank(shape, rank_of(shape, resources_.baseline.compression_quality));
  }
  return floats_of_largest(compression_ == "topk" ? kept_entries() : m_ * p_, m_ * p_);
}

std::int64_t JacobianEstimator::floats_up() const {
  const auto matrices = static_cast<std::int64_t>(m_ * (m_ + 1));
  return floats_of_gradients() + (compression_ == "none" ? 0 : matrices);
}

std::int64_t JacobianEstimator::floats_down() const {
  return compression_ == "none" ? 0 : floats_of_gradients();
}

}  // namespace apo::federation
