"""Checksums of fixed-seed runs: a change of structure shows the same bits, a change of names the same values.

    python benchmarks/checksums.py > before.txt      # before a change
    python benchmarks/checksums.py --compare before.txt   # after it: prints what differs, and exits with 1

Names of columns and of fields do not count, values and their order do. Times and versions are left out. Bits may differ
between processors and versions of libraries, so a recording is compared on the machine that made it.
"""

import argparse
import contextlib
import hashlib
import io
import json
import os
import struct
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl

from poolscope.cli.commands import main as command_line

SMALL = """
[universe]
size = 24
pools = { a = 5, b = 5, c = 6 }
[popularity]
kind = "zipf"
exponent = 1.0
[mechanism]
%s
[users]
count = 24
[[adversary]]
name = "weak"
popularity = "uniform"
[[adversary]]
name = "strong"
popularity = "estimated"
estimate_from = 2000
[[adversary]]
name = "oracle"
popularity = "true"
[attack]
observations = [3, 12]
%s
"""

#: Mechanisms in a small scenario; those that memoize by themselves are there as well.
MECHANISMS = {
    "identity": "",
    "grr": "epsilon = 2",
    "sue": "epsilon = 2",
    "oue": "epsilon = 2",
    "the": "epsilon = 2",
    "she": "epsilon = 2",
    "ss": "epsilon = 2",
    "blh": "epsilon = 2",
    "olh": "epsilon = 2",
    "hr": "epsilon = 2",
    "cms": "epsilon = 2\nm = 16\nhashes = 32",
    "hcms": "epsilon = 2\nm = 16\nhashes = 32",
    "spotme": "epsilon = 2",
    "rappor": "epsilon = 2",
    "pi-rappor": "epsilon = 2",
    "dbitflip": "epsilon = 2\nbuckets = 12\nd = 4",
    "l-grr": "epsilon = 2",
    "l-sue": "epsilon = 2",
    "l-oue": "epsilon = 2",
    "l-osue": "epsilon = 2",
    "l-soue": "epsilon = 2",
    "loloha": "epsilon = 2",
}
MEMOIZED = ["grr", "oue", "cms", "hcms", "olh", "hr"]
SCENARIOS = (
    "apple-emojis", "apple-hcms", "apple-health", "apple-mail-senders", "apple-quicktype", "apple-web-domains",
    "chrome-attribution", "chrome-rappor", "chrome-rappor-sites", "chrome-topics", "mozilla-homepages",
)  # fmt: skip

#: Fields whose values are of the run, not of its result.
PROVENANCE = (
    "version",
    "time",
    "seconds",
    "command",
    "numba",
    "python",
    "host",
    "processor",
    "cores",
    "scenario_text",
    "format",
    "provenance",
    "asked_",
)


def poolscope(*arguments: object) -> None:
    """Run a command in this process, silently."""
    sys.argv = ["poolscope", *map(str, arguments)]
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            command_line()
    except SystemExit as exit:
        if exit.code not in (0, None, 1):
            sys.exit(f"poolscope {' '.join(map(str, arguments))}: {said.getvalue()}")


def of_table(path: Path) -> Iterator[bytes]:
    """Values of a table, row by row; the order of columns counts."""
    frame = pl.read_parquet(path) if path.suffix == ".parquet" else pl.read_csv(path)
    yield f"{frame.shape}".encode()
    for column in frame.iter_columns():
        plain = column.to_physical() if column.dtype == pl.Enum or column.dtype == pl.Categorical else column
        for value in plain.to_list():
            yield from of_value(value)


def of_value(value: Any) -> Iterator[bytes]:
    """Values of JSON without their names."""
    if isinstance(value, dict):
        for name, each in value.items():
            if not any(word in str(name) for word in PROVENANCE):
                yield from of_value(each)
    elif isinstance(value, list):
        for each in value:
            yield from of_value(each)
    elif isinstance(value, float):
        yield struct.pack("<d", value)
    elif not isinstance(value, str):  # wording may change
        yield repr(value).encode()


