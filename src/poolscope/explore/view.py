"""Convert answers and user histories to JSON: texts, numbers with CIs, and specifications of figures."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import polars as pl

from poolscope import figures
from poolscope.core.files import json_safe
from poolscope.explore.answers import CURATOR_DEVICES, Answer
from poolscope.explore.one_user import UserHistory
from poolscope.figures.saving import specification
from poolscope.html.tables import cards, decimal, interval, large_percent
from poolscope.inference.thresholds import in_percent
from poolscope.metrics.records import Record
from poolscope.metrics.text import number, percent


def answer(found: Answer) -> dict[str, Any]:
    """Return an answer as JSON."""
    best = found.strongest_attack
    return {
        "users": found.users,
        "n": found.n,
        "waiting": list(found.waiting),
        "words": found.words,
        "devices": list(found.devices),
        "tiles": [*_tiles(best), _epsilon(found), _curator(found)],
        "adversary": best.adversary,
        "results": [record.as_json() for record in found.results],
    }


def pictures(found: Answer) -> dict[str, Any]:
    """Return the specifications of an answer's figures, by name."""
    k = len(found.pools)
    charts = {
        "exposure": figures.exposure_curves(found.exposure, n=found.n, unit=found.unit),
        "precision": figures.precision_null_rate(found.curves, k),
        "map": figures.behavior_maps(found.map, k),
    }
    return {name: specification(chart) for name, chart in charts.items()}


def _tiles(best: Record) -> list[dict[str, str]]:
    """Return the key numbers of the strongest attack, and the bound for every adversary."""
    tiles = [card._asdict() for card in cards(best)]
    chance = f"random: {percent(best.baseline)}"
    bound = _tile(large_percent(best.success_bound), "correct guesses: bound for every adversary", chance)
    return [*tiles, _tile(decimal(best.auc_pn.value), "AUC-PN of the attack", interval(best.auc_pn, decimal)), bound]


def _epsilon(found: Answer) -> dict[str, str]:
    """Return epsilon per report, or per day and year where the rate is known."""
    epsilon = found.epsilon
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


def compared(found: Answer) -> dict[str, Any]:
    """Return a row of the comparison: each cell a value and its CI."""
    best = found.strongest_attack
    correct, confident, exposed = (list(card[::2]) for card in cards(best))
    return {
        "users": found.users,
        "cells": [
            [best.adversary, f"n = {found.n:,}"],
            correct,
            confident,
            [exposed[0], f"≥ {in_percent(best.exposed_at)}: {exposed[1]}".rstrip(": ")],
            [decimal(best.auc_pn.value), interval(best.auc_pn, decimal)],
            [large_percent(best.success_bound), ""],
            ["–" if found.rmse is None else f"{100 * found.rmse:.2g}%", ""],
            [_rounded(found.epsilon.year), ""],
        ],
    }


COMPARED = (
    "Strongest adversary",
    "Correct",
    "Correct in top 10%",
    "Exposed",
    "AUC-PN",
    "Bound",
    "RMSE",
    "ε per year",
)
"""Columns of the comparison."""


def story(found: UserHistory) -> dict[str, Any]:
    """Return a user's history as JSON, with the figure of the posterior."""
    after = [found.prior, *(step.posterior for step in found.steps)]
    rows = [
        {"n": n, "line": pool, "posterior": belief}
        for n, posterior in enumerate(after)
        for pool, belief in zip(found.pools, posterior, strict=True)
    ]
    return {
        **json_safe(asdict(found)),
        "picture": specification(figures.belief_growth(pl.DataFrame(rows), found.pools)),
    }


def growth(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the confidence of adversaries about a user, as a table and a figure."""
    table = pl.DataFrame(
        [{"n": row["n"], "line": row["adversary"], "posterior": row["confidence"]} for row in rows],
        schema={"n": pl.Int64, "line": pl.String, "posterior": pl.Float64},
    )
    adversaries = table["line"].unique(maintain_order=True).to_list()
    picture = specification(figures.belief_growth(table, adversaries, points=True))
    return {"rows": json_safe(rows), "picture": picture}
