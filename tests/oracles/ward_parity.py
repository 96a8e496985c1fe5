"""Compares the dendrogram with scipy's Ward linkage: ward_parity.py PRINT_DENDROGRAM

Adjustment vectors are computed here anew. Clients share one bottleneck order, so that the whole
tree is Ward's. scipy's distance d and the merge cost relate by cost = d^2 / 2 for unit weights;
integer weights are checked by repeating points.
"""

import subprocess
import sys

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage


def adjustment(loss, preference):
    weighted = loss * preference
    share = weighted / weighted.sum(1, keepdims=True)
    log_ratio = np.log(loss.shape[1] * share)
    uniformity = (share * log_ratio).sum(1, keepdims=True)
    return preference * (log_ratio - uniformity)


def draw(rng, n, m):
    """n clients whose weighted losses fall from the first objective to the last."""
    preference = rng.dirichlet(np.ones(m), size=n) * 0.9 + 0.1 / m
    weighted = -np.sort(-rng.uniform(0.05, 1.0, size=(n, m)), axis=1)
    return weighted / preference, preference


def run(program, weight, loss, preference, budget):
    n, m = loss.shape
    rows = np.column_stack([weight, loss, preference])
    text = f"{n} {m} {budget}\n" + "\n".join(" ".join(repr(float(x)) for x in r) for r in rows)
    out = subprocess.run([program], input=text, capture_output=True, text=True, check=True).stdout
    merges, labels = out.split("labels\n")
    tree = np.array([[float(x) for x in line.split()] for line in merges.splitlines()])
    return tree.reshape(-1, 4), np.array([int(x) for x in labels.split()])


def same_partition(a, b):
    pairs = set(zip(a.tolist(), b.tolist()))
    return len(pairs) == len(set(a.tolist())) == len(set(b.tolist()))


def main(program):
    rng = np.random.default_rng(5)
    worst = 0.0
    cases = 0
    for n, m in [(2, 2), (3, 3), (17, 2), (60, 3), (131, 3), (131, 5), (400, 4), (1500, 3)]:
        loss, preference = draw(rng, n, m)
        points = adjustment(loss, preference)
        expected = linkage(points, "ward")
        for budget in sorted({1, min(4, n), min(16, n), n}):
            tree, labels = run(program, np.ones(n), loss, preference, budget)
            assert tree.shape == (n - 1, 4), (n, m, tree.shape)
            heights = tree[:, 2]
            assert (np.diff(heights) >= 0).all(), "heights fall"
            error = np.abs(heights - expected[:, 2] ** 2 / 2).max() / heights.max()
            worst = max(worst, error)
            assert error < 1e-12, (n, m, error)
            assert (np.sort(tree[:, :2], 1) == np.sort(expected[:, :2], 1)).all(), (n, m)
            # Cut between two heights and not by maxclust, which may return fewer clusters.
            if budget < n:
                last = expected[n - budget - 1, 2]
                threshold = (last + expected[n - budget, 2]) / 2 if budget > 1 else np.inf
                assert same_partition(labels, fcluster(expected, threshold, "distance"))
            else:
                assert len(set(labels.tolist())) == n
            cases += 1
        # Weights: a client of weight k is k clients at one place.
        if n <= 131:
            weight = rng.integers(1, 6, size=n)
            tree, _ = run(program, weight, loss, preference, 1)
            repeated = linkage(np.repeat(points, weight, axis=0), "ward")[:, 2] ** 2 / 2
            repeated = np.sort(repeated)[-(n - 1):]
            error = np.abs(tree[:, 2] - repeated).max() / repeated.max()
            worst = max(worst, error)
            assert error < 1e-12, (n, m, error)
            assert tree[-1, 3] == weight.sum()
            cases += 1
    print(f"{cases} dendrograms agree with scipy's; largest relative difference {worst:.1e}")


if __name__ == "__main__":
    main(sys.argv[1])
