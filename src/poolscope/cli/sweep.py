"""Read the options of a sweep, and print its results."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl

from poolscope.cli.terminal import Terminal, TextTable
from poolscope.core.counting import counted
from poolscope.core.errors import InputError
from poolscope.metrics.text import number
from poolscope.workflows.sweep import RESULTS, Sweep, finished_cells

MAX_ROWS = 40
"""Rows of the printed table; the file has all."""


def parse_vary(options: Iterable[str]) -> dict[str, list[Any]]:
    """Return the keys and values of options as ``mechanism.epsilon=1,2,4``; values are TOML, or else texts."""
    found: dict[str, list[Any]] = {}
    for option in options:
        key, sign, text = option.partition("=")
        key = key.strip()
        if not sign or not key or not text.strip():
            raise InputError("must be KEY=VALUE,...", value=option, place="--vary", remedy="as mechanism.epsilon=1,2,4")
        if key in found:
            raise InputError("must name each key once", value=key, place="--vary")
        found[key] = _values(text)
    return found


def _values(text: str) -> list[Any]:
    try:
        values: list[Any] = tomllib.loads(f"values = [{text}]")["values"]
    except tomllib.TOMLDecodeError:
        # words without quotes, as grr,oue
        return [_value(part.strip()) for part in text.split(",") if part.strip()]
    return values


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def finished_runs(folder: Path, again: str) -> str:
    """Return how many runs of a stopped sweep are saved, and the command that resumes it."""
    found = finished_cells(folder)
    return "nothing was written" if found is None else f"{counted(found, 'finished run')} saved, {again}"


def print_sweep(done: Sweep, folder: Path, seconds: float) -> None:
    """Print the mean over seeds of AUC-PN and exposure for each choice, at the largest n."""
    console, keys = Terminal(), list(done.plan.vary)
    last = done.results.filter(pl.col("n") == pl.col("n").max())
    means = last.group_by([*keys, "adversary", "n"], maintain_order=True).agg(
        pl.col(name).mean()
        for name in ("auc_pn", "auc_pn_low", "auc_pn_high", "exposed_90", "exposed_90_low", "exposed_90_high")
    )
    seeds = len(done.plan.seeds)
    title = f"Mean over {counted(seeds, 'seed')} of {counted(done.plan.users, 'user')} each, n = {last['n'][0]:,}"
    heads = [*keys, "adversary", "AUC-PN", "95% CI", "exposed\n≥ 90%", "95% CI"]
    table = TextTable(title=title, heads=heads, left=["adversary"])
    for row in means.head(MAX_ROWS).iter_rows(named=True):
        table.add(
            *(number(row[key]) if isinstance(row[key], float) else str(row[key]) for key in keys),
            row["adversary"],
            f"{row['auc_pn']:.3f}",
            f"{row['auc_pn_low']:.3f}–{row['auc_pn_high']:.3f}",
            f"{100 * row['exposed_90']:.1f}%",
            f"{100 * row['exposed_90_low']:.1f}–{100 * row['exposed_90_high']:.1f}%",
        )
    table.print(console)
    if means.height > MAX_ROWS:
        console.say(f"{means.height - MAX_ROWS:,} more rows are in the file.")
    rows = counted(done.results.height, "row")
    console.note(f"{rows}, {seconds:.1f} s. Results: {folder / RESULTS}")
