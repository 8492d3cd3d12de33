"""An audit and the scenarios to start from, on the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from poolscope.cli.terminal import Grid, Terminal
from poolscope.core.counting import counted
from poolscope.inference.levels import in_percent, sure
from poolscope.metrics.bounds import in_days
from poolscope.metrics.intervals import Estimate
from poolscope.metrics.linkability import Linkability, in_words
from poolscope.metrics.records import EXPOSING, Record
from poolscope.metrics.text import chance_in_words, percent, summary_text
from poolscope.scenario.build import build_mechanism
from poolscope.scenario.scenario import builtin_names, load_scenario
from poolscope.workflows.audit import run_folder
from poolscope.workflows.audit.run_folder import Summary


def print_audit(summary: Summary, page: Path, seconds: float) -> None:
    """Table of adversaries by observation count, the strongest attack in words, where the report is, and the time."""
    console = Terminal()
    heads = ["adversary", "n", "AUC", "95 % interval", "precision", "top 10 %", "baseline"]
    first = summary.results[0]
    heads += ["majority"] if first.skewed else []
    if first.threshold is not None:
        heads += [sure(first.threshold), "right when sure"]
    grid = Grid(title="\n".join([summary.scenario.title, *summary.devices, *_time(summary)]), heads=heads)
    last = None
    for row in summary.results:
        if last is not None and row.adversary != last:
            grid.section()
        grid.add(
            row.adversary if row.adversary != last else "",
            str(row.n),
            f"{row.auc_pn.value:.3f}",
            f"{row.auc_pn.low:.3f}-{row.auc_pn.high:.3f}",
            f"{row.precision.value:.3f}",
            f"{row.precision_top10.value:.3f}",
            f"{row.baseline:.3f}",
            *([f"{row.majority:.3f}"] if first.skewed else []),
            *_at_threshold(row),
        )
        last = row.adversary
    grid.print(console)
    _exposing(summary.results).print(console)
    if summary.linkability:
        _tracked(summary.linkability).print(console)
    console.say(summary_text(summary.results, summary.adversaries))
    if chance := chance_in_words(summary.results):
        console.say(chance)
    console.note(f"{counted(summary.users, 'user')}, seed {summary.seed}, {seconds:.1f} s. Page: {page}")


def _exposing(results: Sequence[Record]) -> Grid:
    """After how many reports some users are exposed, of the whole run: a row for each adversary."""
    grid = Grid(
        title=f"Reports until so many users are exposed, at {in_percent(results[0].exposed_at)} confidence",
        heads=["adversary", *(f"{100 * share:g} %" for share in EXPOSING.values())],
        keys=1,
    )
    for row in {row.adversary: row for row in reversed(results)}.values():
        grid.rows.insert(0, [row.adversary, *(_reports(getattr(row, name)) for name in EXPOSING)])
    return grid


def _tracked(found: Sequence[Linkability]) -> Grid:
    """How surely two windows are told to be one device's: a row for each adversary who knows of kept answers."""
    heads = ["adversary", "devices", "ROC area", "95 % interval", "tpr_at_fpr", "95 % interval"]
    grid = Grid(title=f"{in_words(found[0].window)}? Linked with at most one false link in 1,000", heads=heads, keys=1)
    for row in found:
        area, linked = row.roc_auc, row.tpr_at_fpr
        grid.add(
            row.adversary,
            f"{row.devices:,}",
            f"{area.value:.3f}",
            f"{area.low:.3f}-{area.high:.3f}",
            percent(linked.value),
            f"{percent(linked.low)}-{percent(linked.high)}",
        )
    return grid


def _reports(found: Estimate) -> str:
    """A number of reports and its interval; what is infinite is more than were played."""
    value, low, high = (f"{n:,.0f}" if math.isfinite(n) else "never" for n in found)
    return value if low == high else f"{value} ({low}-{high})"


def finished_users(folder: Path, again: str) -> str:
    """What a stopped run leaves, and if there is a run the command that goes on with it."""
    if (found := run_folder.finished_users(folder)) is None:
        return "nothing was written"
    kept, users = found
    return f"{kept:,} of {counted(users, 'user')} are kept, {again}"


def _time(summary: Summary) -> list[str]:
    """How long the observation counts take, where that is known."""
    counts = list(dict.fromkeys(row.n for row in summary.results))
    rate = summary.reports_per_day
    return [] if rate is None else [f"n = {', '.join(map(str, counts))}: {in_days(counts, rate)}"]


def _at_threshold(row: Record) -> list[str]:
    """With a threshold: the share of users of whom the adversary is sure at n, and how often it is right about them."""
    if row.confident_at_threshold is None or row.precision_at_threshold is None:
        return []
    return [
        f"{row.confident_at_threshold.value:.3f}",
        f"{row.precision_at_threshold.value:.3f}" if row.confident_at_threshold.value else "-",
    ]


def print_scenarios() -> None:
    """The built-in scenarios: mechanism, epsilon of a report, and below the title where they are published."""
    table = Table(box=None, pad_edge=False)
    for name in ("scenario", "mechanism"):
        table.add_column(name, no_wrap=True)
    table.add_column("epsilon", justify="right", no_wrap=True)
    table.add_column("title and source")
    for name in builtin_names():
        found = load_scenario(name)
        mechanism = build_mechanism(found, found.universe())
        title = found.title + (" (historical)" if found.historical else "")
        table.add_row(
            name,
            found.mechanism.kind,
            f"{mechanism.epsilon:.4g}",
            Text.assemble(title, "\n", (f"{found.source}\n", "dim")),
        )
    Terminal().print(table)
