"""Runs that are killed at random instants and resumed on other numbers of ranks.

APO_FAULTS_KILLS, APO_FAULTS_DEMO_KILLS: number of kills; APO_FAULTS_SEED: of the choices.
"""

import collections
import os
import random
import re
import shutil
import signal
import time

from job import (BACKEND, CLUSTERS, Case, Job, analytic, generations, harness, is_complete, main,
                 newest, resumed_from, temporaries)

KINDS = ("rank", "ranks", "mpirun", "job")
SEED = int(os.environ.get("APO_FAULTS_SEED", "1"))
DECOY = 900_000  # generation number in the names of files that are no checkpoints


class Kills:
    """Kills a run until `count` kills are done; runs that come to their end begin again."""

    def __init__(self, case, words, reference, count, rows_per_life):
        self.case, self.words, self.reference = case, words, reference
        self.count, self.rows_per_life = count, rows_per_life
        self.rng = random.Random(SEED)
        self.counts = collections.Counter()
        self.ranks = collections.Counter()
        self.kinds = []  # the next ones; in blocks, so that each has its share
        self.out = None
        self.runs = 0
        self.begin()

    def begin(self):
        if self.out is not None:
            self.case.assert_same_run(self.reference, self.out)
            self.counts["runs compared"] += 1
            shutil.rmtree(self.out)
        self.runs += 1
        self.out = self.case.scratch / f"killed-{self.runs}"
        self.seen = 0  # newest generation that any look has found
        self.leftover = set()

    def start(self):
        ranks = self.rng.randrange(5)
        self.ranks[ranks] += 1
        every = {"checkpoint.every_rounds": str(self.rng.randrange(1, 4))}  # may change at a resume
        job = Job(self.words(self.out, every), ranks, self.case.scratch)
        self.case.jobs.append(job)
        return job

    def look(self):
        self.seen = max(self.seen, newest(self.out))

    def num_rows(self):
        path = self.out / "metrics.jsonl"
        return path.read_bytes().count(b"\n") if path.exists() else 0

    def wait_for_the_moment(self, job):
        """Some are killed while they start, most some rounds and milliseconds later: most of the
        time goes into checkpoints, so many kills hit one."""
        if self.rng.random() < 0.15:
            pause = time.monotonic() + self.rng.uniform(0.0, 1.0)
            job.wait_until(lambda: time.monotonic() > pause)
            return
        # A resume cuts the file back to its checkpoint, so rows are counted from there.
        target = self.rng.randrange(1, self.rows_per_life)
        begin = None

        def is_reached():
            nonlocal begin
            self.look()
            if begin is None:
                if "continuing from checkpoint" in job.log() or not generations(self.out):
                    begin = self.num_rows()
                return False
            return self.num_rows() >= begin + target
        job.wait_until(is_reached)
        if self.rng.random() < 0.1 and (self.out / "run.h5").exists():
            self.case.assert_whole(self.out / "run.h5")  # at any moment of a job
            self.counts["reads while running"] += 1
        pause = time.monotonic() + self.rng.uniform(0.0, 0.15)
        job.wait_until(lambda: time.monotonic() > pause)

    def plant_decoys(self):
        """Names that only look like checkpoints: none may be taken for one."""
        folder = self.out / "checkpoints"
        present = generations(self.out)
        if not present or self.rng.random() > 0.3:
            return
        whole = present[max(present)].read_bytes()
        torn = whole[:self.rng.randrange(len(whole))]
        (folder / f".tmp-1-checkpoint-{DECOY}.h5").write_bytes(torn)
        (folder / f"checkpoint-{DECOY}.h5.part").write_bytes(whole)
        (folder / f"checkpoint-{DECOY}-copy.h5").write_bytes(whole)

    def check_folder(self):
        self.look()
        case = self.case
        present = generations(self.out)
        case.assertEqual(max(present, default=0), self.seen, "a published checkpoint is gone")
        case.assertLess(self.seen, DECOY, "resumed from a file that is no checkpoint")
        if present:
            case.assert_whole(present[self.seen])
        case.assert_beginning_of(self.reference, self.out)
        if (self.out / "configuration.ini").exists():  # else it had not begun
            case.assertEqual(case.verified(self.out)[1], self.seen)

    def check_resume(self, job, before):
        """What the life that has just ended said about where it began."""
        generation = resumed_from(job.log())
        if generation is not None:
            self.case.assertEqual(generation, before, job.log())
            self.counts["resumed"] += 1
        elif before == 0:
            self.counts["from the beginning"] += 1
        else:
            self.counts["killed before it resumed"] += 1
        if generation is not None:
            kept = temporaries(self.out) & self.leftover
            self.case.assertFalse(kept, "temporary files of a killed job are still there")

    def one_life(self):
        before = newest(self.out)
        self.plant_decoys()
        self.leftover = temporaries(self.out)
        self.kinds = self.kinds or self.rng.sample(KINDS, len(KINDS))
        kind = self.kinds.pop()
        job = self.start()
        self.wait_for_the_moment(job)
        was_running = job.running()
        if was_running:
            job.kill(kind, self.rng)
        code = job.wait()
        self.check_resume(job, before)
        if not is_complete(self.out):
            self.case.assertTrue(was_running, f"ended by itself with code {code}\n{job.log()}")
            self.case.assertNotEqual(code, 0, f"killed ({kind}), reported as success")
            self.counts[f"kill {kind}"] += 1
            self.count -= 1
            self.counts["hit a publication"] += bool(temporaries(self.out) - self.leftover)
            self.check_folder()
        elif code == 0 or not was_running:
            self.case.assertEqual(code, 0, job.log())
            self.begin()

    def run(self):
        while self.count > 0:
            self.one_life()
        job = self.start()
        self.case.assertEqual(job.wait(), 0, job.log())
        self.case.assert_same_run(self.reference, self.out)
        self.counts["runs compared"] += 1
        print(f"\nseed {SEED}; " + ", ".join(f"{k}: {n}" for k, n in sorted(self.counts.items())) +
              "; lives by ranks (0: without mpirun): " +
              ", ".join(f"{r}: {n}" for r, n in sorted(self.ranks.items())), flush=True)


