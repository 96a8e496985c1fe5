// Our files in the hands of h5py, and files that h5py has changed in ours.

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "sample_document.hpp"
#include "support/scratch.hpp"
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "apo/core/error.hpp"
#include "apo/store/document.hpp"

namespace apo::store {
namespace {

using test::Scratch;

class OutsideReader : public testing::Test {
 protected:
  void SetUp() override {
    const char* python = std::getenv("APO_PYTHON");
    if (python == nullptr || run(std::string(python) + " -c 'import h5py'") != 0) {
      GTEST_SKIP() << "APO_PYTHON names no Python with h5py";
    }
    script_ = std::string(python) + " " APO_SOURCE_DIR "/tests/oracles/read_document.py ";
  }
  static int run(const std::string& command) {
    const int status = std::system((command + " 2>&1").c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  std::string script_;
};

TEST_F(OutsideReader, H5pyFindsWhatWasWritten) {
  Scratch scratch;
  write_document(scratch / "a.h5", sample_document());
  EXPECT_EQ(run(script_ + "check " + (scratch / "a.h5").string()), 0);
}

TEST_F(OutsideReader, ChangesBehindAValidSealAreFound) {
  // The seal is computed anew after each change, so only the inner hashes and checks are left.
  Scratch scratch;
  write_document(scratch / "a.h5", sample_document());
  const std::string folder = scratch.path().string();
  ASSERT_EQ(run(script_ + "change " + folder + "/a.h5 " + folder), 0);
  int changes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(scratch.path())) {
    const std::string change = entry.path().stem().string();
    if (change == "a" || change == "nothing") {
      continue;
    }
    ++changes;
    try {
      (void)read_document(entry.path());
      ADD_FAILURE() << change << " was not seen";
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::kData);
      EXPECT_NE(std::string(error.what()).find("damaged"), std::string::npos) << error.what();
    }
  }
  EXPECT_EQ(changes, 13);
  EXPECT_TRUE(same_document(read_document(scratch / "nothing.h5"), sample_document()))
      << "sealing anew without a change: the errors above come from the changes";
}

}  // namespace
}  // namespace apo::store
