"""Blocks as tasks of Dask: processes of this machine, or the workers of a scheduler that runs already.

What all blocks need (the game with its popularity and hash tables) is sent to every worker once. At most
`IN_FLIGHT` blocks a worker are under way, so that neither the scheduler nor the client ever holds all of them. A block
whose worker dies is played again by another one: it writes the same bytes.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

from poolscope import __version__
from poolscope.core.arrays import Tick
from poolscope.core.errors import InputError, PoolscopeError
from poolscope.core.executors import IN_FLIGHT, Item, Local, Result, Shared, on_worker
from poolscope.core.machine import available_cores
from poolscope.core.suppress_stderr import suppressed
from poolscope.kernels.compilation import cache_environment

if TYPE_CHECKING:
    from distributed import Client, Future

#: Seconds to wait for a scheduler to answer, and for its first worker.
ANSWER, FIRST_WORKER = 5.0, 30.0

#: How often what all blocks need is sent again after every worker that had it died.
RESENT = 3

#: Of a worker process. Dask's own asks malloc to give every array back at once, and the pages must then be made anew.
ENVIRONMENT = {f"{name}_NUM_THREADS": 1 for name in ("OMP", "MKL", "OPENBLAS")} | {"POLARS_MAX_THREADS": 1}

INSTALL = "pip install 'poolscope[dask]'"


class Dask:
    """An engine on dask.distributed.

    Parameters
    ----------
    scheduler : address of a running scheduler, ``tcp://host:8786``; without one, processes of this machine are started
        when they are first needed. Workers elsewhere must see the output folder under the same path.
    workers : processes of this machine; as many as it has cores where absent.
    client : a ``distributed.Client`` that is there already, and stays.

    Use it in a ``with`` statement: at its end the processes that it started are stopped.

    Examples
    --------
    >>> from distributed import Client
    >>> with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None) as client:
    ...     played = ps.play(game, users=50, seed=1, engine=ps.Dask(client=client))
    ...
    >>> played.equals(ps.play(game, users=50, seed=1))
    True
    """

    def __init__(
        self, *, scheduler: str | None = None, workers: int | None = None, client: Client | None = None
    ) -> None:
        require_distributed()
        if workers is not None and workers < 1:
            raise InputError("workers must be at least 1", value=workers)
        self._scheduler, self._count, self._given = scheduler, workers, client
        self._client: Client | None = None
        self._cluster: Any = None
        self._stderr = ExitStack()
        self._sent: tuple[Any, Future] | None = None
        self._local = Local()

    def __enter__(self) -> Dask:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def threads(self) -> int:
        return self._local.threads

    @property
    def workers(self) -> int:
        """Threads of all workers together."""
        client = self.client
        with _connected():
            cores: int = max(1, sum(client.nthreads().values()))
            return cores

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """In this process: what is mapped need not be able to travel."""
        return self._local.map(function, items)

    def tasks(
        self,
        function: Callable[[Shared, Item, Local, Tick], Result],
        shared: Shared,
        items: Iterable[Item],
        tick: Tick | None = None,
    ) -> Iterator[Result]:
        """Results as workers finish, in no order."""
        waiting = iter(items)
        pending: dict[Future, Item] = {}
        resent = 0
        try:
            while True:
                workspace = IN_FLIGHT * self.workers - len(pending)
                for item in islice(waiting, max(0, workspace)):
                    pending[self._submit(function, shared, item)] = item
                if not pending:
                    return
                lost = []
                for future in self._finished(pending):
                    item = pending.pop(future)
                    try:
                        result, amount = _result(future)
                    except CancelledError:
                        lost.append(item)
                        continue
                    if tick:
                        tick(amount)
                    yield result
                if lost:
                    # their workers are gone with all copies of what they need
                    resent += 1
                    if resent > RESENT:
                        raise PoolscopeError("all workers died, several times over: have they memory enough?")
                    self._sent = None
                    pending |= {self._submit(function, shared, item): item for item in lost}
        finally:
            if pending and self._client is not None and self._client.status == "running":
                self._client.cancel(list(pending))

    @property
    def client(self) -> Client:
        """Connected at first use."""
        if self._client is None:
            self._client = self._given or self._connect()
            _check_workers(self._client)
        return self._client

    def close(self) -> None:
        """Stop what was started."""
        self._sent = None
        client, self._client = self._client, None
        if client is not None and self._given is None:
            client.close()
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None
        self._stderr.close()

    def _connect(self) -> Client:
        from multiprocessing import resource_tracker

        import dask
        from distributed import Client, LocalCluster

        if self._scheduler is not None:
            try:
                return Client(self._scheduler, timeout=ANSWER, set_as_default=False)
            except (OSError, ValueError) as error:
                remedy = "start it with: dask scheduler"
                raise InputError("no scheduler answers", value=self._scheduler, remedy=remedy) from error
        if os.name == "posix":
            # a process of Python's own that lives as long as we do, and complains if we are stopped; if it is stopped
            # itself, as by a terminal that closes, another takes its place and complains the louder
            with suppressed(), _deaf(signal.SIGHUP):
                resource_tracker.ensure_running()
        # as long as they live: one that is started while this process ends complains that it is gone
        self._stderr.enter_context(suppressed())
        environment = ENVIRONMENT | cache_environment()
        with _deaf(signal.SIGINT), dask.config.set({"distributed.nanny.pre-spawn-environ": environment}):
            self._cluster = LocalCluster(
                n_workers=self._count or available_cores(),
                threads_per_worker=1,
                processes=True,
                # blocks bound their memory themselves, and nothing is worth spilling
                memory_limit=0,
                # for this machine's eyes only, on any port that is free
                dashboard_address="127.0.0.1:0",
                silence_logs=logging.CRITICAL,
            )
        return Client(self._cluster, set_as_default=False)

    def _submit(self, function: Callable[..., Result], shared: Any, item: Any) -> Future:
        client = self.client
        with _connected():
            # under keys of their own: two runs of one block are two tasks
            return client.submit(on_worker, function, self._shared(shared), item, pure=False)

    def _shared(self, shared: Any) -> Future:
        """What every block needs, sent to every worker; once for all blocks that need the same object."""
        if self._sent is None or self._sent[0] is not shared:
            # those that died may not yet be replaced
            self.client.wait_for_workers(1, timeout=FIRST_WORKER)
            self._sent = shared, self.client.scatter(shared, broadcast=True, hash=False)
        return self._sent[1]

    def _finished(self, pending: Iterable[Future]) -> list[Future]:
        """Wait for some to be done, or to be lost."""
        from distributed import wait

        client = self.client
        try:
            with client.as_current():
                wait(list(pending), return_when="FIRST_COMPLETED")
        except CancelledError:
            if client.status != "running":
                raise PoolscopeError("the connection to the scheduler is lost") from None
        # what went well first: it counts, even if something else ends the run
        return sorted((future for future in pending if future.done()), key=lambda future: future.status != "finished")


def require_distributed() -> None:
    """Say what to install where Dask is not."""
    try:
        import distributed  # noqa: F401
    except ImportError as error:
        raise InputError("the engine dask is not installed", remedy=INSTALL) from error


@contextmanager
def _deaf(number: signal.Signals) -> Iterator[None]:
    """Processes that are started inside do not hear a signal: this one does, if at the end, and stops them in order.

    Blocked rather than ignored: threads that start inside, and processes that they start later, stay deaf.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _connected() -> Iterator[None]:
    """What goes wrong between this process and the scheduler; it is no error of a disk, as a task's may be."""
    try:
        yield
    except OSError as error:
        raise PoolscopeError(f"the connection to Dask is lost: {error}") from error


def _result(future: Future) -> tuple[Any, float]:
    from distributed.scheduler import KilledWorker

    try:
        result: tuple[Any, float] = future.result()
        return result
    except KilledWorker as error:
        rule = f"a block ended {error.allowed_failures + 1} workers one after another: have they memory enough?"
        raise PoolscopeError(rule) from error


def _check_workers(client: Client) -> None:
    """There are workers, and all of them have this version: another could draw other bits."""
    address = client.scheduler.address if client.scheduler else ""
    try:
        client.wait_for_workers(1, timeout=FIRST_WORKER)
    except TimeoutError as error:
        remedy = f"start some with: dask worker {address}"
        raise InputError("the scheduler has no workers", value=address, remedy=remedy) from error
    try:
        versions = set(client.run(_version).values())
    except Exception as error:
        remedy = f"install poolscope {__version__} where the workers run"
        raise InputError(f"the workers cannot import poolscope: {error}", value=address, remedy=remedy) from error
    if versions != {__version__}:
        remedy = f"install {__version__} where the workers run"
        raise InputError("the workers must have this version", value=sorted(versions - {__version__}), remedy=remedy)


def _version() -> str:
    return __version__
