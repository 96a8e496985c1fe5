// Main of the tests that run under mpiexec. Rank 0 prints and reports; a failure on another rank
// becomes a failure of the same test on rank 0; a fatal failure ends the job, because the peers may
// sit in a collective.

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <vector>

#include "support/mpi_world.hpp"
#include <gtest/gtest.h>

#ifdef __SANITIZE_ADDRESS__
// Plug-ins of MPI stay loaded, so that the leak report can name (and suppress) their modules.
extern "C" int dlclose(void* /*handle*/) { return 0; }
#endif

namespace apo::test {
namespace {

comm::World* the_world = nullptr;
std::vector<std::filesystem::path> scratch_folders;

class RankListener final : public testing::EmptyTestEventListener {
 public:
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) {
      return;
    }
    std::ostringstream text;
    text << (result.file_name() != nullptr ? result.file_name() : "?") << ':'
         << result.line_number() << ": " << result.message();
    if (result.fatally_failed() && the_world->size() > 1) {
      comm::World::abort(3, "fatal test failure at " + text.str());
    }
    if (the_world->rank() != 0) {
      failures_ += text.str() + '\n';
    }
  }

  void OnTestEnd(const testing::TestInfo& /*info*/) override {
    const std::vector<std::string> all = the_world->all().all_gather(failures_);
    failures_.clear();
    if (the_world->rank() != 0) {
      return;
    }
    for (std::size_t r = 1; r < all.size(); ++r) {
      if (!all[r].empty()) {
        ADD_FAILURE() << "[rank " << r << '/' << all.size() << "] " << all[r];
      }
    }
  }

 private:
  std::string failures_;
};

}  // namespace

comm::World& world() { return *the_world; }

std::filesystem::path shared_scratch() {
  std::string path;
  world().all().run_and_agree([&] {
    if (world().rank() == 0) {
      path = (std::filesystem::temp_directory_path() / "apo-test-XXXXXX").string();
      if (mkdtemp(path.data()) == nullptr) {
        throw Error(Fault::kBackend, "cannot make a folder in the temporary directory");
      }
      scratch_folders.emplace_back(path);
    }
  });
  world().all().broadcast(path, 0);
  return path;
}

}  // namespace apo::test

int main(int argc, char** argv) {
  apo::comm::World world(&argc, &argv);
  apo::test::the_world = &world;
  testing::InitGoogleTest(&argc, argv);

  // Started without mpiexec, or against another MPI, n processes would each run alone and pass.
  if (const char* expected = std::getenv("APO_TEST_RANKS");
      expected != nullptr && std::atoi(expected) != world.size()) {
    apo::comm::World::abort(4, std::string("APO_TEST_RANKS is ") + expected +
                                   " but the number of ranks is " + std::to_string(world.size()));
  }
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  if (world.rank() != 0) {
    delete listeners.Release(listeners.default_result_printer());
    delete listeners.Release(listeners.default_xml_generator());
  }
  listeners.Append(new apo::test::RankListener);  // owned by GoogleTest

  std::vector<std::int64_t> code{RUN_ALL_TESTS()};
  world.all().all_reduce(std::span<std::int64_t>(code), apo::comm::Reduction::kMax);
  for (const auto& folder : apo::test::scratch_folders) {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
  return static_cast<int>(code[0]);
}
