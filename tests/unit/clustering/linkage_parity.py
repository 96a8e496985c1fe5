"""Compares dendrograms of preferences with scipy's linkages: linkage_parity.py PRINT_DENDROGRAM

Under method hc the heights of average, complete and single linkage are scipy's distances, Ward's
cost is d^2 / 2. Integer weights are checked by repeating points: joining those costs scipy nothing.
"""

import subprocess
import sys

import numpy as np
from scipy.cluster.hierarchy import linkage


def run(program, kind, weight, preference):
    n, m = preference.shape
    rows = np.column_stack([weight, np.ones((n, m)), preference])
    text = f"{n} {m} 1\n" + "\n".join(" ".join(repr(float(x)) for x in r) for r in rows)
    out = subprocess.run([program, "hc", kind], input=text, capture_output=True, text=True,
                         check=True).stdout
    merges = out.split("labels\n")[0]
    return np.array([[float(x) for x in line.split()] for line in merges.splitlines()])


def main(program):
    rng = np.random.default_rng(6)
    cases = 0
    worst = 0.0
    for kind in ("ward", "average", "complete", "single"):
        def to_height(d):
            return d**2 / 2 if kind == "ward" else d

        for n, m in [(2, 2), (25, 2), (131, 3), (400, 4), (1200, 3)]:
            preference = rng.dirichlet(np.ones(m), size=n)
            tree = run(program, kind, np.ones(n), preference)
            expected = linkage(preference, kind)
            error = np.abs(tree[:, 2] - to_height(expected[:, 2])).max() / tree[-1, 2]
            assert error < 1e-12, (kind, n, m, error)
            assert (np.sort(tree[:, :2], 1) == np.sort(expected[:, :2], 1)).all(), (kind, n, m)
            worst = max(worst, error)
            cases += 1
        preference = rng.dirichlet(np.ones(3), size=80)
        weight = rng.integers(1, 6, size=80)
        tree = run(program, kind, weight, preference)
        repeated = linkage(np.repeat(preference, weight, axis=0), kind)
        heights = np.sort(to_height(repeated[:, 2]))[-79:]
        error = np.abs(tree[:, 2] - heights).max() / tree[-1, 2]
        assert error < 1e-12, (kind, "weights", error)
        assert tree[-1, 3] == weight.sum()
        worst = max(worst, error)
        cases += 1
    print(f"{cases} dendrograms agree with scipy's; largest relative difference {worst:.1e}")


if __name__ == "__main__":
    main(sys.argv[1])
