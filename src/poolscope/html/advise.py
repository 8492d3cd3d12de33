"""An advice as one page that needs nothing else, for whoever must agree to it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from poolscope.core.counting import MIN_USERS, counted
from poolscope.core.errors import as_options
from poolscope.core.files import located_os_errors
from poolscope.core.tables.atomic import write_text
from poolscope.figures.advise import pictures
from poolscope.html.glossary import ADVICE, explained
from poolscope.html.render import origin, placed, render, tied
from poolscope.html.tables import Column, interval, share, table
from poolscope.metrics.intervals import Estimate, exactly
from poolscope.metrics.pools import PoolRecord
from poolscope.workflows.advise.advise import DELTA
from poolscope.workflows.advise.records import Advice, Finding
from poolscope.workflows.advise.search import NO, UNDECIDED, YES, verdict
from poolscope.workflows.advise.text import (
    NO_BETTER,
    asked,
    best_in_all,
    digits,
    events,
    number,
    share_or_count,
    spent_in_words,
    total,
    with_ends,
)
from poolscope.workflows.advise.text import share as in_percent

HEAVY = (
    "Read the row of the heavy users: a share of all users is kept low by those who hardly pick from the pools. The "
    "cap is the largest that meets the target under that assumption; nothing was played beyond the largest shown."
)


HEADINGS = {
    YES: "Recommended",
    NO: "Closest to what was asked for, which nothing meets",
    UNDECIDED: "Recommended, but undecided: these users cannot show that it meets all targets",
}


@dataclass(frozen=True, kw_only=True)
class Row:
    """What a mechanism can do, as the table has it."""

    mechanism: str
    feasible: str
    epsilon_min: float | None
    epsilon_max: Estimate
    exposed: Estimate
    cap: Estimate
    error: float | None
    limiting_constraint: str


@dataclass(frozen=True, kw_only=True)
class PoolRow:
    """The users of a preferred pool, as the table has them."""

    adversary: str
    pool: str
    users: int
    exposed: Estimate | str
    precision: Estimate | str

    @classmethod
    def of(cls, record: PoolRecord) -> PoolRow:
        """Write shares of few users as counts."""
        few, users = record.users < MIN_USERS, record.users
        return cls(
            adversary=record.adversary,
            pool=record.pool,
            users=users,
            exposed=share_or_count(record.exposed, users) if few else record.exposed,
            precision=share_or_count(record.precision, users) if few else record.precision,
        )


def write_page(advice: Advice, out: Path) -> Path:
    """Write ``advice.html`` into the advice's folder; returns the page."""
    html, page = page_of(advice), out / "advice.html"
    with located_os_errors(page):
        write_text(page, html)
    return page


def page_of(advice: Advice) -> str:
    """The page as HTML; every name is escaped."""
    what = events(advice.scenario).capitalize()
    figures = placed(pictures(advice))
    return render(
        "advice.html.j2",
        title=advice.scenario.title.strip() or advice.scenario.name,
        words=tied(asked(advice.question, advice.scenario)),
        facts=[tied(fact) for fact in _facts(advice)],
        tiles=_tiles(advice),
        sentence=tied(advice.sentence),
        reason=tied(advice.recommendation.reason),
        relaxations=[tied(line) for line in advice.relaxations],
        notes=[tied(as_options(line)) for line in advice.notes],
        map=figures[0],
        curve=figures[1],
        findings=table(
            "What each mechanism can do",
            [_row(finding) for finding in advice.findings],
            (
                Column("epsilon_min", "ε", "from, by the error", _epsilon),
                Column("epsilon_max", "ε", "to, by exposure", _epsilon),
                Column("exposed", "At the smallest ε", "% of users exposed", share),
                Column("cap", "At the smallest ε", "largest cap", _count(advice.horizon)),
                Column("error", "", "error at the largest ε", _error),
                Column("limiting_constraint", "", "what binds", str),
            ),
            block=("mechanism", "Mechanism"),
            row=("feasible", "Fits"),
        ),
        alternatives=None if best_in_all(advice.alternatives) else _alternatives(advice),
        no_better=NO_BETTER,
        by_pool=_by_pool(advice),
        sensitivity=table(
            "What the answer hangs on",
            advice.sensitivity,
            (
                Column("prior", "", "Adversary's prior", str),
                Column("exposed", "", "% of users exposed", share),
                Column("cap", "", f"Largest cap, {what.lower()}", _count(advice.horizon)),
                Column("users", "", "Users", "{:,}".format),
            ),
            block=("about", "What varies"),
            row=("variant", "Case"),
        ),
        heavy=HEAVY,
        mitigations=_mitigations(advice),
        bounds=[tied(line) for line in _bounds(advice)],
        assumptions=[tied(line) for line in advice.assumptions],
        glossary=explained(ADVICE),
        origin=_origin(advice),
        scenario=advice.recommended.text,
        version=advice.version,
    )


