#include "apo/core/process_memory.hpp"

#include <cstring>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>

namespace apo {
namespace {

constexpr std::int64_t kMib = 1024 * 1024;

TEST(ProcessMemory, GrowsWithWhatIsTouchedAndRemembersThePeak) {
  const ProcessMemory before = process_memory();
  // Pages of our own: nobody caches them when they are let go.
  void* block =
      mmap(nullptr, 64 * kMib, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(block, MAP_FAILED);
  std::memset(block, 1, 64 * kMib);
  const ProcessMemory during = process_memory();
  EXPECT_GE(during.anonymous - before.anonymous, 63 * kMib);
  EXPECT_GE(during.peak, during.resident());
  ASSERT_EQ(munmap(block, 64 * kMib), 0);
  release_freed_memory();
  const ProcessMemory after = process_memory();
  EXPECT_LT(after.anonymous - before.anonymous, 8 * kMib);
  EXPECT_GE(after.peak, before.resident() + 63 * kMib);
  if (reset_peak_memory()) {
    EXPECT_LT(process_memory().peak, before.resident() + 16 * kMib);
  }
}

TEST(ProcessMemory, PeakIsNotBeyondWhatTheKernelReportsOfTheProcess) {
  rusage usage{};
  ASSERT_EQ(getrusage(RUSAGE_SELF, &usage), 0);
  EXPECT_LE(process_memory().peak, (usage.ru_maxrss + 4096) * 1024);
}

TEST(NodeMemory, IsAtMostTheMachines) {
  struct sysinfo machine {};
  ASSERT_EQ(sysinfo(&machine), 0);
  const NodeMemory node = node_memory();
  const auto total = static_cast<std::int64_t>(machine.totalram) * machine.mem_unit;
  EXPECT_GT(node.total, 0);
  EXPECT_LE(node.total, total + kMib);
  EXPECT_LE(node.available, node.total);
}

}  // namespace
}  // namespace apo
