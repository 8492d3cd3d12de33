"""Print an audit, and the list of built-in scenarios."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from poolscope.cli.terminal import Terminal, TextTable
from poolscope.core.counting import counted
from poolscope.game.collections import WITHOUT
from poolscope.inference.thresholds import at_least, in_percent
from poolscope.metrics.bounds import in_days
from poolscope.metrics.collections import CollectionsSummary, collections_text
from poolscope.metrics.linkability import Linkability
from poolscope.metrics.multidimensional import sampled_text
from poolscope.metrics.records import EXPOSING, Record
from poolscope.metrics.text import linkability_title, mcse_text, percent, range_of, reports_text, summary_text
from poolscope.scenario.build import build_mechanism
from poolscope.scenario.scenario import builtin_names, load_scenario
from poolscope.workflows.audit import run_folder
from poolscope.workflows.audit.run_folder import Summary


def print_audit(summary: Summary, report: Path, seconds: float) -> None:
    """Print the strongest attack in a sentence, the tables of all adversaries, and where the report is."""
    console = Terminal()
    console.say(summary_text(summary.main_results, summary.adversaries, unit=summary.unit))
    if sampled := mcse_text(summary.results):
        console.say(sampled)
    _attacks(summary).print(console)
    _exposure(summary).print(console)
    if summary.collections:
        for text in (collections_text(summary.collections), *summary.collections.cautions):
            console.say(text)
        _contributions(summary.collections).print(console)
        if summary.collections.sampled_attributes:
            console.say(sampled_text(summary.collections.sampled_attributes))
    if summary.linkability:
        _linkability(summary.linkability).print(console)
    console.note(f"{counted(summary.users, 'user')}, seed {summary.seed}, {seconds:.1f} s. Report: {report}")


def _attacks(summary: Summary) -> TextTable:
    """Return a row for each adversary and observation count."""
    first, several = summary.results[0], summary.collections is not None
    heads = ["adversary", *["collections"] * several, "n", "AUC-PN", "95% CI", "precision", "top 10%", "random"]
    heads += ["majority"] if first.skewed else []
    if first.threshold is not None:
        heads += [at_least(first.threshold), "precision\nat threshold"]
    title = "\n".join([summary.scenario.title, *summary.devices, *_time(summary)])
    table = TextTable(title=title, heads=heads, keys=2 + several, left=["collections"])
    last = None
    for row in _by_adversary(summary, summary.results):
        # with several collections, the last day is enough for a terminal
        if several and row.n < summary.horizon:
            continue
        if last is not None and row.adversary != last:
            table.section()
        table.add(
            row.adversary if row.adversary != last else "",
            *[row.collection or ""] * several,
            str(row.n),
            f"{row.auc_pn.value:.3f}",
            f"{row.auc_pn.low:.3f}–{row.auc_pn.high:.3f}",
            f"{row.precision.value:.3f}",
            f"{row.precision_top10.value:.3f}",
            f"{row.baseline:.3f}",
            *([f"{row.majority:.3f}"] if first.skewed else []),
            *_at_threshold(row),
        )
        last = row.adversary
    return table


def _exposure(summary: Summary) -> TextTable:
    """Return the number of reports that exposes a share of the users in the whole run: a row for each adversary."""
    level, unit = in_percent(summary.results[0].exposed_at), summary.unit.capitalize()
    several = summary.collections is not None
    table = TextTable(
        title=f"{unit}s until a share of users is exposed (confidence ≥ {level} at least once, correct or not); 95% CI",
        heads=[
            "adversary",
            *["collections"] * several,
            *(f"{100 * share:g}%{' of users' * (i == 0)}" for i, share in enumerate(EXPOSING.values())),
        ],
        keys=1 + several,
        left=["collections"],
    )
    rows = {(row.adversary, row.collection): row for row in reversed(summary.results)}
    for row in _by_adversary(summary, list(reversed(rows.values()))):
        table.add(
            row.adversary,
            *[row.collection or ""] * several,
            *(reports_text(getattr(row, name), summary.horizon) for name in EXPOSING),
        )
    return table


def _by_adversary(summary: Summary, rows: Sequence[Record]) -> list[Record]:
    """Return records in order of the adversaries; of two collections, all but one is the other alone."""
    about, order = summary.collections, list(summary.adversaries)
    if about is None:
        return list(rows)
    if len(about.collections) == 2:
        rows = [row for row in rows if not (row.collection or "").startswith(WITHOUT)]
    return sorted(rows, key=lambda row: order.index(row.adversary))


def _contributions(about: CollectionsSummary) -> TextTable:
    """Return what each collection adds to the others after the last day: a row for each adversary and collection."""
    last = max(row.n for row in about.contributions)
    title = f"What each collection adds to the others after {last:,} days: mean log-odds of the true value"
    table = TextTable(title=title, heads=["adversary", "collection", "log-odds", "95% CI"], left=["collection"])
    for row in about.contributions:
        if row.n == last:
            value, low, high = row.log_odds
            table.add(row.adversary, row.collection, f"{value:.3f}", f"{low:.3f} to {high:.3f}")
    return table


def _linkability(found: Sequence[Linkability]) -> TextTable:
    """Return how well two windows are linked to one device: a row for each adversary who knows the memoization."""
    heads = ["adversary", "devices", "ROC AUC", "95% CI", "TPR at FPR 0.001", "95% CI"]
    table = TextTable(title=linkability_title(found[0].window), heads=heads, keys=1)
    for row in found:
        area, linked = row.roc_auc, row.tpr_at_fpr
        table.add(
            row.adversary,
            f"{row.devices:,}",
            f"{area.value:.3f}",
            f"{area.low:.3f}–{area.high:.3f}",
            percent(linked.value),
            range_of(linked),
        )
    return table


def finished_users(folder: Path, again: str) -> str:
    """Return how many users of a stopped run are saved, and the command that resumes it."""
    if (found := run_folder.finished_users(folder)) is None:
        return "nothing was written"
    saved, users = found
    return f"{saved:,} of {counted(users, 'user')} are saved, {again}"


def _time(summary: Summary) -> list[str]:
    """Return how many days the observation counts take, where the rate is known."""
    counts = list(dict.fromkeys(row.n for row in summary.results))
    rate = summary.reports_per_day
    return [] if rate is None else [f"n = {', '.join(map(str, counts))}: {in_days(counts, rate)}"]


def _at_threshold(row: Record) -> list[str]:
    """Return, with a threshold, the share of users whose guess reaches it at n, and the precision for them."""
    if row.confident_at_threshold is None or row.precision_at_threshold is None:
        return []
    return [
        f"{row.confident_at_threshold.value:.3f}",
        f"{row.precision_at_threshold.value:.3f}" if row.confident_at_threshold.value else "–",
    ]


def listed_scenarios() -> list[dict[str, Any]]:
    """Return the built-in scenarios: name, mechanism, largest epsilon per report, title, source, if historical."""
    return [
        {
            "name": name,
            "mechanism": ", ".join(dict.fromkeys(part.mechanism.kind for part in found.parts or (found,))),
            "epsilon": max(float(build_mechanism(part, part.universe()).epsilon) for part in found.parts or (found,)),
            "title": found.title,
            "source": found.source,
            "historical": bool(found.historical),
        }
        for name, found in ((name, load_scenario(name)) for name in builtin_names())
    ]


def print_scenarios() -> None:
    """Print the built-in scenarios: name, mechanism, epsilon per report, title and source."""
    table = Table(box=None, pad_edge=False)
    for name in ("scenario", "mechanism"):
        table.add_column(name, no_wrap=True)
    table.add_column("epsilon", justify="right", no_wrap=True)
    table.add_column("title and source")
    for found in listed_scenarios():
        title = found["title"] + (" (historical)" if found["historical"] else "")
        table.add_row(
            found["name"],
            found["mechanism"],
            f"{found['epsilon']:.4g}",
            Text.assemble(title, "\n", (f"{found['source']}\n", "dim")),
        )
    Terminal().print(table)
