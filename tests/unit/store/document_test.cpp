#include "apo/store/document.hpp"

#include <fstream>
#include <iterator>

#include "sample_document.hpp"
#include "support/scratch.hpp"
#include <gtest/gtest.h>

#include "apo/core/error.hpp"

namespace apo::store {
namespace {

namespace fs = std::filesystem;
using test::Scratch;

std::string bytes_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}
void put_bytes(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string read_error(const fs::path& path) {
  try {
    (void)read_document(path);
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::kData);
    EXPECT_NE(std::string(error.what()).find(path.filename().string()), std::string::npos)
        << "the message names the file: " << error.what();
    return error.what();
  }
  return "";
}

TEST(Document, ComesBackAsItWas) {
  Scratch scratch;
  const Document document = sample_document();
  write_document(scratch / "a.h5", document);
  const Document back = read_document(scratch / "a.h5");
  EXPECT_EQ(back.attributes, document.attributes);
  ASSERT_EQ(back.arrays.size(), document.arrays.size());
  for (const auto& [path, array] : document.arrays) {
    EXPECT_TRUE(same_array(array, back.array(path))) << path;
  }
}

TEST(Document, AnEmptyOneIsAFileToo) {
  Scratch scratch;
  write_document(scratch / "a.h5", Document{});
  const Document back = read_document(scratch / "a.h5");
  EXPECT_TRUE(back.arrays.empty());
  EXPECT_TRUE(back.attributes.empty());
}

TEST(Document, TablesKeepColumnsOrderUnitsAndShapes) {
  Scratch scratch;
  const Document document = sample_document();
  write_document(scratch / "a.h5", document);
  const Document back = read_document(scratch / "a.h5");
  const Table steps = back.get_table("phase1/steps");
  std::vector<std::string> names;
  for (const Column& column : steps.columns()) {
    names.push_back(column.name);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"round", "loss", "gram", "mode"}));
  EXPECT_EQ(steps.num_rows(), 300);
  const Column* gram = steps.find("gram");
  ASSERT_NE(gram, nullptr);
  EXPECT_EQ(gram->row_shape, (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(std::get<std::vector<double>>(gram->values)[4 * 9 + 3], 3.0);
  EXPECT_EQ(steps.find("loss")->units, "nat");
  EXPECT_EQ(std::get<std::vector<std::string>>(steps.find("mode")->values)[1], "\u03bb \u2264 1");

  const Table empty = back.get_table("evaluation/responses");
  EXPECT_EQ(empty.num_rows(), 0);
  EXPECT_EQ(empty.columns().size(), 3U);
  EXPECT_EQ(empty.find("score")->row_shape, (std::vector<std::int64_t>{3}));
}

TEST(Document, SaysWhatIsAbsent) {
  const Document document = sample_document();
  EXPECT_THROW((void)document.array("clients/none"), Error);
  EXPECT_THROW((void)document.attribute("", "none"), Error);
  EXPECT_THROW((void)document.attribute("none", "none"), Error);
  EXPECT_THROW((void)document.get_table("clients"), Error);
}

TEST(Document, TheSameContentGivesTheSameBytes) {
  Scratch scratch;
  write_document(scratch / "a.h5", sample_document());
  write_document(scratch / "b.h5", sample_document());
  write_document(scratch / "c.h5", read_document(scratch / "a.h5"));
  const std::string first = bytes_of(scratch / "a.h5");
  EXPECT_GT(first.size(), 1'000'000U);
  EXPECT_TRUE(first == bytes_of(scratch / "b.h5"));
  EXPECT_TRUE(first == bytes_of(scratch / "c.h5"));
}

TEST(Document, RefusesWhatItCannotKeep) {
  Scratch scratch;
  const auto refused = [&](const Document& document) {
    try {
      write_document(scratch / "a.h5", document);
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::kInternal) << error.what();
      return !fs::exists(scratch / "a.h5") && fs::is_empty(scratch.path());
    }
    return false;
  };
  Document document;
  document.arrays["a"] = {std::vector<double>{1, 2, 3}, {2}, "", "", {}};
  EXPECT_TRUE(refused(document)) << "shape and values differ";
  document.arrays["a"] = {std::vector<std::string>{std::string("a\0b", 3)}, {1}, "", "", {}};
  EXPECT_TRUE(refused(document)) << "zero byte";
  document.arrays["a"] = {std::vector<double>{1, 2}, {2}, "", "", {"x", "y"}};
  EXPECT_TRUE(refused(document)) << "two names for one axis";
  document.arrays["a"] = {std::vector<double>{1, 2}, {2}, "", "", {"x"}};
  document.arrays["b"] = {std::vector<double>{1}, {1}, "", "", {"x"}};
  EXPECT_TRUE(refused(document)) << "x has two lengths";
  document.arrays.clear();
  document.arrays["a"] = {std::vector<double>{1}, {1}, "", "", {}};
  document.arrays["a/b"] = {std::vector<double>{1}, {1}, "", "", {}};
  EXPECT_TRUE(refused(document)) << "a data set is a group";
  document.arrays.clear();
  document.arrays["a//b"] = {std::vector<double>{1}, {1}, "", "", {}};
  EXPECT_TRUE(refused(document)) << "empty name";
  document.arrays.clear();
  document.attributes[""]["content_sha256"] = std::string("mine");
  EXPECT_TRUE(refused(document)) << "reserved name";
}

