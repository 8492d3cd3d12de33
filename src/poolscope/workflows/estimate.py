"""Estimate the popularity of objects from a file of reports."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike

import numpy as np
import polars as pl

from poolscope.core.arguments import checked
from poolscope.core.errors import InputError, located
from poolscope.core.executors import Local
from poolscope.core.progress import SILENT, Progress
from poolscope.core.tables import (
    Data,
    Destination,
    SourceOptions,
    delivered,
    destination_of,
    label_of,
    local_paths,
    opened,
    writing,
)
from poolscope.population.universe import Universe
from poolscope.reports.checks import ReportChecks
from poolscope.reports.estimators import LINEAR, Frequencies
from poolscope.reports.files import MEMORY_BYTES, blocks, report_names, row_bytes, rows_within
from poolscope.reports.frequencies import FrequencyCounter
from poolscope.reports.multidimensional import AttributeCounter
from poolscope.scenario.build import build_device, build_mechanism
from poolscope.scenario.multidimensional import build_multidimensional, column_universes, tuple_columns
from poolscope.scenario.scenario import Scenario


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimated:
    """The result of `estimate`.

    Parameters
    ----------
    reports, objects : how many there are in the file, and in the universe.
    n_detected : objects whose count exceeds twice its standard error; None where there are no standard errors.
    method : the one that was used.
    table : the estimate for each object, as written.

    Examples
    --------
    >>> _ = open("traces.csv", "w").write("user,object\\n" + "ann,3\\n" * 2000)
    >>> scenario = ps.load_scenario("apple-emojis")
    >>> _ = ps.obfuscate("traces.csv", scenario, "reports.parquet", seed=1)
    >>> found = ps.estimate("reports.parquet", scenario)
    >>> found.reports, found.objects, found.method
    (2000, 2600, 'linear')
    """

    reports: int
    objects: int
    n_detected: int | None
    method: str
    table: pl.DataFrame


@checked
def estimate(
    reports: Data,
    scenario: Scenario,
    out: str | PathLike[str] | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    time: str | None = None,
    allow_network: bool = False,
    query: str | None = None,
    method: str | None = None,
    out_table: str | None = None,
    overwrite: bool = False,
    raw: bool = False,
    engine: Local | None = None,
    progress: Progress = SILENT,
) -> Estimated:
    """Estimate how often each object was reported, from a file of reports of any size.

    Parameters
    ----------
    reports, columns, time, allow_network, query : as of `attack`.
    out : the table, Parquet or CSV by its ending, or an address as of `attack`. Its columns: ``object``, ``pool`` (null
        for a neutral object), ``count`` and ``standard_error`` of the reports made from it (null with "ridge"),
        ``popularity`` (the counts projected to the simplex) and ``frequency`` (the counts as shares, which may be
        negative). Of tuple reports, a column ``collection`` comes first; the count is of reports on the collection.
    method : "linear", "regression", "ridge" or "ibu"; by default chosen for the mechanism (`poolscope.frequencies`).
    out_table, overwrite : as of `attack`.
    raw : whether CSV cells that a spreadsheet would execute are left as they are; otherwise they are escaped.
    progress : receives reports as they are read.

    Examples
    --------
    >>> _ = open("traces.csv", "w").write("user,object\\n" + "ann,3\\n" * 2000)
    >>> scenario = ps.load_scenario("apple-emojis")
    >>> _ = ps.obfuscate("traces.csv", scenario, "reports.parquet", seed=1)
    >>> _ = ps.estimate("reports.parquet", scenario, "popularity.csv")
    >>> pl.read_csv("popularity.csv").columns
    ['object', 'pool', 'count', 'standard_error', 'popularity', 'frequency']
    """
    options = SourceOptions.of(columns, time, allow_network, query)
    inputs = scenario.input_paths(*local_paths(reports))
    place = destination_of(out, out_table, options, data=reports, overwrite=overwrite, inputs=inputs)
    if scenario.multidimensional:
        made = _estimate_tuples(reports, scenario, options, place, method, progress)
        _deliver(made.table, place, raw)
        return made
    universe = scenario.universe()
    mechanism = build_mechanism(scenario, universe)
    counting = FrequencyCounter(mechanism, engine or Local(), method)
    own = mechanism.report_columns
    rows = rows_within(MEMORY_BYTES / 2, 2 * row_bytes(own))
    checks = ReportChecks(build_device(scenario, mechanism))
    with opened(reports, report_names(own), options, beside=place.folder if place else None) as source:
        for users, block in blocks(source, own, universe, rows=rows):
            counting.add(block)
            if scenario.tells_users_apart and not checks.enough:
                checks.add(users, block)
            progress.tick(len(users))
    for line in checks.violations():
        warnings.warn(f"{label_of(reports)}: {line}", stacklevel=2)
    found = counting.estimate()
    table = popularity_table(universe, found)
    _deliver(table, place, raw)
    return Estimated(
        reports=found.reports,
        objects=universe.size,
        n_detected=None if found.errors is None else int((found.counts > 2 * found.errors).sum()),
        method=found.method,
        table=table,
    )


def _deliver(table: pl.DataFrame, place: Destination | None, raw: bool) -> None:
    if place is not None:
        with delivered(place) as target, writing(target, raw=raw) as parts:
            parts.write(0, table)


def _estimate_tuples(
    reports: Data,
    scenario: Scenario,
    options: SourceOptions,
    place: Destination | None,
    method: str | None,
    progress: Progress,
) -> Estimated:
    """Estimate the popularity of the objects of each collection from tuple reports."""
    if method not in (None, LINEAR):
        raise InputError("must be linear with [multidimensional]", value=method, place="method")
    mechanism, universes = build_multidimensional(scenario), {part.name: part.universe() for part in scenario.parts}
    counting, own = AttributeCounter(mechanism), tuple_columns(mechanism, universes)
    rows = rows_within(MEMORY_BYTES / 2, 2 * row_bytes(own))
    known = column_universes(own, universes)
    with opened(reports, report_names(own), options, beside=place.folder if place else None) as source:
        for users, block in blocks(source, own, known, rows=rows):
            with located(file=label_of(reports)):
                counting.add(block)
            progress.tick(len(users))
    with located(file=label_of(reports)):
        found = counting.estimate()
    tables = [
        popularity_table(universes[name], one).select(
            pl.lit(name).alias("collection"), pl.col("object").cast(pl.String), pl.exclude("object")
        )
        for name, one in found.items()
    ]
    detected = [int((one.counts > 2 * one.errors).sum()) for one in found.values() if one.errors is not None]
    return Estimated(
        reports=counting.reports,
        objects=sum(mechanism.sizes),
        n_detected=sum(detected),
        method=LINEAR,
        table=pl.concat(tables),
    )


def popularity_table(universe: Universe, found: Frequencies) -> pl.DataFrame:
    """Return the estimate for each object, in the universe's order."""
    pools = pl.Series([*universe.pool_names, None], dtype=pl.String)
    names = np.arange(universe.size) if universe.objects is None else universe.objects
    errors = [None] * universe.size if found.errors is None else found.errors
    return pl.DataFrame(
        {
            "object": pl.Series(names),
            # the neutral pool is -1, the last entry
            "pool": pools.gather(universe.pool_of % (universe.k + 1)),
            "count": found.counts,
            "standard_error": pl.Series(errors, dtype=pl.Float64),
            "popularity": found.popularity,
            "frequency": found.counts / found.reports,
        }
    )
