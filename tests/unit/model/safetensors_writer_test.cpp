#include <cstring>

#include "unit/model/temporary_folder.hpp"
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apo/core/error.hpp"
#include "apo/model/safetensors.hpp"

namespace apo::model {
namespace {

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(SafetensorsWriter, GoldenBytes) {
  const std::vector<float> values = {0, 1, 2, 3, 4, 5};
  const auto bytes = std::as_bytes(std::span(values));
  std::string golden("\x40\0\0\0\0\0\0\0", 8);
  golden += R"({"attn.0":{"dtype":"F32","shape":[1,2,3],"data_offsets":[0,24]}})";
  golden.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  EXPECT_EQ(text_of(serialize_safetensors({{"attn.0", "F32", {1, 2, 3}, bytes}}, {})), golden);
  EXPECT_EQ(text_of(serialize_safetensors({}, {})), std::string("\x08\0\0\0\0\0\0\0{}      ", 16));
}

TEST(SafetensorsWriter, OrdersByAlignmentThenName) {
  const std::vector<std::byte> data(64, std::byte{1});
  const auto span = std::span(data);
  const auto bytes = serialize_safetensors({{"z", "U8", {1}, span.first(1)},
                                            {"b", "F32", {1}, span.first(4)},
                                            {"a\"\\\xC3\xA9", "F32", {1}, span.first(4)},
                                            {"h", "BF16", {1}, span.first(2)},
                                            {"i", "I64", {1}, span.first(8)}},
                                           {{"format", "pt"}});
  const auto header = parse_safetensors_header(bytes, bytes.size(), "memory");
  std::vector<std::string> names;
  for (const TensorInfo& t : header.tensors) {
    names.push_back(t.name.starts_with("a") ? "a" : t.name);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"i", "a", "b", "h", "z"}));
  EXPECT_EQ(header.data_start % 8, 0U);
  EXPECT_EQ(text_of(bytes).substr(8, 33), R"({"__metadata__":{"format":"pt"},")");
}

TEST(SafetensorsWriter, RefusesInconsistentTensors) {
  const std::vector<std::byte> data(8);
  const auto write = [&](std::vector<TensorToWrite> tensors) {
    return error_of(Fault::kInternal, [&] { (void)serialize_safetensors(std::move(tensors), {}); });
  };
  EXPECT_NE(write({{"a", "F32", {3}, data}}).find("8 bytes"), std::string::npos);
  EXPECT_NE(write({{"a", "F99", {2}, data}}).find("unknown dtype"), std::string::npos);
  EXPECT_NE(write({{"a", "F32", {-2}, data}}).find("negative"), std::string::npos);
  EXPECT_NE(write({{"a", "F32", {2}, data}, {"a", "F32", {2}, data}}).find("twice"),
            std::string::npos);
}

TEST(SafetensorsWriter, ReplacesAtomicallyAndLeavesNothingBehind) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "m.safetensors";
  const std::vector<float> first = {1.0F};
  const std::vector<float> second = {2.0F};
  write_safetensors(path, {{"a", "F32", {1}, std::as_bytes(std::span(first))}}, {});
  const CheckpointReader old = CheckpointReader::open(path);
  write_safetensors(path, {{"a", "F32", {1}, std::as_bytes(std::span(second))}}, {});
  EXPECT_EQ(old.read_float32("a"), first);  // the open file is the old one, whole
  EXPECT_EQ(CheckpointReader::open(path).read_float32("a"), second);
  std::size_t num_files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    ++num_files;
  }
  EXPECT_EQ(num_files, 1U);
}

TEST(SafetensorsWriter, ReportsWhatCannotBeWritten) {
  const TemporaryFolder folder;
  EXPECT_NE(error_of(Fault::kBackend,
                     [&] { write_safetensors(folder.path() / "no" / "m.safetensors", {}, {}); })
                .find("No such file"),
            std::string::npos);
  std::filesystem::create_directories(folder.path() / "taken" / "full");
  EXPECT_NE(error_of(Fault::kBackend, [&] { write_safetensors(folder.path() / "taken", {}, {}); })
                .find("rename"),
            std::string::npos);
  std::size_t num_entries = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    ++num_entries;
  }
  EXPECT_EQ(num_entries, 1U);  // no temporary file
}

}  // namespace
}  // namespace apo::model
