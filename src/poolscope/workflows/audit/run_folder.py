"""The folder of a run: its manifest with the checksum of every finished block, written, read and verified."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, PlainSerializer, WithJsonSchema

from poolscope.core.errors import InputError, reading
from poolscope.core.files import ANOTHER, read_json
from poolscope.core.tables.atomic import checksum, write_text
from poolscope.core.tables.locations import table_checksum
from poolscope.core.validation import rejection
from poolscope.game.blocks import PlayedBlock
from poolscope.game.collections import JOINT
from poolscope.game.columns import exposed_columns
from poolscope.game.outcome_files import OutcomeFiles
from poolscope.inference.independent import MAX_USERS
from poolscope.metrics.bounds import CumulativeEpsilon
from poolscope.metrics.collections import CollectionsSummary
from poolscope.metrics.linkability import Linkability
from poolscope.metrics.models import (
    FORMAT,
    Count,
    Format,
    Real,
    Result,
    Whole,
    as_text,
    read_model,
    read_result,
    result,
)
from poolscope.metrics.pools import PoolRecord
from poolscope.metrics.provenance import Provenance, check_minor_version
from poolscope.metrics.records import Record
from poolscope.metrics.tables import Records
from poolscope.metrics.text import summary_text
from poolscope.scenario.scenario import Scenario, same_tables, scenario_from_record
from poolscope.workflows.audit.figure_data import FigureTables, figure_tables

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

FINISHED_AUDIT = "name the folder of a finished audit"
"""What to do about a folder that cannot be read."""


def _a_rate(rate: float | None) -> float | None:
    if rate is not None and not 0 < rate < math.inf:
        raise rejection("must be positive and finite", value=rate)
    return rate


class ScenarioText(BaseModel, extra="allow", frozen=True):
    """The scenario as the run has kept it, its tables too."""

    title: str
    text: str
    file: str = "scenario.toml"
    asked: dict[str, Any] = {}


def _scenario_of(found: Any) -> Any:
    return found if isinstance(found, Scenario) else scenario_from_record(found)


_TEXTS = {name: {"type": "string"} for name in ("name", "file", "title", "text")}

PlayedScenario = Annotated[
    Scenario,
    BeforeValidator(_scenario_of),
    PlainSerializer(Scenario.about),
    WithJsonSchema(
        {
            "type": "object",
            "description": "The scenario that was played, and what was asked for in place of what its file says.",
            "properties": {**_TEXTS, "asked": {"type": "object"}},
            "required": [*_TEXTS, "asked"],
            "additionalProperties": False,
        }
    ),
]
"""A scenario as results keep it: the text that was played, under its name."""


@result
class Summary(Result):
    """``summary.json``: what was played, and a record for each adversary and observation count.

    Examples
    --------
    >>> summary = ps.audit(ps.load_scenario("apple-emojis"), "run", users=20, seed=1, html=False)
    >>> summary.seed, summary.results[0].adversary, summary.results[0].n
    (1, 'weak', 7)
    """

    format: Format = FORMAT
    scenario: ScenarioText
    seed: Whole
    users: Count
    version: str
    pools: Annotated[list[str], Field(min_length=2)]
    horizon: Count
    unit: Literal["report", "event", "day"] = "report"
    reports_per_day: Annotated[Real | None, AfterValidator(_a_rate)] = None
    epsilon: CumulativeEpsilon | None = None
    devices: list[str] = Field(default_factory=list)
    adversaries: dict[str, str]
    results: Annotated[Records[Record], Field(min_length=1)]
    pool_results: tuple[PoolRecord, ...] = ()
    linkability: tuple[Linkability, ...] = ()
    collections: CollectionsSummary | None = None
    seconds: Real | None = None
    provenance: Provenance | None = None

    @property
    def threshold(self) -> float | None:
        """The confidence that was asked for, with which the outcomes say who was exposed."""
        return None if self.results[0].exposed is None else self.results[0].exposed_at

    @property
    def main_results(self) -> Records[Record]:
        """The records of all collections jointly; all records where there is a single collection."""
        return self.results if self.collections is None else self.results.filter(collection=JOINT)

    def _repr_html_(self) -> str:
        """Show the title, the sentence and the records in a notebook."""
        words = escape(summary_text(self.main_results, self.adversaries, unit=self.unit))
        title = escape(self.scenario.title)
        return f"<p><strong>{title}</strong></p><p>{words}</p>{self.results.to_html()}"


@dataclass(frozen=True, kw_only=True)
class Run:
    """A finished run, which a page is made of."""

    folder: Path
    summary: Summary
    outcomes: OutcomeFiles

    @classmethod
    def within(cls, folder: Path, summary: Summary) -> Run:
        """The run of a folder, whose summary is known."""
        joint = None if summary.collections is None else JOINT
        return cls(folder=folder, summary=summary, outcomes=OutcomeFiles.within(folder / "outcomes", joint))

    @cached_property
    def tables(self) -> FigureTables:
        """What its pictures show."""
        run = self.summary
        return figure_tables(self.outcomes, len(run.pools), run.seed, run.horizon, run.threshold)


def read_run(folder: Path) -> Run:
    """Read a run's folder; an ``InputError`` says what is missing or malformed."""
    if not folder.is_dir():
        raise InputError("there is no such folder", file=folder, remedy=FINISHED_AUDIT)
    run = Run.within(folder, _read_summary(folder / "summary.json"))
    if not run.outcomes.files:
        raise InputError("must have outcomes/*.parquet", file=folder, remedy=FINISHED_AUDIT)
    run.outcomes.check((*COLUMNS, *exposed_columns(run.summary.threshold)))
    return run


