"""The command line as a whole: what all commands have in common."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

#: The commands as a newcomer meets them: a game, what to choose, real data, the paper.
ORDER = (
    *("scenarios", "audit", "report", "figures", "explore"),
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
