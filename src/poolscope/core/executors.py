"""Where blocks of users run: the protocol of an engine, and the threads of this process.

An engine does two things. `map` shares the steps inside a block among the threads of this process. `tasks` runs whole
blocks wherever the engine can, and returns the short result of each when it is done.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from poolscope.core.arguments import check_integer
from poolscope.core.arrays import Tick
from poolscope.core.errors import InputError, did_you_mean
from poolscope.core.machine import available_cores
from poolscope.core.suppress_stderr import hushed

#: Names of the engines.
ENGINES = ("local", "dask")

Item = TypeVar("Item")
Shared = TypeVar("Shared")
Result = TypeVar("Result")


class Engine(Protocol):
    """Where blocks run; outcomes do not depend on it."""

    @property
    def threads(self) -> int:
        """Threads of this process that `map` uses."""
        ...

    @property
    def workers(self) -> int:
        """Tasks that run at once."""
        ...

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Results as they finish, in no order, from this process."""
        ...

    def tasks(
        self,
        function: Callable[[Shared, Item, Local, Tick], Result],
        shared: Shared,
        items: Iterable[Item],
        tick: Tick | None = None,
    ) -> Iterator[Result]:
        """``function(shared, item, engine, tick)`` of every item, results as they finish, in no order.

        The function and what it takes and returns must be able to travel between processes: it is a function of a
        module, what it finds it writes to files, and what it returns is small. `engine` is the one that it may use
        itself. Items are taken only when there is room for them.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class Local:
    """Threads of this process; the kernels release the interpreter's lock.

    Examples
    --------
    >>> ps.play(game, users=50, seed=1, engine=ps.Local(threads=1)).equals(ps.play(game, users=50, seed=1))
    True
    """

    threads: int = field(default_factory=available_cores)

    #: Blocks run one after another: the threads share each of them.
    workers = 1

    def __post_init__(self) -> None:
        check_integer("threads", self.threads, 1)

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Results as they finish, in no order; at most one item a thread is under way."""
        if self.threads == 1:
            yield from map(function, items)
            return
        pending: set[Future[Result]] = set()
        with ThreadPoolExecutor(self.threads) as pool:
            try:
                for item in items:
                    pending.add(pool.submit(function, item))
                    if len(pending) >= self.threads:
                        done, pending = wait(pending, return_when=FIRST_COMPLETED)
                        for future in done:
                            yield future.result()
                while pending:
                    done, pending = wait(pending, return_when=FIRST_COMPLETED)
                    for future in done:
                        yield future.result()
            finally:
                for future in pending:
                    future.cancel()

    def tasks(
        self,
        function: Callable[[Shared, Item, Local, Tick], Result],
        shared: Shared,
        items: Iterable[Item],
        tick: Tick | None = None,
    ) -> Iterator[Result]:
        """One after another, so that what a block has in common is worked out once for all threads."""
        for item in items:
            yield function(shared, item, self, tick or (lambda _: None))


def chosen(name: str | None = None, scheduler: str | None = None) -> AbstractContextManager[Engine]:
    """The engine of that name; a scheduler's address alone means Dask."""
    name = name or ("local" if scheduler is None else "dask")
    if name not in ENGINES:
        raise InputError("must be a known engine", value=name, place="engine", remedy=did_you_mean(name, ENGINES))
    if name == "local":
        if scheduler is not None:
            raise InputError("a scheduler is for the engine dask", value=scheduler, place="scheduler")
        return nullcontext(Local())
    from poolscope.core.dask import Dask

    engine = Dask(scheduler=scheduler)
    for logger in ("distributed", "distributed.client", "asyncio"):
        # a command says what went wrong in one line of its own
        logging.getLogger(logger).setLevel(logging.CRITICAL)
    # a terminal that is closed ends Python's helper too, which is of no consequence when everything ends
    warnings.filterwarnings("ignore", message="resource_tracker: ")
    return _quiet(engine)


@contextmanager
def _quiet(engine: AbstractContextManager[Engine]) -> Iterator[Engine]:
    """The engine, whose processes have no error stream of ours: ended in the middle, each would tell its own story."""
    with hushed(), engine as own:
        yield own
