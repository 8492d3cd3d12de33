"""Convert answers and user histories to JSON: texts, numbers with CIs, and specifications of figures."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import polars as pl

from poolscope.core.files import json_safe
from poolscope.explore.answers import CURATOR_DEVICES, Answer
from poolscope.explore.collections import CollectionAnswer, JointAnswer
from poolscope.explore.growing import AnyAnswer
from poolscope.explore.joint_user import JointHistory
from poolscope.explore.one_user import UserHistory
from poolscope.explore.options import OptionTable
from poolscope.figures.charts import behavior_maps, exposure_curves, precision_null_rate
from poolscope.figures.collections import collection_auc, collection_curves, contribution_plot
from poolscope.figures.saving import specification
from poolscope.figures.style import Picture
from poolscope.figures.users import belief_growth
from poolscope.game.collections import WITHOUT
from poolscope.html.collections import contributions_table, results_table
from poolscope.html.options import OptionRow, option_table
from poolscope.html.tables import Column, cards, decimal, interval, large_percent, share, table, three_digits
from poolscope.inference.thresholds import in_percent
from poolscope.metrics.bounds import CumulativeEpsilon
from poolscope.metrics.intervals import Estimate
from poolscope.metrics.records import Record
from poolscope.metrics.text import number, percent


def answer(found: AnyAnswer) -> dict[str, Any]:
    """Return an answer as JSON."""
    best = found.strongest_attack
    about = {
        "users": found.users,
        "n": found.n,
        "waiting": list(found.waiting),
        "words": found.words,
        "devices": list(found.devices),
        "adversary": best.adversary,
        "results": [record.as_json() for record in found.results],
    }
    if isinstance(found, JointAnswer):
        return about | _joint(found)
    return about | {"tiles": [*_tiles(best), _epsilon(found.epsilon), _curator(found)], "by_pool": by_pool(found)}


def _joint(found: JointAnswer) -> dict[str, Any]:
    """Return what only an answer of several collections has: tiles and tables of all, and tiles of each."""
    order = list(dict.fromkeys(record.adversary for record in found.results))
    # of two collections, all but one is the other alone
    several = len(found.alone) > 2
    rows = [one for one in found.results if several or not (one.collection or "").startswith(WITHOUT)]
    only, spent = found.exposed_jointly, found.about
    total = _tile(_rounded(spent.epsilon_day), "ε per day, all collections", f"{_rounded(spent.epsilon_year)} per year")
    if spent.epsilon_day is None:
        total = _tile("–", "ε per day, all collections", "memoized responses: no sum over time")
    return {
        "tiles": [
            *_tiles(found.strongest_attack),
            _estimate_tile(only.only_jointly, "of those exposed, by no single collection"),
            total,
        ],
        "cautions": list(found.about.cautions),
        "alone": [_alone(one) for one in found.alone],
        "by_collection": results_table(rows, order),
        "added": contributions_table(found.about),
    }


def _alone(found: CollectionAnswer) -> list[dict[str, str]]:
    """Return the key numbers of a collection alone, by the adversary of the strongest joint attack."""
    correct, _, exposed = (_tile(card.value, card.label, card.note) for card in cards(found.record))
    auc_pn = found.record.auc_pn
    return [
        correct,
        exposed,
        _tile(decimal(auc_pn.value), "AUC-PN", interval(auc_pn, decimal)),
        _epsilon(found.epsilon),
        _tile("–" if found.rmse is None else f"{100 * found.rmse:.2g}%", "RMSE of a frequency", _devices(found)),
    ]


def _devices(found: CollectionAnswer) -> str:
    """Return what the error of a collection is from."""
    if found.rmse is None:
        return "no analytical error"
    return f"{CURATOR_DEVICES:,} devices, {found.reports_each:,.3g} reports each"


def _estimate_tile(found: Estimate, label: str) -> dict[str, str]:
    if math.isnan(found.value):
        return _tile("–", label, "nobody is exposed")
    ends = interval(found, share)
    return _tile(large_percent(found.value), label, f"{ends}%" if ends else "")


@dataclass(frozen=True, kw_only=True)
class PoolRow:
    """The row of a pool: the attack on its users, and what stands out in the frequencies of its objects."""

    adversary: str
    pool: str
    users: int | None = None
    precision: Estimate | None = None
    exposed: Estimate | None = None
    objects: int | None = None
    n_above: int | None = None
    rmse: float | None = None


def by_pool(found: Answer) -> dict[str, Any]:
    """Return the table of pools: of users by preferred pool, and of objects."""
    best, attacked, seen = found.strongest_attack, {one.pool: one for one in found.by_pool}, found.seen
    objects = {one.pool: one for one in seen}
    rows = []
    for pool in dict.fromkeys((*attacked, *objects)):
        row = PoolRow(adversary=best.adversary, pool=pool)
        if one := attacked.get(pool):
            row = replace(row, users=one.users, precision=one.precision, exposed=one.exposed)
        if other := objects.get(pool):
            row = replace(row, objects=other.objects, n_above=other.n_above, rmse=other.rmse)
        rows.append(row)
    columns = [
        Column("users", "Users who prefer it", "users", _whole),
        Column("precision", "Users who prefer it", "correct, %", _share),
        Column("exposed", "Users who prefer it", f"exposed (≥ {in_percent(best.exposed_at)}), %", _share),
        Column("objects", "Its objects", "objects", _whole),
        Column("n_above", "Its objects", "above twice their standard error", _whole),
        Column("rmse", "Its objects", "RMSE", three_digits),
    ]
    return table("Results by pool", rows, columns, block=("adversary", "Adversary"), row=("pool", "Pool"))


def _whole(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _share(value: float | None) -> str:
    return "–" if value is None else share(value)


def options(found: OptionTable) -> dict[str, Any]:
    """Return the table of options as JSON."""
    own, *others = (replace(OptionRow.of(one.option), cap=one.cap) for one in found.rows)
    rows = [replace(own, name=f"{own.name} (this setting)"), *others]
    return {
        "table": option_table(rows, found.n),
        "prices": [(one.option.name, one.option.price) for one in found.rows if one.option.price],
        "pending": found.pending,
        "notes": list(found.notes),
        "adversary": found.adversary,
        "rows": [json_safe(one.option.as_json()) for one in found.rows],
    }


def pictures(found: AnyAnswer) -> dict[str, Any]:
    """Return the specifications of an answer's figures, by name."""
    if isinstance(found, JointAnswer):
        return {name: specification(chart) for name, chart in _joint_pictures(found)}
    k = len(found.pools)
    charts = {
        "exposure": exposure_curves(found.exposure, n=found.n, unit=found.unit),
        "precision": precision_null_rate(found.curves, k),
        "map": behavior_maps(found.map, k),
    }
    return {name: specification(chart) for name, chart in charts.items()}


