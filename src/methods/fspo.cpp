#include "apo/methods/fspo.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "personaliser_descent.hpp"

#include "apo/core/rng.hpp"
#include "apo/federation/batch_sampler.hpp"
#include "apo/objective/preference_objectives.hpp"

namespace apo::methods {
namespace {

class FspoPersonaliser final : public Personaliser {
 public:
  FspoPersonaliser(objective::ObjectiveSet& objectives, const data::Partition& partition,
                   FspoOptions options, const federation::AdaptOptions& adapt, std::uint64_t seed)
      : objectives_(objectives),
        partition_(partition),
        options_(std::move(options)),
        shots_(adapt.shots),
        learning_rate_(adapt.learning_rate),
        seed_(seed) {}

  FspoPersonaliser(std::unique_ptr<objective::ObjectiveSet> objectives,
                   const data::Partition& partition, FspoOptions options,
                   const federation::AdaptOptions& adapt, std::uint64_t seed)
      : FspoPersonaliser(*objectives, partition, std::move(options), adapt, seed) {
    owned_ = std::move(objectives);
  }

  [[nodiscard]] std::vector<float> personalise(
      const data::Client& client, int start_round, int cluster, std::span<const float> initialiser,
      std::vector<federation::StepRecord>& steps) override {
    const data::Pool support = support_pairs(client, shots_, seed_);
    const std::vector<int> counts = federation::stratified_counts(support, options_.batch_size);
    const int num_steps = options_.epochs * steps_per_epoch(support, counts);
    federation::BatchSampler sampler(
        support,
        {seed_, Purpose::kBatch, ~std::uint64_t{0}, 0, static_cast<std::uint64_t>(client.id.value)},
        partition_.text_of_pair);
    federation::StepRecord record;
    record.phase = federation::Phase::kAdaptation;
    record.start_round = start_round;
    record.cluster = cluster;
    WeightedDescent descent(
        objectives_, client, initialiser,
        {.optimizer = options_.optimizer, .gradient_clip = options_.gradient_clip, .seed = seed_},
        record);
    for (int k = 0; k < num_steps; ++k) {
      const double warm = std::min(1.0, (k + 1.0) / (options_.warmup_steps + 1.0));
      if (!descent.step(sampler.next(options_.batch_size), client.preference, warm * learning_rate_,
                        steps)) {
        return {initialiser.begin(), initialiser.end()};
      }
    }
    return descent.parameters();
  }

 private:
  /// Batches until every objective has been through its pairs.
  static int steps_per_epoch(const data::Pool& support, const std::vector<int>& counts) {
    int result = 0;
    for (std::size_t j = 0; j < support.size(); ++j) {
      if (counts[j] > 0) {
        const int size = static_cast<int>(support[j].size());
        result = std::max(result, (size + counts[j] - 1) / counts[j]);
      }
    }
    return result;
  }

  std::unique_ptr<objective::ObjectiveSet> owned_;
  objective::ObjectiveSet& objectives_;
  const data::Partition& partition_;
  FspoOptions options_;
  int shots_;
  double learning_rate_;
  std::uint64_t seed_;
};

}  // namespace

std::unique_ptr<Personaliser> make_fspo_personaliser(
    const model::LanguageModel& model, const data::TokenData& tokens, int num_objectives,
    const data::Partition& partition, const FspoOptions& options,
    const federation::AdaptOptions& adapt, std::uint64_t seed) {
  return std::make_unique<FspoPersonaliser>(
      objective::make_preference_objectives(model, tokens, num_objectives,
                                            {.loss = "ipo", .beta = options.beta}),
      partition, options, adapt, seed);
}

std::unique_ptr<Personaliser> make_fspo_personaliser(objective::ObjectiveSet& objectives,
                                                     const data::Partition& partition,
                                                     const FspoOptions& options,
                                                     const federation::AdaptOptions& adapt,
                                                     std::uint64_t seed) {
  return std::make_unique<FspoPersonaliser>(objectives, partition, options, adapt, seed);
}

}  // namespace apo::methods
