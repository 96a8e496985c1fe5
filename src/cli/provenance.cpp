#include "provenance.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <thread>

#include <boost/version.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <sys/utsname.h>
#include <unistd.h>

#include "apo/comm/cluster_communicator.hpp"
#include "apo/comm/world.hpp"
#include "apo/core/clock.hpp"
#include "apo/core/error.hpp"
#include "apo/core/log.hpp"
#include "apo/core/sha256.hpp"
#include "apo/core/version.hpp"
#include "apo/direction/version.hpp"
#include "apo/metrics/version.hpp"
#include "apo/model/language_model.hpp"
#include "apo/text/version.hpp"

namespace apo::cli {
namespace {

constexpr const char* kLibraries = "provenance/libraries";

constexpr std::array<const char*, 10> kJobVariables = {
    "SLURM_JOB_ID",       "SLURM_JOB_NAME",      "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID",
    "SLURM_JOB_NODELIST", "SLURM_JOB_PARTITION", "SLURM_NTASKS",       "SLURM_RESTART_COUNT",
    "SLURM_CLUSTER_NAME", "SLURM_JOB_ACCOUNT"};

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string trimmed(const std::string& text) {
  const auto begin = text.find_first_not_of(" \t");
  return begin == std::string::npos ? "" : text.substr(begin);
}

/// Value of the first line that begins with `label`, behind its colon.
std::string first_value(const std::filesystem::path& path, const std::string& label) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(label)) {
      const auto colon = line.find(':');
      return colon == std::string::npos ? "" : trimmed(line.substr(colon + 1));
    }
  }
  return "";
}

std::string command_line() {
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  while (!text.empty() && text.back() == '\0') {
    text.pop_back();
  }
  std::replace(text.begin(), text.end(), '\0', ' ');
  return text;
}

std::string processor() {
  const std::string model = first_value("/proc/cpuinfo", "model name");
  utsname names = {};
  const std::string machine = ::uname(&names) == 0 ? names.machine : "unknown";
  return model.empty() ? machine : model + " (" + machine + ")";
}

/// Names of the GPUs that the driver knows, and which of them this process is given.
std::string gpus() {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", ignored)) {
    const std::string name = first_value(entry.path() / "information", "Model");
    names.push_back(name.empty() ? entry.path().filename().string() : name);
  }
  if (names.empty()) {
    return "none";
  }
  std::sort(names.begin(), names.end());
  const std::string visible = environment("CUDA_VISIBLE_DEVICES");
  return fmt::format("{}{}", fmt::join(names, ", "),
                     visible.empty() ? "" : "; CUDA_VISIBLE_DEVICES=" + visible);
}

std::map<std::string, store::Attribute> libraries(const comm::World& world) {
  return {{"mpi", world.library_version()},
          {"accelerator", comm::accelerator_versions()},
          {"sha256", sha256_library()},
          {"hdf5", store::library_version()},
          {"glpk", direction::library_version()},
          {"pagmo", metrics::library_version()},
          {"text", text::library_version()},
          {"torch", "torch " + model::torch_description()},
          {"boost", fmt::format("Boost {}.{}.{}", BOOST_VERSION / 100000,
                                BOOST_VERSION / 100 % 1000, BOOST_VERSION % 100)},
          {"nlohmann_json", fmt::format("nlohmann-json {}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR,
                                        NLOHMANN_JSON_VERSION_MINOR, NLOHMANN_JSON_VERSION_PATCH)},
          {"fmt", fmt::format("fmt {}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100,
                              FMT_VERSION % 100)},
          {"spdlog",
           fmt::format("spdlog {}.{}.{}", SPDLOG_VER_MAJOR, SPDLOG_VER_MINOR, SPDLOG_VER_PATCH)}};
}

template <class T>
std::vector<T> earlier_list(const store::Document* earlier, const std::string& name) {
  if (earlier == nullptr || earlier->attributes.count(kRestarts) == 0) {
    return {};
  }
  const auto* list = std::get_if<std::vector<T>>(&earlier->attribute(kRestarts, name));
  if (list == nullptr) {
    throw Error(Fault::kData, "attribute '" + name + "' of /restarts has another type");
  }
  return *list;
}

}  // namespace

void add_provenance(const comm::World& world, store::Document& document) {
  nlohmann::json mine;
  mine["host"] = world.host();
  mine["processor"] = processor();
  mine["cores"] = std::thread::hardware_concurrency();  // that this process may use
  mine["threads"] = environment("OMP_NUM_THREADS");
  mine["gpus"] = gpus();
  mine["pid"] = static_cast<std::int64_t>(::getpid());
  std::vector<std::string> hosts;
  std::vector<std::string> processors;
  std::vector<std::string> devices;
  std::vector<std::string> threads;
  std::vector<std::int64_t> cores;
  std::vector<std::int64_t> pids;
  for (const std::string& text : world.all().all_gather(
           mine.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace))) {
    const nlohmann::json theirs = nlohmann::json::parse(text);
    hosts.push_back(theirs.at("host"));
    processors.push_back(theirs.at("processor"));
    devices.push_back(theirs.at("gpus"));
    threads.push_back(theirs.at("threads"));
    cores.push_back(theirs.at("cores"));
    pids.push_back(theirs.at("pid"));
  }
  auto& to = document.attributes[kProvenance];
  const std::string revision(git_revision());
  to["git_revision"] = revision;
  to["git_dirty"] = std::int64_t{revision.ends_with("-dirty") ? 1 : 0};
  to["compiler"] = std::string(APO_COMPILER);
  to["build_type"] = std::string(APO_BUILD_TYPE);
  to["compiler_flags"] = trimmed(APO_COMPILER_FLAGS);
  to["built_with_cuda"] = std::int64_t{APO_BUILT_WITH_CUDA};
  document.attributes[kLibraries] = libraries(world);
  to["rank_host"] = hosts;
  to["rank_processor"] = processors;
  to["rank_gpus"] = devices;
  to["rank_cores"] = cores;
  to["rank_omp_num_threads"] = threads;
  to["rank_pid"] = pids;
  to["command_line"] = command_line();
  to["working_directory"] = std::filesystem::current_path().string();
  to["start_utc"] = utc_now();
  for (const char* name : kJobVariables) {
    if (const std::string value = environment(name); !value.empty()) {
      std::string key(name);
      std::transform(key.begin(), key.end(), key.begin(),
                     [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      to[key] = value;
    }
  }
}

void add_devices(const comm::World& world, const comm::RankDevice& device,
                 store::Document& document) {
  document.attributes[kProvenance]["rank_device"] = world.all().all_gather(
      device.is_gpu() ? fmt::format("{} ({})", device.name, device.model) : device.name);
}

void add_restart(const store::Document* earlier, const Restart& now, store::Document& document) {
  auto starts = earlier_list<std::string>(earlier, "start_utc");
  auto hosts = earlier_list<std::string>(earlier, "host");
  auto sizes = earlier_list<std::int64_t>(earlier, "world_size");
  auto rounds = earlier_list<std::int64_t>(earlier, "round");
  if (hosts.size() != starts.size() || sizes.size() != starts.size() ||
      rounds.size() != starts.size()) {
    throw Error(Fault::kData, "the attributes of /restarts are not of one length");
  }
  starts.push_back(now.start_utc);
  hosts.push_back(now.host);
  sizes.push_back(now.world_size);
  rounds.push_back(now.round);
  auto& to = document.attributes[kRestarts];
  to["start_utc"] = std::move(starts);
  to["host"] = std::move(hosts);
  to["world_size"] = std::move(sizes);
  to["round"] = std::move(rounds);
}

}  // namespace apo::cli
