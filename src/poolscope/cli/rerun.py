"""The commands on what exists already: scenarios, finished folders, and the schemas of files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from poolscope.cli.app import EngineOption, Json, Scheduler, command

#: Names of schemas, and the file that each is of.
SCHEMAS = {
    "scenario": "a scenario, mechanism parameters included",
    "manifest": "manifest.json of an audit",
    "summary": "summary.json of an audit",
    "comparison": "comparison.json of a comparison",
    "advice": "advice.json of an advice",
    "collections-advice": "advice.json of an advice on several collections",
    "reproduction": "reproduction.json of a reproduction",
    "sweep": "sweep.json of a sweep",
    "sweep-output": "what sweep prints with --json",
    "inspection": "what inspect prints with --json",
    "attack": "what attack prints with --json",
    "verdict": "what check prints with --json",
    "fit": "what fit prints with --json",
    "rerun": "what rerun prints with --json",
}


@command("poolscope rerun poolscope-apple-emojis")
def rerun(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A finished folder of audit, compare, advise, sweep or reproduce.")
    ],
    inputs: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Read the files that the scenario names, or recorded traces, from this folder; default that of the "
            "scenario, whose path is tried from here and from each folder that DIR is in. An advice has copies in DIR.",
        ),
    ] = None,
    engine: EngineOption = None,
    scheduler: Scheduler = None,
    as_json: Json = False,
) -> None:
    """Play a finished folder again, elsewhere, and say whether the bits agree; exit code 1 if they do not."""
    from poolscope.cli.progress import working

    with working("Playing again") as work:
        from poolscope.cli.folders import rerun_of
        from poolscope.cli.gates import print_result
        from poolscope.cli.progress import running

        play = rerun_of(folder)
        with running(work, engine, scheduler) as own:
            done = play(folder, inputs, own, work)
    print_result(done.as_json(), lambda: typer.echo(f"{folder}: {done.text}"), as_json=as_json)
    raise typer.Exit(0 if done.agrees else 1)


@command("poolscope scenarios apple-emojis > mine.toml")
def scenarios(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Print the TOML of this scenario.")] = None,
    as_json: Json = False,
) -> None:
    """List the built-in scenarios, or print one as TOML."""
    from poolscope.cli.audit import listed_scenarios, print_scenarios
    from poolscope.cli.gates import print_result
    from poolscope.scenario.scenario import builtin_text, load_scenario

    if name is None:
        print_result(listed_scenarios() if as_json else None, print_scenarios, as_json=as_json)
    else:
        found = load_scenario(name).about() if as_json else None
        print_result(found, lambda: typer.echo(builtin_text(name), nl=False), as_json=as_json)


@command("poolscope render poolscope-apple-emojis")
def render(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of audit, compare or advise.")],
    as_json: Json = False,
) -> None:
    """Write the HTML report of a finished folder again."""
    from poolscope.cli.progress import working

    with working("Drawing", "figures"):
        from poolscope.cli.folders import write_page
        from poolscope.cli.gates import print_result

        page = write_page(folder)
    print_result({"files": [page]}, lambda: typer.echo(page), as_json=as_json)


@command("poolscope figures poolscope-apple-emojis --format pdf")
def figures(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of audit, compare, advise or sweep.")],
    format: Annotated[str, typer.Option(metavar="svg|png|pdf", help="Set the file format.")] = "svg",
    width: Annotated[
        str, typer.Option(metavar="column|page", help="Set the width: one column of a paper, or the page.")
    ] = "page",
    as_json: Json = False,
) -> None:
    """Write the figures of a finished folder as files, into DIR/figures."""
    from poolscope.cli.progress import working

    with working("Drawing", "figures"):
        from poolscope.cli.folders import write_figures
        from poolscope.cli.gates import print_result

        written = write_figures(folder, form=format, width=width)
    print_result({"files": written}, lambda: typer.echo("\n".join(map(str, written))), as_json=as_json)


@command("poolscope schema summary > summary.schema.json")
def schema(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Print the schema of this file.")] = None,
) -> None:
    """Print the JSON Schema of a scenario or of a result file; list their names without one."""
    if name is None:
        for known, what in SCHEMAS.items():
            typer.echo(f"{known:<20}{what}")
        return
    import json

    from poolscope.cli.schemas import schema_of

    typer.echo(json.dumps(schema_of(name), indent=1, ensure_ascii=False))
