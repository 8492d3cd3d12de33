"""Control the process of a command: output encoding, signals, the last line, and the exit code.

Ctrl-C, TERM and HUP raise `Ended` in the main thread; the command cleans up, and `leave` prints in one line what is
saved. Two cases need more: Python drops an exception raised inside a destructor (`sys.unraisablehook` raises it again),
and cleanup may hang (`os._exit` after `PATIENCE`).
"""

from __future__ import annotations

import codecs
import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

from poolscope.core.errors import InputError, Stopped, one_line
from poolscope.core.errors import as_options as as_options
from poolscope.core.suppress_stderr import suppress_for_good

#: Replacements of characters that an encoding lacks.
ASCII = {
    "–": "-",
    "−": "-",
    "∞": "inf",
    "≥": ">=",
    "≤": "<=",
    "ε": "eps",
    "γ": "gamma",
    "δ": "delta",
    "★": "*",
    "×": "x",
}

#: Signals that ask a process to end; SIGHUP is not available everywhere.
ENDING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]

#: Seconds until a process whose cleanup hangs exits without it.
PATIENCE = 10.0

#: Seconds until a dropped interrupt is raised again.
AGAIN = 0.05


class Ended(KeyboardInterrupt):
    """The process was asked to end: by Ctrl-C, a cluster's time limit, or a closed terminal."""


@contextmanager
def stoppable(saved_message: Callable[[], str]) -> Iterator[None]:
    """Turn Ctrl-C, TERM and HUP into `Stopped`, whose message says what is saved."""
    asked: list[int] = []
    heard = False

    def stopped(number: int) -> Stopped:
        return Stopped(f"stopped; {saved_message()}", code=128 + number)

    def give_up() -> None:
        print_error(stopped(asked[0]))
        os._exit(128 + asked[0])

    def end(number: int, _: object) -> None:
        nonlocal heard
        if not asked:
            asked.append(number)
            hangs.start()
        if not heard:  # otherwise it is cleaning up already
            heard = True
            raise Ended

    def swallowed(lost: sys.UnraisableHookArgs) -> None:
        """Raise an interrupt again that Python dropped inside a destructor."""
        nonlocal heard
        if isinstance(lost.exc_value, Ended):
            heard = False
            if alarm:
                signal.setitimer(signal.ITIMER_REAL, AGAIN)
        else:
            hook(lost)

    hangs = threading.Timer(PATIENCE, give_up)
    hangs.daemon = True
    # an ignored signal, as HUP under nohup, stays ignored
    plain = (signal.SIG_DFL, signal.default_int_handler)
    alarm = [signal.SIGALRM] if hasattr(signal, "SIGALRM") else []
    before = {number: signal.signal(number, end) for number in ENDING + alarm if signal.getsignal(number) in plain}
    hook, sys.unraisablehook = sys.unraisablehook, swallowed
    try:
        yield
    except BaseException as error:
        # a library may have converted the interrupt to its own error
        if asked or isinstance(error, KeyboardInterrupt):
            raise stopped(asked[0] if asked else signal.SIGINT) from None
        raise
    finally:
        heard = True
        hangs.cancel()
        sys.unraisablehook = hook
        if alarm:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
        for number, handler in before.items():
            signal.signal(number, handler)


def print_error(error: Exception) -> None:
    """Print an error in one line."""
    print(f"poolscope: {as_options(one_line(str(error)))}", file=sys.stderr)


def exit_with(error: Exception) -> NoReturn:
    """Print what is wrong, or what a stopped command saved, in one line, and exit."""
    if isinstance(error, Stopped):
        for number in ENDING:  # exiting already: a second signal must not print a traceback
            signal.signal(number, signal.SIG_IGN)
    print_error(error)
    suppress_for_good()
    raise SystemExit(error.code if isinstance(error, Stopped) else 2 if isinstance(error, InputError) else 1)


def flushed(code: object) -> int:
    """Flush the output, whose reader may be gone, and return the exit code."""
    try:
        sys.stdout.flush()
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            print(f"poolscope: the output cannot be written: {error.strerror}", file=sys.stderr)
        code = code or 1
        # do not flush the rest again at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code if isinstance(code, int) else int(code is not None)


def replace_unencodable() -> None:
    """From now on, write characters that the output's encoding lacks in ASCII, or as a question mark."""
    codecs.register_error("ascii-replacement", _ascii)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="ascii-replacement")


def _ascii(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    lacking = error.object[error.start : error.end]
    return "".join(ASCII.get(sign, "?") for sign in lacking), error.end
