"""Render a finished run as one self-contained HTML report.

This module prepares all texts and numbers; the template only lays them out.
"""

from __future__ import annotations

import csv
import io
import math
import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from poolscope.core.counting import counted
from poolscope.core.files import located_os_errors
from poolscope.core.tables.atomic import write_text
from poolscope.figures.audit import pictures
from poolscope.figures.saving import Figure
from poolscope.html.collections import LINK, collection_tables
from poolscope.html.glossary import AUDIT, explained
from poolscope.html.render import options, origin, placed, render
from poolscope.html.tables import Card, Column, cards, decimal, interval, share, table
from poolscope.inference.thresholds import at_levels, in_percent, with_threshold
from poolscope.metrics.bounds import in_days
from poolscope.metrics.records import EXPOSING, Record
from poolscope.metrics.text import linkability_title, mcse_text, of_users, percent, strongest_attack, summary_text
from poolscope.workflows.audit.run_folder import Run, Summary

SUCCESS = (
    Column("auc_pn", "", "AUC-PN", decimal),
    Column("precision", "Precision, % of guesses", "all users", share),
    Column("success_bound", "Precision, % of guesses", "bound", share),
    Column("precision_top20", "Precision, % of guesses", "top 20%", share),
    Column("precision_top10", "Precision, % of guesses", "top 10%", share),
    Column("precision_top5", "Precision, % of guesses", "top 5%", share),
    Column("precision_top1", "Precision, % of guesses", "top 1%", share),
)

LIMITATIONS = (
    "The results are those of these adversaries, not a bound for every adversary; the column “bound” is.",
    "Users are simulated by the scenario's assumptions, unless they are recorded.",
    "Exposed is not the same as correctly guessed: the adversary may be confident and wrong.",
    "Each 95% CI holds for its own number; the strongest adversary is chosen by its AUC-PN.",
)

CALIBRATION = (
    Column("ece", "Calibration", "ECE", decimal),
    Column("ece_null_p95", "Calibration", "ECE null 95%", decimal),
    Column("brier", "Calibration", "Brier", decimal),
)


def write_page(run: Run) -> Path:
    """Write ``report.html`` into a run's folder and return its path; write nothing if outcomes are malformed."""
    html, page = page_of(run.summary, list(pictures(run))), run.folder / "report.html"
    with located_os_errors(page):
        write_text(page, html)
    return page


def page_of(summary: Summary, shown: Sequence[Figure]) -> str:
    """Return the report as HTML; every name from the run is escaped."""
    who = [(f"{name} adversary", f"{what[:1].upper()}{what[1:]}.") for name, what in summary.adversaries.items()]
    return render(
        "report.html.j2",
        title=summary.scenario.title.strip() or "Audit",
        words=" ".join(
            (
                summary_text(summary.main_results, summary.adversaries, unit=summary.unit),
                *(() if summary.collections is None else summary.collections.cautions),
            )
        ),
        facts=_facts(summary),
        tiles=_tiles(summary),
        figures=placed(shown),
        table=table(
            "Attacks",
            summary.main_results,
            _columns(summary.main_results),
            block=("adversary", "Adversary"),
            row=("n", "n"),
            form=partial(_after, reports_per_day=summary.reports_per_day),
        ),
        note="; ".join([*summary.devices, "small numbers are 95% CIs"]),
        sampled=mcse_text(summary.results),
        exposing=_exposing(summary),
        by_pool=_by_pool(summary) if summary.pool_results else None,
        linkability=_linkability(summary) if summary.linkability else None,
        collections=collection_tables(summary),
        csv=_separated(summary.results, ","),
        tsv=_separated(summary.results, "\t"),
        limitations=LIMITATIONS if summary.collections is None else (*LIMITATIONS, LINK),
        glossary=[*who, *explained(AUDIT)],
        origin=_origin(summary),
        scenario=summary.scenario.text,
        version=summary.version,
    )


def _facts(summary: Summary) -> list[str]:
    return [
        counted(summary.users, "user"),
        f"{_hypotheses(summary)}: {', '.join(summary.pools)}",
        f"up to {counted(summary.horizon, summary.unit)} each",
        *summary.devices,
    ]


def _hypotheses(summary: Summary) -> str:
    """Return what the adversary guesses: "5 pools", or with several collections "leaning (5 values)"."""
    if summary.collections is None:
        return counted(len(summary.pools), "pool")
    return f"{summary.collections.attribute} ({counted(len(summary.pools), 'value')})"


