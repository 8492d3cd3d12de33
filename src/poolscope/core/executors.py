"""Engines that run blocks of users: the protocol, the threads of this process, and any executor with a `map`.

An engine has two methods. `map` runs the steps inside a block in the threads of this process. `tasks` runs whole blocks
on the engine's workers, and yields the small result of each as it finishes.
"""

from __future__ import annotations

import logging
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, Protocol, TypeAlias, TypeVar, cast

from poolscope.core.arguments import check_integer
from poolscope.core.arrays import Tick
from poolscope.core.errors import InputError, did_you_mean
from poolscope.core.machine import available_cores
from poolscope.core.suppress_stderr import keep_suppressed, suppressed

#: Names of the engines.
ENGINES = ("local", "dask")

Item = TypeVar("Item")
Shared = TypeVar("Shared")
Result = TypeVar("Result")


#: Blocks in flight per worker: one is running, the next is queued.
IN_FLIGHT = 2

#: In a thread of `Local.map`: the event `ended`, which is set when nobody waits for that map's results any more.
_enclosing = threading.local()


def _enter(ended: threading.Event) -> None:
    """Note, in a new thread, the event that ends its map."""
    _enclosing.ended = ended


class Engine(Protocol):
    """Runs blocks; outcomes do not depend on the engine."""

    @property
    def threads(self) -> int:
        """Threads of this process that `map` uses."""
        ...

    @property
    def workers(self) -> int:
        """Number of tasks that run in parallel."""
        ...

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield results as they finish, in any order, computed in this process."""
        ...

    def tasks(
        self,
        function: Callable[[Shared, Item, Local, Tick], Result],
        shared: Shared,
        items: Iterable[Item],
        tick: Tick | None = None,
    ) -> Iterator[Result]:
        """Yield ``function(shared, item, engine, tick)`` of every item as it finishes, in any order.

        The function, its arguments and its result must be picklable: it is a module-level function, writes large
        results to files, and returns a small one. `engine` is the engine that it may use itself. Items are consumed
        only as workers become free.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class Local:
    """Threads of this process; the kernels release the global interpreter lock.

    Examples
    --------
    >>> ps.play(game, users=50, seed=1, engine=ps.Local(threads=1)).equals(ps.play(game, users=50, seed=1))
    True
    """

    threads: int = field(default_factory=available_cores)

    #: Blocks run one after another, each on all threads.
    workers = 1

    def __post_init__(self) -> None:
        check_integer("threads", self.threads, 1)

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield results as they finish, in any order; at most one item per thread is in flight.

        A map on one thread inside a map on several ends with it, so that an interrupt waits for no more than one item.
        """
        if self.threads == 1:
            enclosing: threading.Event | None = getattr(_enclosing, "ended", None)
            for item in items:
                if enclosing is not None and enclosing.is_set():
                    raise CancelledError
                yield function(item)
            return
        pending: set[Future[Result]] = set()
        ended = threading.Event()
        with ThreadPoolExecutor(self.threads, initializer=_enter, initargs=(ended,)) as pool:
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
                ended.set()
                for future in pending:
                    future.cancel()

    def tasks(
        self,
        function: Callable[[Shared, Item, Local, Tick], Result],
        shared: Shared,
        items: Iterable[Item],
        tick: Tick | None = None,
    ) -> Iterator[Result]:
        """Run tasks one after another, so that each block uses all threads."""
        for item in items:
            yield function(shared, item, self, tick or (lambda _: None))


class HasMap(Protocol):
    """An executor of `concurrent.futures`, a pool of processes, or anything else with a `map`."""

    def map(self, function: Callable[[Any], Any], items: Iterable[Any], /) -> Iterable[Any]:
        """Return the result of every item, in order."""
        ...


class WorkerEngine(ABC):
    """Base class of engines whose tasks run on workers elsewhere; `map` stays in this process."""

    def __init__(self) -> None:
        self._local = Local()

    @property
    def threads(self) -> int:
        return self._local.threads

    @property
    @abstractmethod
    def workers(self) -> int:
        """Number of tasks that run in parallel."""

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Run in this process, so that the function need not be picklable."""
        return self._local.map(function, items)

    def tasks(
        self,
        function: Callable[[Shared, Item, Local, Tick], Result],
        shared: Shared,
        items: Iterable[Item],
        tick: Tick | None = None,
    ) -> Iterator[Result]:
        """Yield results as workers finish; at most `IN_FLIGHT` items per worker are in flight."""
        with closing(self._completed(function, shared, iter(items))) as completed:
            for result, amount in completed:
                if tick:
                    tick(amount)
                yield result

    @abstractmethod
    def _completed(
        self, function: Callable[..., Any], shared: Any, items: Iterator[Any]
    ) -> Generator[tuple[Any, float]]:
        """Yield what `on_worker` returns for each item, as workers finish."""


class ExecutorEngine(WorkerEngine):
    """Blocks through the `map` of an executor: in its threads, or in processes."""

    def __init__(self, executor: HasMap) -> None:
        super().__init__()
        self._executor = executor

    @property
    def workers(self) -> int:
        """The cores of this machine, as executors have no common attribute for their workers."""
        return available_cores()

    def _completed(
        self, function: Callable[..., Any], shared: Any, items: Iterator[Any]
    ) -> Generator[tuple[Any, float]]:
        while chunk := list(islice(items, IN_FLIGHT * self.workers)):
            yield from self._executor.map(partial(on_worker, function, shared), chunk)


def on_worker(function: Callable[..., Any], shared: Any, item: Any) -> tuple[Any, float]:
    """Run a task on a worker; return its result and the amount of work done.

    On one thread, as a worker runs as many tasks in parallel as it has threads.
    """
    amounts: list[float] = []
    result = function(shared, item, Local(threads=1), amounts.append)
    return result, sum(amounts)


#: What public functions accept: an engine, or anything with a `map`.
EngineLike: TypeAlias = Engine | HasMap


def as_engine(engine: EngineLike | None) -> Engine:
    """Return an argument as an engine; the threads of this process where it is None."""
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
    """Return the engine of this name; the address of a scheduler implies Dask."""
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
        # a command reports errors in one line of its own
        logging.getLogger(logger).setLevel(logging.CRITICAL)
    # closing a terminal also ends the resource tracker of multiprocessing, which warns to no purpose
    warnings.filterwarnings("ignore", message="resource_tracker: ")
    return _quiet(engine)


@contextmanager
def _quiet(engine: AbstractContextManager[Engine]) -> Iterator[Engine]:
    """Run the engine with its processes' error streams suppressed, as each prints a traceback when it is stopped.

    An interrupt or an error may leave Dask's threads starting processes until this one has exited.
    """
    with suppressed():
        try:
            with engine as own:
                yield own
        except BaseException:
            keep_suppressed()
            raise
