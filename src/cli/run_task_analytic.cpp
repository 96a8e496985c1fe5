#include "run_task.hpp"

#include "apo/core/error.hpp"
#include "apo/core/log.hpp"
#include "apo/objective/analytic_task.hpp"

namespace apo::cli {
namespace {

class AnalyticRunTask final : public RunTask {
 public:
  explicit AnalyticRunTask(const config::RunConfig& config)
      : task_(objective::make_analytic_task(config.analytic, config.data.preferences,
                                            *config.runtime.seed)) {
    log::info("task: {}, {} objectives, {} parameters, {} training clients, {} test clients",
              task_.problem->name(), task_.objectives.size(), task_.problem->dimension(),
              task_.partition.train_clients().size(), task_.partition.test_clients().size());
  }

  void prepare() override {
    objectives_ = objective::make_analytic_objectives(task_);
    evaluator_ = methods::make_analytic_evaluator(task_, *objectives_);
  }

  [[nodiscard]] const std::vector<std::string>& objective_names() const override {
    return task_.objectives;
  }
  [[nodiscard]] const data::Partition& partition() const override { return task_.partition; }
  [[nodiscard]] objective::ObjectiveSet& objectives() override { return *objectives_; }
  [[nodiscard]] methods::Evaluator& evaluator() override { return *evaluator_; }
  [[nodiscard]] methods::Personaliser* personaliser() override { return nullptr; }

  void describe(store::Document& document) const override {
    document.attributes[""]["task"] = task_.problem->name();
  }

  void leave_parameters(const std::filesystem::path& /*dir*/,
                        const std::vector<std::vector<float>>& parameters,
                        store::Document& document) const override {
    store::Array array;
    std::vector<float> flat;
    for (const auto& row : parameters) {
      flat.insert(flat.end(), row.begin(), row.end());
    }
    array.shape = {static_cast<std::int64_t>(parameters.size()),
                   static_cast<std::int64_t>(parameters.at(0).size())};
    array.values = std::move(flat);
    document.arrays["parameters/final"] = std::move(array);
  }

 private:
  objective::AnalyticTask task_;
  std::unique_ptr<objective::ObjectiveSet> objectives_;
  std::unique_ptr<methods::Evaluator> evaluator_;
};

}  // namespace

std::unique_ptr<RunTask> make_analytic_run_task(const config::RunConfig& config) {
  return std::make_unique<AnalyticRunTask>(config);
}

}  // namespace apo::cli
