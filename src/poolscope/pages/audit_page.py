"""The page: everything it says is put into records here, the template only places them."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from poolscope.metrics.records import headline, in_plain_words, is_skewed, percent
from poolscope.pages.audit_pictures import Drawing
from poolscope.pages.glossary import GLOSSARY
from poolscope.pages.inline import inline
from poolscope.verbs.audit.folder import Summary

Record = Mapping[str, Any]


class Column(NamedTuple):
    """A column of the table of numbers."""

    field: str
    group: str
    head: str
    share: bool


COLUMNS = (
    Column("auc", "", "AUC", share=False),
    Column("precision", "Precision, % of guesses", "all users", share=True),
    Column("precision_top20", "Precision, % of guesses", "top 20 %", share=True),
    Column("precision_top10", "Precision, % of guesses", "top 10 %", share=True),
    Column("precision_top5", "Precision, % of guesses", "top 5 %", share=True),
    Column("precision_top1", "Precision, % of guesses", "top 1 %", share=True),
    Column("reached_50", "Exposed, % of users", "at 50 %", share=True),
    Column("reached_90", "Exposed, % of users", "at 90 %", share=True),
    Column("reached_95", "Exposed, % of users", "at 95 %", share=True),
    Column("calibration_error", "Calibration", "error", share=False),
    Column("calibration_error_limit", "Calibration", "noise", share=False),
    Column("brier", "Calibration", "Brier", share=False),
)


def render(summary: Summary, drawings: Sequence[Drawing]) -> str:
    """The report as HTML; every name from the run is escaped."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        # Always: the template's name does not end in .html, which is what Jinja would go by.
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html.j2").render(
        title=summary.scenario.title.strip() or "What the reports reveal",
        words=_tied(in_plain_words(summary.results, summary.adversaries)),
        facts=_facts(summary),
        tiles=_tiles(summary),
        figures=_figures(drawings),
        groups=_heads(),
        columns=COLUMNS,
        blocks=_blocks(summary.results),
        csv=_separated(summary.results, ","),
        tsv=_separated(summary.results, "\t"),
        glossary=_glossary(summary),
        origin=_origin(summary),
        scenario=summary.scenario.text,
        version=summary.version,
    )


def _facts(summary: Summary) -> list[str]:
    return [
        f"{summary.users:,} user{'s' * (summary.users != 1)}",
        f"{len(summary.pools)} pools: {', '.join(summary.pools)}",
        f"up to {summary.horizon:,} report{'s' * (summary.horizon != 1)} each",
    ]


def _tiles(summary: Summary) -> Record:
    """The four numbers to remember, all of the one attack that the words are about."""
    record = headline(summary.results)
    chosen = (
        ("precision", "of all users are guessed rightly"),
        ("precision_top10", "of the surest tenth of guesses are right"),
        ("reached_90", "of users are exposed at 90 % confidence"),
    )
    tiles = [
        {
            "value": _tied(percent(record[name])),
            "label": _tied(label),
            "interval": _tied(f"{_interval(record, name, True)} %"),
        }
        for name, label in chosen
    ]
    tiles.append(
        {
            "value": _decimal(record["auc"]),
            "label": "AUC, the precision averaged over all null rates",
            "interval": _interval(record, "auc", False),
        }
    )
    note = f"A random guess is right for {percent(record['baseline'])}"
    if is_skewed(record):
        note += f"; always naming the most common pool, for {percent(record['majority'])}"
    return {
        "heading": f"The {record['adversary']} adversary after {record['n']:,} reports",
        "note": _tied(f"{note}. Small numbers are 95 % intervals."),
        "tiles": tiles,
    }


def _figures(drawings: Sequence[Drawing]) -> list[Record]:
    return [
        {
            "number": number,
            "title": drawing.title,
            "caption": _tied(drawing.caption),
            "wide": inline(drawing.wide, prefix=f"wide{number}", label=drawing.title),
            "narrow": inline(drawing.narrow, prefix=f"narrow{number}", label=drawing.title),
        }
        for number, drawing in enumerate(drawings, start=1)
    ]


def _heads() -> list[Record]:
    """Headings over several columns: text and span."""
    return [
        {"text": text, "span": len(list(columns))}
        for text, columns in groupby(COLUMNS, key=lambda column: column.group)
    ]


def _blocks(results: Sequence[Record]) -> list[Record]:
    """The table of numbers: per adversary its rows, per row its cells."""
    return [
        {
            "adversary": adversary,
            "rows": [
                {"n": f"{record['n']:,}", "cells": [_cell(record, column) for column in COLUMNS]} for record in records
            ],
        }
        for adversary, records in groupby(results, key=lambda record: record["adversary"])
    ]


def _cell(record: Record, column: Column) -> Record:
    interval = _interval(record, column.field, column.share)
    return {"value": _number(record[column.field], column.share), "interval": interval}


def _interval(record: Record, field: str, share: bool) -> str:
    if f"{field}_low" not in record:
        return ""
    low, high = (_number(record[f"{field}_{end}"], share) for end in ("low", "high"))
    return f"{low}–{high}"


def _number(value: float, share: bool) -> str:
    return f"{100 * value:.1f}" if share else _decimal(value)


def _decimal(value: float) -> str:
    return f"{value:.3f}"


def _separated(results: Sequence[Record], delimiter: str) -> str:
    """All numbers at full width, for a spreadsheet."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(results[0]), delimiter=delimiter, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    for record in results:
        writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in record.items()})
    return text.getvalue()


def _glossary(summary: Summary) -> list[tuple[str, str]]:
    """Who attacks, then what the words mean."""
    who = [(name, f"{what[:1].upper()}{what[1:]}.") for name, what in summary.adversaries.items()]
    return [*who, *((term, _tied(meaning)) for term, meaning in GLOSSARY)]


def _tied(text: str) -> str:
    """Text whose numbers stay on one line with their percent sign."""
    return text.replace(" %", "\u202f%")


def _origin(summary: Summary) -> list[tuple[str, str]]:
    """Where the numbers come from, down to the command that makes them again."""
    file = summary.scenario.file
    command = f"poolscope audit {shlex.quote(file)} --users {summary.users} --seed {summary.seed}"
    origin = [
        ("Command", command),
        ("Seed", str(summary.seed)),
        ("Users", f"{summary.users:,}"),
        ("Version", f"poolscope {summary.version}"),
    ]
    if summary.seconds is not None:
        origin.append(("Time", f"{summary.seconds:,.1f} s"))
    return origin
