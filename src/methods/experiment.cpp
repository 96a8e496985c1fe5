#include "apo/methods/experiment.hpp"

#include <map>
#include <string_view>
#include <utility>

#include "apo/comm/activity.hpp"
#include "apo/core/bytes.hpp"
#include "apo/core/error.hpp"
#include "apo/federation/placement.hpp"

namespace apo::methods {
namespace {

/// For rounds that nobody records.
class SilentObserver final : public federation::RoundObserver {
 public:
  void on_round(const federation::RoundReport& /*report*/) override {}
  void on_progress(int /*done*/, int /*total*/) override {}
  void on_checkpoint(const federation::TrainingState& /*state*/) override {}
};

const std::map<std::string, MethodTraits>& known_methods() {
  static const std::map<std::string, MethodTraits> methods = {
      {"apo", {.per_cluster = true, .meta = true}},
      {"fedavg", {}},
      {"firm", {}},
      {"server_mgda", {.scheme = "server_mgda"}},
      {"fedcmoo", {.scheme = "fedcmoo"}},
      {"fedcmoo_pref", {.scheme = "fedcmoo_pref"}},
      {"fsmgda", {.scheme = "fsmgda"}},
      {"fedmgda_plus", {.scheme = "fedmgda_plus"}},
      {"ifca", {.scheme = "ifca"}},
      {"rewarded_soup", {.scheme = "rewarded_soup", .adapts = false}},
      {"fspo", {.trains = false}},
      {"ditto", {.trains = false}},
      {"base", {.trains = false, .adapts = false}},
  };
  return methods;
}

}  // namespace

MethodTraits method_traits(const MethodOptions& options) {
  const auto found = known_methods().find(options.name);
  if (found == known_methods().end()) {
    throw Error(Fault::kConfig, "method.name = " + options.name + " is not a method");
  }
  MethodTraits traits = found->second;
  if (options.scope != "auto") {
    traits.per_cluster = options.scope == "cluster";
  }
  return traits;
}

ExperimentOptions resolved(ExperimentOptions options) {
  const MethodTraits traits = method_traits(options.method);
  federation::TrainingOptions& training = options.training;
  training.scheme = traits.scheme;
  if (options.method.name == "firm") {
    training.direction.solver = "firm";
    training.phase1.aggregation = "uniform";
  }
  if (!traits.meta) {
    training.phase2.rounds = 0;
    training.phase2.server_learning_rate.resize(1);
    training.phase2.server_weight_decay.resize(1);
  }
  if (!traits.trains) {
    training.phase1.rounds = 0;
    training.phase2.start_rounds.clear();
  }
  return options;
}

std::string method_label(const ExperimentOptions& options) {
  const std::string& name = options.method.name;
  const std::string& solver = options.training.direction.solver;
  if ((name != "apo" && name != "fedavg") || solver == "apo_lp") {
    return name;
  }
  if (solver == "fixed") {
    return name == "apo" ? "lambda" : name;
  }
  return name + "+" + solver;
}

Experiment::Experiment(comm::World& world, const ExperimentInputs& inputs,
                       ExperimentOptions options)
    : world_(world),
      inputs_(inputs),
      options_(std::move(options)),
      traits_(method_traits(options_.method)),
      solver_(direction::make_solver(options_.training.direction)) {
  if (traits_.adapts && inputs_.personaliser == nullptr) {
    few_shot_ =
        make_few_shot_personaliser(inputs_.objectives, *solver_, inputs_.partition, options_.adapt,
                                   options_.training.phase2, options_.training.seed);
    inputs_.personaliser = few_shot_.get();
  }
}

std::vector<float> Experiment::reference_parameters() {
  const int rounds = clustering::warm_rounds(options_.clustering);
  if (rounds == 0) {
    return {};
  }
  federation::TrainingOptions training = options_.training;
  training.scheme = "local_steps";
  training.monitor.theory = false;
  training.phase1.rounds = rounds;
  training.phase1.learning_rate_final = training.phase1.learning_rate;
  training.phase2.rounds = 0;
  training.phase2.start_rounds.clear();
  training.phase2.server_learning_rate.resize(1);
  training.phase2.server_weight_decay.resize(1);
  training.checkpoint_every = rounds;
  federation::Trainer warm_up(world_, inputs_.partition, inputs_.objectives, std::move(training),
                              {{inputs_.partition.train_clients()}});
  SilentObserver silent;
  warm_up.run(silent);
  return warm_up.final_parameters(0).at(0);
}

const Population& Experiment::population(std::vector<std::vector<double>> known) {
  if (known.empty()) {
    known = reference_losses(world_, inputs_.partition, inputs_.objectives, reference_parameters());
  }
  population_ = make_population(inputs_.partition, known, options_.clustering);
  std::vector<federation::TrainingGroup> groups;
  if (traits_.per_cluster) {
    for (const clustering::Cluster& cluster : population_.clustering.clusters) {
      groups.push_back({cluster.members});
    }
  } else {
    groups.push_back({inputs_.partition.train_clients()});
  }
  trainer_ = std::make_unique<federation::Trainer>(world_, inputs_.partition, inputs_.objectives,
                                                   options_.training, std::move(groups));
  return population_;
}

federation::Outcome Experiment::train(federation::RoundObserver& observer, federation::Phase last) {
  expects(trainer_ != nullptr, "Experiment: train() before population()");
  return trainer_->run(observer, last);
}

int Experiment::group_of_cluster(int cluster) const { return traits_.per_cluster ? cluster : 0; }

std::vector<ClientId> Experiment::test_clients() const {
  return chosen_test_clients(inputs_.partition, population_,
                             options_.adapt.test_clients_per_cluster);
}

std::vector<float> Experiment::initialiser(const data::Client& client, int variant) const {
  const int cluster = population_.clients[client.id.index()].cluster;
  return trainer_->personal(client, variant, group_of_cluster(cluster));
}

std::vector<float> Experiment::personalise(const data::Client& client, int variant,
                                           std::vector<federation::StepRecord>& steps) {
  return inputs_.personaliser->personalise(
      client, trainer_->start_rounds()[static_cast<std::size_t>(variant)],
      population_.clients[client.id.index()].cluster, initialiser(client, variant), steps);
}

void Experiment::evaluate_client(const data::Client& client, int variant,
                                 const std::vector<float>* adapted, ExperimentResult& result) {
  EvaluationKey key{method_label(options_),
                    trainer_->start_rounds()[static_cast<std::size_t>(variant)],
                    population_.clients[client.id.index()].cluster, Stage::kBase};
  const auto evaluate = [&](Stage stage, std::span<const float> adapter, bool sample) {
    key.stage = stage;
    inputs_.evaluator.evaluate(client, adapter, key, sample, result.evaluation, result.responses);
  };
  const bool base = options_.method.name == "base";
  if (variant == 0) {
    evaluate(Stage::kBase, {}, base);
  }
  if (base) {
    return;
  }
  if (traits_.trains) {  // untrained, it is the base policy
    evaluate(Stage::kInitialiser, initialiser(client, variant), true);
  }
  if (inputs_.personaliser != nullptr) {
    evaluate(Stage::kAdapted,
             adapted != nullptr ? *adapted : personalise(client, variant, result.adaptation), true);
  }
}

bool Experiment::for_each_client(
    const std::function<void(int k, int variant, const data::Client&)>& work,
    const StopCheck& stop) {
  expects(trainer_ != nullptr, "Experiment: test clients before population()");
  const std::vector<ClientId> clients = test_clients();
  const int num_clients = static_cast<int>(clients.size());
  const int total = num_clients * static_cast<int>(trainer_->start_rounds().size());
  const auto [begin, end] = federation::block_of(total, world_.rank(), world_.size());
  std::vector<double> stopped = {0.0};
  for (int k = begin; k < end; ++k) {
    if (stop && stop()) {
      stopped[0] = 1.0;
      break;
    }
    const ClientId id = clients[static_cast<std::size_t>(k % num_clients)];
    const data::Client& client = inputs_.partition.clients[id.index()];
    const comm::Activity activity("evaluation", -1, population_.clients[id.index()].cluster,
                                  id.value, client.name);
    work(k, k / num_clients, client);
  }
  world_.all().all_reduce(std::span<double>(stopped), comm::Reduction::kMax);
  return stopped[0] == 0.0;
}

std::optional<AdaptedClients> Experiment::adapt(const StopCheck& stop) {
  AdaptedClients local;
  if (inputs_.personaliser != nullptr) {
    const auto work = [&](int /*k*/, int variant, const data::Client& client) {
      local.parameters.push_back(personalise(client, variant, local.adaptation));
    };
    if (!for_each_client(work, stop)) {
      return std::nullopt;
    }
  }
  AdaptedClients all;
  std::string bytes;
  for (const std::vector<float>& parameters : local.parameters) {
    bytes += to_bytes(std::span<const float>(parameters));
  }
  const std::size_t length =
      static_cast<std::size_t>(inputs_.objectives.num_parameters()) * sizeof(float);
  for (const std::string& part : world_.all().all_gather(bytes)) {
    for (std::size_t at = 0; at < part.size(); at += length) {
      all.parameters.push_back(from_bytes<float>(std::string_view(part).substr(at, length)));
    }
  }
  for (const std::string& part : world_.all().all_gather(federation::pack(local.adaptation))) {
    for (federation::StepRecord& step : federation::unpack(part)) {
      all.adaptation.push_back(std::move(step));
    }
  }
  return all;
}

std::optional<ExperimentResult> Experiment::evaluate(const AdaptedClients* adapted,
                                                     const StopCheck& stop) {
  const int m = inputs_.objectives.num_objectives();
  ExperimentResult local{summary_table(m), response_table(m), {}};
  const auto work = [&](int k, int variant, const data::Client& client) {
    const bool given = adapted != nullptr && inputs_.personaliser != nullptr;
    evaluate_client(client, variant,
                    given ? &adapted->parameters.at(static_cast<std::size_t>(k)) : nullptr, local);
  };
  if (!for_each_client(work, stop)) {
    return std::nullopt;
  }
  ExperimentResult result{summary_table(m), response_table(m), {}};
  for (const std::string& bytes : world_.all().all_gather(pack(local.evaluation))) {
    result.evaluation.append(unpack_table(bytes));
  }
  for (const std::string& bytes : world_.all().all_gather(pack(local.responses))) {
    result.responses.append(unpack_table(bytes));
  }
  if (adapted != nullptr) {
    result.adaptation = adapted->adaptation;
    return result;
  }
  for (const std::string& bytes : world_.all().all_gather(federation::pack(local.adaptation))) {
    for (federation::StepRecord& step : federation::unpack(bytes)) {
      result.adaptation.push_back(std::move(step));
    }
  }
  return result;
}

}  // namespace apo::methods
