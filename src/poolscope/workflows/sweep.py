"""Play variants of a scenario with several seeds into one tidy table: a grid of keys, resumed cell by cell.

A cell is one choice of values and one seed. Its rows are in a file of their own before it counts, so that a sweep that
was interrupted at any moment resumes there and ends with the same bytes.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from os import PathLike
from pathlib import Path
from typing import Annotated, Any

import polars as pl
from pydantic import PlainSerializer, WithJsonSchema

from poolscope import __version__
from poolscope.core.arguments import checked, is_integer
from poolscope.core.errors import InputError, check_count, located
from poolscope.core.executors import Engine, EngineLike, as_engine
from poolscope.core.files import ANOTHER, check_folder, check_new, claimed, json_safe, located_os_errors
from poolscope.core.progress import SILENT, Progress
from poolscope.core.tables.atomic import replacing, write_text
from poolscope.core.tables.atomic import sweep as delete_unfinished
from poolscope.core.tables.reading import decoding, scan
from poolscope.game.game import play
from poolscope.metrics.intervals import Estimate
from poolscope.metrics.models import FORMAT, Count, Format, Result, Whole, as_text, read_result, result
from poolscope.metrics.provenance import Provenance, check_minor_version, provenance_of, values_checksum
from poolscope.metrics.records import summarize
from poolscope.scenario.attacks import AttackSpec, attack_name
from poolscope.scenario.build import build_game, build_mechanism, mechanism_changes
from poolscope.scenario.collection_tables import several_collections
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.audit.run_folder import PlayedScenario, input_files
from poolscope.workflows.compare import users_of

FILE, RESULTS, CELLS = "sweep.json", "results.parquet", "cells"

KIND, EPSILON = "mechanism.kind", "mechanism.epsilon"

OwnMetric = Callable[[pl.DataFrame], float | Estimate]
"""A metric of one's own: takes the rows of one adversary at one n, returns a number or an estimate."""


Row = Annotated[
    dict[str, Any],
    PlainSerializer(json_safe, when_used="json"),
    WithJsonSchema(
        {
            "type": "object",
            "properties": {"seed": {"type": "integer"}, "adversary": {"type": "string"}, "n": {"type": "integer"}},
            "required": ["seed", "adversary", "n"],
            "additionalProperties": {"type": ["number", "string", "boolean", "null"]},
        }
    ),
]
"""A row of ``results.parquet``: the varied keys, the seed, and the fields of a record."""


@result
class SweepPlan(Result):
    """``sweep.json``: what a sweep varies, and what its results were made with.

    Parameters
    ----------
    scenario : the one that is varied; vary : the values of each key; seeds : of the runs of every choice.
    users : how many played in each cell; metrics : names of the metrics beside those of a record.
    attacks : further attacks that were requested.
    version : of poolscope; format : of the file.
    provenance : what the same numbers need; its outcomes are the values of ``results.parquet``.
    """

    format: Format = FORMAT
    scenario: PlayedScenario
    vary: dict[str, list[Any]]
    seeds: tuple[Whole, ...]
    users: Count
    metrics: tuple[str, ...] = ()
    attacks: tuple[str, ...] = ()
    version: str = __version__
    provenance: Provenance | None = None

    def is_same(self, other: SweepPlan) -> bool:
        """Return whether both plans ask for the same cells of the same scenario and inputs."""
        mine, theirs = ({**plan.as_json(), "version": None, "provenance": None} for plan in (self, other))
        inputs = [plan.provenance.inputs if plan.provenance else {} for plan in (self, other)]
        return mine == theirs and inputs[0] == inputs[1]


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """A finished sweep.

    Parameters
    ----------
    plan : what was varied.
    results : a row for each cell, adversary and n. Columns: each varied key under its name, ``seed``, and those of a
        record, with ``_low`` and ``_high`` for the ends of 95% intervals.

    Examples
    --------
    >>> done = ps.sweep(ps.load_scenario("apple-emojis"), {"mechanism.epsilon": [1, 4]}, users=20)
    >>> done.results.select("mechanism.epsilon", "seed", "adversary", "n").rows()[0]
    (1, 0, 'weak', 7)
    """

    plan: SweepPlan
    results: pl.DataFrame

    @property
    def provenance(self) -> Provenance | None:
        """What the results were made with (`poolscope.provenance`)."""
        return self.plan.provenance

    def _repr_html_(self) -> str:
        return self.results._repr_html_()


