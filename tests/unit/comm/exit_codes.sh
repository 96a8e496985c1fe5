#!/bin/bash
# usage: exit_codes.sh GROUP PROBE MPIEXEC FLAGS...
# What the launcher returns when rank 1 ends badly: never 0, never a hang, one message that names
# the rank and where it was, and no rank left behind.
# GROUP: ends (a rank ends by itself) or hangs (the watchdog ends the job)
set -u
group=$1 probe=$2
shift 2
launcher=("$@")
failures=0

fail() {
  echo "FAILED $mode on $ranks ranks: $1"
  failures=$((failures + 1))
}

# Processes of this probe with this mark that still run. Zombies have no command line: they are dead,
# and where nobody reaps them they stay.
left_behind() {
  grep -lsz -- "[m]${mark:1}" /proc/[0-9]*/cmdline # does not match itself
}

check() { # mode, time-out, expected code or "nonzero", texts that the output has to contain ...
  mode=$1
  local expected=$3 code output text
  mark="mark-$$-$RANDOM"
  output=$("${launcher[@]}" -n "$ranks" "$probe" "$mode" "$2" "$mark" 2>&1)
  code=$?
  if [[ $expected == nonzero ]]; then
    [[ $code -ne 0 ]] || fail "code 0"
  elif [[ $code -ne $expected ]]; then
    fail "code $code, expected $expected: $output"
  fi
  [[ $output != *"time limit"* ]] || fail "the launcher had to end it: $output"
  shift 3
  for text in "$@"; do
    [[ $output == *"$text"* ]] || fail "'$text' is missing in: $output"
  done
  local said
  said=$(grep -c "watchdog:" <<<"$output")
  [[ $group == ends || $expected == 0 || $said -eq 1 ]] || fail "said $said times: $output"
  [[ $expected != 0 || $said -eq 0 ]] || fail "a false alarm: $output"
  for _ in $(seq 100); do
    [[ -n $(left_behind) ]] || break
    sleep 0.1
  done
  [[ -z $(left_behind) ]] || fail "left behind: $(left_behind)"
  echo "done $mode on $ranks ranks: code $code"
}

client="phase1 round 12 cluster 3 client 17 'alice'"
host=$(uname -n)
if [[ $group == ends ]]; then
  for ranks in 2 3; do
    check well 0 0
    check returns5 0 5
    check abort77 0 77 "[rank 1 $host] probe says goodbye"
    check abort0 0 70 "[rank 1 $host] probe says goodbye"
    check abort300 0 70 "probe says goodbye"
    check throws 0 70 "[rank 1 $host] $client: probe throws"
    check escapes 0 70 "[rank 1 $host] $client: an exception was not caught: probe lets it go"
    check agrees 0 65 "[rank 1 of $ranks, $host] $client: probe throws"
    check exits0 0 70 "[rank 1 $host] $client: the process called exit() in the middle"
    check _exits0 0 nonzero
    check aborts 0 134 "[rank 1 $host] killed by SIGABRT: $client"
    # 139, or the sanitizers' own code
    check segfaults 0 nonzero "[rank 1 $host] killed by SIGSEGV: $client"
    check is_killed 0 137 "rank 1"
  done
else
  for ranks in 2 3; do
    check sleeps 2 74 "rank 1 of $ranks ($host) made no progress for" "in $client;" \
      "rank 0 waits in barrier 1 of all ranks"
    check sleeps_in_sum 2 74 "rank 1 of $ranks ($host) made no progress for" \
      "in phase1 round 12 cluster 3;" "rank 0 waits in all_reduce 1 of all ranks, phase1 round 12"
    check is_stopped 2 74 "rank 1 of $ranks ($host) gives no sign of life" "last seen in $client;"
    check waits_elsewhere 2 74 "in collectives that do not match" \
      "rank 1 waits in barrier 1 of team 0 (ranks 0-$((ranks - 1)))" \
      "rank 0 waits in barrier 2 of all ranks"
  done
  check works_long 2 0
  check is_suspended 2 0
fi
exit $((failures > 0))
