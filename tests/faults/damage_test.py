"""Damaged files in the folder of a run that was killed: named, passed over, and made good.

APO_FAULTS_FLIP: the program that flips the bits of a checkpoint and a run file some hundred times.
"""

import json
import os
import random
import shutil
import subprocess

from job import BAD_DATA, SHORT, Case, generations, harness, main, newest, resumed_from

SEED = int(os.environ.get("APO_FAULTS_SEED", "1"))


def tear(path, rng, length=None):
    data = path.read_bytes()
    path.write_bytes(data[:rng.randrange(len(data)) if length is None else length])


def flip(path, rng, num_bits=1):
    data = bytearray(path.read_bytes())
    for _ in range(num_bits):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


class Damage(Case):
    settings = SHORT

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.rng = random.Random(SEED)
        # A run that was killed a few rounds before its end, in the second start of Phase II.
        cls.killed = cls.scratch / "killed"
        cls.job = None
        job = cls.start(cls, cls.killed, 2)
        last = 15 + 2 * 2  # checkpoints of Phase I, of both starts
        assert job.wait_until(lambda: newest(cls.killed) >= last - 1), job.log()
        job.kill("job", cls.rng)
        job.wait()
        cls.found = sorted(generations(cls.killed))
        assert len(cls.found) >= 3, cls.found

    def copy(self, name):
        out = self.scratch / name
        shutil.copytree(self.killed, out)
        return out

    def passes_over(self, name, damage, num_damaged, ranks=1):
        """The newest files are damaged: named one by one, the next one is used, and they stay."""
        out = self.copy(name)
        present = generations(out)
        bad = self.found[len(self.found) - num_damaged:]
        for generation in bad:
            damage(present[generation])
        before = {generation: present[generation].read_bytes() for generation in bad}
        good = self.found[:len(self.found) - num_damaged]
        text, next_start = self.verified(out, "^checkpoint")
        self.assertEqual(next_start, good[-1] if good else 0, text)
        log = self.finish(out, ranks)
        for generation in bad:
            self.assertRegex(log, rf"checkpoint {generation} is skipped: .*"
                                  rf"checkpoint-{generation:06d}\.h5")
            self.assertRegex(text, rf"checkpoint {generation} +DAMAGED")
            self.assertEqual(present[generation].read_bytes(), before[generation])
        self.assertEqual(resumed_from(log), good[-1] if good else None, log)
        self.assertGreater(newest(out), self.found[-1])

    def test_torn_newest_checkpoint(self):
        for k, length in enumerate((0, 1, None, None)):
            with self.subTest(length=length):
                self.passes_over(f"torn-{k}", lambda path: tear(path, self.rng, length), 1, k % 3)

    def test_flipped_newest_checkpoint(self):
        for k, num_bits in enumerate((1, 1, 100)):
            with self.subTest(num_bits=num_bits):
                self.passes_over(f"flipped-{k}", lambda path: flip(path, self.rng, num_bits), 1,
                                 k % 3)

    def test_several_damaged_checkpoints(self):
        self.passes_over("two", lambda path: flip(path, self.rng), 2)
        self.passes_over("all", lambda path: tear(path, self.rng), len(self.found), 2)

    def test_whole_file_of_another_kind_is_no_checkpoint(self):
        """Every hash is right, but it is the run file, which holds no state."""
        out = self.copy("stranger")
        present = generations(out)
        shutil.copy(self.killed / "run.h5", present[self.found[-1]])
        log = self.finish(out, 1)
        self.assertEqual(resumed_from(log), self.found[-2], log)
        self.assertIn(f"{present[self.found[-1]]}: whole, but no checkpoint of this run", log)

    def test_damaged_again_after_the_first_was_passed_over(self):
        out = self.copy("twice")
        present = generations(out)
        flip(present[self.found[-1]], self.rng)
        job = self.start(out, 2)
        self.assertTrue(job.wait_until(lambda: newest(out) > self.found[-1]), job.log())
        job.kill("job", self.rng)
        job.wait()
        tear(generations(out)[newest(out)], self.rng)
        log = self.finish(out, 1)
        self.assertRegex(log, r"checkpoint \d+ is skipped")
        self.assertIsNotNone(resumed_from(log), log)

    def test_damaged_run_file_is_written_anew(self):
        for name, damage in (("torn", tear), ("flipped", flip)):
            with self.subTest(name):
                out = self.copy(f"run-{name}")
                damage(out / "run.h5", self.rng)
                self.assertEqual(resumed_from(self.finish(out, 1)), self.found[-1])

    def test_damaged_text_files(self):
        out = self.copy("texts")
        with open(out / "metrics.jsonl", "a") as file:
            file.write('{"phase": 1, "round": 99')  # torn in a write
        tear(out / "status.json", self.rng)
        (out / "log.jsonl").write_bytes(b"\0" * 100)
        self.assertEqual(resumed_from(self.finish(out, 2)), self.found[-1])
        out = self.copy("configuration")
        flip(out / "configuration.ini", self.rng)
        job = self.start(out, 1)
        self.assertEqual(job.wait(), 64, job.log())
        self.assertIn("configuration.ini", job.log())

    def test_damaged_finished_run_is_not_reported_but_made_again(self):
        for name, damage in (("torn", tear), ("flipped", flip)):
            out = self.scratch / f"finished-{name}"
            shutil.copytree(self.reference, out)
            self.assertEqual(json.loads((out / "status.json").read_text())["state"], "complete")
            damage(out / "run.h5", self.rng)
            code, log = harness.apo("report", out)
            self.assertEqual(code, BAD_DATA, log)
            self.assertIn(str(out / "run.h5"), log)
            self.assertIn("its results are damaged and are made again", self.finish(out, 2))

    def test_hundreds_of_flips_and_tears(self):
        program = os.environ.get("APO_FAULTS_FLIP")
        if not program:
            self.skipTest("APO_FAULTS_FLIP names no program")
        files = [generations(self.killed)[self.found[-1]], self.reference / "run.h5"]
        done = subprocess.run([program, "--gtest_filter=Flip.FilesOfARun"], text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600,
                              env={**os.environ, "APO_FAULTS_FILES": ":".join(map(str, files))})
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("flips", done.stdout)
        print("\n" + "\n".join(line for line in done.stdout.splitlines() if ".h5, " in line))


if __name__ == "__main__":
    main()
