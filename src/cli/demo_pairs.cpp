#include "demo_pairs.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apo/core/error.hpp"
#include "apo/core/rng.hpp"

namespace apo::cli {

namespace demo = data::demo;

namespace {

constexpr std::uint64_t kPromptStream = 3;  // field `a` of purpose kDemo; 1 and 2 are data's
constexpr int kMaxAttempts = 32;
constexpr int kMaxNewTokens = demo::kMaxLength + 1;

std::vector<demo::AnswerPair> draw_prompts(std::uint64_t seed, int index) {
  const bool trains = index < kDemoTrainClients;
  CounterRng rng({seed, Purpose::kDemo, kPromptStream, static_cast<std::uint64_t>(index), 0});
  std::vector<demo::AnswerPair> pairs;
  const auto add = [&](int count, demo::PromptPool pool, const char* split) {
    for (const std::size_t end = pairs.size() + static_cast<std::size_t>(count);
         pairs.size() < end;) {
      const demo::Prompt prompt = demo::sample_prompt(rng, pool);
      if (std::none_of(pairs.begin(), pairs.end(),
                       [&](const demo::AnswerPair& p) { return p.prompt == prompt; })) {
        pairs.push_back({prompt, {}, {}, split});
      }
    }
  };
  if (trains) {
    add(kDemoTrainPairs, demo::PromptPool::kSeen, "train");
  } else {
    add(kDemoAdaptPairs, demo::PromptPool::kSeen, "adapt");
    add(kDemoEvaluatePairs, demo::PromptPool::kHeldOut, "evaluate");
  }
  return pairs;
}

/// One answer that is still wanted.
struct Slot {
  std::size_t pair = 0;
  std::size_t answer = 0;  ///< 0 or 1
};

double mean(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double v : values) {
    sum += v;
  }
  return values.empty() ? 0.0 : sum / static_cast<double>(values.size());
}

double covariance(const std::vector<double>& x, const std::vector<double>& y) {
  std::vector<double> products;
  const double mx = mean(x);
  const double my = mean(y);
  for (std::size_t i = 0; i < x.size(); ++i) {
    products.push_back((x[i] - mx) * (y[i] - my));
  }
  return mean(products);
}

double correlation(const std::vector<double>& x, const std::vector<double>& y) {
  const double scale = std::sqrt(covariance(x, x) * covariance(y, y));
  return scale > 0.0 ? covariance(x, y) / scale : 0.0;
}

std::string pairwise(std::string_view title,
                     const std::function<double(std::size_t, std::size_t)>& value) {
  std::string text = fmt::format("{}:", title);
  const auto names = demo::objective_names();
  for (std::size_t i = 0; i < names.size(); ++i) {
    for (std::size_t j = i + 1; j < names.size(); ++j) {
      text += fmt::format(" {}-{} {:+.2f}", names[i], names[j], value(i, j));
    }
  }
  return text + '\n';
}

}  // namespace

DemoClient make_demo_client(const model::LanguageModel& model, const text::Tokenizer& tokenizer,
                            const text::ChatTemplate& chat, std::uint64_t seed, int index) {
  DemoClient client;
  client.name = index < kDemoTrainClients ? fmt::format("client-{:02}", index)
                                          : fmt::format("new-{:02}", index - kDemoTrainClients);
  client.preference = demo::client_preference(seed, index);
  client.pairs = draw_prompts(seed, index);

  model::GenerationOptions options;
  options.max_new_tokens = kMaxNewTokens;
  options.temperature = 1.0;
  options.seed = seed;
  options.stop_ids = chat.stop_ids();
  options.num_ids = tokenizer.vocabulary_size();

  std::vector<Slot> wanted;
  for (std::size_t p = 0; p < client.pairs.size(); ++p) {
    wanted.push_back({p, 0});
    wanted.push_back({p, 1});
  }
  for (int attempt = 0; !wanted.empty(); ++attempt) {
    if (attempt == kMaxAttempts) {
      throw Error(
          Fault::kData,
          fmt::format("demo: no usable answer to '{}' in {} attempts; is the model trained?",
                      demo::render(client.pairs[wanted.front().pair].prompt), attempt));
    }
    std::vector<model::GenerationRequest> requests;
    for (const Slot& slot : wanted) {
      const std::string prompt = demo::render(client.pairs[slot.pair].prompt);
      const auto key = ((static_cast<std::uint64_t>(index) * 1024 + slot.pair) * 2 + slot.answer) *
                           kMaxAttempts +
                       static_cast<std::uint64_t>(attempt);
      requests.push_back({chat.encode_prompt(tokenizer, {{"user", prompt}}), key});
    }
    const auto responses = model.generate(requests, {}, options);
    std::vector<Slot> again;
    for (std::size_t r = 0; r < wanted.size(); ++r) {
      const Slot slot = wanted[r];
      demo::AnswerPair& pair = client.pairs[slot.pair];
      const std::string text = tokenizer.decode(responses[r]);
      const std::optional<demo::Answer> answer = demo::parse_answer(text);
      const bool repeated = text == pair.answers[1 - slot.answer];
      ++client.num_sampled;
      client.num_unparsable += answer ? 0 : 1;
      client.num_repeated += answer && repeated ? 1 : 0;
      if (!answer || repeated) {
        again.push_back(slot);
        continue;
      }
      pair.answers[slot.answer] = text;
      pair.scores[slot.answer] = demo::score(pair.prompt, *answer);
    }
    wanted = std::move(again);
  }
  return client;
}

