#pragma once

/// @file
/// What DITTO compares in which step (spec algorithms.md, section 6): pure functions of their
/// arguments, numbers only. Private to methods.
///
/// The policy is sampled every `resample_every` steps; stage k is what it was at step
/// k * resample_every. A step takes a batch of demonstrations and compares three times as many
/// pairs of responses to their prompts:
///   expert  70 %  the demonstration over a sample of the latest stage
///   replay  20 %  the demonstration over a sample of an earlier stage
///   noisy   10 %  a sample over one of an earlier stage
/// Each kind is drawn without replacement from all such pairs of the batch. In stage 0 there are no
/// earlier samples: only expert pairs are compared, and fewer than three per demonstration.

#include <cstdint>
#include <vector>

#include "apo/core/rng.hpp"

namespace apo::methods {

enum class PairKind { kExpert, kReplay, kNoisy };

inline constexpr int kDemonstration = -1;  ///< in place of a stage: the demonstration itself

/// A response to the prompt of one demonstration.
struct ResponseName {
  int stage = kDemonstration;
  int sample = 0;  ///< [0, samples_per_prompt); 0 for the demonstration
  friend auto operator<=>(const ResponseName&, const ResponseName&) = default;
};

struct Comparison {
  PairKind kind = PairKind::kExpert;
  int demonstration = 0;
  ResponseName preferred;
  ResponseName other;
  friend auto operator<=>(const Comparison&, const Comparison&) = default;
};

struct SelfPlaySchedule {
  int batch_size = 8;  ///< demonstrations per step
  int resample_every = 10;
  int samples_per_prompt = 10;
};

/// Streams of Purpose::kDitto, in StreamKey::a; c is the client.
enum class DittoStream : std::uint64_t {
  kFineTuning = 0,
  kSelfPlay = 1,
  kComparison = 2,
  kSample = 3
};
[[nodiscard]] StreamKey ditto_key(std::uint64_t seed, DittoStream stream, std::uint64_t index,
                                  std::uint64_t client);

/// Demonstrations of one step: passes over all of them, shuffled anew in each; a pass ends with
/// what is left.
/// @return up to batch_size distinct numbers in [0, num_demonstrations)
[[nodiscard]] std::vector<int> demonstration_batch(int num_demonstrations, int batch_size, int step,
                                                   std::uint64_t seed, DittoStream stream,
                                                   std::uint64_t client);

/// The comparisons of one step, by kind.
[[nodiscard]] std::vector<Comparison> super_batch(const SelfPlaySchedule& schedule,
                                                  int num_demonstrations, int step,
                                                  std::uint64_t seed, std::uint64_t client);

/// Factors of the learning rate at step k = 0, 1, ... of `steps`, as Hugging Face defines them:
/// with W = ceil(warmup * steps), k / W before step W, so that the first update is by nothing; then
/// 1, or half a cosine to 0.
[[nodiscard]] double constant_with_warmup(int step, int steps, double warmup);
[[nodiscard]] double cosine_with_warmup(int step, int steps, double warmup);

}  // namespace apo::methods
