// Torn and flipped files: the loader gives back what was written, or refuses and names the file.
// Never other numbers, a crash, a hang, or much memory. Each mutation is read in a child process.
//
// APO_FAULTS_FILES: more files to damage, separated by ':' (a checkpoint and a run file of a run).

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <random>
#include <sstream>

#include "support/scratch.hpp"
#include "unit/store/sample_document.hpp"
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apo/core/error.hpp"
#include "apo/core/sha256.hpp"
#include "apo/store/document.hpp"

namespace apo::store {
namespace {

namespace fs = std::filesystem;
using test::Scratch;

constexpr rlim_t kSeconds = 20;
constexpr std::size_t kFlips = 600;
constexpr std::size_t kTears = 100;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr rlim_t kMaxBytes = RLIM_INFINITY;  // sanitizers reserve terabytes
#else
constexpr rlim_t kMaxBytes = rlim_t{2} << 30;
#endif

enum Outcome : int { kEqual = 0, kRefused = 1, kWrong = 2, kWithoutName = 3, kUnexpected = 4 };

std::string read_bytes(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

void write_bytes(const fs::path& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  ASSERT_TRUE(out.flush().good()) << path;
}

/// What reading `path` in this process comes to.
Outcome judge(const fs::path& path, const Document& original) {
  try {
    return same_document(read_document(path), original) ? kEqual : kWrong;
  } catch (const Error& error) {
    const bool is_named = error.fault() == Fault::kData &&
                          std::string(error.what()).find(path.string()) != std::string::npos;
    return is_named ? kRefused : kWithoutName;
  } catch (const std::exception&) {
    return kUnexpected;
  }
}

struct Tally {
  std::array<std::size_t, 5> outcomes{};
  std::size_t signals = 0;
};

/// Reads `mutated` in a child with bounds on its time and memory.
void read_in_child(const fs::path& path, const std::string& mutated, const Document& original,
                   const std::string& what, Tally& tally) {
  write_bytes(path, mutated);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const rlimit seconds{kSeconds, kSeconds};
    const rlimit bytes{kMaxBytes, kMaxBytes};
    if (setrlimit(RLIMIT_CPU, &seconds) != 0 || setrlimit(RLIMIT_AS, &bytes) != 0) {
      _exit(9);
    }
    alarm(6 * kSeconds);  // a hang that takes no processor time
    _exit(judge(path, original));
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  if (WIFSIGNALED(status)) {
    ++tally.signals;
    return;
  }
  const int code = WEXITSTATUS(status);
  ASSERT_LT(code, 5) << what;
  ++tally.outcomes.at(static_cast<std::size_t>(code));
  EXPECT_NE(code, kWrong) << what << ": other numbers were read, and nobody was told";
  EXPECT_NE(code, kWithoutName) << what << ": the message does not name the file";
  EXPECT_NE(code, kUnexpected) << what << ": an exception of another kind";
}

void print(const fs::path& path, const char* what, std::size_t count, const Tally& tally) {
  std::printf("%s, %zu %s: %zu refused, %zu read as they were, %zu signals\n",
              path.filename().c_str(), count, what, tally.outcomes[kRefused],
              tally.outcomes[kEqual], tally.signals);
}

std::string flipped(std::string bytes, std::size_t bit) {
  bytes[bit / 8] = static_cast<char>(static_cast<unsigned char>(bytes[bit / 8]) ^ (1U << bit % 8));
  return bytes;
}

/// A file and what it holds; damaged copies lie beside it.
class Subject {
 public:
  explicit Subject(fs::path path)
      : path_(std::move(path)), bytes_(read_bytes(path_)), original_(read_document(path_)) {}

  void flip(std::size_t count, unsigned seed) const {
    Scratch scratch;
    std::mt19937_64 random(seed);
    Tally tally;
    for (std::size_t k = 0; k < count; ++k) {
      const std::size_t bit = random() % (bytes_.size() * 8);
      read_in_child(scratch / "checkpoint-000007.h5", flipped(bytes_, bit), original_,
                    "bit " + std::to_string(bit), tally);
    }
    print(path_, "flips", count, tally);
    EXPECT_EQ(tally.signals, 0U);
    EXPECT_EQ(tally.outcomes[kRefused] + tally.outcomes[kEqual], count);
    EXPECT_GT(tally.outcomes[kRefused], count / 2) << "most bytes of a file mean something";
  }

  void tear(std::size_t count, unsigned seed) const {
    Scratch scratch;
    std::mt19937_64 random(seed);
    Tally tally;
    for (std::size_t k = 0; k < count; ++k) {
      // The ends first: empty, one byte, all but one.
      const std::array<std::size_t, 3> ends = {0, 1, bytes_.size() - 1};
      const std::size_t length = k < ends.size() ? ends.at(k) : random() % bytes_.size();
      std::string torn = bytes_.substr(0, length);
      if (k % 2 == 1) {  // as long as before, but its end never reached the disk
        torn.resize(bytes_.size(), '\0');
      }
      read_in_child(scratch / "checkpoint-000007.h5", torn, original_,
                    "the first " + std::to_string(length) + " bytes", tally);
    }
    print(path_, "tears", count, tally);
    EXPECT_EQ(tally.signals, 0U);
    EXPECT_EQ(tally.outcomes[kRefused], count) << "no torn file holds everything";
  }

  /// The second line of defence, for bytes that went wrong before the seal was made: the flipped
  /// file gets a valid seal, so only fletcher32 and the hashes inside are left. Here the HDF5
  /// library may fall over; wrong numbers may not come back.
  void flip_before_the_seal(std::size_t count, unsigned seed) const {
    Scratch scratch;
    std::mt19937_64 random(seed);
    const std::size_t seal = bytes_.rfind("\napo-seal ");
    ASSERT_NE(seal, std::string::npos);
    const std::string tail = bytes_.substr(seal);
    const std::size_t digest = tail.find(sha256_hex(bytes_.substr(0, seal)));
    ASSERT_NE(digest, std::string::npos) << "the seal is not the SHA-256 of the bytes before it";
    Tally tally;
    for (std::size_t k = 0; k < count; ++k) {
      const std::size_t bit = random() % (seal * 8);
      std::string mutated = flipped(bytes_.substr(0, seal), bit);
      std::string forged = tail;
      mutated += forged.replace(digest, 64, sha256_hex(mutated));
      read_in_child(scratch / "checkpoint-000007.h5", mutated, original_,
                    "bit " + std::to_string(bit) + " before the seal", tally);
    }
    print(path_, "flips before the seal", count, tally);
    EXPECT_LE(tally.signals, count / 5) << "more often than in some places of a file";
    EXPECT_GT(tally.outcomes[kRefused], 0U) << "the seal hides the hashes: nothing was tested";
    EXPECT_EQ(tally.outcomes[kRefused] + tally.outcomes[kEqual] + tally.signals, count);
  }

 private:
  fs::path path_;
  std::string bytes_;
  Document original_;
};

TEST(Flip, OneOfEverything) {
  Scratch scratch;
  write_document(scratch / "sample.h5", sample_document());
  const Subject subject(scratch / "sample.h5");
  subject.flip(200, 1);
  subject.tear(kTears, 2);
  subject.flip_before_the_seal(200, 3);
}

TEST(Flip, FilesOfARun) {
  const char* list = std::getenv("APO_FAULTS_FILES");
  if (list == nullptr) {
    GTEST_SKIP() << "APO_FAULTS_FILES names no files; damage_test.py does";
  }
  std::istringstream names(list);
  std::vector<std::string> files;
  for (std::string name; std::getline(names, name, ':');) {
    files.push_back(name);
  }
  ASSERT_FALSE(files.empty());
  unsigned seed = 10;
  for (const std::string& name : files) {
    const Subject subject(name);
    subject.flip(kFlips / files.size(), ++seed);
    subject.tear(kTears / files.size(), ++seed);
    subject.flip_before_the_seal(60 / files.size(), ++seed);
  }
}

}  // namespace
}  // namespace apo::store
