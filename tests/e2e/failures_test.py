"""A rank that dies, stops or computes nonsense ends the job: one message, and never exit code 0."""

import os
import platform
import signal
import subprocess
import time

import harness
from harness import apo, command, options

CONFIG = "configs/analytic.ini"
SMALL = {
    "task.analytic.clients": "60",
    "task.analytic.test_clients": "12",
    "clustering.budget": "3",
    "phase1.clients_per_round": "5",
    "phase2.rounds": "1",
    "monitor.theory": "false",
}
TIMEOUT = 2.0
# What the launcher may need on top: TERM after one second, KILL after another, its own end.
MARGIN = 10.0
HOST = platform.node()


def words(out, settings):
    return ["run", "-c", CONFIG, "--out", str(out), *options({**SMALL, **settings})]


def children(pid):
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit():
                with open(f"/proc/{name}/stat") as file:
                    fields = file.read().rpartition(")")[2].split()
                if int(fields[1]) == pid:
                    found.append(int(name))
        except OSError:  # gone by now
            pass
    return found


def rank_of(pid):
    with open(f"/proc/{pid}/environ") as file:
        for variable in file.read().split("\0"):
            if variable.startswith("OMPI_COMM_WORLD_RANK="):
                return int(variable.partition("=")[2])
    return None


def alive(pid):
    """False for zombies too: where nobody reaps them they stay, but they are dead."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Failures(harness.Case):
    def strike(self, ranks, rank, blow):
        """Starts a long run, waits until it is training, signals one rank.

        Returns (exit code, output, seconds from the blow to the end)."""
        out = self.scratch / f"strike-{blow.name}-{ranks}-{rank}"
        log = self.scratch / f"{out.name}.log"
        settings = {"phase1.rounds": "1000000", "checkpoint.every_rounds": "1000000",
                    "runtime.timeout": str(TIMEOUT)}
        with open(log, "w") as file:
            job = subprocess.Popen(command(ranks, *words(out, settings)), cwd=harness.SOURCE,
                                   stdout=file, stderr=subprocess.STDOUT)
        pids = []
        try:
            deadline = time.time() + 60
            metrics = out / "metrics.jsonl"
            while not (metrics.exists() and metrics.read_text().count("\n") > 20):
                self.assertIsNone(job.poll(), log.read_text())
                self.assertLess(time.time(), deadline, "no rounds after a minute")
                time.sleep(0.02)
            if ranks == 0:
                pids = [job.pid]
                victim = job.pid
            else:
                pids = children(job.pid)
                self.assertEqual(len(pids), ranks)
                victim = next(pid for pid in pids if rank_of(pid) == rank)
            start = time.time()
            os.kill(victim, blow)
            code = job.wait(timeout=60)
            seconds = time.time() - start
            while any(alive(pid) for pid in pids) and time.time() - start < 60:
                time.sleep(0.1)
            self.assertEqual([pid for pid in pids if alive(pid)], [], "ranks left behind")
        finally:
            for pid in [*pids, job.pid]:
                if alive(pid) and job.poll() is None:
                    os.kill(pid, signal.SIGKILL)
        return code, log.read_text(), seconds

    def test_killed_rank(self):
        for ranks, rank in ((2, 0), (3, 1)):
            with self.subTest(ranks=ranks, rank=rank):
                code, log, seconds = self.strike(ranks, rank, signal.SIGKILL)
                self.assertEqual(code, 128 + signal.SIGKILL, log)
                self.assertIn(f"process rank {rank} with PID", log)  # the launcher's message
                self.assertLess(seconds, TIMEOUT + MARGIN)

    def test_fatal_signals_name_the_place(self):
        for blow in (signal.SIGSEGV, signal.SIGABRT):
            with self.subTest(blow.name):
                code, log, seconds = self.strike(2, 1, blow)
                self.assertEqual(code, 128 + blow, log)
                self.assertRegex(log, rf"\[rank 1 {HOST}\] killed by {blow.name}: .*phase1 round "
                                      r"\d+")
                self.assertEqual(log.count("killed by"), 1, log)
                self.assertLess(seconds, TIMEOUT + MARGIN)

    def test_fatal_signal_without_a_launcher(self):
        code, log, _ = self.strike(0, 0, signal.SIGSEGV)
        self.assertEqual(code, -signal.SIGSEGV, log)
        self.assertRegex(log, r"killed by SIGSEGV: .*phase1 round \d+")

    def test_stopped_rank(self):
        for ranks, rank in ((2, 0), (3, 1)):
            with self.subTest(ranks=ranks, rank=rank):
                code, log, seconds = self.strike(ranks, rank, signal.SIGSTOP)
                self.assertEqual(code, 74, log)
                self.assertEqual(log.count("watchdog:"), 1, log)
                self.assertRegex(log, rf"watchdog: rank {rank} of {ranks} \({HOST}\) gives no sign "
                                      r"of life for \d+ s.*phase1 round \d+")
                self.assertRegex(log, r"rank \d waits in \w+ \d+ of .*phase1 round \d+")
                self.assertGreaterEqual(seconds, TIMEOUT)
                self.assertLess(seconds, TIMEOUT + MARGIN)

    def test_diverged_training_names_the_round(self):
        settings = {"phase1.rounds": "30", "phase1.local_steps": "60",
                    "phase1.learning_rate": "1000", "phase1.learning_rate_final": "1000"}
        for ranks in (0, 3):
            with self.subTest(ranks=ranks):
                out = self.scratch / f"diverged-{ranks}"
                code, log = apo(*words(out, settings), ranks=ranks)
                self.assertEqual(code, 65, log)
                errors = [line for line in log.splitlines() if line.startswith("apo: error")]
                self.assertEqual(len(errors), 1, log)
                self.assertRegex(errors[0], r"phase1 round \d+ cluster \d+.*finite")
                self.assertNotIn("result: complete", log)


if __name__ == "__main__":
    harness.main()
