"""Where blocks of users run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

#: Anything that maps a function over items, in any order: the built-in, or an engine's.
Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]


def available_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True, kw_only=True)
class Local:
    """Threads of this process; the kernels release the interpreter's lock."""

    threads: int = field(default_factory=available_cores)

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
