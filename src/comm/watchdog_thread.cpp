#include "watchdog_thread.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <utility>

#include "activity_state.hpp"

namespace apo::comm {

WatchdogThread::WatchdogThread(Settings settings, WatchdogBoard board)
    : settings_(std::move(settings)), board_(board) {
  publish(activity_snapshot());  // from here on the others know of this rank
  // Signals are for the threads that know what to do with them: this one inherits a full mask.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] { watch(); });
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

WatchdogThread::~WatchdogThread() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

bool WatchdogThread::stopped_within_a_tick() {
  std::unique_lock lock(mutex_);
  return wake_.wait_for(lock, std::chrono::duration<double>(settings_.tick),
                        [this] { return stop_; });
}

void WatchdogThread::publish(const ActivitySnapshot& now) {
  mine_.rank = settings_.rank;
  mine_.waiting = now.collective.empty() ? 0 : 1;
  mine_.published_ns = monotonic_ns();
  mine_.set_texts(now.collective, now.position);
  board_.publish(settings_.slot, mine_);
}

std::vector<RankReport> WatchdogThread::reports() const {
  std::vector<RankReport> all;
  for (int i = 0; i < board_.num_slots(); ++i) {
    if (const auto report = board_.read(i)) {
      all.push_back(*report);
    }
  }
  return all;
}

void WatchdogThread::watch() {
  // Longer gaps are times in which the whole process stood still: suspended, or starved.
  const double longest_step = std::max(2.0 * settings_.tick, settings_.limits.timeout / 4.0);
  std::uint64_t seen = 0;
  std::int64_t last_ns = monotonic_ns();
  bool alarmed = false;
  while (true) {
    const ActivitySnapshot now = activity_snapshot();
    const std::int64_t now_ns = monotonic_ns();
    if (now.progress != seen) {
      mine_.idle_seconds = 0.0;
      seen = now.progress;
    } else {
      mine_.idle_seconds += std::min(static_cast<double>(now_ns - last_ns) * 1e-9, longest_step);
    }
    last_ns = now_ns;
    publish(now);
    if (!alarmed && mine_.idle_seconds >= settings_.limits.timeout) {
      if (const auto message = judge(reports(), settings_.rank, now_ns, settings_.limits,
                                     settings_.num_ranks, settings_.host)) {
        alarmed = true;
        settings_.alarm(board_.claim_the_word() ? *message : std::string());
      }
    }
    if (stopped_within_a_tick()) {
      break;
    }
  }
  mine_.left = 1;
  board_.publish(settings_.slot, mine_);
}

}  // namespace apo::comm
