"""What a person sees of an advice in a terminal."""

from __future__ import annotations

from pathlib import Path

from poolscope.cli.exit import as_options
from poolscope.cli.terminal import Grid, Terminal
from poolscope.core.counting import MIN_USERS
from poolscope.metrics.pools import PoolRecord
from poolscope.metrics.text import number
from poolscope.workflows.advise.records import Advice, Alternative, Case, Finding, Mitigation
from poolscope.workflows.advise.search import Trial
from poolscope.workflows.advise.text import NO_BETTER, asked, best_in_all, events, share_or_count, spent_in_words, total
from poolscope.workflows.advise.text import number as digits
from poolscope.workflows.advise.variants import MATCHED

#: Pools that a terminal shows at most.
POOLS = 12


def print_advice(advice: Advice, page: Path, seconds: float) -> None:
    """The question, what each mechanism can do, what the answer hangs on, measures, and the recommendation in words."""
    console = Terminal()
    console.say(asked(advice.question, advice.scenario))
    console.say(" ".join(advice.assumptions[:2]))
    _findings(advice).print(console)
    _sensitivity(advice).print(console)
    if advice.mitigations:
        _mitigations(advice.mitigations).print(console)
    _by_pool(advice).print(console)
    best = best_in_all(advice.alternatives)
    if not best:
        _alternatives(advice).print(console)
    console.say(advice.sentence)
    console.say(advice.recommendation.reason)
    if best and len(advice.findings) > 1:
        console.say(NO_BETTER)
    console.say(f"{spent_in_words(advice.recommendation, advice.recommended)}.")
    for line in (*advice.relaxations, *(as_options(note) for note in advice.notes)):
        console.say(line)
    recommended = page.parent / "recommended.toml"
    console.note(f"Seed {advice.seed}, {seconds:.1f} s. Play it: poolscope audit {recommended}. Page: {page}")


def _findings(advice: Advice) -> Grid:
    title = f"by {advice.question.horizon:,} {events(advice.scenario)}"
    heads = ("mechanism", "eps from", "to", "exposed", "95 %", "cap", "feasible", "limiting_constraint")
    grid = Grid(title=title, heads=heads, keys=1, left=("limiting_constraint",), box=None)
    for finding in advice.findings:
        grid.add(*_finding(finding, advice))
    grid.section()
    return grid


def _finding(finding: Finding, advice: Advice) -> tuple[str, ...]:
    at, largest = finding.at_epsilon_min, finding.epsilon_max
    return (
        finding.mechanism,
        "–" if finding.epsilon_min is None else digits(finding.epsilon_min),
        "–" if largest is None else digits(largest.value),
        *(("–", "–") if at is None else _shares(at)),
        "–" if at is None else _cap(at.cap.value, advice.horizon),
        finding.feasible,
        finding.limiting_constraint,
    )


def _sensitivity(advice: Advice) -> Grid:
    title = f"{advice.recommendation.mechanism} at epsilon {number(advice.recommendation.epsilon)}, what it hangs on"
    grid = Grid(title=title, heads=("variant", "exposed", "95 %", "cap"), keys=1, box=None)
    for case in advice.sensitivity:
        name = case.variant if case.about == "all" else f"{case.about}: {case.variant}"
        name += ", prior matched" * (case.about == "users" and case.prior == MATCHED)
        grid.add(name, *_shares(case), _cap(case.cap.value, advice.horizon))
    grid.section()
    return grid


def _by_pool(advice: Advice) -> Grid:
    """The verified users by preferred pool; of many pools, those whose users are exposed most."""
    found = advice.recommendation
    rows = sorted(found.by_pool, key=lambda one: -one.exposed.value) if len(found.by_pool) > POOLS else found.by_pool
    title = f"verified users by {found.cap:,} {events(advice.scenario)}" + f", the {POOLS} most exposed pools" * (
        len(found.by_pool) > POOLS
    )
    grid = Grid(title=title, heads=("preferred pool", "users", "exposed", "95 %"), keys=1, box=None)
    for one in rows[:POOLS]:
        shown = _shares(one) if one.users >= MIN_USERS else (share_or_count(one.exposed, one.users), "–")
        grid.add(one.pool, f"{one.users:,}", *shown)
    grid.section()
    return grid


def _alternatives(advice: Advice) -> Grid:
    heads = ("alternatives", "mechanism", "eps", "total", "exposed", "95 %", "cap", "error", "feasible")
    title = f"by {advice.question.horizon:,} {events(advice.scenario)}, without a cap"
    grid = Grid(title=title, heads=heads, keys=1, left=("mechanism",), box=None)
    for one in advice.alternatives:
        error = "–" if one.rmse is None else digits(one.rmse)
        cap = _cap(one.cap.value, advice.horizon)
        epsilons = digits(one.epsilon), total(one.total_epsilon)
        grid.add(one.criterion, one.mechanism, *epsilons, *_shares(one), cap, error, one.meets_targets)
    grid.section()
    return grid


def _mitigations(mitigations: tuple[Mitigation, ...]) -> Grid:
    heads = ("mitigation", "eps", "devices", "exposed", "95 %")
    grid = Grid(title="for the same error of the frequencies", heads=heads, keys=1, box=None)
    for entry in mitigations:
        grid.add(entry.mitigation, digits(entry.epsilon), f"× {digits(entry.devices)}", *_shares(entry))
    grid.section()
    return grid


def _shares(entry: Alternative | Case | Mitigation | PoolRecord | Trial) -> tuple[str, str]:
    share = entry.exposed
    return f"{100 * share.value:.1f} %", f"{100 * share.low:.1f}-{100 * share.high:.1f}"


def _cap(value: float, horizon: int) -> str:
    return f"≥ {horizon:,}" if value >= horizon else f"{value:,.0f}"
