"""The program as a user meets it: help, exit codes, messages."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

PROGRAM = os.environ["APO_PROGRAM"]
MPIEXEC = [os.environ["APO_MPIEXEC"], "--oversubscribe", "--bind-to", "none", "--timeout",
           os.environ["APO_MPI_TIMEOUT"]]

MINIMAL = """[model]
path = no/such/model
[data]
files = no/such/pairs.jsonl
objectives = helpfulness,brevity
[runtime]
seed = 1
"""


def apo(*arguments, ranks=None, stdout=subprocess.PIPE):
    command = [PROGRAM, *map(str, arguments)]
    if ranks:
        command = [*MPIEXEC, "-n", str(ranks), *command]
    return subprocess.run(command, text=True, stdout=stdout, stderr=subprocess.PIPE, timeout=60,
                          stdin=subprocess.DEVNULL)


def errors(result):
    return [line[len("apo: error: "):] for line in result.stderr.splitlines()
            if line.startswith("apo: error: ")]


class Help(unittest.TestCase):
    def test_general_help(self):
        for arguments in (["--help"], ["-h"], ["help"]):
            result = apo(*arguments)
            self.assertEqual(result.returncode, 0)
            self.assertEqual(result.stderr, "")
            for word in ("run", "report", "inspect", "tokenize", "generate", "demo", "options",
                         "Exit codes", "64", "75"):
                self.assertIn(word, result.stdout)

    def test_every_listed_command_has_help(self):
        listed = apo("--help").stdout.split("Commands\n")[1].split("\n\n")[0]
        commands = [line.split()[0] for line in listed.splitlines()]
        self.assertGreaterEqual(len(commands), 7)
        for command in commands:
            with self.subTest(command):
                result = apo(command, "--help")
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn(f"usage: apo {command}", result.stdout.lower())

    def test_run_help_lists_the_keys(self):
        text = apo("run", "--help").stdout
        self.assertIn("--runtime.seed  integer in [0, 2^64) (required)", text)
        self.assertIn("--phase1.rounds  integer in [0, 1000000], rounds (default: 200)", text)
        self.assertEqual(apo("help", "run").stdout, text)

    def test_options(self):
        self.assertIn("| `rank` | integer in [1, 1024] | 8 |", apo("options", "--markdown").stdout)
        self.assertIn("--lora.rank", apo("options").stdout)
        self.assertEqual(apo("help", "options").stdout, apo("options").stdout)

    def test_version(self):
        result = apo("--version")
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stdout, r"^apo \d+\.\d+\.\d+ \(.+\)\n")

    def test_one_rank_speaks(self):
        result = apo("--version", ranks=2)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.count("apo "), 1)


class Refusals(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.ini = self.folder / "run.ini"
        self.out = self.folder / "out"

    def run_with(self, text, *arguments, ranks=None):
        self.ini.write_text(text)
        return apo("run", "-c", self.ini, "--out", self.out, *arguments, ranks=ranks)

    def test_command_line(self):
        for arguments, message in (
            ([], "expected a command, found nothing"),
            (["rn"], "unknown command 'rn'; did you mean 'run'?"),
            (["options", "--markdwn"], "unknown option '--markdwn'; did you mean '--markdown'?"),
            (["run", "-c"], "option '-c' needs a value"),
        ):
            with self.subTest(arguments):
                result = apo(*arguments)
                self.assertEqual(result.returncode, 64)
                self.assertEqual(errors(result)[0], message)
                self.assertEqual(result.stdout, "")

    def test_run_needs_configuration_and_folder(self):
        self.assertEqual(apo("run").returncode, 64)
        self.ini.write_text(MINIMAL)
        self.assertEqual(apo("run", "-c", self.ini).returncode, 64)

    def test_missing_configuration_file(self):
        result = apo("run", "-c", self.folder / "none.ini", "--out", self.out)
        self.assertEqual(result.returncode, 64)
        self.assertEqual(errors(result), [f"{self.folder}/none.ini: no such configuration file"])

    def test_all_configuration_errors_at_once(self):
        result = self.run_with(MINIMAL + "[phase1]\nroundz = 3\nbatch_size = 0\n",
                               "--lora.rnk", "4", "--method.name", "apoo")
        self.assertEqual(result.returncode, 64)
        self.assertEqual(errors(result), [
            f"{self.ini}:9: unknown key 'phase1.roundz'; did you mean 'phase1.rounds'?",
            f"{self.ini}:10: phase1.batch_size: expected an integer in [1, 100000], found '0'",
            "command line: unknown key 'lora.rnk'; did you mean 'lora.rank'?",
            "command line: method.name: expected one of apo|fedavg|firm|server_mgda|fedcmoo|"
            "fedcmoo_pref|fsmgda|fedmgda_plus|ifca|rewarded_soup|fspo|ditto|base, found 'apoo'; "
            "did you mean 'apo'?",
        ])
        self.assertFalse(self.out.exists(), "a refused run must leave nothing behind")

    def test_missing_data_file(self):
        result = self.run_with(MINIMAL)
        self.assertEqual(result.returncode, 65, result.stderr)
        self.assertIn("no/such/", "\n".join(errors(result)))

    def test_two_ranks_end_with_the_code_and_one_message(self):
        result = self.run_with(MINIMAL, "--runtime.sed", "3", ranks=2)
        self.assertEqual(result.returncode, 64, result.stderr)
        self.assertEqual(
            errors(result),
            ["command line: unknown key 'runtime.sed'; did you mean 'runtime.seed'?"])
        self.assertNotIn("[rank 1", result.stderr)

    def test_full_standard_output(self):
        with open("/dev/full", "w") as full:
            self.assertEqual(apo("--help", stdout=full).returncode, 74)


if __name__ == "__main__":
    unittest.main()
