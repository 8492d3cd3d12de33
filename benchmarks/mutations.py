"""Break the code in one place after another, run the tests beside it, and say which changes no test notices.

    python benchmarks/mutations.py [NAME-PART ...] [--selection MARKS] [--list FILE]

Each change of benchmarks/mutations.toml is made in a copy of the tree, never in the tree itself. A change that a test
notices is killed, another survives; the exit code is the number of survivors. `--selection` has the marks of the tests
that run, as pytest's `-m`: the default selection where it is not given.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent

#: What of the tree the tests need.
PARTS = (
    "src",
    "tests",
    "docs",
    "benchmarks",
    "pyproject.toml",
    "README.md",
    "CHANGELOG.md",
    "CITATION.cff",
    "CONTRIBUTING.md",
)

#: Exit codes of pytest: all passed, some failed.
PASSED, FAILED = 0, 1


class Mutation(NamedTuple):
    """A change of a file, and the tests that should notice it."""

    name: str
    file: str
    old: str
    new: str
    tests: list[str]

    def apply(self, tree: Path) -> None:
        """Change the file, in which the old text must stand once."""
        path = tree / self.file
        text = path.read_text(encoding="utf-8")
        if text.count(self.old) != 1 or self.old == self.new:
            raise SystemExit(f"{self.file}: must have the text once, got {text.count(self.old)} times: {self.old}")
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")


def mutations_of(path: Path) -> list[Mutation]:
    """Read the list of changes."""
    with path.open("rb") as file:
        return [Mutation(**table) for table in tomllib.load(file)["mutation"]]


def copy_tree(place: Path) -> Path:
    """Copy what the tests need, with the kernels that are compiled."""
    for name in PARTS:
        part = ROOT / name
        if part.is_dir():
            shutil.copytree(part, place / name, ignore=shutil.ignore_patterns("_build"))
        elif part.exists():
            shutil.copy2(part, place / name)
    return place


def notices(tree: Path, mutation: Mutation, selection: str | None, scratch: Path) -> bool:
    """Say whether a test fails in the tree."""
    marks = [] if selection is None else ["-m", selection]
    command = [sys.executable, "-m", "pytest", "-n", "0", "-x", "-q", "-p", "no:cacheprovider", *marks]
    # Numba does not compile a kernel again where one that it calls has changed in another file
    cache = {"NUMBA_CACHE_DIR": str(scratch)} if "/kernels/" in mutation.file else {}
    paths = os.pathsep.join(str(tree / part) for part in ("src", "tests"))
    done = subprocess.run(
        [*command, *(str(tree / test) for test in mutation.tests)],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": paths, **cache},
        capture_output=True,
        text=True,
    )
    if done.returncode not in (PASSED, FAILED):
        raise SystemExit(f"pytest could not run {' '.join(mutation.tests)}:\n{done.stdout}{done.stderr}")
    return done.returncode == FAILED


def tried(mutation: Mutation, tree: Path, selection: str | None) -> bool:
    """Say whether the tests kill a change, and take it back."""
    path = tree / mutation.file
    before = path.read_bytes()
    mutation.apply(tree)
    try:
        with tempfile.TemporaryDirectory(prefix="poolscope-kernels-") as scratch:
            return notices(tree, mutation, selection, Path(scratch))
    finally:
        path.write_bytes(before)


def main() -> int:
    """Try the changes whose name has one of the given parts; return the number of survivors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME-PART")
    parser.add_argument("--selection", metavar="MARKS")
    parser.add_argument("--list", type=Path, default=ROOT / "benchmarks" / "mutations.toml", metavar="FILE")
    asked = parser.parse_args()
    chosen = [m for m in mutations_of(asked.list) if not asked.names or any(part in m.name for part in asked.names)]
    survivors = 0
    with tempfile.TemporaryDirectory(prefix="poolscope-mutations-") as place:
        tree = copy_tree(Path(place))
        for mutation in chosen:
            started = time.perf_counter()
            killed = tried(mutation, tree, asked.selection)
            survivors += not killed
            seconds = time.perf_counter() - started
            print(f"{'killed' if killed else 'SURVIVED':8}  {seconds:5.0f} s  {mutation.name}", flush=True)
    print(f"{len(chosen) - survivors} of {len(chosen)} killed")
    return survivors


if __name__ == "__main__":
    sys.exit(main())
