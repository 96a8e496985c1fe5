#!/bin/bash
# usage: tests/cuda/link.sh [TARGET...]
# Configures the CUDA preset into build-cuda, builds the communicator and a small program on torch
# and NCCL (and further TARGETs, such as apo), and starts it. Needs no GPU; with one it computes too.
# Environment: APO_CUDA_VENV  Python environment with torch 2.14.1 (default .venv-cuda)
#              APO_CUDA_BUILD build folder (default build-cuda)
#              APO_CUDA_JOBS  parallel compilations (default 1)
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
venv=${APO_CUDA_VENV:-$root/.venv-cuda}
build=${APO_CUDA_BUILD:-$root/build-cuda}
if [[ ! -x $venv/bin/python ]]; then
  echo "no Python environment in $venv: python3 -m venv $venv && $venv/bin/pip install torch==2.14.1" >&2
  exit 1
fi
rooms='core;comm'
[[ $# -eq 0 ]] || rooms=all
cmake -S "$root" -B "$build" -G Ninja -DAPO_WITH_CUDA=ON -DAPO_VENV="$venv" -DAPO_ROOMS="$rooms" \
  -DAPO_TEST_CUDA=OFF
cmake --build "$build" -j "${APO_CUDA_JOBS:-1}" --target apo_comm apo_cuda_probe "$@"

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1
export OMPI_MCA_btl=self,vader OMPI_MCA_mpi_yield_when_idle=1
probe=$build/bin/apo_cuda_probe
mpiexec -n 1 --timeout 120 "$probe"
if ! ls /dev/nvidia[0-9]* >/dev/null 2>&1; then # two ranks need two GPUs, or none
  mpiexec -n 2 --oversubscribe --bind-to none --timeout 120 "$probe"
fi
