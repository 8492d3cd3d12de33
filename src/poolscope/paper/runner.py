"""Run what the chosen experiments need, once, and compare with the published values."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from math import isnan
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, InstanceOf

from poolscope import __version__
from poolscope.core.arrays import Map
from poolscope.core.errors import InputError, located
from poolscope.core.executors import Engine
from poolscope.core.files import ANOTHER, check_new, json_safe, read_json
from poolscope.core.progress import Progress
from poolscope.core.tables.atomic import write_text
from poolscope.metrics.intervals import Estimate
from poolscope.metrics.models import (
    FORMAT,
    Count,
    Flag,
    Format,
    Real,
    Result,
    Whole,
    as_text,
    read_model,
    read_result,
    result,
)
from poolscope.metrics.provenance import Provenance, check_minor_version, combined, provenance_of
from poolscope.paper import experiments as data
from poolscope.paper.experiments import Cell, Experiment, RunSpec
from poolscope.paper.values import OF_UTILITY, Played, utility, value_of
from poolscope.scenario.scenario import Scenario, builtin_text, load_scenario, parse, same_tables
from poolscope.workflows.audit.audit import audit
from poolscope.workflows.audit.run_folder import Run, read_manifest, read_run

FILE = "reproduction.json"

#: Users that a simulation of the curator counts for in the progress.
UTILITY_WEIGHT = 15_000

#: A scenario and a number of reports.
Simulation = tuple[str, float]

#: Below this number of reports the published errors are noisy, and the tolerance is three times as large.
NOISY_REPORTS = 1e7


@result
class Compared(Result):
    """A cell with its published value and our value.

    `published` and `agrees` are None where the paper has nothing; `ours` and `agrees` where a quick pass has no such
    users.
    """

    experiment: str
    row: str
    column: str
    published: float | str | None
    ours: Real | None
    low: Real
    high: Real
    agrees: Flag | None


@result
class Reproduction(Result):
    """All cells, the plays they came from, and the seconds that each experiment took on its own.

    Examples
    --------
    >>> done = ps.reproduce("no-hash", "paper", users=10, html=False)
    >>> done.cells[0].experiment, sorted(done.seconds)
    ('no-hash', ['no-hash'])
    """

    format: Format = FORMAT
    version: str = __version__
    seed: Whole = 0
    users: Count | None = None
    cells: tuple[Compared, ...]
    played: Annotated[dict[str, InstanceOf[Played]], Field(exclude=True)]
    seconds: Annotated[dict[str, float], Field(exclude=True)]
    provenance: Provenance | None = None


def run_experiments(
    wanted: Sequence[Experiment],
    out: Path,
    users: int | None,
    seed: int,
    traces: Path | None,
    engine: Engine,
    progress: Progress,
) -> Reproduction:
    """Play what is needed and is not there yet, simulate, and lay every cell beside the published one."""
    needed = [data.plays()[name] for name in dict.fromkeys(p for e in wanted for p in e.plays)]
    total = sum(_users(play, users) for play in needed)
    made_with = _start_or_resume(out, users, provenance_of(seed=seed, users=max(1, total)))
    progress.begin(total + UTILITY_WEIGHT * len(_utilities(wanted)))
    played: dict[str, Played] = {}
    seconds: dict[str, float] = {}
    for play in needed:
        progress.stage(play.name)
        played[play.name], took = _play(play, _scenario(play, traces), out, users, seed, engine, progress)
        first = next(e.name for e in wanted if play.name in e.plays)
        seconds[first] = seconds.get(first, 0.0) + took
    simulated = {}
    for simulation, epsilons in _utilities(wanted).items():
        scenario, reports = simulation
        progress.stage(f"{scenario}, {reports:g} reports")
        started = time.perf_counter()
        simulated[simulation] = _simulate(simulation, epsilons, out, seed, engine)
        progress.tick(UTILITY_WEIGHT)
        first = next(e.name for e in wanted if any(c.value in OF_UTILITY for c in e.cells))
        seconds[first] = seconds.get(first, 0.0) + time.perf_counter() - started
    cells = []
    for experiment in wanted:
        progress.stage(experiment.name)
        started = time.perf_counter()
        for cell in experiment.cells:
            cells.append(_compare(experiment, cell, _value(cell, played, simulated)))
        seconds[experiment.name] = seconds.get(experiment.name, 0.0) + time.perf_counter() - started
    done = Reproduction(
        version=made_with.version,
        seed=seed,
        users=users,
        cells=tuple(cells),
        played=played,
        seconds=seconds,
        provenance=_with_outcomes(made_with, played, simulated),
    )
    write_text(out / FILE, as_text(done))
    return done


def read_reproduction(folder: Path) -> Reproduction:
    """Return the cells that a folder holds, without the plays; an ``InputError`` says what is malformed."""
    path = folder / FILE
    found = read_json(path)
    with located(file=path):
        if not isinstance(found, dict):
            raise InputError("must be an object", value=found)
        return read_model(Reproduction, found | {"played": {}, "seconds": {}})


def _with_outcomes(made_with: Provenance, played: dict[str, Played], simulated: dict[Simulation, Any]) -> Provenance:
    """Return the provenance of a reproduction with the users, inputs and outcomes of all plays and simulations."""
    summaries = {name: play.run.summary for name, play in sorted(played.items())}
    own = {name: summary.provenance for name, summary in summaries.items() if summary.provenance}
    digests = {name: found.outcomes or "" for name, found in own.items()}
    digests |= {
        f"{scenario} {reports:g}": json.dumps(json_safe(errors)) for (scenario, reports), errors in simulated.items()
    }
    return replace(
        made_with,
        users=max(1, sum(summary.users for summary in summaries.values())),
        inputs={name: digest for found in own.values() for name, digest in found.inputs.items()},
        outcomes=combined(digests),
    )


def finished_plays(out: Path) -> int:
    """Return how many runs of a reproduction are on disk."""
    return len(list(out.glob("plays/*/summary.json")))


def finished(out: Path, threads: Map) -> dict[str, Played]:
    """Return the finished runs of a folder by name, with the scenarios that were run."""
    found = {}
    for name, play in data.plays().items():
        folder = _folder(out, play)
        if (folder / "summary.json").exists() and (kept := read_manifest(folder)):
            scenario = parse(kept.scenario, name=name, file=folder / "scenario.toml")
            found[name] = Played(scenario=scenario, run=read_run(folder), threads=threads)
    return found


@result
class Settings(Result):
    """``reproduction-settings.json``: what a reproduction was started with, and has been resumed with since."""

    users: Count | None
    seed: Whole | None
    provenance: Provenance


def _start_or_resume(out: Path, users: int | None, now: Provenance) -> Provenance:
    """Return what the reproduction of a folder is made with; refuse another one, or that of another minor version."""
    path = out / "reproduction-settings.json"
    if path.exists():
        before = read_result(Settings, path)
        if (before.users, before.seed) != (users, now.seed):
            rule = "the folder holds a reproduction with another seed or number of users"
            raise InputError(rule, file=out, remedy=ANOTHER)
        check_minor_version(before.provenance.version, out)
        now = before.provenance.resumed(now, out)
    else:
        check_new(out)
    write_text(path, as_text(Settings(users=users, seed=now.seed, provenance=now)))
    return now


def _scenario(play: RunSpec, traces: Path | None) -> Scenario:
    """Return the scenario of a run; one with recorded users reads the given traces."""
    if not play.recorded:
        return load_scenario(play.scenario).replace(play.change, name=play.name)
    assert traces is not None
    traces = traces.resolve()  # given on the command line: it may be a link to anywhere
    file = traces.parent / f"{play.scenario}.toml"
    base = parse(builtin_text(play.scenario), name=play.scenario, file=file)
    return base.replace({**play.change, "users.traces": traces.name}, name=play.name)


def _play(
    play: RunSpec,
    scenario: Scenario,
    out: Path,
    users: int | None,
    seed: int,
    engine: Engine,
    progress: Progress,
) -> tuple[Played, float]:
    """Run, resume or read a run; the seconds are those of the first time."""
    count = _users(play, users)
    folder = _folder(out, play)
    kept = read_manifest(folder) if (folder / "summary.json").exists() else None
    if kept and same_tables(kept.scenario, scenario.text):
        progress.tick(count)
        run = read_run(folder)
    else:
        folder.parent.mkdir(parents=True, exist_ok=True)
        inner = progress.within()
        summary = audit(scenario, folder, users=count, seed=seed, engine=engine, resume=folder.exists(), progress=inner)
        run = Run.within(folder, summary)
    return Played(scenario=scenario, run=run, threads=engine.map), run.summary.seconds or 0.0


def _folder(out: Path, play: RunSpec) -> Path:
    return out / "plays" / re.sub(r"[^a-z0-9.]+", "-", play.name)


def _users(play: RunSpec, users: int | None) -> int:
    return play.users if users is None else min(play.users, users)


def _utilities(wanted: Sequence[Experiment]) -> dict[Simulation, list[str]]:
    """Return the simulated frequency estimates that these experiments need, and the values of ε of each."""
    found: dict[Simulation, list[str]] = {}
    for cell in (c for e in wanted for c in e.cells if c.value in OF_UTILITY):
        epsilons = found.setdefault(_simulation(cell), [])
        if cell.arguments["epsilon"] not in epsilons:
            epsilons.append(cell.arguments["epsilon"])
    return found


def _simulation(cell: Cell) -> Simulation:
    return cell.arguments["scenario"], cell.arguments["reports"]


def _value(cell: Cell, played: dict[str, Played], simulated: dict[Simulation, Any]) -> Estimate:
    if cell.value in OF_UTILITY:
        return Estimate(*simulated[_simulation(cell)][cell.arguments["epsilon"]][cell.value])
    play = cell.arguments.get("play")
    return value_of(cell.value, cell.arguments, played[play] if play else None)


def _simulate(simulation: Simulation, epsilons: Sequence[str], out: Path, seed: int, engine: Engine) -> Any:
    """Return one simulated frequency estimate for all values of ε, cached in a file."""
    scenario, reports = simulation
    path = out / "utility" / f"{scenario}-{reports:g}.json"
    kept = read_json(path) if path.exists() else {}
    if not _are_errors(kept):
        raise InputError("must be the errors of a simulation", file=path, remedy="delete it to simulate again")
    if missing := [epsilon for epsilon in epsilons if epsilon not in kept]:
        path.parent.mkdir(exist_ok=True)
        kept |= utility(scenario, missing, reports, seed, engine.map)
        write_text(path, json.dumps(kept) + "\n")
    return kept


def _are_errors(kept: Any) -> bool:
    """Return whether a value has the format of `utility`: for each ε, errors with intervals."""
    return isinstance(kept, dict) and all(
        isinstance(errors, dict)
        and set(errors) == set(OF_UTILITY)
        and all(isinstance(one, list | tuple) and len(one) == 3 for one in errors.values())
        and all(isinstance(number, int | float) for one in errors.values() for number in one)
        for errors in kept.values()
    )


def _compare(experiment: Experiment, cell: Cell, ours: Estimate) -> Compared:
    published = data.published_at(cell.published) if cell.published else None
    nobody = isnan(ours.value)
    relative = cell.relative * (3 if cell.arguments.get("reports", NOISY_REPORTS) < NOISY_REPORTS else 1)
    return Compared(
        experiment=experiment.name,
        row=cell.row,
        column=cell.column,
        published=published,
        ours=None if nobody else float(ours.value),
        low=float(ours.low),
        high=float(ours.high),
        agrees=None if published is None or nobody else agrees(published, ours, cell.tolerance, relative),
    )


def agrees(published: float | str, ours: Estimate, tolerance: float, relative: float) -> bool:
    """Return whether the published value, or a range given in words, is within the tolerance of our interval."""
    low, high = stated_range(published)
    slack = tolerance + relative * max(abs(low), abs(high))
    return bool(ours.low - slack <= high and ours.high + slack >= low)


def stated_range(published: float | str) -> tuple[float, float]:
    """0.29 is itself; "more than 0.80", "above 0.61", "less than 0.20" and "0.82 to 0.90" are ranges of shares."""
    if not isinstance(published, str):
        return float(published), float(published)
    numbers = [float(x) for x in re.findall(r"\d+\.\d+", published)]
    if published.startswith(("more than", "above")):
        return numbers[0], 1.0
    if published.startswith("less than"):
        return 0.0, numbers[0]
    return numbers[0], numbers[-1]
