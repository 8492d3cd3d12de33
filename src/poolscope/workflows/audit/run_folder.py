"""The folder of a run: its manifest with the checksum of every finished block, written, read and verified."""

from __future__ import annotations

import json
import re
import time
from dataclasses import asdict, dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any, Literal

from pydantic import (
    BaseModel,
    Field,
    InstanceOf,
    ValidationError,
    ValidationInfo,
    field_serializer,
    field_validator,
)

from poolscope.core.errors import InputError, located, one_line, reading
from poolscope.core.files import ANOTHER, plain, read_json
from poolscope.core.tables.atomic import checksum, write_text
from poolscope.game.blocks import Part
from poolscope.game.columns import exposed_columns
from poolscope.game.outcome_files import OutcomeFiles
from poolscope.inference.independent import MAX_USERS
from poolscope.metrics.bounds import CumulativeEpsilon
from poolscope.metrics.linkability import Linkability
from poolscope.metrics.pools import PoolRecord
from poolscope.metrics.reading import Row
from poolscope.metrics.records import Record
from poolscope.metrics.tables import Records
from poolscope.metrics.text import summary_text
from poolscope.scenario.scenario import Scenario, same_tables
from poolscope.workflows.audit.tables import Tables, tables

COLUMNS = (
    "user",
    "adversary",
    "n",
    "pool",
    "gamma",
    "delta",
    "guess",
    "confidence",
)
"""The columns of the outcome table that the page needs, beside those that say who was exposed."""

_REMEDY = "name the folder of a finished audit"


class ScenarioText(BaseModel, extra="allow", frozen=True):
    """The scenario as the run has kept it, its tables too."""

    title: str
    text: str
    file: str = "scenario.toml"
    asked: dict[str, Any] = {}


class Summary(BaseModel, frozen=True):
    """``summary.json``: what was played, and a record for each adversary and observation count.

    Examples
    --------
    >>> summary = ps.audit(ps.load_scenario("apple-emojis"), "run", users=20, seed=1, html=False)
    >>> summary.seed, summary.results[0].adversary, summary.results[0].n
    (1, 'weak', 7)
    """

    scenario: ScenarioText
    seed: int
    users: int = Field(ge=1)
    version: str
    pools: list[str] = Field(min_length=2)
    horizon: int = Field(ge=1)
    unit: Literal["report", "event"] = "report"
    reports_per_day: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    epsilon: CumulativeEpsilon | None = None
    devices: list[str] = []
    adversaries: dict[str, str]
    results: InstanceOf[Records[Record]]
    pool_results: tuple[InstanceOf[PoolRecord], ...] = ()
    linkability: tuple[InstanceOf[Linkability], ...] = ()
    seconds: float | None = None

    @property
    def threshold(self) -> float | None:
        """The confidence that was asked for, with which the outcomes say who was exposed."""
        return None if self.results[0].exposed is None else self.results[0].exposed_at

    @field_validator("results", mode="before")
    @classmethod
    def _read(cls, results: Any) -> Any:
        """The records as a file has them; a rule that one breaks is told with its place."""
        if not isinstance(results, list):
            return results
        if not results:
            raise InputError("must not be empty", place="results")
        return Records(_row(Record, f"results.{row}", found) for row, found in enumerate(results))

    @field_validator("linkability", "pool_results", mode="before")
    @classmethod
    def _read_rows(cls, found: Any, info: ValidationInfo) -> Any:
        kind, rows = _KINDS[info.field_name or ""], enumerate(found) if isinstance(found, list) else None
        return found if rows is None else tuple(_row(kind, f"{info.field_name}.{row}", one) for row, one in rows)

    @field_serializer("linkability", "pool_results")
    def _write_rows(self, found: tuple[Row, ...]) -> list[dict[str, Any]]:
        return [record.as_json() for record in found]

    @field_serializer("results")
    def _write(self, results: Records[Record]) -> list[dict[str, Any]]:
        return [record.as_json() for record in results]

    @field_serializer("epsilon")
    def _write_epsilon(self, epsilon: CumulativeEpsilon | None) -> Any:
        return None if epsilon is None else plain(asdict(epsilon))

    def as_json(self) -> dict[str, Any]:
        """The content of ``summary.json``."""
        return self.model_dump(mode="json")

    def _repr_html_(self) -> str:
        """What a notebook shows: the title, the sentence, the records."""
        title, words = escape(self.scenario.title), escape(summary_text(self.results, self.adversaries, unit=self.unit))
        return f"<p><strong>{title}</strong></p><p>{words}</p>{self.results.to_html()}"


#: What the rows of a field are.
_KINDS: dict[str, type[Row]] = {"linkability": Linkability, "pool_results": PoolRecord}


def _row(kind: type[Row], place: str, found: Any) -> Any:
    if not isinstance(found, dict):
        return found
    with located(place=place):
        return kind.from_json(found)


@dataclass(frozen=True, kw_only=True)
class Run:
    """A finished run, which a page is made of."""

    folder: Path
    summary: Summary
    outcomes: OutcomeFiles

    @classmethod
    def within(cls, folder: Path, summary: Summary) -> Run:
        """The run of a folder, whose summary is known."""
        return cls(folder=folder, summary=summary, outcomes=OutcomeFiles.within(folder / "outcomes"))

    @cached_property
    def tables(self) -> Tables:
        """What its pictures show."""
        run = self.summary
        return tables(self.outcomes, len(run.pools), run.seed, run.horizon, run.threshold)


