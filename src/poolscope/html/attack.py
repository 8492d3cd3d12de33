"""What `attack` found in a file of reports, as one page that needs nothing else."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
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
from poolscope.html.glossary import POSTERIORS, explained
from poolscope.html.render import placed, render, tied
from poolscope.html.tables import Column, decimal, share, table
from poolscope.inference.levels import DEFAULT_THRESHOLD, in_percent, sure
from poolscope.metrics.exposure import exposure_by_adversary, exposure_columns
from poolscope.metrics.text import percent
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.attack.attack import Inferred, chance_of, estimate_of, joined_in_words
from poolscope.workflows.attack.summary import Guessed

NONE = "no guess"

BY_ADVERSARY: dict[str, Any] = {"block": ("adversary", "Adversary")}


def write_page(found: Inferred, scenario: Scenario, reports: Path, posteriors: Path, page: Path) -> Path:
    """Write the page beside the table of posteriors, from which its curves are; returns the page."""
    html = page_of(found, scenario, reports, posteriors)
    with located_os_errors(page):
        write_text(page, html)
    return page


def page_of(found: Inferred, scenario: Scenario, reports: Path, posteriors: Path) -> str:
    """The page as HTML; every name is escaped."""
    return render(
        "posteriors.html.j2",
        title=scenario.title.strip() or scenario.name,
        words=tied(" ".join(filter(None, (summary_text(found), _joined(found), estimate_of(found), chance_of(found))))),
        violations=found.violations,
        facts=[
            counted(found.users, "user"),
            counted(found.reports, "report"),
            f"{len(found.pools)} pools: {', '.join(found.pools)}",
        ],
        figures=placed([_exposure(posteriors, found.threshold)]),
        tables=list(_tables(found)),
        glossary=explained(POSTERIORS),
        origin=_origin(found, scenario, reports, posteriors),
        scenario=scenario.text,
        version=__version__,
    )


def summary_text(found: Inferred) -> str:
    """Of how many users the adversary who is surest is sure, after all reports."""
    level = DEFAULT_THRESHOLD if found.threshold is None else found.threshold
    last = {row.adversary: row for row in found.results}
    name, row = max(last.items(), key=lambda item: (item[1].confident_at_threshold[level], item[1].confidence))
    known = row.confident_at_threshold[level]
    of = f"{known:,} of {counted(found.users, 'user')}" if known else "no user"
    of += f" ({percent(known / found.users)})" if known and found.users >= MIN_USERS else ""
    return (
        f"From these reports the {name} adversary knows the preferred pool of {of} with a confidence of at least "
        f"{in_percent(level)}. Its mean confidence is {percent(row.confidence)}, where guessing at random has "
        f"{percent(row.baseline)}."
    )


def _joined(found: Inferred) -> str:
    return "" if found.joined is None else joined_in_words(found.joined)


def _exposure(posteriors: Path, threshold: float | None) -> Figure:
    """Whom each number of reports has exposed, of the users that the table has."""
    every = scan_written(posteriors, ("user", "adversary"))
    # a column of CSV in which nobody is exposed has no type
    rows = every.select("user", "adversary", "n", pl.col(*exposure_columns(threshold).values()).cast(pl.Int64))
    last = rows.filter(pl.col("n") == pl.col("n").max().over("user", "adversary")).collect()
    horizon = max(1, int(last["n"].to_numpy().max()))
    # of each user the last row: what exposed a user is the same in all of them
    table = exposure_by_adversary(last.with_columns(n=pl.lit(horizon)), horizon, threshold)
    return Figure(
        name="exposure",
        title="How many reports does it take?",
        caption="The height of a line is the share of users of whom the adversary has, at some time up to that number "
        f"of their reports, been sure, with a confidence of {figures.levels(table)}; users who sent fewer count with "
        f"those. The axis is stretched near 0. {figures.ZOOM}",
        chart=figures.exposure_curves(table),
    )


def _tables(found: Inferred) -> Iterator[dict[str, Any]]:
    levels = list(found.results[0].confident_at_threshold)
    confident = [
        SimpleNamespace(
            adversary=row.adversary,
            n="all" if row.n is None else f"{row.n:,}",
            confidence=row.confidence,
            baseline=row.baseline,
            **{f"sure_{level:g}": row.confident_at_threshold[level] / found.users for level in levels},
        )
        for row in found.results
    ]
    columns = [Column("confidence", "", "mean confidence", decimal), Column("baseline", "", "baseline", decimal)]
    columns += [Column(f"sure_{level:g}", "% of users", sure(level), share) for level in levels]
    yield table("How sure the adversary is", confident, columns, **BY_ADVERSARY, row=("n", "n"))
    if found.evaluation:
        right = (
            Column("precision", "", "precision", _known),
            Column("ece", "", "calibration error", _known),
            Column("ece_null_p95", "", "by chance, 95%", _known),
            Column("calibrated", "", "calibrated", _verdict),
        )
        yield table("Held against the truth", found.evaluation, right, **BY_ADVERSARY, row=("users", "Users"))
    last = {row.adversary: row for row in found.results}
    spread = [
        SimpleNamespace(adversary=name, pool=pool, share=count / found.users)
        for name, row in last.items()
        for pool, count in _guesses(row).items()
    ]
    guessed = [Column("share", "", "% of users", share)]
    yield table("Which pools are guessed", spread, guessed, **BY_ADVERSARY, row=("pool", "Pool"))
    surest = [_one(row) for row in found.top]
    # nobody is named on the strength of reports that were misread
    if surest and found.passed:
        facts = [Column("guess", "", "guess", str), Column("n", "", "reports", str)]
        facts.append(Column("confidence", "", "confidence", decimal))
        yield table("The users it is surest of", surest, facts, **BY_ADVERSARY, row=("user", "User"))


def _guesses(row: Guessed) -> dict[str, int]:
    """For how many users each pool is guessed, and none."""
    return {**row.guesses, **({NONE: row.no_guess} if row.no_guess else {})}


def _one(row: Mapping[str, Any]) -> SimpleNamespace:
    guess = NONE if row["guess"] is None else row["guess"]
    return SimpleNamespace(
        adversary=row["adversary"], user=row["user"], guess=guess, n=row["n"], confidence=row["confidence"]
    )


def _known(value: float | None) -> str:
    return "–" if value is None else decimal(value)


def _verdict(calibrated: bool | None) -> str:
    return "–" if calibrated is None else "yes" if calibrated else "no"


def _origin(found: Inferred, scenario: Scenario, reports: Path, posteriors: Path) -> list[tuple[str, str]]:
    paths = [shlex.quote(str(path)) for path in (reports, scenario.file, posteriors)]
    command = "poolscope attack {} --scenario {} --out {}".format(*paths)
    if found.threshold is not None:
        command += f" --threshold {found.threshold:g}"
    if found.joined is not None:
        command += f" --link-fdr {found.joined.rate:g}"
    verdict = "passed" if found.passed else "failed"
    return [
        ("Command", command),
        ("Verdict", verdict),
        ("Users", f"{found.users:,}"),
        ("Version", f"poolscope {__version__}"),
    ]
