// Fails in the way that APO_PROBE names; mpi_main.sh looks at what the test main makes of it.

#include <cstdlib>
#include <stdexcept>
#include <string>

#include "support/mpi_world.hpp"
#include <gtest/gtest.h>

namespace {

using apo::test::world;

std::string mode() {
  const char* value = std::getenv("APO_PROBE");
  return value != nullptr ? value : "";
}

TEST(Probe, First) {
  if (mode() == "expect" && world().rank() == 1) {
    EXPECT_EQ(1, 2) << "seen on rank 1 only";
  }
  if (mode() == "assert" && world().rank() == 1) {
    ASSERT_EQ(1, 2) << "fatal on rank 1";
  }
  if (mode() == "throw" && world().rank() == 1) {
    throw std::runtime_error("thrown on rank 1");
  }
  if (mode() == "skip" && world().rank() == 1) {
    GTEST_SKIP() << "one rank skips";
  }
}

TEST(Probe, Second) {
  world().all().barrier();
  const auto scratch = apo::test::shared_scratch();
  EXPECT_TRUE(std::filesystem::is_directory(scratch));
}

}  // namespace
