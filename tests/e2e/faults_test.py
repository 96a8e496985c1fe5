"""Wrong things give one clear message and a non-zero exit before any model is loaded."""

import gzip
import json
import shutil

import harness
from harness import SOURCE, apo, run_words

DEMO = SOURCE / "configs" / "demo"


class Faults(harness.Case):
    def refused(self, code, words, *expected, ranks=0):
        found, log = apo(*words, ranks=ranks)
        self.assertEqual(found, code, log)
        for text in expected:
            self.assertIn(text, log)
        self.assertNotIn("adapter parameters", log.replace("\n", " "))  # the model's log line
        errors = [line for line in log.splitlines() if line.startswith("apo: error")]
        self.assertTrue(errors, log)
        self.assertEqual(len(errors), len(set(errors)), log)  # said once

    def rows(self):
        with gzip.open(DEMO / "pairs.jsonl.gz", "rt") as file:
            return [json.loads(line) for line in file]

    def write(self, name, rows):
        path = self.scratch / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    def model_copy(self, name):
        path = self.scratch / name
        shutil.copytree(DEMO / "model", path)
        return path

    def test_unknown_key(self):
        self.refused(64, run_words(self.scratch / "a", {"phase1.round": "3"}), "phase1.round",
                     "phase1.rounds")

    def test_unknown_key_on_two_ranks(self):
        found, log = apo(*run_words(self.scratch / "a2", {"phase1.round": "3"}), ranks=2)
        self.assertNotEqual(found, 0)
        self.assertEqual(log.count("phase1.rounds"), 1, log)

    def test_out_of_range_values_are_listed_together(self):
        self.refused(64, run_words(self.scratch / "b", {"lora.rank": "0", "dpo.beta": "-1"}),
                     "lora.rank", "dpo.beta")

    def test_missing_objectives(self):
        self.refused(64, run_words(self.scratch / "c", {"data.objectives": ""}), "data.objectives")

    def test_objective_that_no_row_has(self):
        self.refused(65, run_words(self.scratch / "d",
                                   {"data.objectives": "helpfulness,honesty",
                                    "evaluate.reward": "none"}), "honesty", "courtesy")

    def test_objective_that_no_training_client_has(self):
        rows = [r for r in self.rows() if r["objective"] != "brevity" or r["split"] != "train"]
        self.refused(65, run_words(self.scratch / "e", {"data.files": str(self.write("e.jsonl",
                                                                                     rows))}),
                     "brevity")

    def test_row_with_an_empty_response(self):
        rows = self.rows()
        rows[6]["rejected"] = ""
        self.refused(65, run_words(self.scratch / "f", {"data.files": str(self.write("f.jsonl",
                                                                                     rows))}),
                     "f.jsonl", "7", "rejected")

    def test_tokenizer_beyond_the_embedding(self):
        model = self.model_copy("wide")
        tokenizer = json.loads((model / "tokenizer.json").read_text())
        tokenizer["added_tokens"].append({"id": 99999, "content": "<|extra|>", "single_word": False,
                                          "lstrip": False, "rstrip": False, "normalized": False,
                                          "special": True})
        (model / "tokenizer.json").write_text(json.dumps(tokenizer))
        self.refused(65, run_words(self.scratch / "g", {"model.path": str(model)}), "99999",
                     "vocab_size")

    def test_truncated_safetensors(self):
        model = self.model_copy("cut")
        weights = model / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-1000])
        self.refused(65, run_words(self.scratch / "h", {"model.path": str(model)}),
                     "model.safetensors")

    def test_directory_of_another_configuration(self):
        out = self.scratch / "other"
        code, log = apo(*run_words(out, {"method.name": "base"}))
        self.assertEqual(code, 0, log)
        self.refused(64, run_words(out, {"method.name": "base", "runtime.seed": "2"}),
                     "runtime.seed")

    def test_report_of_nothing(self):
        code, log = apo("report", self.scratch / "nothing")
        self.assertEqual(code, 65)
        self.assertIn("run.h5", log)


if __name__ == "__main__":
    harness.main()
