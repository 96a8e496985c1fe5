#!/bin/bash
# usage: exit_codes.sh PROBE MPIEXEC FLAGS...
# What the launcher returns when rank 1 of 2 ends badly: never 0, never a hang, with our message.
set -u
probe=$1
shift
failures=0

check() { # mode, expected code ("nonzero" for any but 0), text that stderr has to contain
  local errors code
  errors=$("$launcher" "${flags[@]}" "$probe" "$1" 2>&1 >/dev/null)
  code=$?
  if { [[ $2 == nonzero ]] && [[ $code -eq 0 ]]; } || { [[ $2 != nonzero ]] && [[ $code -ne $2 ]]; }; then
    echo "FAILED $1: code $code, expected $2"
    failures=$((failures + 1))
  elif [[ $errors != *"$3"* ]]; then
    echo "FAILED $1: '$3' is missing in: $errors"
    failures=$((failures + 1))
  else
    echo "passed $1: code $code"
  fi
}

launcher=$1
shift
flags=("$@")
check well 0 ""
check returns 5 ""
check abort=77 77 "probe says goodbye"
check abort=77 77 "[rank 1 "
check abort=0 70 "probe says goodbye"
check abort=300 70 "probe says goodbye"
check escapes 70 "an exception was not caught: probe lets an exception go"
check exit0 nonzero ""
exit $((failures > 0))
