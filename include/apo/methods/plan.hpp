#pragma once

/// @file
/// What a run will cost, from numbers alone: rounds and steps, work of every rank, bytes in memory,
/// on the wire and on disk, time. Nothing is loaded, trained or written here. No torch.
///
/// Work is measured in tokens: a forward pass over a pair's two sequences costs its tokens, a
/// backward pass kBackwardWork as many. On analytic tasks a pair counts as one token.

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "apo/data/partition.hpp"
#include "apo/federation/placement.hpp"
#include "apo/methods/experiment.hpp"

namespace apo::methods {

/// Cost of a backward pass through the frozen model over that of the forward pass: gradients of the
/// activations cost as much, those of the adapter a little; weights have none.
inline constexpr double kBackwardWork = 1.2;

/// One client in numbers.
struct ClientWork {
  std::int64_t num_pairs = 0;    ///< train + adapt
  double pool_tokens = 0.0;      ///< of the distinct texts of train + adapt
  double pool_work = 0.0;        ///< gradients of all those pairs
  double held_out_tokens = 0.0;  ///< of the distinct texts of evaluate
  double phase1_step = 0.0;      ///< work of a typical step of Phase I
  double phase2_step = 0.0;      ///< ... of Phase II
  double adapt_step = 0.0;       ///< ... of the adaptation
  int num_prompts = 0;           ///< to answer in one evaluation
};

/// Which gradients of a batch are wanted.
enum class Gradients {
  kNone,          ///< losses only
  kWeighted,      ///< of one weighted sum of the losses
  kPerObjective,  ///< one per objective
};

/// Work of a batch: texts that several objectives label are computed forward once, and backward
/// once, or once for each objective.
/// @param tokens        by pair; empty: each pair is one token
/// @param text_of_pair  see data::Partition; empty: each pair has its own text
[[nodiscard]] double batch_work(const data::Pool& batch, std::span<const int> tokens,
                                std::span<const int> text_of_pair, Gradients gradients);

/// Everything that the plan depends on.
struct PlanInputs {
  ExperimentOptions options;  ///< resolved()
  MethodTraits traits;
  int num_ranks = 1;
  int ranks_per_node = 1;
  int num_objectives = 0;              ///< m
  std::int64_t num_parameters = 0;     ///< P of one adapter
  std::int64_t scheme_parameters = 0;  ///< numbers that a cluster trains: P, or several models
  bool one_by_one = true;  ///< one gradient per objective (false: of a fixed weighting alone)
  int checkpoints_kept = 3;
  int adapter_rank = 0;                       ///< lora.rank; 0: no adapter (analytic tasks)
  bool wide_weights = false;                  ///< a model in float32, which bfloat16 would halve
  std::vector<ClientWork> clients;            ///< by id
  std::vector<std::vector<ClientId>> groups;  ///< members of every trained adapter
  std::vector<ClientId> train_clients;        ///< by id
  std::vector<ClientId> test_clients;         ///< those that are evaluated
};

/// One phase, counted.
struct PhaseCount {
  std::string name;
  int rounds = 0;                  ///< of every cluster
  std::int64_t client_rounds = 0;  ///< participants over all clusters and rounds
  std::int64_t steps = 0;          ///< optimiser steps of clients
};

/// Work of the rank that has most of it, stage by stage; stages end together on all ranks.
struct StageWork {
  double reference_tokens = 0.0;  ///< forward passes of the reference policy
  double forward_tokens = 0.0;    ///< forward passes of a policy
  double gradient_work = 0.0;
  double responses = 0.0;       ///< to be sampled
  double cluster_rounds = 0.0;  ///< rounds of one cluster, each with its sum over the team
  double client_rounds = 0.0;   ///< participants of this rank
  double evaluations = 0.0;     ///< of a test client at one stage
};

struct WorkPlan {
  federation::Placement placement;
  std::vector<PhaseCount> phases;
  std::map<std::string, StageWork> stages;  ///< reference, phase1, audits, phase2, evaluation
  int max_participants_per_rank = 0;        ///< of one cluster in one round of Phase I
  int max_members_per_rank = 0;             ///< of one cluster in an audit
  bool monitored = false;                   ///< theory quantities are taken
  bool keeps_gradients = false;  ///< ... in every round (monitor.memory_mib lets them stay)
  int num_audits = 0;            ///< of every cluster
  int num_checkpoints = 0;
};
[[nodiscard]] WorkPlan plan_work(const PlanInputs& inputs);

/// Seconds per unit of work, measured.
struct UnitSeconds {
  double reference_token = 0.0;
  double forward_token = 0.0;
  double gradient_work = 0.0;
  double response = 0.0;
  double client_round = 0.0;   ///< of a scheme whose work is not known by tokens, else 0
  double cluster_round = 0.0;  ///< sum over the team, theory, records
  double evaluation = 0.0;     ///< of one test client at one stage, beside tokens and responses
  double start = 0.0;          ///< reading the inputs, loading the model
};

struct TimePart {
  std::string name;
  double seconds = 0.0;
};
/// @param checkpoint_bytes  size of a checkpoint and a run file together
[[nodiscard]] std::vector<TimePart> plan_time(const WorkPlan& work, const UnitSeconds& unit,
                                              double checkpoint_bytes);
[[nodiscard]] double total_seconds(std::span<const TimePart> parts);

/// Bytes that one row of a table takes; text columns count `text_bytes` each.
[[nodiscard]] double row_bytes(const Table& table, double text_bytes = 32.0);

/// What the run file and the checkpoints hold per event. Filled by whoever knows the tables.
struct RowBytes {
  double step = 0.0;          ///< a client step
  double round = 0.0;         ///< a cluster and round
  double theory_round = 0.0;  ///< a monitored cluster and round, or an audit
  double theory_client = 0.0;
  double theory_pair = 0.0;
  double client = 0.0;      ///< of the population
  double evaluation = 0.0;  ///< a test client at one stage
  double response = 0.0;
  int num_columns = 0;  ///< data sets of the run file
};

struct DiskPlan {
  double history_bytes = 0.0;            ///< all rows of the tables at the end
  double history_bytes_per_round = 0.0;  ///< growth per round of all clusters
  double run_file_bytes = 0.0;
  double state_bytes = 0.0;       ///< of the largest checkpoint, without the history
  double checkpoint_bytes = 0.0;  ///< the largest one
  double adapter_bytes = 0.0;
  double total_bytes = 0.0;  ///< largest at any time, one checkpoint being written
};
[[nodiscard]] DiskPlan plan_disk(const PlanInputs& inputs, const WorkPlan& work,
                                 const RowBytes& rows);

/// Payload of one round of one cluster and of one audit, per rank, as RoundReport::bytes_reduced.
struct TrafficPlan {
  std::int64_t round_bytes = 0;
  std::int64_t audit_bytes = 0;
  std::int64_t meta_round_bytes = 0;
};
[[nodiscard]] TrafficPlan plan_traffic(const PlanInputs& inputs, const WorkPlan& work);

/// What the memory of a rank depends on beside the plan; bytes.
struct MemoryBasis {
  double libraries = 0.0;  ///< pages of libraries, shared by the ranks of a node
  double process = 0.0;    ///< everything else of a process before it loads the model
  double weights = 0.0;
  double loading = 0.0;           ///< on top of the weights, while they are read
  double activations = 0.0;       ///< of the largest forward and backward pass
  double forward = 0.0;           ///< of the largest forward pass without gradients
  double generation = 0.0;        ///< caches and logits of the largest batch, a merged model
  double first_rank = 0.0;        ///< of HDF5, when rank 0 writes and reads files
  double per_rank_of_node = 0.0;  ///< MPI's memory for each rank of the node
};

/// What a round of Phase I holds while its last participant is at work, beside the pass through the
/// model: gradients, optimiser, what was kept of the participants before.
[[nodiscard]] double step_memory(const PlanInputs& inputs, const WorkPlan& work);
/// Parameters of all clusters with their copies at start rounds and the server optimisers.
[[nodiscard]] double adapter_memory(const PlanInputs& inputs);

struct MemoryPart {
  std::string name;
  double bytes = 0.0;
};

/// The largest resident memory of one rank.
struct MemoryPlan {
  std::vector<MemoryPart> resident;  ///< there all the time
  std::vector<MemoryPart> stages;    ///< on top of it, one stage at a time
  std::string peak_stage;
  double peak = 0.0;         ///< of the rank that needs most (rank 0 keeps the history)
  double peak_others = 0.0;  ///< of a rank that is not rank 0
  double node = 0.0;         ///< all ranks of the first node, libraries once
};
[[nodiscard]] MemoryPlan plan_memory(const PlanInputs& inputs, const WorkPlan& work,
                                     const DiskPlan& disk, const MemoryBasis& basis);

/// The largest memory that a rank takes of its GPU, by arithmetic.
struct DeviceMemory {
  std::vector<MemoryPart> parts;
  double total = 0.0;
};
/// @param model  weights and passes of the model; analytic tasks, with zeros, need no device
[[nodiscard]] DeviceMemory plan_device(const PlanInputs& inputs, const MemoryBasis& model);

/// One change of the configuration or the job that makes the plan fit.
struct Change {
  std::string what;    ///< "--ranks-per-node 3", "monitor.memory_mib = 128"
  std::string effect;  ///< what else it changes
  double bytes = 0.0;  ///< memory of the node, or of the device, with it
};

/// The first of these that fits, from what changes nothing but the job to what changes results:
/// fewer ranks per node, monitor.memory_mib, no audits, no theory, fewer clients per round, a lower
/// rank of the adapters, narrower weights. Empty `what`: none of them does alone.
/// @param limit  bytes of a node
[[nodiscard]] Change smallest_change(const PlanInputs& inputs, const MemoryBasis& basis,
                                     const RowBytes& rows, double limit);

/// Likewise for a GPU of `limit` bytes: narrower weights, then a lower rank of the adapters.
[[nodiscard]] Change smallest_device_change(const PlanInputs& inputs, const MemoryBasis& model,
                                            double limit);

}  // namespace apo::methods
