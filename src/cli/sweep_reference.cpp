#include "sweep_reference.hpp"

#include <chrono>
#include <thread>

#include "stop_signals.hpp"
#include "sweep_folder.hpp"

#include "apo/comm/activity.hpp"
#include "apo/comm/cluster_communicator.hpp"
#include "apo/core/error.hpp"
#include "apo/core/log.hpp"

namespace apo::cli {

namespace fs = std::filesystem;

namespace {

constexpr std::chrono::milliseconds kBetweenLooks(200);

fs::path folder_of(const fs::path& dir) { return dir / "reference"; }
fs::path file_of(const fs::path& dir) { return folder_of(dir) / "losses.h5"; }

/// [N * m]; empty: not there, or damaged.
std::vector<double> load(const fs::path& file, std::size_t size) {
  if (!fs::exists(file)) {
    return {};
  }
  try {
    const store::Document document = store::read_document(file);
    const auto* losses = std::get_if<std::vector<double>>(&document.array("reference_loss").values);
    if (losses != nullptr && losses->size() == size) {
      return *losses;
    }
    log::warn("{}: not the losses of these clients; they are measured again", file.string());
  } catch (const Error& error) {
    log::warn("{}; the losses are measured again", error.what());
  }
  return {};
}

void save(const fs::path& file, const std::vector<std::vector<double>>& losses) {
  store::Array array;
  std::vector<double> flat;
  for (const std::vector<double>& row : losses) {
    flat.insert(flat.end(), row.begin(), row.end());
  }
  array.shape = {static_cast<std::int64_t>(losses.size()),
                 static_cast<std::int64_t>(losses.at(0).size())};
  array.values = std::move(flat);
  array.units = "nat";
  array.long_name = "losses at the reference, client by objective; NaN where absent";
  store::Document document;
  document.arrays["reference_loss"] = std::move(array);
  store::write_document(file, document);
}

enum class Found { kNothing, kLosses, kBusy };

}  // namespace

std::string identity_of(config::RunConfig config) {
  config.checkpoint = {};
  config.runtime.timeout = comm::RuntimeOptions{}.timeout;
  std::string text = config::to_ini(config);
  const std::string line = "budget = " + std::to_string(config.clustering.budget) + "\n";
  const std::size_t at = text.find("\n" + line, text.find("[clustering]\n"));
  expects(at != std::string::npos, "sweep: no budget in the configuration");
  return text.erase(at + 1, line.size());
}

void check_configuration(const fs::path& dir, const std::string& identity) {
  if (fs::exists(folder_of(dir))) {
    (void)try_open(folder_of(dir), identity, {});
  }
}

std::vector<std::vector<double>> shared_reference_losses(
    comm::World& world, const fs::path& dir, const std::string& identity,
    const methods::ExperimentInputs& inputs, const methods::ExperimentOptions& options) {
  comm::ClusterCommunicator& all = world.all();
  const auto m = static_cast<std::size_t>(inputs.objectives.num_objectives());
  const std::size_t size = inputs.partition.clients.size() * m;
  std::unique_ptr<store::RunDirectory> folder;
  for (bool told = false;;) {
    std::vector<double> flat;
    Found found = Found::kNothing;
    all.run_and_agree([&] {
      if (world.rank() == 0) {
        folder = try_open(folder_of(dir), identity, {});
        flat = folder ? load(file_of(dir), size) : std::vector<double>();
        found = !folder ? Found::kBusy : flat.empty() ? Found::kNothing : Found::kLosses;
      }
    });
    std::vector<double> what = {static_cast<double>(found), stop_requested() ? 1.0 : 0.0};
    all.broadcast(std::span<double>(what), 0);
    found = static_cast<Found>(static_cast<int>(what[0]));
    if (found == Found::kLosses) {
      flat.resize(size);
      all.broadcast(std::span<double>(flat), 0);
      std::vector<std::vector<double>> losses;
      for (auto row = flat.begin(); row != flat.end(); row += static_cast<std::ptrdiff_t>(m)) {
        losses.emplace_back(row, row + static_cast<std::ptrdiff_t>(m));
      }
      return losses;
    }
    if (found == Found::kNothing) {
      break;
    }
    if (what[1] != 0.0) {
      throw Error(Fault::kRequeue, "asked to stop before the reference losses were there");
    }
    if (!told) {
      log::info("waiting for the reference losses, which another job measures ...");
      told = true;
    }
    comm::note_progress();  // waiting for another job is no hang
    std::this_thread::sleep_for(kBetweenLooks);
  }
  log::info("reference losses ...");
  methods::Experiment experiment(world, inputs, options);
  std::vector<std::vector<double>> losses = experiment.population().measured_loss;
  all.run_and_agree([&] {
    if (world.rank() == 0) {
      save(file_of(dir), losses);
    }
  });
  return losses;
}

}  // namespace apo::cli
