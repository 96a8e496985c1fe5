#include "theory_vectors.hpp"

#include <cmath>

#include "theory_algebra.hpp"
#include "theory_tables.hpp"

#include "apo/core/bytes.hpp"
#include "apo/core/error.hpp"
#include "apo/core/rng.hpp"
#include "apo/federation/trainer.hpp"

namespace apo::federation::theory {
namespace {

constexpr int kMaxPairRows = 256;       // rows of the pair table per round: 23 clients give 253
constexpr double kLossRounding = 1e-6;  // float32 forward passes; analytic losses are far better

/// Names the pairs' draws by the clients: a cluster's number changes with the budget.
std::uint64_t key_of(std::span<const ClientTerms> clients) {
  TrainingGroup group;
  for (const ClientTerms& client : clients) {
    group.members.emplace_back(client.client);
  }
  return group_key(group);
}

/// ||aggregate - sum_j weight_j g_j|| in one pass over the gradients.
double fused_deviation(std::span<const float> gradients, std::span<const double> weight,
                       std::span<const double> aggregate) {
  const std::size_t p = aggregate.size();
  double sum = 0.0;
  for (std::size_t k = 0; k < p; ++k) {
    double x = aggregate[k];
    for (std::size_t j = 0; j < weight.size(); ++j) {
      x -= weight[j] * static_cast<double>(gradients[j * p + k]);
    }
    sum += x * x;
  }
  return std::sqrt(sum);
}

std::vector<double> products(std::span<const float> gradients, std::span<const double> vector,
                             std::size_t m) {
  std::vector<double> result(m);
  for (std::size_t j = 0; j < m; ++j) {
    result[j] = long_dot(gradients.subspan(j * vector.size(), vector.size()), vector);
  }
  return result;
}

std::vector<double> scaled(std::span<const double> sum, double mass) {
  std::vector<double> result(sum.begin(), sum.end());
  for (double& x : result) {
    x /= mass;
  }
  return result;
}

/// Doubles in a fixed order: a client's numbers on their way to the other ranks.
class Packer {
 public:
  void put(double x) { values_.push_back(x); }
  void put(std::span<const double> x) {
    put(static_cast<double>(x.size()));
    values_.insert(values_.end(), x.begin(), x.end());
  }
  [[nodiscard]] std::string bytes() const { return to_bytes(std::span<const double>(values_)); }

 private:
  std::vector<double> values_;
};

class Unpacker {
 public:
  explicit Unpacker(const std::string& bytes) : values_(from_bytes<double>(bytes)) {}
  [[nodiscard]] bool done() const { return position_ == values_.size(); }
  double real() {
    expects(position_ < values_.size(), "theory terms: truncated");
    return values_[position_++];
  }
  int whole() { return static_cast<int>(real()); }
  std::vector<double> list() {
    std::vector<double> result(static_cast<std::size_t>(real()));
    for (double& x : result) {
      x = real();
    }
    return result;
  }

