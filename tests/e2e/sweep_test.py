"""Sweeps over budgets: each distinct cluster once, and every budget as if it had been run alone."""

import json
import os
import random
import signal
import subprocess
import time

import h5py

import harness
from harness import apo, command, options

CONFIG = "configs/analytic.ini"
SMALL = {
    "task.analytic.clients": "60",
    "task.analytic.test_clients": "14",
    "phase1.rounds": "10",
    "phase1.clients_per_round": "4",
    "phase2.rounds": "2",
    "phase2.start_rounds": "6,10",
    "adapt.test_clients_per_cluster": "3",
    "monitor.audit_every": "4",
    "checkpoint.every_rounds": "2",
}
BUDGETS = range(1, 7)
DISTINCT = 11


def sweep_words(out, *more, settings=None, budgets="1-6"):
    return ["sweep", "-c", CONFIG, "--out", str(out), "--budgets", budgets, *more,
            *options({**SMALL, **(settings or {})})]


def run_words(out, budget, settings=None):
    return ["run", "-c", CONFIG, "--out", str(out),
            *options({**SMALL, **(settings or {}), "clustering.budget": str(budget)})]


def start(words, ranks=0):
    return subprocess.Popen(command(ranks, *words), cwd=harness.SOURCE, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            start_new_session=True)


def clusters(out):
    return [path for path in (out / "clusters").glob("*") if (path / "result.h5").exists()]


