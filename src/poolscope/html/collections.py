"""The section of several collections in an HTML report of an audit: results, contributions, and exposure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from poolscope.html.tables import Column, decimal, share, table
from poolscope.metrics.bounds import CumulativeEpsilon
from poolscope.metrics.collections import CollectionsSummary, TupleEpsilon
from poolscope.metrics.records import EXPOSING, Record
from poolscope.metrics.text import number, percent
from poolscope.workflows.audit.run_folder import Summary

LINK = (
    "Posteriors of the attribute assume a link between attribute and pools. An adversary who assumes too close a link "
    "is overconfident: compare confidence with precision."
)


class _Spent(NamedTuple):
    """A row of the table of values of ε."""

    name: str
    mechanism: str
    report: float
    day: float | None
    year: float | None


def collection_tables(summary: Summary) -> list[dict[str, Any]]:
    """Return the tables about collections; none where there is a single one."""
    about = summary.collections
    if about is None:
        return []
    results = results_table(summary.results, list(summary.adversaries))
    tables = [results, contributions_table(about), _only_jointly(about), _until(summary)]
    tables += [_sampled(about)] if about.sampled_attributes else []
    return [
        *tables,
        _epsilon(about) if about.multidimensional is None else _tuple_epsilon(about, about.multidimensional),
    ]


def _last(records: Sequence[Any]) -> tuple[int, list[Any]]:
    """Return the last day, and the records of it."""
    last = max(record.n for record in records)
    return last, [record for record in records if record.n == last]


def results_table(records: Sequence[Record], order: Sequence[str]) -> dict[str, Any]:
    """Return the results on the last day of all collections, each alone and all but one, by adversary in this order."""
    last, rows = _last(records)
    rows.sort(key=lambda record: order.index(record.adversary))
    columns = [
        Column("auc_pn", "", "AUC-PN", decimal),
        Column("precision", "", "Correct, %", share),
        Column("success_bound", "", "Bound, %", share),
        Column("confident", "", f"Confident (≥ {percent(rows[0].confident_at)}), %", share),
        Column("exposed_share", "", f"Exposed (≥ {percent(rows[0].exposed_at)}), %", share),
        Column("ece", "", "ECE", decimal),
        Column("ece_null_p95", "", "ECE null 95%", decimal),
    ]
    label = f"All collections, each alone, and all but one, after {last:,} days"
    return table(label, rows, columns, block=("adversary", "Adversary"), row=("collection", "Collections"))


def contributions_table(about: CollectionsSummary) -> dict[str, Any]:
    """Return what each collection adds to the others on the last day."""
    last, rows = _last(about.contributions)
    columns = [
        Column("log_odds", "", "Log-odds added", decimal),
        Column("exposes", "", "Of the users exposed jointly, exposed by it alone, %", share),
    ]
    label = f"What each collection adds to the others, after {last:,} days"
    return table(label, rows, columns, block=("adversary", "Adversary"), row=("collection", "Collection"))


def _only_jointly(about: CollectionsSummary) -> dict[str, Any]:
    columns = [
        Column("exposed", "", "Exposed jointly, % of users", share),
        Column("singly", "", "Exposed by a single collection, % of users", share),
        Column("only_jointly", "", "Exposed jointly but by no single collection, % of those exposed", share),
    ]
    return table(
        "Users exposed by no single collection",
        about.exposures,
        columns,
        block=("adversary", "Adversary"),
        row=("n", "Days"),
    )


def _until(summary: Summary) -> dict[str, Any]:
    _, rows = _last(summary.results)
    order = list(summary.adversaries)
    rows.sort(key=lambda record: order.index(record.adversary))
    form = partial(_days, horizon=summary.horizon)
    columns = [Column(name, "Share of users", percent(level), form) for name, level in EXPOSING.items()]
    label = f"Days until a share of users is exposed (confidence ≥ {percent(rows[0].exposed_at)} at least once)"
    return table(label, rows, columns, block=("adversary", "Adversary"), row=("collection", "Collections"))


def _days(value: float, horizon: int) -> str:
    return f"> {horizon:,}" if value == float("inf") else f"{value:,.0f}"


def _epsilon(about: CollectionsSummary) -> dict[str, Any]:
    def row(name: str, mechanism: str, spent: CumulativeEpsilon) -> _Spent:
        return _Spent(name, mechanism, spent.report, spent.day, spent.year)

    rows = [row(one.name, one.mechanism, one.epsilon) for one in about.collections]
    rows.append(_Spent("all collections", "", float("nan"), about.epsilon_day, about.epsilon_year))
    columns = [
        Column(name, "ε", head, _known) for name, head in (("report", "report"), ("day", "day"), ("year", "year"))
    ]
    return table("Sums of ε", rows, columns, block=("name", "Collection"), row=("mechanism", "Mechanism"))


def _sampled(about: CollectionsSummary) -> dict[str, Any]:
    columns = [
        Column("correct", "", "Sampled attribute guessed, % of reports", share),
        Column("baseline", "", "Without reports, %", share),
    ]
    return table(
        "Which attribute was sampled",
        about.sampled_attributes,
        columns,
        block=("adversary", "Adversary"),
        row=("n", "Days"),
    )


def _tuple_epsilon(about: CollectionsSummary, found: TupleEpsilon) -> dict[str, Any]:
    nothing = None, None
    rows = [
        _Spent("whole tuples", found.kind, found.epsilon, about.epsilon_day, about.epsilon_year),
        _Spent("tuples that differ in one attribute", found.kind, found.single_attribute_epsilon, *nothing),
        _Spent("in the literature", found.kind, found.claimed_epsilon, *nothing),
    ]
    columns = [
        Column(name, "ε", head, _known) for name, head in (("report", "report"), ("day", "day"), ("year", "year"))
    ]
    return table("ε of tuples", rows, columns, block=("name", "Kind"), row=("mechanism", "Mechanism"))


def _known(value: float | None) -> str:
    return "–" if value is None or value != value else number(round(value, 6))
