#!/usr/bin/env bash
# Everything that is tested: sets up, builds the release preset, runs CTest.
#
#   bash tests/run.sh                    arguments go to CTest: bash tests/run.sh -R direction
#   APO_TEST_CUDA=1 bash tests/run.sh    also compiles and links the CUDA preset (no GPU needed, but
#                                        5.4 GB of packages); on by default where CI=true
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

bash jobs/setup.sh
# A real checkpoint for the tests that compare with its published ids and log-probabilities.
bash jobs/fetch_smollm2.sh || echo "run.sh: SmolLM2 cannot be had, its tests will be skipped"
bash jobs/build.sh release
source jobs/mpi_env.sh

log=build/ctest.log
status=0
# Three at a time on two cores: many wait, for a signal, a disk or a scheduler. The long ones first.
ctest --test-dir build -j3 --output-on-failure --no-tests=error "$@" | tee "$log" || status=$?

if [ "$status" = 0 ] && { [ "${APO_TEST_CUDA:-}" = 1 ] || [ "${CI:-}" = true ]; }; then
  { APO_TORCH=cuda bash jobs/setup.sh && APO_CUDA_JOBS=2 bash tests/cuda/link.sh apo; } || status=$?
fi

grep -E '^[0-9]+% tests passed' "$log" || true # CTest's closing line, last
exit "$status"
