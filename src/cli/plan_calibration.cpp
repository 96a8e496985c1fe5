#include "plan_calibration.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "run_pipeline.hpp"
#include "run_tables.hpp"
#include <unistd.h>

#include "apo/comm/cluster_communicator.hpp"
#include "apo/core/clock.hpp"
#include "apo/core/process_memory.hpp"
#include "apo/federation/batch_sampler.hpp"
#include "apo/federation/theory_monitor.hpp"
#include "apo/federation/trainer.hpp"
#include "apo/store/document.hpp"

namespace apo::cli {
namespace {

constexpr double kBudget = 4.0;  ///< s for each kind of work, once it has been done once
constexpr double kCheap = 0.05;  ///< s: clients below it are run by the round
constexpr int kMostRounds = 8;
constexpr int kCheapRounds = 40;
constexpr int kMostPrompts = 16;  ///< per objective, of the test client that is evaluated
constexpr std::uint64_t kOwnStream = ~std::uint64_t{0} - 1;

/// Keeps the reports of the rounds.
class Reports final : public federation::RoundObserver {
 public:
  void on_round(const federation::RoundReport& report) override { all.push_back(report); }
  void on_progress(int /*done*/, int /*total*/) override {}
  void on_checkpoint(const federation::TrainingState& /*state*/) override {}
  std::vector<federation::RoundReport> all;
};

/// Largest over the ranks.
double largest(comm::World& world, double mine) {
  std::vector<double> value = {mine};
  world.all().all_reduce(std::span<double>(value), comm::Reduction::kMax);
  return value[0];
}

/// Peak of resident memory while `work` runs, beside what was there before; bytes.
template <class Work>
double extra_memory(const Work& work) {
  release_freed_memory();
  const double before = static_cast<double>(process_memory().resident());
  reset_peak_memory();
  work();
  return std::max(0.0, static_cast<double>(process_memory().peak) - before);
}

/// A few clients that own one batch each: real steps, whose reference losses are known beforehand.
data::Partition sample_of(const data::Partition& whole, const std::vector<ClientId>& chosen,
                          int batch_pairs) {
  data::Partition sample;
  sample.text_of_pair = whole.text_of_pair;
  for (const ClientId id : chosen) {
    data::Client client = whole.clients[id.index()];
    federation::BatchSampler sampler(
        client.train, {kOwnStream, Purpose::kBatch, 0, 0, static_cast<std::uint64_t>(id.value)},
        whole.text_of_pair);
    client.train = sampler.next(batch_pairs);
    client.id = ClientId(static_cast<std::int32_t>(sample.clients.size()));
    sample.clients.push_back(std::move(client));
  }
  return sample;
}

/// Training clients of middling work. On analytic tasks the first ones, whose numbers are ids.
std::vector<ClientId> middling(const methods::PlanInputs& inputs, std::size_t count) {
  std::vector<ClientId> clients = inputs.train_clients;
  count = std::min(count, clients.size());
  if (inputs.adapter_rank > 0) {
    std::stable_sort(clients.begin(), clients.end(), [&](ClientId a, ClientId b) {
      return inputs.clients[a.index()].phase1_step < inputs.clients[b.index()].phase1_step;
    });
    const auto first = static_cast<std::ptrdiff_t>((clients.size() - count) / 2);
    return {clients.begin() + first, clients.begin() + first + static_cast<std::ptrdiff_t>(count)};
  }
  clients.resize(count);
  return clients;
}

class Calibrator {
 public:
  Calibrator(comm::World& world, const config::RunConfig& config, RunTask& task,
             const methods::PlanInputs& inputs, const PairLengths& lengths)
      : world_(world), config_(config), task_(task), inputs_(inputs), lengths_(lengths) {}

  Calibration run(double start) {
    load(start);
    look_at_losses();
    run_rounds();
    evaluate();
    publish();
    finish();
    return result_;
  }

 private:
  void load(double start) {
    release_freed_memory();
    const ProcessMemory before = process_memory();
    const Stopwatch watch;
    const double extra = extra_memory([&] { task_.prepare(); });
    result_.unit.start = start + watch.seconds();
    const auto after = static_cast<double>(process_memory().anonymous);
    result_.memory.process = static_cast<double>(before.anonymous);
    result_.memory.weights = std::max(0.0, after - result_.memory.process);
    result_.memory.loading = std::max(0.0, extra - result_.memory.weights);
  }

  [[nodiscard]] int batch_pairs() const {
    return config_.phase1.batch_size * config_.phase1.gradient_accumulation;
  }
  [[nodiscard]] double tokens_of(const data::Pool& pool, methods::Gradients gradients) const {
    return methods::batch_work(pool, lengths_.tokens, task_.partition().text_of_pair, gradients);
  }

