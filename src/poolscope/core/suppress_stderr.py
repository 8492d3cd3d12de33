"""Suppression of messages that native libraries print to the process's error stream, for commands only.

Still needed: polars prints a panic message for a damaged Parquet file before it raises, and worker processes of Dask
print tracebacks when they are stopped. Neither can be intercepted in Python. A command reports the error in one line of
its own, so it enables the suppression. From Python nothing is suppressed, as the stream belongs to the caller.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_state = {"enabled": False, "depth": 0, "saved": -1}


def enable() -> None:
    """Enable `suppressed`; Python's own `sys.stderr` keeps writing to the original stream."""
    own = sys.__stderr__
    if own is None or sys.stderr is not own or _state["enabled"]:
        return
    own.flush()
    sys.stderr = os.fdopen(os.dup(2), "w", buffering=1, encoding=own.encoding, errors="backslashreplace")
    _state["enabled"] = True


def suppress_for_good() -> None:
    """Discard everything that is printed from here on, as by libraries at the interpreter's exit."""
    if _state["enabled"]:
        sys.stderr.flush()
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
        os.dup2(sys.stderr.fileno(), 2)


def keep_suppressed() -> None:
    """Keep file descriptor 2 suppressed when the enclosing `suppressed` ends."""
    with _lock:
        _state["depth"] += _state["enabled"]


@contextmanager
def suppressed() -> Iterator[None]:
    """Discard what is written to file descriptor 2 inside, if `enable` was called."""
    if not _state["enabled"]:
        yield
        return
    with _lock:
        _state["depth"] += 1
        if _state["depth"] == 1:
            _state["saved"] = os.dup(2)
            devnull = os.open(os.devnull, os.O_WRONLY)
            os.dup2(devnull, 2)
            os.close(devnull)
    try:
        yield
    finally:
        with _lock:
            _state["depth"] -= 1
            if _state["depth"] == 0:
                os.dup2(_state["saved"], 2)
                os.close(_state["saved"])
