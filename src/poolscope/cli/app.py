"""Define the command line: the list of commands, shared options, and options that are lists."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from poolscope.core.errors import InputError

#: Order in the help: simulate, choose, analyze data, reproduce.
ORDER = (
    *("scenarios", "audit", "render", "figures", "rerun", "schema", "explore"),
    *("fit", "compare", "sweep", "advise", "check"),
    *("traces", "obfuscate", "inspect", "attack", "estimate"),
    "reproduce",
)


class Commands(TyperGroup):
    """The list of commands, in a fixed order."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(super().list_commands(ctx), key=ORDER.index)


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Measure what repeated reports under local differential privacy reveal about their sender.",
)

#: Set by --debug.
DEBUG = "POOLSCOPE_DEBUG"

Called = TypeVar("Called", bound=Callable[..., Any])


class Command(TyperCommand):
    """A command whose summary is never truncated in the list of commands."""

    def get_short_help_str(self, limit: int = 45) -> str:
        return (self.help or "").partition("\n\n")[0]


def command(example: str) -> Callable[[Called], Called]:
    """Register a function as a command whose help ends with an example."""
    return app.command(cls=Command, epilog=f"\b\nExample:\n  {example}")


def _version(show: bool) -> None:
    if show:
        from poolscope import __version__

        typer.echo(f"poolscope {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks and the messages of libraries.")] = False,
) -> None:
    if debug:
        # for this process and its worker processes
        os.environ[DEBUG] = "1"


#: Start of the process, for the elapsed time.
STARTED = time.perf_counter()

EngineOption = Annotated[
    str | None, typer.Option(metavar="local|dask", help="Run in threads (local) or Dask processes.  [default: local]")
]
Scheduler = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Use a running Dask scheduler at this address, as tcp://host:8786."),
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace existing output files; input files are never replaced.")
]
Raw = Annotated[
    bool, typer.Option("--raw", help="Write CSV texts unescaped, even those a spreadsheet would run as formulas.")
]
Observations = Annotated[
    str | None,
    typer.Option(metavar="N,...", help="Guess after these numbers of reports, as 7,30.  [default: the scenario's]"),
]
Threshold = Annotated[
    float | None, typer.Option(metavar="SHARE", help="Set the confidence threshold, 0 to 1.  [default: the scenario's]")
]

Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column", metavar="NAME=COLUMN", help="Read the source's COLUMN as NAME, as user=device_id; repeatable."
    ),
]
Time = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Order rows by this column.  [default: the source's order]")
]
AllowNetwork = Annotated[
    bool, typer.Option("--allow-network", help="Allow connections to the machines that addresses name.")
]
OutTable = Annotated[
    str | None, typer.Option(metavar="NAME", help="Write to this table, where --out is the address of a database.")
]
Query = Annotated[str | None, typer.Option(metavar="SQL", help="Read the rows of this query, from a database.")]

#: Help of a source of tables.
SOURCES = "files (Parquet, CSV, TSV, JSON Lines, Arrow; also .gz or .zst), patterns, folders, addresses, or -"
FailIf = Annotated[
    list[str] | None,
    typer.Option(
        "--fail-if",
        metavar="CONDITION",
        help="Exit with code 1 if this holds, as 'exposed_90 > 0.02 at 180 for strong'; repeatable.",
    ),
]
OnUncertain = Annotated[
    str,
    typer.Option(metavar="fail|pass", help="Fail or pass a condition of --fail-if whose limit is inside the 95% CI."),
]
Junit = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write the conditions as JUnit XML to this .xml file.")
]
CollectionOption = Annotated[
    str | None,
    typer.Option(
        "--collection", metavar="NAME", help="Choose this collection, where the scenario has several [[collection]]."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON; texts go to the standard error stream.")]
Attacks = Annotated[
    str | None,
    typer.Option(
        "--attack",
        metavar="NAME,...",
        help="Add these attacks: averaging, bayesian, changing, forgetting, nearest-profile, or module:Class.",
    ),
]

#: Names of mechanisms.MECHANISMS; importing them would slow down --help.
MECHANISMS = (
    "blh, channel, cms, cms-no-hash, dbitflip, empirical, grr, hcms, hr, identity, l-grr, l-osue, l-oue, l-soue, "
    "l-sue, loloha, olh, oue, pi-rappor, rappor, she, spotme, ss, sue, the"
)


def _names(incomplete: str) -> list[str]:
    """Return the built-in scenarios that complete a name."""
    from poolscope.scenario.scenario import builtin_names

    return [name for name in builtin_names() if name.startswith(incomplete)]


_SCENARIO = {"help": "Built-in scenario (list: poolscope scenarios) or TOML file.", "autocompletion": _names}
Scenario = Annotated[str, typer.Argument(metavar="SCENARIO", **_SCENARIO)]
ScenarioOption = Annotated[str, typer.Option("--scenario", metavar="SCENARIO", **_SCENARIO)]


def elapsed() -> float:
    """Return the seconds since the start of the process."""
    return time.perf_counter() - STARTED


Value = TypeVar("Value")


def words(text: str) -> list[str]:
    """Return the items of a comma-separated list."""
    return [part.strip() for part in text.split(",") if part.strip()]


def numbers(text: str, option: str) -> list[float]:
    """Return the numbers of a comma-separated list."""
    return _each(text, option, float, "numbers")


def counts(text: str, option: str) -> list[int]:
    """Return the integers of a comma-separated list."""
    return _each(text, option, int, "whole numbers")


def column_names(given: list[str] | None) -> dict[str, str]:
    """Return the columns of --column by the names that poolscope reads."""
    found: dict[str, str] = {}
    for text in given or ():
        name, equals, column = text.partition("=")
        if not (name and equals and column):
            raise InputError("must be NAME=COLUMN, as user=device_id", value=text, place="--column")
        if name in found:
            raise InputError("must name a column once", value=name, place="--column")
        found[name] = column
    return found


def reading_options(
    column: list[str] | None, time: str | None, query: str | None, allow_network: bool
) -> dict[str, Any]:
    """Return the options of a source as keyword arguments of a workflow."""
    return {"columns": column_names(column), "time": time, "query": query, "allow_network": allow_network}


def one_or_many(sources: list[str]) -> str | list[str]:
    """Return one source as text, and several as a list."""
    return sources[0] if len(sources) == 1 else sources


def _each(text: str, option: str, kind: Callable[[str], Value], what: str) -> list[Value]:
    try:
        return [kind(part) for part in words(text)]
    except ValueError:
        raise InputError(f"must be {what} separated by commas", value=text, place=option) from None
