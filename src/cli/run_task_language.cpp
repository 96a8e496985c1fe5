#include <map>
#include <utility>

#include "run_inputs.hpp"
#include "run_task.hpp"

#include "apo/core/error.hpp"
#include "apo/core/log.hpp"
#include "apo/methods/ditto.hpp"
#include "apo/methods/fspo.hpp"
#include "apo/model/language_model.hpp"
#include "apo/objective/preference_objectives.hpp"

namespace apo::cli {
namespace {

/// What the data lost or had cut on its way to token ids, by reason.
Table data_counts(const RunInputs& inputs) {
  Table table;
  table.text("stage", "rows (reading), partition, or tokens");
  table.text("reason", "what happened");
  table.integer("count", "", "how often");
  const auto add = [&](const char* stage, const std::map<std::string, std::int64_t>& counts) {
    for (const auto& [reason, count] : counts) {
      table.push("stage", std::string(stage));
      table.push("reason", reason);
      table.push("count", count);
    }
  };
  add("rows", inputs.data.dropped);
  add("partition", inputs.partition.dropped);
  add("tokens", inputs.tokens.counts);
  return table;
}

class LanguageTask final : public RunTask {
 public:
  LanguageTask(const config::RunConfig& config, comm::RankDevice device)
      : config_(config), device_(std::move(device)), inputs_(load_inputs(config)) {
    log_inputs(inputs_);
  }

  void prepare() override {
    model::configure_torch(config_.runtime.threads);
    model_ = std::make_unique<model::LanguageModel>(
        model::LanguageModel::load(config_.model, config_.lora, device_.name));
    objectives_ = objective::make_preference_objectives(
        *model_, inputs_.tokens, static_cast<int>(config_.data.objectives.size()), config_.dpo);
    evaluator_ =
        methods::make_language_evaluator({inputs_.data, *model_, inputs_.tokenizer, inputs_.chat,
                                          *objectives_, inputs_.reward.get()},
                                         config_.evaluate, *config_.runtime.seed);
    log::info("model: {} parameters, adapter {} parameters, {} on {} ({})",
              model_->config().num_parameters(), model_->layout().num_parameters, model_->name(),
              device_.is_gpu() ? device_.name + ", " + device_.model : device_.name,
              model::torch_description());
  }

  [[nodiscard]] const std::vector<std::string>& objective_names() const override {
    return config_.data.objectives;
  }
  [[nodiscard]] const data::Partition& partition() const override { return inputs_.partition; }
  [[nodiscard]] objective::ObjectiveSet& objectives() override { return *objectives_; }
  [[nodiscard]] methods::Evaluator& evaluator() override { return *evaluator_; }
  [[nodiscard]] methods::Personaliser* personaliser() override { return personaliser_.get(); }

  void describe(store::Document& document) const override {
    auto& root = document.attributes[""];
    auto& libraries = std::get<std::vector<std::string>>(root["libraries"]);
    libraries.push_back(model::torch_description());
    root["data_sha256"] = inputs_.data.sha256;
    document.put_table("data_counts", data_counts(inputs_), "reason_row");
  }

  void leave_parameters(const std::filesystem::path& dir,
                        const std::vector<std::vector<float>>& parameters,
                        store::Document& /*document*/) const override {
    const auto p = static_cast<std::size_t>(model_->layout().num_parameters);
    for (std::size_t c = 0; c < parameters.size(); ++c) {
      // Methods with several models per cluster keep them one after the other.
      const std::size_t num_models = parameters[c].size() / p;
      for (std::size_t k = 0; k < num_models; ++k) {
        const std::string name = "cluster-" + std::to_string(c) +
                                 (num_models > 1 ? "-model-" + std::to_string(k) : std::string());
        model::save_adapter(dir / "adapters" / name, model_->layout(),
                            std::span<const float>(parameters[c]).subspan(k * p, p),
                            model_->name());
      }
    }
  }

 private:
  config::RunConfig config_;
  comm::RankDevice device_;
  RunInputs inputs_;
  std::unique_ptr<model::LanguageModel> model_;
  std::unique_ptr<objective::ObjectiveSet> objectives_;
  std::unique_ptr<methods::Evaluator> evaluator_;
  std::unique_ptr<methods::Personaliser> personaliser_;
};

}  // namespace

std::unique_ptr<RunTask> make_language_task(const config::RunConfig& config,
                                            const comm::RankDevice& device) {
  return std::make_unique<LanguageTask>(config, device);
}

}  // namespace apo::cli
