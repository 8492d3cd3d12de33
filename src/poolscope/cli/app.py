"""The command line as a whole: the list of commands, their common options, and options that are lists."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from poolscope.core.errors import InputError

#: The commands as a newcomer meets them: a game, what to choose, real data, the paper.
ORDER = (
    *("scenarios", "audit", "render", "figures", "rerun", "schema", "explore"),
    *("compare", "advise", "check"),
    *("traces", "obfuscate", "attack", "estimate"),
    "reproduce",
)


class Commands(TyperGroup):
    """The list of commands, in their order."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(super().list_commands(ctx), key=ORDER.index)


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="What repeated reports under local differential privacy reveal about their sender.",
)

#: Set by --debug.
DEBUG = "POOLSCOPE_DEBUG"

Called = TypeVar("Called", bound=Callable[..., Any])


class Command(TyperCommand):
    """A command whose line in the list of commands is not cut."""

    def get_short_help_str(self, limit: int = 45) -> str:
        return (self.help or "").partition("\n\n")[0]


def command(example: str) -> Callable[[Called], Called]:
    """Register a function as a command; its help ends with the example."""
    return app.command(cls=Command, epilog=f"\b\nExample:\n  {example}")


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
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the whole story of an error, and what libraries say of it.")
    ] = False,
) -> None:
    if debug:
        # for this process and its workers
        os.environ[DEBUG] = "1"


#: When the user began to wait.
STARTED = time.perf_counter()

EngineOption = Annotated[
    str | None, typer.Option(metavar="local|dask", help="Where to run: threads, or Dask's processes. Default local.")
]
Scheduler = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="A running Dask scheduler, instead of processes here.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace existing files; files that are read never are.")]
Raw = Annotated[
    bool, typer.Option("--raw", help="Leave texts of CSV as they are that a spreadsheet would run; default escaped.")
]
Observations = Annotated[
    str | None, typer.Option(metavar="N,...", help="After how many reports, as 7,30, instead of the scenario's.")
]
Threshold = Annotated[
    float | None, typer.Option(metavar="SHARE", help="Confidence to be sure, as 0.8, instead of the scenario's.")
]

#: The names of mechanisms.MECHANISMS, which takes too long to import for a help.
MECHANISMS = (
    "blh, channel, cms, cms-no-hash, dbitflip, empirical, grr, hcms, hr, identity, l-grr, l-osue, l-oue, l-soue, "
    "l-sue, loloha, olh, oue, pi-rappor, rappor, she, spotme, ss, sue, the"
)


def _names(incomplete: str) -> list[str]:
    """What completes the name of a built-in scenario."""
    from poolscope.scenario.scenario import builtin_names

    return [name for name in builtin_names() if name.startswith(incomplete)]


_SCENARIO = {"help": "A built-in name (poolscope scenarios lists them) or a TOML file.", "autocompletion": _names}
Scenario = Annotated[str, typer.Argument(metavar="SCENARIO", **_SCENARIO)]
ScenarioOption = Annotated[str, typer.Option("--scenario", metavar="SCENARIO", **_SCENARIO)]


def waited() -> float:
    """Seconds since the command was given, all but the interpreter's own start."""
    return time.perf_counter() - STARTED


Value = TypeVar("Value")


def words(text: str) -> list[str]:
    """The parts of a list."""
    return [part.strip() for part in text.split(",") if part.strip()]


def numbers(text: str, option: str) -> list[float]:
    """The numbers of a list."""
    return _each(text, option, float, "numbers")


def counts(text: str, option: str) -> list[int]:
    """The whole numbers of a list."""
    return _each(text, option, int, "whole numbers")


def _each(text: str, option: str, kind: Callable[[str], Value], what: str) -> list[Value]:
    try:
        return [kind(part) for part in words(text)]
    except ValueError:
        raise InputError(f"must be {what} with commas between them", value=text, place=option) from None
