/// @file
/// `apo generate`: responses of a model, with or without an adapter, to prompts.

#include <cstdint>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "commands.hpp"
#include "program_options.hpp"
#include <boost/program_options.hpp>
#include <fmt/format.h>

#include "apo/comm/world.hpp"
#include "apo/core/error.hpp"
#include "apo/model/adapter.hpp"
#include "apo/model/language_model.hpp"
#include "apo/text/chat_template.hpp"
#include "apo/text/tokenizer.hpp"

namespace apo::cli {
namespace {

namespace po = boost::program_options;

constexpr const char* kUsage =
    "usage: apo generate --model DIR [options] [PROMPT ...]\n\n"
    "Prints the response to each PROMPT, or to each line of standard input. The model's own chat\n"
    "template is put around the prompt. The same seed gives the same responses.\n\n";

po::options_description describe() {
  po::options_description options("options");
  auto add = options.add_options();
  add("help,h", "print this text");
  add("model", po::value<std::string>()->value_name("DIR"), "Hugging Face folder (required)");
  add("adapter", po::value<std::string>()->value_name("DIR"), "PEFT folder of a LoRA adapter");
  add("max-new-tokens", po::value<int>()->default_value(128)->value_name("N"),
      "length at which a response is cut");
  add("temperature", po::value<double>()->default_value(1.0)->value_name("T"),
      "of the softmax that is sampled from; 0 takes the likeliest token");
  add("seed", po::value<std::uint64_t>()->default_value(0)->value_name("S"), "of the samples");
  add("system", po::value<std::string>()->value_name("TEXT"), "system message");
  add("chat-template", po::value<std::string>()->default_value("auto")->value_name("NAME"),
      "auto, llama3, llama3_1, qwen2, smollm2 or plain");
  add("template-date", po::value<std::string>()->default_value("26 Jul 2024")->value_name("DATE"),
      "date in the system message of Llama 3.1");
  add("dtype", po::value<std::string>()->default_value("float32")->value_name("TYPE"),
      "float32 or bfloat16");
  add("device", po::value<std::string>()->default_value("cpu")->value_name("NAME"), "cpu or cuda");
  add("batch-size", po::value<int>()->default_value(16)->value_name("N"), "prompts at a time");
  add("threads", po::value<int>()->default_value(1)->value_name("N"), "of the CPU");
  return options;
}

/// Everything that is wrong with the options, one finding a line.
void check(const po::variables_map& values) {
  std::string findings;
  const auto refuse = [&](const std::string& text) { findings += "\n  " + text; };
  const auto at_least_one = [&](const char* name) {
    if (values[name].as<int>() < 1) {
      refuse(fmt::format("--{}: found {}; expected 1 or more", name, values[name].as<int>()));
    }
  };
  if (values.count("model") == 0) {
    refuse("--model DIR is missing");
  }
  at_least_one("max-new-tokens");
  at_least_one("batch-size");
  at_least_one("threads");
  const double temperature = values["temperature"].as<double>();
  if (!(temperature >= 0.0 && temperature <= 100.0)) {
    refuse(fmt::format("--temperature: found {}; expected a number in [0, 100]", temperature));
  }
  const auto& dtype = values["dtype"].as<std::string>();
  if (dtype != "float32" && dtype != "bfloat16") {
    refuse(fmt::format("--dtype: found \"{}\"; expected float32 or bfloat16", dtype));
  }
  if (!findings.empty()) {
    throw Error(Fault::kConfig, "apo generate:" + findings);
  }
}

/// The PROMPT arguments, or the lines of standard input that are not empty.
std::vector<std::string> read_prompts(const po::variables_map& values) {
  if (values.count("prompt") != 0) {
    return values["prompt"].as<std::vector<std::string>>();
  }
  std::vector<std::string> prompts;
  for (std::string line; std::getline(std::cin, line);) {
    if (!line.empty()) {
      prompts.push_back(line);
    }
  }
  return prompts;
}

}  // namespace

int generate(const Arguments& arguments, comm::World& world) {
  const po::variables_map values = parse_options("generate", describe(), "prompt", arguments);
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
  // everything cheap that can be wrong comes before the weights are read
  const auto& model_dir = values["model"].as<std::string>();
  const text::Tokenizer tokenizer = text::Tokenizer::load(model_dir);
  const text::ChatTemplate chat =
      text::ChatTemplate::load(model_dir, values["chat-template"].as<std::string>(),
                               values["template-date"].as<std::string>());
  model::LoraOptions lora;
  if (values.count("adapter") != 0) {
    lora = model::read_adapter_options(values["adapter"].as<std::string>());
  }
  const model::ModelOptions model_options{model_dir, values["dtype"].as<std::string>(), "none"};
  model::configure_torch(values["threads"].as<int>());
  const model::LanguageModel lm =
      model::LanguageModel::load(model_options, lora, values["device"].as<std::string>());
  if (tokenizer.max_id() >= lm.config().vocab_size) {
    throw Error(Fault::kData,
                fmt::format("{}: the tokenizer's largest id is {}, but the model has {} embeddings",
                            model_dir, tokenizer.max_id(), lm.config().vocab_size));
  }
  std::vector<float> adapter;
  if (values.count("adapter") != 0) {
    adapter = model::load_adapter(values["adapter"].as<std::string>(), lm.layout());
  }

  std::vector<model::GenerationRequest> requests;
  for (const std::string& prompt : read_prompts(values)) {
    std::vector<text::Turn> turns;
    if (values.count("system") != 0) {
      turns.push_back({"system", values["system"].as<std::string>()});
    }
    turns.push_back({"user", prompt});
    requests.push_back({chat.encode_prompt(tokenizer, turns), requests.size()});
  }
  model::GenerationOptions options;
  options.max_new_tokens = values["max-new-tokens"].as<int>();
  options.temperature = values["temperature"].as<double>();
  options.batch_size = values["batch-size"].as<int>();
  options.seed = values["seed"].as<std::uint64_t>();
  options.stop_ids = chat.stop_ids();
  options.num_ids = tokenizer.max_id() + 1;
  for (const std::vector<std::int32_t>& ids : lm.generate(requests, adapter, options)) {
    std::cout << tokenizer.decode(ids) << '\n';
  }
  return 0;
}

}  // namespace apo::cli
