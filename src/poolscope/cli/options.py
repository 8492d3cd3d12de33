"""What several commands take, and when the user began to wait."""

from __future__ import annotations

import time
from typing import Annotated

import typer

#: When the user began to wait.
STARTED = time.perf_counter()

Engine = Annotated[
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
