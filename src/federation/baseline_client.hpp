#pragma once

/// @file
/// Inside the room: one client's local steps under weights that somebody else decides: the server
/// (algorithms.md 3.6), its own preference (2.7), or one objective alone (section 6).

#include <span>
#include <vector>

#include "apo/core/clock.hpp"
#include "apo/federation/batch_sampler.hpp"
#include "apo/federation/optimizer.hpp"
#include "apo/federation/round_scheme.hpp"

namespace apo::federation {

/// The pool with one objective left.
[[nodiscard]] data::Pool only_objective(const data::Pool& pool, std::size_t objective);

/// `values` where `present`, scaled to sum 1; 0 elsewhere. All 0 when nothing remains.
[[nodiscard]] std::vector<double> restricted_to(std::span<const double> values,
                                                const std::vector<bool>& present);

/// What is common to the local runs of one round.
struct LocalSetting {
  const RoundResources& resources;
  const RoundPlan& plan;
  bool unit_gradients = false;  ///< every step's gradient is scaled to norm 1 (0 stays 0)
};

/// Local training of one client from a given start: optimiser of [phase1], its state new. Once a
/// number is not finite, nothing more happens: see finite().
class LocalRun {
 public:
  /// @param start       [P]; kept by reference
  /// @param first_step  number of the first step, for its records and its dropout: a client that
  ///                    trains several times in a round numbers all its steps in one sequence
  LocalRun(const LocalSetting& setting, const data::Client& client, const data::Pool& pool,
           std::span<const float> start, int first_step = 0);

  /// Begins a step: draws the next batch and computes all m gradients where the client stands.
  void begin_step();
  /// [m, P] of begin_step(); rows of absent objectives are 0.
  [[nodiscard]] std::span<const float> gradients() const { return gradients_; }
  [[nodiscard]] std::span<const double> loss() const { return open_.loss; }  ///< of begin_step()
  [[nodiscard]] const std::vector<bool>& present() const { return present_; }
  /// Ends it along sum_j w_j g_j, the weights restricted to the objectives of the batch.
  void end_step(std::span<const double> weights);

  /// A whole step along the gradient of sum_j w_j l_j alone, the weights restricted to the
  /// objectives of the batch.
  void step(std::span<const double> weights);

  [[nodiscard]] const data::Client& client() const { return client_; }
  [[nodiscard]] bool finite() const { return finite_; }
  /// Leaves the round before a first step, since no start is usable. @param loss  [m], recorded
  void fail(std::vector<double> loss);
  /// w - start, [P]; also looks whether it is finite.
  [[nodiscard]] std::vector<float> delta();
  [[nodiscard]] std::vector<StepRecord> take_records() { return std::move(records_); }

 private:
  [[nodiscard]] objective::Batch next_batch();
  [[nodiscard]] objective::StepKey step_key() const;
  void open_record();
  bool close_if_not_finite(const objective::Evaluation& evaluation, bool numbers_are_finite);
  void close_failed();
  void describe(std::span<const double> weights);
  void move(std::span<const double> weights);

  const LocalSetting setting_;
  const data::Client& client_;
  std::span<const float> start_;
  std::vector<float> parameters_;
  BatchSampler sampler_;
  AdamWState adam_;
  std::vector<float> gradients_;
  std::vector<float> direction_;
  std::vector<bool> present_;
  StepRecord open_;
  std::vector<StepRecord> records_;
  Stopwatch watch_;
  int next_step_;
  bool finite_ = true;
};

}  // namespace apo::federation
