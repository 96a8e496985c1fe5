#include "baseline_scheme.hpp"

#include <algorithm>

#include "apo/core/clock.hpp"
#include "apo/core/error.hpp"
#include "apo/federation/placement.hpp"

namespace apo::federation {

TeamSum::TeamSum(const std::vector<std::size_t>& parts) {
  for (const std::size_t part : parts) {
    cuts_.push_back(size_);
    size_ += part;
  }
}

void TeamSum::add(std::size_t offset, double weight, std::span<const float> values) {
  add_piece({offset, weight, values, {}});
}

void TeamSum::add(std::size_t offset, std::vector<double> values) {
  add_piece({offset, 1.0, {}, std::move(values)});
}

void TeamSum::add_piece(Piece piece) {
  expects(!terms_.empty(), "TeamSum: a number of no client");
  expects(piece.offset + piece.values.size() + piece.numbers.size() <= size_,
          "TeamSum: a term leaves the sum");
  terms_.back().push_back(std::move(piece));
}

void TeamSum::add_slice(std::size_t term, std::size_t begin, std::span<double> slice) const {
  const std::size_t end = begin + slice.size();
  for (const Piece& piece : terms_[term]) {
    const std::size_t count = piece.values.size() + piece.numbers.size();  // one of them is empty
    const std::size_t first = std::max(begin, piece.offset);
    const std::size_t last = std::min(end, piece.offset + count);
    if (piece.numbers.empty()) {
      for (std::size_t k = first; k < last; ++k) {
        slice[k - begin] += piece.weight * static_cast<double>(piece.values[k - piece.offset]);
      }
    } else {
      for (std::size_t k = first; k < last; ++k) {
        slice[k - begin] += piece.numbers[k - piece.offset];
      }
    }
  }
}

std::vector<double> TeamSum::reduce(const RoundResources& resources, RoundReport& report) {
  const Stopwatch watch;
  std::vector<double> sum(size_);
  sum_over_team(
      resources.team, resources.reproducible, sum, terms_.size(), report.participants.size(),
      [this](std::size_t term, std::size_t begin, std::span<double> slice) {
        add_slice(term, begin, slice);
      },
      cuts_);
  report.seconds_reduction += watch.seconds();
  report.bytes_reduced += bytes_of_sum(size_, resources.reproducible);
  return sum;
}

bool LocalWork::take(LocalRun& run) {
  std::vector<float> delta = run.delta();
  for (StepRecord& record : run.take_records()) {
    records.push_back(std::move(record));
  }
  if (run.finite()) {
    clients.push_back(run.client().id.value);
    deltas.push_back(std::move(delta));
  }
  return run.finite();
}

void run_timed(comm::ClusterCommunicator& team, double& seconds,
               const std::function<void()>& work) {
  const Stopwatch watch;
  double own = 0.0;
  team.run_and_agree([&] {
    work();
    own = watch.seconds();
  });
  seconds += own;
}

std::vector<double> gram_of(std::span<const double> rows, std::size_t m) {
  const std::size_t p = rows.size() / m;
  std::vector<double> gram(m * m);
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = i; j < m; ++j) {
      double sum = 0.0;
      for (std::size_t k = 0; k < p; ++k) {
        sum += rows[i * p + k] * rows[j * p + k];
      }
      gram[i * m + j] = sum;
      gram[j * m + i] = sum;
    }
  }
  return gram;
}

std::vector<float> BaselineScheme::initial_parameters(std::uint64_t /*cluster_key*/) const {
  return resources_.objectives.initial_parameters(resources_.seed);
}

std::vector<const data::Client*> BaselineScheme::my_clients(const RoundPlan& plan) const {
  std::vector<const data::Client*> clients;
  const auto [begin, end] = block_of(static_cast<int>(plan.participants.size()),
                                     resources_.team.rank(), resources_.team.size());
  for (int i = begin; i < end; ++i) {
    const int id = plan.participants[static_cast<std::size_t>(i)];
    clients.push_back(&resources_.partition.clients[static_cast<std::size_t>(id)]);
  }
  return clients;
}

std::set<int> BaselineScheme::close_clients(const LocalWork& work, RoundReport& report) const {
  share_seconds(resources_.team, work.seconds, report);
  report.steps = gather_steps(resources_.team, work.records);
  std::set<int> failed;
  std::vector<StepRecord> first;
  for (const StepRecord& step : report.steps) {
    if (!step.finite) {
      failed.insert(step.client);
    }
    if (step.step % local_steps() == 0) {
      first.push_back(step);
      first.back().step = 0;
    }
  }
  report.num_failed = static_cast<int>(failed.size());
  report.mean_loss = weighted_mean_loss(first, resources_.partition);
  return failed;
}

double BaselineScheme::mass_of(double num_pairs) const {
  return resources_.phase1.aggregation == "uniform" ? 1.0 : num_pairs;
}

void BaselineScheme::server_step(std::span<const double> sum, double mass,
                                 std::span<float> parameters) const {
  if (mass == 0.0) {
    return;  // nobody delivered: the model is kept
  }
  for (std::size_t k = 0; k < parameters.size(); ++k) {
    parameters[k] = static_cast<float>(static_cast<double>(parameters[k]) +
                                       resources_.phase1.server_learning_rate * (sum[k] / mass));
  }
}

void train_per_objective(
    const LocalSetting& setting, const std::vector<const data::Client*>& clients,
    const std::function<std::span<const float>(std::size_t objective)>& start_of, LocalWork& work) {
  const int steps = setting.resources.phase1.local_steps;
  for (const data::Client* client : clients) {
    const std::size_t m = client->train.size();
    std::vector<std::vector<float>> deltas(m);
    bool finite = true;
    for (std::size_t j = 0; j < m && finite; ++j) {
      if (client->train[j].empty()) {
        continue;
      }
      LocalRun run(setting, *client, only_objective(client->train, j), start_of(j),
                   static_cast<int>(j) * steps);
      std::vector<double> alone(m, 0.0);
      alone[j] = 1.0;
      for (int k = 0; k < steps; ++k) {
        run.step(alone);
      }
      deltas[j] = run.delta();
      finite = run.finite();
      for (StepRecord& record : run.take_records()) {
        work.records.push_back(std::move(record));
      }
    }
    if (finite) {
      work.clients.push_back(client->id.value);
      std::move(deltas.begin(), deltas.end(), std::back_inserter(work.deltas));
    }
  }
}

std::unique_ptr<RoundScheme> make_baseline_scheme(const std::string& name,
                                                  RoundResources resources) {
  if (name == "server_mgda" || name == "fedcmoo" || name == "fedcmoo_pref") {
    return make_fedcmoo(name, std::move(resources));
  }
  if (name == "fsmgda") {
    return make_fsmgda(std::move(resources));
  }
  if (name == "fedmgda_plus") {
    return make_fedmgda_plus(std::move(resources));
  }
  if (name == "ifca") {
    return make_ifca(std::move(resources));
  }
  if (name == "rewarded_soup") {
    return make_rewarded_soup(std::move(resources));
  }
  throw Error(Fault::kInternal, "unknown comparison method '" + name +
                                    "', expected server_mgda, fedcmoo, fedcmoo_pref, fsmgda, "
                                    "fedmgda_plus, ifca or rewarded_soup");
}

}  // namespace apo::federation
