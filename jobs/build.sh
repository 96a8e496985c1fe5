#!/usr/bin/env bash
# Configures and builds one preset: bash jobs/build.sh release|asan|tsan|cuda [CMake options]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=${1:-release}
shift || true
# A source that includes tensor headers takes up to 1.5 GB to compile.
gigabytes=$(awk '/MemAvailable/ {print int($2 / 1048576)}' /proc/meminfo)
jobs=$((gigabytes / 2 < $(nproc) ? gigabytes / 2 : $(nproc)))
# Clones in different folders share ccache entries.
export CCACHE_BASEDIR="$PWD" CCACHE_NOHASHDIR=1
cmake --preset "$preset" "$@"
cmake --build --preset "$preset" -j "$((jobs > 0 ? jobs : 1))"
