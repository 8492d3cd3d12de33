"""Print an advice on several collections."""

from __future__ import annotations

from poolscope.cli.terminal import Terminal, TextTable
from poolscope.core.counting import MIN_USERS
from poolscope.html.advise import decimal_percent
from poolscope.metrics.intervals import Estimate
from poolscope.workflows.advise.collection_records import CollectionsAdvice
from poolscope.workflows.advise.collection_text import answer_of, question_text, refusal_of
from poolscope.workflows.advise.text import number, share_or_count

CI = "95% CI"

#: Largest number of values in a table.
MAX_VALUES = 12


def print_collections(advice: CollectionsAdvice, console: Terminal) -> None:
    """Print the recommendation in five lines, then each collection with its cost, the search, and users by value."""
    found = advice.recommendation
    if text := refusal_of(found):
        console.say(text)
    lines = answer_of(found, advice.collections, advice.question)
    width = max(map(len, lines))
    for name, line in lines.items():
        console.say_item(name, line, width)
    for line in advice.relaxations:
        console.say(line)
    console.say(f"Question: {question_text(advice.question)}")
    console.say(" ".join(advice.assumptions[:2]))
    _collections(advice).print(console)
    _steps(advice).print(console)
    _by_value(advice).print(console)
    console.say(found.reason)
    if found.epsilon_day is not None and found.epsilon_year is not None:
        console.say(f"All collections: ε = {found.epsilon_day:,.4g} per day, {found.epsilon_year:,.6g} per year.")


def _collections(advice: CollectionsAdvice) -> TextTable:
    title = f"Collections, {advice.recommendation.users:,} held-out users, by {advice.recommendation.last_day:,} days"
    heads = ("collection", "ε per\nreport", "cap,\nreports", "days", "RMSE", "ε min\n(utility)", "exposed\nalone")
    more = ("exposed\nwithout it", "cost,\npoints", CI, "limited by")
    table = TextTable(title=title, heads=(*heads, *more), keys=1, left=("limited by",), box=None)
    for one in advice.collections:
        low, high = (100 * end for end in one.cost[1:])
        table.add(
            one.collection,
            f"{one.epsilon:g}",
            f"{one.cap:,}",
            f"{one.days:,}",
            number(one.rmse),
            "–" if one.epsilon_min is None else number(one.epsilon_min),
            decimal_percent(one.exposed_alone.value),
            decimal_percent(one.exposed_without.value),
            f"{100 * one.cost.value:.1f}",
            f"{low:.1f} to {high:.1f}",
            one.limiting_constraint,
        )
    table.section()
    return table


def _steps(advice: CollectionsAdvice) -> TextTable:
    names = [one.collection for one in advice.collections]
    title = f"Allocation, {advice.steps[0].users:,} users of the search"
    heads = ("step", *(f"{name}\nε, days" for name in names), "exposed", CI)
    table = TextTable(title=title, heads=heads, keys=1, box=None)
    for one in advice.steps:
        moved = " to ".join(name for name in (one.giver, one.taker) if name)
        settings = (f"{number(own.epsilon)}, {own.days:,}" for own in one.settings)
        table.add(f"{one.step}{': ' * bool(moved)}{moved}", *settings, *_shares(one.exposed))
    table.section()
    return table


def _by_value(advice: CollectionsAdvice) -> TextTable:
    """Return the held-out users by the value of their attribute; of many values, those with the most exposed users."""
    found = advice.recommendation
    rows = sorted(found.by_value, key=lambda one: -one.exposed.value) if len(found.by_value) > MAX_VALUES else None
    title = f"Held-out users by value of the attribute, by {found.last_day:,} days"
    table = TextTable(title=title, heads=("value", "users", "exposed", CI), keys=1, box=None)
    for one in (rows or found.by_value)[:MAX_VALUES]:
        shares = _shares(one.exposed) if one.users >= MIN_USERS else (share_or_count(one.exposed, one.users), "–")
        table.add(one.pool, f"{one.users:,}", *shares)
    table.section()
    return table


def _shares(found: Estimate) -> tuple[str, str]:
    return decimal_percent(found.value), f"{100 * found.low:.1f}–{100 * found.high:.1f}%"
