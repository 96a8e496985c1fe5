"""Starts the program for the whole-run tests. Usage: SUITE_test.py APO SOURCE_DIR MPIEXEC."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import h5py
import numpy as np

APO, SOURCE, MPIEXEC = (pathlib.Path(p) for p in sys.argv[1:4])

# A short run of everything: 3 rounds of Phase I, 2 of Phase II, few prompts.
SHORT = {
    "phase1.rounds": "3",
    "phase1.local_steps": "2",
    "phase1.clients_per_round": "3",
    "phase1.batch_size": "4",
    "phase2.rounds": "2",
    "phase2.clients_per_round": "2",
    "phase2.inner_steps": "2",
    "phase2.inner_batch_size": "4",
    "adapt.steps": "2",
    "adapt.test_clients_per_cluster": "1",
    "evaluate.prompts_per_client": "3",
    "evaluate.samples_per_prompt": "1",
    "checkpoint.every_rounds": "1",
}


def options(settings):
    return [word for key, value in settings.items() for word in (f"--{key}", value)]


def command(ranks, *words):
    start = [MPIEXEC, "-n", str(ranks), "--oversubscribe", "--bind-to", "none"] if ranks > 0 else []
    return [str(w) for w in (*start, APO, *words)]


def apo(*words, ranks=0, timeout=400):
    """Runs to the end; returns (exit code, stdout + stderr). ranks = 0: without mpirun."""
    done = subprocess.run(command(ranks, *words), cwd=SOURCE, text=True, timeout=timeout,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=os.environ)
    return done.returncode, done.stdout


def run_words(out, settings=None, config="configs/quickstart.ini"):
    return ["run", "-c", config, "--out", str(out), *options({**SHORT, **(settings or {})})]


# Wall-clock measurements and what names the machine's state differ from run to run.
TIMES = ("seconds", "seconds_clients", "seconds_reduction", "imbalance")
PLACEMENT = ("clusters/team", "clusters/team_ranks")


def datasets(path):
    found = {}
    with h5py.File(path) as file:
        file.visititems(lambda name, item: found.__setitem__(name, item[()])
                        if isinstance(item, h5py.Dataset) else None)
    return {name: value for name, value in found.items()
            if name.split("/")[-1] not in TIMES and name not in PLACEMENT
            and not name.startswith("performance/ranks/")}


def adapters(out):
    return {str(p.relative_to(out)): p.read_bytes()
            for p in sorted(out.glob("adapters/*/adapter_model.safetensors"))}


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = pathlib.Path(tempfile.mkdtemp(prefix="apo-e2e-"))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.scratch)

    def assert_same_run(self, one, other):
        """Numbers of run.h5, adapter bytes and metrics are equal, times aside."""
        a, b = datasets(one / "run.h5"), datasets(other / "run.h5")
        self.assertEqual(set(a), set(b))
        for name in a:
            self.assertTrue(np.array_equal(a[name], b[name], equal_nan=a[name].dtype.kind == "f"),
                            name)
        self.assertEqual(adapters(one), adapters(other))
        lines = lambda out: [
            {k: v for k, v in json.loads(line).items() if k not in TIMES}
            for line in (out / "metrics.jsonl").read_text().splitlines()]
        self.assertEqual(lines(one), lines(other))

    def assert_same_report(self, one, other):
        """What apo report prints is equal, byte for byte."""
        texts = []
        for out in (one, other):
            code, text = apo("report", out, "--format", "json")
            self.assertEqual(code, 0, text)
            texts.append(text.replace(str(out), "DIR"))
        self.assertEqual(*texts)


def main():
    unittest.main(argv=[sys.argv[0], "-v"])