def _exposing(summary: Summary) -> dict[str, Any]:
    """Return the number of reports that exposes a share of the users in the whole run: a row for each adversary."""
    firsts = {record.adversary: record for record in reversed(summary.main_results)}
    records = [firsts[name] for name in dict.fromkeys(record.adversary for record in summary.main_results)]
    level = in_percent(records[0].exposed_at)
    title = f"{summary.unit.capitalize()}s until a share of users is exposed (confidence ≥ {level} at least once)"
    form = partial(_reports, horizon=summary.horizon)
    columns = [Column(name, "Share of users", percent(level), form) for name, level in EXPOSING.items()]
    return table(title, records, columns, block=("adversary", "Adversary"), row=("users", "Users"), form=_whole)


def _by_pool(summary: Summary) -> dict[str, Any]:
    """Return the results by preferred pool at the largest n."""
    last = max(record.n for record in summary.pool_results)
    rows = [record for record in summary.pool_results if record.n == last]
    columns = [
        Column("users", "", "Users", _whole),
        Column("precision", "", "Correct, %", share),
        Column("posterior", "", "Mean posterior of the true pool", decimal),
        Column("exposed", "", f"Exposed (confidence ≥ {percent(rows[0].exposed_at)}), %", share),
    ]
    label = f"Users by preferred pool, n = {last:,}"
    return table(label, rows, columns, block=("adversary", "Adversary"), row=("pool", "Preferred pool"))


def _linkability(summary: Summary) -> dict[str, Any]:
    """Return how well adversaries who know the memoization link two windows of one device."""
    label = linkability_title(summary.linkability[0].window)
    columns = [
        Column("roc_auc", "", "ROC AUC", decimal),
        Column("tpr_at_fpr", "", "Devices linked at FPR 0.001, %", share),
    ]
    whole, rows = ("devices", "Devices"), summary.linkability
    return table(label, rows, columns, block=("adversary", "Adversary"), row=whole, form=_whole)


def _reports(value: float, horizon: int) -> str:
    """Return a number of reports; infinity is beyond the horizon."""
    return f"> {horizon:,}" if math.isinf(value) else f"{value:,.0f}"


def _whole(value: int) -> str:
    return f"{value:,}"


def _after(n: int, reports_per_day: float | None) -> str:
    """Return an observation count, with its days where the rate is known."""
    return f"{n:,}" if reports_per_day is None else f"{n:,} ({in_days([n], reports_per_day)})"


def _tiles(summary: Summary) -> dict[str, Any]:
    """Return the four key numbers of the strongest attack."""
    record = strongest_attack(summary.main_results)
    auc_pn, ends = decimal(record.auc_pn.value), interval(record.auc_pn, decimal)
    note = f"Random guess: {percent(record.baseline)}"
    if record.skewed:
        note += f"; most common pool: {of_users(record.majority, record.users)}"
    return {
        "heading": f"The {record.adversary} adversary after {counted(record.n, summary.unit)}",
        "note": f"{note}. Small numbers are 95% CIs.",
        "tiles": [*cards(record), Card(auc_pn, "AUC-PN: precision averaged over all null rates", ends)],
    }


def _columns(results: Sequence[Record]) -> list[Column]:
    """Return the columns of the table of attacks, with those of the requested threshold."""
    first, columns = results[0], [*SUCCESS]
    if first.threshold is not None and all(record.precision_at_threshold for record in results):
        head = f"confidence ≥ {in_percent(first.threshold)}"
        columns.append(Column("precision_at_threshold", SUCCESS[-1].group, head, share))
    for word, at_threshold, group, asked in (
        ("confident", "confident_at_threshold", "Confident at n, % of users", first.threshold),
        ("exposed", "exposed", "Exposed by n, % of users", first.exposed_at),
    ):
        known, own = at_levels(word), all(getattr(record, at_threshold) for record in results)
        levels = with_threshold(asked if own else None)
        columns += [Column(known.get(level, at_threshold), group, f"≥ {in_percent(level)}", share) for level in levels]
    return [*columns, *CALIBRATION]


def _separated(results: Sequence[Record], delimiter: str) -> str:
    """Return all numbers as text for a spreadsheet."""
    text, rows = io.StringIO(), [record.as_json() for record in results]
    writer = csv.DictWriter(text, list(rows[0]), delimiter=delimiter, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    for record in rows:
        writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in record.items()})
    return text.getvalue()


def _origin(summary: Summary) -> list[tuple[str, str]]:
    command = f"poolscope audit {shlex.quote(summary.scenario.file)} --users {summary.users} --seed {summary.seed}"
    command += options(summary.scenario.asked)
    return origin(command, seed=summary.seed, users=summary.users, version=summary.version, seconds=summary.seconds)
