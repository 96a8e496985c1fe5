#pragma once

/// @file
/// Identities with a type: a client number cannot be passed where a cluster number is wanted.

#include <compare>
#include <cstdint>

namespace apo {

/// A position in its own table (0-based); negative means "none".
template <class Tag>
struct StrongId {
  std::int32_t value = -1;

  constexpr StrongId() = default;
  constexpr explicit StrongId(std::int32_t v) : value(v) {}
  [[nodiscard]] constexpr bool valid() const noexcept { return value >= 0; }
  [[nodiscard]] constexpr std::size_t index() const noexcept {
    return static_cast<std::size_t>(value);
  }
  friend constexpr auto operator<=>(StrongId, StrongId) = default;
};

using ClientId = StrongId<struct ClientTag>;    ///< row of /clients in the run file
using ClusterId = StrongId<struct ClusterTag>;  ///< row of /clusters in the run file

}  // namespace apo
