"""One run from end to end: the run file, ranks, restart, adapters."""

import json
import os
import signal
import subprocess
import time

import h5py
import numpy as np

import harness
from harness import apo, command, run_words

class Run(harness.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.two = cls.scratch / "two"
        code, cls.log = apo(*run_words(cls.two), ranks=2)
        assert code == 0, cls.log

    def test_groups_and_attributes(self):
        with h5py.File(self.two / "run.h5") as file:
            for name in ("format_version", "apo_version", "git_revision", "configuration",
                         "configuration_sha256", "seed", "objectives", "libraries", "hosts",
                         "world_size"):
                self.assertIn(name, file.attrs)
            self.assertIsInstance(file.attrs["configuration"], str)
            self.assertIn("[phase1]", file.attrs["configuration"])
            self.assertEqual(int(file.attrs["seed"]), 1)
            self.assertEqual(len(file.attrs["data_sha256"]), 64)
            for group in ("clients", "clusters", "data_counts", "dendrogram",
                          "phase1/steps", "phase1/rounds",
                          "phase2/steps", "phase2/rounds", "adaptation/steps",
                          "evaluation/summary", "evaluation/responses", "performance"):
                self.assertIn(group, file)
            n, m, b = 36, 4, 4
            self.assertEqual(file["clients/preference"].shape, (n, m))
            self.assertTrue(np.allclose(file["clients/preference"][:].sum(axis=1), 1.0))
            self.assertEqual(file["clusters/centroid"].shape, (b, m))
            self.assertEqual(file["phase1/steps/loss"].shape, (b * 3 * 3 * 2, m))
            self.assertEqual(file["phase1/steps/gram"].shape, (b * 3 * 3 * 2, m, m))
            self.assertEqual(file["phase1/rounds/round"].shape, (b * 3,))
            self.assertEqual(file["phase2/rounds/round"].shape, (b * 2,))
            self.assertEqual(file["phase1/steps/loss"].attrs["units"], "nat")
            self.assertEqual(file["phase1/steps/loss"].dims[0].label, "row")

    def test_numbers_make_sense(self):
        with h5py.File(self.two / "run.h5") as file:
            steps = file["phase1/steps"]
            mu, gram = steps["mu"][:], steps["gram"][:]
            self.assertTrue(np.allclose(mu.sum(axis=1), 1.0))
            norm = np.sqrt(np.einsum("si,sij,sj->s", mu, np.nan_to_num(gram), mu))
            self.assertTrue(np.allclose(norm, steps["direction_norm"][:], rtol=1e-6))
            # Clusters are the connected groups of the assignment; each holds its own clients.
            cluster, split = file["clients/cluster"][:], file["clients/split"].asstr()[:]
            for c, count in enumerate(file["clusters/num_clients"][:]):
                self.assertEqual(int(((cluster == c) & (split == "train")).sum()), int(count))
            # Steps of a cluster's rounds come from its own clients only.
            self.assertTrue(np.array_equal(cluster[steps["client"][:]], steps["cluster"][:]))
            rewards = file["evaluation/summary/reward"][:]
            stages = file["evaluation/summary/stage"].asstr()[:]
            self.assertTrue(np.isfinite(rewards[stages != "base"]).all())

    def test_any_number_of_ranks_gives_the_same_run(self):
        for ranks in (1, 3, 4, 7):
            out = self.scratch / f"ranks{ranks}"
            code, log = apo(*run_words(out), ranks=ranks)
            self.assertEqual(code, 0, log)
            self.assert_same_run(self.two, out)
            self.assert_same_report(self.two, out)

    def test_killed_run_continues_and_equals_the_uninterrupted_one(self):
        out = self.scratch / "killed"
        for generation in (1, 3):
            job = subprocess.Popen(command(2, *run_words(out)), cwd=harness.SOURCE,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   start_new_session=True)
            target = out / "checkpoints" / f"checkpoint-{generation:06d}.h5"
            deadline = time.time() + 120
            while not target.exists() and job.poll() is None and time.time() < deadline:
                time.sleep(0.01)
            self.assertTrue(target.exists())
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()
            time.sleep(0.5)
        code, log = apo(*run_words(out), ranks=2)
        self.assertEqual(code, 0, log)
        self.assertIn("continuing from checkpoint", log)
        self.assert_same_run(self.two, out)

    def test_finished_run_is_left_alone(self):
        before = (self.two / "run.h5").read_bytes()
        code, log = apo(*run_words(self.two), ranks=2)
        self.assertEqual(code, 0, log)
        self.assertIn("nothing to do", log)
        self.assertEqual(before, (self.two / "run.h5").read_bytes())

    def test_report_compares_methods(self):
        fixed = self.scratch / "lambda"
        code, log = apo(*run_words(fixed, {"direction.solver": "fixed"}), ranks=2)
        self.assertEqual(code, 0, log)
        base = self.scratch / "base"
        code, log = apo(*run_words(base, {"method.name": "base"}), ranks=2)
        self.assertEqual(code, 0, log)
        fedavg = self.scratch / "fedavg"
        code, log = apo(*run_words(fedavg, {"method.name": "fedavg"}), ranks=2)
        self.assertEqual(code, 0, log)
        code, text = apo("report", base, fedavg, fixed, self.two)
        self.assertEqual(code, 0, text)
        for word in ("apo - base", "apo - fedavg", "apo - lambda", "lambda: adaptation",
                     "parse rate"):
            self.assertIn(word, text)
        code, text = apo("report", "--format", "json", base, self.two)
        tables = json.loads(text)
        titles = json.dumps(tables)
        self.assertIn("Test clients per cluster (means)", titles)
        self.assertIn("Score range", titles)
        with h5py.File(fixed / "run.h5") as file:
            steps = file["phase1/steps"]
            preference = file["clients/preference"][:][steps["client"][:]]
            self.assertTrue(np.allclose(steps["mu"][:], preference, atol=1e-12))

    def test_methods_of_single_clients(self):
        for method, settings in (("fspo", {}), ("ditto", {"ditto.sft_steps": "3",
                                                          "ditto.steps": "4",
                                                          "ditto.resample_every": "2",
                                                          "ditto.samples_per_prompt": "1"})):
            with self.subTest(method):
                outs = []
                for ranks in (1, 2):
                    outs.append(self.scratch / f"{method}{ranks}")
                    code, log = apo(*run_words(outs[-1], {"method.name": method, **settings}),
                                    ranks=ranks)
                    self.assertEqual(code, 0, log)
                self.assert_same_run(*outs)
                with h5py.File(outs[0] / "run.h5") as file:
                    self.assertEqual(len(file["phase1/rounds/round"]), 0)
                    self.assertGreater(len(file["adaptation/steps/step"]), 0)
                    self.assertEqual(set(file["evaluation/summary/stage"].asstr()[:]),
                                     {"base", "adapted"})

    def test_inspect_says_what_is_there(self):
        model = harness.SOURCE / "configs" / "demo" / "model"
        for path, *words in (
                (model, "llama", "603", "594 176", "bf16"),
                (model / "model.safetensors", "model.embed_tokens.weight", "603"),
                (self.two / "adapters" / "cluster-1", "q_proj", "53 760"),
                (self.two / "run.h5", "phase1/steps/gram", "configuration_sha256"),
                (self.two / "checkpoints" / "checkpoint-000005.h5", "state/parameters")):
            code, text = apo("inspect", path)
            self.assertEqual(code, 0, text)
            for word in words:
                self.assertIn(word, text.lower() if word.islower() else text)
        code, text = apo("inspect", harness.SOURCE / "LICENSE")
        self.assertEqual(code, 65, text)

    def test_generate_with_the_cluster_adapter(self):
        words = ["generate", "--model", "configs/demo/model", "--seed", "3", "--max-new-tokens", "48",
                 "How do I clean the kettle?"]
        code, base = apo(*words)
        self.assertEqual(code, 0, base)
        self.assertIn(".", base)
        code, again = apo(*words)
        self.assertEqual(base, again)
        code, adapted = apo(*words, "--adapter", self.two / "adapters" / "cluster-2")
        self.assertEqual(code, 0, adapted)

    def test_tokenize_there_and_back(self):
        text = "How do I clean the kettle?"
        code, ids = apo("tokenize", "--model", "configs/demo/model", text)
        self.assertEqual(code, 0, ids)
        code, back = apo("tokenize", "--model", "configs/demo/model", "--decode", *ids.split())
        self.assertEqual(code, 0, back)
        self.assertEqual(back.strip(), text)

    def test_log_has_no_terminal_control(self):
        self.assertNotIn("\r", self.log)
        self.assertNotIn("\x1b", self.log)
        self.assertIn("result: complete", self.log)
        for line in (self.two / "log.jsonl").read_text().splitlines():
            json.loads(line)
        self.assertEqual(json.loads((self.two / "status.json").read_text())["state"], "complete")


if __name__ == "__main__":
    harness.main()
