"""One user of a file of reports, report by report: what each told, and how the belief grew."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
import polars as pl

from poolscope.attack.adversary import posterior_block
from poolscope.attack.decide import believed
from poolscope.base.arrays import Floats
from poolscope.base.engines import Engine, Local
from poolscope.base.errors import InputError
from poolscope.base.tables import check_output, writing
from poolscope.reports.files import MEMORY_BYTES
from poolscope.reports.shares import masses, some
from poolscope.scenario.scenario import Scenario
from poolscope.verbs.attack.attack import prepared
from poolscope.verbs.attack.pieces import block
from poolscope.verbs.attack.scorer import Scorer


@dataclass(frozen=True, kw_only=True)
class Story:
    """What `attack_user` found.

    Parameters
    ----------
    user : whose reports; reports : how many.
    pools : those of all adversaries.
    table : for each adversary and report ``adversary``, ``n`` and, for each pool, ``mass.<pool>`` (the popularity of
        the pool's objects that the report supports), ``evidence.<pool>`` (natural logarithm of how much likelier the
        report is from this pool than from one of the pools at random) and ``posterior.<pool>``, after it.
    """

    user: str
    reports: int
    pools: list[str]
    table: pl.DataFrame


def attack_user(
    reports_path: str | PathLike[str],
    scenario: Scenario,
    user: str,
    *,
    pools: str | PathLike[str] | None = None,
    out: str | PathLike[str] | None = None,
    seed: int = 0,
    most_bytes: int = MEMORY_BYTES,
    engine: Engine | None = None,
) -> Story:
    """One user of a file of reports, report by report; see `attack` for the parameters.

    An adversary who estimates the popularity from the reports themselves does so from those of all users.
    """
    path, target, engine = Path(reports_path), None if out is None else Path(out), engine or Local()
    if target is not None:
        check_output(target, overwrite=True, inputs=(path,))
    beside = target.parent if target else Path(tempfile.gettempdir())
    with prepared(path, scenario, pools, None, seed, most_bytes, engine, beside) as ready:
        found = []
        for piece in ready.pieces:
            users, reports = block(ready.reading, piece)
            own = np.flatnonzero((users.cast(pl.String) == user).to_numpy())
            if len(own):
                found.append(masses(ready.reading.mechanism, some(reports, own), ready.scorer.view, engine))
        ready.check_unchanged()
    if not found:
        raise InputError("must be a user of the file", file=path, value=user, place="user")
    mass = np.concatenate(found)
    table = pl.concat([_told(ready.scorer, index, mass) for index in range(len(ready.scorer.adversaries))])
    if target is not None:
        with writing(target) as parts:
            parts.write(0, table)
    return Story(user=user, reports=len(mass), pools=ready.scorer.pool_names, table=table)


def _told(scorer: Scorer, index: int, mass: Floats) -> pl.DataFrame:
    """What one adversary is told: a row for each report, of all pools those that are not its own are null."""
    adversary, own = scorer.adversaries[index], mass[:, scorer.columns[index]]
    found = posterior_block(scorer.mechanism, adversary, own[None], np.array([len(own)]))
    # the first column is the neutral pool's
    likely = scorer.mechanism.floor + scorer.mechanism.slope * own[:, 1:]
    with np.errstate(divide="ignore"):
        evidence = np.log(likely) - np.log(likely.mean(axis=1, keepdims=True))
    kinds = {"mass": own[:, 1:], "evidence": evidence, "posterior": believed(found[0, 1:], adversary)}
    names = adversary.universe.pool_names
    columns = [
        pl.Series(f"{kind}.{name}", values[:, names.index(name)])
        if name in names
        else pl.Series(f"{kind}.{name}", [None] * len(own), dtype=pl.Float64)
        for kind, values in kinds.items()
        for name in scorer.pool_names
    ]
    first = [pl.Series("adversary", [adversary.name] * len(own)), pl.Series("n", np.arange(1, len(own) + 1))]
    return pl.DataFrame([*first, *columns])
