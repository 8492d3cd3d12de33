"""What a person sees of an advice in a terminal."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table

from poolscope.cli.terminal import Terminal
from poolscope.pages.numbers import number
from poolscope.verbs.advise.advice import Advice, Case, Finding, Mitigation
from poolscope.verbs.advise.words import asked, events
from poolscope.verbs.advise.words import number as digits


def print_advice(advice: Advice, page: Path, seconds: float) -> None:
    """The question, what each mechanism can do, what the answer hangs on, measures, and the recommendation in words."""
    console = Terminal()
    console.print(asked(advice.question, advice.scenario), highlight=False)
    console.print(_findings(advice))
    console.print(_sensitivity(advice))
    if advice.mitigations:
        console.print(_mitigations(advice.mitigations))
    console.print(advice.sentence, highlight=False)
    for line in (*advice.gives, *advice.notes):
        console.print(line, highlight=False)
    recommended = page.parent / "recommended.toml"
    console.note(f"Seed {advice.seed}, {seconds:.1f} s. Play it: poolscope audit {recommended}. Page: {page}")


def _findings(advice: Advice) -> Table:
    heads = ("eps from", "to", "exposed", "cap", "fits", "binds")
    table = _table(f"by {advice.question.reports:,} {events(advice.scenario)}", "mechanism", heads)
    for finding in advice.findings:
        table.add_row(*_finding(finding, advice))
    return table


def _finding(finding: Finding, advice: Advice) -> tuple[str, ...]:
    at, largest = finding.at_smallest, finding.largest
    return (
        finding.mechanism,
        "–" if finding.smallest is None else digits(finding.smallest),
        "–" if largest is None else digits(largest.value),
        "–" if at is None else f"{100 * at.exposed.value:.1f} %",
        "–" if at is None else _cap(at.cap.value, advice.horizon),
        "yes" if finding.fits else "no",
        finding.binds,
    )


def _sensitivity(advice: Advice) -> Table:
    title = f"{advice.recommendation.mechanism} at epsilon {number(advice.recommendation.epsilon)}, if"
    table = _table(title, "", ("exposed", "95 %", "cap"))
    for case in advice.sensitivity:
        table.add_row(_case(case), *_shares(case), _cap(case.cap.value, advice.horizon))
    return table


def _case(case: Case) -> str:
    return case.case if case.about == "all" else f"{case.about}: {case.case}"


def _mitigations(mitigations: tuple[Mitigation, ...]) -> Table:
    table = _table("for the same error of the frequencies", "measure", ("eps", "devices", "exposed", "95 %"))
    for entry in mitigations:
        table.add_row(entry.measure, digits(entry.epsilon), f"× {digits(entry.devices)}", *_shares(entry))
    return table


def _shares(entry: Case | Mitigation) -> tuple[str, str]:
    share = entry.exposed
    return f"{100 * share.value:.1f} %", f"{100 * share.low:.1f}-{100 * share.high:.1f}"


def _cap(value: float, horizon: int) -> str:
    return f"≥ {horizon:,}" if value >= horizon else f"{value:,.0f}"


def _table(title: str, first: str, heads: tuple[str, ...]) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(first)
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    return table
