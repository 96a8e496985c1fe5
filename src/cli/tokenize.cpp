/// @file
/// `apo tokenize`: texts to ids and back, with the tokenizer that training would use.

#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "commands.hpp"
#include "program_options.hpp"
#include <boost/program_options.hpp>
#include <fmt/format.h>

#include "apo/comm/world.hpp"
#include "apo/core/error.hpp"
#include "apo/text/token_lines.hpp"
#include "apo/text/tokenizer.hpp"

namespace apo::cli {
namespace {

namespace po = boost::program_options;

constexpr const char* kUsage =
    "usage: apo tokenize --model DIR [options] [TEXT ...]\n"
    "       apo tokenize --tokenizer FILE --decode [options] [ID ...]\n\n"
    "Prints the ids of each TEXT, or of each line of standard input, on one line.\n"
    "With --decode prints the text of the ids instead.\n\n";

po::options_description describe() {
  po::options_description options("options");
  auto add = options.add_options();
  add("help,h", "print this text");
  add("model", po::value<std::string>()->value_name("DIR"), "folder with tokenizer.json[.gz]");
  add("tokenizer", po::value<std::string>()->value_name("FILE"), "tokenizer.json or .json.gz");
  add("decode", "ids to text");
  add("control", po::value<std::string>()->default_value("parse")->value_name("parse|text"),
      "text that spells a control token such as <|eot_id|>: becomes it, or stays text");
  add("add-special-tokens", "apply the post-processor (Llama 3.1: begin-of-text first)");
  add("keep-special-tokens", "show control tokens in decoded text");
  add("json", "print JSON arrays of ids, or JSON strings");
  add("jsonl", "read and print one JSON value a line, from standard input");
  return options;
}

/// Everything that is wrong with the options, one finding a line.
void check(const po::variables_map& values) {
  std::string findings;
  const auto refuse = [&](const std::string& text) { findings += "\n  " + text; };
  if (values.count("model") + values.count("tokenizer") != 1) {
    refuse("expected one of --model DIR and --tokenizer FILE");
  }
  const auto& control = values["control"].as<std::string>();
  if (control != "parse" && control != "text") {
    refuse(fmt::format("--control: found \"{}\"; expected parse or text", control));
  }
  if (values.count("json") != 0 && values.count("jsonl") != 0) {
    refuse("--json and --jsonl exclude each other");
  }
  if (values.count("jsonl") != 0 && values.count("text") != 0) {
    refuse("--jsonl reads standard input; found a TEXT too");
  }
  if (values.count("decode") != 0 && values.count("add-special-tokens") != 0) {
    refuse("--add-special-tokens belongs to encoding; found with --decode");
  }
  if (values.count("decode") == 0 && values.count("keep-special-tokens") != 0) {
    refuse("--keep-special-tokens belongs to --decode");
  }
  if (!findings.empty()) {
    throw Error(Fault::kConfig, "apo tokenize:" + findings);
  }
}

text::LineOptions line_options(const po::variables_map& values) {
  text::LineOptions options;
  if (values.count("jsonl") != 0) {
    options.format = text::LineFormat::kJsonl;
  } else if (values.count("json") != 0) {
    options.format = text::LineFormat::kJson;
  }
  options.control = values["control"].as<std::string>() == "parse" ? text::ControlTokens::kParse
                                                                   : text::ControlTokens::kAsText;
  options.add_special_tokens = values.count("add-special-tokens") != 0;
  options.skip_special_tokens = values.count("keep-special-tokens") == 0;
  return options;
}

}  // namespace

int tokenize(const Arguments& arguments, comm::World& world) {
  const po::variables_map values = parse_options("tokenize", describe(), "text", arguments);
  if (values.count("help") != 0) {
    if (world.rank() == 0) {
      std::cout << kUsage << describe();
    }
    return 0;
  }
  check(values);
  if (world.rank() != 0) {
    return 0;
  }
  const std::string path =
      values[values.count("model") != 0 ? "model" : "tokenizer"].as<std::string>();
  const text::Tokenizer tokenizer = text::Tokenizer::load(path);
  const text::LineOptions options = line_options(values);
  const bool decode = values.count("decode") != 0;

  if (values.count("text") == 0) {
    decode ? text::decode_lines(tokenizer, options, std::cin, std::cout)
           : text::encode_lines(tokenizer, options, std::cin, std::cout);
  } else if (decode) {  // all arguments are one sequence of ids
    std::string line;
    for (const std::string& id : values["text"].as<std::vector<std::string>>()) {
      line += id + ' ';
    }
    std::istringstream in(line + '\n');
    text::decode_lines(tokenizer, options, in, std::cout);
  } else {
    for (const std::string& one : values["text"].as<std::vector<std::string>>()) {
      text::encode_text(tokenizer, options, one, std::cout);
    }
  }
  std::cout.flush();
  if (tokenizer.dropped_symbols() > 0) {
    std::cerr << fmt::format("note: {} byte symbols are not in the vocabulary and were dropped\n",
                             tokenizer.dropped_symbols());
  }
  return 0;
}

}  // namespace apo::cli
