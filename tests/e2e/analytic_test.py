"""Whole runs on analytic tasks: every method, any number of ranks, restart, known optima."""

import os
import signal
import subprocess
import time

import h5py
import numpy as np

import harness
from harness import apo, command, options

CONFIG = "configs/analytic.ini"
SMALL = {
    "task.analytic.clients": "60",
    "task.analytic.test_clients": "12",
    "clustering.budget": "5",
    "phase1.rounds": "12",
    "phase1.clients_per_round": "5",
    "phase2.rounds": "3",
    "monitor.audit_every": "5",
    "checkpoint.every_rounds": "1",
}
METHODS = ("fedavg", "firm", "server_mgda", "fedcmoo", "fedcmoo_pref", "fsmgda", "fedmgda_plus",
           "ifca", "rewarded_soup", "base")


def words(out, settings=None):
    return ["run", "-c", CONFIG, "--out", str(out), *options({**SMALL, **(settings or {})})]


class Analytic(harness.Case):
    def run_on(self, name, ranks, settings=None):
        out = self.scratch / name
        code, log = apo(*words(out, settings), ranks=ranks)
        self.assertEqual(code, 0, log)
        return out

    def test_ranks_give_the_same_run(self):
        one = self.run_on("ranks1", 1)
        for ranks in (2, 3, 4, 7):
            other = self.run_on(f"ranks{ranks}", ranks)
            self.assert_same_run(one, other)
            self.assert_same_report(one, other)

    def test_every_method_runs_and_does_not_depend_on_ranks(self):
        for method in METHODS:
            with self.subTest(method):
                settings = {"method.name": method, "phase1.rounds": "4"}
                one = self.run_on(f"{method}-1", 1, settings)
                self.assert_same_run(one, self.run_on(f"{method}-3", 3, settings))
                with h5py.File(one / "run.h5") as file:
                    summary = file["evaluation/summary"]
                    stages = set(summary["stage"].asstr()[:])
                    self.assertEqual("adapted" in stages,
                                     method not in ("base", "rewarded_soup"))
                    if method != "base":
                        rounds = file["phase1/rounds"]
                        self.assertTrue((rounds["floats_up"][:] > 0).all())
                        self.assertTrue((rounds["floats_down"][:] > 0).all())

    def killed_and_continued(self, method, settings):
        settings = {"method.name": method, "phase1.rounds": "40", **settings}
        whole = self.run_on(f"whole-{method}", 2, settings)
        out = self.scratch / f"killed-{method}"
        job = subprocess.Popen(command(2, *words(out, settings)), cwd=harness.SOURCE,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               start_new_session=True)
        deadline = time.time() + 60
        while time.time() < deadline and job.poll() is None:
            if (out / "checkpoints" / "checkpoint-000003.h5").exists():
                break
            time.sleep(0.005)
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
        time.sleep(0.5)
        code, log = apo(*words(out, settings), ranks=3)
        self.assertEqual(code, 0, log)
        self.assert_same_run(whole, out)

    def test_killed_run_continues_with_what_the_server_remembers(self):
        self.killed_and_continued("fedcmoo", {"phase2.rounds": "0"})

    def test_killed_run_continues_with_the_clients_modes(self):
        self.killed_and_continued("apo", {"direction.beta_hysteresis": "4",
                                          "direction.beta_tolerance": "1e-2"})

    def test_fedavg_in_the_clusters_is_apo_without_the_second_phase(self):
        apo_run = self.run_on("apo-phase1", 2, {"phase2.rounds": "0"})
        fedavg = self.run_on("fedavg-clusters", 2,
                             {"method.name": "fedavg", "method.scope": "cluster"})
        one, two = (harness.datasets(out / "run.h5") for out in (apo_run, fedavg))
        self.assertEqual(set(one), set(two))
        for name in one:
            if not name.endswith("/method"):
                self.assertTrue(np.array_equal(one[name], two[name],
                                               equal_nan=one[name].dtype.kind == "f"), name)

    def test_gap_is_measured_against_the_known_optimum(self):
        out = self.run_on("gap", 2, {"phase1.rounds": "60"})
        with h5py.File(out / "run.h5") as file:
            summary = file["evaluation/summary"]
            stage = summary["stage"].asstr()[:]
            gap = summary["chebyshev_gap"][:]
            self.assertTrue((gap > -1e-6).all(), "nothing is better than the optimum")
            self.assertLess(gap[stage == "initialiser"].mean(), gap[stage == "base"].mean())
            preference = file["clients/preference"][:][summary["client"][:]]
            self.assertTrue(np.allclose(summary["chebyshev"][:],
                                        (preference * summary["loss"][:]).max(axis=1)))
            self.assertTrue(np.allclose(summary["solution"][:], np.exp(-summary["loss"][:])))

    def test_theory_tables_agree_with_the_steps(self):
        out = self.run_on("theory", 2)
        with h5py.File(out / "run.h5") as file:
            steps = file["phase1/steps"]
            mu, weight, gram = steps["mu"][:], steps["weight"][:], steps["gram"][:]
            adjustment = steps["adjustment"][:]
            self.assertTrue(np.array_equal(mu, weight))
            gamma = np.einsum("si,sij,sj->s", adjustment, gram, mu)
            self.assertTrue(np.allclose(gamma, steps["gamma"][:], rtol=1e-9, atol=1e-12))
            self.assertTrue((steps["min_slack"][:] > -1e-8).all())
            self.assertGreater(len(file["theory/rounds"]), 0)
            rounds, clients = file["theory/rounds"], file["theory/clients"]
            # 5 clusters, 12 rounds with participants, and audits in rounds 0, 5, 10
            self.assertEqual(rounds["round"].shape[0], 5 * (12 + 3))
            audits = rounds["audit"][:] == 1
            self.assertEqual(int(audits.sum()), 15)
            self.assertEqual(int((clients["audit"][:] == 1).sum()), 3 * 60)

    def test_clustering_options(self):
        for name, settings in (
                ("warm", {"clustering.reference": "warm:3"}),
                ("hc", {"clustering.method": "hc"}),
                ("average", {"clustering.linkage": "average"}),
                ("remainder", {"clustering.allocation": "largest_remainder",
                               "clustering.budget": "9"})):
            with self.subTest(name):
                short = {"phase1.rounds": "2", "phase2.rounds": "1", **settings}
                one = self.run_on(f"{name}-1", 1, short)
                self.assert_same_run(one, self.run_on(f"{name}-2", 2, short))
                with h5py.File(one / "run.h5") as file:
                    self.assertEqual(file["clusters/id"].shape[0],
                                     int(settings.get("clustering.budget", 5)))

    def test_what_cannot_be_is_refused(self):
        for settings, expected in (
                ({"method.name": "ditto"}, "learns from texts"),
                ({"evaluate.reward": "rule"}, "evaluate.reward"),
                ({"adapt.shots": "1000"}, "adapt.shots"),
                ({"clustering.reference": "warm:x"}, "warm"),
                ({"task.analytic.problem": "epo2"}, "epo2"),
                ({"task.analytic.problem": "epo4"}, "epo4")):
            with self.subTest(str(settings)):
                out = self.scratch / "refused"
                code, log = apo(*words(out, settings))
                self.assertEqual(code, 64, log)
                self.assertIn(expected, log)
                self.assertFalse(out.exists())


if __name__ == "__main__":
    harness.main()
