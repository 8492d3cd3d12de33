"""A finished run as it lies in its folder, read and checked."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

from pydantic import (
    BaseModel,
    Field,
    InstanceOf,
    ValidationError,
    ValidationInfo,
    field_serializer,
    field_validator,
)

from poolscope.core.errors import InputError, located, one_line
from poolscope.core.files import plain, read_json
from poolscope.game.outcome_files import OutcomeFiles
from poolscope.game.outcomes import exposed_columns
from poolscope.metrics.bounds import EpsilonInTime
from poolscope.metrics.linkability import Trackability
from poolscope.metrics.pools import PoolRecord
from poolscope.metrics.reading import Row
from poolscope.metrics.records import Record
from poolscope.metrics.tables import Records
from poolscope.metrics.text import in_plain_words
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
    """``summary.json``: what was played, and a record for each adversary and observation count."""

    scenario: ScenarioText
    seed: int
    users: int = Field(ge=1)
    version: str
    pools: list[str] = Field(min_length=2)
    horizon: int = Field(ge=1)
    reports_per_day: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    epsilon: EpsilonInTime | None = None
    devices: list[str] = []
    adversaries: dict[str, str]
    results: InstanceOf[Records[Record]]
    pool_results: tuple[InstanceOf[PoolRecord], ...] = ()
    trackability: tuple[InstanceOf[Trackability], ...] = ()
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

    @field_validator("trackability", "pool_results", mode="before")
    @classmethod
    def _read_rows(cls, found: Any, info: ValidationInfo) -> Any:
        kind, rows = _KINDS[info.field_name or ""], enumerate(found) if isinstance(found, list) else None
        return found if rows is None else tuple(_row(kind, f"{info.field_name}.{row}", one) for row, one in rows)

    @field_serializer("trackability", "pool_results")
    def _write_rows(self, found: tuple[Row, ...]) -> list[dict[str, Any]]:
        return [record.as_json() for record in found]

    @field_serializer("results")
    def _write(self, results: Records[Record]) -> list[dict[str, Any]]:
        return [record.as_json() for record in results]

    @field_serializer("epsilon")
    def _write_epsilon(self, epsilon: EpsilonInTime | None) -> Any:
        return None if epsilon is None else plain(asdict(epsilon))

    def as_json(self) -> dict[str, Any]:
        """The content of ``summary.json``."""
        return self.model_dump(mode="json")

    def _repr_html_(self) -> str:
        """What a notebook shows: the title, the sentence, the records."""
        title, words = escape(self.scenario.title), escape(in_plain_words(self.results, self.adversaries))
        return f"<p><strong>{title}</strong></p><p>{words}</p>{self.results.to_html()}"


#: What the rows of a field are.
_KINDS: dict[str, type[Row]] = {"trackability": Trackability, "pool_results": PoolRecord}


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