std::string preferences_csv(std::span<const DemoClient> clients) {
  std::string text = fmt::format("client,{}\n", fmt::join(demo::objective_names(), ","));
  for (const DemoClient& client : clients) {
    text += client.name;
    for (const double weight : client.preference) {
      text += fmt::format(",{:.6f}", weight);
    }
    text += '\n';
  }
  return text;
}

std::string describe(std::span<const DemoClient> clients) {
  std::array<std::vector<double>, demo::kNumObjectives> values;
  std::array<std::vector<double>, demo::kNumObjectives> signs;
  std::int64_t sampled = 0;
  std::int64_t unparsable = 0;
  std::int64_t repeated = 0;
  std::int64_t relevant = 0;
  std::int64_t steps = 0;
  for (const DemoClient& client : clients) {
    sampled += client.num_sampled;
    unparsable += client.num_unparsable;
    repeated += client.num_repeated;
    for (const demo::AnswerPair& pair : client.pairs) {
      for (std::size_t j = 0; j < values.size(); ++j) {
        values[j].push_back(pair.scores[0][j]);
        values[j].push_back(pair.scores[1][j]);
        const double difference = pair.scores[0][j] - pair.scores[1][j];
        signs[j].push_back(std::abs(difference) < 1e-9 ? 0.0 : difference > 0.0 ? 1.0 : -1.0);
      }
      for (const std::string& text : pair.answers) {
        const demo::Features f = demo::features(pair.prompt, demo::parse_answer(text).value());
        relevant += f.num_relevant;
        steps += f.num_steps;
      }
    }
  }
  const auto share = [](std::int64_t part, std::int64_t whole) {
    return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
  };
  std::string text = fmt::format(
      "answers sampled {}, parse rate {:.3f}, drawn again as repeated {}, relevant steps {:.2f}\n",
      sampled, 1.0 - share(unparsable, sampled), repeated, share(relevant, steps));
  for (std::size_t j = 0; j < values.size(); ++j) {
    const auto ties = std::count(signs[j].begin(), signs[j].end(), 0.0);
    text += fmt::format("{:<13} mean {:.2f} sd {:.2f} ties {:.2f}\n", demo::objective_names()[j],
                        mean(values[j]), std::sqrt(covariance(values[j], values[j])),
                        share(ties, static_cast<std::int64_t>(signs[j].size())));
  }
  text += pairwise("correlation of scores",
                   [&](std::size_t i, std::size_t j) { return correlation(values[i], values[j]); });
  text += pairwise("correlation of labels", [&](std::size_t i, std::size_t j) {
    std::vector<double> first;
    std::vector<double> second;
    for (std::size_t p = 0; p < signs[i].size(); ++p) {
      if (signs[i][p] != 0.0 && signs[j][p] != 0.0) {
        first.push_back(signs[i][p]);
        second.push_back(signs[j][p]);
      }
    }
    return correlation(first, second);
  });
  return text;
}

}  // namespace apo::cli
