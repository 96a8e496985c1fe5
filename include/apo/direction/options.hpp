#pragma once

/// @file
/// [direction] of the configuration.

#include <string>

#include "apo/core/field_table.hpp"

namespace apo::direction {

struct DirectionOptions {
  /// apo_lp | fixed | epo | mgda | firm | cagrad | pcgrad | nash_mtl | upgrad | dual_proj |
  /// aligned_mtl | imtl_g | smooth_chebyshev
  std::string solver = "apo_lp";
  double beta_tolerance = 1e-4;
  /// c_noise of algorithms.md 1.3: the tolerance becomes max(beta_tolerance, c beta_noise); 0: off
  double beta_noise_factor = 0.0;
  /// Leave the uniform mode only above this multiple of the tolerance; 1: no hysteresis
  double beta_hysteresis = 1.0;
  double bottleneck_tolerance = 1e-9;  ///< eps_star of algorithms.md 1.1
  double ascent_tolerance = 1e-6;      ///< eps_J of algorithms.md 1.1 (float32 gradients)
  double loss_floor = 1e-12;
  std::string uniform_guard = "none";  ///< none | epo_restricted (algorithms.md 1.1)
  std::string lp_tie = "vertex";       ///< vertex | lexicographic (algorithms.md 1.4, 6)
  double lp_regulariser = 0.0;         ///< beta_R of - (beta_R / 2) ||mu||^2, over max_j C_jj
  double mix_floor = 0.0;              ///< weight = (1 - f) mu + f / m
  std::string gradient_normalisation = "none";  ///< none | l2 | loss | loss+
  std::string epo_mode = "restricted";          ///< restricted | relaxed
  double firm_beta = 0.01;
  std::string firm_preference = "scaled";   ///< none | paper | scaled (algorithms.md 3.2)
  std::string gram_normalisation = "none";  ///< none | mean_diagonal (algorithms.md 3.3)
  double cagrad_radius = 0.5;               ///< c
  double chebyshev_smoothing = 0.1;         ///< mu of the smooth Chebyshev scalarisation
};

void declare(FieldTable& table, DirectionOptions& options);

}  // namespace apo::direction
