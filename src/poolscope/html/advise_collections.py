"""Render an advice on several collections as one self-contained HTML report."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any, NamedTuple

from poolscope.core.counting import counted
from poolscope.core.errors import as_options
from poolscope.figures.advise import pictures
from poolscope.html.glossary import ADVICE, explained
from poolscope.html.options import PoolRow, share_or_text
from poolscope.html.render import origin, placed, render
from poolscope.html.tables import Column, interval, share, table, three_digits
from poolscope.metrics.intervals import Estimate
from poolscope.workflows.advise.collection_records import CollectionsAdvice
from poolscope.workflows.advise.collection_text import answer_of, points, question_text, refusal_of
from poolscope.workflows.advise.search import NO, UNDECIDED, YES, verdict
from poolscope.workflows.advise.text import digits, format_total_epsilon, number

HEADINGS = {
    YES: "Recommended",
    NO: "No allocation meets the targets; closest",
    UNDECIDED: "Recommended, but undecided: the 95% CI contains the target",
}

COSTS = (
    "Exposed alone: by the reports of this collection only. Exposed without it: by those of all others. The cost is "
    "the share exposed by all together minus that without the collection, of the same held-out users."
)

SEARCH = (
    "From equal shares, a collection gives and another takes what this frees, as long as errors or caps improve on the "
    "whole. The last step is then refined with more users by a common factor, and verified by held-out users."
)

LIMITATIONS = (
    "The exposure is that of this adversary and these users, not a bound for every adversary.",
    "Links between attribute and pools are assumptions: with other links, another allocation may be better.",
    "Exposed is not the same as correctly guessed: the adversary may be confident and wrong.",
    "An exchange finds an allocation that no further exchange improves. There may be a better one far from it.",
)


class StepRow(NamedTuple):
    """The row of a step of the allocation."""

    step: str
    moved: str
    settings: str
    users: int
    exposed: Estimate
    gain: float


def collections_page(advice: CollectionsAdvice) -> str:
    """Return the report as HTML; every name is escaped."""
    found, question = advice.recommendation, advice.question
    costs, curve = placed(pictures(advice))
    answer = answer_of(found, advice.collections, question)
    return render(
        "advice_collections.html.j2",
        title=advice.scenario.title.strip() or advice.scenario.name,
        words=_lead(advice, answer),
        facts=list(_facts(advice)),
        tiles=_tiles(advice),
        question=question_text(question),
        refusal=refusal_of(found),
        answer=answer,
        reason=found.reason,
        notes=[as_options(line) for line in advice.notes],
        relaxations=list(advice.relaxations),
        collections=_collections(advice),
        costs=costs,
        costs_note=COSTS,
        search_note=SEARCH,
        steps=_steps(advice),
        curve=curve,
        by_value=_by_value(advice),
        bounds=list(_bounds(advice)),
        assumptions=list(advice.assumptions),
        limitations=LIMITATIONS,
        glossary=explained(ADVICE),
        origin=origin(
            command_of(advice), seed=advice.seed, users=found.users, version=advice.version, seconds=advice.seconds
        ),
        scenario=advice.recommended.text,
        version=advice.version,
    )


def _lead(advice: CollectionsAdvice, answer: dict[str, str]) -> str:
    """Return the first line of the answer."""
    if "Closest" in answer:
        return f"{refusal_of(advice.recommendation)} Closest: {answer['Closest']}."
    return f"Recommended: {answer['Recommended']}."


def _facts(advice: CollectionsAdvice) -> Iterator[str]:
    found, question = advice.recommendation, advice.question
    yield f"{question.adversary} adversary: {advice.adversary}"
    users = advice.assumptions[1].rstrip(".")
    yield f"{users[:1].lower()}{users[1:]}"
    yield f"{counted(len(advice.collections), 'collection')}, ε from {question.lowest:g} to {question.highest:g}"
    yield counted(found.users, "held-out user")


def _tiles(advice: CollectionsAdvice) -> dict[str, Any]:
    """Return the key numbers: the joint exposure, and what each collection is set to and costs."""
    found, question = advice.recommendation, advice.question
    by = min(question.horizon, found.last_day)
    undecided = verdict(found.exposed, question.max_exposed) == UNDECIDED
    target = f"target ≤ {100 * question.max_exposed:g}%" + ", undecided" * undecided
    tiles = [
        {
            "value": f"{digits(found.exposed.value)}%",
            "label": f"of users exposed by {by:,} days, all collections together; {target}",
            "interval": f"{interval(found.exposed, digits)}%",
        }
    ]
    tiles += [
        {
            "value": f"ε {one.epsilon:g}",
            "label": f"{one.collection}, {one.mechanism}, cap {counted(one.cap, 'report')}",
            "interval": f"cost: {points(one)}",
        }
        for one in advice.collections
    ]
    return {"heading": HEADINGS[found.meets_targets], "tiles": tiles}


def _collections(advice: CollectionsAdvice) -> dict[str, Any]:
    by = f"By {advice.recommendation.last_day:,} days, % of users"
    return table(
        "Collections",
        advice.collections,
        (
            Column("epsilon", "ε", "per report", "{:g}".format),
            Column("epsilon_min", "ε", "min (utility)", three_digits),
            Column("cap", "Cap", "reports", "{:,}".format),
            Column("days", "Cap", "days", "{:,}".format),
            Column("rmse", "RMSE", "analytical", three_digits),
            Column("empirical_rmse", "RMSE", "simulated", three_digits),
            Column("max_error", "RMSE", "target", three_digits),
            Column("exposed_alone", by, "exposed alone", share),
            Column("exposed_without", by, "exposed without it", share),
            Column("cost", by, "cost", share),
            Column("limiting_constraint", "", "limited by", str),
        ),
        block=("mechanism", "Mechanism"),
        row=("collection", "Collection"),
    )


def _steps(advice: CollectionsAdvice) -> dict[str, Any]:
    rows = [
        StepRow(
            step=f"{number}. {one.step}",
            moved=" to ".join(name for name in (one.giver, one.taker) if name) or "–",
            settings=", ".join(f"{own.collection} {own.epsilon:.3g} ({own.days:,})" for own in one.settings),
            users=one.users,
            exposed=one.exposed,
            gain=one.gain,
        )
        for number, one in enumerate(advice.steps, start=1)
    ]
    columns = (
        Column("exposed", "", "Exposed, % of users", share),
        Column("users", "", "Users", "{:,}".format),
        Column("gain", "", "Gain, sum of logs", "{:.2f}".format),
        Column("settings", "", "ε (days)", str),
    )
    return table("Allocation", rows, columns, block=("moved", "From, to"), row=("step", "Step"))


def _by_value(advice: CollectionsAdvice) -> dict[str, Any]:
    """Return the held-out users by value of the attribute; shares of fewer than 20 users are counts."""
    found = advice.recommendation
    by = f"By {found.last_day:,} days, % of users"
    columns = (
        Column("users", "", "Users", "{:,}".format),
        Column("exposed", by, "exposed", share_or_text),
        Column("precision", by, "correct", share_or_text),
    )
    rows = [PoolRow.of(record) for record in found.by_value]
    label = "Held-out users by value of the attribute"
    return table(label, rows, columns, block=("adversary", "Adversary"), row=("pool", "Value"))


def _bounds(advice: CollectionsAdvice) -> Iterator[str]:
    found = advice.recommendation
    correct, ends = digits(found.precision.value), f"{digits(found.precision.low)}–{digits(found.precision.high)}%"
    text = (
        f"By {counted(found.last_day, 'day')}, this adversary is correct for {correct}% of the users (95% CI {ends}; "
        f"random: {digits(found.baseline)}%). "
    )
    if digits(found.success_bound) != "100":
        yield text + f"No adversary is correct for more than {digits(found.success_bound)}% of them."
    else:
        yield text + "For these numbers of reports, ε gives no bound below 100%."
    if found.epsilon_day is not None and found.epsilon_year is not None:
        year = format_total_epsilon(found.epsilon_year)
        yield f"All collections together have ε = {number(found.epsilon_day)} per day and {year} per year."


def command_of(advice: CollectionsAdvice) -> str:
    """Return the command that reproduces the advice."""
    asked = advice.question
    words = [
        f"poolscope advise {shlex.quote(advice.scenario.file)} --max-exposed {asked.max_exposed:g}",
        f"--threshold {asked.threshold:g} --horizon {asked.horizon}",
        *(f"--max-error {shlex.quote(f'{name}={error:g}')}" for name, error in asked.max_errors.items()),
        *([] if asked.devices is None else [f"--devices {asked.devices}"]),
        f"--adversary {shlex.quote(asked.adversary)} --epsilon {asked.lowest:g}:{asked.highest:g}",
        f"--users {asked.users} --tolerance {asked.tolerance:g} --prefer {asked.prefer}",
    ]
    return " ".join([*words, f"--seed {advice.seed}"])
