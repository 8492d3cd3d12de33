"""Construction of mechanisms, adversaries and games from a scenario, and scenarios with another mechanism.

Files that parameters of a mechanism name are arrays and tables, which are checked and never unpickled. A custom
mechanism is a class, or "module:Class". Only commands and functions can name one: scenarios are untrusted, and an
import runs code.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poolscope.core.arguments import checked
from poolscope.core.arrays import Floats, Map
from poolscope.core.errors import InputError, did_you_mean, located, reading
from poolscope.core.files import check_regular
from poolscope.core.randomness import curator_key, redraw_keys
from poolscope.core.tables import Batch, read_table
from poolscope.devices.memoized import device_of, is_memoized
from poolscope.devices.policy import ReportingPolicy
from poolscope.devices.protocols import Device
from poolscope.devices.registry import MECHANISMS, make, with_instantaneous_round
from poolscope.game.game import Game
from poolscope.inference.adversary import Adversary
from poolscope.mechanisms.channel import MAX_CELLS, check_cells
from poolscope.mechanisms.protocols import Mechanism, ReportColumn
from poolscope.population.behavior import Behavior, Change
from poolscope.population.popularity import uniform
from poolscope.population.preprocessing import TracePreprocessing, prepare
from poolscope.population.priors import UNIFORM, Beta, Density, StepDensity
from poolscope.population.recorded import RecordedUsers, population, read_traces
from poolscope.population.universe import Universe, objects_of
from poolscope.reports.columns import COLUMN_FORMATS
from poolscope.reports.frequencies import (
    frequencies_of_objects,
    redraw_popularity_estimates,
    redraw_popularity_estimates_of_objects,
    simulate_frequencies,
)
from poolscope.scenario.collection_tables import setting_of_each
from poolscope.scenario.custom import import_name, is_custom
from poolscope.scenario.scenario import Scenario
from poolscope.scenario.tables import FILE_PARAMETERS, AdversaryTable, DensityTable, PriorTable

#: What an adversary assumes of the popularity.
PHRASES = {
    "uniform": "popularity assumed uniform",
    "estimated": "popularity estimated from {}",
    "true": "popularity known exactly",
    "given": "popularity given by the scenario",
}

NAIVE = ", memoization ignored"


@checked
def build_game(
    scenario: Scenario,
    seed: int,
    threads: Map = map,
    mechanism: Mechanism | None = None,
    attacks: Sequence[Any] = (),
    oracle: Mechanism | None = None,
) -> Game:
    """Build the game of a scenario, or with another mechanism, and with further attacks (`attacks.make_attack`).

    Estimated popularities derive from the run's seed, and from reports of the `oracle` where it is another mechanism.
    """
    from poolscope.scenario.attacks import attack_adversaries  # it is made of this module

    if scenario.attack is None:
        raise scenario.missing("attack")
    if not scenario.adversaries and not scenario.attack.non_private and not attacks:
        raise scenario.missing("[adversary]")
    universe = scenario.universe()
    mechanism = mechanism or build_mechanism(scenario, universe)
    recorded = build_recorded(scenario, universe, seed)
    popularity = None if recorded and not scenario.popularity_table else scenario.true_popularity(universe)
    adversaries = [
        build_adversary(
            scenario, i, universe, popularity, oracle or mechanism, seed, threads, recorded, scenario.attack.estimates
        )
        for i in range(len(scenario.adversaries))
    ]
    adversaries += attack_adversaries(attacks, adversaries, universe, popularity) if attacks else []
    drawn = scenario.users.behavior if scenario.users else None
    behavior = build_behavior(drawn, universe, popularity) if drawn else Behavior()
    return Game(
        universe=universe,
        popularity=uniform(universe) if popularity is None else popularity,
        device=build_device(scenario, mechanism),
        policy=build_policy(scenario),
        adversaries=adversaries,
        observations=scenario.attack.observations,
        behavior=replace(behavior, none=scenario.users.none) if scenario.users else behavior,
        sigma=scenario.users.sigma if scenario.users else 0.0,
        habits=scenario.users.habits.dirichlet if scenario.users and scenario.users.habits else None,
        change=Change(**scenario.users.change.model_dump()) if scenario.users and scenario.users.change else None,
        non_private=scenario.attack.non_private,
        recorded=recorded,
        threshold=scenario.attack.threshold,
    )


def build_recorded(scenario: Scenario, universe: Universe, seed: int) -> RecordedUsers | None:
    """Read and prepare the recorded users of ``[users] traces``; None where users are synthetic."""
    if scenario.users is None or scenario.users.traces is None:
        return None
    assert scenario.attack is not None
    path = scenario.resolve(scenario.users.traces, place="users.traces")
    traces = read_traces(path, universe)
    preprocessing = TracePreprocessing(
        trace_length=max(TracePreprocessing().trace_length, scenario.attack.observations[-1])
    )
    with located(file=path):
        prepared = prepare(traces.users, traces.user, traces.object, universe, seed=seed, preprocessing=preprocessing)
    return population(prepared, traces.users, universe)


def build_mechanism(scenario: Scenario, universe: Universe) -> Mechanism:
    """Build the mechanism of ``[mechanism]``, composed with the instantaneous noise of ``[devices]``.

    Files that parameters name are read, and never unpickled.
    """
    parameters: dict[str, Any] = dict(scenario.mechanism.parameters)
    for name in (name for name in FILE_PARAMETERS if name in parameters):
        path = scenario.resolve(str(parameters[name]), place=f"mechanism.{name}")
        parameters[name] = READERS[name](path, universe)
    with located(file=scenario.file, place="mechanism"):
        mechanism = make(scenario.mechanism.kind, universe.size, parameters)
    if scenario.devices.instantaneous is None:
        return mechanism
    with located(file=scenario.file, place="devices.instantaneous"):
        return with_instantaneous_round(mechanism, **scenario.devices.instantaneous.model_dump())


def read_array(path: Path, universe: Universe) -> NDArray[Any]:
    """Read an array from a .npy file."""
    check_regular(path)
    with reading(path):
        try:
            array: NDArray[Any] = np.load(path, allow_pickle=False, mmap_mode="r")
            return array
        except OSError:
            raise
        except Exception:
            # the header is parsed as text, so that a malformed file can raise any exception
            raise InputError("must be a NumPy array file (.npy) without pickled objects") from None


def read_matrix(path: Path, universe: Universe) -> NDArray[Any]:
    """Read Pr[report | object], (objects, reports), from a .npy file or a table ``object,report,probability``.

    Reports are numbered from 0; pairs that are not listed have probability 0. Parquet or CSV.
    """
    if path.suffix.lower() == ".npy":
        return read_array(path, universe)
    table = read_table(path, ("object", "report", "probability"))
    objects, reports = _pairs(table, universe)
    probability = table.numbers("probability", high=1.0)
    size = int(reports.max()) + 1
    with located(file=path):
        check_cells(universe.size, size)
    cells = objects * size + reports
    distinct, first = np.unique(cells, return_index=True)
    if len(distinct) < len(cells):
        row = int(np.setdiff1d(np.arange(len(cells)), first)[0])
        raise table.wrong("a pair must be listed once", row, f"{objects[row]}, {reports[row]}")
    matrix = np.zeros(universe.size * size)
    matrix[cells] = probability
    return matrix.reshape(universe.size, size)


def read_samples(path: Path, universe: Universe) -> NDArray[np.int64]:
    """Read (samples, 2) from a table ``object,report``, Parquet or CSV; reports are numbered from 0."""
    return np.stack(_pairs(read_table(path, ("object", "report")), universe), axis=1)


#: Reader of each of ``FILE_PARAMETERS``.
READERS: dict[str, Callable[[Path, Universe], NDArray[Any]]] = {
    "hash_table": read_array,
    "matrix": read_matrix,
    "samples": read_samples,
}


def _pairs(table: Batch, universe: Universe) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    numbered = ReportColumn("integer", MAX_CELLS)
    reports = COLUMN_FORMATS["integer"].read(table, "report", numbered, universe)
    return objects_of(table, "object", universe).to_numpy(), np.asarray(reports, dtype=np.int64)


def build_device(scenario: Scenario, mechanism: Mechanism) -> Device:
    """Build the device of a scenario for this mechanism."""
    return device_of(mechanism, memoize=scenario.devices.memoize)


def build_policy(scenario: Scenario) -> ReportingPolicy:
    """Build the reporting policy of ``[devices]``."""
    with located(file=scenario.file, place="devices"):
        return ReportingPolicy(**scenario.devices.model_dump(exclude={"memoize", "instantaneous"}))


def build_adversary(
    scenario: Scenario,
    index: int,
    universe: Universe,
    popularity: Floats | None,
    mechanism: Mechanism,
    seed: int,
    threads: Map,
    recorded: RecordedUsers | None = None,
    estimates: int = 1,
) -> Adversary:
    """Build an entry of ``[[adversary]]`` with its own `estimates` draws of an estimated popularity."""
    entry = scenario.adversaries[index]
    further: list[Floats] = []
    with located(file=scenario.file, place=f"adversary[{index}]"):
        if entry.popularity == "uniform":
            believed = uniform(universe)
        elif entry.popularity == "given":
            believed = scenario.given_popularity(entry, universe)
        elif entry.popularity == "estimated" and entry.estimate_from is None:
            remedy = "only attack can estimate the popularity without it, from the attacked reports"
            raise InputError("must have estimate_from", remedy=remedy)
        elif entry.popularity == "estimated" and recorded:
            others = recorded.external_objects(entry.estimate_from or 0)
            key = curator_key(seed, index)
            more = redraw_keys(key, estimates - 1)
            believed = frequencies_of_objects(mechanism, others, key, threads, entry.method).popularity
            further = redraw_popularity_estimates_of_objects(mechanism, others, more, threads, entry.method)
        elif popularity is None:
            raise InputError(f"popularity {entry.popularity!r} requires a table [popularity]")
        elif entry.popularity == "true":
            believed = popularity
        else:
            assert entry.estimate_from is not None
            key = curator_key(seed, index)
            more = redraw_keys(key, estimates - 1)
            source = mechanism, popularity, entry.estimate_from
            believed = simulate_frequencies(*source, key, threads, entry.method).popularity
            further = redraw_popularity_estimates(*source, more, threads, entry.method)
        pools = other_pools(entry, universe)
        return adversary_of(entry, pools, [believed, *further], recorded.fitted if recorded else None)


def adversary_of(
    entry: AdversaryTable, universe: Universe, popularities: Sequence[Floats], fitted: Behavior | None = None
) -> Adversary:
    """Build an adversary from its entry, its pools, and its popularity or several draws of an estimated one."""
    first, *redraws = (
        Adversary(
            name=entry.name,
            universe=universe,
            popularity=believed,
            belief=build_behavior(entry.prior, universe, believed, fitted),
            phrase=adversary_phrase(entry),
            knows_memoization=entry.knows_memoization,
        )
        for believed in popularities
    )
    return replace(first, redraws=tuple(redraws))


def adversary_phrase(entry: AdversaryTable) -> str:
    """Return what an adversary assumes of the popularity, and whether it ignores memoization."""
    source = "other reports" if entry.estimate_from is None else f"{entry.estimate_from:,} reports"
    return PHRASES[entry.popularity].format(source) + ("" if entry.knows_memoization else NAIVE)


def other_pools(entry: AdversaryTable, universe: Universe) -> Universe:
    """Return the universe with the adversary's own pools; the scenario's universe where it has none."""
    if entry.pools is None:
        return universe
    members = {name: [m for part in parts for m in _members(part, universe)] for name, parts in entry.pools.items()}
    return Universe.from_pools(universe.objects or universe.size, members)


def _members(part: str | int, universe: Universe) -> list[str | int]:
    """Return the objects of an entry: a name, a number, or a slice of numbers "start:stop[:step]"."""
    if isinstance(part, int) or not re.fullmatch(r"\d+:\d+(:\d+)?", part):
        return [part]
    numbers = range(universe.size)[slice(*map(int, part.split(":")))]
    return [universe.objects[i] for i in numbers] if universe.objects else list(numbers)


def build_behavior(
    prior: PriorTable, universe: Universe, popularity: Floats | None, fitted: Behavior | None = None
) -> Behavior:
    """Build priors from a table: "popularity" weights pools by popularity, "fitted" is fitted to external users."""
    if fitted is None and "fitted" in (prior.interest, prior.polarization, prior.pools):
        raise InputError("can be 'fitted' only with recorded users", place="prior", remedy="add [users] traces")
    pools = prior.pool_weights(universe.pool_names)
    if prior.pools == "popularity":
        masses = np.bincount(universe.pool_of + 1, weights=popularity, minlength=universe.k + 1)
        pools = tuple(float(mass) for mass in masses[1:])
    elif prior.pools == "fitted" and fitted:
        pools = fitted.pools
    return Behavior(
        interest=_density(prior.interest, fitted.interest if fitted else UNIFORM),
        polarization=_density(prior.polarization, fitted.polarization if fitted else UNIFORM),
        pools=pools,
        none=prior.none,
    )


def _density(given: str | DensityTable, fitted: Density) -> Density:
    if isinstance(given, str):
        return fitted if given == "fitted" else UNIFORM
    if given.beta is not None:
        return Beta(a=given.beta[0], b=given.beta[1])
    assert given.table is not None
    return StepDensity(given.table)


def with_overrides(
    scenario: Scenario,
    *,
    observations: Sequence[int] | None = None,
    threshold: float | None = None,
    epsilon: float | None = None,
    mechanism: Any = None,
) -> Scenario:
    """Return the scenario with these values overridden; itself where all are None. Its text is updated too.

    A mechanism of one's own has no name in a scenario: it is recorded, and `own_mechanism` makes it.
    """
    if mechanism is not None and is_custom(mechanism):
        kept = with_overrides(scenario, observations=observations, threshold=threshold)
        asked = {"mechanism": import_name(mechanism), **({} if epsilon is None else {"epsilon": epsilon})}
        return kept.with_overrides_recorded(kept.overrides | asked)
    counts = None if observations is None else list(observations)
    values = {"mechanism": mechanism, "epsilon": epsilon, "observations": counts, "threshold": threshold}
    overrides: dict[str, Any] = {name: value for name, value in values.items() if value is not None}
    if not overrides:
        return scenario
    if scenario.collections and (epsilon is not None or mechanism is not None):
        raise setting_of_each("epsilon" if mechanism is None else "mechanism", scenario.file)
    changes = {f"attack.{name}": overrides[name] for name in ("observations", "threshold") if name in overrides}
    if mechanism is not None:
        same = scenario.mechanism.epsilon if epsilon is None else epsilon
        changes |= mechanism_changes(scenario, mechanism, same)
    elif epsilon is not None:
        changes["mechanism.epsilon"] = float(epsilon)
    return scenario.replace(changes).with_overrides_recorded(scenario.overrides | overrides)


def mechanism_changes(scenario: Scenario, kind: str, epsilon: float | None) -> dict[str, Any]:
    """Return the keys that another mechanism changes: ``[mechanism]``, and adversaries where it does not memoize."""
    changes: dict[str, Any] = {"mechanism": mechanism_table(scenario, kind, epsilon)}
    if scenario.memoizes and not is_memoized(MECHANISMS[kind], scenario.devices.memoize):
        changes["adversary"] = adversaries_without_memoization(scenario)
    return changes


def adversaries_without_memoization(scenario: Scenario) -> list[dict[str, Any]]:
    """Return the adversaries without `knows_memoization`, which requires memoizing devices."""
    listed = scenario.to_dict().get("adversary", [])
    return [{key: entry[key] for key in entry if key != "knows_memoization"} for entry in listed]


def mechanism_table(scenario: Scenario, kind: str, epsilon: float | None) -> dict[str, Any]:
    """Return ``[mechanism]`` for a kind and an ε; without ε where the kind has none."""
    known = parameters_of(kind)
    table: dict[str, Any] = {"kind": kind}
    if "epsilon" in known and epsilon is not None:
        table["epsilon"] = float(epsilon)
    return table | _shared(scenario, kind, known)


def parameters_of(kind: str) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a mechanism."""
    if not isinstance(kind, str):
        remedy = "for your own classes use compare(scenario, [Mine], epsilons)"
        raise InputError("must be the name of a mechanism", value=kind, place="mechanism", remedy=remedy)
    if kind not in MECHANISMS:
        remedy = did_you_mean(kind, MECHANISMS)
        raise InputError("must be a known mechanism", value=kind, place="mechanism", remedy=remedy)
    return inspect.signature(MECHANISMS[kind]).parameters


def _shared(scenario: Scenario, kind: str, known: Mapping[str, inspect.Parameter]) -> dict[str, Any]:
    """Return the scenario's parameters that a mechanism takes: all for the same kind, else those without a default.

    Defaults of another kind are kept: the hash functions of a Bloom filter are not those of a sketch.
    """
    own = kind == scenario.mechanism.kind
    wanted = {name for name, p in known.items() if own or p.default in (None, inspect.Parameter.empty)}
    given = scenario.mechanism.parameters
    return {name: value for name, value in given.items() if name in wanted and name != "epsilon"}
