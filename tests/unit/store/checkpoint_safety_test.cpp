// Reading back before a file gets its name, room on the disk, and what a reader learns of a folder
// that it does not own.

#include <atomic>
#include <fstream>
#include <iterator>
#include <thread>

#include "document_hash.hpp"
#include "free_space.hpp"
#include "support/scratch.hpp"
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/statvfs.h>

#include "apo/core/error.hpp"
#include "apo/store/directory_state.hpp"
#include "apo/store/run_directory.hpp"

namespace apo::store {
namespace {

namespace fs = std::filesystem;
using test::Scratch;

const std::string kConfiguration = "[checkpoint]\nkeep = 3\n[phase1]\nrounds = 200\n";

Document state_of(double number, std::size_t num_values = 1000) {
  Document document;
  document.attributes[""]["round"] = static_cast<std::int64_t>(number);
  document.attributes["provenance"]["hosts"] = std::vector<std::string>{"a", "b"};
  document.arrays["state/adapter"] = {std::vector<double>(num_values, number),
                                      {static_cast<std::int64_t>(num_values)},
                                      "",
                                      "",
                                      {"parameter"}};
  document.arrays["names"] = {std::vector<std::string>{"one", "three"}, {2}, "", "", {}};
  return document;
}

std::string text_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

template <class F>
std::string message_of(Fault fault, F&& f) {
  try {
    f();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), fault);
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}
bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(ReadBack, TheWrittenFileHasTheHashOfTheDocument) {
  Scratch scratch;
  const fs::path path = scratch / "a.h5";
  const Document document = state_of(7);
  write_document(path, document, {.verify = true});
  verify_written(path, content_hash(document));
  EXPECT_EQ(content_hash(read_document(path)), content_hash(document));
  Document other = document;
  std::get<std::vector<double>>(other.arrays["state/adapter"].values)[999] = 7.5;
  EXPECT_NE(content_hash(other), content_hash(document));
  const std::string message =
      message_of(Fault::kBackend, [&] { verify_written(path, content_hash(other)); });
  EXPECT_TRUE(contains(message, "a.h5")) << message;
}

TEST(ReadBack, EveryDamagedByteIsSeen) {
  Scratch scratch;
  const fs::path path = scratch / "a.h5";
  const Document document = state_of(7);
  write_document(path, document);
  const std::string whole = text_of(path);
  const std::string hash = content_hash(document);
  for (std::size_t at = 0; at < whole.size(); at += 997) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 16);
    std::ofstream(path, std::ios::binary) << bytes;
    const std::string message = message_of(Fault::kBackend, [&] { verify_written(path, hash); });
    EXPECT_TRUE(contains(message, "reading back")) << message;
  }
  std::ofstream(path, std::ios::binary) << whole;
  verify_written(path, hash);
}

