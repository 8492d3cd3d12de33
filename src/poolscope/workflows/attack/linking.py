"""Which pseudonyms of a file are one device's: the likeliest other one of each, by the answers that devices keep."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from pathlib import Path

import numpy as np
import polars as pl

from poolscope.core.arrays import Floats, Integers, places
from poolscope.core.errors import InputError, located
from poolscope.core.executors import Engine, Local
from poolscope.core.tables import check_output, open_table, writing
from poolscope.devices.protocols import memoizes
from poolscope.inference.linkage import link_scores
from poolscope.mechanisms.protocols import Reports
from poolscope.reports.files import MEMORY_BYTES, USER
from poolscope.scenario.inputs import input_paths
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.attack.chunks import block, name_hashes, together
from poolscope.workflows.attack.preparation import prepared
from poolscope.workflows.attack.scoring import Scorer

#: Reports that are held beside each other at most, and of how many of them the pairs with all others at once; and
#: reports times objects at most, as some of what is known of each pair is held beside each other too.
MOST, AT_ONCE, CELLS = 1 << 13, 1 << 9, 1 << 25


def link_users(
    reports_path: str | PathLike[str],
    scenario: Scenario,
    out: str | PathLike[str],
    *,
    pools: str | PathLike[str] | None = None,
    overwrite: bool = False,
    raw: bool = False,
    seed: int = 0,
    max_bytes: int = MEMORY_BYTES,
    engine: Engine | None = None,
) -> pl.DataFrame:
    """The likeliest other pseudonym of each in a file of reports, for adversaries who know that devices keep answers.

    Parameters
    ----------
    out : the table, Parquet or CSV by its ending: ``adversary``, ``user``, ``other`` and ``score``, the highest first
        of each adversary. Pairs that are no likelier one device's than two (a score of 0) are left out.
    overwrite : whether an existing ``out`` may be replaced; a file that is read never is.
    raw : whether texts of CSV that a spreadsheet would run are left as they are; otherwise they are escaped.
    pools, seed, engine : as of `attack`; max_bytes : of what reading takes.
    """
    path, target, engine = Path(reports_path), Path(out), engine or Local()
    check_output(target, overwrite=overwrite, inputs=input_paths(scenario, path, pools))
    check_links(path, scenario)
    with prepared(path, scenario, pools, None, seed, max_bytes, engine, target.parent) as ready:
        scorer = ready.scorer
        found = [block(ready.reading, piece) for piece in ready.pieces]
        ready.check_unchanged()
    users, sent = pl.concat([names for names, _ in found]), [reports for _, reports in found]
    order, starts = together(names := users.cast(pl.String), name_hashes(names))
    lengths, who = np.diff(np.append(starts, len(order))), users.gather(order[starts])
    reports = {name: np.concatenate([part[name] for part in sent])[order] for name in sent[0]}
    with located(file=path):
        scorer.check(who, lengths, reports)
    table = pl.concat([_linked(scorer, index, who, lengths, reports) for index in scorer.grouping])
    with writing(target, raw=raw) as parts:
        parts.write(0, table)
    return table


def check_links(path: Path, scenario: Scenario) -> None:
    """Refuse reports that cannot be linked, before any work: too many, or no adversary who knows of kept answers."""
    if not scenario.keeps_answers or not any(adversary.knows_memoization for adversary in scenario.adversaries):
        rule = "must have an adversary who knows that devices keep their answers, by which pseudonyms are linked"
        raise InputError(rule, file=scenario.file, place="adversary")
    most, source = min(MOST, CELLS // scenario.universe().size), open_table(path)
    reports = source.height()
    if reports is None:
        # of CSV as many rows are read as may be linked, and a batch more
        reports = 0
        for batch in source.batches((USER,)):
            reports += batch.frame.height
            if reports > most:
                break
    if reports > most:
        rule, remedy = f"must have at most {most:,} reports to be linked", "take some of the users"
        raise InputError(rule, value=reports, file=path, remedy=remedy)


def _linked(scorer: Scorer, index: int, users: pl.Series, lengths: Integers, reports: Reports) -> pl.DataFrame:
    """The likeliest other of each user in the eyes of one adversary, of those that are likely at all."""
    likeliest = [(scores.argmax(axis=1), scores.max(axis=1)) for scores in _scores(scorer, index, lengths, reports)]
    other, best = (np.concatenate(part) for part in zip(*likeliest, strict=True))
    frame = pl.DataFrame(
        {
            "adversary": pl.repeat(scorer.adversaries[index].name, len(users), eager=True),
            "user": users,
            "other": users.gather(other),
            "score": best,
        }
    )
    return frame.filter(pl.col("score") > 0).sort("score", descending=True, maintain_order=True)


def _scores(scorer: Scorer, index: int, lengths: Integers, reports: Reports) -> Iterator[Floats]:
    """(some users, users) of some after others, as many as have `AT_ONCE` reports or so; of none with itself."""
    assert memoizes(scorer.device)
    starts = np.cumsum(lengths) - lengths
    for share in np.unique(starts // AT_ONCE):
        mine = np.flatnonzero(starts // AT_ONCE == share)
        rows = places(starts[mine], lengths[mine])
        some = {name: column[rows] for name, column in reports.items()}
        scores = link_scores(scorer.device, some, reports, scorer.adversaries[index], (lengths[mine], lengths))
        scores[np.arange(len(mine)), mine] = -np.inf
        yield scores