@result
class SweepOutput(Result):
    """What ``sweep --json`` prints: the plan as in ``sweep.json``, and the rows of ``results.parquet``."""

    plan: SweepPlan
    results: tuple[Row, ...]

    @classmethod
    def of(cls, done: Sweep) -> SweepOutput:
        """Return the output of a finished sweep."""
        return cls(plan=done.plan, results=tuple(done.results.iter_rows(named=True)))


@checked
def sweep(
    scenario: Scenario,
    vary: Mapping[str, Sequence[Any]],
    *,
    seeds: int | Sequence[int] = 1,
    users: int | None = None,
    metrics: Sequence[OwnMetric] = (),
    attacks: Sequence[AttackSpec] = (),
    engine: EngineLike | None = None,
    out: str | PathLike[str] | None = None,
    resume: bool = False,
    progress: Progress = SILENT,
) -> Sweep:
    """Play a scenario with every combination of values and seeds, and return one table of all records.

    Parameters
    ----------
    vary : keys of the scenario, as ``{"mechanism.epsilon": [1, 2, 4], "popularity.exponent": [0, 1]}``, each with its
        values. Another ``mechanism.kind`` has the parameters that `compare` gives it.
    seeds : how many, from 0, or which. Cells with the same seed have the same users.
    users : number of users of a cell; by default the scenario's, at most 1,000.
    metrics : functions beside the metrics of a record. Each takes the outcomes of one adversary at one n and returns a
        number or an `Estimate`, and its name is that of the column.
    attacks : further attacks, as of `audit`.
    engine : where blocks of users run, as for `audit`.
    out : a new folder for ``results.parquet`` and ``sweep.json``; without one, results are in memory only.
    resume : go on with an interrupted sweep in ``out``.
    progress : receives the number of users of all cells, and users as they finish.

    Examples
    --------
    >>> done = ps.sweep(ps.load_scenario("apple-emojis"), {"mechanism.epsilon": [1, 4]}, seeds=[7], users=20)
    >>> done.results.height
    24
    """
    engine, target = as_engine(engine), None if out is None else Path(out)
    check_count("users", users)
    if scenario.collections:
        raise several_collections(scenario)
    varied = {key: _values(key, values) for key, values in vary.items()}
    cells = list(_cells(scenario, varied, _seeds(seeds), attacks))
    count = users_of(build_game(cells[0].scenario, cells[0].seed, engine.map, attacks=attacks), users, scenario)
    plan = SweepPlan(
        scenario=scenario,
        vary=varied,
        seeds=_seeds(seeds),
        users=count,
        metrics=_names(metrics),
        attacks=tuple(map(attack_name, attacks)),
        provenance=provenance_of(seed=cells[0].seed, users=count, inputs=input_files(scenario)),
    )
    progress.begin(count * len(cells))
    if target is None:
        if resume:
            raise InputError("resume needs the folder of the sweep", place="out")
        table = _stacked([_play(cell, plan, metrics, attacks, engine, progress) for cell in cells])
        return Sweep(plan=_finished(plan, table), results=table)
    with located_os_errors(target, ANOTHER):
        _check_target(target, resume)
        with claimed(target):
            _check_target(target, resume)
            return _play_into(target, plan, cells, metrics, attacks, engine, progress)


