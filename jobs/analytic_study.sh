#!/usr/bin/env bash
# Methods and cluster budgets on a task with a known answer (configs/analytic.ini: 1,000 clients):
# mean Chebyshev gap of 200 new clients, with intervals over the seeds.
#
#   bash jobs/analytic_study.sh
#   APO_RANKS=3 bash jobs/analytic_study.sh             other numbers of ranks, the same results
#   APO_SEEDS="1 2" APO_BUDGETS="1 4" bash jobs/analytic_study.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

bash jobs/setup.sh
bash jobs/build.sh release
source jobs/mpi_env.sh

out=${APO_OUT:-runs/analytic}
dirs=()
run() { # seed, name, then what differs from configs/analytic.ini
  local seed=$1 dir=$out/$2-$1
  shift 2
  mkdir -p "$out"
  mpirun -n "${APO_RANKS:-2}" build/apo run -c configs/analytic.ini --out "$dir" \
    --runtime.seed "$seed" "$@" > "$dir.log" 2>&1 || { cat "$dir.log"; exit 1; }
  dirs+=("$dir")
}
for seed in ${APO_SEEDS:-1 2 3 4 5}; do
  echo "== seed $seed"
  for budget in ${APO_BUDGETS:-1 2 3 4 6 8 12 16}; do
    run "$seed" "apo-$budget" --clustering.budget "$budget"
  done
  # One model for all. The participants per round are those that 16 clusters take together.
  for method in fedavg firm server_mgda; do
    run "$seed" "$method" --method.name "$method" --clustering.method none \
      --phase1.clients_per_round 128
  done
done

build/apo report "${dirs[@]}"