TEST(Room, TheLeastSizeIsBelowThatOfTheFile) {
  Scratch scratch;
  const Document document = state_of(1, 100'000);
  write_document(scratch / "a.h5", document);
  const std::uint64_t least = least_bytes(document);
  EXPECT_GE(least, 800'000U);
  EXPECT_LE(least, fs::file_size(scratch / "a.h5"));
}

TEST(Room, WhatCannotFitIsRefusedWithBothNumbers) {
  Scratch scratch;
  const auto room = free_bytes(scratch.path());
  ASSERT_TRUE(room.has_value());
  struct statvfs status {};
  ASSERT_EQ(::statvfs(scratch.path().c_str(), &status), 0);
  EXPECT_LE(*room, static_cast<std::uint64_t>(status.f_blocks) * status.f_frsize);
  check_room(scratch / "x", 0);
  const std::string message =
      message_of(Fault::kBackend, [&] { check_room(scratch / "x.h5", std::uint64_t{1} << 60); });
  EXPECT_TRUE(contains(message, "x.h5")) << message;
  EXPECT_TRUE(contains(message, "1099511627776.0 MiB are needed")) << message;
  EXPECT_TRUE(contains(message, "are free")) << message;
}

TEST(Room, ASmallDiskIsWarnedOfBeforeItIsFull) {
  Scratch scratch;
  const fs::path disk = scratch / "disk";
  fs::create_directory(disk);
  if (mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=2m") != 0) {
    GTEST_SKIP() << "mounting a small tmpfs needs root";
  }
  std::string output;
  std::string refused;
  std::int64_t generation = 0;
  {
    testing::internal::CaptureStdout();
    RunDirectory run = RunDirectory::open(disk / "run", kConfiguration, {});
    run.publish_checkpoint(state_of(1, 10'000));  // 80 kB of 2 MiB
    const std::string quiet = testing::internal::GetCapturedStdout();
    EXPECT_FALSE(contains(quiet, "MiB are free")) << quiet;
    testing::internal::CaptureStdout();
    run.publish_checkpoint(state_of(2, 120'000));  // 0.96 MB: no room for another and a run file
    output = testing::internal::GetCapturedStdout();
    refused = message_of(Fault::kBackend, [&] { run.publish_checkpoint(state_of(3, 240'000)); });
    generation = run.generation();
  }
  umount2(disk.c_str(), MNT_DETACH);
  EXPECT_TRUE(contains(output, "MiB are free")) << output;
  EXPECT_TRUE(contains(refused, "No space left")) << refused;
  EXPECT_EQ(generation, 2);
}

TEST(DirectoryState, ListsWhatIsThere) {
  Scratch scratch;
  EXPECT_TRUE(list_checkpoints(scratch / "nothing").empty());
  EXPECT_TRUE(list_temporaries(scratch / "nothing").empty());
  EXPECT_FALSE(lock_state(scratch / "nothing").held);
  EXPECT_EQ(configuration_state(scratch / "nothing"), ConfigurationState::kMissing);
  CheckpointOptions options;
  options.keep = 20;
  {
    RunDirectory run = RunDirectory::open(scratch / "run", kConfiguration, options);
    for (int t = 1; t <= 11; ++t) {
      run.publish_checkpoint(state_of(t));
    }
    EXPECT_TRUE(lock_state(scratch / "run").held);
    EXPECT_TRUE(contains(lock_state(scratch / "run").holder, "host "));
    EXPECT_TRUE(run.exists());
  }
  std::ofstream(scratch / "run/checkpoints/checkpoint-x.h5") << "no checkpoint's name";
  std::ofstream(scratch / "run/checkpoints/.tmp-5-checkpoint-000012.h5") << "x";
  std::ofstream(scratch / "run/.tmp-5-run.h5") << "x";
  const auto found = list_checkpoints(scratch / "run");
  ASSERT_EQ(found.size(), 11U);
  for (std::size_t k = 0; k < found.size(); ++k) {
    EXPECT_EQ(found[k].generation, static_cast<std::int64_t>(k) + 1);
  }
  EXPECT_EQ(list_temporaries(scratch / "run").size(), 2U);
  EXPECT_FALSE(lock_state(scratch / "run").held);
  EXPECT_EQ(configuration_state(scratch / "run"), ConfigurationState::kIntact);
  std::ofstream(scratch / "run/configuration.ini", std::ios::app) << "# by hand\n";
  EXPECT_EQ(configuration_state(scratch / "run"), ConfigurationState::kChanged);
}

TEST(DirectoryState, AReaderNeverKeepsAJobFromStarting) {
  Scratch scratch;
  { (void)RunDirectory::open(scratch / "run", kConfiguration, {}); }
  std::atomic<bool> done = false;
  std::thread reader([&] {
    while (!done) {
      EXPECT_NO_THROW((void)lock_state(scratch / "run"));
    }
  });
  for (int i = 0; i < 50; ++i) {
    EXPECT_NO_THROW((void)RunDirectory::open(scratch / "run", kConfiguration, {}));
  }
  done = true;
  reader.join();
}

TEST(RunDirectory, KeysWithoutAnyInfluenceOnResultsMayChange) {
  Scratch scratch;
  const fs::path file = scratch / "run/configuration.ini";
  const std::string longer = "[checkpoint]\nkeep = 5\nmax_walltime = 10\n[phase1]\nrounds = 200\n";
  { (void)RunDirectory::open(scratch / "run", kConfiguration, {}); }
  { (void)RunDirectory::open(scratch / "run", longer, {}); }
  EXPECT_TRUE(contains(text_of(file), longer));
  EXPECT_EQ(configuration_state(scratch / "run"), ConfigurationState::kIntact);
  const std::string message = message_of(Fault::kConfig, [&] {
    (void)RunDirectory::open(scratch / "run", "[checkpoint]\nkeep = 3\n[phase1]\nrounds = 201\n",
                             {});
  });
  EXPECT_TRUE(contains(message, "phase1.rounds: '200' in the folder, '201' now")) << message;
  EXPECT_TRUE(contains(text_of(file), longer)) << "a refusal changes nothing";
}

TEST(RunDirectory, SeesThatItsFolderHasGone) {
  Scratch scratch;
  RunDirectory run = RunDirectory::open(scratch / "run", kConfiguration, {});
  run.publish_checkpoint(state_of(1));
  fs::rename(scratch / "run", scratch / "moved");
  EXPECT_FALSE(run.exists());
  EXPECT_THROW(run.publish_checkpoint(state_of(2)), BackendError);
  fs::create_directory(scratch / "run");  // another folder of that name is not ours
  EXPECT_FALSE(run.exists());
  EXPECT_EQ(list_checkpoints(scratch / "moved").size(), 1U);
  fs::remove(scratch / "run");
  fs::rename(scratch / "moved", scratch / "run");
  EXPECT_TRUE(run.exists());
  run.publish_checkpoint(state_of(3));
  EXPECT_EQ(run.generation(), 2);
}

TEST(LibraryVersion, NamesTheLibraryThatRuns) {
  const std::string text = library_version();
  EXPECT_TRUE(text.starts_with("HDF5 1.") || text.starts_with("HDF5 2.")) << text;
}

}  // namespace
}  // namespace apo::store
