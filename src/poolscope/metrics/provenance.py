"""Provenance: what a result was made with, and a checksum of the outcomes that it was made of.

The same scenario, seed and number of users give the same bits where the versions of poolscope, Numba, NumPy, SciPy
and Polars and the kind of processor are the same.
"""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from poolscope import __version__
from poolscope.core.arguments import checked
from poolscope.core.errors import InputError
from poolscope.core.files import ANOTHER
from poolscope.core.tables.reading import decoding, scan
from poolscope.game.outcome_files import OutcomeFiles
from poolscope.kernels.host import cpu_features, cpu_name
from poolscope.metrics.models import Count, Result, Whole, result

GIT_TIMEOUT = 5.0
"""Seconds after which the commit counts as unknown."""

NULL = 0x7FF8_6E75_6C6C_0000
"""What stands for a null among the bits of numbers: a NaN that no calculation has."""

PLACE = "place of row"
"""Column of the places of rows; no column of outcomes has a blank in its name."""


@result
class Environment(Result):
    """The versions and the processor that the bits of a result depend on.

    Parameters
    ----------
    version : of poolscope; commit : of its git checkout, with "-dirty" where files were changed; None elsewhere.
    python, numpy, scipy, polars, numba : versions.
    cpu, cpu_features : kind of processor that kernels were compiled for, and the instructions that they may use.
    """

    version: str
    commit: str | None
    python: str
    numpy: str
    scipy: str
    polars: str
    numba: str
    cpu: str
    cpu_features: tuple[str, ...]

    def differences(self, other: Environment) -> list[str]:
        """Say what differs in what the bits depend on, as "numba 0.61.0 instead of 0.60.0", this one first."""
        names = {"version": "poolscope", **{name: name for name in ("commit", "numba", "numpy", "scipy", "polars")}}
        names["cpu"] = "CPU"
        found = []
        for name, word in names.items():
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs and None not in (mine, theirs):
                found.append(f"{word} {mine} instead of {theirs}")
        if self.cpu == other.cpu and self.cpu_features != other.cpu_features:
            mine, theirs = (" ".join(one.cpu_features) or "none" for one in (self, other))
            found.append(f"CPU features {mine} instead of {theirs}")
        return found


@result
class Provenance(Environment):
    """What a result was made with.

    Parameters
    ----------
    version, commit, python, numpy, scipy, polars, numba, cpu, cpu_features : as in `Environment`.
    seed : of the run, None where it is not known; users : how many played.
    inputs : SHA-256 of each file that the scenario names.
    outcomes : SHA-256 of the outcomes (`checksum`); None while a run is not finished.
    resumed_with : what later parts of a resumed run were made with, where it differs.

    Examples
    --------
    >>> found = ps.provenance(outcomes, seed=1)
    >>> found.seed, found.users, len(found.outcomes)
    (1, 200, 64)
    """

    seed: Whole | None
    users: Count
    inputs: dict[str, str]
    outcomes: str | None
    resumed_with: tuple[Environment, ...] = ()

    def resumed(self, now: Provenance, out: Path) -> Provenance:
        """Return this provenance of a run in a folder, and what else `now` makes the rest of it with; warn of that."""
        changed = now.differences(self)
        if changed:
            warnings.warn(
                f"{out}: the finished part of this run was made otherwise: now {', '.join(changed)}", stacklevel=3
            )
        recorded = not changed or any(not now.differences(one) for one in self.resumed_with)
        if recorded:
            return self
        environment = Environment(**{entry.name: getattr(now, entry.name) for entry in fields(Environment)})
        return replace(self, resumed_with=(*self.resumed_with, environment))


def check_minor_version(started: str, out: Path) -> None:
    """Refuse to resume a run that another minor version has started."""
    if started.split(".")[:2] != __version__.split(".")[:2]:
        rule = f"the run to resume was made by version {started}"
        raise InputError(rule, file=out, value=__version__, remedy=ANOTHER)


def provenance_of(
    *, seed: int | None, users: int, outcomes: str | None = None, inputs: Mapping[str, str] | None = None
) -> Provenance:
    """Return the provenance of what this process makes."""
    return Provenance(
        version=__version__,
        commit=commit(),
        python=platform.python_version(),
        numpy=np.__version__,
        scipy=metadata.version("scipy"),
        polars=pl.__version__,
        numba=metadata.version("numba"),
        cpu=cpu_name(),
        cpu_features=tuple(cpu_features()),
        seed=seed,
        users=users,
        inputs=dict(inputs or {}),
        outcomes=outcomes,
    )


