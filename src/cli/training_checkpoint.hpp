#pragma once

/// @file
/// The state of the round loop as a checkpoint document, and back.

#include "apo/federation/trainer.hpp"
#include "apo/store/document.hpp"

namespace apo::cli {

/// Adds the state below "state/" and as root attributes.
void put_state(store::Document& document, const federation::TrainingState& state);
/// @throws Error(kData)  a part is missing or has another shape
[[nodiscard]] federation::TrainingState get_state(const store::Document& document);

}  // namespace apo::cli
