"""Print an advice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from poolscope.cli.advise_collections import print_collections
from poolscope.cli.terminal import Terminal, TextTable
from poolscope.core.counting import MIN_USERS
from poolscope.core.errors import InputError, as_options
from poolscope.html.advise import answer, cap_text, decimal_percent, refusal
from poolscope.html.tables import three_digits
from poolscope.metrics.gates import GateResult
from poolscope.metrics.pools import PoolRecord
from poolscope.metrics.text import number
from poolscope.metrics.usefulness import Usefulness, describe_usefulness
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.advise.collection_records import CollectionsAdvice
from poolscope.workflows.advise.prices import STAR, option_label
from poolscope.workflows.advise.question import DEFAULT_REPORTS
from poolscope.workflows.advise.records import Advice, Alternative, Case, Finding, Mitigation, Option
from poolscope.workflows.advise.search import NO, UNDECIDED, Trial
from poolscope.workflows.advise.text import (
    NO_BETTER,
    best_in_all,
    events,
    format_total_epsilon,
    question_text,
    share_or_count,
    spent_in_words,
)
from poolscope.workflows.advise.text import number as digits
from poolscope.workflows.advise.variants import MATCHED

#: Largest number of pools in a table.
MAX_POOLS = 12

#: Options whose price is printed at most; `advice.json` and `advice.html` have all.
MAX_PRICES = 6

CI = "95% CI"


def error_targets(given: Sequence[str], scenario: Scenario) -> Any:
    """Parse options as 0.002 or emojis=0.002: a number, with several collections a number for each that has one."""
    names = [own.name for own in scenario.collections]
    targets: dict[str, float] = {}
    for text in given:
        name, equals, number = text.rpartition("=")
        if equals and not names:
            raise InputError("must be a number where there is one collection", value=text, place="--max-error")
        try:
            error = float(number)
        except ValueError:
            rule = "must be a number, or NAME=NUMBER with several collections"
            raise InputError(rule, value=text, place="--max-error") from None
        for own in [name] if equals else names or [""]:
            if own in targets:
                raise InputError("must be given once", value=text, place="--max-error")
            targets[own] = error
    return targets if names else targets.get("")


def print_advice(advice: Advice | CollectionsAdvice, report: Path, seconds: float) -> None:
    """Print an advice on one collection or on several."""
    console = Terminal()
    if isinstance(advice, CollectionsAdvice):
        print_collections(advice, console)
    else:
        print_mechanisms(advice, console)
    for note in advice.notes:
        console.say(as_options(note))
    recommended = report.parent / "recommended.toml"
    console.note(f"Seed {advice.seed}, {seconds:.1f} s. Audit it: poolscope audit {recommended}. Report: {report}")


def print_mechanisms(advice: Advice, console: Terminal) -> None:
    """Print the recommendation in four lines, then what each mechanism can do, and the sensitivity."""
    if text := refusal(advice):
        console.say(text)
    lines = answer(advice)
    width = max(map(len, lines))
    for name, line in lines.items():
        console.say_item(name, line, width)
    for line in advice.relaxations:
        console.say(line)
    console.say(f"Question: {question_text(advice.question, advice.scenario)}")
    console.say(" ".join(advice.assumptions[:2]))
    _findings(advice).print(console)
    _sensitivity(advice).print(console)
    if advice.mitigations:
        _mitigations(advice.mitigations).print(console)
    _by_pool(advice).print(console)
    best = best_in_all(advice.alternatives)
    if not best:
        _alternatives(advice).print(console)
    _options(advice).print(console)
    for option in advice.options[1 : 1 + MAX_PRICES]:
        console.say_item(option.name, option.price, max(len(one.name) for one in advice.options))
    console.say(advice.recommendation.reason)
    if advice.usefulness is not None:
        console.say(describe_usefulness(advice.usefulness))
        _over_time(advice, advice.usefulness).print(console)
    console.say(f"{spent_in_words(advice.recommendation, advice.recommended)}.")
    if best and len(advice.findings) > 1:
        console.say(NO_BETTER)


def as_gate(advice: Advice | CollectionsAdvice) -> GateResult:
    """Return whether the recommendation meets its targets as the verdict of a gate; an undecided one passes."""
    found = advice.recommendation.meets_targets
    return GateResult(
        condition="the recommendation meets the targets",
        passed=found != NO,
        uncertain=found == UNDECIDED,
        reason=advice.sentence,
    )


def _findings(advice: Advice) -> TextTable:
    title = f"Mechanisms, horizon {advice.question.horizon:,} {events(advice.scenario)}"
    heads = ("mechanism", "ε min\n(utility)", "ε max\n(exposure)", "exposed\nat ε min", CI, "max cap", "feasible")
    table = TextTable(title=title, heads=(*heads, "limited by"), keys=1, left=("limited by",), box=None)
    for finding in advice.findings:
        table.add(*_finding(finding, advice))
    table.section()
    return table


def _finding(finding: Finding, advice: Advice) -> tuple[str, ...]:
    at, largest = finding.at_epsilon_min, finding.epsilon_max
    return (
        finding.name,
        "–" if finding.epsilon_min is None else digits(finding.epsilon_min),
        "–" if largest is None else digits(largest.value),
        *(("–", "–") if at is None else _shares(at)),
        "–" if at is None else cap_text(at.cap.value, advice.horizon),
        finding.feasible,
        finding.limiting_constraint,
    )


def _sensitivity(advice: Advice) -> TextTable:
    found = advice.recommendation
    title = f"Sensitivity analysis: {found.name} at ε = {number(found.epsilon)}"
    table = TextTable(title=title, heads=("variant", "exposed", CI, "max cap"), keys=1, box=None)
    for case in advice.sensitivity:
        name = case.variant if case.about == "all" else f"{case.about}: {case.variant}"
        name += ", prior matched" * (case.about == "users" and case.prior == MATCHED)
        table.add(name, *_shares(case), cap_text(case.cap.value, advice.horizon))
    table.section()
    return table


def _by_pool(advice: Advice) -> TextTable:
    """Return the held-out users by preferred pool; of many pools, those with the most exposed users."""
    found, unit = advice.recommendation, events(advice.scenario)
    some = len(found.by_pool) > MAX_POOLS
    rows = sorted(found.by_pool, key=lambda one: -one.exposed.value) if some else found.by_pool
    title = f"Held-out users by preferred pool, n = {found.cap:,} {unit}" + f", {MAX_POOLS} most exposed pools" * some
    table = TextTable(title=title, heads=("preferred pool", "users", "exposed", CI), keys=1, box=None)
    for one in rows[:MAX_POOLS]:
        shares = _shares(one) if one.users >= MIN_USERS else (share_or_count(one.exposed, one.users), "–")
        table.add(one.pool, f"{one.users:,}", *shares)
    table.section()
    return table


def _alternatives(advice: Advice) -> TextTable:
    heads = ("best in", "mechanism", "ε", "total ε", "exposed", CI, "max cap", "RMSE", "feasible")
    title = f"Alternatives, horizon {advice.question.horizon:,} {events(advice.scenario)}, no cap"
    table = TextTable(title=title, heads=heads, keys=1, left=("mechanism",), box=None)
    for one in advice.alternatives:
        cap, epsilons = (
            cap_text(one.cap.value, advice.horizon),
            (digits(one.epsilon), format_total_epsilon(one.total_epsilon)),
        )
        table.add(one.criterion, one.name, *epsilons, *_shares(one), cap, three_digits(one.rmse), one.meets_targets)
    table.section()
    return table


def _mitigations(mitigations: tuple[Mitigation, ...]) -> TextTable:
    heads = ("mitigation", "ε", "devices", "exposed", CI)
    table = TextTable(title="Mitigations at equal RMSE", heads=heads, keys=1, box=None)
    for entry in mitigations:
        table.add(entry.mitigation, digits(entry.epsilon), f"× {digits(entry.devices)}", *_shares(entry))
    table.section()
    return table


def _options(advice: Advice) -> TextTable:
    """Return every configuration that was played, the recommended one first."""
    by = f"n = {advice.question.horizon:,}"
    heads = ("option", "ε per\nreport", "per day", "per year", f"by\n{by}", "cap", "exposed", CI, "RMSE", "meets")
    title = f"Options by {advice.question.prefer}, {by} {events(advice.scenario)}; {STAR} is Pareto-optimal"
    table = TextTable(title=title, heads=heads, keys=1, box=None)
    for one in advice.options:
        spent = one.cumulative_epsilon
        table.add(
            option_label(one),
            digits(one.epsilon),
            *("–" if total is None else format_total_epsilon(total) for total in (spent.day, spent.year)),
            format_total_epsilon(one.total_epsilon),
            f"{one.cap:,}",
            *_shares(one),
            three_digits(one.rmse),
            one.meets_targets,
        )
    table.section()
    return table


def _over_time(advice: Advice, found: Usefulness) -> TextTable:
    """Return the error as each device sends more reports, with and without the cap."""
    devices = advice.question.devices or DEFAULT_REPORTS
    title = f"Error over time, {devices:,} devices"
    heads = ("days", "events", "reports", "RMSE", "RMSE\nwithout cap", "objects\nabove 2 SE")
    table = TextTable(title=title, heads=heads, keys=1, box=None)
    for one in found.over_time:
        table.add(
            "–" if one.days is None else f"{one.days:g}",
            f"{one.events:,}",
            digits(one.reports),
            digits(one.rmse),
            digits(one.rmse_uncapped),
            f"{one.n_above:,}",
        )
    table.section()
    return table


def _shares(entry: Alternative | Option | Case | Mitigation | PoolRecord | Trial) -> tuple[str, str]:
    share = entry.exposed
    return decimal_percent(share.value), f"{100 * share.low:.1f}–{100 * share.high:.1f}%"
