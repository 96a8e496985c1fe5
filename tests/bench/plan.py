"""Predicted against measured time and memory of whole runs.

    .venv/bin/python tests/bench/plan.py APO [--ranks R] [--smollm2 CONFIG.ini] [--quick]

Plans and runs the demo (configs/quickstart.ini) and, when its configuration is given (jobs/smollm2.sh
leaves one in OUT/smollm2.ini), SmolLM2. The plan is made under mpirun with as many ranks as the run,
so that both feel the same neighbours. Prints one line per part; exit code 1 when the whole time is
off by more than 30 % or the memory of rank 0 by more than 15 %. Wants an idle machine.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import h5py

TIME, MEMORY = 0.30, 0.15
QUICK = ["--phase1.rounds", "6", "--phase2.rounds", "2"]


def peak(pid):
    """Largest VmHWM of a process tree's processes, by rank."""
    peaks = {}
    for status in pathlib.Path("/proc").glob("[0-9]*/status"):
        try:
            environ = (status.parent / "environ").read_bytes()
            rank = dict(e.split(b"=", 1) for e in environ.split(b"\0") if b"=" in e)
            if int(rank.get(b"APO_BENCH_PLAN", b"0")) != pid or b"OMPI_COMM_WORLD_RANK" not in rank:
                continue
            lines = dict(l.split(":", 1) for l in status.read_text().splitlines() if ":" in l)
            number = int(rank[b"OMPI_COMM_WORLD_RANK"])
            peaks[number] = max(peaks.get(number, 0), 1024 * int(lines["VmHWM"].split()[0]))
        except (OSError, KeyError, ValueError):
            pass  # not ours, or just ended
    return peaks


def run(words, environ):
    """(wall seconds, peak bytes by rank) of a job."""
    peaks, done = {}, threading.Event()

    def watch():
        while not done.wait(0.05):
            for rank, value in peak(os.getpid()).items():
                peaks[rank] = max(value, peaks.get(rank, 0))

    watcher = threading.Thread(target=watch)
    watcher.start()
    begin = time.monotonic()
    job = subprocess.run(words, env={**environ, "APO_BENCH_PLAN": str(os.getpid())}, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    wall = time.monotonic() - begin
    done.set()
    watcher.join()
    if job.returncode != 0:
        sys.exit(f"{' '.join(words)}: exit code {job.returncode}\n{job.stdout}")
    return wall, peaks


def compare(name, program, config, ranks, extra, environ):
    mpirun = ["mpirun", "-n", str(ranks)]
    planned = subprocess.run([*mpirun, program, "plan", "-c", config, "--format", "json", *extra],
                             env=environ, text=True, capture_output=True, check=True)
    plan = json.loads(planned.stdout)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="apo-bench-plan-"))
    try:
        wall, peaks = run([*mpirun, program, "run", "-c", config, "--out", str(folder / "run"),
                           *extra], environ)
        with h5py.File(folder / "run" / "run.h5") as file:
            parts = dict(zip(file["performance/part"].asstr()[:], file["performance/seconds"][:]))
            clients = float(file["phase1/rounds/seconds_clients"][:].sum()) if ranks == 1 else None
    finally:
        shutil.rmtree(folder)
    seconds = plan["seconds"]
    population = seconds["start"] + seconds["reference"] + seconds.get("warm-up", 0)
    training = seconds["audits"] + seconds["phase1"] + seconds["phase2"] + seconds["checkpoints"]
    print(f"{name}, {ranks} ranks (calibration {plan['calibration_seconds']:.1f} s)")
    for part, expected in (("population", population), ("training", training),
                           ("evaluation", seconds["evaluation"])):
        print(f"  {part:<12} planned {expected:8.1f} s   run {parts[part]:8.1f} s")
    if clients is not None:
        print(f"  {'phase1':<12} planned {seconds['phase1']:8.1f} s   run {clients:8.1f} s (clients)")
    time_error = seconds["total"] / wall - 1
    print(f"  {'whole run':<12} planned {seconds['total']:8.1f} s   run {wall:8.1f} s   "
          f"{100 * time_error:+.1f} % (limit {100 * TIME:.0f} %)")
    good = abs(time_error) <= TIME
    for rank, value in sorted(peaks.items()):
        expected = plan["memory_bytes"]["rank_0" if rank == 0 else "other_ranks"]
        error = expected / value - 1
        good = good and abs(error) <= MEMORY
        print(f"  peak, rank {rank} planned {expected / 2**20:8.1f} MiB run {value / 2**20:8.1f} MiB "
              f"{100 * error:+.1f} % (limit {100 * MEMORY:.0f} %)")
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("apo")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--smollm2", help="configuration of a run of SmolLM2")
    parser.add_argument("--quick", action="store_true", help="fewer rounds of the demo")
    arguments = parser.parse_args()
    environ = {"OMP_NUM_THREADS": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1",
               "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OMPI_MCA_rmaps_base_oversubscribe": "1",
               "OMPI_MCA_hwloc_base_binding_policy": "none",
               "OMPI_MCA_mpi_yield_when_idle": "1", **os.environ}
    good = compare("demo", arguments.apo, "configs/quickstart.ini", arguments.ranks,
                   QUICK if arguments.quick else [], environ)
    if arguments.smollm2:
        good = compare("SmolLM2", arguments.apo, arguments.smollm2, arguments.ranks, [],
                       environ) and good
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
