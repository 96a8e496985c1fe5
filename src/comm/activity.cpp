#include "apo/comm/activity.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <mutex>

#include "activity_state.hpp"
#include <fmt/format.h>

namespace apo::comm {
namespace {

constexpr std::size_t kTextSize = 256;

enum class FailureNote : std::uint8_t { kNone, kKept, kDescribed };

struct State {
  std::mutex mutex;  // held for a few copies, by the rank's thread and once a tick by the watchdog
  Position position;
  const char* collective = nullptr;
  std::int64_t sequence = 0;
  const std::string* team = nullptr;
  FailureNote failure = FailureNote::kNone;
  std::array<char, kTextSize> failure_text{};
  int rank = 0;
  int size = 1;
  std::string host;
  std::atomic<std::uint64_t> progress{0};
  // For signal handlers, which cannot take the mutex.
  std::array<char, kTextSize> position_text{};
  std::atomic<const char*> collective_in_signal{nullptr};
  std::atomic<std::int64_t> sequence_in_signal{0};
};

/// Never destroyed: other threads and exit handlers may still ask.
State& state() {
  static State* const the_state = new State;
  return *the_state;
}

template <std::size_t N>
void assign(std::array<char, N>& out, std::string_view text) noexcept {
  const std::size_t n = std::min(text.size(), N - 1);
  std::memcpy(out.data(), text.data(), n);
  std::memset(out.data() + n, 0, N - n);
}

/// Room for text at the end of a fixed buffer.
class Text {
 public:
  explicit Text(std::array<char, kTextSize>& out) noexcept : out_(out) { out_.fill('\0'); }

  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    const std::size_t room = kTextSize - 1 - used_;
    const auto done =
        fmt::format_to_n(out_.data() + used_, room, format, std::forward<Args>(args)...);
    used_ += std::min(room, done.size);
  }
  [[nodiscard]] bool empty() const noexcept { return used_ == 0; }

 private:
  std::array<char, kTextSize>& out_;
  std::size_t used_ = 0;
};

void describe_position(const Position& position, Text& text) {
  const auto separator = [&] { return text.empty() ? "" : " "; };
  if (position.phase[0] != '\0') {
    text.add("{}", position.phase.data());
  }
  if (position.round >= 0) {
    text.add("{}round {}", separator(), position.round);
  }
  if (position.cluster >= 0) {
    text.add("{}cluster {}", separator(), position.cluster);
  }
  if (position.client >= 0) {
    text.add("{}client {}", separator(), position.client);
  }
  if (position.client_name[0] != '\0') {
    text.add("{}'{}'", separator(), position.client_name.data());
  }
}

std::string collective_text(const State& now) {
  return now.collective == nullptr
             ? std::string()
             : fmt::format("{} {} of {}", now.collective, now.sequence, *now.team);
}

// The mutex of `now` is held in the following.

void describe(const State& now, Text& text) {
  if (now.collective != nullptr) {
    text.add("{} {} of {}{}", now.collective, now.sequence, *now.team,
             now.position_text[0] != '\0' ? ", " : "");
  }
  text.add("{}", now.position_text.data());
}

void set_position(State& now, const Position& position) {
  now.position = position;
  Text text(now.position_text);
  describe_position(position, text);
}

void keep_failure(State& now) {
  if (now.failure == FailureNote::kNone) {  // the innermost scope is the first to be left
    Text text(now.failure_text);
    describe(now, text);
    now.failure = FailureNote::kKept;
  }
}

void set_collective(State& now, const char* name, std::int64_t sequence, const std::string* team) {
  now.collective = name;
  now.sequence = sequence;
  now.team = team;
  now.sequence_in_signal.store(sequence, std::memory_order_relaxed);
  now.collective_in_signal.store(name, std::memory_order_release);
}

/// The text to put in front of a failure's message; the failure counts as described afterwards.
std::string take_failure() {
  State& now = state();
  const std::lock_guard lock(now.mutex);
  if (now.failure == FailureNote::kNone) {
    Text text(now.failure_text);
    describe(now, text);
  } else if (now.failure == FailureNote::kDescribed) {
    now.failure_text.fill('\0');
  }
  now.failure = FailureNote::kDescribed;
  return now.failure_text.data();
}

}  // namespace

