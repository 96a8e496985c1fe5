"""README.md must hold what `apo options --markdown` prints, between the two OPTIONS marks.

    readme_options.py PROGRAM README            exit code 1 and a diff when they differ
    readme_options.py PROGRAM README --write    puts it there
"""

import difflib
import subprocess
import sys
from pathlib import Path

START, END = "<!-- OPTIONS -->\n", "<!-- /OPTIONS -->\n"


def main():
    program, readme = sys.argv[1], Path(sys.argv[2])
    wanted = subprocess.run([program, "options", "--markdown"], check=True, text=True,
                            stdout=subprocess.PIPE).stdout
    text = readme.read_text()
    if text.count(START) != 1 or text.count(END) != 1:
        sys.exit(f"{readme}: expected one {START.strip()} and one {END.strip()}")
    before, rest = text.split(START)
    present, after = rest.split(END)
    if "--write" in sys.argv:
        readme.write_text(before + START + wanted + END + after)
        return
    if present != wanted:
        sys.stdout.writelines(difflib.unified_diff(
            present.splitlines(keepends=True), wanted.splitlines(keepends=True),
            "README.md", "apo options --markdown"))
        sys.exit("README.md's options are out of date: run this script with --write")


main()
