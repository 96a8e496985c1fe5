// Ends a job in one of many ways, all of them by rank 1 alone; exit_codes.sh looks at what mpiexec
// returns and prints.
// usage: exit_probe MODE TIMEOUT   (TIMEOUT: of the watchdog, s; 0: none)

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include "apo/comm/activity.hpp"
#include "apo/comm/cluster_communicator.hpp"
#include "apo/comm/exact_sum.hpp"
#include "apo/comm/watchdog.hpp"
#include "apo/comm/world.hpp"
#include "apo/core/error.hpp"

using apo::comm::Activity;
using apo::comm::ClusterCommunicator;
using apo::comm::World;

namespace {

using Act = void (*)(World& world, bool culprit);

void sleep_for(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

[[noreturn]] void sleep_for_ever() {
  while (true) {
    sleep_for(3600.0);
  }
}

void throw_error(const char* text) { throw std::runtime_error(text); }

/// The sanitizers would end the process before the signal comes.
[[gnu::no_sanitize("address", "undefined")]] void store_to_nowhere() {
  volatile int* volatile nowhere = nullptr;
  *nowhere = 1;
}

void abort_with(bool culprit, int code) {
  if (culprit) {
    World::abort(code, "probe says goodbye");
  }
}

/// Where the culprit is when it fails.
template <class Failing>
void in_a_client(bool culprit, const Failing& failing) {
  const Activity round("phase1", 12, 3);
  if (culprit) {
    const Activity client("", -1, -1, 17, "alice");
    failing();
  }
}

void suspend_for(unsigned seconds) {
  const pid_t self = ::getpid();
  if (::fork() == 0) {
    ::sleep(seconds);
    ::kill(self, SIGCONT);
    ::_exit(0);
  }
  ::raise(SIGSTOP);
}

const std::map<std::string, Act> acts = {
    {"well", [](World&, bool) {}},
    {"returns5", [](World&, bool) {}},
    {"abort77", [](World&, bool culprit) { abort_with(culprit, 77); }},
    {"abort0", [](World&, bool culprit) { abort_with(culprit, 0); }},
    {"abort300", [](World&, bool culprit) { abort_with(culprit, 300); }},
    {"throws",
     [](World&, bool culprit) { in_a_client(culprit, [] { throw_error("probe throws"); }); }},
    {"escapes",
     [](World&, bool culprit) {
       in_a_client(culprit, []() noexcept { throw_error("probe lets it go"); });
     }},
    {"agrees",
     [](World& world, bool culprit) {
       const Activity round("phase1", 12, 3);
       world.all().run_and_agree([&] {
         in_a_client(culprit, [] { throw apo::Error(apo::Fault::kData, "probe throws"); });
       });
     }},
    {"exits0", [](World&, bool culprit) { in_a_client(culprit, [] { std::exit(0); }); }},
    {"_exits0", [](World&, bool culprit) { in_a_client(culprit, [] { ::_exit(0); }); }},
    {"aborts", [](World&, bool culprit) { in_a_client(culprit, [] { std::abort(); }); }},
    {"segfaults", [](World&, bool culprit) { in_a_client(culprit, store_to_nowhere); }},
    {"is_killed", [](World&, bool culprit) { in_a_client(culprit, [] { ::raise(SIGKILL); }); }},
    {"sleeps", [](World&, bool culprit) { in_a_client(culprit, sleep_for_ever); }},
    {"sleeps_in_sum",
     [](World& world, bool culprit) {
       const Activity round("phase1", 12, 3);
       std::vector<double> sum(4);
       const auto add = [&](std::size_t, std::size_t, std::span<double>) {
         if (culprit) {
           sleep_for_ever();
         }
       };
       apo::comm::exact_sum(world.all(), sum, 1, static_cast<std::size_t>(world.size()), add);
     }},
    {"waits_elsewhere",
     [](World& world, bool culprit) {
       auto team = ClusterCommunicator::split(world, 0, apo::comm::Backend::kMpi);
       if (culprit) {
         team.barrier();
       }
     }},
    {"is_stopped",
     [](World&, bool culprit) {
       in_a_client(culprit, [] {
         sleep_for(1.0);  // the others know where it is: a tick is a tenth of it
         ::raise(SIGSTOP);
       });
     }},
    {"is_suspended", [](World&, bool) { suspend_for(3); }},
    {"works_long",
     [](World&, bool culprit) {
       in_a_client(culprit, [] {
         for (int step = 0; step < 80; ++step) {
           sleep_for(0.05);
           apo::comm::note_progress();
         }
       });
     }},
};

}  // namespace

int main(int argc, char** argv) {
  World world(&argc, &argv);
  const std::string mode = argv[1];
  try {
    const apo::comm::Watchdog watchdog(world, std::atof(argv[2]));
    acts.at(mode)(world, world.rank() == 1);
    world.all().barrier();  // the others would wait here for ever
  } catch (const apo::Error& error) {
    World::abort(apo::exit_code(error.fault()), error.what());
  } catch (const std::exception& error) {
    World::abort(apo::exit_code(apo::Fault::kInternal), error.what());
  }
  return mode == "returns5" && world.rank() == 1 ? 5 : 0;
}
