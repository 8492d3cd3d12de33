"""Attack one user of several files, one for each collection, report by report in order of time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
import polars as pl

from poolscope.core.errors import InputError
from poolscope.core.executors import EngineLike
from poolscope.core.tables import check_output, open_table, writing
from poolscope.core.tables.ordering import TimeColumn
from poolscope.inference.joint import joint_scores, linked, normalized
from poolscope.scenario.collections import assumed_link, attribute_prior, report_rate
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.attack.collection_join import CollectionPart
from poolscope.workflows.attack.collections import collection_files
from poolscope.workflows.attack.one_user import UserAttack, attack_user


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

    The order is that of a column ``time`` where every file of the user has one: dates in any form (UTC without an
    offset), or numbers. Otherwise it is that of the day, by ``reports_per_day`` and ``sampling_rate``.
    """
    files, target = collection_files(reports, scenario), None if out is None else Path(out)
    if target is not None:
        check_output(target, overwrite=overwrite, inputs=scenario.input_paths(*files.values()))
    assert scenario.attribute is not None
    values, stories, parts, times = scenario.attribute.values, [], [], []
    violations: list[str] = []
    for index, part in enumerate(scenario.parts):
        if part.name not in files:
            continue
        own = _Times.read(files[part.name], user)
        if own is None:
            continue
        story = attack_user(files[part.name], part, user, seed=seed, engine=engine)
        times.append(own)
        stories.append(story)
        violations += story.violations
        parts.append(CollectionPart(name=part.name, index=index, scenario=part, counts=[]))
    if not stories:
        raise InputError("must be a user of one of the files", value=user, place="user")
    clock = _clock(parts, stories, times)
    frames = [_growth(scenario, parts, stories, a, clock) for a in range(len(scenario.adversaries))]
    table = pl.concat(frames)
    if target is not None:
        with writing(target, raw=raw) as written:
            written.write(0, table)
    total = sum(story.reports for story in stories)
    return UserCollections(user=user, reports=total, values=values, table=table, violations=violations)


@dataclass(frozen=True, kw_only=True)
class _Times:
    """The times of a user's reports in one file, as it shows them, and as numbers: seconds if they are dates.

    None where the file has no times.
    """

    shown: pl.Series | None
    moments: pl.Series | None
    dates: bool
    file: Path

    @classmethod
    def read(cls, path: Path, user: str) -> _Times | None:
        """Return the times of a user's reports; None without reports of the user."""
        column, shown, moments, there = TimeColumn("time"), [], [], False
        for batch in open_table(path).batches(("user",), optional=("time",)):
            mask = batch.names("user").cast(pl.String) == user
            there = there or bool(mask.any())
            if "time" in batch.frame.columns and mask.any():
                own = batch.frame["time"]
                moments.append(column.numbers(own, str(path), batch.first).filter(mask))
                shown.append(own.filter(mask).cast(pl.String))
        if not there:
            return None
        if not shown:
            return cls(shown=None, moments=None, dates=False, file=path)
        moment, unit = pl.concat(moments).cast(pl.Float64), column.seconds
        if not moment.is_sorted():
            row = int((moment.diff() < 0).arg_max() or 0)
            rule, texts = "the reports of a user must be in order of time", pl.concat(shown)
            raise InputError(rule, value=f"{texts[row]} after {texts[row - 1]}", file=path, remedy="sort it by time")
        return cls(shown=pl.concat(shown), moments=moment * (unit or 1.0), dates=unit is not None, file=path)


def _clock(parts: Sequence[CollectionPart], stories: Sequence[UserAttack], times: Sequence[_Times]) -> pl.DataFrame:
    """Return collection, report and time of each report in order of time; ties keep the order of the collections."""
    known = all(own.moments is not None for own in times)
    if known and len({own.dates for own in times}) > 1:
        one, other = (next(own for own in times if own.dates is kind) for kind in (True, False))
        rule = f"times must be dates as in {one.file}"
        remedy = "write all times as dates, or all as numbers"
        raise InputError(
            rule, value=other.shown[0] if other.shown is not None else None, file=other.file, remedy=remedy
        )
    frames = []
    for c, (part, story, own) in enumerate(zip(parts, stories, times, strict=True)):
        number = np.arange(1, story.reports + 1)
        day = number / report_rate(part.scenario)
        shown = own.shown if known else pl.Series([f"{value:g}" for value in day])
        moment = own.moments if known else pl.Series(day)
        frames.append(pl.DataFrame({"part": c, "report": number, "time": shown, "moment": moment}))
    return pl.concat(frames).sort("moment", "part", "report", maintain_order=True).drop("moment")


def _growth(
    scenario: Scenario,
    parts: Sequence[CollectionPart],
    stories: Sequence[UserAttack],
    adversary: int,
    clock: pl.DataFrame,
) -> pl.DataFrame:
    """Return the posterior of the attribute after every report, as one adversary infers it."""
    assert scenario.attribute is not None
    values, entry = scenario.attribute.values, scenario.adversaries[adversary]
    prior, evidence = attribute_prior(entry.prior, values), []
    for c, (part, story) in enumerate(zip(parts, stories, strict=True)):
        pools = [f"posterior.{name}" for name in part.scenario.universe().pool_names]
        own = story.table.filter(pl.col("adversary") == entry.name).sort("n").select(pools).to_numpy()
        after = linked(
            np.concatenate([np.full((1, len(pools)), np.nan), own]), assumed_link(scenario, part.index, adversary)
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
