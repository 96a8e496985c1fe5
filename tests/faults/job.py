"""A job that the tests harm: started on any number of ranks, watched through its folder."""

import atexit
import contextlib
import ctypes
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import h5py
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness  # noqa: E402

HANG = 300.0  # seconds after which a job counts as hung, on a busy machine as well
BACKEND = 74  # exit code: cannot write
BAD_DATA = 65  # exit code: damaged files
CLUSTERS = 4

# Everything that a checkpoint can hold: two start rounds of Phase II, the server's optimiser, the
# clients' modes, the theory tables; a checkpoint every other round.
SETTINGS = {
    "task.analytic.clients": "40",
    "task.analytic.test_clients": "12",
    "clustering.budget": str(CLUSTERS),
    "direction.beta_hysteresis": "4",
    "direction.beta_tolerance": "1e-2",
    "phase1.rounds": "120",
    "phase1.clients_per_round": "2",
    "phase1.local_steps": "1",
    "phase2.rounds": "8",
    "phase2.clients_per_round": "2",
    "phase2.inner_steps": "1",
    "phase2.start_rounds": "40,120",
    "phase2.server_optimizer": "adamw",
    "phase2.server_learning_rate": "0.01",
    "monitor.audit_every": "40",
    "checkpoint.every_rounds": "2",
}
SHORT = {"phase1.rounds": "30", "phase2.start_rounds": "16,30", "phase2.rounds": "4"}


def analytic(out, settings=None):
    """Words of a whole run on the small analytic task."""
    return ["run", "-c", "configs/analytic.ini", "--out", str(out),
            *harness.options({**SETTINGS, **(settings or {})})]


def generations(out):
    """Published checkpoints, by number. Only whole names count."""
    found = {}
    with contextlib.suppress(FileNotFoundError):
        for path in (out / "checkpoints").iterdir():
            if match := re.fullmatch(r"checkpoint-(\d{6,})\.h5", path.name):
                found[int(match[1])] = path
    return found


def newest(out):
    return max(generations(out), default=0)


def temporaries(out):
    return {path for folder in (out, out / "checkpoints") if folder.is_dir()
            for path in folder.iterdir() if path.name.startswith(".tmp-")}


def metrics(out):
    """Whole rows of metrics.jsonl, wall-clock fields aside. A torn last line is left out."""
    path = out / "metrics.jsonl"
    text = path.read_text() if path.exists() else ""
    whole = text[:text.rfind("\n") + 1]
    return [{key: value for key, value in json.loads(line).items() if key not in harness.TIMES}
            for line in whole.splitlines()]


def is_complete(out):
    status = out / "status.json"
    return status.exists() and json.loads(status.read_text())["state"] == "complete"


def resumed_from(log):
    """Generation that the job said it continues from; None when it did not say."""
    match = re.search(r"continuing from checkpoint (\d+)", log)
    return int(match[1]) if match else None


def same(a, b):
    return a.shape == b.shape and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


def die_with_parent():
    """A test that is killed itself leaves no job behind: its launcher dies, and so do the ranks."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Job:
    """One life of a run. ranks = 0: without mpirun."""

    numbers = itertools.count()

    def __init__(self, words, ranks, scratch):
        self.ranks = ranks
        self.log_path = scratch / f"life-{next(self.numbers):04d}.log"
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(harness.command(ranks, *words), cwd=harness.SOURCE,
                                            stdout=log, stderr=subprocess.STDOUT,
                                            start_new_session=True, preexec_fn=die_with_parent)

    @property
    def pid(self):
        return self.process.pid

    def log(self):
        return self.log_path.read_text(errors="replace")

    def session(self):
        """(pid, is a rank) of the job's live processes. Zombies that nobody reaps are dead."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                state, _, _, session = (entry / "stat").read_text().rsplit(")", 1)[1].split()[:4]
                program = os.readlink(entry / "exe")
            except (OSError, ValueError):
                continue
            if int(session) == self.pid and state not in "ZX":
                name = pathlib.Path(program.removesuffix(" (deleted)")).name
                found.append((int(entry.name), name == harness.APO.name))
        return found

    def rank_pids(self):
        """Sorted by rank."""
        def rank(pid):
            with contextlib.suppress(OSError):
                for word in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                    if word.startswith(b"OMPI_COMM_WORLD_RANK="):
                        return int(word.split(b"=")[1])
            return 0
        return sorted((pid for pid, is_rank in self.session() if is_rank), key=rank)

    def running(self):
        return self.process.poll() is None

    def wait_until(self, condition, seconds=HANG):
        """False when the job ended first. Raises when it neither ends nor gets there."""
        deadline = time.monotonic() + seconds
        while not condition():
            if not self.running():
                return False
            if time.monotonic() > deadline:
                self.destroy()
                raise AssertionError(f"hung: no end after {seconds:.0f} s\n{self.log()}")
            time.sleep(0.002)
        return True

    def wait(self, seconds=HANG):
        """Exit code, once every process of the job is gone."""
        self.wait_until(lambda: False, seconds)
        deadline = time.monotonic() + seconds
        while left := self.session():
            if time.monotonic() > deadline:
                self.destroy()
                raise AssertionError(f"processes {left} outlive their job\n{self.log()}")
            time.sleep(0.01)
        return self.process.returncode

    def signal(self, pids, number):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill(self, kind, rng):
        """kill -9 of 'rank' (one), 'ranks' (all), 'mpirun', or 'job' (everything at once)."""
        ranks = self.rank_pids()
        if kind == "mpirun" or not ranks:  # not started yet: there is nothing else to kill
            self.signal([self.pid], signal.SIGKILL)
        elif kind == "rank":
            self.signal([rng.choice(ranks)], signal.SIGKILL)
        elif kind == "ranks":
            self.signal(ranks, signal.SIGKILL)
        else:
            self.signal([pid for pid, _ in self.session()], signal.SIGKILL)

    def freeze(self):
        """Stops the ranks between two system calls; returns their pids."""
        pids = self.rank_pids()
        self.signal(pids, signal.SIGSTOP)
        for pid in pids:
            for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
                while (task / "stat").read_text().rsplit(")", 1)[1].split()[0] not in "TZX":
                    time.sleep(0.0005)
        return pids

    def destroy(self):
        self.signal([pid for pid, _ in self.session()], signal.SIGKILL)
        self.process.wait()


