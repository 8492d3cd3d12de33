"""Read the experiments: runs, cells and figures of `experiments.toml`, and the values of `published.toml`."""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from poolscope.core.errors import InputError, did_you_mean

#: Tolerance of AUC-PN and precision, beyond our interval.
TOLERANCE = 0.015


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """A run: a scenario with changes and a number of users; recorded users need traces."""

    name: str
    scenario: str
    users: int
    change: Mapping[str, Any] = field(default_factory=dict)
    recorded: bool = False


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One number: its row and column, how to compute it, and its published value."""

    row: str
    column: str
    value: str
    arguments: Mapping[str, Any]
    published: tuple[str | int, ...] | None = None
    tolerance: float = TOLERANCE
    relative: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A table of cells."""

    name: str
    title: str
    cells: Sequence[Cell]
    new: bool = False

    @property
    def plays(self) -> list[str]:
        """Return the names of the runs that the cells need."""
        return list(dict.fromkeys(c.arguments["play"] for c in self.cells if "play" in c.arguments))


@dataclass(frozen=True, kw_only=True)
class PaperFigure:
    """A figure of some runs; `label` and `number` are those of the paper, if it has such a figure."""

    title: str
    caption: str
    kind: str
    plays: Sequence[str]
    adversary: str | None = None
    label: str | None = None
    number: int | None = None


@cache
def published() -> dict[str, Any]:
    """Return every number that the paper publishes."""
    return tomllib.loads(_text("published.toml"))


def published_at(path: Sequence[str | int]) -> Any:
    """Return the published value at a path: a number, or a text such as "more than 0.80"."""
    value: Any = published()
    for step in path:
        value = value[step]
    return value


@cache
def plays() -> dict[str, RunSpec]:
    """Return all runs by name."""
    found = {}
    for table in _data()["plays"]:
        vary = table.get("vary", {})
        for values in itertools.product(*vary.values()):
            filled = fill({**table, "vary": {}}, dict(zip(vary, values, strict=True)))
            del filled["vary"]
            found[filled["name"]] = RunSpec(**filled)
    return found


@cache
def experiments() -> dict[str, Experiment]:
    """Return all experiments by name."""
    found = {}
    for table in _data()["experiments"]:
        cells = [_cell(spec) for spec in table.get("cells", [])] or list(_table_cells(table))
        found[table["name"]] = Experiment(
            name=table["name"], title=table["title"], cells=cells, new=table.get("new", False)
        )
    return found


@cache
def figures() -> list[PaperFigure]:
    """Return all figures."""
    return [PaperFigure(**table) for table in _data()["figures"]]


def chosen(names: Sequence[str], *, with_traces: bool) -> list[Experiment]:
    """Return the named experiments; by default all, those on recorded users only with traces."""
    known = experiments()
    for name in names:
        if name not in known:
            raise InputError("unknown experiment", value=name, remedy=did_you_mean(name, known))
    needy = {name for name, e in known.items() if any(plays()[play].recorded for play in e.plays)}
    for name in names:
        if name in needy and not with_traces:
            raise InputError("needs recorded traces", value=name, remedy="give them with `traces`")
    if names:
        return [known[name] for name in names]
    return [e for name, e in known.items() if with_traces or name not in needy]


def fill(value: Any, variables: Mapping[str, Any]) -> Any:
    """Replace "{name}" by its value, of its own type where it is the whole text."""
    if isinstance(value, dict):
        return {key: fill(entry, variables) for key, entry in value.items()}
    if isinstance(value, list):
        return [fill(entry, variables) for entry in value]
    if isinstance(value, str):
        whole = re.fullmatch(r"\{(\w+)\}", value)
        if whole:
            return variables[whole[1]]
        return re.sub(r"\{(\w+)\}", lambda m: canonical_text(variables[m[1]]), value)
    return value


def canonical_text(value: Any) -> str:
    """Return a row, column or parameter in a canonical form: 1e-05 equals 1e-5."""
    try:
        return f"{float(value):g}"
    except (TypeError, ValueError):
        return str(value)


def _table_cells(table: Mapping[str, Any]) -> list[Cell]:
    """Rows x columns; the published value is at (path, row, first + position of the column)."""
    first = table.get("first", 0)
    cells = []
    for row in table["rows"]:
        for position, column in enumerate(table["columns"]):
            path = table.get("published")
            cells.append(
                Cell(
                    row=row,
                    column=column if isinstance(column, str) else canonical_text(column),
                    value=table["value"],
                    arguments=fill(table["cell"], {"row": row, "column": column}),
                    published=(*path, row, first + position) if path else None,
                    tolerance=table.get("tolerance", 0.0 if "relative" in table else TOLERANCE),
                    relative=table.get("relative", 0.0),
                )
            )
    return cells


def _cell(spec: Mapping[str, Any]) -> Cell:
    own = {"row", "column", "value", "published"}
    return Cell(
        **{**{key: spec[key] for key in own if key in spec}, "published": tuple(spec["published"])},
        arguments={key: value for key, value in spec.items() if key not in own},
    )


@cache
def _data() -> dict[str, Any]:
    return tomllib.loads(_text("experiments.toml"))


def _text(name: str) -> str:
    return (resources.files("poolscope.paper") / name).read_text("utf-8")