def _facts(advice: Advice) -> Iterator[str]:
    found = advice.recommendation
    yield f"{advice.question.adversary} adversary: {advice.adversary}"
    yield spent_in_words(found, advice.recommended)
    users = advice.assumptions[1].rstrip(".")
    yield f"{users[:1].lower()}{users[1:]}"
    tried = counted(len(advice.findings), "mechanism")
    yield f"{tried} tried, ε from {advice.question.lowest:g} to {advice.question.highest:g}"
    yield f"verified with {counted(found.users, 'held-out user')}"


def _tiles(advice: Advice) -> dict[str, Any]:
    """The four numbers to remember."""
    found, question, what = advice.recommendation, advice.question, events(advice.scenario)
    tiles = [
        {"value": f"ε {found.epsilon:g}", "label": f"of a report, with {found.mechanism}", "interval": ""},
        {"value": f"{found.cap:,}", "label": f"{what} of a device at most (the cap)", "interval": ""},
        _exposed_tile(advice, what),
    ]
    if found.errors is not None:
        label = f"error of a frequency (RMSE) from {found.reports:,} reports"
        label += "" if question.max_error is None else f"; asked: {number(question.max_error)}"
        simulated = "" if found.empirical_errors is None else f"simulated: {number(found.empirical_errors.rmse)}"
        tiles.append({"value": number(found.errors.rmse), "label": label, "interval": simulated})
    return {"heading": HEADINGS[found.meets_targets], "tiles": tiles}


def _exposed_tile(advice: Advice, what: str) -> dict[str, str]:
    """The share of users exposed; what it may be at most, where users are too few for the share alone to stand."""
    found, question = advice.recommendation, advice.question
    exposed, undecided = found.exposed, verdict(found.exposed, question.max_exposed) == UNDECIDED
    value, ends = f"{digits(exposed.value)} %", f"{interval(exposed, digits)} %"
    if undecided or exposed.value == 0:
        value = f"≤ {digits(exposed.high)} %"
        ends = f"{round(exposed.value * found.users):,} of {counted(found.users, 'user')}"
    asked = f"asked: {in_percent(question.max_exposed)}" + ", undecided" * undecided
    label = f"of users exposed by {min(found.cap, question.horizon):,} {what}; {asked}"
    return {"value": tied(value), "label": tied(label), "interval": tied(ends)}


def _row(finding: Finding) -> Row:
    unknown, at = exactly(float("nan")), finding.at_epsilon_min
    return Row(
        mechanism=finding.mechanism,
        feasible=finding.feasible,
        epsilon_min=finding.epsilon_min,
        epsilon_max=finding.epsilon_max or unknown,
        exposed=at.exposed if at else unknown,
        cap=at.cap if at else unknown,
        error=finding.rmse_at_epsilon_max,
        limiting_constraint=finding.limiting_constraint,
    )


def _alternatives(advice: Advice) -> dict[str, Any]:
    """What else could be chosen, with its price."""
    by = f"By {advice.question.horizon:,}, without a cap"
    return table(
        "Alternatives and their price",
        advice.alternatives,
        (
            Column("mechanism", "", "Mechanism", str),
            Column("epsilon", "ε", "per report", number),
            Column("total_epsilon", "ε", "in total", total),
            Column("exposed", by, "% of users exposed", share),
            Column("cap", by, "largest cap", _count(advice.horizon)),
            Column("rmse", "", "Error (RMSE)", _error),
        ),
        block=("meets_targets", "Fits"),
        row=("criterion", "Criterion"),
    )


