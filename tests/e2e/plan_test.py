"""apo plan against what a run of the same configuration does: counts, bytes, memory, refusals."""

import json
import os
import pathlib
import subprocess
import time
import unittest

import h5py
import numpy as np

import harness
from harness import apo, command, options

ANALYTIC = {
    "task.analytic.clients": "60",
    "task.analytic.test_clients": "12",
    "clustering.budget": "5",
    "phase1.rounds": "12",
    "phase1.clients_per_round": "5",
    "phase2.rounds": "3",
    "monitor.audit_every": "5",
    "checkpoint.every_rounds": "4",
}
DEMO = {**harness.SHORT, "phase1.clients_per_round": "2", "phase2.rounds": "1",
        "monitor.audit_every": "3", "phase1.rounds": "2"}
CASES = {"analytic": ("configs/analytic.ini", ANALYTIC), "demo": ("configs/quickstart.ini", DEMO)}
MEMORY = 0.15  # largest relative error of the peak
PLAIN = unittest.skipIf("APO_SANITIZED" in os.environ, "sanitizers keep freed memory")


def plan(config, settings, *words):
    done = subprocess.run(
        command(0, "plan", "-c", config, "--format", "json", *words, *options(settings)),
        cwd=harness.SOURCE, text=True, timeout=400, capture_output=True, env=os.environ)
    return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr


def processes_below(pid):
    found = [pid]
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found += processes_below(int(child))
    return found


