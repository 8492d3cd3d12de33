"""The command `inspect`, and the tables that it and `attack` print."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from poolscope.cli.app import (
    SOURCES,
    AllowNetwork,
    CollectionOption,
    Columns,
    EngineOption,
    Json,
    Query,
    ScenarioOption,
    Scheduler,
    Time,
    command,
    one_or_many,
    reading_options,
)
from poolscope.cli.terminal import Terminal, TextTable
from poolscope.core.errors import visible

if TYPE_CHECKING:
    from poolscope.workflows.attack.explanation import Explanations
    from poolscope.workflows.attack.inspection import Inspection

STYLES = {"pass": "green", "warn": "yellow", "fail": "red", "skip": "dim"}


@command("poolscope inspect reports.parquet --scenario mine.toml")
def inspect(
    reports: Annotated[list[str], typer.Argument(metavar="REPORTS...", help=f"Reports: {SOURCES}.")],
    scenario: ScenarioOption,
    pools: Annotated[Path | None, typer.Option(help="Use other pools: a table object,pool.")] = None,
    collection: CollectionOption = None,
    column: Columns = None,
    time: Time = None,
    query: Query = None,
    allow_network: AllowNetwork = False,
    engine: EngineOption = None,
    scheduler: Scheduler = None,
    as_json: Json = False,
) -> None:
    """Check whether a file of reports fits a scenario; exit code 1 if it does not."""
    from poolscope.cli.progress import working

    with working("Inspecting", "reports") as work:
        from poolscope.cli.parts import load_part
        from poolscope.cli.progress import running
        from poolscope.workflows.attack.inspection import inspect

        loaded = load_part(scenario, collection)
        with running(work, engine, scheduler) as own:
            found = inspect(
                one_or_many(reports),
                loaded,
                **reading_options(column, time, query, allow_network),
                pools=pools,
                engine=own,
                progress=work,
            )
    from poolscope.cli.gates import print_result

    print_result(found, lambda: print_inspection(found), as_json=as_json)
    raise typer.Exit(0 if found.passed else 1)


def print_inspection(found: Inspection) -> None:
    """Print the table of checks, and the conclusion."""
    console = Terminal()
    checks_table(found).print(console)
    console.say(found.sentence)


def checks_table(found: Inspection, title: str | None = None, *, only_noted: bool = False) -> TextTable:
    """Return the table of checks; `only_noted` omits those that passed or were not tested."""
    heads = ["check", "status", "value", "what to do"]
    table = TextTable(title=title or visible(found.file), heads=heads, keys=2, left=["status", "value", "what to do"])
    for check in found.checks:
        if not only_noted or check.status in ("warn", "fail"):
            status = Text(check.status, style=STYLES[check.status])
            table.add(check.check, status, Text(visible(check.value)), Text(visible(check.remedy)))
    return table


def print_explanations(console: Terminal, found: Explanations) -> None:
    """Print why the top users are guessed, and the reports of all users that revealed most."""
    heads = ["user", "adversary", "guess", "log-odds", "exposed at", "gamma (95% CI)", "delta (95% CI)"]
    left = ["adversary", "guess", "strongest reports (log Bayes factor): likeliest objects"]
    title = "Why these users"
    if found.users:
        title += f" (exposed: first confidence ≥ {100 * found.users[0].threshold:g}%)"
    table = TextTable(title=title, heads=[*heads, left[-1]], keys=2, left=left)
    for one in found.users:
        names = (Text(visible(text)) for text in (one.user, one.adversary, one.guess))
        numbers = (f"{one.log_odds:.1f}", one.exposure_text, one.gamma_text, one.delta_text)
        table.add(*names, *numbers, Text(visible(one.reports_text)))
    table.print(console)
    heads = ["adversary", "user", "report", "pool", "log Bayes factor", "likeliest objects"]
    table = TextTable(
        title="Reports that revealed most, of all users",
        heads=heads,
        keys=3,
        left=["user", "pool", "likeliest objects"],
    )
    for adversary, reports in found.strongest.items():
        for row in reports:
            cells = [Text(visible(text)) for text in (adversary, row.user, row.pool, row.likeliest)]
            table.add(cells[0], cells[1], f"{row.n:,}", cells[2], f"{row.log_bayes_factor:+.2f}", cells[3])
    table.print(console)
