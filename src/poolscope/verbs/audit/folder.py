"""A finished run as it lies in its folder, read and checked."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from poolscope.base.errors import InputError, located, one_line, reading
from poolscope.game.columns import REACHED
from poolscope.game.outcome_files import OutcomeFiles
from poolscope.metrics.records import ESTIMATES

COLUMNS = (
    "user",
    "adversary",
    "n",
    "pool",
    "gamma",
    "delta",
    "guess",
    "confidence",
    *REACHED.values(),
)
"""The columns of the outcome table that the report needs."""

NUMBERS = (
    "n",
    "users",
    "baseline",
    "majority",
    "calibration_error_limit",
    *(f"{name}{end}" for name in ESTIMATES for end in ("", "_low", "_high")),
)
"""The numbers that every record of ``results`` must have."""

_REMEDY = "name the folder of a finished audit"


class ScenarioText(BaseModel):
    """The scenario as the run has kept it."""

    title: str
    text: str
    file: str = "scenario.toml"


class Summary(BaseModel):
    """``summary.json``. What else it holds is for others."""

    scenario: ScenarioText
    seed: int
    users: int = Field(ge=1)
    version: str
    results: list[dict[str, Any]] = Field(min_length=1)
    pools: list[str] = Field(min_length=2)
    horizon: int = Field(ge=1)
    adversaries: dict[str, str]
    seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class Run:
    """What a report is made of."""

    summary: Summary
    outcomes: OutcomeFiles


def read_run(folder: Path) -> Run:
    """Read a run's folder; an ``InputError`` says what is missing or malformed."""
    if not folder.is_dir():
        raise InputError("there is no such folder", file=folder, remedy=_REMEDY)
    summary = _read_summary(folder / "summary.json")
    return Run(summary=summary, outcomes=_open_outcomes(folder / "outcomes"))


def _read_summary(path: Path) -> Summary:
    if not path.is_file():
        raise InputError("must have summary.json", file=path.parent, remedy=_REMEDY)
    with reading(path):
        try:
            summary = Summary.model_validate(json.loads(path.read_text("utf-8")))
        except json.JSONDecodeError as error:
            raise InputError(f"must be JSON: {error.msg}", place=f"line {error.lineno}") from None
        except RecursionError:
            raise InputError("must not be nested that deeply") from None
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            raise InputError(one_line(first["msg"]), place=place or None) from None
        for row, record in enumerate(summary.results):
            with located(place=f"results.{row}"):
                _check_record(record)
    return summary


def _check_record(record: dict[str, Any]) -> None:
    if not isinstance(record.get("adversary"), str):
        raise InputError("must be a text", value=record.get("adversary"), place="adversary")
    for name in NUMBERS:
        value = record.get(name)
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise InputError("must be a number", value=value, place=name)


def _open_outcomes(folder: Path) -> OutcomeFiles:
    outcomes = OutcomeFiles.within(folder)
    if not outcomes.files:
        raise InputError("must have outcomes/*.parquet", file=folder.parent, remedy=_REMEDY)
    outcomes.check(COLUMNS)
    return outcomes