class Sweep(harness.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.alone = {}
        for budget in BUDGETS:
            cls.alone[budget] = cls.scratch / f"alone-{budget}"
            code, log = apo(*run_words(cls.alone[budget], budget))
            assert code == 0, log

    def sweep(self, name, ranks=0, more=(), expected=0, **others):
        out = self.scratch / name
        code, log = apo(*sweep_words(out, *more, **others), ranks=ranks)
        self.assertEqual(code, expected, log)
        return out, log

    def assert_as_if_alone(self, out):
        for budget in BUDGETS:
            with self.subTest(budget=budget):
                one, other = self.alone[budget], out / f"budget-{budget}"
                self.assert_same_run(one, other)
                self.assertEqual((one / "configuration.ini").read_bytes(),
                                 (other / "configuration.ini").read_bytes())
                a, b = (json.loads((run / "status.json").read_text()) for run in (one, other))
                for key in ("state", "exit_code", "round", "total_rounds"):
                    self.assertEqual(a[key], b[key])
                with h5py.File(one / "run.h5") as first, h5py.File(other / "run.h5") as second:
                    self.assertEqual(set(first.attrs), set(second.attrs))
                    for key in ("configuration_sha256", "method", "seed", "task"):
                        self.assertEqual(first.attrs[key], second.attrs[key])
                    groups = lambda file: {name for name in file}
                    self.assertEqual(groups(first), groups(second))
        self.assertEqual(len(clusters(out)), DISTINCT)

    def test_equals_separate_runs_on_any_number_of_ranks(self):
        for ranks in (1, 3):
            out, log = self.sweep(f"ranks{ranks}", ranks=ranks)
            self.assertIn(f"trained_here={DISTINCT}", log)
            self.assert_as_if_alone(out)

    def test_report_and_verify_read_the_budgets(self):
        out, _ = self.sweep("report")
        code, text = apo("report", *(out / f"budget-{budget}" for budget in BUDGETS))
        self.assertEqual(code, 0, text)
        code, text = apo("verify", out / "budget-4")
        self.assertEqual(code, 0, text)

    def test_finished_sweep_does_nothing(self):
        out, _ = self.sweep("again")
        before = {path: path.stat().st_mtime_ns for path in out.glob("**/*.h5")}
        _, log = self.sweep("again")
        self.assertIn("nothing to do", log)
        self.assertEqual(before, {path: path.stat().st_mtime_ns for path in out.glob("**/*.h5")})

    def test_more_budgets_later_train_only_what_is_new(self):
        out, _ = self.sweep("grown", budgets="1-3")
        self.assertEqual(len(clusters(out)), 5)
        _, log = self.sweep("grown", budgets="1,2,3-6")
        self.assertIn(f"trained_here={DISTINCT - 5}", log)
        self.assert_as_if_alone(out)

    def test_claims_of_two_clusters(self):
        out, log = self.sweep("claims", more=("--claim", "2"))
        self.assertGreaterEqual(log.count("2 clusters are trained here"), 5)
        self.assert_as_if_alone(out)

    def test_killed_at_any_time_it_goes_on(self):
        out = self.scratch / "killed"
        rng = random.Random(3)
        kills = 0
        for attempt in range(40):
            job = start(sweep_words(out), ranks=rng.choice((1, 2, 3)))
            # The first one is hit in mid-work, however fast the machine.
            while not kills and job.poll() is None and not list(
                    out.glob("clusters/*/checkpoints/*.h5")):
                time.sleep(0.005)
            try:
                job.wait(timeout=rng.uniform(0.3, 2.5) if kills else 0.01)
            except subprocess.TimeoutExpired:
                os.killpg(job.pid, signal.SIGKILL)
                job.wait()
                kills += 1
                time.sleep(0.3)  # orphaned ranks end when they lose the launcher
            job.stdout.close()
            if job.returncode == 0:
                break
        self.assertGreater(kills, 0)
        self.sweep("killed", ranks=2)
        self.assert_as_if_alone(out)

    def test_stop_signal_leaves_checkpoints_and_75(self):
        settings = {"phase1.rounds": "150", "phase2.start_rounds": ""}
        out = self.scratch / "stopped"
        job = start(sweep_words(out, settings=settings, budgets="2,3"))
        deadline = time.time() + 60
        while time.time() < deadline and not list(out.glob("clusters/*/checkpoints/*.h5")):
            time.sleep(0.01)
        job.send_signal(signal.SIGUSR1)
        log, _ = job.communicate(timeout=60)
        self.assertEqual(job.returncode, 75, log)
        self.assertIn("stopped(signal USR1)", log)
        self.assertEqual(len(list(out.glob("clusters/*/checkpoints"))), 4)
        self.assertEqual(clusters(out), [])
        self.sweep("stopped", ranks=3, settings=settings, budgets="2,3")
        alone = self.scratch / "not-stopped"
        code, log = apo(*run_words(alone, 3, settings))
        self.assertEqual(code, 0, log)
        self.assert_same_run(alone, out / "budget-3")

    def test_stop_signal_in_the_evaluation_keeps_what_is_done(self):
        settings = {"phase1.rounds": "2", "phase2.start_rounds": "", "adapt.steps": "5",
                    "task.analytic.test_clients": "2000", "adapt.test_clients_per_cluster": "2000"}
        out = self.scratch / "stopped-late"
        job = start(sweep_words(out, settings=settings, budgets="2,3"))
        log = ""
        for line in job.stdout:
            log += line
            if "evaluating" in line:
                break
        job.send_signal(signal.SIGUSR1)
        log += job.communicate(timeout=60)[0]
        self.assertEqual(job.returncode, 75, log)
        self.assertEqual(len(clusters(out)), 4)  # trained, and some clients evaluated
        self.assertFalse((out / "budget-3" / "run.h5").exists())
        _, log = self.sweep("stopped-late", ranks=2, settings=settings, budgets="2,3")
        self.assertIn("trained_here=0", log)
        alone = self.scratch / "not-stopped-late"
        code, log = apo(*run_words(alone, 3, settings))
        self.assertEqual(code, 0, log)
        self.assert_same_run(alone, out / "budget-3")

    def test_two_jobs_share_the_work(self):
        out = self.scratch / "shared"
        jobs = [start(sweep_words(out, "--claim", "1"), ranks=ranks) for ranks in (1, 2)]
        logs = [job.communicate(timeout=300)[0] for job in jobs]
        for job, log in zip(jobs, logs):
            self.assertEqual(job.returncode, 0, log)
        trained = [int(log.split("trained_here=")[1].split()[0]) for log in logs]
        self.assertEqual(sum(trained), DISTINCT, trained)
        self.assert_as_if_alone(out)

    def test_no_wait_leaves_what_others_hold(self):
        out = self.scratch / "nowait"
        self.sweep("nowait", budgets="1-3")
        # One cluster that has to be trained again is in somebody else's hands.
        newest = max(clusters(out), key=lambda path: (path / "result.h5").stat().st_mtime_ns)
        (newest / "result.h5").unlink()
        (out / "budget-3" / "status.json").unlink()
        holder = subprocess.Popen(["flock", str(newest / "lock"), "sleep", "60"],
                                  start_new_session=True)
        try:
            time.sleep(0.5)
            code, log = apo(*sweep_words(out, "--no-wait"))
            self.assertEqual(code, 75, log)
            self.assertIn("1 clusters", log)
            self.assertFalse((newest / "result.h5").exists())
        finally:
            os.killpg(holder.pid, signal.SIGKILL)
            holder.wait()
        self.sweep("nowait", more=("--no-wait",))
        self.assert_as_if_alone(out)

    def test_damaged_result_is_trained_again(self):
        out, _ = self.sweep("damaged")
        path = clusters(out)[0] / "result.h5"
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
        for budget in BUDGETS:
            (out / f"budget-{budget}" / "status.json").unlink()
        _, log = self.sweep("damaged")
        self.assertIn("trained again", log)
        self.assert_as_if_alone(out)

    def test_modes_with_hysteresis(self):
        settings = {"direction.beta_hysteresis": "4", "direction.beta_tolerance": "1e-2"}
        out, _ = self.sweep("hysteresis", settings=settings, budgets="2,4")
        for budget in (2, 4):
            alone = self.scratch / f"hysteresis-{budget}"
            code, log = apo(*run_words(alone, budget, settings))
            self.assertEqual(code, 0, log)
            with h5py.File(alone / "run.h5") as file:
                self.assertGreater(len(set(file["phase1/steps/mode"][:])), 1)
            self.assert_same_run(alone, out / f"budget-{budget}")

    def test_other_methods_and_warm_reference(self):
        for name, settings in (
                ("fedavg", {"method.name": "fedavg", "method.scope": "cluster"}),
                ("fedcmoo", {"method.name": "fedcmoo", "method.scope": "cluster"}),
                ("warm", {"clustering.reference": "warm:2"}),
                ("hc", {"clustering.method": "hc"})):
            with self.subTest(name):
                out, _ = self.sweep(name, settings=settings, budgets="2-3", ranks=2)
                for budget in (2, 3):
                    alone = self.scratch / f"{name}-{budget}"
                    code, log = apo(*run_words(alone, budget, settings))
                    self.assertEqual(code, 0, log)
                    self.assert_same_run(alone, out / f"budget-{budget}")

    def test_language_model(self):
        settings = {**harness.SHORT, "phase1.rounds": "2", "phase2.rounds": "1",
                    "evaluate.prompts_per_client": "1"}
        out, alone = self.scratch / "language", self.scratch / "language-2"
        code, log = apo("sweep", "-c", "configs/quickstart.ini", "--out", out, "--budgets", "1-2",
                        *options(settings), ranks=2)
        self.assertEqual(code, 0, log)
        code, log = apo(*harness.run_words(alone, {**settings, "clustering.budget": "2"}))
        self.assertEqual(code, 0, log)
        self.assertEqual(len(harness.adapters(alone)), 2)
        self.assert_same_run(alone, out / "budget-2")
        self.assertEqual(len(harness.adapters(out / "budget-1")), 1)

    def test_what_cannot_be_swept_is_refused(self):
        for settings, more, expected in (
                ({"method.name": "fedavg"}, (), "method.scope = cluster"),
                ({"method.scope": "global"}, (), "one adapter per cluster"),
                ({"clustering.allocation": "largest_remainder"}, (), "allocation"),
                ({"clustering.method": "none"}, (), "clustering.method"),
                ({"clustering.budget": "2", "phase2.server_learning_rate": "1,2"}, (),
                 "server_learning_rate"),
                ({}, ("--claim", "0"), "--claim"),
                ({}, ("--budgets", "4-2"), "4-2")):
            with self.subTest(str(settings) + str(more)):
                out = self.scratch / "refused"
                code, log = apo(*sweep_words(out, *more, settings=settings))
                self.assertEqual(code, 64, log)
                self.assertIn(expected, log)
                self.assertFalse(out.exists())

    def test_folder_of_another_configuration_is_refused(self):
        out, _ = self.sweep("other", budgets="1")
        code, log = apo(*sweep_words(out, budgets="2", settings={"phase1.rounds": "11"}))
        self.assertEqual(code, 64, log)
        self.assertIn("phase1.rounds", log)
        # What no result depends on may change.
        code, log = apo(*sweep_words(out, budgets="1-2",
                                     settings={"checkpoint.every_rounds": "5"}))
        self.assertEqual(code, 0, log)


if __name__ == "__main__":
    harness.main()
