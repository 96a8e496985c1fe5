#include "apo/comm/world.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "activity_state.hpp"
#include "mpi_cluster.hpp"
#include "process_end.hpp"
#include <fmt/format.h>
#include <unistd.h>

#include "apo/comm/cluster_communicator.hpp"

namespace apo::comm {
namespace {

[[noreturn]] void abort_on_terminate() {
  std::string message = "terminated without an exception";
  if (const std::exception_ptr active = std::current_exception()) {
    try {
      std::rethrow_exception(active);
    } catch (const std::exception& error) {
      message = fmt::format("an exception was not caught: {}", error.what());
    } catch (...) {
      message = "an exception of unknown type was not caught";
    }
  }
  World::abort(exit_code(Fault::kInternal), message);
}

/// Process that has a World; 0: none. A forked child has a number of its own, and its own end.
pid_t process_of_world = 0;

/// A library that calls exit(0) in the middle of a run would make the job look successful.
void refuse_silent_exit() {
  if (process_of_world == ::getpid()) {
    World::abort(exit_code(Fault::kInternal),
                 "the process called exit() in the middle of its work");
  }
}

}  // namespace

struct World::Impl {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  std::string host;
  std::unique_ptr<ClusterCommunicator> all;
  int exceptions_at_start = std::uncaught_exceptions();
};

World::World(int* argc, char*** argv) : impl_(std::make_unique<Impl>()) {
  int initialised = 0;
  MPI_Initialized(&initialised);
  expects(initialised == 0, "MPI is initialised already: there is one World per process");
  int provided = MPI_THREAD_SINGLE;
  // One host thread communicates; torch's own threads never call MPI.
  mpi_check(MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
  expects(provided >= MPI_THREAD_FUNNELED, "this MPI cannot run beside other threads");
  // Communicators made from this one inherit the handler, so every code comes back to us.
  mpi_check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  std::set_terminate(abort_on_terminate);
  process_of_world = ::getpid();
  static const int registered = std::atexit(refuse_silent_exit);
  expects(registered == 0, "std::atexit refuses another function");

  mpi_check(MPI_Comm_rank(MPI_COMM_WORLD, &impl_->rank), "MPI_Comm_rank");
  mpi_check(MPI_Comm_size(MPI_COMM_WORLD, &impl_->size), "MPI_Comm_size");
  impl_->host = host_name();
  set_rank_of_messages(impl_->rank, impl_->size, impl_->host);
  name_fatal_signals(impl_->rank, impl_->host);

  MPI_Comm node = MPI_COMM_NULL;
  mpi_check(
      MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, impl_->rank, MPI_INFO_NULL, &node),
      "MPI_Comm_split_type");
  UniqueComm node_owner(node);
  mpi_check(MPI_Comm_rank(node, &impl_->local_rank), "MPI_Comm_rank");
  node_owner.free();

  MPI_Comm everybody = MPI_COMM_NULL;
  mpi_check(MPI_Comm_dup(MPI_COMM_WORLD, &everybody), "MPI_Comm_dup");
  impl_->all = std::make_unique<ClusterCommunicator>(
      std::make_unique<MpiCluster>(UniqueComm(everybody)), "all ranks");
}

World::~World() {
  process_of_world = 0;
  if (std::uncaught_exceptions() > impl_->exceptions_at_start) {
    return;  // peers may sit in a collective: main's handler ends the job, MPI_Finalize would wait
  }
  impl_->all.reset();
  if (mpi_is_running()) {
    MPI_Finalize();
  }
}

int World::rank() const noexcept { return impl_->rank; }
int World::size() const noexcept { return impl_->size; }
int World::local_rank() const noexcept { return impl_->local_rank; }
const std::string& World::host() const noexcept { return impl_->host; }
ClusterCommunicator& World::all() const noexcept { return *impl_->all; }

std::string World::library_version() const {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  mpi_check(MPI_Get_library_version(text.data(), &length), "MPI_Get_library_version");
  const std::string whole(text.data());
  return whole.substr(0, whole.find_first_of(",\n"));  // Open MPI adds its package and build date
}

void World::abort(int code, const std::string& message) {
  if (code < 1 || code > 125) {  // 0 would look like success, and 126.. belong to the shell
    code = exit_code(Fault::kInternal);
  }
  int rank = -1;
  const bool running = mpi_is_running();
  if (running) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  }
  process_of_world = 0;  // MPI_Abort may end in exit()
  const std::string text = at_activity_of_this_rank(message);
  std::fflush(nullptr);
  write_to_stderr(rank >= 0 ? fmt::format("[rank {} {}] {}\n", rank, host_name(), text)
                            : fmt::format("[{}] {}\n", host_name(), text));
  if (running) {
    constexpr unsigned kSecondsForTheLauncher = 20;
    exit_later(kSecondsForTheLauncher, code);
    MPI_Abort(MPI_COMM_WORLD, code);
  }
  std::_Exit(code);
}

}  // namespace apo::comm
