#pragma once

/// @file
/// [phase1], [phase2], [adapt], [baseline] and [monitor] of the configuration. Defaults are Table 3
/// of the APO paper.

#include <string>
#include <vector>

#include "apo/core/field_table.hpp"

namespace apo::federation {

struct Phase1Options {
  int rounds = 200;
  int local_steps = 2;
  int batch_size = 8;
  int gradient_accumulation = 4;
  double learning_rate = 5e-5;
  double learning_rate_final = 1e-5;
  int clients_per_round = 8;
  std::string optimizer = "adamw";
  double gradient_clip = 1.0;
  double server_learning_rate = 1.0;
  std::string aggregation = "pairs";  ///< pairs (rho_i = N_i / N) | uniform (1 / C)
};

struct Phase2Options {
  int rounds = 10;
  int shots = 20;
  int inner_steps = 3;
  double inner_learning_rate = 5e-5;
  int inner_batch_size = 8;
  std::string inner_optimizer = "adamw";  ///< adamw | sgd; also of the adaptation
  double gradient_clip = 10.0;
  int clients_per_round = 8;
  std::string server_optimizer = "adamw";
  std::vector<double> server_learning_rate = {2e-5};
  std::vector<double> server_weight_decay = {0.0};
  std::vector<int> start_rounds;
};

struct AdaptOptions {
  int shots = 20;
  int steps = 3;
  double learning_rate = 5e-5;
  int test_clients_per_cluster = 10;
  std::string samples = "reuse";  ///< reuse: one support set; fresh: new shots at every step (A27)
};

/// What only the comparison methods need (algorithms.md 2.7 and 3.6).
struct BaselineOptions {
  std::string compression = "none";  ///< fedcmoo: none | svd | topk
  double compression_quality = 1.0;  ///< q
  int weight_steps = 1000;           ///< fedcmoo: projected gradient steps on the simplex
  double weight_learning_rate = 1e-3;
  double pref_mix = 0.2;  ///< fedcmoo_pref: weight = (1 - f) mu + f / m
  double pref_beta_tolerance = 1e-2;
  double pref_bottleneck_band = 0.1;
  std::string update_normalisation = "none";  ///< fsmgda: none | iteration | update
  double update_topk = 1.0;                   ///< fsmgda: share of entries that is sent
  double fairness = 0.1;                      ///< fedmgda_plus: epsilon
  int num_models = 4;                         ///< ifca: k
  std::string cluster_loss = "weighted";      ///< ifca: weighted (lambda' l) | chebyshev (psi)
  double init_scale = 1e-2;                   ///< ifca: standard deviation that parts the models
};

struct MonitorOptions {
  bool theory = true;
  int audit_every = 10;     ///< rounds; 0: never
  double smoothness = 0.0;  ///< L_0; 0: the task's own, else what the audit observes
  int memory_mib = 1024;    ///< gradients kept by one rank in an audit; beyond, computed twice
};

void declare(FieldTable& table, Phase1Options& options);
void declare(FieldTable& table, Phase2Options& options);
void declare(FieldTable& table, AdaptOptions& options);
void declare(FieldTable& table, BaselineOptions& options);
void declare(FieldTable& table, MonitorOptions& options);

}  // namespace apo::federation
