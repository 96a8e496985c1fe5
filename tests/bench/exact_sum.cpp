// Cost of the reproducible sum over clients beside plain all-reduces, in one run:
//
//   mpirun -n 2 build/bin/bench_exact_sum [repetitions]
//
// Per size P (a LoRA adapter's) and number of terms per rank, the smallest time over the
// repetitions of the slowest rank:
//   float32, int64, double   MPI all-reduce of P numbers, what the sums rest on
//   exact                    exact_sum() of terms weight * float32 vector, end to end
//   adding                   the same terms added up in float64 on each rank, no communication:
//                            what any sum over clients has to do beside its all-reduce
// Ratios are to the all-reduce of the same bytes, P int64: of exact, and of exact without adding.

#include "apo/comm/exact_sum.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <vector>

#include "apo/comm/cluster_communicator.hpp"
#include "apo/comm/world.hpp"
#include "apo/core/clock.hpp"
#include "apo/core/rng.hpp"

namespace {

using apo::comm::ClusterCommunicator;
using apo::comm::Reduction;
using apo::comm::World;

/// Like adapters' updates. Each has its own length, so that ranks differ in a block's exponent.
std::vector<std::vector<float>> make_terms(std::size_t num_terms, std::size_t size, int rank) {
  std::vector<std::vector<float>> terms(num_terms, std::vector<float>(size));
  for (std::size_t t = 0; t < num_terms; ++t) {
    apo::CounterRng rng({1, apo::Purpose::kTest, static_cast<std::uint64_t>(rank), t, 0});
    const double length = 1e-3 * (0.5 + rng.uniform());
    for (float& x : terms[t]) {
      x = static_cast<float>(length * rng.normal());
    }
  }
  return terms;
}

/// Time of one collective: all ranks begin together, the slowest one counts.
double timed(ClusterCommunicator& team, const std::function<void()>& work) {
  team.barrier();
  const apo::Stopwatch watch;
  work();
  std::vector<double> seconds = {watch.seconds()};
  team.all_reduce(std::span<double>(seconds), Reduction::kMax);
  return seconds[0];
}

struct Times {
  double floats = std::numeric_limits<double>::infinity();
  double integers = floats;
  double doubles = floats;
  double exact = floats;
  double adding = floats;
};

Times measure(ClusterCommunicator& team, std::size_t size, std::size_t num_terms, int repetitions) {
  const auto terms = make_terms(num_terms, size, team.rank());
  const auto add = [&](std::size_t t, std::size_t begin, std::span<double> slice) {
    const float* values = terms[t].data() + begin;
    const double weight = 1.0 / (3.0 + static_cast<double>(t));
    for (std::size_t k = 0; k < slice.size(); ++k) {
      slice[k] += weight * static_cast<double>(values[k]);
    }
  };
  std::vector<float> floats(size, 1e-3F);
  std::vector<std::int64_t> integers(size, 12345);
  std::vector<double> doubles(size, 1e-3);
  std::vector<double> sum(size);
  Times best;
  for (int r = 0; r < repetitions; ++r) {
    const auto keep = [](double& smallest, double seconds) {
      smallest = std::min(smallest, seconds);
    };
    keep(best.floats,
         timed(team, [&] { team.all_reduce(std::span<float>(floats), Reduction::kSum); }));
    keep(best.integers,
         timed(team, [&] { team.all_reduce(std::span<std::int64_t>(integers), Reduction::kSum); }));
    keep(best.doubles,
         timed(team, [&] { team.all_reduce(std::span<double>(doubles), Reduction::kSum); }));
    keep(best.exact, timed(team, [&] {
           apo::comm::exact_sum(team, sum, num_terms,
                                num_terms * static_cast<std::size_t>(team.size()), add);
         }));
    keep(best.adding, timed(team, [&] {
           std::fill(sum.begin(), sum.end(), 0.0);
           for (std::size_t t = 0; t < num_terms; ++t) {
             add(t, 0, sum);
           }
         }));
    std::fill(floats.begin(), floats.end(), 1e-3F);  // repeated sums would overflow
    std::fill(integers.begin(), integers.end(), 12345);
    std::fill(doubles.begin(), doubles.end(), 1e-3);
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  World world(&argc, &argv);
  const int repetitions = argc > 1 ? std::max(1, std::atoi(argv[1])) : 15;
  auto team = ClusterCommunicator::split(world, 0, apo::comm::Backend::kMpi);
  if (world.rank() == 0) {
    std::printf("%d ranks, %s, %d repetitions; times in ms\n", team.size(),
                world.library_version().c_str(), repetitions);
    std::printf("%10s %6s %9s %9s %9s %9s %9s %13s %13s\n", "P", "terms", "float32", "int64",
                "double", "exact", "adding", "exact/int64", "(e-add)/int64");
  }
  for (const std::size_t size : {std::size_t{2'400'000}, std::size_t{12'000'000}}) {
    for (const std::size_t num_terms : {1U, 2U, 4U}) {
      const Times t = measure(team, size, num_terms, repetitions);
      if (world.rank() == 0) {
        std::printf("%10zu %6zu %9.2f %9.2f %9.2f %9.2f %9.2f %13.2f %13.2f\n", size, num_terms,
                    1e3 * t.floats, 1e3 * t.integers, 1e3 * t.doubles, 1e3 * t.exact,
                    1e3 * t.adding, t.exact / t.integers, (t.exact - t.adding) / t.integers);
        std::fflush(stdout);
      }
    }
  }
  team.close();
  return 0;
}
