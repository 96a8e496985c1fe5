#include "apo/federation/theory_monitor.hpp"

#include <algorithm>
#include <cmath>

#include "theory_vectors.hpp"

#include "apo/core/error.hpp"

namespace apo::federation {

TheoryMonitor::TheoryMonitor(TheorySetting setting, int num_objectives, std::int64_t num_parameters)
    : setting_(std::move(setting)), m_(num_objectives), p_(num_parameters) {}

std::size_t TheoryMonitor::add(TheoryClient client) {
  const auto m = static_cast<std::size_t>(m_);
  const bool complete = client.loss.size() == m && client.direction.mu.size() == m &&
                        std::all_of(client.loss.begin(), client.loss.end(),
                                    [](double x) { return std::isfinite(x); });
  if (!complete) {
    places_.emplace_back();
    return places_.size() - 1;
  }
  expects(client.gradients.size() == m * static_cast<std::size_t>(p_) &&
              client.preference.size() == m && client.gram.size() == m * m,
          "TheoryMonitor: the sizes of client " + std::to_string(client.client) + " disagree");
  places_.emplace_back(clients_.size());
  clients_.push_back(std::move(client));
  return places_.size() - 1;
}

void TheoryMonitor::set_total_pairs(double total) { total_pairs_ = total; }

double TheoryMonitor::local_pairs() const {
  double sum = 0.0;
  for (const TheoryClient& client : clients_) {
    sum += client.num_pairs;
  }
  return sum;
}

// [rho+ dbar+ (P), rho0 dbar0 (P), rho+, rho0, clients left out]
std::size_t TheoryMonitor::num_terms() const { return 2 * static_cast<std::size_t>(p_) + 3; }

std::vector<std::size_t> TheoryMonitor::cuts() const {
  const auto p = static_cast<std::size_t>(p_);
  return {0, p, 2 * p};
}

void TheoryMonitor::add_client_terms(std::size_t index, std::size_t begin,
                                     std::span<double> slice) const {
  expects(index < places_.size(), "TheoryMonitor: no client " + std::to_string(index) + " among " +
                                      std::to_string(places_.size()));
  const auto p = static_cast<std::size_t>(p_);
  const std::size_t end = begin + slice.size();
  const auto adds = [&](std::size_t place, double value) {
    if (begin <= place && place < end) {
      slice[place - begin] += value;
    }
  };
  if (!places_[index]) {
    adds(2 * p + 2, 1.0);
    return;
  }
  const TheoryClient& client = clients_[*places_[index]];
  const double rho = client.num_pairs / total_pairs_;
  const std::size_t block = is_uniform_block(client.direction.mode) ? 1 : 0;
  const std::size_t first = std::max(begin, block * p);
  const std::size_t last = std::min(end, (block + 1) * p);
  if (first < last) {
    theory::add_direction(client.gradients, client.direction.weight, rho, first - block * p,
                          slice.subspan(first - begin, last - first));
  }
  adds(2 * p + block, rho);
}

void TheoryMonitor::finish(comm::ClusterCommunicator& team, std::span<const double> sum,
                           RoundReport& report) {
  expects(sum.size() == num_terms(), "TheoryMonitor: expected the reduced terms, " +
                                         std::to_string(num_terms()) + " numbers, found " +
                                         std::to_string(sum.size()));
  const auto p = static_cast<std::size_t>(p_);
  const theory::Aggregates aggregates =
      theory::make_aggregates(sum.first(p), sum.subspan(p, p), sum[2 * p], sum[2 * p + 1]);
  std::vector<ClientTerms> mine;
  for (TheoryClient& client : clients_) {
    ClientTerms terms = theory::terms_of(client, total_pairs_);
    theory::measure(client.gradients, aggregates, terms);
    std::vector<float>().swap(client.gradients);
    mine.push_back(std::move(terms));
  }
  const std::vector<ClientTerms> all = theory::gather(team, mine);
  SharedTerms shared = theory::shared_terms(setting_, aggregates);
  shared.update_norm = update_norm_;
  theory::report_conditions(setting_, all, shared, static_cast<int>(std::lround(sum[2 * p + 2])),
                            m_, report);
}

}  // namespace apo::federation
