"""What this process may still use of the machine: cores, memory, disk.

Where blocks of users run: what an engine is, and the threads of this process.

An engine does two things. `map` shares the steps inside a block among the threads of this process. `tasks` runs whole
blocks, wherever the engine has room for them, and hands back what little each of them says when it is done.
"""

from __future__ import annotations

import logging
import os
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

from poolscope.core.arguments import check_integer
from poolscope.core.arrays import Tick
from poolscope.core.errors import InputError, did_you_mean
from poolscope.core.files import nearest_folder
from poolscope.core.suppress_stderr import hushed

#: Where control groups tell a limit and what is used of it: version 2, then version 1.
GROUPS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


def available_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def available_memory() -> int | None:
    """Bytes that this process may still take: the machine's, its container's and its own limit; None if unknown."""
    found = [
        bytes_ for bytes_ in (_of_the_machine(), *map(_of_a_group, GROUPS), _of_the_process()) if bytes_ is not None
    ]
    return min(found, default=None)


def check_memory(what: str, size: int, remedy: str) -> None:
    """Refuse what takes more memory than is left, before any of it is taken."""
    free = available_memory()
    if free is not None and size > free:
        rule = f"{what} would take about {as_bytes(size)} of memory, {as_bytes(free)} are free"
        raise InputError(rule, remedy=remedy)


def check_disk(what: str, size: int, folder: Path, remedy: str) -> None:
    """Refuse what takes more of the disk than is left."""
    free = available_disk(folder)
    if size > free:
        raise InputError(f"{what} would take about {as_bytes(size)} on disk, {as_bytes(free)} are free", remedy=remedy)


def as_bytes(count: float) -> str:
    """As people say it: 1.5 GB."""
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if count >= 10 or unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:,.0f} PB"


def available_disk(folder: Path) -> int:
    """Bytes that are free where the folder is, or will be."""
    return shutil.disk_usage(nearest_folder(folder)).free


def _of_the_machine() -> int | None:
    with suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    return None


def _of_a_group(files: tuple[str, str]) -> int | None:
    with suppress(OSError, ValueError):  # "max" is no number: no limit
        limit, used = (int(Path(file).read_text()) for file in files)
        return max(limit - used, 0)
    return None


def _of_the_process() -> int | None:
    """What `ulimit -v` leaves."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            return max(limit - pages * resource.getpagesize(), 0)
    return None


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
