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
Observations = Annotated[
    str | None, typer.Option(metavar="N,...", help="After how many reports, as 7,30, instead of the scenario's.")
]
Threshold = Annotated[
    float | None, typer.Option(metavar="SHARE", help="Confidence to be sure, as 0.8, instead of the scenario's.")
]


def waited() -> float:
    """Seconds since the command was given, all but the interpreter's own start."""
    return time.perf_counter() - STARTED
