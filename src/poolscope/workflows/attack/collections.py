"""Attack the reports of several collections of the same people: users are matched by name.

Each file is attacked as that of a single collection, with evenly preferred pools. The posterior of the attribute is the
product of what each collection says about it (`inference.joint`). A user who is missing in one file is scored on the
others.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from poolscope.core.arguments import checked
from poolscope.core.arrays import Floats, Integers
from poolscope.core.errors import InputError, did_you_mean, located
from poolscope.core.executors import EngineLike, as_engine
from poolscope.core.files import scratch_folder
from poolscope.core.progress import SILENT, Progress
from poolscope.core.randomness import user_keys
from poolscope.core.tables import check_output, open_table, writing
from poolscope.game.collections import events_by
from poolscope.inference.independent import guesses
from poolscope.inference.joint import joint_scores, linked, normalized
from poolscope.inference.thresholds import with_threshold
from poolscope.scenario.collections import attribute_prior, link_of, number_link
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.attack.attack import PREVIEW_ROWS, Inferred, attack
from poolscope.workflows.attack.one_user import attack_user
from poolscope.workflows.attack.partitioning import name_hashes
from poolscope.workflows.attack.summary import GuessSummary, check_pools, evaluate, read_truth, top_users

ALL = np.iinfo(np.int64).max
"""All reports of a user."""


@dataclass(frozen=True, kw_only=True)
class _Part:
    """A collection with reports: its posteriors, and the number of reports that count on each day."""

    name: str
    index: int
    scenario: Scenario
    counts: list[int]
    table: pl.DataFrame


@checked
def attack_collections(
    reports: Mapping[str, str | PathLike[str]],
    scenario: Scenario,
    *,
    observations: Sequence[int] | None = None,
    threshold: float | None = None,
    out: str | PathLike[str] | None = None,
    overwrite: bool = False,
    raw: bool = False,
    top: int = 0,
    ground_truth: str | PathLike[str] | None = None,
    seed: int = 0,
    engine: EngineLike | None = None,
    progress: Progress = SILENT,
) -> Inferred:
    """Compute the posterior of the attribute for every user of several files of reports, one for each collection.

    Users are matched by name. A user without reports in a collection is scored on the others. Collections without a
    file are left out.

    Parameters
    ----------
    reports : the file of each collection, as ``{"emojis": "a.parquet", "domains": "b.parquet"}``.
    observations : days after which to guess, in place of the scenario's; all reports where neither has any. The reports
        of a day are those of ``reports_per_day``, one by default.
    out : the table of posteriors: ``user``, ``adversary``, ``n`` (reports of all collections), ``guess``,
        ``confidence``, ``posterior.<value>``, and ``n.<collection>``.
    ground_truth : a table ``user,pool``, whose pools are values of the attribute.

    The other parameters are those of `attack`.

    Examples
    --------
    >>> scenario = ps.load_scenario("apple-collections")
    >>> for name, part in zip(["emojis", "domains"], scenario.parts):
    ...     _ = open(f"{name}.csv", "w").write("user,object\\n" + "ann,3\\n" * 30 + "bob,5\\n" * 30)
    ...     _ = ps.obfuscate(f"{name}.csv", part, f"{name}.parquet", seed=1)
    >>> found = ps.attack_collections({"emojis": "emojis.parquet", "domains": "domains.parquet"}, scenario)
    >>> found.users, found.reports, found.pools[0]
    (2, 120, 'left')
    """
    files, target = _files(reports, scenario), None if out is None else Path(out)
    inputs = scenario.input_paths(*files.values(), ground_truth)
    if target is not None:
        check_output(target, overwrite=overwrite, inputs=inputs)
    if ground_truth is not None and target is None:
        raise InputError("must have `out`, the table that it evaluates", value=str(ground_truth), place="ground_truth")
    assert scenario.attribute is not None
    values = scenario.attribute.values
    truth = None if ground_truth is None else read_truth(ground_truth)
    if truth is not None and ground_truth is not None:
        check_pools(truth, values, ground_truth)
    if threshold is None and scenario.attack is not None:
        threshold = scenario.attack.threshold
    days = _days(scenario, observations)
    engine = as_engine(engine)
    with ExitStack() as stack:
        written = None if target is None else stack.enter_context(writing(target, raw=raw))
        folder = stack.enter_context(scratch_folder(target.parent if target else Path(tempfile.gettempdir())))
        parts, found = [], []
        for index, part in enumerate(scenario.parts):
            if part.name not in files:
                continue
            progress.stage(f"Attacking {part.name}")
            counts = _counts(part, days)
            asked = sorted({count for count in counts if count}) if days else None
            own = folder / f"{index}.parquet"
            found.append(
                attack(
                    files[part.name],
                    part,
                    observations=asked or ([1] if days else None),
                    out=own,
                    seed=seed,
                    engine=engine,
                )
            )
            table = pl.read_parquet(own).with_columns(pl.col("user").cast(pl.String))
            parts.append(_Part(name=part.name, index=index, scenario=part, counts=counts, table=table))
        frame, results = _joined(scenario, parts, days, threshold, seed)
        if written is not None:
            written.write(0, frame)
        evaluation = [] if truth is None else evaluate(frame.lazy(), truth, seed)
    miscalibrated = [one.violation for one in evaluation if one.calibrated is False]
    return Inferred(
        users=frame["user"].n_unique(),
        reports=sum(one.reports for one in found),
        pools=list(values),
        threshold=threshold,
        results=results,
        preview=frame.head(PREVIEW_ROWS).rows(named=True),
        top=top_users(frame, top).rows(named=True),
        evaluation=evaluation,
        estimated=found[0].estimated,
        violations=[*(line for one in found for line in one.violations), *miscalibrated],
    )


def _files(reports: Mapping[str, str | PathLike[str]], scenario: Scenario) -> dict[str, Path]:
    """Return the file of each collection; refuse names of others."""
    if not scenario.collections:
        remedy = "give a single file of reports, or write [attribute] and [[collection]]"
        raise InputError("must have [[collection]]", file=scenario.file, remedy=remedy)
    if not isinstance(reports, Mapping) or not reports:
        raise InputError("reports must be a file for each collection", value=reports)
    names = [own.name for own in scenario.collections]
    for name in reports:
        if name not in names:
            raise InputError("unknown collection", value=name, place="reports", remedy=did_you_mean(str(name), names))
    return {name: Path(reports[name]) for name in names if name in reports}


def _days(scenario: Scenario, observations: Sequence[int] | None) -> list[int] | None:
    """Return the days of guesses, increasing; None for all reports."""
    if observations is None:
        return list(scenario.attack.observations) if scenario.attack else None
    return list(scenario.replace({"attack.observations": list(observations)}).attack.observations)  # type: ignore[union-attr]


def _counts(part: Scenario, days: list[int] | None) -> list[int]:
    """Return how many reports of a user count on each day: those of the rate, up to the cap."""
    if days is None:
        return [ALL]
    devices = part.devices
    rate = (devices.reports_per_day or 1.0) * devices.sampling_rate
    return [min(int(count), devices.cap or ALL) for count in events_by(np.asarray(days), rate)]


def _assumed_link(scenario: Scenario, part: _Part, adversary: int) -> Floats:
    """Return the link that an adversary assumes for a collection."""
    assert scenario.attribute is not None
    universe, entry = part.scenario.universe(), scenario.adversaries[adversary]
    with located(file=scenario.file, place=f"collection[{part.index}]"):
        if part.name in entry.links:
            return number_link(entry.links[part.name], scenario.attribute.values, universe.pool_names)
        return link_of(scenario, part.index, universe)


def _joined(
    scenario: Scenario, parts: Sequence[_Part], days: list[int] | None, threshold: float | None, seed: int
) -> tuple[pl.DataFrame, list[GuessSummary]]:
    """Return the table of posteriors of the attribute, by user, adversary and day, and its summaries."""
    assert scenario.attribute is not None
    values = scenario.attribute.values
    users = pl.concat([part.table["user"] for part in parts]).unique().sort()
    hashes = name_hashes(users)
    order = np.argsort(hashes, kind="stable")
    users, keys = users.gather(order), user_keys(seed, hashes[order])
    frames, results = [], []
    for a, entry in enumerate(scenario.adversaries):
        links = [_assumed_link(scenario, part, a) for part in parts]
        prior, before = attribute_prior(entry.prior, values), np.full(len(users), -1)
        for o, day in enumerate(days or [None]):
            found = [
                _evidence(part, entry.name, part.counts[o], users, link)
                for part, link in zip(parts, links, strict=True)
            ]
            used = np.stack([count for _, count in found], axis=1)
            posterior = normalized(joint_scores(np.stack([own for own, _ in found], axis=1), prior), prior)
            total = used.sum(axis=1)
            guessed, certain = guesses(posterior[:, None], keys, total[:, None])
            guess, confidence = guessed[:, 0], certain[:, 0]
            chosen = np.full(len(users), True) if threshold is None else confidence >= threshold
            results.append(_summary(entry.name, day, values, total, guess, confidence, chosen, threshold))
            names = pl.Series([*values, None], dtype=pl.String)
            columns: dict[str, Any] = {
                "user": users,
                "adversary": pl.repeat(entry.name, len(users), eager=True),
                "n": total.astype(np.int32),
                "guess": names.gather(np.where(chosen, guess, len(values))),
                "confidence": confidence,
                **{f"posterior.{name}": posterior[:, i] for i, name in enumerate(values)},
                **{f"n.{part.name}": used[:, c].astype(np.int32) for c, part in enumerate(parts)},
                "order": np.arange(len(users)),
            }
            # a day without further reports repeats the one before
            frames.append(pl.DataFrame(columns).filter(pl.Series(total > before)))
            before = total
    place = {entry.name: a for a, entry in enumerate(scenario.adversaries)}
    frame = pl.concat(frames).with_columns(place=pl.col("adversary").replace_strict(place))
    return frame.sort("order", "place", "n").drop("order", "place"), results


def _evidence(part: _Part, adversary: str, count: int, users: pl.Series, link: Floats) -> tuple[Floats, Integers]:
    """Return what a collection says about the attribute after this many reports, (users, values), and how many it has.

    Users without reports have ones: no evidence.
    """
    pools = [f"posterior.{name}" for name in part.scenario.universe().pool_names]
    rows = part.table.filter((pl.col("adversary") == adversary) & (pl.col("n") <= count))
    last = rows.sort("n").unique("user", keep="last").select("user", "n", *pools)
    own = pl.DataFrame({"user": users}).join(last, on="user", how="left", maintain_order="left")
    posterior = own.select(pl.col(pools).cast(pl.Float64).fill_null(float("nan"))).to_numpy()
    return linked(posterior, link), own["n"].fill_null(0).to_numpy().astype(np.int64)


def _summary(
    adversary: str,
    day: int | None,
    values: Sequence[str],
    used: Integers,
    guess: Integers,
    confidence: Floats,
    chosen: Any,
    threshold: float | None,
) -> GuessSummary:
    counts = np.bincount(guess[chosen], minlength=len(values))
    return GuessSummary(
        adversary=adversary,
        n=day,
        reports=int(used.sum()),
        confidence=float(confidence.mean()),
        confident_at_threshold={level: int((confidence >= level).sum()) for level in with_threshold(threshold)},
        guesses=dict(zip(values, counts.tolist(), strict=True)),
        no_guess=int((~chosen).sum()),
        baseline=1 / len(values),
    )


@dataclass(frozen=True, kw_only=True)
class UserCollections:
    """One user's reports of all collections in order of time, and how the posterior of the attribute grew.

    table : for each adversary and report ``adversary``, ``n``, ``collection``, ``report`` (its number within the
        collection), ``time`` (as the files have it, or the day by ``reports_per_day``) and ``posterior.<value>``.
    """

    user: str
    reports: int
    values: tuple[str, ...]
    table: pl.DataFrame
    violations: Sequence[str] = ()


def attack_user_collections(
    reports: Mapping[str, str | PathLike[str]],
    scenario: Scenario,
    user: str,
    *,
    out: str | PathLike[str] | None = None,
    overwrite: bool = False,
    raw: bool = False,
    seed: int = 0,
    engine: EngineLike | None = None,
) -> UserCollections:
    """Attack one user of several files report by report, in order of time.

    The order is that of a column ``time`` where every file of the user has one, else of the day by ``reports_per_day``.
    """
    files, target = _files(reports, scenario), None if out is None else Path(out)
    if target is not None:
        check_output(target, overwrite=overwrite, inputs=scenario.input_paths(*files.values()))
    assert scenario.attribute is not None
    values, stories, parts, times = scenario.attribute.values, [], [], []
    violations: list[str] = []
    for index, part in enumerate(scenario.parts):
        if part.name not in files:
            continue
        own = _times(files[part.name], user)
        if own is None:
            continue
        story = attack_user(files[part.name], part, user, seed=seed, engine=engine)
        times.append(own)
        stories.append(story)
        violations += story.violations
        parts.append(_Part(name=part.name, index=index, scenario=part, counts=[], table=story.table))
    if not stories:
        raise InputError("must be a user of one of the files", value=user, place="user")
    clock = _clock(parts, stories, times)
    frames = [_growth(scenario, parts, a, clock) for a in range(len(scenario.adversaries))]
    table = pl.concat(frames)
    if target is not None:
        with writing(target, raw=raw) as written:
            written.write(0, table)
    total = sum(story.reports for story in stories)
    return UserCollections(user=user, reports=total, values=values, table=table, violations=violations)


def _times(path: Path, user: str) -> pl.Series | None:
    """Return the times of a user's reports, nulls where the file has no such column; None without the user."""
    found = []
    for batch in open_table(path).batches(("user",), optional=("time",)):
        rows = batch.frame.filter(batch.names("user").cast(pl.String) == user)
        if rows.height:
            known = (
                rows["time"].cast(pl.String)
                if "time" in rows.columns
                else pl.Series([None] * rows.height, dtype=pl.String)
            )
            found.append(known)
    return pl.concat(found) if found else None


