"""The batch scripts of jobs/slurm on a real SLURM (lab.py), against undisturbed runs.

Usage: slurm_test.py APO SOURCE_DIR MPIEXEC, as root. Where SLURM cannot be run, ends with 77,
which CTest shows as skipped; for root with CI=true that is an error.
"""

import contextlib
import hashlib
import itertools
import os
import pathlib
import re
import shutil
import signal
import sys
import time
import unittest
from collections import Counter

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
import harness  # noqa: E402
import lab  # noqa: E402
from harness import apo, options  # noqa: E402

CONFIG = "configs/analytic.ini"
SETTINGS = {
    "task.analytic.clients": "40",
    "task.analytic.test_clients": "8",
    "clustering.budget": "3",
    "phase1.rounds": "150",
    "phase1.clients_per_round": "4",
    "phase2.rounds": "3",
    "monitor.theory": "false",
    "checkpoint.every_rounds": "10",
}
SHORT = {"phase1.rounds": "4", "phase2.rounds": "1"}
WAIT = 150  # seconds; the longest wait of all is that for the time limit, up to 35
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "BOOT_FAIL")


def words(out, settings=None):
    return ["-c", CONFIG, "--out", str(out), *options({**SETTINGS, **(settings or {})})]


def warning(job):
    """A command: the batch shell gets the signal, nobody else, as before a time limit."""
    return "scancel", "--batch", "--signal=USR2", job


def send(pids, number):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # SLURM was faster
            os.kill(pid, number)


def is_stopped(pid, unless=None):
    """Whether SIGSTOP holds the process, and it has not been sent the signal `unless`."""
    try:
        text = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False  # it has ended
    state, pending = (re.search(rf"^{name}:\s*(\w+)", text, re.M).group(1)
                      for name in ("State", "ShdPnd"))
    return state == "T" and not (unless and int(pending, 16) >> (unless - 1) & 1)


def newest_checkpoint(out):
    """Number of the newest checkpoint; 0: none yet."""
    return max((int(path.stem.split("-")[1])
                for path in (out / "checkpoints").glob("checkpoint-*.h5")), default=0)


