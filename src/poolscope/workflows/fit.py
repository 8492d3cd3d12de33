"""Fit the users of a scenario to what a curator has: aggregate counts, counts of devices, traces or reports."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from poolscope.core.arguments import checked
from poolscope.core.arrays import Floats, Integers
from poolscope.core.errors import InputError, check_count, did_you_mean
from poolscope.core.executors import Local
from poolscope.core.tables import check_output, open_table
from poolscope.core.tables.atomic import write_text
from poolscope.core.tables.columns import Batch
from poolscope.inference.population_fit import (
    REPORT_CELLS,
    FittedBeta,
    PopulationFit,
    beta_parameters,
    fit_counts,
    fit_reports,
)
from poolscope.mechanisms.protocols import PoolWeights
from poolscope.metrics.fitted import BetaRecord, EdgePopulation, Fitted
from poolscope.metrics.intervals import Estimate, share_of
from poolscope.population.popularity import within_pools
from poolscope.population.recorded import read_traces
from poolscope.population.universe import Universe
from poolscope.reports.files import masses, read_reports, select_rows
from poolscope.scenario.build import build_mechanism
from poolscope.scenario.interest import popularity_in_pools
from poolscope.scenario.scenario import Scenario

#: Kinds of data, and what a file of each has.
AGGREGATE, DEVICES, TRACES, REPORTS = "aggregate counts", "counts of devices", "traces", "reports"

#: Bytes of the likelihoods of reports, and users of one fit at most.
TABLE_BYTES, MAX_USERS = 1 << 28, 10_000

#: Concentration a + b of the edges of what aggregate counts allow: few users with all events, or all users alike.
CONCENTRATED, EVEN = 0.1, 100.0

#: Digits of the parameters in TOML.
DIGITS = 4


@checked
def fit(
    scenario: Scenario,
    data: str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    out: str | PathLike[str] | None = None,
    devices: int | None = None,
    max_users: int = MAX_USERS,
    overwrite: bool = False,
) -> Fitted:
    """Fit the distributions of interest and polarization of the users, by maximum likelihood.

    Parameters
    ----------
    scenario : its universe, popularity and mechanism.
    data : files of one kind, told by their columns: ``pool,count`` (aggregate counts), ``user,pool,count`` (counts of
        devices), ``user,object`` (traces), or reports. An empty pool is the neutral one.
    out : file of the scenario with the fitted ``[users] behavior``, in TOML.
    devices : how many devices aggregate counts are of; without it their mean has no interval.
    max_users : users of reports at most, the first of the file.
    overwrite : whether an existing ``out`` may be replaced.

    Examples
    --------
    >>> _ = open("counts.csv", "w").write("pool,count\\n,960\\nlight,30\\ndark,10\\n")
    >>> print(ps.fit(ps.load_scenario("apple-emojis"), "counts.csv").behavior["interest"])
    {'beta': [1.0, 24.0]}
    """
    paths = [Path(one) for one in ([data] if isinstance(data, str | PathLike) else data)]
    if not paths:
        raise InputError("must name at least one file", place="data")
    check_count("devices", devices)
    check_count("max_users", max_users)
    target = None if out is None else Path(out)
    if target is not None:
        check_output(target, overwrite=overwrite, inputs=scenario.input_paths(*paths), endings=(".toml",))
        if any((target.parent / name).resolve() != scenario.resolve(name).resolve() for name in scenario.named_files):
            rule = "must be in the folder of the scenario, whose files it names"
            raise InputError(rule, file=target, remedy="write it beside the scenario")
    universe = scenario.universe()
    kinds = {path: _kind(path) for path in paths}
    kind = kinds[paths[0]]
    for path, other in kinds.items():
        if other != kind:
            raise InputError(f"must be {kind}, as the first file", value=other, file=path)
    if kind == REPORTS:
        made = _from_reports(scenario, universe, paths, max_users)
    else:
        counts = _counts(kind, universe, paths)
        if not counts.sum():
            raise InputError("must have at least one event", file=paths[0])
        if kind == AGGREGATE:
            made = _from_aggregate(scenario, universe, counts[0], devices)
        else:
            made = _from_counts(scenario, universe, kind, counts)
    if target is not None:
        write_text(target, fitted_scenario(scenario, made).text)
    return made


def fitted_scenario(scenario: Scenario, found: Fitted, edge: str | None = None) -> Scenario:
    """Return the scenario with synthetic users of the fitted population and its edges, or of one of these."""
    behavior, edges = found.behavior, {one.name: one.behavior for one in found.edges}
    if edge is not None:
        known, edges = edges, {}
        if edge not in known:
            raise InputError("must be an edge of the fit", value=edge, remedy=did_you_mean(edge, known))
        behavior = known[edge]
    count = scenario.users.count if scenario.users else None
    return scenario.replace({"users": {"count": count, "behavior": behavior, "edges": edges or None}})


def _kind(path: Path) -> str:
    """Return the kind of a file, by its columns."""
    first = next(iter(open_table(path).batches((), optional=("user", "pool", "count", "object"))))
    names = set(first.frame.columns)
    if {"pool", "count"} <= names:
        return DEVICES if "user" in names else AGGREGATE
    return TRACES if {"user", "object"} <= names else REPORTS


def _counts(kind: str, universe: Universe, paths: Sequence[Path]) -> Integers:
    """Return (users, 1 + pools) counts; one row for aggregate counts."""
    parts = []
    for path in paths:
        if kind == TRACES:
            found = read_traces(path, universe)
            who = pl.Series(found.users).gather(found.user)
            pools = pl.Series(universe.pool_of[found.object].astype(np.int64) + 1)
            parts.append(pl.DataFrame({"user": who, "pool": pools, "count": np.ones(len(who), dtype=np.int64)}))
            continue
        columns = ("pool", "count") if kind == AGGREGATE else ("user", "pool", "count")
        for batch in open_table(path).batches(columns):
            users = pl.Series([""] * batch.frame.height) if kind == AGGREGATE else batch.names("user").cast(pl.String)
            events = batch.integers("count")
            batch.check("count", events.is_between(0, 1 << 40).fill_null(False), "must be a whole number of at least 0")
            parts.append(pl.DataFrame({"user": users, "pool": _pools(batch, universe), "count": events}))
    table = pl.concat(parts).group_by("user", "pool", maintain_order=True).agg(pl.col("count").sum())
    names = table["user"].unique(maintain_order=True)
    rows = table["user"].cast(pl.Enum(names)).to_physical().to_numpy()
    counts = np.zeros((len(names), universe.k + 1), dtype=np.int64)
    np.add.at(counts, (rows, table["pool"].to_numpy()), table["count"].to_numpy())
    return counts


def _pools(batch: Batch, universe: Universe) -> pl.Series:
    """Return the pools of the rows, from 1; 0 is the neutral pool, an empty name."""
    given = batch.names_or_none("pool").cast(pl.String).fill_null("")
    known = {"": 0, **{name: i + 1 for i, name in enumerate(universe.pool_names)}}
    for row, name in enumerate(given):
        if name not in known:
            raise batch.wrong("pool must be one of the universe", row, name, did_you_mean(name, universe.pool_names))
        if name == "" and not universe.neutral_size:
            raise batch.wrong("pool must have a name, as the universe has no neutral pool", row, name)
    return given.replace_strict(known, return_dtype=pl.Int64)


def _from_counts(scenario: Scenario, universe: Universe, kind: str, counts: Integers) -> Fitted:
    counts = counts[counts.sum(axis=1) > 0]
    found = fit_counts(counts, neutral=universe.neutral_size > 0)
    return _record(scenario, universe, kind, found, len(counts), int(counts.sum()), [])


def _from_reports(scenario: Scenario, universe: Universe, paths: Sequence[Path], max_users: int) -> Fitted:
    if scenario.memoizes:
        raise InputError(
            "devices memoize responses: their reports do not determine the users",
            file=scenario.file,
            remedy="fit counts of devices or traces",
        )
    mechanism = build_mechanism(scenario, universe)
    popularity = scenario.true_popularity(universe)
    read = [read_reports(path, mechanism, universe) for path in paths]
    names = pl.concat([users.cast(pl.String) for users, _ in read])
    reports = {name: np.concatenate([part[name] for _, part in read]) for name in read[0][1]}
    distinct = names.unique(maintain_order=True)
    fitting = max(1, TABLE_BYTES // (8 * universe.k * REPORT_CELLS**2))
    taken, notes = min(len(distinct), max_users, fitting), []
    if taken < len(distinct):
        notes.append(f"The fit is of the first {taken:,} of {len(distinct):,} users.")
    if scenario.devices.rotate_after is not None:
        notes.append("Pseudonyms count as users, as nothing links them.")
    user = names.cast(pl.Enum(distinct)).to_physical().to_numpy().astype(np.int64)
    order = np.argsort(user, kind="stable")
    order = order[user[order] < taken]
    weights = PoolWeights(
        universe.pool_of[None].astype(np.int64).astype(np.uint32) + np.uint32(1),
        within_pools(universe, popularity)[None],
        universe.k + 1,
    )
    found = masses(mechanism, select_rows(reports, order), weights, Local())
    likelihood: Floats = mechanism.likelihood_offset + mechanism.likelihood_scale * found
    impossible = order[likelihood.max(axis=1) <= 0]
    if len(impossible):
        first = int(impossible.min())
        file = paths[int(np.searchsorted(np.cumsum([len(users) for users, _ in read]), first, side="right"))]
        rule = "each report must be possible under the scenario"
        raise InputError(rule, file=file, value=f"one of user {names[first]}", remedy="adapt popularity or mechanism")
    lengths = np.bincount(user[order], minlength=taken)
    fitted = fit_reports(likelihood, lengths, neutral=universe.neutral_size > 0)
    notes.append("The fit relies on the popularity of the scenario within each pool.")
    return _record(scenario, universe, REPORTS, fitted, taken, len(order), notes)


def _record(
    scenario: Scenario,
    universe: Universe,
    kind: str,
    found: PopulationFit,
    users: int,
    events: int,
    notes: list[str],
) -> Fitted:
    """Return a fit by likelihood as a record."""
    interest, polarization = _beta_record(found.interest), _beta_record(found.polarization)
    mean = interest.mean if interest else Estimate(1.0, 1.0, 1.0)
    pools = {name: round(float(share), DIGITS) for name, share in zip(universe.pool_names, found.pools, strict=True)}
    if interest is None:
        notes.append("Without a neutral pool every event is in a pool, so that the interest is 1.")
    if polarization is None:
        notes.append("No event is in a pool: the data say nothing of polarization, which stays uniform.")
    edges = [
        EdgePopulation(name=name, behavior=_behavior(_at_end(interest, end), _at_end(polarization, end), pools))
        for name, end in (("more interest and polarization", "high"), ("less interest and polarization", "low"))
    ]
    return Fitted(
        data=kind,
        users=users,
        events=events,
        interest=interest,
        polarization=polarization,
        mean_interest=mean,
        pools=pools,
        popularity_in_pools=popularity_in_pools(scenario),
        behavior=_behavior(_pair(interest), _pair(polarization), pools),
        edges=tuple(edges),
        log_likelihood=found.log_likelihood,
        notes=tuple(notes),
    )


def _from_aggregate(scenario: Scenario, universe: Universe, counts: Integers, devices: int | None) -> Fitted:
    """Return what aggregate counts say: the mean interest, and the edges of what has this mean."""
    if not universe.neutral_size:
        raise InputError("aggregate counts say nothing of users if every object is in a pool", file=scenario.file)
    events, inside = int(counts.sum()), int(counts[1:].sum())
    mean = min(max(inside / events, 1e-6), 1.0 - 1e-6)
    low, high = (mean, mean)
    if devices is not None:
        # the mean of independent shares varies at most as that of indicators
        interval = share_of(round(mean * devices), devices)
        low, high = min(interval.low, mean), max(interval.high, mean)
    shares = _pool_weights(counts[1:] / max(inside, 1))
    pools = {name: round(float(share), DIGITS) for name, share in zip(universe.pool_names, shares, strict=True)}
    pools = pools if inside else {}
    at = max(min(high, 1.0 - 1e-6), 1e-6)
    edges = (
        ("few users have all events in pools", (at, CONCENTRATED), (0.9, 10.0)),
        ("all users have the same share of events in pools", (mean, EVEN), (0.5, 2.0)),
    )
    notes = [
        "Aggregate counts identify only the mean of the interest, not how users differ: counts of devices do.",
        "They say nothing of polarization, which stays uniform.",
        "The edges have the same mean interest: few users with all events in pools, or all users alike.",
    ]
    if devices is None:
        notes.append("The mean has no interval, as the number of devices is unknown: state it with `devices`.")
    # the decreasing density of this mean, Beta(1, b); above one half the increasing one
    a, b = (1.0, (1.0 - mean) / mean) if mean <= 0.5 else (mean / (1.0 - mean), 1.0)
    return Fitted(
        data=AGGREGATE,
        users=devices,
        events=events,
        interest=None,
        polarization=None,
        mean_interest=Estimate(mean, low, high),
        pools=pools,
        popularity_in_pools=popularity_in_pools(scenario),
        behavior=_behavior((a, b), None, pools),
        edges=tuple(
            EdgePopulation(name=name, behavior=_behavior(beta_parameters(*one), beta_parameters(*two), pools))
            for name, one, two in edges
        ),
        log_likelihood=None,
        notes=tuple(notes),
    )


def _pool_weights(shares: Floats) -> Floats:
    """Return the weights of preferred pools that yield these shares of events, with uniform polarization."""
    k = len(shares)
    delta = 0.5 + 0.5 / k
    others = (1.0 - delta) / (k - 1)
    weights = np.maximum((shares - others) / (delta - others), 0.0)
    return np.asarray(weights / weights.sum()) if weights.sum() > 0 else np.full(k, 1.0 / k)


def _beta_record(found: FittedBeta | None) -> BetaRecord | None:
    if found is None:
        return None
    a, b = beta_parameters(found.mean[0], found.concentration[0])
    return BetaRecord(a=a, b=b, mean=Estimate(*found.mean), concentration=Estimate(*found.concentration))


def _pair(found: BetaRecord | None) -> tuple[float, float] | None:
    return None if found is None else (found.a, found.b)


def _at_end(found: BetaRecord | None, end: str) -> tuple[float, float] | None:
    """Return the distribution whose mean is an end of its interval."""
    return None if found is None else beta_parameters(getattr(found.mean, end), found.concentration.value)


def _behavior(
    interest: tuple[float, float] | None, polarization: tuple[float, float] | None, pools: dict[str, float]
) -> dict[str, Any]:
    """Return a table of ``[users]``."""
    made: dict[str, Any] = {}
    for name, found in (("interest", interest), ("polarization", polarization)):
        if found is not None:
            made[name] = {"beta": [float(f"{max(value, 1e-6):.{DIGITS}g}") for value in found]}
    return made | ({"pools": pools} if pools else {})