def peak_bytes(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return 1024 * int(line.split()[1])
    return None  # a zombie has none


def rank_of(pid):
    """Rank of a process that mpirun started, None for others."""
    for entry in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
        if entry.startswith(b"OMPI_COMM_WORLD_RANK="):
            return int(entry.split(b"=")[1])
    return None


def weighed_run(config, settings, ranks, out):
    """Runs to the end; returns (exit code, {rank: peak resident memory as the kernel counts it})."""
    words = ("run", "-c", config, "--out", str(out), *options(settings))
    with open(f"{out}.log", "w") as log:
        job = subprocess.Popen(command(ranks, *words), cwd=harness.SOURCE, stdout=log,
                               stderr=subprocess.STDOUT, env=os.environ)
        peaks = {}
        while job.poll() is None:
            try:
                for pid in processes_below(job.pid):
                    rank = rank_of(pid)
                    peak = peak_bytes(pid) if rank is not None else None
                    if peak is not None and pathlib.Path(f"/proc/{pid}/exe").resolve() == \
                            harness.APO.resolve():
                        peaks[rank] = max(peak, peaks.get(rank, 0))
            except OSError:
                pass  # a process has just ended
            time.sleep(0.01)
    return job.returncode, peaks


class Plan(harness.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.runs = {}

    def pair(self, case, ranks):
        """(plan, run folder, peaks) of a case, each made once."""
        key = (case, ranks)
        if key not in self.runs:
            config, settings = CASES[case]
            code, planned, errors = plan(config, settings, "--ranks", str(ranks))
            self.assertEqual(code, 0, errors)
            out = self.scratch / f"{case}-{ranks}"
            code, peaks = weighed_run(config, settings, ranks, out)
            self.assertEqual(code, 0, pathlib.Path(f"{out}.log").read_text())
            self.runs[key] = planned, out, peaks
        return self.runs[key]

    def check_memory(self, case, ranks):
        planned, _, peaks = self.pair(case, ranks)
        self.assertEqual(sorted(peaks), list(range(ranks)))
        self.assertTrue(planned["fits"])
        for rank, peak in peaks.items():
            expected = planned["memory_bytes"]["rank_0" if rank == 0 else "other_ranks"]
            print(f"{case}, rank {rank} of {ranks}: planned {expected / 2**20:.1f} MiB, "
                  f"peak {peak / 2**20:.1f} MiB, {100 * (expected / peak - 1):+.1f} %")
            self.assertLess(abs(expected / peak - 1), MEMORY)

    @PLAIN
    def test_memory_of_an_analytic_run(self):
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                self.check_memory("analytic", ranks)

    @PLAIN
    def test_memory_of_the_demo(self):
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                self.check_memory("demo", ranks)

    def test_counts_teams_and_bytes_are_those_of_the_run(self):
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                planned, out, _ = self.pair("analytic", ranks)
                self.assertEqual(planned["clusters_from"], "exact")
                with h5py.File(out / "run.h5") as file:
                    for phase in ("phase1", "phase2"):
                        count = planned["phases"][phase]
                        self.assertEqual(len(file[f"{phase}/steps/client"]), count["steps"])
                        self.assertEqual(int(file[f"{phase}/rounds/num_participants"][:].sum()),
                                         count["client_rounds"])
                        self.assertEqual(len(np.unique(file[f"{phase}/rounds/round"])),
                                         count["rounds"])
                        self.assertEqual(set(file[f"{phase}/rounds/bytes_reduced"][:]),
                                         {planned["reduced_bytes"][f"{phase}_round"]})
                    self.assertEqual(len(file["adaptation/steps/client"]),
                                     planned["phases"]["adaptation"]["steps"])
                    audits = int((file["theory/rounds/audit"][:] == 1).sum())
                    self.assertEqual(audits, planned["audits"] * len(file["clusters/id"]))
                    teams = {(entry["cluster"], team["num_ranks"], entry["clients"])
                             for team in planned["teams"] for entry in team["clusters"]}
                    self.assertEqual(teams, set(zip(file["clusters/id"][:].tolist(),
                                                    file["clusters/team_ranks"][:].tolist(),
                                                    file["clusters/num_clients"][:].tolist())))

    def test_bytes_on_disk(self):
        planned, out, _ = self.pair("analytic", 1)
        disk = planned["disk_bytes"]
        self.assertLess(abs(disk["run_file"] / (out / "run.h5").stat().st_size - 1), 0.25)
        newest = max((out / "checkpoints").glob("checkpoint-*.h5"))
        self.assertLess(abs(disk["checkpoint"] / newest.stat().st_size - 1), 0.25)
        total = sum(p.stat().st_size for p in out.rglob("*") if p.is_file())
        self.assertLess(total, disk["most"])

    def test_more_ranks_than_clusters_share_them(self):
        code, planned, errors = plan(*CASES["analytic"], "--ranks", "7", "--no-calibration")
        self.assertEqual(code, 0, errors)
        self.assertEqual(sum(team["num_ranks"] for team in planned["teams"]), 7)
        self.assertEqual(len(planned["teams"]), 5)
        self.assertNotIn("seconds", planned)

    def test_plan_of_several_ranks_that_calibrate_together(self):
        config, settings = CASES["analytic"]
        code, text = apo("plan", "-c", config, "--format", "json", *options(settings), ranks=3)
        self.assertEqual(code, 0, text)
        together = json.loads(text[text.index("{"):])
        code, alone, errors = plan(config, settings, "--ranks", "3")
        self.assertEqual(code, 0, errors)
        for key in ("ranks", "teams", "phases", "reduced_bytes", "disk_bytes"):
            self.assertEqual(together[key], alone[key])
        self.assertGreater(together["seconds"]["phase1"], 0)

    def test_every_method_has_a_plan(self):
        for method in ("fedavg", "firm", "server_mgda", "fedcmoo", "fsmgda", "fedmgda_plus", "ifca",
                       "rewarded_soup", "base"):
            with self.subTest(method):
                settings = {**ANALYTIC, "method.name": method}
                code, planned, errors = plan(CASES["analytic"][0], settings, "--ranks", "2")
                self.assertEqual(code, 0, errors)
                self.assertEqual("phase2" in planned["phases"], False)
                self.assertEqual("phase1" in planned["phases"], method != "base")
                if method != "base":
                    self.assertEqual(len(planned["teams"]), 1)  # one adapter, all ranks
                    self.assertGreater(planned["seconds"]["phase1"], 0)

    def test_predicts_time_by_parts(self):
        planned, _, _ = self.pair("demo", 1)
        seconds = planned["seconds"]
        for part in ("start", "reference", "audits", "phase1", "phase2", "evaluation"):
            self.assertGreater(seconds[part], 0, part)
        self.assertAlmostEqual(sum(v for k, v in seconds.items() if k != "total"),
                               seconds["total"], places=6)

    def test_refuses_what_does_not_fit_and_says_what_would(self):
        config, settings = CASES["analytic"]
        words = ("--ranks", "6", "--memory-per-node", "500M", "--no-calibration")
        code, planned, errors = plan(config, settings, *words)
        self.assertEqual(code, 65, errors)
        self.assertFalse(planned["fits"])
        self.assertRegex(errors, r"6 ranks on a node need .* but it has 500\.0 MiB")
        self.assertRegex(planned["change"], r"^--ranks-per-node [1-5]$")
        self.assertIn(planned["change"], errors)
        code, _, errors = plan(config, settings, *words, *planned["change"].split())
        self.assertEqual(code, 0, errors)
        option, value = planned["change"].split()
        code, _, _ = plan(config, settings, *words, option, str(int(value) + 1))
        self.assertEqual(code, 65)

    def test_a_node_that_is_too_small_for_one_rank(self):
        code, planned, errors = plan(*CASES["demo"], "--memory-per-node", "20M",
                                     "--no-calibration")
        self.assertEqual(code, 65)
        self.assertEqual(planned["change"], "")
        self.assertIn("no single change makes it fit", errors)

    def test_a_device_that_is_too_small(self):
        code, planned, errors = plan(*CASES["demo"], "--device-memory", "500M")
        self.assertEqual(code, 65)
        self.assertRegex(errors, r"a rank needs .* of its device, but it has 500\.0 MiB "
                                 r"\(--device-memory\)")
        device = planned["device_bytes"]
        self.assertEqual(device["total"], sum(value for name, value in device.items()
                                              if name not in ("total", "limit", "limit_from")))
        code, planned, errors = plan(*CASES["demo"], "--device-memory", "80G")
        self.assertEqual(code, 0, errors)
        self.assertNotIn("seconds", planned)  # of another machine

    @PLAIN
    def test_arithmetic_alone_is_near(self):
        planned, _, peaks = self.pair("demo", 1)
        code, arithmetic, errors = plan(*CASES["demo"], "--no-calibration")
        self.assertEqual(code, 0, errors)
        self.assertLess(abs(arithmetic["memory_bytes"]["rank_0"] / peaks[0] - 1), 0.3)
        self.assertEqual(arithmetic["phases"], planned["phases"])

    def test_leaves_nothing_behind(self):
        before = sorted(self.scratch.iterdir())
        out = self.scratch / "absent" / "run"
        code, planned, errors = plan(*CASES["analytic"], "--out", str(out), "--no-calibration")
        self.assertEqual(code, 0, errors)
        self.assertGreater(planned["disk_bytes"]["free"], 0)
        self.assertEqual(sorted(self.scratch.iterdir()), before)

    def test_text_and_wrong_options(self):
        code, text = apo("plan", "-c", CASES["analytic"][0], "--ranks", "2", "--no-calibration",
                         *options(ANALYTIC))
        self.assertEqual(code, 0, text)
        for title in ("teams", "work", "memory of a rank", "bytes reduced per rank", "disk", "time",
                      "it fits"):
            self.assertIn(f"\n{title}\n", text)
        for words, message in (
                (("--ranks", "0"), "--ranks: expected a positive integer, found '0'"),
                (("--memory-per-node", "64X"), "expected bytes such as 64G"),
                (("--device-memory", "-1"), "--device-memory: expected bytes such as 64G"),
                (("--format", "csv"), "--format: expected text or json, found 'csv'")):
            code, text = apo("plan", "-c", CASES["analytic"][0], *words)
            self.assertEqual(code, 64, text)
            self.assertIn(message, text)


if __name__ == "__main__":
    harness.main()
