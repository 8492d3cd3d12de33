"""The engine of a command's options."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, nullcontext

from poolscope.base.engines import Engine, Local
from poolscope.base.errors import InputError, did_you_mean

ENGINES = ("local", "dask")


def chosen(name: str | None = None, scheduler: str | None = None) -> AbstractContextManager[Engine]:
    """The engine of that name; a scheduler's address alone means Dask."""
    name = name or ("local" if scheduler is None else "dask")
    if name not in ENGINES:
        raise InputError("must be a known engine", value=name, place="engine", remedy=did_you_mean(name, ENGINES))
    if name == "local":
        if scheduler is not None:
            raise InputError("a scheduler is for the engine dask", value=scheduler, place="scheduler")
        return nullcontext(Local())
    from poolscope.base.dask import Dask

    engine = Dask(scheduler=scheduler)
    for logger in ("distributed", "distributed.client", "asyncio"):
        # a command says what went wrong in one line of its own
        logging.getLogger(logger).setLevel(logging.CRITICAL)
    return engine
