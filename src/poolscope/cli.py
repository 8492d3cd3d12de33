"""One command for each public verb: parse, call one library function, print."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="What repeated reports under local differential privacy reveal about their sender.",
)


def _version(show: bool) -> None:
    if show:
        from poolscope import __version__

        typer.echo(f"poolscope {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


@app.command()
def audit(
    scenario: Annotated[str, typer.Argument(help="A built-in name or a TOML file.")],
    users: Annotated[int | None, typer.Option(help="How many users play.")] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same outcomes.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder of the run; default poolscope-SCENARIO.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a stopped run.")] = False,
) -> None:
    """Play the pool inference game and report what the reports reveal."""
    from poolscope.console import print_audit, progress
    from poolscope.report import write_report
    from poolscope.run import audit, default_folder
    from poolscope.scenario import load

    loaded = load(scenario)
    folder = out or default_folder(loaded, resume)
    with progress("Playing") as (begin, tick):
        summary = audit(loaded, folder, users=users, seed=seed, resume=resume, begin=begin, tick=tick)
    print_audit(summary, write_report(folder))


@app.command()
def traces(
    sources: Annotated[list[Path], typer.Argument(metavar="SOURCE...", help="Tables, or daily JSON archives.")],
    out: Annotated[Path, typer.Option(help="The traces, Parquet or CSV.")],
    universe: Annotated[str, typer.Option(help="emoji-11, news-2021 or an objects.csv.")],
    user: Annotated[str | None, typer.Option(help="Column of the user.")] = None,
    text: Annotated[str | None, typer.Option(help="Column of texts to search.")] = None,
    object: Annotated[str | None, typer.Option(help="Column of objects, separated by blanks.")] = None,
    domain: Annotated[str | None, typer.Option(help="Column of domains or links.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
) -> None:
    """Turn recorded data into traces: what each user picked, in order."""
    from poolscope.recorded.extract import describe, make_traces

    made = make_traces(
        sources, out, universe=universe, user=user, text=text, object=object, domain=domain, overwrite=overwrite
    )
    for line in describe(made):
        typer.echo(line)


@app.command()
def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME...]", help="Experiments to play; all by default.")
    ] = None,
    users: Annotated[int | None, typer.Option(help="At most so many users each, for a quick pass.")] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same outcomes.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder of the reproduction; the same one goes on where it was.")] = Path(
        "poolscope-reproduction"
    ),
) -> None:
    """Play the paper's experiments and lay the published numbers beside ours."""
    from poolscope.console import print_reproduction, progress
    from poolscope.paper.runner import reproduce

    with progress("Reproducing") as (begin, tick):
        done = reproduce(names or [], out, users=users, seed=seed, begin=begin, tick=tick)
    print_reproduction(done, out)


@app.command()
def scenarios(
    name: Annotated[str | None, typer.Argument(help="Print this one's TOML to start from.")] = None,
) -> None:
    """List the built-in scenarios, or print the TOML of one."""
    from poolscope.console import print_scenarios
    from poolscope.scenario import builtin_text

    if name is None:
        print_scenarios()
    else:
        typer.echo(builtin_text(name), nl=False)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a finished run.")],
) -> None:
    """Write the report of a finished run again."""
    from poolscope.report import write_report

    typer.echo(write_report(folder))


def main() -> None:
    """Run a command; our errors become one line and an exit code."""
    from poolscope.errors import InputError, PoolscopeError

    try:
        app(standalone_mode=True)
    except InputError as error:
        print(f"poolscope: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except PoolscopeError as error:
        print(f"poolscope: {error}", file=sys.stderr)
        raise SystemExit(1) from None
    except BrokenPipeError:
        raise SystemExit(1) from None
