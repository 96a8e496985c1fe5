#include "sweep_assembly.hpp"

#include "provenance.hpp"
#include "run_pipeline.hpp"
#include "run_recorder.hpp"

#include "apo/comm/cluster_communicator.hpp"
#include "apo/core/clock.hpp"
#include "apo/core/error.hpp"
#include "apo/federation/sweep_plan.hpp"

namespace apo::cli {
namespace {

/// One team per cluster: it had the ranks that trained it, maybe in another job.
federation::Placement placement_of(const std::vector<ClusterResult*>& results) {
  federation::Placement placement;
  for (const ClusterResult* result : results) {
    const int cluster = static_cast<int>(placement.teams.size());
    placement.teams.push_back({0, result->team_ranks, {cluster}});
    placement.team_of_cluster.push_back(cluster);
  }
  return placement;
}

}  // namespace

void replay(const std::vector<ClusterResult*>& results,
            const std::function<void(const federation::RoundReport&)>& on_round) {
  const std::size_t num_rounds = results.at(0)->reports.size();
  for (const ClusterResult* result : results) {
    expects(result->reports.size() == num_rounds, "replay: clusters with unequal rounds");
  }
  for (std::size_t k = 0; k < num_rounds; ++k) {
    for (std::size_t c = 0; c < results.size(); ++c) {
      federation::RoundReport& report = results[c]->reports[k];
      expects(!federation::runs_before(report, results[0]->reports[k]) &&
                  !federation::runs_before(results[0]->reports[k], report),
              "replay: clusters with unequal rounds");
      federation::renumber(report, static_cast<int>(c));
      on_round(report);
    }
  }
}

methods::ExperimentResult evaluation_of(const SweepBudget& budget,
                                        const std::vector<ClusterResult*>& results,
                                        int num_variants, int num_objectives) {
  methods::ExperimentResult all{
      methods::summary_table(num_objectives), methods::response_table(num_objectives), {}};
  for (int variant = 0; variant < num_variants; ++variant) {
    for (const ClientId client : budget.test_clients) {
      const int cluster = budget.population.clients[client.index()].cluster;
      methods::PairResult pair =
          results.at(static_cast<std::size_t>(cluster))->evaluation.at({client, variant});
      federation::renumber(pair.evaluation, cluster);
      all.evaluation.append(pair.evaluation);
      all.responses.append(pair.responses);
      for (federation::StepRecord& step : pair.adaptation) {
        step.cluster = cluster;
        all.adaptation.push_back(std::move(step));
      }
    }
  }
  return all;
}

void assemble(const SweepSetting& setting, const SweepBudget& budget,
              const std::vector<ClusterResult*>& results, const std::vector<ClusterFolder>& folders,
              store::RunDirectory* directory,
              const std::vector<std::pair<std::string, double>>& seconds) {
  comm::World& world = setting.world;
  const std::vector<std::string>& names = setting.task.objective_names();
  const int m = static_cast<int>(names.size());
  store::Document document = run_header(budget.config, world, setting.hosts,
                                        methods::method_label(setting.options), names);
  add_devices(world, setting.device, document);
  int num_rounds = 0;
  world.all().run_and_agree([&] {
    if (world.rank() != 0) {
      return;
    }
    num_rounds = static_cast<int>(results.at(0)->reports.size());
    add_population(document, budget.population, setting.task.partition(), placement_of(results),
                   true);
    setting.task.describe(document);
    add_restart(nullptr, {utc_now(), world.host(), world.size(), 0}, document);
  });
  RunRecorder recorder(world, directory, std::move(document), m, num_rounds);
  const std::vector<double> peaks = gather_peak_memory(world);
  world.all().run_and_agree([&] {
    if (world.rank() != 0) {
      return;
    }
    directory->truncate_metrics(0);  // an assembly that was killed leaves lines
    replay(results, [&](const federation::RoundReport& report) { recorder.on_round(report); });
    recorder.on_progress(num_rounds, num_rounds);
    std::vector<std::vector<float>> parameters;
    std::size_t num_variants = 0;
    for (const int cluster : budget.cluster_of) {
      std::vector<std::vector<float>> variants =
          folders[static_cast<std::size_t>(cluster)].load_parameters();
      num_variants = variants.size();
      parameters.push_back(std::move(variants.back()));
    }
    recorder.publish([&](store::Document& whole) {
      add_results(whole, setting.task, directory->path(), parameters,
                  evaluation_of(budget, results, static_cast<int>(num_variants), m));
      add_performance(whole, seconds, peaks);
    });
    recorder.write_status("complete", 0);
  });
}

}  // namespace apo::cli