  /// Seconds per token of the reference policy and of a policy, on this rank's client.
  void look_at_losses() {
    objective::ObjectiveSet& objectives = task_.objectives();
    adapter_ = objectives.initial_parameters(*config_.runtime.seed);
    const auto ranks = static_cast<std::size_t>(world_.size());
    sample_ = sample_of(task_.partition(), middling(inputs_, ranks), batch_pairs());
    const data::Client& client =
        sample_.clients[static_cast<std::size_t>(world_.rank()) % sample_.clients.size()];
    const objective::Batch batch{client.id, client.train};
    const double tokens = tokens_of(client.train, methods::Gradients::kNone);
    world_.all().barrier();
    objective::Evaluation reference;
    Stopwatch watch;
    result_.memory.forward = extra_memory([&] {
      reference = objectives.evaluate({}, batch);
      result_.unit.reference_token = watch.seconds() / tokens;
      watch.restart();
      (void)objectives.evaluate(adapter_, batch);
      result_.unit.forward_token = watch.seconds() / tokens;
    });
    result_.mean_loss = reference.loss;
  }

  [[nodiscard]] federation::TrainingOptions training(const std::string& scheme, int rounds,
                                                     int clients) const {
    federation::TrainingOptions options = experiment_options(config_).training;
    options.scheme = scheme;
    options.monitor.audit_every = 0;
    options.phase1.rounds = rounds;
    options.phase1.clients_per_round = clients;
    options.phase2.rounds = 0;
    options.phase2.start_rounds.clear();
    options.phase2.server_learning_rate.resize(1);
    options.phase2.server_weight_decay.resize(1);
    options.checkpoint_every = rounds + 1;
    return options;
  }

  struct Rounds {
    double client = 0.0;   ///< s of one participant on the slowest rank
    double cluster = 0.0;  ///< s of one round beside the participants
    double memory = 0.0;   ///< bytes
  };

  /// Real rounds of one cluster that holds `sample`.
  Rounds train(const data::Partition& sample, const std::string& scheme, int rounds) {
    const auto clients = static_cast<int>(sample.clients.size());
    federation::TrainingOptions options = training(scheme, rounds, clients);
    if (scheme == "local_steps") {
      options.phase1.local_steps = 1;
    }
    Reports reports;
    double total = 0.0;
    Rounds result;
    world_.all().barrier();
    result.memory = extra_memory([&] {
      federation::Trainer trainer(world_, sample, task_.objectives(), std::move(options),
                                  {{sample.train_clients()}});
      const Stopwatch watch;
      trainer.run(reports);
      total = watch.seconds();
    });
    double busy = 0.0;
    for (const federation::RoundReport& report : reports.all) {
      busy += report.seconds_clients;
    }
    busy = largest(world_, busy);
    const int per_rank = (clients + world_.size() - 1) / world_.size();
    result.client = busy / rounds / per_rank;
    result.cluster = std::max(0.0, largest(world_, total) - busy) / rounds;
    result_.rounds += rounds;
    return result;
  }

  void run_rounds() {
    Rounds rounds = train(sample_, "local_steps", 1);
    const bool cheap = rounds.client < kCheap;
    const int more =
        static_cast<int>(std::clamp(kBudget / std::max(1e-6, rounds.client), 0.0,
                                    static_cast<double>(cheap ? kCheapRounds : kMostRounds)));
    data::Partition many;
    if (cheap) {  // what a round costs beside its clients grows with them
      many = sample_of(task_.partition(),
                       middling(inputs_, static_cast<std::size_t>(std::max(
                                             config_.phase1.clients_per_round, world_.size()))),
                       batch_pairs());
      for (const data::Client& client : many.clients) {
        (void)task_.objectives().evaluate({}, {client.id, client.train});
      }
    }
    const data::Partition& sample = cheap ? many : sample_;
    if (more > 0) {
      rounds = train(sample, "local_steps", more);  // libraries have made their buffers
    }
    remember_memory(rounds, sample);
    double work = 0.0;
    for (const data::Client& client : sample.clients) {
      work += tokens_of(client.train, inputs_.one_by_one ? methods::Gradients::kPerObjective
                                                         : methods::Gradients::kWeighted) /
              static_cast<double>(sample.clients.size());
    }
    result_.unit.gradient_work = rounds.client / work;
    result_.unit.cluster_round = rounds.cluster;
    if (inputs_.traits.trains && inputs_.traits.scheme != "local_steps") {
      const Rounds own = train(sample, inputs_.traits.scheme, 1 + std::min(more, 2));
      result_.unit.client_round = own.client;
      result_.unit.cluster_round = own.cluster;
    }
  }

