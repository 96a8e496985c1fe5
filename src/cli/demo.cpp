/// @file
/// apo demo: makes the demo domain's tokenizer, model, pairs and preferences from a seed.

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "commands.hpp"
#include "demo_pairs.hpp"
#include <fmt/format.h>

#include "apo/comm/world.hpp"
#include "apo/core/clock.hpp"
#include "apo/core/error.hpp"
#include "apo/core/log.hpp"
#include "apo/data/demo_domain.hpp"
#include "apo/model/language_model.hpp"
#include "apo/model/model_config.hpp"
#include "apo/model/pretraining.hpp"
#include "apo/text/chat_template.hpp"
#include "apo/text/tokenizer.hpp"

namespace apo::cli {

namespace {

namespace fs = std::filesystem;

constexpr const char* kUsage =
    "usage: apo demo --out DIR --seed N [--steps N] [--stage tokenizer|model|pairs|all]\n"
    "\n"
    "Makes the demo domain: DIR/model (tokenizer, config, weights), DIR/pairs.jsonl.gz and\n"
    "DIR/preferences.csv. Each stage reads what the earlier ones left in DIR.\n"
    "  --steps N   pretraining steps of 32 lines (default 1600)\n";

struct DemoOptions {
  fs::path out;
  std::uint64_t seed = 0;
  int steps = 1600;
  std::string stage = "all";
};

template <class Integer>
bool parse_integer(const std::string& text, Integer& value) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  return code == std::errc() && end == text.data() + text.size();
}

DemoOptions parse(const Arguments& arguments) {
  DemoOptions options;
  bool has_seed = false;
  std::string errors;
  for (std::size_t i = 0; i < arguments.size(); i += 2) {
    const std::string& key = arguments[i];
    if (i + 1 == arguments.size()) {
      errors += fmt::format("{} wants a value\n", key);
      break;
    }
    const std::string& value = arguments[i + 1];
    if (key == "--out") {
      options.out = value;
    } else if (key == "--seed") {
      has_seed = parse_integer(value, options.seed);
      errors += has_seed ? "" : fmt::format("--seed wants an integer >= 0, found '{}'\n", value);
    } else if (key == "--steps") {
      if (!parse_integer(value, options.steps) || options.steps < 1) {
        errors += fmt::format("--steps wants an integer >= 1, found '{}'\n", value);
      }
    } else if (key == "--stage") {
      options.stage = value;
      if (value != "tokenizer" && value != "model" && value != "pairs" && value != "all") {
        errors += fmt::format("--stage wants tokenizer, model, pairs or all, found '{}'\n", value);
      }
    } else {
      errors += fmt::format("unknown argument '{}'\n", key);
    }
  }
  if (options.out.empty()) {
    errors += "--out DIR is missing\n";
  }
  if (!has_seed && errors.find("--seed") == std::string::npos) {
    errors += "--seed N is missing\n";
  }
  if (!errors.empty()) {
    throw Error(Fault::kConfig, "apo demo:\n" + errors + kUsage);
  }
  return options;
}

void write_file(const fs::path& path, std::string_view content) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  file.close();
  if (!file) {
    throw BackendError("write", errno, path.string());
  }
  log::info("wrote {} ({:.1f} KiB)", path.string(), static_cast<double>(content.size()) / 1024.0);
}

model::ModelConfig demo_model_config() {
  model::ModelConfig config;
  config.architecture = model::Architecture::kLlama;
  config.hidden_size = 128;
  config.intermediate_size = 320;
  config.num_layers = 3;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 32;
  config.vocab_size = data::demo::tokenizer_size();
  config.tied_embeddings = true;
  config.eos_ids = {0};
  config.bos_id = 0;
  config.pad_id = 0;
  config.max_position = 128;
  return config;
}

void make_tokenizer(const fs::path& model_dir) {
  write_file(model_dir / "tokenizer.json", data::demo::tokenizer_json());
  write_file(model_dir / "tokenizer_config.json", data::demo::tokenizer_config_json());
  model::save_model_config(model_dir, demo_model_config());
}

