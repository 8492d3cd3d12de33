"""Render an advice as one self-contained HTML report, for the person who approves a deployment."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from poolscope.core.counting import counted
from poolscope.core.errors import as_options
from poolscope.core.files import located_os_errors
from poolscope.core.tables.atomic import write_text
from poolscope.figures.advise import pictures
from poolscope.html.advise_collections import collections_page
from poolscope.html.glossary import ADVICE, explained
from poolscope.html.legal import legal_of, useful_in_words
from poolscope.html.options import PoolRow, options_of, share_or_text, usefulness_of
from poolscope.html.render import origin, placed, render
from poolscope.html.tables import Column, interval, share, table, three_digits
from poolscope.metrics.intervals import Estimate, known_value
from poolscope.workflows.advise.advise import DELTA
from poolscope.workflows.advise.collection_records import CollectionsAdvice
from poolscope.workflows.advise.records import Advice, Finding
from poolscope.workflows.advise.search import NO, UNDECIDED, YES, verdict
from poolscope.workflows.advise.text import (
    NO_BETTER,
    answer_of,
    best_in_all,
    digits,
    events,
    format_total_epsilon,
    number,
    question_text,
    refusal_of,
    spent_in_words,
)

HEAVY = (
    "Read the row of the heavy users: users with little interest in the pools lower the share of all users. The cap is "
    "the largest that meets the target under that assumption, up to the horizon of the simulation."
)

LIMITATIONS = (
    "The exposure is that of this adversary and these users, not a bound for every adversary.",
    "Exposed is not the same as correctly guessed: the adversary may be confident and wrong.",
    "The simulation covers no events beyond its horizon, and no information other than the reports.",
)


HEADINGS = {
    YES: "Recommended",
    NO: "No configuration meets the targets; closest",
    UNDECIDED: "Recommended, but undecided: the 95% CI contains the target",
}


def refusal(advice: Advice) -> str:
    """Return that no configuration meets the targets; an empty text where one does or may."""
    return refusal_of(advice.recommendation, advice.question)


def answer(advice: Advice) -> dict[str, str]:
    """Return the advice in four lines, see `answer_of`."""
    return answer_of(advice.recommendation, advice.question, advice.scenario)


@dataclass(frozen=True, kw_only=True)
class MechanismRow:
    """The row of a mechanism."""

    mechanism: str
    feasible: str
    epsilon_min: float | None
    epsilon_max: Estimate
    exposed: Estimate
    cap: Estimate
    error: float | None
    limiting_constraint: str


def write_page(advice: Advice | CollectionsAdvice, out: Path) -> Path:
    """Write ``advice.html`` into the advice's folder and return its path."""
    html = collections_page(advice) if isinstance(advice, CollectionsAdvice) else page_of(advice)
    page = out / "advice.html"
    with located_os_errors(page):
        write_text(page, html)
    return page


def page_of(advice: Advice) -> str:
    """Return the report as HTML; every name is escaped."""
    what = events(advice.scenario)
    figures = placed(pictures(advice))
    return render(
        "advice.html.j2",
        title=advice.scenario.title.strip() or advice.scenario.name,
        words=_lead(advice),
        question=question_text(advice.question, advice.scenario),
        refusal=refusal(advice),
        answer=answer(advice),
        facts=list(_facts(advice)),
        tiles=_tiles(advice),
        sentence=advice.sentence,
        reason=advice.recommendation.reason,
        relaxations=list(advice.relaxations),
        notes=[as_options(line) for line in advice.notes],
        map=figures[0],
        curve=figures[1],
        findings=table(
            "Mechanisms",
            [_row(finding) for finding in advice.findings],
            (
                Column("epsilon_min", "", "ε min (utility)", _epsilon),
                Column("epsilon_max", "", "ε max (exposure)", _epsilon),
                Column("exposed", "At ε min", "exposed, % of users", share),
                Column("cap", "At ε min", "max cap", _count(advice.horizon)),
                Column("error", "", "RMSE at ε max", three_digits),
                Column("limiting_constraint", "", "limited by", str),
            ),
            block=("mechanism", "Mechanism"),
            row=("feasible", "Feasible"),
        ),
        legal=legal_of(advice),
        command=command_of(advice),
        useful=useful_in_words(advice),
        **options_of(advice),
        **usefulness_of(advice),
        alternatives=None if best_in_all(advice.alternatives) else _alternatives(advice),
        no_better=NO_BETTER,
        by_pool=_by_pool(advice),
        sensitivity=table(
            "Sensitivity analysis",
            advice.sensitivity,
            (
                Column("prior", "", "Adversary's prior", str),
                Column("exposed", "", "Exposed, % of users", share),
                Column("cap", "", f"Max cap, {what}", _count(advice.horizon)),
                Column("users", "", "Users", "{:,}".format),
            ),
            block=("about", "Assumption"),
            row=("variant", "Variant"),
        ),
        heavy=HEAVY,
        mitigations=_mitigations(advice),
        bounds=list(_bounds(advice)),
        assumptions=list(advice.assumptions),
        limitations=LIMITATIONS,
        glossary=explained(ADVICE),
        origin=_origin(advice),
        scenario=advice.recommended.text,
        version=advice.version,
    )


