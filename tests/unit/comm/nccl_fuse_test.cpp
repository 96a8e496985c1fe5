#include "nccl_fuse.hpp"

#include <atomic>
#include <chrono>
#include <future>
#include <optional>
#include <thread>

#include <gtest/gtest.h>

namespace apo::comm {
namespace {

TEST(ExitFuse, ActsOnceWhenTheCallDoesNotReturn) {
  std::promise<std::string> acted;
  std::atomic<int> count = 0;
  auto message = acted.get_future();
  {
    const ExitFuse fuse(0.01, "stuck in a call", [&](const std::string& text) {
      ++count;
      acted.set_value(text);
    });
    EXPECT_EQ(message.get(), "stuck in a call");  // the "call" returns only after the action
  }
  EXPECT_EQ(count, 1);
}

TEST(ExitFuse, IsSilentWhenTheCallReturns) {
  std::atomic<int> count = 0;
  for (int i = 0; i < 100; ++i) {
    const ExitFuse fuse(60.0, "never said", [&](const std::string&) { ++count; });
  }
  EXPECT_EQ(count, 0);
}

TEST(ExitFuseDeathTest, EndsTheProcessWithTheCodeOfABackEnd) {
  EXPECT_EXIT(ExitFuse::end_process("[rank 3 host] said last"), testing::ExitedWithCode(74),
              "rank 3 host. said last");
  EXPECT_EXIT(
      {
        const ExitFuse fuse(0.01, "abort hangs");
        std::this_thread::sleep_for(std::chrono::hours(1));
      },
      testing::ExitedWithCode(74), "abort hangs");
}

}  // namespace
}  // namespace apo::comm