def _clock(parts: Sequence[_Part], stories: Sequence[Any], times: Sequence[pl.Series]) -> pl.DataFrame:
    """Return collection, report and time of each report in order of time; ties keep the order of the collections."""
    known = all(not own.null_count() for own in times)
    frames = []
    for c, (part, story, own) in enumerate(zip(parts, stories, times, strict=True)):
        number = np.arange(1, story.reports + 1)
        day = number / (part.scenario.devices.reports_per_day or 1.0)
        shown = own if known else pl.Series([f"{value:g}" for value in day])
        numeric = own.cast(pl.Float64, strict=False) if known else pl.Series(day)
        frames.append(pl.DataFrame({"part": c, "report": number, "time": shown, "moment": numeric}))
    clock = pl.concat(frames)
    # times are numbers, or texts that sort as they are, as ISO 8601 does
    by = "time" if clock["moment"].null_count() else "moment"
    for c, part in enumerate(parts):
        if not clock.filter(pl.col("part") == c)[by].is_sorted():
            raise InputError("a user's reports must be in order of time", place=f"reports {part.name}", value="time")
    return clock.sort(by, "part", "report", maintain_order=True).drop("moment")


def _growth(scenario: Scenario, parts: Sequence[_Part], adversary: int, clock: pl.DataFrame) -> pl.DataFrame:
    """Return the posterior of the attribute after every report, as one adversary infers it."""
    assert scenario.attribute is not None
    values, entry = scenario.attribute.values, scenario.adversaries[adversary]
    prior, evidence = attribute_prior(entry.prior, values), []
    for c, part in enumerate(parts):
        pools = [f"posterior.{name}" for name in part.scenario.universe().pool_names]
        own = part.table.filter(pl.col("adversary") == entry.name).sort("n").select(pools).to_numpy()
        after = linked(
            np.concatenate([np.full((1, len(pools)), np.nan), own]), _assumed_link(scenario, part, adversary)
        )
        evidence.append(after[np.cumsum(clock["part"].to_numpy() == c)])
    posterior = normalized(joint_scores(np.stack(evidence, axis=1), prior), prior)
    names = pl.Series([part.name for part in parts])
    return pl.DataFrame(
        {
            "adversary": pl.repeat(entry.name, clock.height, eager=True),
            "n": np.arange(1, clock.height + 1),
            "collection": names.gather(clock["part"]),
            "report": clock["report"],
            "time": clock["time"],
            **{f"posterior.{name}": posterior[:, i] for i, name in enumerate(values)},
        }
    )
