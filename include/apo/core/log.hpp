#pragma once

/// @file
/// The log of one rank. Rank 0 writes to stdout; the others only warnings, to stderr, with their
/// number and host in front. A JSON line per message goes to a file when one is set.

#include <filesystem>

#include <spdlog/spdlog.h>

namespace apo::log {

/// Call once, after MPI is up. @param rank this process, @param size of the job
void init(int rank, int size);

/// Also writes every message as one JSON object per line, appended to `path` (rank 0 only).
/// @throws Error(kBackend) when the file cannot be opened
void add_json_file(const std::filesystem::path& path);

using spdlog::debug;
using spdlog::error;
using spdlog::info;
using spdlog::warn;

}  // namespace apo::log
