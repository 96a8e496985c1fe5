"""Wall time of a sweep over budgets against separate runs of the same budgets.

    .venv/bin/python tests/bench/sweep.py [--apo build/apo] [--ranks 1] [--budgets 16] [--rounds 200]
                                          [--section.key VALUE ...]

Runs the budgets 1..B of configs/analytic.ini with apo run, one after the other, then all of them
with apo sweep, in fresh folders, on the same ranks. A sweep trains 2B - 1 clusters where the runs
train B (B + 1) / 2; the rest (starting the program, clustering, writing) is measured with it. In the
configuration as it is, 8 dimensions and the theory monitor, writing its tables is half of the time,
and every budget has its own; so the task has 2000 dimensions here and no monitor, and clients' steps
weigh as they do with models. Options after those above change that.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]


def timed(words):
    begin = time.perf_counter()
    done = subprocess.run(words, cwd=SOURCE, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    seconds = time.perf_counter() - begin
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}\n{done.stdout[-2000:]}exit code {done.returncode}")
    return seconds, done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--apo", default=str(SOURCE / "build" / "apo"))
    parser.add_argument("--mpiexec", default="mpirun")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--budgets", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=200)
    given, more = parser.parse_known_args()
    start = [given.mpiexec, "-n", str(given.ranks), "--bind-to", "none"] if given.ranks > 1 else []
    common = ["-c", "configs/analytic.ini", "--task.analytic.dimension", "2000",
              "--monitor.theory", "false", "--phase1.rounds", str(given.rounds), *more]
    distinct = 2 * given.budgets - 1
    total = given.budgets * (given.budgets + 1) // 2
    with tempfile.TemporaryDirectory(prefix="apo-bench-sweep-") as scratch:
        alone = []
        for budget in range(1, given.budgets + 1):
            seconds, _ = timed([*start, given.apo, "run", *common, "--clustering.budget",
                                str(budget), "--out", f"{scratch}/alone-{budget}"])
            alone.append(seconds)
            print(f"budget {budget:2d} alone {seconds:8.2f} s", flush=True)
        seconds, log = timed([*start, given.apo, "sweep", *common, "--budgets",
                              f"1-{given.budgets}", "--out", f"{scratch}/sweep"])
        folders = len(list(pathlib.Path(scratch, "sweep", "clusters").glob("*/result.h5")))
    trained = int(re.search(r"trained_here=(\d+)", log).group(1))
    share = distinct / total
    ratio = seconds / sum(alone)
    print(f"separate runs {sum(alone):.2f} s, sweep {seconds:.2f} s: ratio {ratio:.3f}; clusters "
          f"{distinct}/{total} = {share:.3f}, and 10 % more {1.1 * share:.3f}")
    print(f"clusters trained {trained}, kept {folders}, expected {distinct}")
    met = ratio <= 1.1 * share and trained == folders == distinct
    print("met" if met else "not met")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