Activity::Activity(std::string_view phase, int round, int cluster, int client,
                   std::string_view client_name) noexcept
    : exceptions_at_start_(std::uncaught_exceptions()) {
  State& now = state();
  const std::lock_guard lock(now.mutex);
  outer_ = now.position;
  Position inner = outer_;
  if (!phase.empty()) {
    assign(inner.phase, phase);
  }
  inner.round = round >= 0 ? round : outer_.round;
  inner.cluster = cluster >= 0 ? cluster : outer_.cluster;
  if (client >= 0) {
    inner.client = client;
    inner.client_name.fill('\0');
  }
  if (!client_name.empty()) {
    assign(inner.client_name, client_name);
  }
  set_position(now, inner);
  now.failure = FailureNote::kNone;  // whatever failed before has been dealt with
  now.progress.fetch_add(1, std::memory_order_relaxed);
}

Activity::~Activity() {
  State& now = state();
  const std::lock_guard lock(now.mutex);
  if (std::uncaught_exceptions() > exceptions_at_start_) {
    keep_failure(now);
  } else {
    now.failure = FailureNote::kNone;
  }
  set_position(now, outer_);
  now.progress.fetch_add(1, std::memory_order_relaxed);
}

void note_progress() noexcept { state().progress.fetch_add(1, std::memory_order_relaxed); }

InCollective::InCollective(const char* name, std::int64_t sequence,
                           const std::string& team) noexcept
    : exceptions_at_start_(std::uncaught_exceptions()) {
  State& now = state();
  const std::lock_guard lock(now.mutex);
  outer_ = {now.collective, now.sequence, now.team};
  set_collective(now, name, sequence, &team);
  now.progress.fetch_add(1, std::memory_order_relaxed);
}

InCollective::~InCollective() {
  State& now = state();
  const std::lock_guard lock(now.mutex);
  if (std::uncaught_exceptions() > exceptions_at_start_) {
    keep_failure(now);
  }
  set_collective(now, outer_.name, outer_.sequence, outer_.team);
  now.progress.fetch_add(1, std::memory_order_relaxed);
}

OutOfCollective::OutOfCollective() noexcept {
  State& now = state();
  const std::lock_guard lock(now.mutex);
  outer_ = {now.collective, now.sequence, now.team};
  set_collective(now, nullptr, 0, nullptr);
  now.progress.fetch_add(1, std::memory_order_relaxed);
}

OutOfCollective::~OutOfCollective() {
  State& now = state();
  const std::lock_guard lock(now.mutex);
  set_collective(now, outer_.name, outer_.sequence, outer_.team);
  now.progress.fetch_add(1, std::memory_order_relaxed);
}

ActivitySnapshot activity_snapshot() {
  State& now = state();
  const std::lock_guard lock(now.mutex);
  return {now.progress.load(std::memory_order_relaxed), collective_text(now),
          now.position_text.data()};
}

std::size_t activity_text_in_signal(char* out, std::size_t size) noexcept {
  const State& now = state();
  std::size_t used = 0;
  const auto add = [&](const char* text) {
    for (; *text != '\0' && used < size; ++text) {
      out[used++] = *text;
    }
  };
  const char* const collective = now.collective_in_signal.load(std::memory_order_acquire);
  if (collective != nullptr) {
    std::array<char, 24> digits{};
    std::size_t first = digits.size() - 1;
    auto rest = now.sequence_in_signal.load(std::memory_order_relaxed);
    do {
      digits[--first] = static_cast<char>('0' + rest % 10);
      rest /= 10;
    } while (rest > 0 && first > 0);
    add(collective);
    add(" ");
    add(digits.data() + first);
    add(now.position_text[0] != '\0' ? ", " : "");
  }
  add(now.position_text.data());
  return used;
}

void set_rank_of_messages(int rank, int size, const std::string& host) {
  State& now = state();
  const std::lock_guard lock(now.mutex);
  now.rank = rank;
  now.size = size;
  now.host = host;
}

std::string at_activity_of_this_rank(std::string message) {
  const std::string where = take_failure();
  return where.empty() ? std::move(message) : where + ": " + message;
}

std::string at_activity(std::string message) {
  const std::string where = take_failure();
  if (where.empty()) {
    return message;
  }
  State& now = state();
  const std::lock_guard lock(now.mutex);
  return now.size == 1 ? fmt::format("{}: {}", where, message)
                       : fmt::format("{} on rank {} ({}): {}", where, now.rank, now.host, message);
}

void failure_is_described() noexcept {
  State& now = state();
  const std::lock_guard lock(now.mutex);
  now.failure = FailureNote::kDescribed;
}

}  // namespace apo::comm
