"""Summarize a run with several collections: records of all jointly, of each alone, and of all but one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import polars as pl

from poolscope.core.errors import located
from poolscope.game.collections import JOINT, WITHOUT, JointGame
from poolscope.game.columns import COLLECTION, EXPOSED, EXPOSED_AT_THRESHOLD, NON_PRIVATE
from poolscope.game.outcome_files import OutcomeFiles
from poolscope.inference.thresholds import DEFAULT_THRESHOLD
from poolscope.metrics.bounds import describe_epsilon, devices_in_words, epsilon_of
from poolscope.metrics.collections import (
    CollectionsSummary,
    collection_columns,
    collection_record,
    contributions_of,
    overconfidence_of,
    success_bound_of,
    total_epsilon,
)
from poolscope.metrics.exposure import exposure_columns, exposure_counts, exposure_shares
from poolscope.metrics.pools import PoolRecord
from poolscope.metrics.records import Record
from poolscope.metrics.tables import Records
from poolscope.metrics.text import users_in_words
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.audit.run_folder import Manifest, ScenarioText, Summary
from poolscope.workflows.audit.tuples import tuples_in_words, with_tuples


def joint_summary_of(scenario: Scenario, game: JointGame, manifest: Manifest, outcomes: OutcomeFiles) -> Summary:
    """Summarize a finished run of several collections."""
    descriptions = {a.name: a.phrase for a in game.adversaries}
    if game.non_private:
        descriptions[NON_PRIVATE] = "sees the objects themselves"
    with located(file=scenario.file):
        records, by_value = _records(game, manifest, outcomes)
    kinds = [part.mechanism.kind for part in scenario.parts]
    collections = [collection_record(own, kind) for own, kind in zip(game.collections, kinds, strict=True)]
    column = EXPOSED[DEFAULT_THRESHOLD] if game.threshold is None else EXPOSED_AT_THRESHOLD
    threshold = DEFAULT_THRESHOLD if game.threshold is None else game.threshold
    columns = outcomes.with_estimate_column(collection_columns(column, outcomes.columns))
    parts = {subset: replace(outcomes, collection=subset) for subset in game.subsets}
    contributions, exposures = [], []
    for adversary in game.pool_counts:
        for n in game.observations:
            read = {subset: parts[subset].of((adversary, n), columns) for subset in set(game.same_subsets.values())}
            rows = {subset: read[same] for subset, same in game.same_subsets.items()}
            added, exposure = contributions_of(rows, adversary, n, column, threshold)
            contributions += added
            exposures.append(exposure)
    about = CollectionsSummary(
        attribute=game.attribute,
        collections=tuple(collections),
        epsilon_day=total_epsilon(collections, "day"),
        epsilon_year=total_epsilon(collections, "year"),
        contributions=tuple(contributions),
        exposures=tuple(exposures),
        cautions=tuple(
            text
            for record in records
            if record.collection == JOINT and record.n == game.horizon
            for text in overconfidence_of(game, record, _mean_confidence(parts[JOINT], record))
        ),
    )
    about, in_words = with_tuples(about, game, outcomes), tuples_in_words if game.tuples else collections_in_words
    return Summary(
        scenario=ScenarioText(**scenario.about() | scenario.dump()),
        seed=manifest.seed,
        users=manifest.users,
        version=manifest.version,
        pools=list(game.values),
        horizon=game.horizon,
        unit="day",
        devices=[*in_words(kinds, game), total_in_words(about)],
        adversaries=descriptions,
        results=Records(records),
        pool_results=tuple(by_value),
        provenance=manifest.provenance,
        collections=about,
    )


def _records(game: JointGame, manifest: Manifest, outcomes: OutcomeFiles) -> tuple[list[Record], list[PoolRecord]]:
    """Return the records of every subset, and those by value of the attribute from all collections."""
    from poolscope.workflows.audit.audit import records_of

    found: dict[str, list[Record]] = {}
    by_value: list[PoolRecord] = []
    for subset, same in game.same_subsets.items():
        if same != subset:
            found[subset] = [replace(record, collection=subset) for record in found[same]]
            continue
        found[subset], used = [], game.subsets[subset]
        for record, pools in records_of(replace(outcomes, collection=subset), game.view(), manifest, game.threshold):
            bound = success_bound_of(game, used, record.adversary, record.n)
            found[subset].append(replace(record, collection=subset, success_bound=bound))
            by_value += pools if subset == JOINT else []
    return [record for records in found.values() for record in records], by_value


def _mean_confidence(joint: OutcomeFiles, record: Record) -> float:
    return float(joint.of((record.adversary, record.n), ("confidence",))["confidence"].to_numpy().mean())


def collections_in_words(kinds: Sequence[str], game: JointGame) -> Iterator[str]:
    """Yield what each collection is, given the names of the mechanisms, and who plays."""
    for own, kind in zip(game.collections, kinds, strict=True):
        epsilon = describe_epsilon([epsilon_of(own.game)], own.game.policy)
        yield "; ".join([f"{own.name}: {kind}, {epsilon}", *devices_in_words(own.game)])
    yield users_in_words(game.collections[0].game)


def total_in_words(about: CollectionsSummary) -> str:
    """Return the sums of ε over all collections."""
    fresh = [one for one in about.collections if one.epsilon.day is not None and one.epsilon.year is not None]
    day, year = total_epsilon(fresh, "day"), total_epsilon(fresh, "year")
    if about.epsilon_day is not None and about.epsilon_year is not None:
        return f"all collections: ε = {about.epsilon_day:,.4g} per day, {about.epsilon_year:,.6g} per year"
    added = "the ε of memoized responses does not add up over time"
    if not fresh:
        return f"all collections: {added}"
    names = " and ".join(one.name for one in fresh)
    return f"{names}: ε = {day:,.4g} per day, {year:,.6g} per year; of the others, {added}"


def collection_exposure(outcomes: OutcomeFiles, summary: Summary) -> pl.DataFrame:
    """Return the share of users exposed by every day, by all collections jointly and by each alone.

    Columns adversary, collection, n, share, low, high and users, at the threshold of the run.
    """
    assert summary.collections is not None
    threshold = summary.threshold
    columns = tuple(exposure_columns(threshold).values())
    level, groups, parts = summary.results[0].exposed_at, outcomes.estimates(), []
    first = summary.results[0].n
    for subset in dict.fromkeys(record.collection for record in summary.results):
        if subset is None or subset.startswith(WITHOUT):
            continue
        files = replace(outcomes, collection=subset)
        for adversary in summary.adversaries:
            rows = files.of((adversary, first), files.with_mcse_columns(columns))
            counts = exposure_counts(rows, summary.horizon, threshold, groups.get(adversary, 1))
            shares = exposure_shares(counts, threshold).filter(pl.col("threshold") == level)
            parts.append(
                shares.select(pl.lit(adversary).alias("adversary"), pl.lit(subset).alias(COLLECTION), pl.all())
            )
    return pl.concat(parts)