def read_run(folder: Path) -> Run:
    """Read a run's folder; an ``InputError`` says what is missing or malformed."""
    if not folder.is_dir():
        raise InputError("there is no such folder", file=folder, remedy=_REMEDY)
    run = Run.within(folder, _read_summary(folder / "summary.json"))
    if not run.outcomes.files:
        raise InputError("must have outcomes/*.parquet", file=folder, remedy=_REMEDY)
    run.outcomes.check((*COLUMNS, *exposed_columns(run.summary.threshold)))
    return run


def _read_summary(path: Path) -> Summary:
    if not path.is_file():
        raise InputError("must have summary.json", file=path.parent, remedy=_REMEDY)
    with located(file=path):
        try:
            return Summary.model_validate(read_json(path))
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            raise InputError(one_line(first["msg"]), place=place or None) from None


#: What must be the same for a run to go on, and how a message calls it.
SAME = {
    "scenario": "the scenario",
    "inputs": "a file that the scenario names",
    "seed": "the seed",
    "users": "the number of users",
}

#: Share of the time that writing the manifest may take: of a hundred thousand blocks it is long.
SHARE = 0.05

NEEDED = {"scenario", "seed", "users", "version", "block", "parts"}
"""Keys without which a file is no manifest."""


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a folder's run is, and which of its blocks are done.

    Parameters
    ----------
    scenario, seed, users, version : what is played, by which version.
    block : users to a block.
    inputs : checksums of the files that the scenario names.
    parts : checksums of the finished blocks' files.
    """

    scenario: str
    seed: int
    users: int
    version: str
    block: int
    inputs: dict[str, str] = field(default_factory=dict)
    parts: dict[str, str] = field(default_factory=dict)

    @property
    def blocks(self) -> int:
        """How many there are, finished or not."""
        return -(-self.users // self.block)

    def write(self, out: Path) -> None:
        write_text(out / "manifest.json", json.dumps(asdict(self), indent=1) + "\n")


class Keeper:
    """Writes the manifest as blocks are finished, and once more at the end, however it comes."""

    def __init__(self, manifest: Manifest, out: Path) -> None:
        self._manifest, self._out, self._next, self._behind = manifest, out, 0.0, False

    def __enter__(self) -> Keeper:
        self._write()
        return self

    def __exit__(self, *_: object) -> None:
        if self._behind:
            self._write()

    def add(self, part: Part) -> None:
        """A block's file is there; the manifest says so now, or soon where it was written just before."""
        self._manifest.parts[part.name] = part.checksum
        self._behind = True
        if time.monotonic() >= self._next:
            self._write()

    def _write(self) -> None:
        started = time.monotonic()
        self._manifest.write(self._out)
        self._behind = False
        now = time.monotonic()
        self._next = now + (now - started) / SHARE


def input_files(scenario: Scenario) -> dict[str, str]:
    """Checksums of the files that a scenario names, by their names."""
    found = {}
    for name in scenario.named_files:
        path = scenario.resolve(name)
        with reading(path):
            found[name] = checksum(path)
    return found


def read_manifest(out: Path) -> Manifest | None:
    """The manifest of a folder, if it has one."""
    path = out / "manifest.json"
    if not path.exists():
        return None
    found = read_json(path)
    if not _is_manifest(found):
        raise InputError("must be the manifest of a run", file=path, remedy=ANOTHER)
    return Manifest(**found)


def finished_users(out: Path) -> tuple[int, int] | None:
    """How many users of a run are on disk, and of how many; None where there is no run."""
    if (kept := read_manifest(out)) is None:
        return None
    numbers = [int(name.removeprefix("part-").removesuffix(".parquet")) for name in kept.parts]
    users = sum(min(kept.block, kept.users - number * kept.block) for number in numbers)
    return users, kept.users


def continued(kept: Manifest, new: Manifest, out: Path) -> Manifest:
    """The kept run, if it is the one asked for; its blocks are verified."""
    for name, words in SAME.items():
        before, now = getattr(kept, name), getattr(new, name)
        if before != now and not (name == "scenario" and same_tables(before, now)):
            rule = f"{words} differs from that of the run to resume"
            raise InputError(rule, file=out, value=now, remedy=ANOTHER)
    if kept.version.split(".")[:2] != new.version.split(".")[:2]:
        rule = f"the run to resume was made by version {kept.version}"
        raise InputError(rule, file=out, value=new.version, remedy=ANOTHER)
    for name, digest in kept.parts.items():
        path = out / "outcomes" / name
        if not path.exists() or checksum(path) != digest:
            remedy = f"delete {name} from manifest.json to play it again"
            raise InputError("a finished block is missing or has been changed", file=path, remedy=remedy)
    return kept


def _is_manifest(found: Any) -> bool:
    """Whether it has what a manifest has, of the right types; names are those of blocks, never other paths."""
    if not isinstance(found, dict) or not NEEDED <= set(found) <= NEEDED | {"inputs"}:
        return False
    tables = [found["parts"], found.get("inputs", {})]
    return (
        all(type(found[name]) is int for name in ("seed", "users", "block"))
        and all(isinstance(found[name], str) for name in ("scenario", "version"))
        and all(isinstance(table, dict) for table in tables)
        and all(isinstance(value, str) for table in tables for value in table.values())
        and all(map(re.compile(r"part-\d{6,}\.parquet").fullmatch, found["parts"]))
        and found["users"] >= 1
        and 1 <= found["block"] <= MAX_USERS
    )