def read_sweep(folder: Path) -> Sweep:
    """Read the finished sweep of a folder."""
    plan = read_result(SweepPlan, folder / FILE)
    if plan.provenance is None or plan.provenance.outcomes is None or not (folder / RESULTS).exists():
        raise InputError("the sweep is not finished", file=folder, remedy="go on with poolscope sweep --resume first")
    with decoding(folder / RESULTS):
        table = scan(folder / RESULTS).collect()
    if values_checksum(table) != plan.provenance.outcomes:
        raise InputError("has changed since it was written", file=folder / RESULTS, remedy="run the sweep again")
    return Sweep(plan=plan, results=table)


def finished_cells(folder: Path) -> int | None:
    """Return how many cells of an interrupted sweep are saved; None where there is no sweep."""
    return len(list((folder / CELLS).glob("cell-*.parquet"))) if (folder / FILE).exists() else None


@dataclass(frozen=True, kw_only=True)
class _Cell:
    """One choice of values and one seed."""

    values: Mapping[str, Any]
    scenario: Scenario
    seed: int


def _seeds(seeds: int | Sequence[int]) -> tuple[int, ...]:
    if is_integer(seeds):
        check_count("seeds", seeds)
        return tuple(range(seeds))
    found = tuple(seeds) if isinstance(seeds, Iterable) else ()
    wrong = [seed for seed in found if not is_integer(seed) or seed < 0]
    if not found or wrong or len(set(found)) < len(found):
        raise InputError("must be a count, or different whole numbers of at least 0", value=seeds, place="seeds")
    return tuple(map(int, found))


def _names(metrics: Sequence[OwnMetric]) -> tuple[str, ...]:
    names = tuple(getattr(metric, "__name__", "") for metric in metrics)
    for name in names:
        if not name.isidentifier() or names.count(name) > 1:
            remedy = "define each with def and a name of its own"
            raise InputError("must be functions with different names", value=name, place="metrics", remedy=remedy)
    return names


def _values(key: str, values: Sequence[Any]) -> list[Any]:
    """Return the values of a key as those of JSON."""
    place = f"vary[{key!r}]"
    if isinstance(values, str) or not isinstance(values, Sequence) or not len(values):
        raise InputError("must have a list of at least one value", value=values, place=place)
    try:
        # numbers of NumPy are those of Python
        found: list[Any] = json.loads(json.dumps(list(values), default=lambda value: value.item()))
    except (AttributeError, TypeError, ValueError):
        raise InputError("must be values that a scenario can have", value=values, place=place) from None
    return found


def _cells(
    scenario: Scenario, vary: Mapping[str, Sequence[Any]], seeds: Sequence[int], attacks: Sequence[AttackSpec]
) -> Iterator[_Cell]:
    """Yield all cells; every scenario and mechanism is built first, so that a wrong value is reported at once."""
    if not vary:
        raise InputError("must vary at least one key", place="vary", remedy='as {"mechanism.epsilon": [1, 2]}')
    if not scenario.adversaries and not attacks:
        raise scenario.missing("[adversary]")
    choices = []
    for combination in product(*vary.values()):
        chosen = dict(zip(vary, combination, strict=True))
        choice = _variant(scenario, chosen)
        with located(file=scenario.file):
            build_mechanism(choice, choice.universe())
        choices.append((chosen, choice))
    for chosen, choice in choices:
        for seed in seeds:
            yield _Cell(values=chosen, scenario=choice, seed=seed)


def _variant(scenario: Scenario, values: Mapping[str, Any]) -> Scenario:
    """Return the scenario with these values; another mechanism brings its own parameters."""
    rest = dict(values)
    if KIND in rest:
        kind = rest.pop(KIND)
        epsilon = rest.get(EPSILON, scenario.mechanism.parameters.get("epsilon"))
        scenario = scenario.replace(mechanism_changes(scenario, kind, epsilon))
        if "epsilon" not in scenario.mechanism.parameters:
            # a mechanism without one is the same at every epsilon
            rest.pop(EPSILON, None)
    return scenario.replace(rest)


