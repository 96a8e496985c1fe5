// The accepted and the hostile files of spec llm.md, sections 1.2 and 1.4.
#include <algorithm>
#include <cstring>
#include <fstream>

#include "unit/model/temporary_folder.hpp"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "apo/core/error.hpp"
#include "apo/model/safetensors.hpp"

namespace apo::model {
namespace {

nlohmann::json vectors() {
  std::ifstream in(APO_SOURCE_DIR "/tests/unit/model/safetensors_vectors.json");
  return nlohmann::json::parse(in);
}

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

SafetensorsHeader parse(const std::string& file) {
  return parse_safetensors_header(std::as_bytes(std::span(file)), file.size(), "x.safetensors");
}

std::string with_length(const std::string& json, const std::string& data = "") {
  const std::uint64_t n = json.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &n, 8);
  return file + json + data;
}

std::string rejection(const std::string& file) {
  return error_of(Fault::kData, [&] { (void)parse(file); });
}

TEST(SafetensorsHeader, AcceptsValidFiles) {
  const auto valid = vectors()["valid"];
  ASSERT_EQ(valid.size(), 10U);
  for (const auto& v : valid) {
    const std::string file = from_hex(v["hex"]);
    SafetensorsHeader header;
    ASSERT_NO_THROW(header = parse(file)) << v["name"];
    const std::uint64_t end = header.tensors.empty() ? 0 : header.tensors.back().end;
    EXPECT_EQ(header.data_start + end, file.size()) << v["name"];
  }
}

TEST(SafetensorsHeader, RejectsHostileFilesForTheRightReason) {
  const auto reject = vectors()["reject"];
  ASSERT_EQ(reject.size(), 39U);
  for (const auto& v : reject) {
    auto reason = v["reason"].get<std::string>();
    if (reason.starts_with("ours: ")) {
      reason.erase(0, 6);
    }
    reason = reason.substr(0, reason.find(' '));
    EXPECT_TRUE(rejection(from_hex(v["hex"])).starts_with("x.safetensors: " + reason + ": "))
        << v["name"] << " should be " << reason << ", was " << rejection(from_hex(v["hex"]));
  }
}

TEST(SafetensorsHeader, DeepNestingCostsNothing) {
  EXPECT_NE(rejection(with_length(std::string(100'000, '['))).find("InvalidHeaderDeserialization"),
            std::string::npos);
  std::string inner = R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":)";
  EXPECT_NE(rejection(with_length(inner + std::string(100'000, '['))).find("nested deeper"),
            std::string::npos);
}

TEST(SafetensorsHeader, ReadsEveryField) {
  const auto header =
      parse(with_length(R"({"__metadata__":{"format":"pt","k":"v"},"b":{"shape":[2,0],)"
                        R"("dtype":"F16","data_offsets":[4,4]},"a":{"dtype":"I8","shape":[4],)"
                        R"("data_offsets":[0,4],"extra":{"deep":[1,null]}}})",
                        "abcd"));
  EXPECT_EQ(header.metadata, (std::map<std::string, std::string>{{"format", "pt"}, {"k", "v"}}));
  ASSERT_EQ(header.tensors.size(), 2U);
  EXPECT_EQ(header.tensors[0].name, "a");
  EXPECT_EQ(header.tensors[0].dtype, "I8");
  EXPECT_EQ(header.tensors[1].shape, (std::vector<std::int64_t>{2, 0}));
  EXPECT_EQ(header.tensors[1].begin, 4U);
}

struct Case {
  const char* json;
  const char* message;
};

TEST(SafetensorsHeader, RejectsWhatTheFormatHasNoPlaceFor) {
  const Case cases[] = {
      {R"({"a":5})", "the entry 'a' is the number 5"},
      {R"({"a":[]})", "the entry 'a' is an array"},
      {R"({"a":{"dtype":"U8","shape":[[1]],"data_offsets":[0,1]}})", "shape of tensor 'a'"},
      {R"({"a":{"dtype":"U8","shape":{},"data_offsets":[0,1]}})", "is an object"},
      {R"({"a":{"dtype":["U8"],"shape":[1],"data_offsets":[0,1]}})", "dtype of tensor 'a'"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1e3]}})", "the number 1e3"},
      {R"({"a":{"dtype":"U8","shape":[18446744073709551616],"data_offsets":[0,1]}})",
       "the number 18446744073709551616"},
      {R"({"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]}})",
       "more than 8 numbers"},
      {R"({"a":{"dtype":"U8","shape":[0,9223372036854775808],"data_offsets":[0,0]}})",
       "ValidationOverflow"},
      {R"({"a\n":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "control character"},
      {R"({"__metadata__":{"a":"1","a":"2"}})", "DuplicateKey"},
      {R"({"__metadata__":{},"__metadata__":{}})", "DuplicateKey"},
      {R"({"__metadata__":{"a":{}}})", "InvalidHeaderDeserialization"},
      {R"({"__metadata__":{"a":[]}})", "InvalidHeaderDeserialization"},
      {R"({"__metadata__":null})", "InvalidHeaderDeserialization"},
      {R"(5)", "expected a JSON object"},
      {"\xEF\xBB\xBF{}", "byte order mark"},
      {"{\"\xED\xA0\x80\":{}}", "InvalidHeader: "},  // a surrogate
      {"{\"\xC0\xAF\":{}}", "InvalidHeader: "},      // an overlong form
      {"{\"\xF4\x90\x80\x80\":{}}", "InvalidHeader: "},
  };
  for (const Case& c : cases) {
    EXPECT_NE(rejection(with_length(c.json, "d")).find(c.message), std::string::npos)
        << c.json << " -> " << rejection(with_length(c.json, "d"));
  }
  // the JSON library alone would take NUL for the end
  EXPECT_NE(rejection(with_length(std::string("{}\0garbage", 10))).find("NUL"), std::string::npos);
}

TEST(SafetensorsHeader, LimitsNamesAndNumberOfTensors) {
  const auto entry = [](const std::string& name) {
    return "\"" + name + R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  };
  EXPECT_EQ(parse(with_length("{" + entry(std::string(512, 'n')) + "}")).tensors.size(), 1U);
  EXPECT_NE(rejection(with_length("{" + entry(std::string(513, 'n')) + "}")).find("513 bytes"),
            std::string::npos);
  std::string many = "{" + entry("t");
  for (int i = 0; i < 100'000; ++i) {
    many += "," + entry("t" + std::to_string(i));
  }
  EXPECT_NE(rejection(with_length(many + "}")).find("more than 100000 tensors"), std::string::npos);
}

TEST(SafetensorsHeader, MessagesSayWhatToDo) {
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 538090408\n";
  EXPECT_NE(rejection(pointer).find("git lfs pull"), std::string::npos);
  const std::string json = R"({"a":{"dtype":"U8","shape":[10],"data_offsets":[0,10]}})";
  EXPECT_NE(rejection(with_length(json, "1234")).find("cut off: 4 of 10 data bytes"),
            std::string::npos);
  EXPECT_NE(rejection(with_length(json, "1234567890abc")).find("3 bytes follow"),
            std::string::npos);
}

TEST(SafetensorsHeader, EveryPrefixOfAFileIsRejected) {
  const std::string file = with_length(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
                                       std::string(8, '\1'));
  ASSERT_NO_THROW((void)parse(file));
  for (std::size_t n = 0; n < file.size(); ++n) {
    EXPECT_TRUE(rejection(file.substr(0, n)).starts_with("x.safetensors: ")) << n;
  }
}

TEST(SafetensorsHeader, SurvivesAnyChangedByte) {
  const std::string file =
      with_length(R"({"__metadata__":{"f":"p"},"a":{"dtype":"F32","shape":[2,1],)"
                  R"("data_offsets":[0,8]},"b":{"dtype":"BF16","shape":[],"data_offsets":[8,10]}})",
                  std::string(10, '\1'));
  int num_accepted = 0;
  for (std::size_t i = 0; i < file.size(); ++i) {
    for (int value = 0; value < 256; ++value) {
      std::string changed = file;
      changed[i] = static_cast<char>(value);
      try {
        const SafetensorsHeader header = parse(changed);
        ++num_accepted;
        std::uint64_t begin = 0;  // whatever was accepted tiles the data exactly
        for (const TensorInfo& t : header.tensors) {
          ASSERT_EQ(t.begin, begin);
          begin = t.end;
        }
        ASSERT_EQ(header.data_start + begin, changed.size());
      } catch (const Error& e) {
        ASSERT_EQ(e.fault(), Fault::kData) << e.what();
      }
    }
  }
  EXPECT_GT(num_accepted, 0);  // other names, metadata, data
}

}  // namespace
}  // namespace apo::model