  /// Activations: what a round took beside the buffers that are known.
  void remember_memory(const Rounds& rounds, const data::Partition& sample) {
    methods::PlanInputs shape = inputs_;
    shape.num_ranks = shape.ranks_per_node = world_.size();
    shape.traits.scheme = "local_steps";
    shape.scheme_parameters = shape.num_parameters;
    shape.options.training = training("local_steps", 1, static_cast<int>(sample.clients.size()));
    shape.groups = {sample.train_clients()};
    shape.clients.resize(sample.clients.size());
    shape.test_clients.clear();
    const double known =
        methods::step_memory(shape, methods::plan_work(shape)) + methods::adapter_memory(shape);
    double batch = 0.0;
    for (const data::Client& client : sample.clients) {
      batch = std::max(batch, tokens_of(client.train, methods::Gradients::kNone));
    }
    double most = 0.0;
    for (const methods::ClientWork& client : inputs_.clients) {
      most = std::max(most, client.pool_tokens);
    }
    // The largest pass of the run may hold more tokens than the one that was weighed.
    const double missing =
        pass_bytes(config_, lengths_, largest_pass_tokens(lengths_, most)) -
        pass_bytes(config_, lengths_, std::min(batch, largest_pass_tokens(lengths_, batch)));
    result_.memory.activations = std::max(0.0, rounds.memory - known + std::max(0.0, missing));
  }

  /// One test client: held-out losses, and responses as the run samples them.
  void evaluate() {
    if (inputs_.test_clients.empty()) {
      return;
    }
    const ClientId id =
        inputs_.test_clients[static_cast<std::size_t>(world_.rank()) % inputs_.test_clients.size()];
    data::Client client = task_.partition().clients[id.index()];
    for (std::vector<int>& pairs : client.evaluate) {
      pairs.resize(std::min<std::size_t>(pairs.size(), kMostPrompts));
    }
    const auto m = task_.objectives().num_objectives();
    Table summary = methods::summary_table(m);
    Table responses = methods::response_table(m);
    methods::EvaluationKey key;
    key.method = "plan";
    task_.evaluator().evaluate(client, {}, key, false, summary, responses);  // reference losses
    world_.all().barrier();
    double seconds = 0.0;
    result_.memory.generation = extra_memory([&] {
      const Stopwatch watch;
      task_.evaluator().evaluate(client, adapter_, key, true, summary, responses);
      seconds = watch.seconds();
    });
    const double losses =
        tokens_of(client.evaluate, methods::Gradients::kNone) * result_.unit.forward_token;
    const double rest = std::max(0.0, seconds - losses);
    if (const std::int64_t answers = responses.num_rows(); answers > 0) {
      result_.unit.response = rest / static_cast<double>(answers);
    } else {
      result_.unit.evaluation = lengths_.tokens.empty() ? rest : 0.0;
    }
  }

  /// Rank 0 writes files and reads them back: the library's own memory.
  void publish() {
    if (world_.rank() != 0) {
      return;
    }
    const int m = task_.objectives().num_objectives();
    store::Document document;
    for (const char* phase : {"phase1", "phase2", "adaptation"}) {
      document.put_table(std::string(phase) + "/steps", step_table(m), "row");
      document.put_table(std::string(phase) + "/rounds", round_table(m), "row");
    }
    document.put_table("theory/rounds", federation::theory_round_table(m), "row");
    document.put_table("theory/clients", federation::theory_client_table(m), "row");
    document.put_table("evaluation/summary", methods::summary_table(m), "row");
    const std::filesystem::path file =
        std::filesystem::temp_directory_path() / ("apo-plan-" + std::to_string(::getpid()) + ".h5");
    result_.memory.first_rank = extra_memory([&] {
      store::write_document(file, document);
      (void)store::read_document(file);
    });
    std::filesystem::remove(file);
  }

  void finish() {
    release_freed_memory();
    const ProcessMemory now = process_memory();
    result_.memory.libraries = static_cast<double>(now.file);
    // Buffers that libraries made on first use stay.
    result_.memory.process = std::max(result_.memory.process,
                                      static_cast<double>(now.anonymous) - result_.memory.weights);
    result_.memory.per_rank_of_node =
        static_cast<double>(now.shared) / static_cast<double>(world_.size());
    for (double* value :
         {&result_.unit.reference_token, &result_.unit.forward_token, &result_.unit.response,
          &result_.unit.evaluation, &result_.unit.start, &result_.memory.process,
          &result_.memory.weights, &result_.memory.loading, &result_.memory.libraries,
          &result_.memory.activations, &result_.memory.forward, &result_.memory.generation}) {
      *value = largest(world_, *value);
    }
    result_.mean_loss.resize(static_cast<std::size_t>(task_.objectives().num_objectives()));
    world_.all().broadcast(std::span<double>(result_.mean_loss), 0);  // each had another client
    result_.seconds = watch_.seconds();
  }

  comm::World& world_;
  const config::RunConfig& config_;
  RunTask& task_;
  const methods::PlanInputs& inputs_;
  const PairLengths& lengths_;
  Stopwatch watch_;
  data::Partition sample_;
  std::vector<float> adapter_;
  Calibration result_;
};

}  // namespace

Calibration calibrate(comm::World& world, const config::RunConfig& config, RunTask& task,
                      const methods::PlanInputs& inputs, const PairLengths& lengths, double start) {
  return Calibrator(world, config, task, inputs, lengths).run(start);
}

}  // namespace apo::cli
