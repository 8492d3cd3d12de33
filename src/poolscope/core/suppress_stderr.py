"""What libraries in other languages print when they fail, kept from the user's terminal.

A decoder that stumbles over a damaged file prints its own account of it to the process's error stream before it tells
us. A command says what is wrong in one line of its own, so it hushes such accounts (`enabled`); from Python nothing is
hushed, as the stream is not ours.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_state = {"enabled": False, "depth": 0, "kept": -1}


def enable() -> None:
    """From here on hush; what Python itself prints goes to the stream as it was, which must be the process's own."""
    own = sys.__stderr__
    if own is None or sys.stderr is not own or _state["enabled"]:
        return
    own.flush()
    sys.stderr = os.fdopen(os.dup(2), "w", buffering=1, encoding=own.encoding, errors="backslashreplace")
    _state["enabled"] = True


def suppress_for_good() -> None:
    """The last word was said: what libraries tell of the end, as Python's exit calls them, is not heard."""
    if _state["enabled"]:
        sys.stderr.flush()
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
        os.dup2(sys.stderr.fileno(), 2)


@contextmanager
def suppressed() -> Iterator[None]:
    """Nothing written to the process's own error stream inside is seen."""
    if not _state["enabled"]:
        yield
        return
    with _lock:
        _state["depth"] += 1
        if _state["depth"] == 1:
            _state["kept"] = os.dup(2)
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 2)
            os.close(nowhere)
    try:
        yield
    finally:
        with _lock:
            _state["depth"] -= 1
            if _state["depth"] == 0:
                os.dup2(_state["kept"], 2)
                os.close(_state["kept"])
