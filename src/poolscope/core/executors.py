"""Where blocks of users run: the protocol of an engine, the threads of this process, and anything with a `map`.

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
from functools import partial
from itertools import islice
from typing import Any, Protocol, TypeAlias, TypeVar, cast

from poolscope.core.arguments import check_integer
from poolscope.core.arrays import Tick
from poolscope.core.errors import InputError, did_you_mean
from poolscope.core.machine import available_cores
from poolscope.core.suppress_stderr import suppressed

#: Names of the engines.
ENGINES = ("local", "dask")

Item = TypeVar("Item")
Shared = TypeVar("Shared")
Result = TypeVar("Result")


#: Blocks that are under way for each worker: one is played, the next is there already.
IN_FLIGHT = 2


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


class HasMap(Protocol):
    """What is mapped elsewhere: an executor of `concurrent.futures`, a pool of processes."""

    def map(self, function: Callable[[Any], Any], items: Iterable[Any], /) -> Iterable[Any]:
        """The result of every item, in their order."""
        ...


@dataclass(frozen=True)
class ExecutorEngine:
    """Blocks by the `map` of an executor: in its threads, or in processes to which functions and items can travel."""

    executor: HasMap
    local: Local = field(default_factory=lambda: Local())

    @property
    def threads(self) -> int:
        return self.local.threads

    @property
    def workers(self) -> int:
        """An executor does not say how many it has: the cores of this machine."""
        return available_cores()

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """In this process: what is mapped need not be able to travel."""
        return self.local.map(function, items)

    def tasks(
        self,
        function: Callable[[Shared, Item, Local, Tick], Result],
        shared: Shared,
        items: Iterable[Item],
        tick: Tick | None = None,
    ) -> Iterator[Result]:
        """Results in order; at most `IN_FLIGHT` items a worker are under way."""
        waiting = iter(items)
        while some := list(islice(waiting, IN_FLIGHT * self.workers)):
            for result, amount in self.executor.map(partial(on_worker, function, shared), some):
                if tick:
                    tick(amount)
                yield result


def on_worker(function: Callable[..., Any], shared: Any, item: Any) -> tuple[Any, float]:
    """A task: its result, and how far it brought the progress.

    One thread, as a worker runs as many tasks at once as it has threads.
    """
    amounts: list[float] = []
    result = function(shared, item, Local(threads=1), amounts.append)
    return result, sum(amounts)


#: What public functions take: an engine, or anything with a `map`.
EngineLike: TypeAlias = Engine | HasMap


def as_engine(engine: EngineLike | None) -> Engine:
    """What a function was given to run on, as an engine: threads of this process where that is nothing."""
    if engine is None:
        return Local()
    if hasattr(engine, "tasks"):
        return cast(Engine, engine)
    if type(engine).__module__.partition(".")[0] == "distributed":
        from poolscope.core.dask import Dask

        return Dask(client=engine)
    if not callable(getattr(engine, "map", None)):
        raise InputError("must be an engine or have a method map", value=type(engine).__name__, place="engine")
    return ExecutorEngine(engine)


def engine_named(name: str | None = None, scheduler: str | None = None) -> AbstractContextManager[Engine]:
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
    with suppressed(), engine as own:
        yield own
