"""Streams of events, a bounded number at a time: each of them plays users, which takes threads and memory."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from anyio import CapacityLimiter, to_thread
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from poolscope.core.errors import PoolscopeError
from poolscope.explore.answers import Stoppable

MAX_STREAMS = 8
"""Streams at a time; a page has at most two."""

RETRY_AFTER = 2
"""Seconds after which a page that found no free stream may ask again."""

Events = Iterator[dict[str, Any]]


class Busy(PoolscopeError):
    """All streams are taken."""


class Streams:
    """The streams that are open, and those that were left and are still being worked on."""

    def __init__(self, maximum: int = MAX_STREAMS) -> None:
        self._free = threading.BoundedSemaphore(maximum)
        self._limiter, self._maximum = CapacityLimiter(maximum), maximum
        self._open: set[Work] = set()

    def open(self, found: Callable[[Stoppable], Events]) -> Stream:
        """A stream of what is found; `Busy` where there are as many as there may be."""
        if not self._free.acquire(blocking=False):
            raise Busy(f"the explorer is busy with {self._maximum} answers; it is asked again in {RETRY_AFTER} s")
        work = Work(found, self._over)
        self._open.add(work)
        return Stream(work, self._limiter)

    def close(self) -> None:
        """Ask all work to end."""
        for work in list(self._open):
            work.engine.stop.set()

    def _over(self, work: Work) -> None:
        self._open.discard(work)
        self._free.release()


class Work:
    """What a stream is made of, one event after another.

    It is over when the stream is closed and no thread works on it: a thread that was left in the middle still takes
    its memory.
    """

    def __init__(self, found: Callable[[Stoppable], Events], over: Callable[[Work], None]) -> None:
        self.engine = Stoppable()
        self._events, self._over = found(self.engine), over
        self._lock, self._closed, self._working = threading.Lock(), False, False

    def step(self) -> dict[str, Any] | None:
        """The next event, or None after the last one."""
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
        """Nobody waits for another event."""
        self.engine.stop.set()
        with self._lock:
            if not self._closed and not self._working:
                self._over(self)
            self._closed = True


class Stream(StreamingResponse):
    """Events as they are found; when the page goes away, or asks for something else, the work ends early."""

    def __init__(self, work: Work, limiter: CapacityLimiter) -> None:
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
