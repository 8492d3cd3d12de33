"""A comparison as a folder: ``comparison.json``, the frontier as SVG, and one page that needs nothing else."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined

from poolscope import __version__
from poolscope.base.errors import InputError
from poolscope.base.tables.atomic import write_text
from poolscope.pages.frontier import frontier
from poolscope.pages.inline import inline
from poolscope.pages.numbers import GLOSSARY, Record, bits, count, error, in_plain_words, log_odds, number, reservation
from poolscope.pages.style import to_svg
from poolscope.scenario.scenario import Scenario
from poolscope.verbs.compare import Comparison


class Column(NamedTuple):
    """A column of the table of what is given away: a field of the records, and how it is written."""

    field: str
    group: str
    head: str
    form: str


COLUMNS = (
    Column("auc", "", "AUC", "decimal"),
    Column("precision", "% of users", "guessed rightly", "share"),
    Column("exposed", "% of users", "exposed", "share"),
    Column("reports_to_exposure", "", "reports", "count"),
    Column("bayes_security", "Leakage", "Bayes security", "decimal"),
    Column("min_entropy_leakage", "Leakage", "bits", "bits"),
    Column("evidence", "Log odds", "reached", "log"),
    Column("composition_bound", "Log odds", "bound", "number"),
)

FORMS = {
    "decimal": lambda value: f"{value:.3f}",
    "share": lambda value: f"{100 * value:.1f}",
    "log": log_odds,
    "count": count,
    "bits": bits,
    "number": number,
}

CAPTION = (
    "Every point is a choice of mechanism and ε, which stands beside it: to the left the curator errs less, downwards "
    "the adversary learns less, so the lower left is best. Bars are 95 % intervals of the AUC."
)


def default_folder(scenario: Scenario) -> Path:
    """poolscope-compare-NAME in the current folder, numbered where that is taken."""
    name, number = f"poolscope-compare-{scenario.name}", 1
    while (path := Path(name if number == 1 else f"{name}-{number}")).exists():
        number += 1
    return path


def refuse(out: Path) -> None:
    """An output folder is new or empty."""
    remedy = "choose another with --out"
    if out.exists() and not out.is_dir():
        raise InputError("must be a folder", file=out, remedy=remedy)
    if out.exists() and any(out.iterdir()):
        raise InputError("the output folder is not empty", file=out, remedy=remedy)


def write_comparison(comparison: Comparison, out: Path) -> Path:
    """Write the folder, all of it or nothing; returns the page."""
    refuse(out)
    shown = comparison.results, comparison.non_private, comparison.reports
    wide, narrow = (to_svg(frontier(*shown, columns=columns)) for columns in (2, 1))
    page = render(comparison, wide, narrow)
    beside = out.with_name(f".{out.name}.{os.getpid()}.part")
    try:
        (beside / "figures").mkdir(parents=True)
        write_text(beside / "figures" / "frontier.svg", wide)
        write_text(beside / "figures" / "frontier-column.svg", narrow)
        write_text(beside / "comparison.html", page)
        text = json.dumps(comparison.as_json(), indent=1, allow_nan=False, ensure_ascii=False)
        write_text(beside / "comparison.json", text + "\n")
        if out.exists():
            out.rmdir()
        beside.replace(out)
    except OSError as problem:
        remedy = "choose another with --out"
        raise InputError(f"cannot write: {problem.strerror or problem}", file=out, remedy=remedy) from problem
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return out / "comparison.html"


def render(comparison: Comparison, wide: str, narrow: str) -> str:
    """The page as HTML; every name is escaped."""
    environment = Environment(
        loader=PackageLoader("poolscope.pages", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    names = list(dict.fromkeys(record["adversary"] for record in comparison.results))
    by_name = {name: [record for record in comparison.results if record["adversary"] == name] for name in names}
    label = "AUC of the adversary against the error of the frequencies"
    return environment.get_template("comparison.html.j2").render(
        title=comparison.scenario.title.strip() or comparison.scenario.name,
        words=_tied(in_plain_words(comparison)),
        facts=_facts(comparison),
        figure={
            "wide": inline(wide, prefix="wide", label=label),
            "narrow": inline(narrow, prefix="narrow", label=label),
            "caption": _tied(f"{CAPTION} {reservation(comparison)}".strip()),
        },
        note=_tied(
            f"After {comparison.n:,} reports of each user. Below each value its 95 % interval; a star marks the "
            f"choices on the frontier. {reservation(comparison)} The words are explained under the tables."
        ),
        groups=_heads(),
        columns=[column.head for column in COLUMNS],
        tables=[_table(name, comparison.adversaries.get(name, ""), records) for name, records in by_name.items()],
        utility=_utility(comparison, by_name[names[0]]),
        glossary=[(term, _tied(meaning)) for term, meaning in GLOSSARY],
        origin=_origin(comparison),
        scenario=comparison.scenario.text,
        version=__version__,
    )


def _facts(comparison: Comparison) -> list[str]:
    pools = round(1 / comparison.results[0]["baseline"])
    return [
        f"{comparison.users:,} users, the same for every choice",
        f"{comparison.n:,} reports each",
        f"{pools} pools",
        f"frequencies from {comparison.reports:,} reports",
    ]


def _heads() -> list[Record]:
    """Headings over several columns: text and span."""
    groups = groupby(COLUMNS, key=lambda column: column.group)
    return [{"text": text, "span": len(list(columns))} for text, columns in groups]


def _table(name: str, phrase: str, records: Sequence[Record]) -> Record:
    return {"heading": f"The {name} adversary" + (f": {phrase}" if phrase else ""), "blocks": _blocks(records, _cells)}


def _utility(comparison: Comparison, records: Sequence[Record]) -> Record:
    note = f"Errors of the frequencies that {comparison.reports:,} reports give, averaged over all objects."
    return {"note": note, "blocks": _blocks(records, _errors)}


def _blocks(records: Sequence[Record], cells: Any) -> list[Record]:
    """Per mechanism its rows, per row its cells."""
    return [
        {
            "mechanism": mechanism,
            "rows": [
                {"epsilon": number(record["epsilon"]), "frontier": record["frontier"], "cells": cells(record)}
                for record in rows
            ],
        }
        for mechanism, rows in groupby(records, key=lambda record: record["mechanism"])
    ]


def _cells(record: Record) -> list[Record]:
    return [
        {"value": FORMS[column.form](record[column.field]), "interval": _interval(record, column)} for column in COLUMNS
    ]


def _interval(record: Record, column: Column) -> str:
    if f"{column.field}_low" not in record:
        return ""
    low, high = (FORMS[column.form](record[f"{column.field}_{end}"]) for end in ("low", "high"))
    if low == high:
        return ""
    dash = " – " if "-" in low + high else "–"
    return f"{low}{dash}{'∞' if high == '–' else high}".replace("-", "−")


def _errors(record: Record) -> list[str]:
    return [error(record[name]) for name in ("mse", "mse_expected", "mae", "mae_expected")]


def _tied(text: str) -> str:
    """Text whose numbers stay on one line with their percent sign."""
    return text.replace(" %", "\u202f%")


def _origin(comparison: Comparison) -> list[tuple[str, str]]:
    """Where the numbers come from, down to the command that makes them again."""
    kinds = ",".join(dict.fromkeys(record["mechanism"] for record in comparison.results))
    epsilons = ",".join(dict.fromkeys(f"{record['epsilon']:g}" for record in comparison.results))
    command = (
        f"poolscope compare {shlex.quote(comparison.scenario.file)} --mechanism {kinds} --epsilon {epsilons} "
        f"--users {comparison.users} --reports {comparison.reports} --seed {comparison.seed}"
    )
    return [
        ("Command", command),
        ("Seed", str(comparison.seed)),
        ("Users", f"{comparison.users:,}"),
        ("Version", f"poolscope {__version__}"),
        ("Time", f"{comparison.seconds:,.1f} s"),
    ]
