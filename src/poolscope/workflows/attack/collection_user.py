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
from poolscope.inference.joint import joint_scores, linked, normalized
from poolscope.scenario.collections import assumed_link, attribute_prior
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

    The order is that of a column ``time`` where every file of the user has one, else of the day by ``reports_per_day``.
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
        own = _times(files[part.name], user)
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


def _clock(parts: Sequence[CollectionPart], stories: Sequence[UserAttack], times: Sequence[pl.Series]) -> pl.DataFrame:
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