class KillAnalytic(Case):
    def test_random_kills_leave_no_trace(self):
        count = int(os.environ.get("APO_FAULTS_KILLS", "25"))
        kills = Kills(self, analytic, self.reference, count, rows_per_life=CLUSTERS * 10)
        kills.run()
        if count >= 25:
            for kind in KINDS:
                self.assertGreater(kills.counts[f"kill {kind}"], 0)
            self.assertGreater(kills.counts["resumed"], count // 3)
            self.assertGreater(kills.counts["hit a publication"], 0)

    def refused(self, out, holder):
        code, log = harness.apo(*analytic(out), ranks=0)
        self.assertEqual(code, BACKEND, log)
        self.assertRegex(log, "another job")
        self.assertRegex(log, rf"host {re.escape(os.uname().nodename)} pid {holder}\b")

    def test_second_job_is_refused_until_the_first_is_dead(self):
        out = self.scratch / "shared"
        first = self.start(out, 3)
        self.assertTrue(first.wait_until(lambda: newest(out) >= 2), first.log())
        ranks = first.rank_pids()
        self.assertEqual(len(ranks), 3)
        self.refused(out, ranks[0])
        self.assertTrue(first.running(), first.log())
        # mpirun is dead, rank 0 is stopped in mid-work: the folder is still its own.
        first.signal(ranks[:1], signal.SIGSTOP)
        first.signal([first.pid], signal.SIGKILL)
        with_rank_0 = harness.apo(*analytic(out), ranks=2)
        alive = ranks[0] in [pid for pid, _ in first.session()]
        if alive:
            self.assertEqual(with_rank_0[0], BACKEND, with_rank_0[1])
            self.assertIn(f"pid {ranks[0]} ", with_rank_0[1])
        first.signal(ranks, signal.SIGKILL)
        first.wait()
        self.assert_beginning_of(self.reference, out)
        self.finish(out, 2)


class KillDemo(harness.Case):
    """The same on the demo model: real adapters, forward and backward passes."""

    verified = Case.verified
    assert_whole = Case.assert_whole
    assert_beginning_of = Case.assert_beginning_of

    def test_random_kills_leave_no_trace(self):
        self.jobs = []
        reference = self.scratch / "reference"
        code, log = harness.apo(*harness.run_words(
            reference, {"checkpoint.every_rounds": "1000000"}), ranks=2)
        self.assertEqual(code, 0, log)
        count = int(os.environ.get("APO_FAULTS_DEMO_KILLS", "3"))
        try:
            Kills(self, harness.run_words, reference, count, rows_per_life=2 * CLUSTERS + 1).run()
        finally:
            for job in self.jobs:
                if job.running():
                    job.destroy()


if __name__ == "__main__":
    main()
