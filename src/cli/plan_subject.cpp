#include "plan_subject.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "run_inputs.hpp"
#include "run_tables.hpp"

#include "apo/core/rng.hpp"
#include "apo/direction/direction_solver.hpp"
#include "apo/federation/batch_sampler.hpp"
#include "apo/federation/theory_monitor.hpp"
#include "apo/methods/evaluation.hpp"

namespace apo::cli {
namespace {

/// Tokens that one forward pass holds, unless a pair alone has more (make_preference_objectives).
constexpr int kPassTokens = 512;
/// Responses that are generated together (methods' evaluation).
constexpr double kGenerationBatch = 64.0;
/// Largest models that are merged with the adapter before they generate (LanguageModel::generate).
constexpr std::int64_t kLargestMerged = 64'000'000;
constexpr double kFloat = sizeof(float);
/// Responses and prompts are stored with the length of the longest one.
constexpr double kBytesPerToken = 5.0;

int answered_prompts(const RunInputs& inputs, const data::Client& client,
                     const methods::EvaluateOptions& options, int& longest) {
  std::set<std::string> prompts;
  for (const std::vector<int>& pairs : client.evaluate) {
    for (const int pair : pairs) {
      const auto at = static_cast<std::size_t>(pair);
      prompts.insert(inputs.chat.render_prompt(inputs.data.pairs[at].prompt));
      longest = std::max(longest, static_cast<int>(inputs.tokens.pairs[at].prompt.size()));
    }
  }
  const auto count = static_cast<int>(prompts.size());
  return options.prompts_per_client > 0 ? std::min(count, options.prompts_per_client) : count;
}

/// Work of one batch as the training draws it, from a stream of the plan's own.
double typical_step(const data::Pool& pool, int batch_pairs, ClientId client,
                    const data::Partition& partition, const std::vector<int>& tokens,
                    methods::Gradients gradients) {
  if (data::pool_size(pool) == 0) {
    return 0.0;
  }
  federation::BatchSampler sampler(
      pool, {0, Purpose::kBatch, 0, 0, static_cast<std::uint64_t>(client.value)},
      partition.text_of_pair);
  return methods::batch_work(sampler.next(batch_pairs), tokens, partition.text_of_pair, gradients);
}

/// Floats that the graph of one pass keeps per token and layer (CausalLm): inputs of norms and of
/// adapted projections, rotated queries and keys, values, attention weights, what the gate needs.
double saved_floats(const model::ModelConfig& config, const model::AdapterLayout& layout,
                    double sequence_length) {
  const auto adapted = [&layout](std::initializer_list<model::Projection> projections) {
    return std::any_of(layout.modules.begin(), layout.modules.end(), [&](const auto& module) {
      return std::find(projections.begin(), projections.end(), module.projection) !=
             projections.end();
    });
  };
  const auto hidden = static_cast<double>(config.hidden_size);
  const auto inner = static_cast<double>(config.intermediate_size);
  const auto heads = static_cast<double>(config.num_heads);
  const double queries = heads * static_cast<double>(config.head_dim);
  const double keys = static_cast<double>(config.num_kv_heads * config.head_dim);
  using model::Projection;
  double floats = 2.0 * hidden + queries + 2.0 * keys + heads * sequence_length + 3.0 * inner;
  floats += adapted({Projection::kQ, Projection::kK, Projection::kV}) ? hidden : 0.0;
  floats += adapted({Projection::kO}) ? queries : 0.0;
  floats += adapted({Projection::kGate, Projection::kUp}) ? hidden : 0.0;
  floats += adapted({Projection::kDown}) ? inner : 0.0;
  return floats;
}

/// Logits of the head, a piece of the rows at a time, and their softmax.
double head_bytes(const model::ModelConfig& config, double rows) {
  const auto vocabulary = static_cast<double>(config.vocab_size);
  const double piece = std::clamp(std::floor(16777216.0 / vocabulary), 16.0, 256.0);
  return 2.0 * std::min(rows, piece) * vocabulary * kFloat;
}

double generation_bytes(const config::RunConfig& config, const PairLengths& lengths) {
  const model::ModelConfig& shape = *lengths.model;
  double most = 0.0;
  for (const int prompts : lengths.num_prompts) {
    most = std::max(most, static_cast<double>(prompts) * config.evaluate.samples_per_prompt);
  }
  const double rows = std::min(most, kGenerationBatch);
  if (config.evaluate.reward == "none" || rows == 0.0) {
    return 0.0;
  }
  const double prompt = lengths.longest_prompt;
  const double positions = prompt + config.evaluate.max_new_tokens;
  const double width = config.model.dtype == "float32" ? 4.0 : 2.0;
  const double cache = 2.0 *
                       static_cast<double>(shape.num_layers * shape.num_kv_heads * shape.head_dim) *
                       rows * positions * width;
  const double logits = 2.0 * rows * static_cast<double>(shape.vocab_size) * kFloat;
  // The prompts' own pass: one layer at a time, masks and attention weights of every head.
  const double pass = rows * prompt *
                      (static_cast<double>(4 * shape.hidden_size + 3 * shape.intermediate_size) +
                       3.0 * static_cast<double>(shape.num_heads) * prompt) *
                      kFloat;
  const bool merged = config.model.dtype == "float32" && shape.num_parameters() <= kLargestMerged;
  const double copy = merged ? static_cast<double>(shape.num_parameters()) * kFloat : 0.0;
  return cache + logits + pass + copy;
}

}  // namespace

PairLengths read_lengths(const config::RunConfig& config) {
  PairLengths lengths;
  if (config.method.task == "analytic") {
    return lengths;
  }
  const RunInputs inputs = load_inputs(config);
  for (const data::TokenPair& pair : inputs.tokens.pairs) {
    const std::size_t chosen = pair.usable() ? pair.prompt.size() + pair.chosen.size() : 0;
    const std::size_t rejected = pair.usable() ? pair.prompt.size() + pair.rejected.size() : 0;
    lengths.tokens.push_back(static_cast<int>(chosen + rejected));
    lengths.longest_sequence =
        std::max(lengths.longest_sequence, static_cast<int>(std::max(chosen, rejected)));
    lengths.longest_pair = std::max(lengths.longest_pair, lengths.tokens.back());
  }
  for (const data::Client& client : inputs.partition.clients) {
    lengths.num_prompts.push_back(
        inputs.reward != nullptr
            ? answered_prompts(inputs, client, config.evaluate, lengths.longest_prompt)
            : 0);
  }
  lengths.model = inputs.model_config;
  return lengths;
}

methods::PlanInputs plan_inputs(const config::RunConfig& config, const data::Partition& partition,
                                const PairLengths& lengths) {
  methods::PlanInputs inputs;
  inputs.num_objectives = static_cast<int>(partition.clients.at(0).preference.size());
  const auto solver = direction::make_solver(config.direction);
  inputs.one_by_one = !solver->weighs_by_preference();
  inputs.checkpoints_kept = config.checkpoint.keep;
  inputs.train_clients = partition.train_clients();
  if (lengths.model) {
    inputs.adapter_rank = config.lora.rank;
    inputs.wide_weights = config.model.dtype == "float32";
  }
  const methods::Gradients gradients =
      inputs.one_by_one ? methods::Gradients::kPerObjective : methods::Gradients::kWeighted;
  const auto tokens_of = [&](const data::Pool& pool) {
    return methods::batch_work(pool, lengths.tokens, partition.text_of_pair,
                               methods::Gradients::kNone);
  };
  for (const data::Client& client : partition.clients) {
    const bool train = client.split == data::ClientSplit::kTrain;
    const data::Pool& pool = train ? client.train : client.adapt;
    methods::ClientWork work;
    work.num_pairs = client.num_pairs();
    work.pool_tokens = tokens_of(pool);
    work.pool_work = methods::batch_work(pool, lengths.tokens, partition.text_of_pair, gradients);
    work.held_out_tokens = tokens_of(client.evaluate);
    const auto step = [&](int pairs) {
      return typical_step(pool, pairs, client.id, partition, lengths.tokens, gradients);
    };
    if (train) {
      work.phase1_step = step(config.phase1.batch_size * config.phase1.gradient_accumulation);
      work.phase2_step = step(std::min(config.phase2.shots, config.phase2.inner_batch_size));
    } else {
      work.adapt_step = step(config.adapt.samples == "fresh"
                                 ? config.adapt.shots
                                 : std::min(config.adapt.shots, config.phase2.inner_batch_size));
      work.num_prompts = lengths.num_prompts.empty() ? 0 : lengths.num_prompts[client.id.index()];
    }
    inputs.clients.push_back(work);
  }
  return inputs;
}

std::int64_t num_adapter_parameters(const config::RunConfig& config, const PairLengths& lengths) {
  return model::make_layout(lengths.model.value(), config.lora).num_parameters;
}

double largest_pass_tokens(const PairLengths& lengths, double batch_tokens) {
  return std::max(std::min(batch_tokens, static_cast<double>(kPassTokens)),
                  static_cast<double>(lengths.longest_pair));
}

double pass_bytes(const config::RunConfig& config, const PairLengths& lengths, double tokens) {
  if (!lengths.model) {
    return 0.0;
  }
  const model::ModelConfig& shape = *lengths.model;
  const double width = config.model.dtype == "float32" ? 4.0 : 2.0;
  return tokens *
             saved_floats(shape, model::make_layout(shape, config.lora), lengths.longest_sequence) *
             static_cast<double>(shape.num_layers) * width +
         head_bytes(shape, tokens);
}

methods::MemoryBasis model_memory(const config::RunConfig& config, const PairLengths& lengths) {
  methods::MemoryBasis basis;
  if (!lengths.model) {
    return basis;
  }
  const model::ModelConfig& shape = *lengths.model;
  const double width = config.model.dtype == "float32" ? 4.0 : 2.0;
  double largest = 0.0;
  for (const auto& tensor : shape.expected_tensors()) {
    double size = 1.0;
    for (const std::int64_t extent : tensor.shape) {
      size *= static_cast<double>(extent);
    }
    basis.weights += size * width;
    largest = std::max(largest, size);
  }
  basis.loading = 2.0 * largest * kFloat;  // its bytes and its float32 values
  const double tokens = largest_pass_tokens(lengths, kPassTokens);
  basis.activations = pass_bytes(config, lengths, tokens);
  // Without gradients one layer is alive at a time, and the next.
  basis.forward = (basis.activations - head_bytes(shape, tokens)) * 2.0 /
                      static_cast<double>(shape.num_layers) +
                  head_bytes(shape, tokens);
  basis.generation = generation_bytes(config, lengths);
  return basis;
}

methods::RowBytes run_file_rows(int num_objectives, const config::RunConfig& config) {
  methods::RowBytes rows;
  int columns = 0;
  const auto row = [&columns](const Table& table, int times, double text = 32.0) {
    columns += times * static_cast<int>(table.columns().size());
    return methods::row_bytes(table, text);
  };
  rows.step = row(step_table(num_objectives), 3);
  rows.round = row(round_table(num_objectives), 2);
  rows.theory_round = row(federation::theory_round_table(num_objectives), 1);
  rows.theory_client = row(federation::theory_client_table(num_objectives), 1);
  rows.theory_pair = row(federation::theory_pair_table(num_objectives), 1);
  rows.evaluation = row(methods::summary_table(num_objectives), 1);
  rows.response = row(methods::response_table(num_objectives), 1,
                      kBytesPerToken * config.evaluate.max_new_tokens);
  constexpr double kClientNumbers = 12.0;  // beside the columns per objective
  constexpr double kClientColumnsPerObjective = 6.0;
  rows.client = 8.0 * (kClientNumbers + kClientColumnsPerObjective * num_objectives);
  constexpr int kOtherColumns = 45;  // clients, clusters, merges, performance, state
  rows.num_columns = columns + kOtherColumns;
  return rows;
}

}  // namespace apo::cli
