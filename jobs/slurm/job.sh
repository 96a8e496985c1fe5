# Sourced by the batch scripts of this folder:
#
#   apo_job DIR COMMAND...   runs COMMAND under the site's launcher and ends the job: with exit code
#                            0 when it is done, back in the queue when it stopped at a checkpoint,
#                            with COMMAND's exit code otherwise
#
# SLURM warns the batch shell alone (--signal=B:USR2@...). The shell passes the signal on to the
# launcher, which passes it on to the ranks; they finish their round, write a checkpoint and end
# with exit code 75. DIR is what counts, not SLURM_RESTART_COUNT: a job that SLURM lost and started
# again has count 0 but finds its checkpoints.

apo_name=${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}
say() { echo "== $(date -u +%FT%TZ) job $apo_name: $*"; }
refuse() {
  say "$*" >&2
  exit 64
}

# The value of --out among apo's options.
apo_out() {
  local out=
  while [ $# -gt 0 ]; do
    case "$1" in
      --out | -o) out=${2:-} ;;
      --out=*) out=${1#--out=} ;;
    esac
    shift
  done
  [ -n "$out" ] || refuse "expected --out DIR: a job that comes back finds its state there"
  echo "$out"
}

# Whatever this job signals while it ends must not reach this shell.
apo_leave() {
  trap '' TERM USR2
  exit "$1"
}

# Whether the time limit has struck. A job that SLURM ends for another reason was cancelled, and
# must not come back, or was preempted or requeued, and does so by itself; job states do not tell
# these apart while the job is completing.
apo_is_out_of_time() {
  local limit days=0 seconds=0 part
  limit=$(squeue -h -j "$SLURM_JOB_ID" -o %l 2>/dev/null) || return 1
  case "$limit" in
    *[!0-9:-]* | '') return 1 ;; # UNLIMITED
    *-*) days=${limit%%-*} limit=${limit#*-} ;;
  esac
  for part in ${limit//:/ }; do seconds=$((seconds * 60 + 10#$part)); done
  [ "$SECONDS" -ge "$((days * 86400 + seconds - 5))" ]
}

# Checkpoints and results under DIR: their names count up, and a checkpoint is only written after a
# round. Equal before and after a restart: nothing was gained.
apo_progress() {
  { find "$1" -name '*.h5' -type f -printf '%P\n' 2>/dev/null || true; } |
    sort | sha256sum | cut -c1-16
}

# Counts stops without progress in DIR/slurm-<first job of this chain of restarts>.stalls.
apo_guard() {
  local dir=$1 file=$1/slurm-$APO_FIRST_JOB.stalls now seen count
  mkdir -p "$dir" # it may have stopped before there was one
  now=$(apo_progress "$dir")
  { read -r count && read -r seen; } 2>/dev/null <"$file" || { count=0 seen=; }
  [ "$now" = "$seen" ] && count=$((count + 1)) || count=0
  printf '%s\n%s\n' "$count" "$now" >"$file"
  if [ "$count" -ge "$APO_MAX_STALLS" ]; then
    say "stopped $((count + 1)) times without a new checkpoint or result: giving up. Give it more" \
        "time per job (--time, --signal) or look into $dir/log.jsonl" >&2
    rm -f "$file"
    apo_leave 70
  fi
}

# A job like this one that starts after it, and takes its place for jobs that wait for it.
apo_follow() {
  local words=(--parsable --dependency="afterany:$SLURM_JOB_ID" --job-name="$SLURM_JOB_NAME"
    --partition="$SLURM_JOB_PARTITION" --nodes="$SLURM_JOB_NUM_NODES"
    --time="$(squeue -h -j "$SLURM_JOB_ID" -o %l)" --chdir="$PWD"
    --output="$(readlink -f "/proc/$$/fd/1")")
  words+=(${SLURM_NTASKS:+--ntasks="$SLURM_NTASKS"}
    ${SLURM_NTASKS_PER_NODE:+--ntasks-per-node="$SLURM_NTASKS_PER_NODE"}
    ${SLURM_CPUS_PER_TASK:+--cpus-per-task="$SLURM_CPUS_PER_TASK"}
    ${SLURM_GPUS_PER_NODE:+--gpus-per-node="$SLURM_GPUS_PER_NODE"}
    ${SLURM_JOB_ACCOUNT:+--account="$SLURM_JOB_ACCOUNT"} ${SLURM_JOB_QOS:+--qos="$SLURM_JOB_QOS"}
    ${SLURM_ARRAY_TASK_ID:+--array="$SLURM_ARRAY_TASK_ID"})
  # shellcheck disable=SC2206 # several options
  words+=(${APO_FOLLOW:-})
  local next waiting needs
  next=$(sbatch "${words[@]}" "$APO_SCRIPT" "${APO_WORDS[@]}") || return 1
  next=${next%%;*} # a cluster's name may follow
  say "job $next goes on from here"
  squeue -h -u "$(id -un)" -t PENDING -o '%i|%E' | grep -E "\bafterok:$SLURM_JOB_ID\b" |
    while IFS='|' read -r waiting needs; do
      needs=$(sed -E "s/\([a-z]*\)//g; s/\bafterok:$SLURM_JOB_ID\b/afterok:$next/g" <<<"$needs")
      scontrol update "jobid=$waiting" "dependency=$needs" && say "job $waiting waits for $next"
    done || true
}

apo_again() {
  local apo_see="see APO_AGAIN in jobs/slurm/site.sh"
  if [ "$apo_ended" = yes ] && ! apo_is_out_of_time; then
    say "stopped at a checkpoint; SLURM ends this job (cancelled, preempted or requeued)"
    apo_leave 75
  fi
  case "$APO_AGAIN" in
    requeue)
      say "stopped at a checkpoint, back into the queue"
      trap '' TERM USR2 # scontrol requeue ends this shell's job at once
      scontrol requeue "$SLURM_JOB_ID" || say "scontrol requeue fails here; $apo_see" >&2
      ;;
    follow)
      say "stopped at a checkpoint, a follow-up job is submitted"
      apo_follow || say "sbatch fails here; $apo_see" >&2
      ;;
    exit) say "stopped at a checkpoint" ;;
    *) refuse "APO_AGAIN: expected requeue, follow or exit, found '$APO_AGAIN'" ;;
  esac
  apo_leave 75
}