void make_model(const fs::path& model_dir, const DemoOptions& options) {
  const text::Tokenizer tokenizer = text::Tokenizer::load(model_dir);
  const text::ChatTemplate chat = text::ChatTemplate::load(model_dir, "auto", "");
  model::PretrainingOptions pretraining;
  pretraining.steps = options.steps;
  pretraining.seed = options.seed;
  const auto sequence = [&](int step, int row) {
    const data::demo::CorpusLine line = data::demo::corpus_line(
        options.seed, static_cast<std::uint64_t>(step), static_cast<std::uint64_t>(row));
    model::TrainingSequence made;
    made.ids = chat.encode_prompt(tokenizer, {{"user", line.prompt}});
    made.first_target = static_cast<std::int64_t>(made.ids.size());
    const auto answer = chat.encode_response(tokenizer, line.answer);
    made.ids.insert(made.ids.end(), answer.begin(), answer.end());
    return made;
  };
  const Stopwatch watch;
  double sum = 0.0;
  const auto report = [&](const model::PretrainingStep& step) {
    constexpr int kEvery = 50;
    sum += step.nat_per_token;
    if (step.step % kEvery == 0 || step.step == options.steps) {
      const int averaged = (step.step - 1) % kEvery + 1;
      log::info("pretraining step {}/{}  loss {:.3f} nat/token  {}  about {} left", step.step,
                options.steps, sum / averaged, human_duration(watch.seconds()),
                human_duration(watch.seconds() / step.step * (options.steps - step.step)));
      sum = 0.0;
    }
  };
  model::pretrain(model_dir, pretraining, sequence, report);
}

void make_pairs(const DemoOptions& options, const fs::path& model_dir) {
  const text::Tokenizer tokenizer = text::Tokenizer::load(model_dir);
  const text::ChatTemplate chat = text::ChatTemplate::load(model_dir, "auto", "");
  model::ModelOptions model_options;
  model_options.path = model_dir.string();
  const model::LanguageModel model = model::LanguageModel::load(model_options, {}, "cpu");
  const Stopwatch watch;
  std::vector<DemoClient> clients;
  std::string rows;
  for (int index = 0; index < kDemoTrainClients + kDemoTestClients; ++index) {
    clients.push_back(make_demo_client(model, tokenizer, chat, options.seed, index));
    rows += data::demo::jsonl_rows(clients.back().name, clients.back().pairs);
    if ((index + 1) % 6 == 0) {
      log::info("pairs of {} clients  {}", index + 1, human_duration(watch.seconds()));
    }
  }
  write_file(options.out / "pairs.jsonl.gz", data::demo::gzip(rows));
  write_file(options.out / "preferences.csv", preferences_csv(clients));
  log::info("{} rows\n{}", std::count(rows.begin(), rows.end(), '\n'), describe(clients));
}

}  // namespace

int demo(const Arguments& arguments, comm::World& world) {
  if (arguments.size() == 1 && (arguments[0] == "--help" || arguments[0] == "-h")) {
    fmt::print("{}", kUsage);
    return 0;
  }
  const DemoOptions options = parse(arguments);
  if (world.rank() != 0) {
    return 0;  // one rank's work; the others have nothing to add
  }
  model::configure_torch(1);  // results depend on the number of threads
  const fs::path model_dir = options.out / "model";
  std::error_code code;
  fs::create_directories(model_dir, code);
  if (code) {
    throw BackendError("create_directories", code.value(), model_dir.string());
  }
  const auto wants = [&](const char* stage) {
    return options.stage == "all" || options.stage == stage;
  };
  if (wants("tokenizer")) {
    make_tokenizer(model_dir);
  }
  if (wants("model")) {
    make_model(model_dir, options);
  }
  if (wants("pairs")) {
    make_pairs(options, model_dir);
  }
  return 0;
}

}  // namespace apo::cli
