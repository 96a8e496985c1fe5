#include "apo/methods/personaliser.hpp"

#include <utility>

#include "apo/core/rng.hpp"
#include "apo/federation/batch_sampler.hpp"
#include "apo/federation/local_training.hpp"

namespace apo::methods {
namespace {

/// Stands where the rounds of a phase have their cluster and round in the keys of random numbers.
constexpr std::uint64_t kAdaptationKey = ~std::uint64_t{0};

class FewShotPersonaliser final : public Personaliser {
 public:
  FewShotPersonaliser(objective::ObjectiveSet& objectives, direction::DirectionSolver& solver,
                      const data::Partition& partition, const federation::AdaptOptions& adapt,
                      const federation::Phase2Options& inner, std::uint64_t seed)
      : objectives_(objectives),
        solver_(solver),
        partition_(partition),
        shots_(adapt.shots),
        fresh_(adapt.samples == "fresh"),
        seed_(seed) {
    local_.steps = adapt.steps;
    local_.batch_pairs = inner.inner_batch_size;
    local_.learning_rate = adapt.learning_rate;
    local_.optimizer = inner.inner_optimizer;
    local_.clip = inner.gradient_clip;
    local_.force_balancing = true;
    local_.fresh_shots = fresh_ ? adapt.shots : 0;
  }

  [[nodiscard]] std::vector<float> personalise(
      const data::Client& client, int start_round, int cluster, std::span<const float> initialiser,
      std::vector<federation::StepRecord>& steps) override {
    const auto id = static_cast<std::uint64_t>(client.id.value);
    federation::StepRecord row;
    row.phase = federation::Phase::kAdaptation;
    row.start_round = start_round;
    row.cluster = cluster;
    federation::LocalResult adapted = federation::train_client(
        objectives_, solver_, client, fresh_ ? client.adapt : support_pairs(client, shots_, seed_),
        partition_.text_of_pair, initialiser, local_,
        {seed_, Purpose::kBatch, kAdaptationKey, 0, id}, kAdaptationKey << 32, row);
    for (federation::StepRecord& step : adapted.steps) {
      steps.push_back(std::move(step));
    }
    return std::move(adapted.parameters);
  }

 private:
  objective::ObjectiveSet& objectives_;
  direction::DirectionSolver& solver_;
  const data::Partition& partition_;
  int shots_;
  bool fresh_;
  std::uint64_t seed_;
  federation::LocalOptions local_;
};

}  // namespace

data::Pool support_pairs(const data::Client& client, int shots, std::uint64_t seed) {
  CounterRng rng(
      {seed, Purpose::kEpisode, kAdaptationKey, 0, static_cast<std::uint64_t>(client.id.value)});
  return federation::draw_support(client.adapt, shots, rng);
}

std::unique_ptr<Personaliser> make_few_shot_personaliser(objective::ObjectiveSet& objectives,
                                                         direction::DirectionSolver& solver,
                                                         const data::Partition& partition,
                                                         const federation::AdaptOptions& adapt,
                                                         const federation::Phase2Options& inner,
                                                         std::uint64_t seed) {
  return std::make_unique<FewShotPersonaliser>(objectives, solver, partition, adapt, inner, seed);
}

}  // namespace apo::methods
