#include "nccl_agreement.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

#include "nccl_verdict.hpp"
#include "support/mpi_world.hpp"
#include <gtest/gtest.h>

namespace apo::comm {
namespace {

using test::world;
using Outcome = TeamAgreement::Outcome;

void sleep_ms(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

TEST(Verdict, SurvivesTheWire) {
  using namespace std::string_literals;
  const Verdict in{.kind = Verdict::Kind::kFailed,
                   .fault = Fault::kDevice,
                   .code = -77,
                   .call = "a call",
                   .text = " 12 text\nwith \0 and blanks "s};
  const Verdict out = unpack(pack(in));
  EXPECT_EQ(out.kind, in.kind);
  EXPECT_EQ(out.fault, in.fault);
  EXPECT_EQ(out.code, in.code);
  EXPECT_EQ(out.call, in.call);
  EXPECT_EQ(out.text, in.text);
  const Verdict empty = unpack(pack({}));
  EXPECT_EQ(empty.kind, Verdict::Kind::kWell);
  EXPECT_TRUE(empty.call.empty());
  EXPECT_TRUE(empty.text.empty());
  EXPECT_THROW((void)unpack("nonsense"), Error);
}

TEST(Verdict, IsThrownAsWhatItIs) {
  EXPECT_THROW(raise(CallError("f", 3, "t").verdict()), BackendError);
  try {
    raise({.kind = Verdict::Kind::kFailed,
           .fault = Fault::kBackend,
           .code = 0,
           .call = "",
           .text = "whole message"});
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "whole message");
    EXPECT_EQ(error.fault(), Fault::kBackend);
  }
}

TEST(Verdict, CommonCauseIsThatOfTheLowestRankThatFailed) {
  const std::vector<int> ranks{2, 3, 4, 9};
  const Operation operation{
      .call = "ncclAllReduce", .sequence = 7, .world_ranks = ranks, .limits = {1.5, 0.5}};
  Verdict well;
  Verdict unfinished;
  unfinished.kind = Verdict::Kind::kUnfinished;
  const std::vector<Verdict> failed{unfinished, CallError("f", 3, "three").verdict(), well,
                                    CallError("g", 9, "nine").verdict()};
  const Verdict cause = common_cause(failed, operation);
  EXPECT_EQ(cause.call, "f");
  EXPECT_EQ(cause.code, 3);
  EXPECT_EQ(cause.text,
            "three [world rank 3 in ncclAllReduce, operation 7 of the team of world ranks 2-4, 9]");

  const std::vector<Verdict> late{unfinished, well, well, unfinished};
  const Verdict lateness = common_cause(late, operation);
  EXPECT_EQ(lateness.call, "ncclAllReduce");
  EXPECT_EQ(lateness.text.find("not finished within 1.5 s on world ranks 2, 9 [operation 7"), 0U)
      << lateness.text;

  const std::vector<int> silent{3};
  const Verdict silence = without_answer(silent, unfinished, operation);
  EXPECT_EQ(silence.text.find("no answer from world rank 9 within 2 s [operation 7"), 0U)
      << silence.text;
  const Verdict both = without_answer(silent, failed[1], operation);
  EXPECT_EQ(both.text.find("no answer from world rank 9 within 0.5 s; here: three ["), 0U)
      << both.text;
}

TEST(Agreement, ZeroSecondsMeansNever) {
  EXPECT_FALSE(Deadline(0.0).passed());
  const Deadline soon(0.001);
  sleep_ms(5);
  EXPECT_TRUE(soon.passed());
}

TEST(Agreement, EndsTheSameOnAllRanks) {
  TeamAgreement agreement(MPI_COMM_WORLD, {.timeout = 30.0, .grace = 10.0});
  EXPECT_EQ(agreement.agree(1, true), Outcome::kWell);
  EXPECT_FALSE(agreement.peer_gave_up(2));
  world().all().barrier();  // nobody has begun the next one when it is asked for
  for (int troubled = 0; troubled < world().size(); ++troubled) {
    const std::int64_t sequence = 2 + troubled;
    EXPECT_EQ(agreement.agree(sequence, world().rank() != troubled), Outcome::kFailed);
    EXPECT_TRUE(agreement.silent_ranks(sequence).empty()) << "everybody gave notice";
    EXPECT_FALSE(agreement.peer_gave_up(sequence + 1));
    world().all().barrier();
  }
  EXPECT_EQ(agreement.agree(100, true), Outcome::kWell);
}

TEST(Agreement, NoticeReachesPeersThatStillWork) {
  TeamAgreement agreement(MPI_COMM_WORLD, {.timeout = 30.0, .grace = 10.0});
  if (world().rank() != 0) {  // they would wait for ever for rank 0's part of the work
    while (!agreement.peer_gave_up(1)) {
      sleep_ms(1);
    }
  }
  EXPECT_EQ(agreement.agree(1, false), Outcome::kFailed);
}

TEST(Agreement, ImpatienceAloneIsNoFailure) {
  // Rank 0 gives notice while the others are merely late; all turn out well, and the notice, which
  // nobody took as a reason to stop, does not disturb the next operation.
  // Once both are there they need far less than the time-out, also on a busy machine.
  TeamAgreement agreement(MPI_COMM_WORLD, {.timeout = 0.5, .grace = 10.0});
  if (world().rank() != 0) {
    sleep_ms(1000);
  }
  EXPECT_EQ(agreement.agree(1, true), Outcome::kWell);
  EXPECT_FALSE(agreement.peer_gave_up(2));
  world().all().barrier();
  EXPECT_EQ(agreement.agree(2, true), Outcome::kWell);
  EXPECT_EQ(agreement.agree(3, world().rank() != 0), Outcome::kFailed);
}

TEST(Agreement, SilenceIsNoticedAndNamed) {
  const int silent = world().size() - 1;
  {
    TeamAgreement agreement(MPI_COMM_WORLD, {.timeout = 0.05, .grace = 0.05});
    if (world().rank() != silent) {
      EXPECT_EQ(agreement.agree(1, true), Outcome::kUnanswered);
      const auto missing = agreement.silent_ranks(1);
      EXPECT_NE(std::find(missing.begin(), missing.end(), silent), missing.end());
    }
    world().all().barrier();
  }
  world().all().barrier();  // MPI still works elsewhere
}

}  // namespace
}  // namespace apo::comm