class Case(harness.Case):
    """Runs on the analytic task beside one that was left alone and wrote no early checkpoint."""

    settings = {}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.jobs = []
        cls.reference = cls.scratch / "reference"
        code, log = harness.apo(*analytic(cls.reference, {
            **cls.settings, "checkpoint.every_rounds": "1000000"}))
        assert code == 0, log

    @classmethod
    def tearDownClass(cls):
        for job in cls.jobs:
            if job.running():
                job.destroy()
        super().tearDownClass()

    def start(self, out, ranks, settings=None):
        job = Job(analytic(out, {**self.settings, **(settings or {})}), ranks, self.scratch)
        self.jobs.append(job)
        return job

    def finish(self, out, ranks):
        """Runs to the end, compares with the run that was left alone; returns the log."""
        job = self.start(out, ranks)
        code = job.wait()
        self.assertEqual(code, 0, job.log())
        self.assert_same_run(self.reference, out)
        return job.log()

    def verified(self, out, is_problem=None):
        """What `apo verify` says: (text, generation that the next start takes, 0: none).

        is_problem: pattern that every problem it names has to match; None: there may be none."""
        code, text = harness.apo("verify", out)
        problems = re.findall(r"^problem +(.*)$", text, re.M)
        self.assertEqual(code, BAD_DATA if problems else 0, text)
        for problem in problems:
            self.assertRegex(problem, is_problem or r"(?!)", text)
        match = re.search(r"^next start +from (?:the beginning|checkpoint (\d+))", text, re.M)
        self.assertTrue(match, text)
        return text, int(match[1] or 0)

    def assert_whole(self, path):
        """h5py reads all of the file."""
        found = harness.datasets(path)
        self.assertTrue(found, path)
        return found

    def assert_beginning_of(self, reference, out):
        """What a run has left so far is the beginning of the reference: nothing missing, double,
        or from a future that was given up."""
        rows, expected = metrics(out), metrics(reference)
        self.assertLessEqual(len(rows), len(expected))
        for k, row in enumerate(rows):
            self.assertEqual(row, expected[k], f"row {k} of {out}/metrics.jsonl")
        if not (out / "run.h5").exists():
            return
        found, whole = self.assert_whole(out / "run.h5"), harness.datasets(reference / "run.h5")
        for name, values in found.items():
            self.assertIn(name, whole)
            if name.split("/")[0] in ("phase1", "phase2", "theory"):
                self.assertTrue(same(values, whole[name][:len(values)]), f"{out}/run.h5 {name}")
        published = sum(len(found[f"{phase}/rounds/round"]) for phase in ("phase1", "phase2"))
        self.assertLessEqual(published, len(rows), "run.h5 is ahead of metrics.jsonl")


def main(with_mounts=False):
    """Runs the tests of the calling file; words behind the usual three choose some of them."""
    if with_mounts:
        own_mounts()
    # What killed ranks leave in shared memory and in mpirun's session folder goes with the test.
    memory = pathlib.Path("/dev/shm")
    usable = memory.is_dir() and os.access(memory, os.W_OK)
    base = pathlib.Path(tempfile.mkdtemp(prefix="apo-faults-", dir=memory if usable else None))
    os.environ["OMPI_MCA_btl_vader_backing_directory"] = str(base)
    os.environ["OMPI_MCA_orte_tmpdir_base"] = str(base)
    atexit.register(shutil.rmtree, base, ignore_errors=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    unittest.main(module="__main__", argv=[sys.argv[0], "-v", *sys.argv[4:]])


def own_mounts():
    """Restarts the test in a mount namespace of its own, so that no end of it leaves a mount."""
    if os.geteuid() == 0 and "APO_OWN_MOUNTS" not in os.environ and shutil.which("unshare"):
        words = ["unshare", "-m", "--propagation", "private"]
        trial = subprocess.run([*words, "true"], check=False, stderr=subprocess.DEVNULL)
        if trial.returncode == 0:
            os.environ["APO_OWN_MOUNTS"] = "1"
            os.execvp("unshare", [*words, sys.executable, *sys.argv])


def mount(*words):
    """Empty when it worked, else what mount said."""
    done = subprocess.run(["mount", *map(str, words)], text=True, capture_output=True, check=False)
    return "" if done.returncode == 0 else (done.stderr.strip() or "mount failed")


def unmount(path):
    subprocess.run(["umount", "-l", str(path)], check=False, stderr=subprocess.DEVNULL)
