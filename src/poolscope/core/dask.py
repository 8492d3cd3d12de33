"""Blocks as tasks of Dask: on processes of this machine, or on the workers of a running scheduler.

The data that all blocks share (the game with its popularity and hash tables) is sent to every worker once. At most
`IN_FLIGHT` blocks per worker are in flight, so that neither scheduler nor client holds all of them. A block whose
worker dies is run again by another worker, and writes the same bytes.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

from poolscope import __version__
from poolscope.core.errors import InputError, PoolscopeError
from poolscope.core.executors import IN_FLIGHT, Result, WorkerEngine, on_worker
from poolscope.core.machine import available_cores
from poolscope.core.suppress_stderr import suppressed
from poolscope.kernels.compilation import cache_environment

if TYPE_CHECKING:
    from distributed import Client, Future

#: Seconds to wait for a scheduler to answer, and for its first worker.
ANSWER, FIRST_WORKER = 5.0, 30.0

#: How often the shared data is sent again after all workers that had it died.
MAX_RESENT = 3

#: Environment of a worker process. It replaces Dask's, whose malloc settings return every freed array to the system.
ENVIRONMENT = {f"{name}_NUM_THREADS": 1 for name in ("OMP", "MKL", "OPENBLAS")} | {"POLARS_MAX_THREADS": 1}

INSTALL = "pip install 'poolscope[dask]'"


class Dask(WorkerEngine):
    """An engine on dask.distributed.

    Parameters
    ----------
    scheduler : address of a running scheduler, ``tcp://host:8786``; without one, processes of this machine are started
        when they are first needed. Workers elsewhere must see the output folder under the same path.
    workers : number of processes on this machine; default: its number of cores.
    client : an existing ``distributed.Client``, which is not closed.

    Use it in a ``with`` statement, which stops the processes that it started.

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
        super().__init__()
        require_distributed()
        if workers is not None and workers < 1:
            raise InputError("workers must be at least 1", value=workers)
        self._scheduler, self._count, self._given = scheduler, workers, client
        self._client: Client | None = None
        self._cluster: Any = None
        self._stderr = ExitStack()
        self._sent: tuple[Any, Future] | None = None

    def __enter__(self) -> Dask:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def workers(self) -> int:
        """Number of threads of all workers together."""
        client = self.client
        with _connected():
            cores: int = max(1, sum(client.nthreads().values()))
            return cores

    def _completed(
        self, function: Callable[..., Any], shared: Any, items: Iterator[Any]
    ) -> Generator[tuple[Any, float]]:
        pending: dict[Future, Any] = {}
        resent = 0
        try:
            while True:
                free = IN_FLIGHT * self.workers - len(pending)
                for item in islice(items, max(0, free)):
                    pending[self._submit(function, shared, item)] = item
                if not pending:
                    return
                lost = []
                for future in self._finished(pending):
                    item = pending.pop(future)
                    try:
                        completed = _result(future)
                    except CancelledError:
                        lost.append(item)
                        continue
                    yield completed
                if lost:
                    # their workers died, with all copies of the shared data
                    resent += 1
                    if resent > MAX_RESENT:
                        raise PoolscopeError("all workers died repeatedly: they may lack memory")
                    self._sent = None
                    pending |= {self._submit(function, shared, item): item for item in lost}
        finally:
            if pending and self._client is not None and self._client.status == "running":
                self._client.cancel(list(pending))

    @property
    def client(self) -> Client:
        """The client, connected at first use."""
        if self._client is None:
            self._client = self._given or self._connect()
            _check_workers(self._client)
        return self._client

    def close(self) -> None:
        """Close the client and stop the processes that were started."""
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
            # start the resource tracker of multiprocessing without an error stream and with HUP blocked: it prints
            # warnings when this process is stopped, and a replacement prints more if a closed terminal ends it
            with suppressed(), _blocked(signal.SIGHUP):
                resource_tracker.ensure_running()
        # for their lifetime: a worker that starts while this process ends prints a traceback
        self._stderr.enter_context(suppressed())
        environment = ENVIRONMENT | cache_environment()
        with _blocked(signal.SIGINT), dask.config.set({"distributed.nanny.pre-spawn-environ": environment}):
            self._cluster = LocalCluster(
                n_workers=self._count or available_cores(),
                threads_per_worker=1,
                processes=True,
                # blocks bound their own memory, and there is nothing to spill
                memory_limit=0,
                # on this machine only, on any free port
                dashboard_address="127.0.0.1:0",
                silence_logs=logging.CRITICAL,
            )
        return Client(self._cluster, set_as_default=False)

    def _submit(self, function: Callable[..., Result], shared: Any, item: Any) -> Future:
        client = self.client
        with _connected():
            # not pure: two runs of one block are two tasks
            return client.submit(on_worker, function, self._shared(shared), item, pure=False)

    def _shared(self, shared: Any) -> Future:
        """Send the shared data to every worker; once for all blocks that share the same object."""
        if self._sent is None or self._sent[0] is not shared:
            # workers that died may not be replaced yet
            self.client.wait_for_workers(1, timeout=FIRST_WORKER)
            self._sent = shared, self.client.scatter(shared, broadcast=True, hash=False)
        return self._sent[1]

    def _finished(self, pending: Iterable[Future]) -> list[Future]:
        """Wait until some tasks are done or lost."""
        from distributed import wait

        client = self.client
        try:
            with client.as_current():
                wait(list(pending), return_when="FIRST_COMPLETED")
        except CancelledError:
            if client.status != "running":
                raise PoolscopeError("the connection to the scheduler is lost") from None
        # successful tasks first: they count even if another one ends the run
        return sorted((future for future in pending if future.done()), key=lambda future: future.status != "finished")


def require_distributed() -> None:
    """Raise an `InputError` with the command to install Dask where it is missing."""
    try:
        import distributed  # noqa: F401
    except ImportError as error:
        raise InputError("the engine dask is not installed", remedy=INSTALL) from error


@contextmanager
def _blocked(number: signal.Signals) -> Iterator[None]:
    """Block a signal inside; processes that are started inside inherit the mask, so that only this process handles it.

    Blocked rather than ignored: threads that start inside, and the processes they start later, inherit the mask too.
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
    """Convert an `OSError` of the connection to the scheduler, to distinguish it from disk errors of a task."""
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
        rule = f"a block ended {error.allowed_failures + 1} workers one after another: they may lack memory"
        raise PoolscopeError(rule) from error


def _check_workers(client: Client) -> None:
    """Check that there are workers, and that all have this version: another could draw other random bits."""
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
