// Proves that the CUDA preset has linked what it should, and, without a GPU, that NCCL's absence of
// a driver is said plainly; with a GPU, that collectives over NCCL give the right numbers.

#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sum.h>
#include <cuda_runtime_api.h>
#include <link.h>
#include <nccl.h>

#include "apo/comm/cluster_communicator.hpp"
#include "apo/comm/device_map.hpp"
#include "apo/comm/exact_sum.hpp"
#include "apo/comm/world.hpp"
#include "apo/core/error.hpp"

namespace {

using namespace apo::comm;  // NOLINT: one file, one subject

int failures = 0;

void check(bool condition, const std::string& what) {
  std::printf("%s: %s\n", condition ? "passed" : "FAILED", what.c_str());
  failures += condition ? 0 : 1;
}

std::set<std::string> loaded(const std::string& part) {
  std::vector<std::string> names;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* target) {
        static_cast<std::vector<std::string>*>(target)->emplace_back(info->dlpi_name);
        return 0;
      },
      &names);
  std::set<std::string> found;
  for (const std::string& name : names) {
    if (name.find(part) != std::string::npos) {
      found.insert(name);
    }
  }
  return found;
}

void check_without_device(World& world) {
  try {
    (void)ClusterCommunicator::split(world, 0, Backend::kNccl);
    check(false, "NCCL without a device has to throw");
  } catch (const apo::Error& error) {
    const std::string text = error.what();
    std::printf("message: %s\n", text.c_str());
    check(error.fault() == apo::Fault::kDevice, "fault is kDevice");
    check(text.find("no usable CUDA device on host " + world.host()) != std::string::npos,
          "names the host");
    check(text.find("runtime.collectives = mpi") != std::string::npos, "says what to do");
    check(text.find("NCCL ") != std::string::npos, "names the version of NCCL");
  }
  check(choose_rank_device(world, "auto").name == "cpu", "without a GPU, auto is the CPU");
}

void check_with_device(World& world) {
  const RankDevice device = choose_rank_device(world, "cuda");
  std::printf("device: %s, %s, %.0f bytes\n", device.name.c_str(), device.model.c_str(),
              device.memory);
  check(device.is_gpu() && device.memory > 0.0, "a GPU for this rank");
  auto team = ClusterCommunicator::split(world, 0, Backend::kNccl);
  check(team.backend() == Backend::kNccl && team.size() == world.size(), "a team over NCCL");
  std::vector<double> sum(20'000'000, world.rank() + 1.0);  // several stages
  team.all_reduce(std::span<double>(sum), Reduction::kSum);
  const double expected = 0.5 * world.size() * (world.size() + 1);
  check(sum.front() == expected && sum.back() == expected, "all_reduce of doubles");
  std::vector<float> largest{static_cast<float>(world.rank())};
  team.all_reduce(std::span<float>(largest), Reduction::kMax);
  check(largest[0] == static_cast<float>(world.size() - 1), "all_reduce of floats, max");
  std::vector<std::int64_t> smallest{world.rank() + 5};
  team.all_reduce(std::span<std::int64_t>(smallest), Reduction::kMin);
  check(smallest[0] == 5, "all_reduce of integers, min");
  std::vector<float> sent(1000, world.rank() == 0 ? 2.5F : 0.0F);
  team.broadcast(std::span<float>(sent), 0);
  check(sent.back() == 2.5F, "broadcast");
  std::vector<double> exact(100);
  const auto add = [](std::size_t, std::size_t, std::span<double> slice) {
    for (double& x : slice) {
      x += 1.0;
    }
  };
  exact_sum(team, exact, 1, static_cast<std::size_t>(world.size()), add);
  check(exact[99] == world.size(), "exact_sum");
  team.close();
}

}  // namespace

int main(int argc, char** argv) {
  World world(&argc, &argv);
  check(at::ones({3}).sum().item<float>() == 3.0F, "torch computes on the CPU");
  check(!loaded("libtorch_cuda.so").empty(), "libtorch_cuda is in the process");
  check(loaded("libcudart.so").size() == 1, "one CUDA runtime in the process");
  check(loaded("libnccl.so").size() == 1, "one NCCL in the process");
  int version = 0;
  const bool answered = ncclGetVersion(&version) == ncclSuccess;
  check(answered && version == NCCL_VERSION_CODE,
        "NCCL's header and library agree: " + std::to_string(version));
  if (backend_is_usable(Backend::kNccl)) {
    check_with_device(world);
  } else {
    check_without_device(world);
  }
  return failures == 0 ? 0 : 1;
}
