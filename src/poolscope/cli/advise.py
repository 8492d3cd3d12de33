"""What a person sees of an advice in a terminal.

The command `advise`, whose options are many: parse, call, print.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from poolscope.cli.app import EngineOption, Scenario, Scheduler, command, waited
from poolscope.cli.exit import as_options
from poolscope.cli.terminal import Grid, Terminal
from poolscope.core.counting import MIN_USERS
from poolscope.html.tables import number
from poolscope.metrics.pools import PoolRecord
from poolscope.workflows.advise.recommend import NO_BETTER, best_in_all, total
from poolscope.workflows.advise.records import Advice, Alternative, Case, Finding, Mitigation
from poolscope.workflows.advise.search import Trial
from poolscope.workflows.advise.text import asked, events, share_or_count, spent_in_words
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
    for line in (*advice.gives, *(as_options(note) for note in advice.notes)):
        console.say(line)
    recommended = page.parent / "recommended.toml"
    console.note(f"Seed {advice.seed}, {seconds:.1f} s. Play it: poolscope audit {recommended}. Page: {page}")


def _findings(advice: Advice) -> Grid:
    title = f"by {advice.question.reports:,} {events(advice.scenario)}"
    heads = ("mechanism", "eps from", "to", "exposed", "95 %", "cap", "fits", "binds")
    grid = Grid(title=title, heads=heads, keys=1, left=("binds",), box=None)
    for finding in advice.findings:
        grid.add(*_finding(finding, advice))
    grid.section()
    return grid


def _finding(finding: Finding, advice: Advice) -> tuple[str, ...]:
    at, largest = finding.at_smallest, finding.largest
    return (
        finding.mechanism,
        "–" if finding.smallest is None else digits(finding.smallest),
        "–" if largest is None else digits(largest.value),
        *(("–", "–") if at is None else _shares(at)),
        "–" if at is None else _cap(at.cap.value, advice.horizon),
        finding.fits,
        finding.binds,
    )


def _sensitivity(advice: Advice) -> Grid:
    title = f"{advice.recommendation.mechanism} at epsilon {number(advice.recommendation.epsilon)}, what it hangs on"
    grid = Grid(title=title, heads=("case", "exposed", "95 %", "cap"), keys=1, box=None)
    for case in advice.sensitivity:
        name = case.case if case.about == "all" else f"{case.about}: {case.case}"
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
    heads = ("alternatives", "mechanism", "eps", "total", "exposed", "95 %", "cap", "error", "fits")
    title = f"by {advice.question.reports:,} {events(advice.scenario)}, without a cap"
    grid = Grid(title=title, heads=heads, keys=1, left=("mechanism",), box=None)
    for one in advice.alternatives:
        error = "–" if one.rmse is None else digits(one.rmse)
        cap = _cap(one.cap.value, advice.horizon)
        epsilons = digits(one.epsilon), total(one.total_epsilon)
        grid.add(one.criterion, one.mechanism, *epsilons, *_shares(one), cap, error, one.meets_targets)
    grid.section()
    return grid


def _mitigations(mitigations: tuple[Mitigation, ...]) -> Grid:
    heads = ("measure", "eps", "devices", "exposed", "95 %")
    grid = Grid(title="for the same error of the frequencies", heads=heads, keys=1, box=None)
    for entry in mitigations:
        grid.add(entry.measure, digits(entry.epsilon), f"× {digits(entry.devices)}", *_shares(entry))
    grid.section()
    return grid


def _shares(entry: Alternative | Case | Mitigation | PoolRecord | Trial) -> tuple[str, str]:
    share = entry.exposed
    return f"{100 * share.value:.1f} %", f"{100 * share.low:.1f}-{100 * share.high:.1f}"


def _cap(value: float, horizon: int) -> str:
    return f"≥ {horizon:,}" if value >= horizon else f"{value:,.0f}"


@command("poolscope advise apple-emojis --exposed 0.05 --error 0.002 --devices 200000 --mechanism cms,olh,oue")
def advise(
    scenario: Scenario,
    exposed: Annotated[float, typer.Option(metavar="SHARE", help="The most users who may be exposed, as 0.05.")],
    confidence: Annotated[
        float | None, typer.Option(help="From which on a user counts as exposed; default the threshold, or 0.9.")
    ] = None,
    reports: Annotated[int | None, typer.Option(help="By so many reports; default the scenario's last.")] = None,
    days: Annotated[float | None, typer.Option(help="The same in days, by reports_per_day of [devices].")] = None,
    error: Annotated[float | None, typer.Option(help="The most error (RMSE) of a frequency.")] = None,
    devices: Annotated[int | None, typer.Option(help="Devices that a frequency is estimated from.")] = None,
    mechanism: Annotated[str | None, typer.Option(metavar="NAME,...", help="Mechanisms to try.")] = None,
    adversary: Annotated[str | None, typer.Option(metavar="NAME", help="Who attacks; default the strongest.")] = None,
    epsilon: Annotated[str | None, typer.Option(metavar="LOW:HIGH", help="Where to look; default 0.1:10.")] = None,
    users: Annotated[
        int | None,
        typer.Option(help="Most users who search, and who verify; default by the target, 4,000 to 40,000."),
    ] = None,
    tolerance: Annotated[float | None, typer.Option(help="Widest interval at the border.")] = None,
    mitigations: Annotated[bool, typer.Option("--mitigations", help="Play measures side by side.")] = False,
    seed: Annotated[int, typer.Option(help="Same seed and users, same advice.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder; default poolscope-advise-SCENARIO.")] = None,
    engine: EngineOption = None,
    scheduler: Scheduler = None,
) -> None:
    """Say which epsilon, cap and mechanism meet what is asked of privacy and utility."""
    from poolscope.cli.progress import working

    with working("Advising") as work:
        from poolscope.cli.app import words
        from poolscope.cli.progress import running
        from poolscope.core.files import new_folder
        from poolscope.html.workflows import advise
        from poolscope.scenario.scenario import load_scenario
        from poolscope.workflows.advise.question import parse_range
        from poolscope.workflows.advise.search import NO

        loaded = load_scenario(scenario)
        folder = out or new_folder(f"poolscope-advise-{loaded.name}")
        with running(work, engine, scheduler) as own:
            done = advise(
                loaded,
                exposed=exposed,
                confidence=confidence,
                reports=reports,
                days=days,
                error=error,
                devices=devices,
                mechanisms=None if mechanism is None else words(mechanism),
                adversary=adversary,
                epsilon=None if epsilon is None else parse_range(epsilon),
                users=users,
                tolerance=tolerance,
                mitigations=mitigations,
                seed=seed,
                engine=own,
                out=folder,
                progress=work,
            )
    print_advice(done, folder / "advice.html", waited())
    raise typer.Exit(1 if done.recommendation.meets == NO else 0)
