"""The commands `rerun` and `schema`: what a folder's numbers need, and what its files hold."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from poolscope.cli.app import EngineOption, Scheduler, command

#: Names of schemas, and the file that each is of.
SCHEMAS = {
    "scenario": "a scenario, mechanism parameters included",
    "manifest": "manifest.json of an audit",
    "summary": "summary.json of an audit",
    "comparison": "comparison.json of a comparison",
    "advice": "advice.json of an advice",
    "reproduction": "reproduction.json of a reproduction",
    "sweep": "sweep.json of a sweep",
    "inspection": "what inspect --json prints",
    "attack": "what attack --json prints",
}


@command("poolscope rerun poolscope-apple-emojis")
def rerun(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A finished folder of audit, compare, advise, sweep or reproduce.")
    ],
    inputs: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of the files that the scenario names; default where they were."),
    ] = None,
    engine: EngineOption = None,
    scheduler: Scheduler = None,
) -> None:
    """Play a finished folder again, elsewhere, and say whether the bits agree; exit code 1 if they do not."""
    from poolscope.cli.progress import working

    with working("Playing again") as work:
        from poolscope.cli.folders import rerun_of
        from poolscope.cli.progress import running

        play = rerun_of(folder)
        with running(work, engine, scheduler) as own:
            done = play(folder, inputs, own, work)
    typer.echo(f"{folder}: {done.sentence}")
    raise typer.Exit(0 if done.agrees else 1)


@command("poolscope schema summary > summary.schema.json")
def schema(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Print the schema of this file.")] = None,
) -> None:
    """Print the JSON Schema of a scenario or of a result file; list their names without one."""
    if name is None:
        for known, what in SCHEMAS.items():
            typer.echo(f"{known:<14}{what}")
        return
    import json

    from poolscope.cli.schemas import schema_of

    typer.echo(json.dumps(schema_of(name), indent=1, ensure_ascii=False))