def _read_summary(path: Path) -> Summary:
    if not path.is_file():
        raise InputError("must have summary.json", file=path.parent, remedy=FINISHED_AUDIT)
    return read_result(Summary, path)


#: What must be the same for a run to go on, and how a message calls it.
SAME = {
    "scenario": "the scenario",
    "inputs": "a file that the scenario names",
    "seed": "the seed",
    "users": "the number of users",
    "attacks": "the list of attacks",
    "mechanism": "the mechanism",
}

#: Share of the time that writing the manifest may take: of a hundred thousand blocks it is long.
SHARE = 0.05


def _fits_memory(block: int) -> int:
    if block > MAX_USERS:
        raise rejection(f"must be at most {MAX_USERS}", value=block)
    return block


PartName = Annotated[str, Field(pattern=r"^part-[0-9]{6,}\.parquet$")]
"""The name of a block's file, never another path."""


@result
class Manifest(Result):
    """What a folder's run is, and which of its blocks are done.

    Parameters
    ----------
    scenario, seed, users, version : what is played, by which version.
    block : users to a block.
    inputs : checksums of the files that the scenario names.
    attacks : further attacks that were requested; mechanism : one's own that replaces the scenario's, or None.
    parts : checksums of the finished blocks' files.
    provenance : what the run is made with; it has the checksum of the outcomes once the run is finished.
    """

    format: Format = FORMAT
    scenario: str
    seed: Whole
    users: Count
    version: str
    block: Annotated[Count, AfterValidator(_fits_memory)]
    inputs: dict[str, str] = Field(default_factory=dict)
    attacks: list[str] = Field(default_factory=list)
    mechanism: str | None = None
    parts: dict[PartName, str] = Field(default_factory=dict)
    provenance: Provenance | None = None

    @property
    def blocks(self) -> int:
        """How many there are, finished or not."""
        return -(-self.users // self.block)

    def write(self, out: Path) -> None:
        """Replace the manifest of a folder."""
        write_text(out / "manifest.json", as_text(self))


class ManifestWriter:
    """Writes the manifest as blocks are finished, and once more at the end, however it comes."""

    def __init__(self, manifest: Manifest, out: Path) -> None:
        self._manifest, self._out, self._next, self._behind = manifest, out, 0.0, False

    def __enter__(self) -> ManifestWriter:
        self._write()
        return self

    def __exit__(self, *_: object) -> None:
        if self._behind:
            self._write()

    def add(self, part: PlayedBlock) -> None:
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
            found[name] = table_checksum(path)
    return found


def read_manifest(out: Path, remedy: str = ANOTHER) -> Manifest | None:
    """The manifest of a folder, if it has one; `remedy` says what to do about one that is malformed."""
    path = out / "manifest.json"
    if not path.exists():
        return None
    found = read_json(path)
    try:
        return read_model(Manifest, found)
    except InputError as error:
        if error.place == "format":
            raise error.at(file=path) from None
        raise InputError("must be the manifest of a run", file=path, remedy=remedy) from error


def finished_users(out: Path) -> tuple[int, int] | None:
    """How many users of a run are on disk, and of how many; None where there is no run."""
    if (kept := read_manifest(out)) is None:
        return None
    numbers = [int(name.removeprefix("part-").removesuffix(".parquet")) for name in kept.parts]
    users = sum(min(kept.block, kept.users - number * kept.block) for number in numbers)
    return users, kept.users


def resume_manifest(existing: Manifest, new: Manifest, out: Path) -> Manifest:
    """The kept run, if it is the one asked for; its blocks are verified."""
    for name, words in SAME.items():
        before, now = getattr(existing, name), getattr(new, name)
        if before != now and not (name == "scenario" and same_tables(before, now)):
            rule = f"{words} differs from that of the run to resume"
            raise InputError(rule, file=out, value=now, remedy=ANOTHER)
    check_minor_version(existing.version, out)
    check_parts(existing, out)
    if existing.provenance is None or new.provenance is None:
        return existing
    return replace(existing, provenance=existing.provenance.resumed(new.provenance, out))


def check_parts(manifest: Manifest, out: Path) -> None:
    """Refuse a folder in which a finished block is missing or has been changed."""
    for name, digest in manifest.parts.items():
        path = out / "outcomes" / name
        if not path.exists() or checksum(path) != digest:
            remedy = f"delete {name} from manifest.json to play it again"
            raise InputError("a finished block is missing or has been changed", file=path, remedy=remedy)
