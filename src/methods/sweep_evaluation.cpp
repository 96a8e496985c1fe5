#include "apo/methods/sweep_evaluation.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include "apo/comm/activity.hpp"
#include "apo/core/error.hpp"
#include "apo/federation/placement.hpp"

namespace apo::methods {
namespace {

/// "12 parts": a number or a string's length in front of its bytes.
void put(std::string& bytes, std::int64_t number) { bytes += std::to_string(number) + " "; }
void put(std::string& bytes, const std::string& text) {
  put(bytes, static_cast<std::int64_t>(text.size()));
  bytes += text;
}

class Reader {
 public:
  explicit Reader(const std::string& bytes) : bytes_(bytes) {}
  [[nodiscard]] bool done() const { return at_ == bytes_.size(); }
  std::int64_t number() {
    std::int64_t value = 0;
    const char* end = bytes_.data() + bytes_.size();
    const auto [stop, code] = std::from_chars(bytes_.data() + at_, end, value);
    expects(code == std::errc{} && stop != end && *stop == ' ', "pair results: torn bytes");
    at_ = static_cast<std::size_t>(stop - bytes_.data()) + 1;
    return value;
  }
  std::string text() {
    const auto size = static_cast<std::size_t>(number());
    expects(size <= bytes_.size() - at_, "pair results: torn bytes");
    at_ += size;
    return bytes_.substr(at_ - size, size);
  }

 private:
  const std::string& bytes_;
  std::size_t at_ = 0;
};

/// One rank's part of the work.
class PairEvaluation {
 public:
  PairEvaluation(const ExperimentInputs& inputs, const ExperimentOptions& options,
                 const federation::Trainer& trainer)
      : inputs_(inputs),
        trainer_(trainer),
        label_(method_label(options)),
        personaliser_(inputs.personaliser),
        solver_(direction::make_solver(options.training.direction)) {
    if (method_traits(options.method).adapts && personaliser_ == nullptr) {
      few_shot_ =
          make_few_shot_personaliser(inputs.objectives, *solver_, inputs.partition, options.adapt,
                                     options.training.phase2, options.training.seed);
      personaliser_ = few_shot_.get();
    }
  }

  PairResult operator()(const EvaluationPair& pair, int variant) {
    const data::Client& client = inputs_.partition.clients[pair.client.index()];
    const int start_round = trainer_.start_rounds()[static_cast<std::size_t>(variant)];
    PairResult result = empty(pair, variant);
    EvaluationKey key{label_, start_round, 0, Stage::kBase};
    const auto evaluate = [&](Stage stage, std::span<const float> adapter, bool sample) {
      key.stage = stage;
      inputs_.evaluator.evaluate(client, adapter, key, sample, result.evaluation, result.responses);
    };
    if (variant == 0) {
      add_base(client, key, result);
    }
    const std::vector<float> initialiser = trainer_.personal(client, variant, pair.group);
    evaluate(Stage::kInitialiser, initialiser, true);
    if (personaliser_ != nullptr) {
      evaluate(Stage::kAdapted,
               personaliser_->personalise(client, start_round, 0, initialiser, result.adaptation),
               true);
    }
    return result;
  }

 private:
  [[nodiscard]] PairResult empty(const EvaluationPair& pair, int variant) const {
    const int m = inputs_.objectives.num_objectives();
    return {pair.group, pair.client, variant, summary_table(m), response_table(m), {}};
  }

  /// The policy without an adapter does not know of clusters: measured once per client.
  void add_base(const data::Client& client, const EvaluationKey& key, PairResult& result) {
    const auto [found, is_new] = base_.try_emplace(client.id);
    if (is_new) {
      found->second = empty({}, 0);
      inputs_.evaluator.evaluate(client, {}, key, false, found->second.evaluation,
                                 found->second.responses);
    }
    result.evaluation.append(found->second.evaluation);
    result.responses.append(found->second.responses);
  }

  ExperimentInputs inputs_;
  const federation::Trainer& trainer_;
  std::string label_;
  Personaliser* personaliser_;
  std::unique_ptr<direction::DirectionSolver> solver_;
  std::unique_ptr<Personaliser> few_shot_;
  std::map<ClientId, PairResult> base_;
};

}  // namespace

std::string pack(const std::vector<PairResult>& results) {
  std::string bytes;
  for (const PairResult& result : results) {
    for (const int number : {result.group, static_cast<int>(result.client.value), result.variant}) {
      put(bytes, std::int64_t{number});
    }
    put(bytes, pack(result.evaluation));
    put(bytes, pack(result.responses));
    put(bytes, federation::pack(result.adaptation));
  }
  return bytes;
}

std::vector<PairResult> unpack_pair_results(const std::string& bytes) {
  std::vector<PairResult> results;
  for (Reader in(bytes); !in.done();) {
    PairResult result;
    result.group = static_cast<int>(in.number());
    result.client = ClientId(static_cast<std::int32_t>(in.number()));
    result.variant = static_cast<int>(in.number());
    result.evaluation = unpack_table(in.text());
    result.responses = unpack_table(in.text());
    result.adaptation = federation::unpack(in.text());
    results.push_back(std::move(result));
  }
  return results;
}

std::vector<PairResult> evaluate_pairs(comm::World& world, const ExperimentInputs& inputs,
                                       const ExperimentOptions& options,
                                       const federation::Trainer& trainer,
                                       std::vector<EvaluationPair> pairs) {
  std::sort(pairs.begin(), pairs.end(), [](const EvaluationPair& a, const EvaluationPair& b) {
    return std::tie(a.client, a.group) < std::tie(b.client, b.group);
  });
  const int num_variants = static_cast<int>(trainer.start_rounds().size());
  const int total = static_cast<int>(pairs.size()) * num_variants;
  const auto [begin, end] = federation::block_of(total, world.rank(), world.size());
  PairEvaluation evaluation(inputs, options, trainer);
  std::vector<PairResult> mine;
  for (int k = begin; k < end; ++k) {
    const EvaluationPair& pair = pairs[static_cast<std::size_t>(k / num_variants)];
    const comm::Activity activity("evaluation", -1, -1, pair.client.value);
    mine.push_back(evaluation(pair, k % num_variants));
  }
  std::vector<PairResult> all;
  for (const std::string& bytes : world.all().all_gather(pack(mine))) {
    for (PairResult& result : unpack_pair_results(bytes)) {
      all.push_back(std::move(result));
    }
  }
  return all;
}

}  // namespace apo::methods
