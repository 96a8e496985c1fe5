"""Starts the program for the whole-run tests. Usage: SUITE_test.py APO SOURCE_DIR MPIEXEC."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

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


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = pathlib.Path(tempfile.mkdtemp(prefix="apo-e2e-"))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.scratch)


def main():
    unittest.main(argv=[sys.argv[0], "-v"])