TEST(Document, AFailedWriteLeavesTheOldFile) {
  Scratch scratch;
  write_document(scratch / "a.h5", sample_document());
  const std::string before = bytes_of(scratch / "a.h5");
  Document bad;
  bad.arrays["a"] = {std::vector<double>{1, 2, 3}, {2}, "", "", {}};
  EXPECT_THROW(write_document(scratch / "a.h5", bad), Error);
  EXPECT_TRUE(before == bytes_of(scratch / "a.h5"));
  try {
    write_document(scratch / "no/such/folder/a.h5", sample_document());
    ADD_FAILURE();
  } catch (const BackendError& error) {
    EXPECT_NE(std::string(error.what()).find("no/such/folder"), std::string::npos) << error.what();
  }
}

TEST(Reading, ForeignFilesAreRefused) {
  Scratch scratch;
  EXPECT_NE(read_error(scratch / "absent.h5").find("No such file"), std::string::npos);
  put_bytes(scratch / "empty.h5", "");
  EXPECT_NE(read_error(scratch / "empty.h5").find("not a file of apo"), std::string::npos);
  put_bytes(scratch / "text.h5", std::string(5000, 'x'));
  EXPECT_NE(read_error(scratch / "text.h5").find("not a file of apo"), std::string::npos);
}

TEST(Reading, EveryTruncationIsFound) {
  Scratch scratch;
  Document document = sample_document();
  document.arrays.erase("large");
  write_document(scratch / "a.h5", document);
  const std::string whole = bytes_of(scratch / "a.h5");
  for (std::size_t i = 0; i < 100; ++i) {
    const std::size_t length = i < 20 ? whole.size() - 1 - i : whole.size() * (i - 20) / 80;
    put_bytes(scratch / "b.h5", whole.substr(0, length));
    EXPECT_NE(read_error(scratch / "b.h5"), "") << "cut to " << length << " of " << whole.size();
  }
  put_bytes(scratch / "b.h5", whole + "x");
  EXPECT_NE(read_error(scratch / "b.h5"), "") << "something was appended";
}

TEST(Reading, EveryBitFlipIsFound) {
  Scratch scratch;
  Document document = sample_document();
  document.arrays.erase("large");
  write_document(scratch / "a.h5", document);
  const std::string whole = bytes_of(scratch / "a.h5");
  std::uint64_t state = 88172645463325252ULL;  // xorshift: any fixed sequence of positions
  for (int i = 0; i < 200; ++i) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    std::string flipped = whole;
    const std::size_t at = i < 40 ? whole.size() - 1 - state % 150 : state % whole.size();
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << (state >> 40) % 8));
    put_bytes(scratch / "b.h5", flipped);
    EXPECT_NE(read_error(scratch / "b.h5"), "") << "byte " << at;
  }
}

}  // namespace
}  // namespace apo::store
