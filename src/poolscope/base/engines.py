"""Where blocks of users run: what an engine is, and the threads of this process.

An engine does two things. `map` shares the steps inside a block among the threads of this process. `tasks` runs whole
blocks, wherever the engine has room for them, and hands back what little each of them says when it is done.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

Item = TypeVar("Item")
Shared = TypeVar("Shared")
Result = TypeVar("Result")

#: Anything that maps a function over items, in any order: the built-in, or an engine's.
Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]

#: Is told users as they are played.
Tick = Callable[[float], None]


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


def available_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True, kw_only=True)
class Local:
    """Threads of this process; the kernels release the interpreter's lock."""

    threads: int = field(default_factory=available_cores)

    #: Blocks run one after another: the threads share each of them.
    workers = 1

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