def _lead(advice: Advice) -> str:
    """Return the first lines of the answer as one paragraph."""
    lines = answer(advice)
    if "Closest" in lines:
        return f"{refusal(advice)} Closest: {lines['Closest']}."
    return f"Recommended: {lines['Recommended']}."


def _facts(advice: Advice) -> Iterator[str]:
    found = advice.recommendation
    yield f"{advice.question.adversary} adversary: {advice.adversary}"
    yield spent_in_words(found, advice.recommended)
    users = advice.assumptions[1].rstrip(".")
    yield f"{users[:1].lower()}{users[1:]}"
    tried = counted(len(advice.findings), "mechanism")
    yield f"{tried}, ε from {advice.question.lowest:g} to {advice.question.highest:g}"
    yield counted(found.users, "held-out user")


def _tiles(advice: Advice) -> dict[str, Any]:
    """Return the four key numbers."""
    found, question, what = advice.recommendation, advice.question, events(advice.scenario)
    tiles = [
        {"value": f"ε {found.epsilon:g}", "label": f"per report, {found.name}", "interval": ""},
        {"value": f"{found.cap:,}", "label": f"{what} per device (cap)", "interval": ""},
        _exposed_tile(advice, what),
    ]
    if found.errors is not None:
        label = f"RMSE of a frequency from {found.reports:,} reports"
        label += "" if question.max_error is None else f"; target ≤ {number(question.max_error)}"
        simulated = "" if found.empirical_errors is None else f"simulated: {number(found.empirical_errors.rmse)}"
        tiles.append({"value": number(found.errors.rmse), "label": label, "interval": simulated})
    return {"heading": HEADINGS[found.meets_targets], "tiles": tiles}


def _exposed_tile(advice: Advice, what: str) -> dict[str, str]:
    """Return the share of users exposed; its upper bound where the users are too few to decide."""
    found, question = advice.recommendation, advice.question
    exposed, undecided = found.exposed, verdict(found.exposed, question.max_exposed) == UNDECIDED
    value, ends = f"{digits(exposed.value)}%", f"{interval(exposed, digits)}%"
    if undecided or exposed.value == 0:
        value = f"≤ {digits(exposed.high)}%"
        ends = f"{round(exposed.value * found.users):,} of {counted(found.users, 'user')}"
    target = f"target ≤ {100 * question.max_exposed:g}%" + ", undecided" * undecided
    label = f"of users exposed by {min(found.cap, question.horizon):,} {what}; {target}"
    return {"value": value, "label": label, "interval": ends}


def _row(finding: Finding) -> MechanismRow:
    unknown, at = known_value(float("nan")), finding.at_epsilon_min
    return MechanismRow(
        mechanism=finding.name,
        feasible=finding.feasible,
        epsilon_min=finding.epsilon_min,
        epsilon_max=finding.epsilon_max or unknown,
        exposed=at.exposed if at else unknown,
        cap=at.cap if at else unknown,
        error=finding.rmse_at_epsilon_max,
        limiting_constraint=finding.limiting_constraint,
    )


def _alternatives(advice: Advice) -> dict[str, Any]:
    """Return the mechanism that is best in each criterion."""
    by = f"n = {advice.question.horizon:,}, no cap"
    return table(
        "Alternatives",
        advice.alternatives,
        (
            Column("name", "", "Mechanism", str),
            Column("epsilon", "ε", "per report", number),
            Column("total_epsilon", "ε", "in total", format_total_epsilon),
            Column("exposed", by, "exposed, % of users", share),
            Column("cap", by, "max cap", _count(advice.horizon)),
            Column("rmse", "", "RMSE", three_digits),
        ),
        block=("meets_targets", "Feasible"),
        row=("criterion", "Best in"),
    )