class Slurm(harness.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.addClassCleanup(shutil.rmtree, cls.scratch, ignore_errors=True)
        cls.scratch.chmod(0o755)
        cls.lab = lab.Lab(cls.scratch / "lab")
        cls.addClassCleanup(cls.lab.stop)  # the last one is run first
        # The ranks of a job may be on two nodes: all of Open MPI's transports.
        cls.lab.environment.pop("OMPI_MCA_btl", None)
        cls.lab.environment["APO_BIN"] = str(harness.APO)
        cls.lab.start()
        cls.has_pmix = "pmix" in cls.lab.run("srun", "--mpi=list")
        if not cls.has_pmix:
            cls.lab.environment["APO_LAUNCH"] = "mpirun"
        cls.reference = cls.undisturbed("reference")

    @classmethod
    def undisturbed(cls, name, settings=None):
        """A run without SLURM, MPI and early checkpoints."""
        out = cls.scratch / name
        code, log = apo("run", *words(out, {**(settings or {}),
                                            "checkpoint.every_rounds": "100000"}))
        if code != 0:
            raise AssertionError(log)
        return out

    @classmethod
    def tearDownClass(cls):
        pass  # the clean-ups do it, also after a failure in setUpClass

    def tearDown(self):
        self.lab.run("scancel", "--user=root")
        self.wait_for(lambda: not self.lab.run("squeue", "-h"), "an empty queue")

    def submit(self, script, *arguments, sbatch=(), **environment):
        """Job id of a script of jobs/slurm."""
        return self.lab.run("sbatch", "--parsable", f"--output={self.scratch}/log-%j.txt", *sbatch,
                            f"jobs/slurm/{script}", *arguments, cwd=harness.SOURCE,
                            environment=environment).strip()

    def fields(self, job):
        return dict(re.findall(r"\b(\w+)=(\S*)", self.lab.run("scontrol", "show", "job", job)))

    def show(self, job, name):
        return self.fields(job)[name]

    def log(self, job):
        path = self.scratch / f"log-{job}.txt"
        return path.read_text() if path.exists() else "(no log)"

    def wait_for(self, condition, what, jobs=(), seconds=WAIT, step=0.1):
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                self.fail(f"waited {seconds} s for {what}\n" + "\n".join(map(self.log, jobs)) +
                          self.lab.run("squeue") + self.lab.logs())
            time.sleep(step)

    def wait_for_end(self, job):
        """The state in which the job ended, back in the queue aside."""
        hastened = set()

        def has_ended():
            job_now = self.fields(job)
            life = job_now["Restarts"]
            # A job that came back has to wait for cred_expire seconds. Two will do.
            if (job_now["JobState"], job_now["Reason"]) == ("PENDING", "BeginTime") \
                    and life not in hastened:
                hastened.add(life)
                self.lab.run("scontrol", "update", f"jobid={job}", "starttime=now+2")
            return job_now["JobState"] in ENDED

        self.wait_for(has_ended, f"the end of job {job}", [job])
        return self.show(job, "JobState")

    def assert_completes(self, job):
        self.assertEqual(self.wait_for_end(job), "COMPLETED", self.log(job))

    def ranks_of(self, job):
        number = job if job.isdigit() else self.show(job, "JobId")  # a task of an array has its own
        return self.lab.processes(harness.APO, number)

    @contextlib.contextmanager
    def held(self, job, condition):
        """The job's ranks do nothing (SIGSTOP) from the moment that condition() holds to the end
        of the block: what strikes finds them at work, on a fast, slow or busy machine."""
        turn = itertools.count(1)
        self.wait_for(lambda: condition() or
                      (next(turn) % 50 == 0 and self.show(job, "JobState") in ENDED),
                      f"a checkpoint of job {job}", [job], step=0.01)
        ranks = self.ranks_of(job)
        send(ranks, signal.SIGSTOP)
        try:
            self.assertEqual(self.show(job, "JobState"), "RUNNING", self.log(job))
            self.assertTrue(ranks, self.log(job))
            self.wait_for(lambda: all(map(is_stopped, ranks)), "stopped ranks", [job])
            yield ranks
        finally:
            send(ranks, signal.SIGCONT)

    def strike(self, job, condition, *command):
        """Output of a command that makes SLURM send a signal to the job, which is held until every
        rank has it: the warning (USR2), or SIGCONT and SIGTERM."""
        with self.held(job, condition) as ranks:
            text = self.lab.run(*command) if command else ""
            self.wait_for(lambda: not any(is_stopped(pid, unless=signal.SIGUSR2) for pid in ranks),
                          f"a signal to the ranks of job {job}", [job])
        return text

    def strike_run(self, job, out, *command):
        return self.strike(job, lambda: newest_checkpoint(out) >= 2, *command)

    def rounds_at_stop(self, out):
        return len((out / "metrics.jsonl").read_text().splitlines())

    def test_a_run_on_all_nodes_with_one_rank_per_gpu(self):
        out = self.scratch / "nodes"
        nodes = len(self.lab.nodes)
        job = self.submit("run.sbatch", *words(out),
                          sbatch=[f"--nodes={nodes}", "--ntasks-per-node=2", "--gpus-per-node=2"])
        with self.held(job, lambda: newest_checkpoint(out) >= 1) as ranks:
            of_ranks = [lab.environment_of(pid) for pid in ranks]
        self.assertEqual(Counter(one["SLURMD_NODENAME"] for one in of_ranks),
                         {node: 2 for node in self.lab.nodes})
        # Every rank sees all GPUs of the job on its node, to take the one with its number there.
        self.assertEqual({one.get("CUDA_VISIBLE_DEVICES") for one in of_ranks}, {"0,1"})
        self.assert_completes(job)
        self.assertEqual(self.show(job, "NumNodes"), str(nodes))
        self.assertIn(f"{2 * nodes} ranks, restart 0", self.log(job))
        self.assert_same_run(self.reference, out)

    def test_time_limit_strikes(self):
        # slurmctld looks at time limits every 30 s, and warns jobs whose warning is due before it
        # looks again: this one from the fifth second on, so that its second life is left alone.
        out = self.scratch / "limit"
        job = self.submit("run.sbatch", *words(out), sbatch=["--time=2", "--signal=B:USR2@85"])
        self.strike_run(job, out)
        self.assert_completes(job)
        self.assertGreaterEqual(int(self.show(job, "Restarts")), 1, self.log(job))
        self.assertIn("exit code 75 after SIGUSR2", self.log(job))
        self.assertIn("restart 1", self.log(job))  # the log goes on, nothing is cut
        self.assert_same_run(self.reference, out)

    def test_mpirun_passes_the_warning_on(self):
        out = self.scratch / "mpirun"
        job = self.submit("run.sbatch", *words(out), APO_LAUNCH="mpirun")
        self.strike_run(job, out, *warning(job))
        self.assert_completes(job)
        self.assertEqual(self.show(job, "Restarts"), "1", self.log(job))
        self.assertIn("exit code 75 after SIGUSR2", self.log(job))
        self.assert_same_run(self.reference, out)

    def test_requeue_from_outside(self):
        out = self.scratch / "requeue"
        job = self.submit("run.sbatch", *words(out))
        self.strike_run(job, out, "scontrol", "requeue", job)
        self.assert_completes(job)
        self.assertEqual(self.show(job, "Restarts"), "1", self.log(job))
        self.assert_same_run(self.reference, out)

    def test_preemption(self):
        out = self.scratch / "preempted"
        job = self.submit("run.sbatch", *words(out))
        urgent = self.strike_run(job, out, "sbatch", "--parsable", "--partition=urgent",
                                 "--exclusive", f"--nodes={len(self.lab.nodes)}",
                                 "--output=/dev/null", "--wrap=sleep 1").strip()
        self.assert_completes(urgent)
        self.assert_completes(job)
        self.assertEqual(self.show(job, "Restarts"), "1", self.log(job))
        self.assertIn("PREEMPTION", self.log(job))
        self.assert_same_run(self.reference, out)

    def test_cancelled_job_stays_away_and_the_next_one_continues(self):
        out = self.scratch / "cancelled"
        job = self.submit("run.sbatch", *words(out))
        self.strike_run(job, out, "scancel", job)
        self.assertEqual(self.wait_for_end(job), "CANCELLED", self.log(job))
        rounds = self.rounds_at_stop(out)
        self.assertGreater(rounds, 0)
        next_job = self.submit("run.sbatch", *words(out))
        self.assert_completes(next_job)
        self.assertEqual(self.show(job, "JobState"), "CANCELLED")
        self.assertGreater(self.rounds_at_stop(out), rounds)
        self.assert_same_run(self.reference, out)

    def test_follow_up_job_takes_the_place(self):
        out = self.scratch / "follow"
        job = self.submit("run.sbatch", *words(out), APO_AGAIN="follow")
        waiting = self.lab.run("sbatch", "--parsable", f"--dependency=afterok:{job}",
                               "--kill-on-invalid-dep=yes", "--output=/dev/null",
                               f"--wrap=cp {out}/status.json {self.scratch}/seen.json").strip()
        self.strike_run(job, out, *warning(job))
        self.assertEqual(self.wait_for_end(job), "FAILED", self.log(job))
        self.assertEqual(self.show(job, "ExitCode"), "75:0")
        follower = re.search(r"job (\d+) goes on from here", self.log(job)).group(1)
        self.assertEqual(self.wait_for_end(follower), "COMPLETED", self.log(job))
        self.assert_completes(waiting)
        self.assertIn("complete", (self.scratch / "seen.json").read_text())
        self.assert_same_run(self.reference, out)

    def test_site_that_requeues_by_exit_code(self):
        conf = self.lab.folder / "slurm.conf"
        before = conf.read_text()
        conf.write_text(before + "RequeueExit=75\n")
        try:
            self.lab.run("scontrol", "reconfigure")
            jobs = {}
            for way in ("exit", "requeue"):  # the first one is back while the second one starts
                jobs[way] = self.submit("run.sbatch", *words(self.scratch / f"code-{way}"),
                                        APO_AGAIN=way)
                self.strike_run(jobs[way], self.scratch / f"code-{way}", *warning(jobs[way]))
            for way, job in jobs.items():
                self.assert_completes(job)
                self.assertEqual(self.show(job, "Restarts"), "1", self.log(job))
                self.assert_same_run(self.reference, self.scratch / f"code-{way}")
        finally:
            conf.write_text(before)
            self.lab.run("scontrol", "reconfigure")

    def test_job_that_gets_nowhere_gives_up(self):
        out = self.scratch / "stalled"
        program = self.scratch / "stalled.sh"
        program.write_text(f"#!/bin/sh\nmkdir -p {out}\nexit 75\n")
        program.chmod(0o755)
        job = self.submit("run.sbatch", "--out", out, APO_BIN=str(program), APO_MAX_STALLS="1")
        self.assertEqual(self.wait_for_end(job), "FAILED", self.log(job))
        self.assertEqual(self.show(job, "ExitCode"), "70:0", self.log(job))
        self.assertIn("giving up", self.log(job))

    def test_refused_command_lines(self):
        for arguments, expected in ((["run", "-c", CONFIG], "expected --out DIR"),
                                    (["swim", "--out", "x"], "found 'swim'")):
            with self.subTest(expected):
                job = self.submit("run.sbatch", *arguments)
                self.assertEqual(self.wait_for_end(job), "FAILED")
                self.assertEqual(self.show(job, "ExitCode"), "64:0", self.log(job))
                self.assertIn(expected, self.log(job))

    def chain(self, *arguments):
        text = self.lab.run("bash", "jobs/slurm/chain.sh", f"--output={self.scratch}/log-%j.txt",
                            "--", *arguments, cwd=harness.SOURCE)
        jobs = dict(re.findall(r"(\w+): job (\d+)", text))
        self.assertEqual(list(jobs), ["cluster", "train", "meta", "adapt", "evaluate"], text)
        return jobs

    def test_chain_of_stages(self):
        out = self.scratch / "chain"
        jobs = self.chain(*words(out))
        self.strike(jobs["train"], lambda: newest_checkpoint(out) >= 3,
                    *warning(jobs["train"]))
        for job in jobs.values():
            self.assert_completes(job)
        self.assertEqual(self.show(jobs["train"], "Restarts"), "1", self.log(jobs["train"]))
        self.assert_same_run(self.reference, out)

    def test_chain_ends_where_a_stage_fails(self):
        jobs = self.chain(*words(self.scratch / "broken", {"clustering.budget": "0"}))
        self.assertEqual(self.wait_for_end(jobs["cluster"]), "FAILED")
        self.assertEqual(self.show(jobs["cluster"], "ExitCode"), "64:0", self.log(jobs["cluster"]))
        for stage in ("train", "meta", "adapt", "evaluate"):
            self.assertEqual(self.wait_for_end(jobs[stage]), "CANCELLED")

    def test_array_of_lines(self):
        lines = ["--runtime.seed 1", "# not a run", "  --method.name fedavg   --runtime.seed 2"]
        file = self.scratch / "lines.txt"
        file.write_text("\n".join(lines) + "\n")
        out = self.scratch / "lines"
        job = self.submit("lines.sbatch", file, *words(out, SHORT), sbatch=["--array=1-3"])
        for task in (1, 2, 3):
            self.assert_completes(f"{job}_{task}")
        runs = {}
        for line in (lines[0], lines[2]):
            text = " ".join(line.split())
            runs[text] = out / hashlib.sha256(text.encode()).hexdigest()[:12]
            self.assertEqual((runs[text] / "line.txt").read_text(), text + "\n")
            given = text.removeprefix("--").split(" --")
            alone = self.undisturbed(f"alone-{len(runs)}",
                                     {**SHORT, **dict(option.split() for option in given)})
            self.assert_same_run(alone, runs[text])
        self.assertEqual(sorted(p.name for p in out.iterdir()),
                         sorted(p.name for p in runs.values()))
        before = {p: (p / "run.h5").stat().st_mtime_ns for p in runs.values()}
        again = self.submit("lines.sbatch", file, *words(out, SHORT), sbatch=["--array=1"])
        self.assert_completes(f"{again}_1")
        self.assertEqual(before, {p: (p / "run.h5").stat().st_mtime_ns for p in runs.values()})

    def is_in_a_cluster(self, job, sweep):
        """Whether the job holds a cluster of the sweep that has a checkpoint."""
        if begun := {path.parents[1] for path in sweep.glob("clusters/*/checkpoints/*.h5")}:
            with contextlib.suppress(OSError):  # a rank ended, a file was closed
                for pid in self.ranks_of(job):
                    for file in pathlib.Path(f"/proc/{pid}/fd").iterdir():
                        if pathlib.Path(os.readlink(file)).parent in begun:
                            return True
        return False

    def test_sweep_as_an_array(self):
        budgets = (1, 2, 3)
        settings = {**SHORT, "phase1.rounds": "80"}
        out = self.scratch / "sweep"
        job = self.submit("sweep.sbatch", "--budgets", "1-3", "--claim", "1", *words(out, settings),
                          sbatch=["--array=1-2"])
        self.strike(f"{job}_1", lambda: self.is_in_a_cluster(f"{job}_1", out),
                    *warning(f"{job}_1"))
        for task in (1, 2):
            self.assert_completes(f"{job}_{task}")
        self.assertEqual(self.show(f"{job}_1", "Restarts"), "1")
        self.assertEqual(len(list(out.glob("clusters/*/result.h5"))), 2 * len(budgets) - 1)
        for budget in budgets:
            alone = self.undisturbed(f"budget-{budget}",
                                     {**settings, "clustering.budget": str(budget)})
            self.assert_same_run(alone, out / f"budget-{budget}")

    def test_daemons_are_killed_in_mid_job(self):
        out = self.scratch / "daemons"
        job = self.submit("run.sbatch", *words(out))
        # slurmctld writes its state every few seconds; a job that is not in it would be held.
        saved = self.lab.folder / "state" / "job_state"
        with self.held(job, lambda: newest_checkpoint(out) >= 2):
            self.lab.run("scontrol", "update", f"jobid={job}", "comment=seen-running")
            self.wait_for(lambda: saved.exists() and b"seen-running" in saved.read_bytes(), saved,
                          [job])
            self.lab.kill_slurm()
            self.lab.start_slurm()
            self.lab.wait_for(lambda: self.lab.run("sinfo", "-h", check=False), "slurmctld")
        self.assert_completes(job)
        self.assert_same_run(self.reference, out)


def cannot_run():
    """Why SLURM cannot be run here; empty: it can."""
    if os.geteuid() != 0:
        return "needs root, to run munged and slurmd"
    if absent := lab.missing():
        return f"no {', '.join(absent)}; install the packages slurm-wlm and munge"
    return ""


if __name__ == "__main__":
    if reason := cannot_run():
        print(f"slurm cannot be tested: {reason}", flush=True)
        # Root in CI has had it installed.
        sys.exit(1 if os.environ.get("CI") == "true" and os.geteuid() == 0 else 77)
    lab.enter_namespaces()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    # Names of tests may follow: slurm_test.py APO SOURCE_DIR MPIEXEC Slurm.test_preemption
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[4:]])
