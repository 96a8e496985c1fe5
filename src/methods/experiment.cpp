#include "apo/methods/experiment.hpp"

#include <map>

#include "apo/core/error.hpp"
#include "apo/core/rng.hpp"
#include "apo/federation/batch_sampler.hpp"
#include "apo/federation/local_training.hpp"

namespace apo::methods {

std::string method_label(const ExperimentOptions& options) {
  if (options.method.name == "apo" && options.training.direction.solver == "fixed") {
    return "lambda";
  }
  return options.method.name;
}

Experiment::Experiment(comm::World& world, const data::Partition& partition,
                       EvaluationInputs inputs, ExperimentOptions options)
    : world_(world),
      partition_(partition),
      inputs_(inputs),
      options_(std::move(options)),
      solver_(direction::make_solver(options_.training.direction)) {}

const Population& Experiment::population() {
  population_ = make_population(
      partition_, reference_losses(world_, partition_, inputs_.objectives), options_.clustering);
  std::vector<federation::TrainingGroup> groups;
  if (options_.method.name == "apo") {
    for (const clustering::Cluster& cluster : population_.clustering.clusters) {
      groups.push_back({cluster.members});
    }
  } else {
    groups.push_back({partition_.train_clients()});
  }
  federation::TrainingOptions training = options_.training;
  if (options_.method.name != "apo") {
    training.phase2.rounds = 0;
    training.phase2.server_learning_rate.resize(1);
    training.phase2.server_weight_decay.resize(1);
  }
  if (options_.method.name == "base") {
    training.phase1.rounds = 0;
    training.phase2.start_rounds.clear();
  }
  trainer_ = std::make_unique<federation::Trainer>(world_, partition_, inputs_.objectives,
                                                   std::move(training), std::move(groups));
  return population_;
}

void Experiment::train(federation::RoundObserver& observer) {
  expects(trainer_ != nullptr, "Experiment: train() before population()");
  trainer_->run(observer);
}

int Experiment::group_of_cluster(int cluster) const {
  return options_.method.name == "apo" ? cluster : 0;
}

std::vector<ClientId> Experiment::test_clients() const {
  std::map<int, int> taken;
  std::vector<ClientId> clients;
  for (const ClientId id : partition_.test_clients()) {
    const int cluster = population_.clients[id.index()].cluster;
    if (taken[cluster]++ < options_.adapt.test_clients_per_cluster) {
      clients.push_back(id);
    }
  }
  return clients;
}

void Experiment::evaluate_client(const data::Client& client, int variant, Evaluator& evaluator,
                                 ExperimentResult& result) {
  const int start_round = trainer_->start_rounds()[static_cast<std::size_t>(variant)];
  EvaluationKey key{method_label(options_), start_round,
                    population_.clients[client.id.index()].cluster, Stage::kBase};
  const bool base = options_.method.name == "base";
  if (variant == 0) {
    evaluator.evaluate(client, {}, key, base, result.evaluation, result.responses);
  }
  if (base) {
    return;
  }
  const std::vector<float>& initialiser =
      trainer_->final_parameters(variant)[static_cast<std::size_t>(group_of_cluster(key.cluster))];
  key.stage = Stage::kInitialiser;
  evaluator.evaluate(client, initialiser, key, true, result.evaluation, result.responses);

  const auto id = static_cast<std::uint64_t>(client.id.value);
  const std::uint64_t seed = options_.training.seed;
  CounterRng support({seed, Purpose::kEpisode, ~std::uint64_t{0}, 0, id});
  federation::LocalOptions local;
  local.steps = options_.adapt.steps;
  local.batch_pairs = options_.training.phase2.inner_batch_size;
  local.learning_rate = options_.adapt.learning_rate;
  local.clip = options_.training.phase2.gradient_clip;
  local.force_balancing = true;
  federation::StepRecord row;
  row.phase = federation::Phase::kAdaptation;
  row.start_round = start_round;
  row.cluster = key.cluster;
  federation::LocalResult adapted = federation::train_client(
      inputs_.objectives, *solver_, client,
      federation::draw_support(client.adapt, options_.adapt.shots, support),
      partition_.text_of_pair, initialiser, local,
      {seed, Purpose::kBatch, ~std::uint64_t{0}, 0, id}, ~std::uint64_t{0} << 32, row);
  for (federation::StepRecord& step : adapted.steps) {
    result.adaptation.push_back(std::move(step));
  }
  key.stage = Stage::kAdapted;
  evaluator.evaluate(client, adapted.parameters, key, true, result.evaluation, result.responses);
}

ExperimentResult Experiment::evaluate() {
  expects(trainer_ != nullptr, "Experiment: evaluate() before population()");
  const int m = inputs_.objectives.num_objectives();
  ExperimentResult local{summary_table(m), response_table(m), {}};
  Evaluator evaluator(inputs_, options_.evaluate, options_.training.seed);
  const std::vector<ClientId> clients = test_clients();
  const int num_variants = static_cast<int>(trainer_->start_rounds().size());
  // One list over (variant, client) in blocks: gathering in rank order restores the serial order.
  const int total = num_variants * static_cast<int>(clients.size());
  const auto [begin, end] = federation::block_of(total, world_.rank(), world_.size());
  for (int k = begin; k < end; ++k) {
    const int variant = k / static_cast<int>(clients.size());
    const ClientId id = clients[static_cast<std::size_t>(k) % clients.size()];
    evaluate_client(partition_.clients[id.index()], variant, evaluator, local);
  }
  ExperimentResult result{summary_table(m), response_table(m), {}};
  for (const std::string& bytes : world_.all().all_gather(pack(local.evaluation))) {
    result.evaluation.append(unpack_table(bytes));
  }
  for (const std::string& bytes : world_.all().all_gather(pack(local.responses))) {
    result.responses.append(unpack_table(bytes));
  }
  for (const std::string& bytes : world_.all().all_gather(federation::pack(local.adaptation))) {
    for (federation::StepRecord& step : federation::unpack(bytes)) {
      result.adaptation.push_back(std::move(step));
    }
  }
  return result;
}

}  // namespace apo::methods