def of_files(folder: Path) -> str:
    """One checksum of all tables and records below a folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".parquet", ".csv"):
            for part in of_table(path):
                digest.update(part)
        elif path.name in ("summary.json", "comparison.json", "advice.json", "reproduction.json"):
            found = json.loads(path.read_text())
            for part in of_value(found.get("cells", found)):
                digest.update(part)
    return digest.hexdigest()[:16]


def small(out: Path, kind: str, devices: str = "") -> Path:
    """A small scenario as a file beside the folder of its results."""
    path = out.with_suffix(".toml")
    path.write_text(SMALL % (f"kind = '{kind}'\n{MECHANISMS[kind]}", devices))
    return path


def runs() -> Iterator[tuple[str, Callable[[Path], None]]]:
    """Name and run of each checksum."""
    for name in SCENARIOS:
        yield (
            f"audit {name}",
            lambda out, name=name: poolscope(
                "audit", name, "--users", 60, "--seed", 1, "--observations", "7,30", "--out", out
            ),
        )
    for kind in MECHANISMS:
        yield f"audit {kind}", lambda out, kind=kind: poolscope("audit", small(out, kind), "--seed", 2, "--out", out)
    for kind in MEMOIZED:
        yield (
            f"memoized {kind}",
            lambda out, kind=kind: poolscope(
                "audit", small(out, kind, "[devices]\nmemoize = true\n"), "--seed", 3, "--out", out
            ),
        )
    yield (
        "rotation",
        lambda out: poolscope(
            "audit",
            small(out, "cms", "[devices]\nrotate_after = 4\nsampling_rate = 0.5\ncap = 9\n"),
            "--seed",
            4,
            "--out",
            out,
        ),
    )
    yield "dask", lambda out: poolscope("audit", small(out, "cms"), "--seed", 2, "--engine", "dask", "--out", out)
    yield "recorded users and files", _files
    yield (
        "compare",
        lambda out: poolscope(
            "compare",
            small(out, "cms"),
            "--mechanism",
            "grr,oue",
            "--epsilon",
            "1,2",
            "--users",
            60,
            "--seed",
            5,
            "--out",
            out,
        ),
    )
    yield (
        "advise",
        lambda out: poolscope(
            "advise",
            small(out, "grr"),
            "--max-exposed",
            0.2,
            "--mechanism",
            "grr,oue",
            "--users",
            200,
            "--seed",
            6,
            "--out",
            out,
        ),
    )
    yield "reproduce", lambda out: poolscope("reproduce", "--users", 200, "--seed", 7, "--out", out)


def _files(out: Path) -> None:
    """Traces of recorded users, played, obfuscated, attacked and estimated."""
    out.mkdir()
    scenario = small(out, "cms")
    users = [f"user {i % 40}" for i in range(800)]
    traces = pl.DataFrame({"user": users, "object": [(i * i + 7 * (i % 40)) % 24 for i in range(800)]})
    traces.write_parquet(source := out.with_name("traces.parquet"))
    recorded = out.with_name("recorded.toml")
    recorded.write_text(scenario.read_text().replace("count = 24", "traces = 'traces.parquet'"))
    poolscope("audit", recorded, "--users", 40, "--seed", 8, "--out", out / "recorded")
    reports = out / "reports.parquet"
    poolscope("obfuscate", source, "--scenario", scenario, "--seed", 9, "--out", reports)
    poolscope("attack", reports, "--scenario", scenario, "--out", out / "posteriors.parquet")
    poolscope("estimate", reports, "--scenario", scenario, "--out", out / "popularity.csv")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compare", type=Path, help="a recording: print what differs from it")
    parser.add_argument("--only", default="", help="runs whose names begin so")
    asked = parser.parse_args()
    before = dict(line.rsplit(" ", 1) for line in asked.compare.read_text().splitlines()) if asked.compare else {}
    differ = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for number, (name, run) in enumerate(runs()):
            if not name.startswith(asked.only):
                continue
            out = Path(folder) / f"run{number}"
            run(out)
            found = of_files(out)
            if not asked.compare:
                print(name, found, flush=True)
            elif before.get(name) != found:
                differ += 1
                print(f"{name}: {before.get(name, 'not recorded')} -> {found}", flush=True)
    sys.exit(int(differ > 0))


if __name__ == "__main__":
    main()
