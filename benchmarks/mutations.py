"""Break the code in one place after another, run the tests beside it, and say which changes no test notices.

    python benchmarks/mutations.py [NAME-PART ...] [--selection MARKS] [--list FILE] [--record FILE] [--remaining]
                                   [--limit SECONDS]

Each change of benchmarks/mutations.toml is made in a copy of the tree, never in the tree itself. A change that a test
notices is killed, another survives; the exit code is the number of changes that are not killed. `--selection` has the
marks of the tests that run, as pytest's `-m`: the default selection where it is not given, and all tests where it is
empty. `--record` notes the verdicts in a CSV file, in which a change has one row. `--remaining` tries the changes that
the record does not have as killed, or has with another text or other tests. `--limit` is in seconds of processor time,
so that a busy machine changes no verdict. In the end the tests that killed a change run once more without any.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent

#: What of the tree the tests need.
PARTS = (
    "src",
    "tests",
    "docs",
    "benchmarks",
    "examples",
    "pyproject.toml",
    "README.md",
    "CHANGELOG.md",
    "CITATION.cff",
    "CONTRIBUTING.md",
)

#: Exit codes of pytest: all passed, some failed.
PASSED, FAILED = 0, 1

#: Exit codes of a process that had too much processor time: by SIGXCPU, and by SIGKILL a second later.
OUT_OF_TIME = (-24, -9)

#: What is known of a change: a test notices it, none does, or the tests take too long.
KILLED, SURVIVED, UNDECIDED = "killed", "survived", "undecided"

#: How many times the limit of processor time the tests may wait.
PATIENCE = 15

#: Columns of a record.
COLUMNS = ("name", "checksum", "verdict", "selection", "test")

#: Where the compiled code is.
KERNELS = Path("src", "poolscope", "kernels")


class Mutation(NamedTuple):
    """A change of a file, and the tests that should notice it."""

    name: str
    file: str
    old: str
    new: str
    tests: list[str]

    @property
    def checksum(self) -> str:
        """What a verdict is about: another text or other tests may have another verdict."""
        tried = json.dumps([self.file, self.old, self.new, self.tests])
        return hashlib.sha256(tried.encode()).hexdigest()[:12]

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
    """Copy what the tests need, with the kernels that are compiled and the times that Numba compares."""
    for name in PARTS:
        part = ROOT / name
        if part.is_dir():
            shutil.copytree(part, place / name, ignore=shutil.ignore_patterns("_build"))
        elif part.exists():
            shutil.copy2(part, place / name)
    return place


def dependents(kernels: Path, name: str) -> set[str]:
    """Return the module and those that import it, directly or not.

    Numba compiles a kernel again where its own file has changed. A kernel that calls one of a changed file would keep
    the code that it had inlined, and the change would seem to survive.
    """
    imports = {
        path.stem: set(re.findall(r"from poolscope\.kernels\.(\w+) import", path.read_text(encoding="utf-8")))
        for path in kernels.glob("*.py")
    }
    found = {name}
    while more := {module for module, used in imports.items() if used & found} - found:
        found |= more
    return found


def remove_compiled(tree: Path, file: str) -> None:
    """Remove compiled code in which a kernel of the file may be."""
    if not file.startswith(f"{KERNELS.as_posix()}/"):
        return
    stale = dependents(tree / KERNELS, Path(file).stem)
    for path in (tree / KERNELS / "__pycache__").glob("*.nb[ic]"):
        if path.name.split(".")[0] in stale:
            path.unlink()


class Verdict(NamedTuple):
    """What the tests say of a change, and the test that notices it."""

    name: str
    test: str = ""


def limit_processor_time(seconds: int) -> None:
    """Limit the processor time of this process."""
    import resource  # not on Windows

    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))


def run_tests(
    tree: Path, tests: Iterable[str], selection: str | None, limit: int | None = None
) -> subprocess.CompletedProcess[str]:
    """Run tests in the tree until one of them fails."""
    marks = [] if selection is None else ["-m", selection]
    command = [sys.executable, "-m", "pytest", "-n", "0", "-x", "-q", "-p", "no:cacheprovider", *marks]
    paths = os.pathsep.join(str(tree / part) for part in ("src", "tests"))
    # elsewhere, `remove_compiled` would not find the compiled code
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    return subprocess.run(
        [*command, *(str(tree / test) for test in tests)],
        cwd=tree,
        env={**environment, "PYTHONPATH": paths, "COLUMNS": "500"},
        capture_output=True,
        text=True,
        timeout=limit and PATIENCE * limit,
        preexec_fn=limit and partial(limit_processor_time, limit),
    )


def notices(tree: Path, mutation: Mutation, selection: str | None, limit: int | None) -> Verdict:
    """Say what the tests find in a changed tree."""
    try:
        done = run_tests(tree, mutation.tests, selection, limit)
    except subprocess.TimeoutExpired:
        return Verdict(UNDECIDED)
    if done.returncode in OUT_OF_TIME:
        return Verdict(UNDECIDED)
    if done.returncode not in (PASSED, FAILED):
        raise SystemExit(f"pytest could not run {' '.join(mutation.tests)}:\n{done.stdout}{done.stderr}")
    failed = re.search(r"^(?:FAILED|ERROR) (\S+?\.py(?:::\w+)?)", done.stdout, re.MULTILINE)
    if done.returncode == FAILED:
        return Verdict(KILLED, failed[1] if failed else "")
    return Verdict(SURVIVED)


def tried(mutation: Mutation, tree: Path, selection: str | None, limit: int | None = None) -> Verdict:
    """Say whether the tests kill a change, and take it back."""
    path = tree / mutation.file
    before, times = path.read_bytes(), path.stat()
    mutation.apply(tree)
    remove_compiled(tree, mutation.file)
    try:
        return notices(tree, mutation, selection, limit)
    finally:
        remove_compiled(tree, mutation.file)
        path.write_bytes(before)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def recorded(path: Path) -> dict[str, dict[str, str]]:
    """Read a record by the names of its changes."""
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        return {row["name"]: row for row in csv.DictReader(file)}


def note(path: Path, mutation: Mutation, verdict: Verdict, selection: str | None) -> None:
    """Note a verdict in a record, in place of an earlier one."""
    rows = recorded(path)
    marks = {None: "default", "": "all"}.get(selection, selection)
    values = mutation.name, mutation.checksum, verdict.name, marks, verdict.test
    rows[mutation.name] = dict(zip(COLUMNS, values, strict=True))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows.values())


def is_killed(mutation: Mutation, rows: dict[str, dict[str, str]]) -> bool:
    """Say whether a record has a change as killed, with the text and the tests that it has in the list."""
    row = rows.get(mutation.name)
    return row is not None and (row["checksum"], row["verdict"]) == (mutation.checksum, KILLED)


def main() -> int:
    """Try the changes whose name has one of the given parts; return the number of those that are not killed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME-PART")
    parser.add_argument("--selection", metavar="MARKS")
    parser.add_argument("--list", type=Path, default=ROOT / "benchmarks" / "mutations.toml", metavar="FILE")
    parser.add_argument("--record", type=Path, metavar="FILE")
    parser.add_argument("--remaining", action="store_true")
    parser.add_argument("--limit", type=int, metavar="SECONDS")
    asked = parser.parse_args()
    if asked.remaining and not asked.record:
        parser.error("--remaining needs --record")
    chosen = [m for m in mutations_of(asked.list) if not asked.names or any(part in m.name for part in asked.names)]
    if asked.remaining:
        rows = recorded(asked.record)
        chosen = [m for m in chosen if not is_killed(m, rows)]
    left, killers = 0, set[str]()
    with tempfile.TemporaryDirectory(prefix="poolscope-mutations-") as place:
        tree = copy_tree(Path(place))
        for mutation in chosen:
            started = time.perf_counter()
            verdict = tried(mutation, tree, asked.selection, asked.limit)
            left += verdict.name != KILLED
            killers |= {verdict.test} - {""}
            seconds = time.perf_counter() - started
            print(f"{verdict.name:9}  {seconds:5.0f} s  {mutation.name}  {verdict.test}", flush=True)
            if asked.record:
                note(asked.record, mutation, verdict, asked.selection)
        if asked.record:
            killers = {row["test"] for row in recorded(asked.record).values() if row["verdict"] == KILLED}
        # a test that fails without a change says nothing about one
        if killers and (done := run_tests(tree, sorted(killers), asked.selection)).returncode != PASSED:
            raise SystemExit(f"a test that kills a change fails without it:\n{done.stdout}{done.stderr}")
    print(f"{len(chosen) - left} of {len(chosen)} killed")
    return left


if __name__ == "__main__":
    sys.exit(main())
