#!/usr/bin/env bash
# From a fresh clone to results: sets up, builds, runs four methods on the demo domain with the same
# clients and held-out prompts, and prints one table per cluster.
#
#   bash jobs/quickstart.sh
#   APO_RANKS=4 bash jobs/quickstart.sh                 other numbers of ranks, the same results
#   APO_SEEDS="1 2 3 4 5" bash jobs/quickstart.sh       more seeds: intervals over seeds
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

bash jobs/setup.sh
bash jobs/build.sh release
source jobs/mpi_env.sh

out=runs/quickstart
dirs=()
run() { # seed, name, then what differs from configs/quickstart.ini
  local seed=$1 name=$2
  shift 2
  echo "== $name, seed $seed"
  mpirun -n "${APO_RANKS:-2}" build/apo run -c configs/quickstart.ini --out "$out/$name-$seed" \
    --runtime.seed "$seed" "$@"
  dirs+=("$out/$name-$seed")
}
for seed in ${APO_SEEDS:-1}; do
  run "$seed" base --method.name base
  # As many client steps per round as the four clusters of the other methods take together.
  run "$seed" fedavg --method.name fedavg --direction.solver fixed --phase1.clients_per_round 16
  run "$seed" lambda --method.name apo --direction.solver fixed
  run "$seed" apo --method.name apo --direction.solver apo_lp
done

build/apo report "${dirs[@]}"
