#include "apo/federation/options.hpp"

namespace apo::federation {

void declare(FieldTable& table, Phase1Options& options) {
  table.integer("phase1.rounds", options.rounds, {0, 1000000}, "rounds", "Rounds of Phase I");
  table.integer("phase1.local_steps", options.local_steps, {1, 100000}, "steps",
                "Optimiser steps of a client per round");
  table.integer("phase1.batch_size", options.batch_size, {1, 100000}, "pairs",
                "Pairs per micro-batch, spread over the objectives");
  table.integer("phase1.gradient_accumulation", options.gradient_accumulation, {1, 100000},
                "micro-batches", "Micro-batches per optimiser step; one LP per step");
  table.real("phase1.learning_rate", options.learning_rate, {0.0, 1e3, true}, "",
             "Client learning rate in the first round");
  table.real("phase1.learning_rate_final", options.learning_rate_final, {0.0, 1e3, false}, "",
             "Client learning rate that the cosine over the rounds tends to");
  table.integer("phase1.clients_per_round", options.clients_per_round, {1, 1000000}, "clients",
                "Clients sampled per cluster and round");
  table.choice("phase1.optimizer", options.optimizer, {"adamw", "sgd"},
               "Client optimiser; its state is new in every round");
  table.real("phase1.gradient_clip", options.gradient_clip, {0.0, 1e9, false}, "",
             "Largest norm of the direction with adamw; 0 does not clip");
  table.real("phase1.server_learning_rate", options.server_learning_rate, {0.0, 1e3, true}, "",
             "Step of the server along the mean client update");
  table.choice("phase1.aggregation", options.aggregation, {"pairs", "uniform"},
               "Weights of the clients' updates: in proportion to their pairs, or equal");
}

void declare(FieldTable& table, Phase2Options& options) {
  table.integer("phase2.rounds", options.rounds, {0, 1000000}, "rounds", "Rounds of Phase II");
  table.integer("phase2.shots", options.shots, {1, 100000}, "pairs", "Support pairs per episode");
  table.integer("phase2.inner_steps", options.inner_steps, {1, 100000}, "steps",
                "Steps of a client in an episode");
  table.real("phase2.inner_learning_rate", options.inner_learning_rate, {0.0, 1e3, true}, "",
             "Learning rate inside an episode");
  table.integer("phase2.inner_batch_size", options.inner_batch_size, {1, 100000}, "pairs",
                "Pairs per step of an episode; also of the adaptation");
  table.choice("phase2.inner_optimizer", options.inner_optimizer, {"adamw", "sgd"},
               "Client optimiser inside an episode, new in each; also of the adaptation");
  table.real("phase2.gradient_clip", options.gradient_clip, {0.0, 1e9, false}, "",
             "Largest norm of the direction inside an episode; 0 does not clip");
  table.integer("phase2.clients_per_round", options.clients_per_round, {1, 1000000}, "clients",
                "Clients sampled per cluster and round");
  table.choice("phase2.server_optimizer", options.server_optimizer, {"adamw", "sgd"},
               "Server optimiser; its state lives through all rounds of Phase II");
  table.real_list("phase2.server_learning_rate", options.server_learning_rate, {0.0, 1e3, true},
                  "Server learning rate: one for all clusters, or one per cluster");
  table.real_list("phase2.server_weight_decay", options.server_weight_decay, {0.0, 1e3, false},
                  "Server weight decay: one for all clusters, or one per cluster");
  table.integer_list("phase2.start_rounds", options.start_rounds, {1, 1000000},
                     "Phase I rounds whose adapters Phase II starts from, each on its own; empty: "
                     "the last round");
}

void declare(FieldTable& table, AdaptOptions& options) {
  table.integer("adapt.shots", options.shots, {1, 100000}, "pairs",
                "Pairs of a new client that it may adapt on");
  table.integer("adapt.steps", options.steps, {0, 100000}, "steps", "Adaptation steps");
  table.real("adapt.learning_rate", options.learning_rate, {0.0, 1e3, true}, "",
             "Learning rate of the adaptation");
  table.integer("adapt.test_clients_per_cluster", options.test_clients_per_cluster, {1, 1000000},
                "clients", "At most so many new clients are tested per cluster");
  table.choice("adapt.samples", options.samples, {"reuse", "fresh"},
               "reuse: all steps draw from one support set of adapt.shots pairs; fresh: each step "
               "takes adapt.shots pairs that were not used before, as far as they last");
}

void declare(FieldTable& table, MonitorOptions& options) {
  table.flag("monitor.theory", options.theory,
             "Record the theory quantities of every round of Phase I (needs a Gram matrix)");
  table.integer("monitor.audit_every", options.audit_every, {0, 1000000}, "rounds",
                "Every so many rounds all clients of a cluster are audited at the same adapter; 0: "
                "never");
  table.real("monitor.smoothness", options.smoothness, {0.0, 1e12, false}, "",
             "Lipschitz constant of the gradients (L_0) that the conditions use; 0: the task's own "
             "where it is known, else what the audit observes");
  table.integer("monitor.memory_mib", options.memory_mib, {1, 1000000}, "MiB",
                "Gradients that may be kept for the theory quantities; an audit beyond computes "
                "them twice, another round is not monitored");
}

}  // namespace apo::federation
