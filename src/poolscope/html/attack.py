"""Render the results of an attack on a file as one self-contained HTML report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isinf
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl

from poolscope import __version__
from poolscope.core.counting import MIN_USERS, counted
from poolscope.core.files import located_os_errors
from poolscope.core.tables import scan_written
from poolscope.core.tables.atomic import write_text
from poolscope.figures import charts as figures
from poolscope.figures.saving import Figure
from poolscope.game.columns import LOG_ODDS_ADDED
from poolscope.html.collections import LINK
from poolscope.html.glossary import POSTERIORS, explained
from poolscope.html.render import placed, render
from poolscope.html.tables import Column, decimal, share, table
from poolscope.inference.thresholds import DEFAULT_THRESHOLD, at_least, in_percent
from poolscope.metrics.exposure import exposure_by_adversary, exposure_columns
from poolscope.metrics.text import number, percent
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.attack.attack import (
    Inferred,
    expected_note,
    joined_in_words,
    mcse_note,
    popularity_estimate_note,
)
from poolscope.workflows.attack.explanation import Explanations
from poolscope.workflows.attack.scoring import CORRECTED
from poolscope.workflows.attack.summary import LOG_ODDS, GuessSummary

NONE = "no guess"

LIMITATIONS = (
    "Confidence follows from the scenario: if mechanism, pools or priors are wrong, so is the confidence.",
    "Without a ground truth, the report cannot say whether the guesses are correct.",
    "A guess is a statistical inference, not a fact about a person.",
)

BY_ADVERSARY: dict[str, Any] = {"block": ("adversary", "Adversary")}


def write_page(found: Inferred, scenario: Scenario, posteriors: Path, page: Path, command: str) -> Path:
    """Write the report, whose exposure curve is read from the posteriors, and return its path."""
    html = page_of(found, scenario, posteriors, command)
    with located_os_errors(page):
        write_text(page, html)
    return page


def page_of(found: Inferred, scenario: Scenario, posteriors: Path, command: str) -> str:
    """Return the report as HTML; every name is escaped."""
    several = scenario.attribute is not None
    return render(
        "posteriors.html.j2",
        title=scenario.title.strip() or scenario.name,
        words=" ".join(
            filter(
                None,
                (
                    summary_text(found),
                    expected_note(found),
                    *found.cautions,
                    _joined(found),
                    popularity_estimate_note(found),
                    mcse_note(found),
                ),
            )
        ),
        violations=found.violations,
        facts=[
            counted(found.users, "user"),
            counted(found.reports, "report"),
            *(
                f"{one.name}: {counted(one.reports, 'report')} of {counted(one.users, 'user')}"
                for one in found.collections
            ),
            f"{len(found.pools)} {_hypotheses(scenario)}: {', '.join(found.pools)}",
        ],
        figures=placed(list(_figures(found, posteriors))),
        tables=list(_tables(found)),
        limitations=(*LIMITATIONS, LINK) if several else LIMITATIONS,
        glossary=explained(POSTERIORS),
        origin=_origin(found, command),
        scenario=scenario.text,
        version=__version__,
    )


def summary_text(found: Inferred) -> str:
    """Return for how many users the most confident adversary reaches the threshold, after all reports."""
    level = DEFAULT_THRESHOLD if found.threshold is None else found.threshold
    last = {row.adversary: row for row in found.results}
    name, row = max(last.items(), key=lambda item: (item[1].confident_at_threshold[level], item[1].confidence))
    confident = row.confident_at_threshold[level]
    who = f"{confident:,} of {counted(found.users, 'user')}" if confident else "no user"
    who += f" ({percent(confident / found.users)})" if confident and found.users >= MIN_USERS else ""
    when = counted(row.n, "day") if found.attribute is not None and row.n is not None else "all reports"
    return (
        f"After {when}, the {name} adversary is at least {in_percent(level)} confident about {who}. Its mean "
        f"confidence is {percent(row.confidence)} (random: {percent(row.baseline)})."
    )


def _hypotheses(scenario: Scenario) -> str:
    return "pools" if scenario.attribute is None else f"values of {scenario.attribute.name}"


def _joined(found: Inferred) -> str:
    return "" if found.joined is None else joined_in_words(found.joined)


def _figures(found: Inferred, posteriors: Path) -> Iterator[Figure]:
    """Yield the exposure curve; of several collections only where guesses are on several days."""
    if found.attribute is None:
        yield _exposure(posteriors, found.threshold)
    elif found.exposure is not None:
        yield Figure(
            name="exposure",
            title="Exposure against days",
            caption="Share of users exposed by the end of a day: confidence of at least "
            f"{figures.levels(found.exposure)} on one of the days of guesses until then, correct or not. "
            f"Square-root axis, 95% CI shaded. {figures.ZOOM}",
            chart=figures.exposure_curves(found.exposure, unit="day"),
        )


def _exposure(posteriors: Path, threshold: float | None) -> Figure:
    """Return the share of users exposed by each number of reports."""
    every = scan_written(posteriors, ("user", "adversary"))
    # an empty CSV column has no type
    rows = every.select("user", "adversary", "n", pl.col(*exposure_columns(threshold).values()).cast(pl.Int64))
    last = rows.filter(pl.col("n") == pl.col("n").max().over("user", "adversary")).collect()
    horizon = max(1, int(last["n"].to_numpy().max()))
    # all rows of a user have the same exposure: take the last
    table = exposure_by_adversary(last.with_columns(n=pl.lit(horizon)), horizon, threshold)
    return Figure(
        name="exposure",
        title="Exposure against reports",
        caption=f"Share of users exposed by n reports: confidence of at least {figures.levels(table)} at least once, "
        "correct or not. Users with fewer reports count with those they sent. Square-root axis, 95% CI shaded. "
        f"{figures.ZOOM}",
        chart=figures.exposure_curves(table),
    )


def _tables(found: Inferred) -> Iterator[dict[str, Any]]:
    several = found.attribute is not None
    for name, inspection in {"": found.inspection, **{one.name: one.inspection for one in found.collections}}.items():
        if inspection is None:
            continue
        checked = [
            Column("value", "", "value", str, text=True),
            Column("remedy", "", "what to do", lambda text: text or "–", text=True),
        ]
        rows, label = inspection.checks, f"Checks of the reports{f' of {name}' * bool(name)}"
        yield table(label, rows, checked, block=("check", "Check"), row=("status", "Status"))
    levels = list(found.results[0].confident_at_threshold)
    confident = [
        SimpleNamespace(
            adversary=row.adversary,
            n="all" if row.n is None else f"{row.n:,}",
            confidence=row.confidence,
            baseline=row.baseline,
            **{f"confident_{level:g}": row.confident_at_threshold[level] / found.users for level in levels},
        )
        for row in found.results
    ]
    columns = [Column("confidence", "", "mean confidence", decimal), Column("baseline", "", "baseline", decimal)]
    columns += [Column(f"confident_{level:g}", "% of users", at_least(level), share) for level in levels]
    yield table("Confidence", confident, columns, **BY_ADVERSARY, row=("n", "Days" if several else "n"))
    if found.evaluation:
        right = (
            Column("precision", "", "precision", _known),
            Column("ece", "", "ECE", _known),
            Column("ece_null_p95", "", "ECE null 95%", _known),
            Column("calibrated", "", "calibrated", _verdict),
        )
        label = "Evaluation against the ground truth"
        yield table(label, found.evaluation, right, **BY_ADVERSARY, row=("users", "Users"))
    last = {row.adversary: row for row in found.results}
    spread = [
        SimpleNamespace(adversary=name, pool=pool, share=count / found.users)
        for name, row in last.items()
        for pool, count in _guesses(row).items()
    ]
    guessed = [Column("share", "", "% of users", share)]
    yield table("Guesses", spread, guessed, **BY_ADVERSARY, row=("pool", "Value" if several else "Pool"))
    top = [_guess_row(row) for row in found.top]
    # name no user if the reports contradict the scenario
    if top and found.passed:
        facts = [Column("guess", "", "guess", str), Column("n", "", "reports", str)]
        facts.append(Column("confidence", "", "confidence", decimal))
        if found.pool_sets > 1:
            facts.append(Column("corrected", "", "corrected", decimal))
        facts.append(Column("log_odds", "", "log-odds", _log_odds))
        names = [key for key in found.top[0] if key.startswith(LOG_ODDS_ADDED)]
        for i, key in enumerate(names):
            facts.append(Column(f"added_{i}", "log-odds from", key.removeprefix(LOG_ODDS_ADDED), _log_odds))
        yield table("Most confident guesses", top, facts, **BY_ADVERSARY, row=("user", "User"))
        yield from _explanations(found.explanations)


def _explanations(found: Explanations) -> Iterator[dict[str, Any]]:
    """Yield why the top users are guessed, and the reports of all users that revealed most."""
    if not found.users:
        return
    columns = [
        Column("guess", "", "guess", str),
        Column("exposure_text", "", f"confidence ≥ {in_percent(found.users[0].threshold)} first at", str),
        Column("gamma_text", "", "gamma (95% CI)", str),
        Column("delta_text", "", "delta (95% CI)", str),
        Column("reports_text", "", "strongest reports (log Bayes factor): likeliest objects", str, text=True),
    ]
    yield table("Why these users", found.users, columns, **BY_ADVERSARY, row=("user", "User"))
    rows = [
        SimpleNamespace(adversary=name, user=f"{one.user}, report {one.n:,}", factor=one.log_bayes_factor, report=one)
        for name, reports in found.strongest.items()
        for one in reports
    ]
    columns = [
        Column("report", "", "pool", lambda one: one.pool),
        Column("factor", "", "log Bayes factor", lambda value: f"{value:+.2f}"),
        Column("report", "", "likeliest objects", lambda one: one.likeliest, text=True),
    ]
    yield table("Reports that revealed most, of all users", rows, columns, **BY_ADVERSARY, row=("user", "Report"))


def _guesses(row: GuessSummary) -> dict[str, int]:
    """Return for how many users each pool is guessed, and for how many none."""
    return {**row.guesses, **({NONE: row.no_guess} if row.no_guess else {})}


def _guess_row(row: Mapping[str, Any]) -> SimpleNamespace:
    guess = NONE if row["guess"] is None else row["guess"]
    return SimpleNamespace(
        adversary=row["adversary"],
        user=row["user"],
        guess=guess,
        n=row["n"],
        confidence=row["confidence"],
        corrected=row.get(CORRECTED),
        log_odds=row[LOG_ODDS],
        **{f"added_{i}": row[key] for i, key in enumerate(key for key in row if key.startswith(LOG_ODDS_ADDED))},
    )


def _log_odds(value: float) -> str:
    return number(value) if isinf(value) else f"{value:z.1f}"


def _known(value: float | None) -> str:
    return "–" if value is None else decimal(value)


def _verdict(calibrated: bool | None) -> str:
    return "–" if calibrated is None else "yes" if calibrated else "no"


def _origin(found: Inferred, command: str) -> list[tuple[str, str]]:
    verdict = "passed" if found.passed else "failed"
    return [
        ("Command", command),
        ("Consistency checks", verdict),
        ("Users", f"{found.users:,}"),
        ("Version", f"poolscope {__version__}"),
    ]
