#pragma once

/// @file
/// [task], [method], [evaluate], [fspo] and [ditto] of the configuration.

#include <string>

#include "apo/core/field_table.hpp"

namespace apo::methods {

struct MethodOptions {
  std::string task = "preference";  ///< preference | analytic
  /// apo | fedavg | firm | server_mgda | fedcmoo | fedcmoo_pref | fsmgda | fedmgda_plus | ifca |
  /// rewarded_soup | fspo | ditto | base
  std::string name = "apo";
  std::string scope = "auto";  ///< auto | cluster (one adapter per cluster) | global (one for all)
};

struct EvaluateOptions {
  std::string reward = "none";  ///< none | rule
  int max_new_tokens = 48;
  double temperature = 1.0;
  int samples_per_prompt = 1;
  int prompts_per_client = 0;
};

/// Method fspo: IPO of each new client on its own pairs (algorithms.md 6). Learning rate and shots
/// are those of [adapt]; the other defaults are the published code's, but for its warm-up of 150
/// steps, which the five steps of 20 pairs would never leave.
struct FspoOptions {
  double beta = 0.01;
  int epochs = 1;
  int batch_size = 4;
  std::string optimizer = "rmsprop";  ///< rmsprop | adamw
  int warmup_steps = 0;
  double gradient_clip = 10.0;
};

/// Method ditto: each new client imitates its chosen responses, then plays against its own samples
/// (algorithms.md 6). Defaults are the published code's, but for its 10 samples per prompt.
struct DittoOptions {
  int sft_steps = 30;
  int sft_batch_size = 4;
  double sft_learning_rate = 3e-5;
  double sft_warmup = 0.2;  ///< share of sft_steps; a cosine follows
  double sft_stop_loss = 1.0;
  int steps = 40;
  int batch_size = 8;  ///< demonstrations per step; it compares three times as many pairs
  double learning_rate = 1e-6;
  double warmup = 0.25;  ///< share of steps; constant afterwards
  double beta = 0.05;
  int resample_every = 10;
  int samples_per_prompt = 4;
  int max_new_tokens = 48;
  double temperature = 1.0;
  double gradient_clip = 1.0;
};

void declare(FieldTable& table, MethodOptions& options);
void declare(FieldTable& table, EvaluateOptions& options);
void declare(FieldTable& table, FspoOptions& options);
void declare(FieldTable& table, DittoOptions& options);

}  // namespace apo::methods
