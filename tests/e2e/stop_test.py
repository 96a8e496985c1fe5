"""Signals, time limits and restarts: exit code 75, a checkpoint, and the same run in the end."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

import h5py

import harness
from harness import apo, command, options

CONFIG = "configs/analytic.ini"
SMALL = {
    "task.analytic.clients": "60",
    "task.analytic.test_clients": "12",
    "clustering.budget": "5",
    "phase1.rounds": "400",
    "phase1.clients_per_round": "5",
    "phase2.rounds": "3",
    "monitor.theory": "false",
    "checkpoint.every_rounds": "100000",
}
LONG = {"phase1.rounds": "200000"}  # never reaches its end


def words(out, settings=None):
    return ["run", "-c", CONFIG, "--out", str(out), *options({**SMALL, **(settings or {})})]


def lines_of(out):
    path = out / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def programs_of(job):
    """Process ids of the ranks that mpirun `job` has started."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
                if parent == job.pid and os.readlink(entry / "exe") == str(harness.APO.resolve()):
                    found.append(int(entry.name))
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                pass
    return sorted(found)


class Stop(harness.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.whole = cls.scratch / "whole"
        code, log = apo(*words(cls.whole), ranks=2)
        assert code == 0, log

    def start(self, out, ranks, settings=None):
        with open(self.scratch / "log.txt", "wb") as log:
            return subprocess.Popen(command(ranks, *words(out, settings)), cwd=harness.SOURCE,
                                    stdout=log, stderr=subprocess.STDOUT)

    def log(self):
        return (self.scratch / "log.txt").read_text()

    def wait_for_rounds(self, job, out, more, seconds=60):
        start = lines_of(out)
        deadline = time.time() + seconds
        # A start cuts metrics.jsonl to its checkpoint before it goes on.
        while lines_of(out) < start + more:
            self.assertIsNone(job.poll(), self.log())
            self.assertLess(time.time(), deadline, self.log())
            time.sleep(0.01)

    def finish(self, job, seconds=60):
        """Exit code. A round takes milliseconds here; the rest is for a busy machine."""
        try:
            return job.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            job.kill()
            self.fail("did not stop: " + self.log())

    def verify(self, out):
        code, text = apo("verify", "--format", "json", out)
        return code, json.loads(text)

    def status(self, out):
        return json.loads((out / "status.json").read_text())

    def test_each_signal_stops_with_a_checkpoint_and_the_run_ends_as_if_undisturbed(self):
        out = self.scratch / "signals"
        rounds = 0
        starts = [(2, signal.SIGUSR2, "mpirun"), (1, signal.SIGTERM, "rank"),
                  (3, signal.SIGINT, "rank"), (2, signal.SIGUSR1, "mpirun")]
        for ranks, number, target in starts:
            with self.subTest(number.name):
                job = self.start(out, ranks)
                self.wait_for_rounds(job, out, 40)
                # One rank that knows is enough: the ranks agree.
                os.kill(job.pid if target == "mpirun" else programs_of(job)[-1], number)
                self.assertEqual(self.finish(job), 75, self.log())
                status = self.status(out)
                self.assertEqual(status["state"], "stopped")
                self.assertEqual(status["exit_code"], 75)
                self.assertGreater(status["round"], rounds)
                rounds = status["round"]
                code, found = self.verify(out)
                self.assertEqual(code, 0, found)
                self.assertEqual(found["resume"]["round"], rounds)
                self.assertEqual(found["notes"], [])
                self.assertFalse(found["lock"]["held"])
        code, log = apo(*words(out), ranks=3)
        self.assertEqual(code, 0, log)
        self.assertIn("continuing from checkpoint 4", log)
        self.assert_same_run(self.whole, out)
        with h5py.File(out / "run.h5") as file:
            restarts = file["restarts"].attrs
            self.assertEqual(list(restarts["world_size"]), [2, 1, 3, 2, 3])
            self.assertEqual(len(restarts["start_utc"]), 5)
            self.assertEqual(restarts["round"][0], 0)
            self.assertEqual(restarts["round"][4], rounds)

    def test_a_stop_on_one_rank_goes_on_on_three_and_on_two_ranks_on_one(self):
        for first, second in ((1, 3), (2, 1)):
            with self.subTest(f"{first} to {second}"):
                out = self.scratch / f"ranks{first}{second}"
                job = self.start(out, first)
                self.wait_for_rounds(job, out, 100)
                os.kill(job.pid, signal.SIGUSR2)
                self.assertEqual(self.finish(job), 75, self.log())
                code, log = apo(*words(out), ranks=second)
                self.assertEqual(code, 0, log)
                self.assert_same_run(self.whole, out)

    def test_a_stop_between_two_test_clients(self):
        settings = {"phase1.rounds": "2", "adapt.steps": "100", "clustering.budget": "2",
                    "task.analytic.test_clients": "2000",
                    "adapt.test_clients_per_cluster": "2000"}
        out = self.scratch / "evaluation"
        job = self.start(out, 2, settings)
        deadline = time.time() + 60
        while "evaluating 2000 test clients" not in self.log():
            self.assertIsNone(job.poll(), self.log())
            self.assertLess(time.time(), deadline, self.log())
            time.sleep(0.01)
        os.kill(programs_of(job)[-1], signal.SIGUSR2)
        self.assertEqual(self.finish(job), 75, self.log())
        self.assertIn("result: stopped(", self.log())
        code, log = apo(*words(out, settings), ranks=3)
        self.assertEqual(code, 0, log)
        whole = self.scratch / "whole-evaluation"
        code, log = apo(*words(whole, settings), ranks=1)
        self.assertEqual(code, 0, log)
        self.assert_same_run(whole, out)

    def test_signals_of_launcher_and_scheduler_together_are_one_stop(self):
        out = self.scratch / "both"
        job = self.start(out, 0, LONG)  # without mpirun
        self.wait_for_rounds(job, out, 20)
        os.kill(job.pid, signal.SIGSTOP)  # all arrive before the round's end
        for number in (signal.SIGUSR2, signal.SIGTERM, signal.SIGUSR1, signal.SIGINT):
            os.kill(job.pid, number)
        os.kill(job.pid, signal.SIGCONT)
        self.assertEqual(self.finish(job), 75, self.log())
        self.assertEqual(self.status(out)["state"], "stopped")

    def test_time_limit(self):
        out = self.scratch / "limit"
        code, log = apo(*words(out, {**LONG, "checkpoint.max_walltime": "00:00:12"}), ranks=2)
        self.assertEqual(code, 75, log)
        self.assertIn("time limit 00:00:12", log)
        self.assertEqual(self.status(out)["stopped_by"], "time limit 00:00:12")
        first = self.status(out)["round"]
        self.assertGreater(first, 0)
        # Another limit is no other run, and the run goes on where it was.
        code, log = apo(*words(out, {**LONG, "checkpoint.max_walltime": "0-00:00:10"}), ranks=1)
        self.assertEqual(code, 75, log)
        self.assertIn("checkpoint.max_walltime", log)
        self.assertGreater(self.status(out)["round"], first)

    def test_a_limit_that_is_no_time_is_refused_with_its_key(self):
        code, log = apo(*words(self.scratch / "soon", {"checkpoint.max_walltime": "soon"}))
        self.assertEqual(code, 64, log)
        self.assertIn("checkpoint.max_walltime", log)
        self.assertIn("'soon'", log)

    def test_checkpoints_by_the_clock_and_a_reader_beside_the_job(self):
        out = self.scratch / "clock"
        job = self.start(out, 2, {**LONG, "checkpoint.every_minutes": "0.01",
                                  "checkpoint.verify_every": "1", "checkpoint.keep": "2"})
        deadline = time.time() + 60
        while not (out / "checkpoints" / "checkpoint-000004.h5").exists():
            self.assertIsNone(job.poll(), self.log())
            self.assertLess(time.time(), deadline, self.log())
            time.sleep(0.02)
        for _ in range(3):
            code, found = self.verify(out)
            self.assertEqual(code, 0, found)
            self.assertEqual(found["state"], "running")
            self.assertTrue(found["lock"]["held"])
            self.assertGreater(found["resume"]["round"], 0)
            with h5py.File(out / "run.h5") as file:
                self.assertGreater(file["phase1/rounds/round"].shape[0], 0)
        code, log = apo(*words(out, LONG))
        self.assertEqual(code, 74, log)
        self.assertIn("another job works in this folder", log)
        os.kill(job.pid, signal.SIGUSR2)
        self.assertEqual(self.finish(job), 75, self.log())
        self.assertLessEqual(len(list((out / "checkpoints").glob("*.h5"))), 2)

    def test_verify_names_damage_and_the_run_goes_on_before_it(self):
        code, found = self.verify(self.whole)
        self.assertEqual((code, found["state"], found["resume"]), (0, "complete", None), found)
        out = self.scratch / "damaged"
        for _ in range(2):
            job = self.start(out, 1)
            self.wait_for_rounds(job, out, 60)
            os.kill(job.pid, signal.SIGUSR2)
            self.assertEqual(self.finish(job), 75, self.log())
        newest = out / "checkpoints" / "checkpoint-000002.h5"
        data = bytearray(newest.read_bytes())
        data[len(data) // 3] ^= 1
        newest.write_bytes(data)
        (out / "checkpoints" / ".tmp-1-checkpoint-000003.h5").write_bytes(b"half")
        code, text = apo("verify", out)
        self.assertEqual(code, 65, text)
        self.assertIn("DAMAGED", text)
        self.assertIn("checkpoint-000002.h5", text)
        code, found = self.verify(out)
        self.assertEqual(found["resume"]["generation"], 1)
        code, log = apo(*words(out), ranks=2)
        self.assertEqual(code, 0, log)
        self.assertIn("checkpoint 2 is skipped", log)
        self.assert_same_run(self.whole, out)
        shutil.copytree(out, self.scratch / "torn")
        torn = self.scratch / "torn"
        (torn / "run.h5").write_bytes((torn / "run.h5").read_bytes()[:-100])
        code, text = apo("verify", torn)
        self.assertEqual(code, 65, text)
        self.assertIn("run.h5 is damaged", text)
        code, text = apo("verify", self.scratch / "nothing")
        self.assertEqual(code, 65, text)
        code, text = apo("verify")
        self.assertEqual(code, 64, text)

    def test_provenance_is_shown_by_inspect(self):
        code, text = apo("inspect", self.whole / "run.h5")
        self.assertEqual(code, 0, text)
        for word in ("/provenance", "git_revision", "compiler_flags", "rank_processor", "HDF5 1.",
                     "GLPK", "pagmo", "Open MPI", "ICU", "command_line", "end_utc", "/restarts"):
            self.assertIn(word, text)


if __name__ == "__main__":
    harness.main()
