#pragma once

/// @file
/// Room on a file system, looked at before a file is written. Private to store.

#include <cstdint>
#include <filesystem>
#include <optional>

#include "apo/store/document.hpp"

namespace apo::store {

/// Bytes that a document takes at the least: its values and texts, without HDF5's own.
[[nodiscard]] std::uint64_t least_bytes(const Document& document);

/// Bytes that this process may still write below `folder`; empty where the file system does not
/// say (quotas are not seen: a write may fail earlier).
[[nodiscard]] std::optional<std::uint64_t> free_bytes(const std::filesystem::path& folder);

/// @throws BackendError  code ENOSPC: `needed` bytes cannot fit beside `path`; says both numbers
void check_room(const std::filesystem::path& path, std::uint64_t needed);

}  // namespace apo::store