def _joint_pictures(found: JointAnswer) -> Iterator[tuple[str, Picture]]:
    """Yield the figures of several collections: exposure, AUC-PN and contributions by day."""
    yield "exposure", collection_curves(found.exposure, n=found.n)
    yield "auc_pn", collection_auc(pl.DataFrame([record.flat() for record in found.days]))
    yield "contributions", contribution_plot(pl.DataFrame([record.flat() for record in found.contributions]))


def _tiles(best: Record) -> list[dict[str, str]]:
    """Return the key numbers of the strongest attack, and the bound for every adversary."""
    tiles = [card._asdict() for card in cards(best)]
    chance = f"random: {percent(best.baseline)}"
    bound = _tile(large_percent(best.success_bound), "correct guesses: bound for every adversary", chance)
    return [*tiles, _tile(decimal(best.auc_pn.value), "AUC-PN of the attack", interval(best.auc_pn, decimal)), bound]


def _epsilon(epsilon: CumulativeEpsilon) -> dict[str, str]:
    """Return ε per report, or per day and year where the rate is known."""
    if epsilon.day is None:
        known = (
            f"total {_rounded(epsilon.total)}"
            if epsilon.total is not None
            else "set reports per day for a yearly total"
        )
        return _tile(_rounded(epsilon.report), "ε per report", known)
    return _tile(_rounded(epsilon.day), "ε per day", f"{_rounded(epsilon.year)} per year")


def _curator(found: Answer) -> dict[str, str]:
    """Return the error after n events of each device, with its cap, and how many objects stand out from it."""
    label = f"RMSE of a frequency from {CURATOR_DEVICES:,} devices, {found.reports_each:,.3g} reports each"
    if found.rmse is None or found.n_above is None:
        return _tile("–", label, "no analytical error")
    return _tile(f"{100 * found.rmse:.2g}%", label, f"{found.n_above:,} objects above twice their standard error")


def _tile(value: str, label: str, note: str) -> dict[str, str]:
    return {"value": value, "label": label, "note": note}


def _rounded(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if 100 <= value < math.inf else number(float(f"{value:.3g}"))


def compared(found: AnyAnswer) -> dict[str, Any]:
    """Return a row of the comparison: each cell a value and its CI."""
    best, several = found.strongest_attack, isinstance(found, JointAnswer)
    year = found.about.epsilon_year if isinstance(found, JointAnswer) else found.epsilon.year
    correct, confident, exposed = (list(card[::2]) for card in cards(best))
    return {
        "users": found.users,
        "cells": [
            [best.adversary, f"n = {found.n:,}{' days' * several}"],
            correct,
            confident,
            [exposed[0], f"≥ {in_percent(best.exposed_at)}: {exposed[1]}".rstrip(": ")],
            [decimal(best.auc_pn.value), interval(best.auc_pn, decimal)],
            [large_percent(best.success_bound), ""],
            ["–" if found.rmse is None else f"{100 * found.rmse:.2g}%", "largest" * several],
            [_rounded(year), ""],
        ],
    }


def story(found: UserHistory | JointHistory) -> dict[str, Any]:
    """Return a user's history as JSON, with the figure of the posterior."""
    after = [found.prior, *(step.posterior for step in found.steps)]
    rows = [
        {"n": n, "line": pool, "posterior": belief}
        for n, posterior in enumerate(after)
        for pool, belief in zip(found.pools, posterior, strict=True)
    ]
    return {
        **json_safe(asdict(found)),
        "exposed_at": in_percent(found.threshold),
        "picture": specification(belief_growth(pl.DataFrame(rows), found.pools, threshold=found.threshold)),
    }


def growth(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the confidence of adversaries about a user, as a table and a figure."""
    table = pl.DataFrame(
        [{"n": row["n"], "line": row["adversary"], "posterior": row["confidence"]} for row in rows],
        schema={"n": pl.Int64, "line": pl.String, "posterior": pl.Float64},
    )
    adversaries = table["line"].unique(maintain_order=True).to_list()
    picture = specification(belief_growth(table, adversaries, points=True))
    return {"rows": json_safe(rows), "picture": picture}
