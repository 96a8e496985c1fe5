"""Checks that every room includes only what the layering allows.

    check_includes.py ROOT      checks ROOT/src, ROOT/include/apo and the rooms' CMakeLists.txt
    check_includes.py --self-test   plants one violation of each kind and expects it to be found

The tables below are the layering; README.md, section "The house", shows them to readers.
"""

import re
import sys
import tempfile
from pathlib import Path

# room -> rooms that it may include
ALLOWED = {
    "core": set(),
    "comm": {"core"},
    "text": {"core"},
    "data": {"core", "text"},
    "direction": {"core"},
    "clustering": {"core"},
    "metrics": {"core"},
    "model": {"core"},
    "objective": {"core", "data", "model"},
    "reward": {"core", "text", "model", "data"},
    "store": {"core", "comm"},
    "federation": {"core", "comm", "data", "objective", "direction", "clustering"},
    "methods": {"core", "comm", "text", "data", "direction", "clustering", "metrics", "model",
                "objective", "reward", "federation"},
    "config": {"core"},
    "cli": {"core", "comm", "text", "data", "direction", "clustering", "metrics", "model",
            "objective", "reward", "store", "federation", "methods", "config"},
}
# config binds the rooms' options and nothing else of them
OPTIONS_ONLY = {"config"}

# foreign header (regular expression) -> (rooms, also in public headers?)
FOREIGN = [
    (r"(ATen|c10|torch)/.*", {"model", "objective", "reward"}, True),
    (r"mpi\.h", {"comm"}, False),
    (r"nccl\.h", {"comm"}, False),
    (r"cuda.*|cub/.*|cooperative_groups.*", {"comm", "model"}, False),
    (r"(hdf5|hdf5_hl|H5.*)\.h", {"store"}, False),
    (r"glpk\.h", {"direction"}, False),
    (r"pagmo/.*", {"metrics"}, False),
    (r"Eigen/.*", {"federation"}, False),  # compression and weights of the comparison methods
    (r"boost/math/.*", {"metrics"}, False),  # quantiles for confidence intervals
    (r"boost/.*", {"config", "cli"}, False),
    (r"oniguruma\.h", {"text"}, False),
    (r"unicode/.*", {"text"}, False),
    (r"zlib\.h", {"data", "text"}, False),
    (r"openssl/.*", {"core"}, False),
    (r"spdlog/.*", {"core"}, True),
    # JSON is read and written in many places, and seen by none of the interfaces
    (r"nlohmann/json(_fwd)?\.hpp",
     {"text", "data", "model", "reward", "store", "methods", "cli"}, False),
    (r"fmt/.*", set(ALLOWED), False),
    # the C library and POSIX
    (r"(sys/[a-z]+|unistd|fcntl|signal|poll|pwd|netdb|errno|dirent|dlfcn|malloc|sched)\.h", set(ALLOWED), False),
]
STANDARD = re.compile(r"[a-z_0-9]+")  # <vector>, <cstdint>, ...
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]')
SUFFIXES = {".hpp", ".cpp", ".cu", ".cuh", ".h"}


def source_files(root):
    """(room, is_public, path) of every C++ file."""
    for base, is_public in ((root / "include" / "apo", True), (root / "src", False)):
        for path in sorted(base.glob("*/**/*")):
            if path.suffix in SUFFIXES:
                yield path.relative_to(base).parts[0], is_public, path


def check_own(root, room, path, target):
    parts = target.split("/")
    other = parts[1] if len(parts) > 2 else ""
    if not (root / "include" / target).is_file():
        return f"there is no public header {target}"
    if other == room or other in ALLOWED[room]:
        return None
    if room in OPTIONS_ONLY and parts[-1] == "options.hpp":
        return None
    return f"room {room} may not include room {other} ({target})"


def check_foreign(room, is_public, target):
    if STANDARD.fullmatch(target):
        return None
    for pattern, rooms, in_public in FOREIGN:
        if re.fullmatch(pattern, target):
            if room not in rooms:
                return f"<{target}> belongs to {', '.join(sorted(rooms))}, not to {room}"
            if is_public and not in_public:
                return f"<{target}> may not stand in a public header"
            return None
    return f"<{target}> is not known: add it to tests/layers/check_includes.py with its rooms"


def find_cycle(edges):
    """One cycle of a graph {node: set of nodes}, as a list that ends where it starts, or None."""
    done, path = set(), []

    def visit(node):
        if node in path:
            return path[path.index(node):] + [node]
        if node in done:
            return None
        path.append(node)
        for following in sorted(edges.get(node, ())):
            cycle = visit(following)
            if cycle:
                return cycle
        path.pop()
        done.add(node)
        return None

    for start in sorted(edges):
        cycle = visit(start)
        if cycle:
            return cycle
    return None


def check_cmake(root):
    """The DEPENDS of apo_add_room state the same layering."""
    problems = []
    for room, allowed in ALLOWED.items():
        path = root / "src" / room / "CMakeLists.txt"
        if not path.is_file():
            continue
        text = re.sub(r"#.*", "", path.read_text())
        for call in re.findall(r"apo_add_room\s*\(([^)]*)\)", text):
            words, keyword = call.split(), None
            for word in words[1:]:
                if word in ("SOURCES", "DEPENDS", "PUBLIC", "PRIVATE"):
                    keyword = word
                elif keyword == "DEPENDS" and room not in OPTIONS_ONLY and word not in allowed:
                    problems.append(f"{path}: room {room} may not link room {word}")
    return problems


