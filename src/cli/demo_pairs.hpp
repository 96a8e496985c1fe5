#pragma once

/// @file
/// Clients of the demo: preferences, and pairs of answers that the pretrained model gave.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "apo/data/demo_domain.hpp"
#include "apo/model/language_model.hpp"
#include "apo/text/chat_template.hpp"
#include "apo/text/tokenizer.hpp"

namespace apo::cli {

inline constexpr int kDemoTrainClients = 24;
inline constexpr int kDemoTestClients = 12;
inline constexpr int kDemoTrainPairs = 40;
inline constexpr int kDemoAdaptPairs = 20;     ///< prompts of the kind seen in training
inline constexpr int kDemoEvaluatePairs = 24;  ///< prompts with held-out (action, object) pairs

struct DemoClient {
  std::string name;                ///< "client-00", ...; "new-00", ... appear after training
  std::vector<double> preference;  ///< [4] lambda
  std::vector<data::demo::AnswerPair> pairs;
  std::int64_t num_sampled = 0;     ///< answers drawn from the model
  std::int64_t num_unparsable = 0;  ///< of them, outside the grammar: drawn again
  std::int64_t num_repeated = 0;    ///< of them, equal to the prompt's first answer: drawn again
};

/// Client `index` of 0 .. kDemoTrainClients + kDemoTestClients - 1; depends on no other client.
/// Both answers of a pair are sampled at temperature 1 and labelled by the rules.
///
/// @throws Error(kData)  the model answers a prompt outside the grammar time and again
[[nodiscard]] DemoClient make_demo_client(const model::LanguageModel& model,
                                          const text::Tokenizer& tokenizer,
                                          const text::ChatTemplate& chat, std::uint64_t seed,
                                          int index);

/// "client,helpfulness,harmlessness,brevity,courtesy" and one line per client.
[[nodiscard]] std::string preferences_csv(std::span<const DemoClient> clients);

/// Parse rate, mean and deviation of each rule, correlations, ties and label conflicts, as text.
[[nodiscard]] std::string describe(std::span<const DemoClient> clients);

}  // namespace apo::cli