def _check_target(out: Path, resume: bool) -> None:
    if resume and (out / FILE).exists():
        check_folder(out)
    elif (out / FILE).exists():
        check_new(out, what="holds another sweep", remedy=f"continue with `resume` or {ANOTHER}")
    else:
        check_new(out)


def _play_into(
    out: Path,
    plan: SweepPlan,
    cells: Sequence[_Cell],
    metrics: Sequence[OwnMetric],
    attacks: Sequence[AttackSpec],
    engine: Engine,
    progress: Progress,
) -> Sweep:
    """Play the missing cells into files, then put all rows into one table."""
    if (out / FILE).exists():
        before = read_result(SweepPlan, out / FILE)
        if not before.is_same(plan):
            remedy = f"give the same scenario, values, seeds and users, or {ANOTHER}"
            raise InputError("the folder holds another sweep", file=out, remedy=remedy)
        check_minor_version(before.version, out)
        if before.provenance is not None and before.provenance.outcomes is not None:
            progress.tick(plan.users * len(cells))
            return read_sweep(out)
        if before.provenance is not None and plan.provenance is not None:
            plan = replace(before, provenance=before.provenance.resumed(plan.provenance, out))
    write_text(out / FILE, as_text(plan))
    folder = out / CELLS
    folder.mkdir(exist_ok=True)
    for place in (out, folder):
        delete_unfinished(place)
    parts = []
    for position, cell in enumerate(cells):
        path = folder / f"cell-{position:06}.parquet"
        if path.exists():
            progress.tick(plan.users)
        else:
            rows = _play(cell, plan, metrics, attacks, engine, progress)
            with replacing(path) as temporary:
                rows.write_parquet(temporary)
        parts.append(path)
    table = _stacked([pl.read_parquet(path) for path in parts])
    with replacing(out / RESULTS) as temporary:
        table.write_parquet(temporary)
    plan = _finished(plan, table)
    write_text(out / FILE, as_text(plan))
    shutil.rmtree(folder)
    return Sweep(plan=plan, results=table)


def _finished(plan: SweepPlan, table: pl.DataFrame) -> SweepPlan:
    assert plan.provenance is not None
    return replace(plan, provenance=replace(plan.provenance, outcomes=values_checksum(table)))


def _play(
    cell: _Cell,
    plan: SweepPlan,
    metrics: Sequence[OwnMetric],
    attacks: Sequence[AttackSpec],
    engine: Engine,
    progress: Progress,
) -> pl.DataFrame:
    """Return the rows of one cell: its values and seed, and the record of each adversary at each n."""
    game = build_game(cell.scenario, cell.seed, engine.map, attacks=attacks)
    outcomes = play(game, plan.users, cell.seed, engine=engine, progress=progress.within())
    threshold = cell.scenario.attack.threshold if cell.scenario.attack else None
    records = summarize(outcomes, game, cell.seed, threshold).to_polars()
    own = [_own(rows, metrics) for rows in outcomes.partition_by("adversary", "n", maintain_order=True)]
    table = pl.concat([records, pl.DataFrame(own, infer_schema_length=None)], how="horizontal") if metrics else records
    # values as text where they are no plain ones, so that a column has one type
    values = {key: _plain(value) for key, value in cell.values.items()}
    return table.select(
        *(pl.lit(value).alias(key) for key, value in values.items()), pl.lit(cell.seed).alias("seed"), pl.all()
    )


def _own(rows: pl.DataFrame, metrics: Sequence[OwnMetric]) -> dict[str, float]:
    found: dict[str, float] = {}
    for metric in metrics:
        value, name = metric(rows), metric.__name__
        if isinstance(value, Estimate):
            found |= {name: value.value, f"{name}_low": value.low, f"{name}_high": value.high}
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found[name] = float(value)
        else:
            raise InputError("a metric must return a number or an estimate", value=value, place=f"metrics: {name}")
    return found


def _plain(value: Any) -> Any:
    return value if isinstance(value, bool | int | float | str) else json.dumps(value)


def _stacked(parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(parts, how="diagonal_relaxed")