@checked
def provenance(what: Any, *, seed: int | None = None) -> Provenance:
    """Return what a result was made with, or what an outcome table in memory is made with here.

    Parameters
    ----------
    what : Summary, Comparison, Advice, Sweep, Reproduction or DataFrame
        A result, or the outcomes that `poolscope.play` returns.
    seed : int, optional
        The seed of outcomes, which the table does not have; a result has its own.

    Examples
    --------
    >>> ps.provenance(outcomes).outcomes == ps.provenance(outcomes.reverse()).outcomes
    True
    """
    if isinstance(what, pl.DataFrame):
        for name in ("user", "adversary", "n"):
            if name not in what.columns:
                remedy = "take what poolscope.play returns"
                raise InputError(f"outcomes must have a column {name!r}", value=what.columns, remedy=remedy)
        if what.is_empty():
            raise InputError("outcomes must have at least one row")
        return provenance_of(seed=seed, users=what["user"].n_unique(), outcomes=checksum([what]))
    found = getattr(what, "provenance", None)
    if not isinstance(found, Provenance):
        raise InputError("must be a result with a provenance, or a table of outcomes", value=type(what).__name__)
    if seed is not None and seed != found.seed:
        raise InputError("seed must be that of the result", value=seed, remedy=f"leave it out: it is {found.seed}")
    return found


def checksum(parts: Iterable[pl.DataFrame]) -> str:
    """Return the SHA-256 of the values of an outcome table, whose parts hold users in increasing order.

    Each column of each attack is hashed by itself, in order of the users, so that neither the order of rows and columns
    nor the size of parts counts. Names count as texts, integers as 64 bits, and numbers bit by bit.
    """
    digests: dict[tuple[str, int, str], Any] = {}
    for part in parts:
        values = {column.name: _values(column) for column in part.drop("adversary", "n").iter_columns()}
        places = part.select("adversary", "n", "user").with_row_index(PLACE)
        for attack, rows in places.partition_by("adversary", "n", as_dict=True, maintain_order=True).items():
            ordered = (rows if rows["user"].is_sorted() else rows.sort("user"))[PLACE].to_numpy()
            for name, column in values.items():
                key = (str(attack[0]), int(attack[1]), name)
                digests.setdefault(key, hashlib.sha256()).update(column[ordered].tobytes())
    return combined({json.dumps(key): digest.hexdigest() for key, digest in sorted(digests.items())})


def values_checksum(table: pl.DataFrame) -> str:
    """Return the SHA-256 of the names and values of a table's columns, in the order of its rows."""
    columns = sorted(table.iter_columns(), key=lambda column: column.name)
    return combined({column.name: hashlib.sha256(_values(column).tobytes()).hexdigest() for column in columns})


def files_checksum(outcomes: OutcomeFiles) -> str:
    """Return the `checksum` of an outcome table in files, one file in memory at a time."""
    return checksum(_read(file) for file in sorted(outcomes.files, key=lambda file: (len(file.name), file.name)))


def _read(file: Path) -> pl.DataFrame:
    with decoding(file):
        return scan(file).collect()


def combined(checksums: Mapping[str, str]) -> str:
    """Return one SHA-256 of several, each with its name."""
    return hashlib.sha256(json.dumps(list(checksums.items())).encode()).hexdigest()


def _values(column: pl.Series) -> NDArray[Any]:
    """Return the values of a column as numbers of 8 bytes that do not depend on how they are stored."""
    if column.dtype.is_float():
        values = column.cast(pl.Float64).to_numpy().astype("<f8")
        values.view("<u8")[column.is_null().to_numpy()] = NULL
        return values
    if column.dtype.is_integer() or column.dtype == pl.Boolean:
        return column.cast(pl.Int64).fill_null(np.iinfo(np.int64).min).to_numpy().astype("<i8")
    texts = column.cast(pl.String)
    codes = {text: _code(text) for text in texts.unique().to_list() if text is not None}
    return texts.replace_strict(codes, default=0, return_dtype=pl.UInt64).to_numpy().astype("<u8")


def _code(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


@lru_cache(maxsize=1)
def commit() -> str | None:
    """Return the commit of the git checkout that this package lies in, or that it was installed from; None elsewhere.

    A package that lies in a checkout of something else, such as an environment inside a project, has none.
    """
    package = Path(__file__).parents[1]
    root = package.parent.parent
    if package == root / "src" / "poolscope" and (root / ".git").exists():
        return _described(root)
    try:
        text = metadata.distribution("poolscope").read_text("direct_url.json")
        found = json.loads(text or "{}").get("vcs_info", {}).get("commit_id")
    except (metadata.PackageNotFoundError, ValueError, AttributeError):
        return None
    return found if isinstance(found, str) else None


def _described(root: Path) -> str | None:
    asked = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        # what it complains of is in the language and encoding of the system
        done = subprocess.run(
            asked, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8", timeout=GIT_TIMEOUT
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None
