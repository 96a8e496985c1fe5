#!/bin/bash
# usage: mpi_main.sh PROBE MPIEXEC FLAGS...
# The test main itself: failures on one rank of two fail the run, with text, and nothing hangs.
set -u
probe=$1
shift
failures=0

check() { # APO_PROBE, APO_TEST_RANKS, expected code, text that the output has to contain
  local output code
  output=$(APO_PROBE=$1 APO_TEST_RANKS=$2 "${launch[@]}" "$probe" 2>&1)
  code=$?
  if [[ $code -ne $3 ]] || [[ $output != *"$4"* ]]; then
    echo "FAILED '$1': code $code (expected $3), looked for '$4' in:"
    echo "$output"
    failures=$((failures + 1))
  else
    echo "passed '$1': code $code"
  fi
}

export GTEST_COLOR=no
launch=("$@")
check "" 2 0 "[  PASSED  ] 2 tests."
check expect 2 1 "[rank 1/2]"
check expect 2 1 "seen on rank 1 only"
check expect 2 1 "[  FAILED  ] Probe.First"
check assert 2 3 "fatal on rank 1"
check throw 2 3 "thrown on rank 1"
check skip 2 0 "[  PASSED  ] 2 tests."
check "" 3 4 "APO_TEST_RANKS is 3 but the number of ranks is 2"
exit $((failures > 0))