def check(root):
    problems = []
    room_edges, file_edges = {}, {}
    number = 0
    for room, is_public, path in source_files(root):
        if room not in ALLOWED:
            problems.append(f"{path}: '{room}' is not a room of the layering table")
            continue
        number += 1
        for line, text in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            match = INCLUDE.match(text)
            if not match:
                continue
            bracket, target = match.groups()
            if target.startswith("apo/"):
                problem = check_own(root, room, path, target)
                other = target.split("/")[1]
                if other != room and not (room in OPTIONS_ONLY and target.endswith("options.hpp")):
                    room_edges.setdefault(room, set()).add(other)
                file_edges.setdefault(str(path), set()).add(str(root / "include" / target))
            elif bracket == '"' and not any(re.fullmatch(row[0], target) for row in FOREIGN):
                private = root / "src" / room / target
                local = path.parent / target
                problem = None
                if is_public:
                    problem = f'"{target}": public headers include "apo/<room>/<file>.hpp" only'
                elif not private.is_file() and not local.is_file():
                    problem = f'"{target}" is not a private header of room {room}'
                elif ".." in target:
                    problem = f'"{target}" leaves its room'
                file_edges.setdefault(str(path), set()).add(
                    str(local if local.is_file() else private))
            else:
                problem = check_foreign(room, is_public, target)
            if problem:
                problems.append(f"{path}:{line}: {problem}")
    for edges, what in ((room_edges, "rooms"), (file_edges, "files")):
        cycle = find_cycle(edges)
        if cycle:
            problems.append(f"cycle between {what}: {' -> '.join(cycle)}")
    problems += check_cmake(root)
    if number == 0:
        problems.append(f"{root}: no source files found")
    return number, problems


def self_test():
    """Every kind of violation must be found, and a clean tree must pass."""
    clean = {
        "include/apo/core/error.hpp": "#pragma once\n#include <string>\n",
        "include/apo/data/options.hpp": '#include "apo/core/error.hpp"\n',
        "src/direction/lp.cpp": '#include <glpk.h>\n#include "apo/core/error.hpp"\n',
        "src/config/config.cpp": '#include <boost/any.hpp>\n#include "apo/data/options.hpp"\n',
        "src/direction/CMakeLists.txt": "apo_add_room(direction SOURCES lp.cpp DEPENDS core)\n",
    }
    planted = {
        "may not include room": {"src/core/x.cpp": '#include "apo/data/options.hpp"\n'},
        "may not include room data": {
            "include/apo/data/pairs.hpp": "\n",
            "src/config/y.cpp": '#include "apo/data/pairs.hpp"\n'},
        "no public header": {"src/core/x.cpp": '#include "apo/core/missing.hpp"\n'},
        "belongs to comm": {"src/data/x.cpp": "#include <mpi.h>\n"},
        "belongs to store": {"src/data/x.cpp": "#include <hdf5.h>\n"},
        "belongs to direction": {"src/data/x.cpp": "#include <glpk.h>\n"},
        "belongs to cli, config": {"src/data/x.cpp": "#include <boost/any.hpp>\n"},
        "belongs to model": {"src/cli/x.cpp": "#include <ATen/core/Tensor.h>\n"},
        "may not stand in a public header": {"include/apo/comm/x.hpp": "#include <mpi.h>\n"},
        "is not known": {"src/data/x.cpp": "#include <curl/curl.h>\n"},
        "not a private header": {"src/data/x.cpp": '#include "lp.hpp"\n'},
        "leaves its room": {"src/direction/lp.hpp": "\n",
                            "src/data/x.cpp": '#include "../direction/lp.hpp"\n'},
        "public headers include": {"include/apo/data/x.hpp": '#include "options.hpp"\n'},
        "is not a room": {"src/utils/x.cpp": "\n"},
        "cycle between files": {"src/data/a.hpp": '#include "b.hpp"\n',
                                "src/data/b.hpp": '#include "a.hpp"\n'},
        "cycle between rooms": {"include/apo/core/x.hpp": '#include "apo/data/options.hpp"\n'},
        "may not link room": {
            "src/direction/CMakeLists.txt": "apo_add_room(direction DEPENDS core data)\n"},
        "no source files": None,
    }

    def problems_of(files):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for name, text in files.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            return check(root)[1]

    failures = [f"clean tree: {problem}" for problem in problems_of(clean)]
    for expected, files in planted.items():
        found = problems_of({} if files is None else {**clean, **files})
        if not any(expected in problem for problem in found):
            failures.append(f"planted '{expected}' was not found; found {found}")
    return len(planted), failures


def main():
    if sys.argv[1:] == ["--self-test"]:
        number, problems = self_test()
        print(f"{number} planted violations")
    else:
        number, problems = check(Path(sys.argv[1]))
        print(f"{number} files checked")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
