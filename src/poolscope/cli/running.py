"""Where a command runs that attacks: its engine, and kernels that are compiled while it begins."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from poolscope.cli.progress import Work
from poolscope.core.executors import Engine, Local, chosen
from poolscope.inference.posterior import COMPILED
from poolscope.kernels.compilation import watched


@contextmanager
def running(work: Work, engine: str | None, scheduler: str | None) -> Iterator[Engine]:
    """The engine of that name, see `chosen`."""
    with watched(work.compiling), chosen(engine, scheduler) as own:
        if isinstance(own, Local) and own.threads > 1:
            # workers compile for themselves
            COMPILED.begin()
        yield own
