"""The page of a finished run: one HTML file that needs nothing else.

Everything that the page says is put into records here, the template only places them.
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
from poolscope.html.glossary import AUDIT, explained
from poolscope.html.render import options, origin, placed, render, tied
from poolscope.html.tables import Card, Column, cards, decimal, interval, share, table
from poolscope.inference.levels import at_levels, in_percent, with_threshold
from poolscope.metrics.bounds import in_days
from poolscope.metrics.linkability import in_words
from poolscope.metrics.records import EXPOSING, Record
from poolscope.metrics.text import chance_in_words, of_users, percent, strongest_attack, summary_text
from poolscope.workflows.audit.run_folder import Run, Summary

SUCCESS = (
    Column("auc_pn", "", "AUC", decimal),
    Column("precision", "Precision, % of guesses", "all users", share),
    Column("success_bound", "Precision, % of guesses", "at most", share),
    Column("precision_top20", "Precision, % of guesses", "top 20 %", share),
    Column("precision_top10", "Precision, % of guesses", "top 10 %", share),
    Column("precision_top5", "Precision, % of guesses", "top 5 %", share),
    Column("precision_top1", "Precision, % of guesses", "top 1 %", share),
)

CALIBRATION = (
    Column("ece", "Calibration", "error", decimal),
    Column("ece_null_p95", "Calibration", "noise", decimal),
    Column("brier", "Calibration", "Brier", decimal),
)


def write_page(run: Run) -> Path:
    """Write ``report.html`` of a run into its folder; returns the page.

    Where the outcomes turn out to be malformed nothing is written.
    """
    html, page = page_of(run.summary, list(pictures(run))), run.folder / "report.html"
    with located_os_errors(page):
        write_text(page, html)
    return page


def page_of(summary: Summary, shown: Sequence[Figure]) -> str:
    """The page as HTML; every name from the run is escaped."""
    who = [(name, f"{what[:1].upper()}{what[1:]}.") for name, what in summary.adversaries.items()]
    return render(
        "report.html.j2",
        title=summary.scenario.title.strip() or "What the reports reveal",
        words=tied(summary_text(summary.results, summary.adversaries)),
        facts=_facts(summary),
        tiles=_tiles(summary),
        figures=placed(shown),
        table=table(
            "Table of numbers",
            summary.results,
            _columns(summary.results),
            block=("adversary", "Adversary"),
            row=("n", "n"),
            form=partial(_after, reports_per_day=summary.reports_per_day),
        ),
        note=tied("; ".join([*summary.devices, "below each value its 95 % interval"])),
        chance=tied(chance_in_words(summary.results)),
        exposing=_exposing(summary),
        by_pool=_by_pool(summary) if summary.pool_results else None,
        tracked=_tracked(summary) if summary.linkability else None,
        csv=_separated(summary.results, ","),
        tsv=_separated(summary.results, "\t"),
        glossary=[*who, *explained(AUDIT)],
        origin=_origin(summary),
        scenario=summary.scenario.text,
        version=summary.version,
    )


def _facts(summary: Summary) -> list[str]:
    return [
        counted(summary.users, "user"),
        f"{counted(len(summary.pools), 'pool')}: {', '.join(summary.pools)}",
        f"up to {counted(summary.horizon, 'report')} each",
        *map(tied, summary.devices),
    ]


def _exposing(summary: Summary) -> dict[str, Any]:
    """After how many reports some users are exposed: a row for each adversary, as it is a fact of the whole run."""
    firsts = {record.adversary: record for record in reversed(summary.results)}
    records = [firsts[name] for name in dict.fromkeys(record.adversary for record in summary.results)]
    form = f"Reports until exposed at {in_percent(records[0].exposed_at)}"
    columns = [Column(name, "", f"{percent(level)} of users", _reports) for name, level in EXPOSING.items()]
    return table(form, records, columns, block=("adversary", "Adversary"), row=("users", "Users"), form=_whole)


def _by_pool(summary: Summary) -> dict[str, Any]:
    """How far adversaries got with the users of each preferred pool, after the largest number of reports."""
    last = max(record.n for record in summary.pool_results)
    rows = [record for record in summary.pool_results if record.n == last]
    columns = [
        Column("users", "", "Users", _whole),
        Column("precision", "", "Guessed correctly, %", share),
        Column("posterior", "", "Mean posterior of their pool", decimal),
        Column("exposed", "", f"Exposed at {percent(rows[0].exposed_at)}, % of users", share),
    ]
    label = f"Users by preferred pool, n = {last:,}"
    return table(label, rows, columns, block=("adversary", "Adversary"), row=("pool", "Preferred pool"))


def _tracked(summary: Summary) -> dict[str, Any]:
    """How surely two windows are told to be one device's, by adversaries who know of kept answers."""
    label = f"{in_words(summary.linkability[0].window)}?"
    columns = [Column("roc_auc", "", "ROC area", decimal), Column("tpr_at_fpr", "", "% of devices linked", share)]
    whole, rows = ("devices", "Devices"), summary.linkability
    return table(label, rows, columns, block=("adversary", "Adversary"), row=whole, form=_whole)


def _reports(value: float) -> str:
    """A number of reports; infinity is more than were played."""
    return "never" if math.isinf(value) else f"{value:,.0f}"


def _whole(value: int) -> str:
    return f"{value:,}"


def _after(n: int, reports_per_day: float | None) -> str:
    """An observation count, and how long it takes where that is known."""
    return f"{n:,}" if reports_per_day is None else f"{n:,} ({in_days([n], reports_per_day)})"


def _tiles(summary: Summary) -> dict[str, Any]:
    """The four numbers to remember, all of the one attack that the words are about."""
    record = strongest_attack(summary.results)
    auc_pn, ends = decimal(record.auc_pn.value), interval(record.auc_pn, decimal)
    note = f"A random guess is right for {percent(record.baseline)}"
    if record.skewed:
        note += f"; always naming the most common pool, for {of_users(record.majority, record.users)}"
    return {
        "heading": f"The {record.adversary} adversary after {counted(record.n, 'report')}",
        "note": tied(f"{note}. Small numbers are 95 % intervals."),
        "tiles": [*cards(record), Card(auc_pn, "AUC, the precision averaged over all null rates", ends)],
    }


def _columns(results: Sequence[Record]) -> list[Column]:
    """The columns of the table of numbers, with those of the threshold that was asked for among its like."""
    first, columns = results[0], [*SUCCESS]
    if first.threshold is not None and all(record.precision_at_threshold for record in results):
        head = f"sure at {in_percent(first.threshold)}"
        columns.append(Column("precision_at_threshold", SUCCESS[-1].group, head, share))
    for word, at_threshold, group, asked in (
        ("confident", "confident_at_threshold", "Sure at n, % of users", first.threshold),
        ("exposed", "exposed", "Exposed by n, % of users", first.exposed_at),
    ):
        known, own = at_levels(word), all(getattr(record, at_threshold) for record in results)
        levels = with_threshold(asked if own else None)
        columns += [Column(known.get(level, at_threshold), group, in_percent(level), share) for level in levels]
    return [*columns, *CALIBRATION]


def _separated(results: Sequence[Record], delimiter: str) -> str:
    """All numbers at full width, for a spreadsheet."""
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
