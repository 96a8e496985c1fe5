#include "ditto_schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <set>
#include <span>
#include <utility>

#include "apo/core/error.hpp"

namespace apo::methods {
namespace {

constexpr int kPairsPerDemonstration = 3;
constexpr double kExpertShare = 0.7;
constexpr double kReplayShare = 0.2;
constexpr double kNoisyShare = 0.1;

/// min(count, n) distinct numbers below n, ascending. n may be far too large for a list of it.
std::vector<std::uint64_t> distinct(CounterRng& rng, std::uint64_t n, std::uint64_t count) {
  std::set<std::uint64_t> chosen;
  while (chosen.size() < std::min(n, count)) {
    chosen.insert(rng.below(n));
  }
  return {chosen.begin(), chosen.end()};
}

/// Splits a number into digits of mixed radix, the last digit first.
struct Digits {
  std::uint64_t rest;
  int next(int radix) {
    const auto digit = static_cast<int>(rest % static_cast<std::uint64_t>(radix));
    rest /= static_cast<std::uint64_t>(radix);
    return digit;
  }
};

int warmup_steps(int steps, double warmup) { return static_cast<int>(std::ceil(warmup * steps)); }

}  // namespace

StreamKey ditto_key(std::uint64_t seed, DittoStream stream, std::uint64_t index,
                    std::uint64_t client) {
  return {seed, Purpose::kDitto, static_cast<std::uint64_t>(stream), index, client};
}

std::vector<int> demonstration_batch(int num_demonstrations, int batch_size, int step,
                                     std::uint64_t seed, DittoStream stream, std::uint64_t client) {
  expects(num_demonstrations > 0 && batch_size > 0, "demonstration_batch: nothing to draw from");
  const int batches = (num_demonstrations + batch_size - 1) / batch_size;
  std::vector<int> order(static_cast<std::size_t>(num_demonstrations));
  std::iota(order.begin(), order.end(), 0);
  CounterRng rng(ditto_key(seed, stream, static_cast<std::uint64_t>(step / batches), client));
  rng.shuffle(std::span<int>(order));
  const int begin = step % batches * batch_size;
  const int end = std::min(begin + batch_size, num_demonstrations);
  return {order.begin() + begin, order.begin() + end};
}

std::vector<Comparison> super_batch(const SelfPlaySchedule& schedule, int num_demonstrations,
                                    int step, std::uint64_t seed, std::uint64_t client) {
  const std::vector<int> batch = demonstration_batch(num_demonstrations, schedule.batch_size, step,
                                                     seed, DittoStream::kSelfPlay, client);
  const int latest = step / schedule.resample_every;
  const int samples = schedule.samples_per_prompt;
  const auto size = static_cast<double>(kPairsPerDemonstration * batch.size());
  const auto share = [size](double fraction) {
    return static_cast<std::uint64_t>(std::lround(fraction * size));
  };
  const auto demonstrations = static_cast<std::uint64_t>(batch.size());
  const auto s = static_cast<std::uint64_t>(samples);
  const auto earlier = static_cast<std::uint64_t>(latest);
  std::vector<std::pair<int, int>> stages;  // (later, earlier)
  for (int later = 1; later <= latest; ++later) {
    for (int before = 0; before < later; ++before) {
      stages.emplace_back(later, before);
    }
  }
  CounterRng rng(
      ditto_key(seed, DittoStream::kComparison, static_cast<std::uint64_t>(step), client));
  std::vector<Comparison> result;
  for (const std::uint64_t n : distinct(rng, demonstrations * s, share(kExpertShare))) {
    Digits digits{n};
    const int sample = digits.next(samples);
    result.push_back({PairKind::kExpert, batch[digits.rest], {}, {latest, sample}});
  }
  for (const std::uint64_t n : distinct(rng, demonstrations * earlier * s, share(kReplayShare))) {
    Digits digits{n};
    const int sample = digits.next(samples);
    const int stage = digits.next(latest);
    result.push_back({PairKind::kReplay, batch[digits.rest], {}, {stage, sample}});
  }
  for (const std::uint64_t n :
       distinct(rng, demonstrations * stages.size() * s * s, share(kNoisyShare))) {
    Digits digits{n};
    const int preferred = digits.next(samples);
    const int other = digits.next(samples);
    const auto [later, before] =
        stages[static_cast<std::size_t>(digits.next(static_cast<int>(stages.size())))];
    result.push_back({PairKind::kNoisy, batch[digits.rest], {later, preferred}, {before, other}});
  }
  return result;
}

double constant_with_warmup(int step, int steps, double warmup) {
  const int rise = warmup_steps(steps, warmup);
  return step < rise ? static_cast<double>(step) / rise : 1.0;
}

double cosine_with_warmup(int step, int steps, double warmup) {
  const int rise = warmup_steps(steps, warmup);
  if (step < rise) {
    return static_cast<double>(step) / rise;
  }
  const double progress = static_cast<double>(step - rise) / std::max(1, steps - rise);
  return std::max(0.0, 0.5 * (1.0 + std::cos(std::numbers::pi * progress)));
}

}  // namespace apo::methods
