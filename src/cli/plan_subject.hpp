#pragma once

/// @file
/// What `apo plan` knows of a task before anything heavy is loaded: clients in numbers, lengths,
/// and what a model of this shape takes in memory.

#include <cstdint>
#include <optional>
#include <vector>

#include "run_task.hpp"

#include "apo/config/run_config.hpp"
#include "apo/methods/experiment.hpp"
#include "apo/methods/plan.hpp"
#include "apo/model/adapter.hpp"
#include "apo/model/model_config.hpp"

namespace apo::cli {

/// Lengths of a language task's pairs; everything is empty or 0 on analytic tasks.
struct PairLengths {
  std::vector<int> tokens;       ///< by pair: prompt and chosen, prompt and rejected
  std::vector<int> num_prompts;  ///< by client: answered in one evaluation
  int longest_sequence = 0;
  int longest_pair = 0;
  int longest_prompt = 0;  ///< of those that are answered
  std::optional<model::ModelConfig> model;
};

/// Reads the inputs of a language task and keeps their lengths; analytic tasks need none.
[[nodiscard]] PairLengths read_lengths(const config::RunConfig& config);

/// Clients and options of the plan; groups are left to the caller.
[[nodiscard]] methods::PlanInputs plan_inputs(const config::RunConfig& config,
                                              const data::Partition& partition,
                                              const PairLengths& lengths);

/// Adapter parameters of a language task, without loading the model.
[[nodiscard]] std::int64_t num_adapter_parameters(const config::RunConfig& config,
                                                  const PairLengths& lengths);

/// Tokens of the largest forward pass of a batch of pairs with these lengths.
[[nodiscard]] double largest_pass_tokens(const PairLengths& lengths, double batch_tokens);

/// Memory of a forward and backward pass over so many tokens by its arithmetic; 0 on analytic
/// tasks.
[[nodiscard]] double pass_bytes(const config::RunConfig& config, const PairLengths& lengths,
                                double tokens);

/// Memory of a model of this shape by its arithmetic; zeros on analytic tasks.
[[nodiscard]] methods::MemoryBasis model_memory(const config::RunConfig& config,
                                                const PairLengths& lengths);

/// Sizes of the rows of the run file.
[[nodiscard]] methods::RowBytes run_file_rows(int num_objectives, const config::RunConfig& config);

}  // namespace apo::cli
