#!/usr/bin/env bash
# nccl_exit_codes.sh PROBE MPIEXEC FLAGS...: exit codes and messages when NCCL hangs for good.
set -u
probe=$1
launcher=$2
shift 2
flags=("$@")
failures=0

check() {  # mode, expected code, text that stderr has to contain
  local errors code
  errors=$("$launcher" "${flags[@]}" "$probe" "$1" 2>&1 >/dev/null)
  code=$?
  if [[ $code -ne $2 ]]; then
    echo "FAILED $1: code $code, expected $2: $errors"
    failures=$((failures + 1))
  elif [[ $errors != *"$3"* ]]; then
    echo "FAILED $1: '$3' is missing in: $errors"
    failures=$((failures + 1))
  else
    echo "passed $1: code $code"
  fi
}

host=$(hostname)
check well 0 ""
check silent 74 "ncclAllReduce failed with code 7: no answer from world rank 1 within 1 s [operation 3"
check abort-hangs 74 "ncclCommAbort did not return within 0.5 s; operation 3 of the team of world ranks 0-1; remote process exited"
check init-hangs 74 "ncclCommInitRankConfig failed with code 7: no answer from world rank 1"
check destroy-hangs 74 "[rank 1 $host] ncclCommDestroy did not return within 0.5 s; operation 4"
check destructor-hangs 74 "[rank 1 $host] ncclCommAbort did not return within 0.5 s; operation 2"
exit $((failures > 0))