 private:
  std::vector<double> values_;
  std::size_t position_ = 0;
};

void put(Packer& out, const ClientTerms& t) {
  const direction::Direction& d = t.direction;
  out.put(t.client);
  out.put(t.rho);
  for (const auto* list : {&t.loss, &t.preference, &t.gram, &d.mu, &d.weight, &d.adjustment,
                           &t.product, &t.loss_after, &t.product_taken, &t.gradient_residual}) {
    out.put(std::span<const double>(*list));
  }
  for (const double x :
       {static_cast<double>(d.mode), d.uniformity, d.gamma, d.chebyshev, d.kappa_lp,
        static_cast<double>(d.num_aligned), static_cast<double>(d.basis_id >> 32U),
        static_cast<double>(d.basis_id & 0xffffffffU), t.deviation, t.deviation_uniform,
        t.deviation_balancing, static_cast<double>(t.recomputed), t.chebyshev_optimum,
        t.update_norm}) {
    out.put(x);
  }
}

ClientTerms take(Unpacker& in) {
  ClientTerms t;
  direction::Direction& d = t.direction;
  t.client = in.whole();
  t.rho = in.real();
  for (auto* list : {&t.loss, &t.preference, &t.gram, &d.mu, &d.weight, &d.adjustment, &t.product,
                     &t.loss_after, &t.product_taken, &t.gradient_residual}) {
    *list = in.list();
  }
  d.mode = static_cast<direction::Mode>(in.whole());
  d.uniformity = in.real();
  d.gamma = in.real();
  d.chebyshev = in.real();
  d.kappa_lp = in.real();
  d.num_aligned = in.whole();
  d.basis_id = static_cast<std::uint64_t>(in.real()) << 32U;
  d.basis_id |= static_cast<std::uint64_t>(in.real());
  t.deviation = in.real();
  t.deviation_uniform = in.real();
  t.deviation_balancing = in.real();
  t.recomputed = in.whole();
  t.chebyshev_optimum = in.real();
  t.update_norm = in.real();
  return t;
}

}  // namespace

void add_direction(std::span<const float> gradients, std::span<const double> weight, double factor,
                   std::size_t begin, std::span<double> slice) {
  const std::size_t p = gradients.size() / weight.size();
  for (std::size_t k = 0; k < slice.size(); ++k) {
    double x = 0.0;
    for (std::size_t j = 0; j < weight.size(); ++j) {
      x += weight[j] * static_cast<double>(gradients[j * p + begin + k]);
    }
    slice[k] += factor * x;
  }
}

Aggregates make_aggregates(std::span<const double> balancing, std::span<const double> uniform,
                           double balancing_mass, double uniform_mass) {
  Aggregates result;
  result.mean.resize(balancing.size());
  for (std::size_t k = 0; k < result.mean.size(); ++k) {
    result.mean[k] = balancing[k] + uniform[k];
  }
  const auto length = [](std::span<const double> x) { return std::sqrt(long_dot(x, x)); };
  result.norm = length(result.mean);
  if (uniform_mass > 0.0) {
    result.uniform = scaled(uniform, uniform_mass);
    result.norm_uniform = length(result.uniform);
  }
  if (balancing_mass > 0.0) {
    result.balancing = scaled(balancing, balancing_mass);
    result.norm_balancing = length(result.balancing);
  }
  return result;
}

void measure(std::span<const float> gradients, const Aggregates& aggregates, ClientTerms& terms) {
  const std::size_t m = terms.loss.size();
  const std::vector<double>& weight = terms.direction.weight;
  const auto distance_to = [&](const std::vector<double>& aggregate, double length,
                               std::span<const double> product) {
    const Deviation value = deviation_from_products(length, product, weight, terms.gram);
    if (!value.cancelled) {
      return value.value;
    }
    terms.recomputed = 1;
    return fused_deviation(gradients, weight, aggregate);
  };
  terms.product = products(gradients, aggregates.mean, m);
  terms.deviation = distance_to(aggregates.mean, aggregates.norm, terms.product);
  if (!aggregates.uniform.empty()) {
    terms.deviation_uniform = distance_to(aggregates.uniform, aggregates.norm_uniform,
                                          products(gradients, aggregates.uniform, m));
  }
  if (!aggregates.balancing.empty()) {
    terms.deviation_balancing = distance_to(aggregates.balancing, aggregates.norm_balancing,
                                            products(gradients, aggregates.balancing, m));
  }
}

ClientTerms terms_of(const TheoryClient& client, double total_pairs) {
  ClientTerms terms;
  terms.client = client.client;
  terms.rho = client.num_pairs / total_pairs;
  terms.loss = client.loss;
  terms.preference = client.preference;
  terms.gram = client.gram;
  terms.direction = client.direction;
  terms.chebyshev_optimum = client.chebyshev_optimum;
  terms.update_norm = client.update_norm;
  return terms;
}

std::vector<ClientTerms> gather(comm::ClusterCommunicator& team,
                                const std::vector<ClientTerms>& mine) {
  Packer out;
  for (const ClientTerms& terms : mine) {
    put(out, terms);
  }
  std::vector<ClientTerms> all;
  for (const std::string& bytes : team.all_gather(out.bytes())) {
    Unpacker in(bytes);
    while (!in.done()) {
      all.push_back(take(in));
    }
  }
  return all;
}

SharedTerms shared_terms(const TheorySetting& setting, const Aggregates& aggregates) {
  SharedTerms shared;
  shared.learning_rate = setting.learning_rate;
  shared.local_steps = setting.local_steps;
  shared.smoothness = setting.smoothness > 0.0 ? setting.smoothness : kUndefined;
  shared.norm = aggregates.norm;
  shared.firm_beta = setting.firm_beta;
  shared.firm_preference = setting.firm_preference;
  shared.gram_normalisation = setting.gram_normalisation;
  shared.loss_tolerance = kLossRounding;
  return shared;
}

void report_conditions(const TheorySetting& setting, std::span<const ClientTerms> clients,
                       const SharedTerms& shared, int left_out, int num_objectives,
                       RoundReport& report) {
  if (report.theory_round.columns().empty()) {
    report.theory_round = theory_round_table(num_objectives);
    report.theory_clients = theory_client_table(num_objectives);
    report.theory_pairs = theory_pair_table(num_objectives);
  }
  if (clients.empty()) {
    return;
  }
  const RoundConditions round = evaluate_round(clients, shared);
  const std::vector<PairConditions> pairs =
      evaluate_pairs(clients, shared, kMaxPairRows,
                     {static_cast<std::uint64_t>(setting.start_round), Purpose::kMonteCarlo,
                      key_of(clients), static_cast<std::uint64_t>(setting.round)});
  append_rows(setting, left_out, round, pairs, report);
}

}  // namespace apo::federation::theory
