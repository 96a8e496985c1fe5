#include "nccl_verdict.hpp"

#include <sstream>
#include <utility>

#include "nccl_device.hpp"
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace apo::comm {
namespace {

/// "world rank 3", "world ranks 0-3, 7". Ascending.
std::string ranks_text(std::span<const int> ranks) {
  std::vector<std::string> runs;
  for (std::size_t begin = 0, end = 0; begin < ranks.size(); begin = end) {
    for (end = begin + 1; end < ranks.size() && ranks[end] == ranks[end - 1] + 1;) {
      ++end;
    }
    runs.push_back(end - begin == 1 ? fmt::format("{}", ranks[begin])
                                    : fmt::format("{}-{}", ranks[begin], ranks[end - 1]));
  }
  return fmt::format("world rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(runs, ", "));
}

Verdict unfinished(const std::string& text, const Operation& operation) {
  return {.kind = Verdict::Kind::kFailed,
          .fault = Fault::kBackend,
          .code = ncclInProgress,
          .call = operation.call,
          .text = fmt::format("{} [{}; {}]", text, operation.text(), nccl_versions())};
}

}  // namespace

std::string pack(const Verdict& verdict) {
  return fmt::format("{} {} {} {} {}{}", static_cast<int>(verdict.kind),
                     static_cast<int>(verdict.fault), verdict.code, verdict.call.size(),
                     verdict.call, verdict.text);
}

Verdict unpack(const std::string& bytes) {
  std::istringstream in(bytes);
  int kind = 0;
  int fault = 0;
  std::size_t call_size = 0;
  Verdict verdict;
  in >> kind >> fault >> verdict.code >> call_size;
  expects(in.good(), "a rank's account of a failure cannot be read");
  const auto begin = static_cast<std::size_t>(in.tellg()) + 1;
  verdict.kind = static_cast<Verdict::Kind>(kind);
  verdict.fault = static_cast<Fault>(fault);
  verdict.call = bytes.substr(begin, call_size);
  verdict.text = bytes.substr(begin + call_size);
  return verdict;
}

void raise(const Verdict& verdict) {
  if (verdict.fault == Fault::kBackend && !verdict.call.empty()) {
    throw BackendError(verdict.call, verdict.code, verdict.text);
  }
  throw Error(verdict.fault, verdict.text);
}

CallError::CallError(std::string call, long code, std::string text)
    : verdict_{.kind = Verdict::Kind::kFailed,
               .fault = Fault::kBackend,
               .code = code,
               .call = std::move(call),
               .text = std::move(text)} {}

std::string Operation::text() const {
  return fmt::format("operation {} of the team of {}", sequence, ranks_text(world_ranks));
}

Verdict common_cause(std::span<const Verdict> verdicts, const Operation& operation) {
  std::vector<int> late;
  for (std::size_t r = 0; r < verdicts.size(); ++r) {
    const int world_rank = operation.world_ranks[r];
    if (verdicts[r].kind == Verdict::Kind::kFailed) {
      Verdict cause = verdicts[r];
      cause.text +=
          fmt::format(" [world rank {} in {}, {}]", world_rank, operation.call, operation.text());
      return cause;
    }
    if (verdicts[r].kind == Verdict::Kind::kUnfinished) {
      late.push_back(world_rank);
    }
  }
  return unfinished(
      fmt::format("not finished within {} s on {}", operation.limits.timeout, ranks_text(late)),
      operation);
}

Verdict without_answer(std::span<const int> silent, const Verdict& mine,
                       const Operation& operation) {
  std::vector<int> world_ranks;
  for (const int r : silent) {
    world_ranks.push_back(operation.world_ranks[static_cast<std::size_t>(r)]);
  }
  const NcclLimits& limits = operation.limits;
  const bool failed = mine.kind == Verdict::Kind::kFailed;
  return unfinished(fmt::format("no answer from {} within {} s{}{}", ranks_text(world_ranks),
                                failed ? limits.grace : limits.timeout + limits.grace,
                                failed ? "; here: " : "", mine.text),
                    operation);
}

}  // namespace apo::comm