def _by_pool(advice: Advice) -> dict[str, Any]:
    """Return the held-out users by preferred pool, at the cap; shares of fewer than 20 users are counts."""
    found, what = advice.recommendation, events(advice.scenario)
    rows = [PoolRow.of(record) for record in found.by_pool]
    columns = (
        Column("users", "", "Users", "{:,}".format),
        Column("exposed", f"By {found.cap:,} {what}, % of users", "exposed", share_or_text),
        Column("precision", f"By {found.cap:,} {what}, % of users", "correct", share_or_text),
    )
    row = ("pool", "Preferred pool")
    return table("Held-out users by preferred pool", rows, columns, block=("adversary", "Adversary"), row=row)


def _mitigations(advice: Advice) -> dict[str, Any] | None:
    if not advice.mitigations:
        return None
    return table(
        "Mitigations",
        advice.mitigations,
        (
            Column("exposed", "% of users", "exposed", share),
            Column("confident", "% of users", "confident at the end", share),
            Column("epsilon", "", "ε", number),
            Column("devices", "", "Devices, factor", number),
            Column("cost", "", "Cost", str),
        ),
        block=("mechanism", "Mechanism"),
        row=("mitigation", "Mitigation"),
    )


def _bounds(advice: Advice) -> Iterator[str]:
    found = advice.recommendation
    correct, ends = digits(found.precision.value), f"{digits(found.precision.low)}–{digits(found.precision.high)}%"
    text = (
        f"At the cap, this adversary is correct for {correct}% of the users (95% CI {ends}; random: "
        f"{digits(found.baseline)}%). "
    )
    if digits(found.success_bound) != "100":
        yield text + f"No adversary is correct for more than {digits(found.success_bound)}% of them."
    else:
        yield text + "For this number of reports, ε gives no bound below 100%."
    spent = found.cumulative_epsilon
    if spent.response is not None and spent.total is not None:
        yield (
            f"Each memoized response has ε = {number(spent.response)}; up to the cap they compose to "
            f"ε = {number(spent.total)}. No ε covers that reports of one memoized response can be linked."
        )
    elif spent.total is not None:
        yield f"All reports of a device up to its cap compose to ε = {spent.total:,.0f}."
    if found.shuffle_epsilon is not None:
        total = found.shuffle_epsilon_total
        rounds = "" if total is None else f", and {number(total)} for all reports up to the cap"
        yield (
            f"With a trusted shuffler, one report of each of {advice.question.devices:,} devices would satisfy central "
            f"ε = {number(found.shuffle_epsilon)} at δ = {DELTA:g}{rounds}. The other numbers assume no shuffler."
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
    """Return the command that reproduces the advice."""
    asked = advice.question
    words = [
        f"poolscope advise {shlex.quote(advice.scenario.file)} --max-exposed {asked.max_exposed:g}",
        f"--threshold {asked.threshold:g} --horizon {asked.horizon}",
    ]
    if asked.max_error is not None:
        words.append(f"--max-error {asked.max_error:g} --devices {asked.devices}")
    words.append(f"--mechanism {','.join(asked.mechanisms)} --adversary {shlex.quote(asked.adversary)}")
    words.append(f"--epsilon {asked.lowest:g}:{asked.highest:g} --users {asked.users} --tolerance {asked.tolerance:g}")
    words.append(f"--prefer {asked.prefer}")
    words += [f"--consider {','.join(asked.consider)}"] if asked.consider else []
    words += ["--mitigations"] if advice.mitigations else []
    return " ".join([*words, f"--seed {advice.seed}"])


def _epsilon(value: float | None) -> str:
    return "–" if value is None or value != value else number(value)


def decimal_percent(value: float) -> str:
    """Return a share as a percentage to one decimal."""
    return f"{100 * value:.1f}%"


def cap_text(value: float, horizon: int) -> str:
    """Return a cap; "≥" where it reaches the horizon of the simulation."""
    return f"≥ {horizon:,}" if value >= horizon else f"{value:,.0f}"


def _count(horizon: int) -> Any:
    def form(value: float) -> str:
        return "–" if value != value else cap_text(value, horizon)

    return form