def _by_pool(advice: Advice) -> dict[str, Any]:
    """The verified users by preferred pool, at the cap; shares of fewer than 20 of them are counts."""
    found, what = advice.recommendation, events(advice.scenario)
    rows = [PoolRow.of(record) for record in found.by_pool]
    columns = (
        Column("users", "", "Users", "{:,}".format),
        Column("exposed", f"By {found.cap:,} {what}, % of users", "exposed", _share_or_count),
        Column("precision", f"By {found.cap:,} {what}, % of users", "guessed correctly", _share_or_count),
    )
    row = ("pool", "Preferred pool")
    return table("Verified users by preferred pool", rows, columns, block=("adversary", "Adversary"), row=row)


def _mitigations(advice: Advice) -> dict[str, Any] | None:
    if not advice.mitigations:
        return None
    return table(
        "Measures side by side",
        advice.mitigations,
        (
            Column("exposed", "% of users", "exposed by then", share),
            Column("confident", "% of users", "sure at the end", share),
            Column("epsilon", "", "ε", number),
            Column("devices", "", "Devices, times", number),
            Column("cost", "", "What it costs", str),
        ),
        block=("mechanism", "Mechanism"),
        row=("mitigation", "Measure"),
    )


def _bounds(advice: Advice) -> Iterator[str]:
    found = advice.recommendation
    words = (
        f"This adversary names the preferred pool of {with_ends(found.precision)} of the users at the cap; a random "
        f"guess is right for {in_percent(found.baseline)}. "
    )
    if found.success_bound < 1:
        yield words + f"No adversary can be right about more than {in_percent(found.success_bound)} of them."
    else:
        yield words + "For so many reports epsilon alone bounds nobody: only the attack that was played tells."
    spent = found.cumulative_epsilon
    if spent.answer is not None and spent.total is not None:
        yield (
            f"Devices keep their answers, each of epsilon {number(spent.answer)}: up to the cap these add up to "
            f"{number(spent.total)}. That reports of one answer can be told to be so is in no epsilon."
        )
    elif spent.total is not None:
        yield f"All reports of a device up to its cap compose to epsilon {spent.total:,.0f}."
    if found.shuffle_epsilon is not None:
        total = found.shuffle_epsilon_total
        rounds = "" if total is None else f", and {number(total)} over all reports of the cap"
        yield (
            f"If one report of each of {advice.question.devices:,} devices were shuffled before anyone sees them, "
            f"their central epsilon would be {number(found.shuffle_epsilon)} at delta {DELTA:g}{rounds}. "
            "Nothing here assumes that."
        )


def _origin(advice: Advice) -> list[tuple[str, str]]:
    return origin(
        command_of(advice),
        seed=advice.seed,
        users=advice.recommendation.users,
        version=advice.version,
        seconds=advice.seconds,
    )


def command_of(advice: Advice) -> str:
    """The command that gives the same advice."""
    asked = advice.question
    words = [
        f"poolscope advise {shlex.quote(advice.scenario.file)} --max-exposed {asked.max_exposed:g}",
        f"--threshold {asked.threshold:g} --horizon {asked.horizon}",
    ]
    if asked.max_error is not None:
        words.append(f"--max-error {asked.max_error:g} --devices {asked.devices}")
    words.append(f"--mechanism {','.join(asked.mechanisms)} --adversary {shlex.quote(asked.adversary)}")
    words.append(f"--epsilon {asked.lowest:g}:{asked.highest:g} --users {asked.users} --tolerance {asked.tolerance:g}")
    words += ["--mitigations"] if advice.mitigations else []
    return " ".join([*words, f"--seed {advice.seed}"])


def _epsilon(value: float | None) -> str:
    return "–" if value is None or value != value else number(value)


def _error(value: float | None) -> str:
    return "–" if value is None else number(value)


def _share_or_count(value: float | str) -> str:
    return value if isinstance(value, str) else share(value)


def _count(horizon: int) -> Any:
    def form(value: float) -> str:
        return "–" if value != value else f"≥ {horizon:,}" if value >= horizon else f"{value:,.0f}"

    return form
