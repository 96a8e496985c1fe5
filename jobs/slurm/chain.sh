#!/usr/bin/env bash
# A run as a chain of five jobs, each with its own resources: cluster, train, meta, adapt, evaluate.
# A stage starts when the one before is done, however often that went back into the queue; where one
# fails, those behind it are removed. From the clone's folder, on a login node:
#
#   bash jobs/slurm/chain.sh -c configs/analytic.ini --out runs/a [--section.key VALUE ...]
#   bash jobs/slurm/chain.sh --nodes=4 --time=12:00:00 -- -c F --out DIR     the same for all stages
#   APO_TRAIN="--nodes=8" APO_CLUSTER="--nodes=1 --time=1:00:00" bash jobs/slurm/chain.sh ...
#
# APO_CLUSTER, APO_TRAIN, APO_META, APO_ADAPT and APO_EVALUATE are options of sbatch for one stage;
# they come after those of all stages and win. Prints the job ids. See jobs/slurm/run.sbatch.
set -euo pipefail

common=()
case " $* " in
  *" -- "*)
    while [ "$1" != -- ]; do
      common+=("$1")
      shift
    done
    shift
    ;;
esac
[ $# -gt 0 ] || { sed -n '2,13s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 64; }
script=$(dirname "${BASH_SOURCE[0]}")/run.sbatch

before=
for stage in cluster train meta adapt evaluate; do
  own=APO_${stage^^}
  # Kept while the dependency can still come true, removed when it cannot.
  # shellcheck disable=SC2086 # options of one stage are several words
  before=$(sbatch --parsable --job-name="apo-$stage" \
    ${before:+--dependency="afterok:$before" --kill-on-invalid-dep=yes} \
    ${common[@]+"${common[@]}"} ${!own:-} "$script" "$stage" "$@")
  before=${before%%;*} # a cluster's name may follow
  echo "$stage: job $before"
done
