#include "apo/comm/world.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "mpi_cluster.hpp"
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

  mpi_check(MPI_Comm_rank(MPI_COMM_WORLD, &impl_->rank), "MPI_Comm_rank");
  mpi_check(MPI_Comm_size(MPI_COMM_WORLD, &impl_->size), "MPI_Comm_size");
  impl_->host = host_name();

  MPI_Comm node = MPI_COMM_NULL;
  mpi_check(
      MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, impl_->rank, MPI_INFO_NULL, &node),
      "MPI_Comm_split_type");
  UniqueComm node_owner(node);
  mpi_check(MPI_Comm_rank(node, &impl_->local_rank), "MPI_Comm_rank");
  node_owner.free();

  MPI_Comm everybody = MPI_COMM_NULL;
  mpi_check(MPI_Comm_dup(MPI_COMM_WORLD, &everybody), "MPI_Comm_dup");
  impl_->all =
      std::make_unique<ClusterCommunicator>(std::make_unique<MpiCluster>(UniqueComm(everybody)));
}

World::~World() {
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
  const std::string line = rank >= 0 ? fmt::format("[rank {} {}] {}\n", rank, host_name(), message)
                                     : fmt::format("[{}] {}\n", host_name(), message);
  std::fflush(nullptr);
  for (std::size_t done = 0; done < line.size();) {  // unbuffered: the launcher kills us next
    const ssize_t n = ::write(STDERR_FILENO, line.data() + done, line.size() - done);
    if (n <= 0) {
      break;
    }
    done += static_cast<std::size_t>(n);
  }
  if (running) {
    MPI_Abort(MPI_COMM_WORLD, code);
  }
  std::_Exit(code);
}

}  // namespace apo::comm
