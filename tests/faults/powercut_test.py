"""Power cuts, emulated: a run works on an ext4 file system inside a file; what that file holds at
some instant, without any sync, is what a disk would hold. A copy of it is mounted and looked at.

The ranks are stopped between two system calls while the file is copied, so a copy is one instant.
It does not show sectors torn or reordered inside a drive. APO_FAULTS_CUTS: number of cuts.
"""

import os
import pathlib
import random
import shutil
import signal
import subprocess
import time
import unittest

from job import (SHORT, Case, generations, harness, is_complete, main, mount, newest, resumed_from,
                 temporaries, unmount)

SEED = int(os.environ.get("APO_FAULTS_SEED", "1"))
CUTS = int(os.environ.get("APO_FAULTS_CUTS", "5"))
KEEP = 3  # checkpoint.keep
MEBIBYTES = 96


def tool(*words):
    subprocess.run(list(map(str, words)), check=True, stdout=subprocess.DEVNULL)


def announced(out):
    """Newest generation whose publication had returned. Old ones are removed after that and no
    sooner, so a surplus says that the newest is still on its way to the disk."""
    found = sorted(generations(out))
    if not found:
        return 0
    is_on_its_way = found[-1] <= KEEP or len(found) > KEEP
    return found[-1] - 1 if is_on_its_way else found[-1]


class PowerCut(Case):
    settings = {**SHORT, "checkpoint.every_rounds": "1"}

    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0 or not all(map(shutil.which, ("mkfs.ext4", "losetup", "mount"))):
            raise unittest.SkipTest("needs root, losetup and mkfs.ext4")
        super().setUpClass()
        cls.rng = random.Random(SEED)
        # In memory where that is possible: the syncs of the inner file system cost nothing then.
        memory = pathlib.Path("/dev/shm")
        cls.images = cls.scratch
        if memory.is_dir() and os.statvfs(memory).f_bavail * os.statvfs(memory).f_frsize > 2 ** 30:
            cls.images = memory / cls.scratch.name
            cls.images.mkdir()

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.images, ignore_errors=True)
        if cls.scratch.exists():
            super().tearDownClass()

    def mounted(self, image, name):
        folder = self.scratch / name
        folder.mkdir()
        if failure := mount("-o", "loop", image, folder):
            self.skipTest(f"no loop device can be mounted: {failure}")
        self.addCleanup(unmount, folder)
        return folder

    def cut(self, job, disk, k):
        """A copy of the disk at this instant; (image, newest announced generation, whether a
        publication was under way)."""
        pids = job.freeze()
        try:
            out = disk / "run"
            newest_announced = announced(out)
            on_its_way = bool(temporaries(out)) or newest(out) != newest_announced
            (disk / f"canary-{k}").write_text("never synced")
            image = self.images / f"cut-{k}"
            tool("cp", "--sparse=always", self.images / "disk", image)
        finally:
            job.signal(pids, signal.SIGCONT)
        return image, newest_announced, on_its_way

    def look(self, image, newest_announced, k):
        """Mounts the copy, as a machine does that starts again, and completes the run in it."""
        disk = self.mounted(image, f"after-{k}")
        canary = disk / f"canary-{k}"
        lost = not canary.exists() or canary.read_text() == ""
        out = disk / "run"
        found = generations(out)
        self.assertGreaterEqual(max(found, default=0), newest_announced,
                                f"announced generation {newest_announced} is gone")
        text, next_start = self.verified(out)
        self.assertGreaterEqual(next_start, newest_announced, text)
        resumed = resumed_from(self.finish(out, self.rng.randrange(4)))
        self.assertEqual(resumed or 0, next_start)
        unmount(disk)
        image.unlink()
        return lost, resumed

    def test_announced_checkpoints_survive(self):
        image = self.images / "disk"
        tool("truncate", "-s", f"{MEBIBYTES}M", image)
        tool("mkfs.ext4", "-q", "-F", image)
        disk = self.mounted(image, "disk")
        out = disk / "run"
        job = self.start(out, 2)
        self.assertTrue(job.wait_until(lambda: newest(out) >= KEEP + 1), job.log())
        cuts = []
        for k in range(CUTS):
            target = newest(out) + self.rng.randrange(5)
            if not job.wait_until(lambda: newest(out) >= target):
                break
            pause = time.monotonic() + self.rng.uniform(0.0, 0.1)
            job.wait_until(lambda: time.monotonic() > pause)
            cuts.append(self.cut(job, disk, k))
        self.assertGreater(len(cuts), 0, "the run was over before the first cut")
        job.destroy()
        self.assertFalse(is_complete(out))
        lost, inside, lines = 0, 0, []
        for k, (copy, newest_announced, on_its_way) in enumerate(cuts):
            without_canary, resumed = self.look(copy, newest_announced, k)
            lost += without_canary
            inside += on_its_way
            lines.append(f"{newest_announced}->{resumed}")
        print(f"\nseed {SEED}; {len(cuts)} cuts, {inside} inside a publication; announced -> "
              f"resumed: {', '.join(lines)}; unsynced files lost: {lost}", flush=True)
        self.assertGreater(lost, 0, "files that were never synced are all there: nothing was cut")


if __name__ == "__main__":
    main(with_mounts=True)
