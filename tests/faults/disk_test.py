"""Full, read-only and vanished folders in the middle of a run: a clear outcome, nothing committed
is lost, and a restart completes the run."""

import contextlib
import os
import shutil
import signal
import time

from job import BACKEND, SHORT, Case, generations, main, metrics, mount, newest, unmount

ROOM = 48  # MiB of the small file system
SECONDS_TO_END = 120.0  # a job that cannot write has ended by then, on a busy machine as well


@contextlib.contextmanager
def small_disk(case, folder):
    """A tmpfs of its own; skips where none can be mounted."""
    folder.mkdir()
    if failure := mount("-t", "tmpfs", "-o", f"size={ROOM}m", "tmpfs", folder):
        case.skipTest(f"no small file system: {failure}")
    try:
        yield folder
    finally:
        unmount(folder)


@contextlib.contextmanager
def read_only(case, folder, job):
    """Nothing can be written any more; the job is stopped while the folder changes."""
    pids = job.freeze()
    root = os.geteuid() == 0
    parts = [folder, folder / "checkpoints"]
    try:
        if root:  # writes in spite of permissions, but not through a read-only mount
            failure = mount("--bind", folder, folder)
            if failure:
                case.skipTest(f"no read-only mount: {failure}")
            case.assertFalse(mount("-o", "remount,bind,ro", folder))
        else:
            for part in parts:
                part.chmod(0o555)
        job.signal(pids, signal.SIGCONT)
        yield
    finally:
        job.signal(pids, signal.SIGCONT)
        if root:
            unmount(folder)
        else:
            for part in parts:
                part.chmod(0o755)


def fill(path, leave=0):
    """Takes all room of the file system but `leave` bytes."""
    with open(path, "ab", buffering=0) as ballast:
        for block in (1 << 20, 4096):
            with contextlib.suppress(OSError):
                while True:
                    room = os.statvfs(path.parent)
                    if room.f_bavail * room.f_frsize < leave + block:
                        break
                    ballast.write(b"\0" * block)


class Disk(Case):
    settings = SHORT

    def reach(self, job, out, generation):
        self.assertTrue(job.wait_until(lambda: newest(out) >= generation), job.log())

    def assert_nothing_lost(self, out, committed):
        """The newest generation that was there when the trouble began, or a later one."""
        self.assertGreaterEqual(newest(out), committed)
        for path in generations(out).values():
            self.assert_whole(path)
        self.assert_beginning_of(self.reference, out)

    def assert_clear_end(self, job, *words):
        """Not a hang, not success: exit code 74 and a message about the cause."""
        started = time.monotonic()
        code = job.wait(SECONDS_TO_END)
        self.assertEqual(code, BACKEND, job.log())
        errors = [line for line in job.log().splitlines() if "apo: error" in line]
        self.assertTrue(errors, job.log())
        self.assertEqual(len(errors), len(set(errors)), job.log())
        for word in words:
            self.assertIn(word, "\n".join(errors))
        return time.monotonic() - started

    def full_for_good(self, name, ranks):
        with small_disk(self, self.scratch / name) as disk:
            out = disk / "run"
            job = self.start(out, ranks)
            self.reach(job, out, 3)
            fill(disk / "ballast")
            committed = newest(out)
            self.assert_clear_end(job, "No space left")
            self.assert_nothing_lost(out, committed)
            # Still full: the next start says so as well.
            again = self.start(out, ranks)
            self.assert_clear_end(again)
            self.assert_nothing_lost(out, committed)
            (disk / "ballast").unlink()
            self.finish(out, 3 - ranks)

    def test_full_disk_serial(self):
        self.full_for_good("full-serial", 0)

    def test_full_disk_on_two_ranks(self):
        self.full_for_good("full-two", 2)

    def full_for_a_while(self, name, ranks):
        """Room for rows of metrics, not for checkpoints: warns, goes on, and ends well once there
        is room again."""
        with small_disk(self, self.scratch / name) as disk:
            out = disk / "run"
            job = self.start(out, ranks)
            self.reach(job, out, 2)
            pids = job.freeze()
            fill(disk / "ballast", leave=256 * 1024)
            committed = newest(out)
            rows = len(metrics(out))
            job.signal(pids, signal.SIGCONT)
            self.assertTrue(job.wait_until(lambda: "not written" in job.log()), job.log())
            self.assertTrue(job.wait_until(lambda: len(metrics(out)) > rows + 8), job.log())
            self.assertGreaterEqual(newest(out), committed)
            (disk / "ballast").unlink()
            self.assertEqual(job.wait(), 0, job.log())
            self.assertRegex(job.log(), r"checkpoint not written.*No space left")
            self.assert_same_run(self.reference, out)

    def test_disk_that_is_full_for_a_while_serial(self):
        self.full_for_a_while("while-serial", 0)

    def test_disk_that_is_full_for_a_while_on_two_ranks(self):
        self.full_for_a_while("while-two", 2)

    def test_folder_that_becomes_read_only(self):
        for ranks in (0, 2):
            with self.subTest(ranks=ranks):
                out = self.scratch / f"read-only-{ranks}"
                job = self.start(out, ranks)
                self.reach(job, out, 3)
                with read_only(self, out, job):
                    committed = newest(out)
                    self.assert_clear_end(job, str(out))
                    self.assert_nothing_lost(out, committed)
                    self.assert_clear_end(self.start(out, ranks), str(out))
                self.finish(out, 3 - ranks)

    def test_folder_that_is_renamed(self):
        for ranks in (0, 2):
            with self.subTest(ranks=ranks):
                out, moved = self.scratch / f"renamed-{ranks}", self.scratch / f"moved-{ranks}"
                job = self.start(out, ranks)
                self.reach(job, out, 3)
                os.rename(out, moved)
                committed = newest(moved)
                self.assert_clear_end(job, str(out))
                self.assertFalse(out.exists(), "half a folder was made where the old one was")
                self.assert_nothing_lost(moved, committed)
                os.rename(moved, out)
                self.finish(out, 3 - ranks)

    def test_folder_that_is_removed(self):
        out = self.scratch / "removed"
        job = self.start(out, 2)
        self.reach(job, out, 3)
        os.rename(out, self.scratch / "away")
        shutil.rmtree(self.scratch / "away")
        self.assert_clear_end(job, str(out))
        self.finish(out, 1)


if __name__ == "__main__":
    main(with_mounts=True)
