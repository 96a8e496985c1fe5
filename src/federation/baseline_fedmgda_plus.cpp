// FedMGDA+ (Hu et al. 2022): the objectives are the clients. Their deltas are scaled to norm 1, and
// the server steps along the shortest combination whose weights stay near the clients' shares.

#include <cmath>
#include <cstring>

#include "baseline_scheme.hpp"
#include "baseline_weights.hpp"
#include "local_round.hpp"

#include "apo/core/clock.hpp"
#include "apo/core/error.hpp"

namespace apo::federation {
namespace {

/// Numbers of each delta that are gathered at once: what a rank holds of all clients' deltas.
constexpr std::size_t kSlice = std::size_t{1} << 16;

class FedMgdaPlus final : public BaselineScheme {
 public:
  using BaselineScheme::BaselineScheme;

  [[nodiscard]] RoundReport run(const RoundPlan& plan, std::vector<float>& parameters,
                                std::vector<double>& /*memory*/) override {
    RoundReport report = begin_report(plan);
    const LocalSetting setting{resources(), plan};
    const std::vector<float> start = parameters;
    LocalWork work;
    run_timed(resources().team, work.seconds, [&] {
      for (const data::Client* client : my_clients(plan)) {
        LocalRun run(setting, *client, client->train, start);
        for (int k = 0; k < local_steps(); ++k) {
          run.step(client->preference);
        }
        work.take(run);
      }
    });
    const std::set<int> failed = close_clients(work, report);
    report.floats_up = model_size();
    report.floats_down = model_size();

    std::vector<int> delivered;  // by all ranks, ascending
    for (const int id : plan.participants) {
      if (!failed.contains(id)) {
        delivered.push_back(id);
      }
    }
    if (delivered.empty()) {
      return report;
    }
    const std::vector<double> gram = gram_of_clients(work, delivered.size(), report);
    const std::vector<double> weights = combine_clients(delivered, gram);
    TeamSum sum({start.size()});
    for (std::size_t i = 0; i < work.clients.size(); ++i) {
      const auto place = static_cast<std::size_t>(
          std::lower_bound(delivered.begin(), delivered.end(), work.clients[i]) -
          delivered.begin());
      sum.begin_client();
      sum.add(0, weights[place], work.deltas[i]);
    }
    server_step(sum.reduce(resources(), report), 1.0, parameters);
    finish_report(start, parameters, report);
    return report;
  }

 private:
  /// Inner products of all deltas, [n, n] in client order, on every rank. Collective.
  [[nodiscard]] std::vector<double> gram_of_clients(const LocalWork& work, std::size_t n,
                                                    RoundReport& report) const {
    const Stopwatch watch;
    const auto p = static_cast<std::size_t>(model_size());
    std::vector<double> gram(n * n, 0.0);
    std::vector<float> all;
    for (std::size_t begin = 0; begin < p; begin += kSlice) {
      const std::size_t length = std::min(kSlice, p - begin);
      std::string mine(work.deltas.size() * length * sizeof(float), '\0');
      for (std::size_t i = 0; i < work.deltas.size(); ++i) {
        std::memcpy(mine.data() + i * length * sizeof(float), work.deltas[i].data() + begin,
                    length * sizeof(float));
      }
      all.resize(n * length);
      std::size_t filled = 0;
      for (const std::string& bytes : resources().team.all_gather(mine)) {
        expects(filled + bytes.size() <= all.size() * sizeof(float),
                "fedmgda_plus: more deltas than clients");
        std::memcpy(reinterpret_cast<char*>(all.data()) + filled, bytes.data(), bytes.size());
        filled += bytes.size();
      }
      expects(filled == all.size() * sizeof(float), "fedmgda_plus: fewer deltas than clients");
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = i; j < n; ++j) {
          double sum = 0.0;
          for (std::size_t k = 0; k < length; ++k) {
            sum +=
                static_cast<double>(all[i * length + k]) * static_cast<double>(all[j * length + k]);
          }
          gram[i * n + j] += sum;
          gram[j * n + i] = gram[i * n + j];
        }
      }
    }
    report.seconds_reduction += watch.seconds();
    report.bytes_reduced += static_cast<std::int64_t>(n * p * sizeof(float));
    return gram;
  }

  /// Factors of the deltas themselves: lambda_i / ||delta_i||, lambda the solution of
  /// min ||sum lambda_i delta_i / ||delta_i|| ||^2 on the simplex with |lambda_i - n_i / n| <=
  /// epsilon. A delta that is 0 stays as it is.
  [[nodiscard]] std::vector<double> combine_clients(const std::vector<int>& delivered,
                                                    const std::vector<double>& gram) const {
    const std::size_t n = delivered.size();
    std::vector<double> share;
    double total = 0.0;
    for (const int id : delivered) {
      const data::Client& client = resources().partition.clients[static_cast<std::size_t>(id)];
      share.push_back(mass_of(static_cast<double>(client.num_pairs())));
      total += share.back();
    }
    std::vector<double> scale(n);
    std::vector<double> low(n);
    std::vector<double> high(n);
    for (std::size_t i = 0; i < n; ++i) {
      share[i] /= total;
      low[i] = std::max(0.0, share[i] - resources().baseline.fairness);
      high[i] = std::min(1.0, share[i] + resources().baseline.fairness);
      scale[i] = gram[i * n + i] > 0.0 ? 1.0 / std::sqrt(gram[i * n + i]) : 1.0;
    }
    std::vector<double> unit(n * n);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        unit[i * n + j] = scale[i] * gram[i * n + j] * scale[j];
      }
    }
    std::vector<double> weights = box_min_norm(unit, low, high, share);
    for (std::size_t i = 0; i < n; ++i) {
      weights[i] *= scale[i];
    }
    return weights;
  }
};

}  // namespace

std::unique_ptr<RoundScheme> make_fedmgda_plus(RoundResources resources) {
  return std::make_unique<FedMgdaPlus>(std::move(resources));
}

}  // namespace apo::federation