apo_job() {
  local dir=$1 rc
  shift
  export APO_FIRST_JOB=${APO_FIRST_JOB:-$SLURM_JOB_ID}
  say "on ${SLURM_JOB_NODELIST:-?}, ${SLURM_NTASKS:-1} ranks, restart ${SLURM_RESTART_COUNT:-0}: $*"

  apo_child='' apo_passed='' apo_ended=no
  apo_pass() {
    apo_passed=$1
    if [ -n "$apo_child" ]; then kill -s "$1" "$apo_child" 2>/dev/null || true; fi
  }
  trap 'apo_pass USR2' USR2
  trap 'apo_passed=TERM apo_ended=yes' TERM # SLURM sends it to the launcher and the ranks as well
  # shellcheck disable=SC2086 # APO_LAUNCH is several words
  $APO_LAUNCH "$@" &
  apo_child=$!
  [ -z "$apo_passed" ] || kill -s USR2 "$apo_child" # it came before there was a child
  # wait returns early, with a code that is not the child's, when a trap runs.
  while kill -0 "$apo_child" 2>/dev/null; do wait "$apo_child" || true; done
  rc=0
  wait "$apo_child" || rc=$? # bash keeps the code of a child that has ended

  # 128 + 12: the signal found ranks that did not listen yet. Nothing was lost, nothing was done.
  if [ "$rc" = 140 ] && [ "$apo_passed" = USR2 ]; then rc=75; fi
  say "exit code $rc${apo_passed:+ after SIG$apo_passed}"
  if [ "$rc" = 75 ]; then
    apo_guard "$dir"
    apo_again
  fi
  rm -f "$dir/slurm-$APO_FIRST_JOB.stalls"
  apo_leave "$rc"
}

: "${APO_HOME:=$PWD}" "${APO_BIN:=$APO_HOME/build/apo}"
source "${APO_SITE:-$APO_HOME/jobs/slurm/site.sh}"
if [ -n "$APO_MODULES" ]; then
  # shellcheck disable=SC2086 # several modules
  module load $APO_MODULES
fi
[ -x "$APO_BIN" ] || refuse "$APO_BIN: expected the program; submit from the clone's folder after" \
  "bash jobs/build.sh release, or set APO_HOME or APO_BIN"
