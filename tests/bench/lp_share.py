"""Share of the linear program in a client step of a run.

    .venv/bin/python tests/bench/lp_share.py RUN_DIR [BENCH_LP_STEP]

Takes the step times of RUN_DIR/run.h5 and the time of one call from the benchmark, on this machine.
"""

import pathlib
import re
import subprocess
import sys

import h5py
import numpy as np


def main():
    run = pathlib.Path(sys.argv[1])
    bench = sys.argv[2] if len(sys.argv) > 2 else "build/bin/bench_lp_step"
    with h5py.File(run / "run.h5") as file:
        seconds = file["phase1/steps/seconds"][:]
        m = file["phase1/steps/mu"].shape[1]
    if len(seconds) == 0:
        sys.exit(f"{run}/run.h5: no steps of Phase I")
    text = subprocess.run([bench], capture_output=True, text=True, check=True).stdout
    calls = dict(re.findall(r"^apo_lp +(\d+) +([0-9.]+)", text, re.MULTILINE))
    if str(m) not in calls:
        sys.exit(f"{bench} measures m = {', '.join(calls)}; the run has {m} objectives")
    call = float(calls[str(m)]) * 1e-6
    step = float(np.median(seconds))
    print(f"{len(seconds)} steps, median {step:.3g} s; one call at m = {m}: {call * 1e6:.2f} us; "
          f"share {call / step:.2g}")


if __name__ == "__main__":
    main()
