"""Stream server-sent events, a bounded number at a time: each simulates users, which takes threads and memory."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from anyio import CapacityLimiter, to_thread
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from poolscope.core.errors import PoolscopeError
from poolscope.core.executors import Local

MAX_STREAMS = 8
"""Largest number of streams; a page has at most two."""

RETRY_AFTER = 2
"""Seconds until a page without a free stream asks again."""

Events = Iterator[dict[str, Any]]
Item = TypeVar("Item")
Result = TypeVar("Result")


class Outdated(PoolscopeError):
    """The page no longer waits for the answer."""


@dataclass(frozen=True, kw_only=True)
class Stoppable(Local):
    """Threads of this process that stop on request."""

    stop: threading.Event = field(default_factory=threading.Event)

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield results as they finish; raise `Outdated` when stopped."""

        def unless_stopped(item: Item) -> Result:
            if self.stop.is_set():
                raise Outdated("stopped")
            return function(item)

        yield from super().map(unless_stopped, items)


class AllStreamsBusy(PoolscopeError):
    """All streams are in use."""


class Streams:
    """The open streams, and abandoned ones that still compute."""

    def __init__(self, maximum: int = MAX_STREAMS) -> None:
        self._free = threading.BoundedSemaphore(maximum)
        self._limiter, self._maximum = CapacityLimiter(maximum), maximum
        self._open: set[StreamTask] = set()

    def open(self, found: Callable[[Stoppable], Events]) -> EventStream:
        """Return a stream of events; raise `AllStreamsBusy` at the limit."""
        if not self._free.acquire(blocking=False):
            raise AllStreamsBusy(
                f"the explorer is busy with {self._maximum} answers; it is asked again in {RETRY_AFTER} s"
            )
        work = StreamTask(found, self._over)
        self._open.add(work)
        return EventStream(work, self._limiter)

    def close(self) -> None:
        """Ask all tasks to stop."""
        for work in list(self._open):
            work.engine.stop.set()

    def _over(self, work: StreamTask) -> None:
        self._open.discard(work)
        self._free.release()


class StreamTask:
    """The computation behind a stream, one event after another.

    It ends when the stream is closed and no thread runs it: an abandoned thread still holds memory.
    """

    def __init__(self, found: Callable[[Stoppable], Events], over: Callable[[StreamTask], None]) -> None:
        self.engine = Stoppable()
        self._events, self._over = found(self.engine), over
        self._lock, self._closed, self._working = threading.Lock(), False, False

    def step(self) -> dict[str, Any] | None:
        """Return the next event, or None after the last one."""
        with self._lock:
            if self._closed:
                return None
            self._working = True
        try:
            return next(self._events, None)
        finally:
            with self._lock:
                self._working = False
                if self._closed:
                    self._over(self)

    def close(self) -> None:
        """Stop: the page no longer waits for events."""
        self.engine.stop.set()
        with self._lock:
            if not self._closed and not self._working:
                self._over(self)
            self._closed = True


class EventStream(StreamingResponse):
    """A response of events; the computation stops early when the page disconnects."""

    def __init__(self, work: StreamTask, limiter: CapacityLimiter) -> None:
        super().__init__(self._text(), media_type="text/event-stream")
        self._work, self._limiter = work, limiter

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._work.close()

    async def _text(self) -> AsyncIterator[str]:
        try:
            while True:
                event = await to_thread.run_sync(self._work.step, abandon_on_cancel=True, limiter=self._limiter)
                if event is None:
                    break
                yield f"data: {json.dumps(event, allow_nan=False)}\n\n"
            yield "event: done\ndata: {}\n\n"
        except PoolscopeError as error:
            yield f"event: wrong\ndata: {json.dumps({'error': str(error)})}\n\n"
