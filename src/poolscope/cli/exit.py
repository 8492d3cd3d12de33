"""How a command ends before its time: signals, its last line, and its exit code.

Ctrl-C, TERM and HUP raise `Ended` in the main thread, what is inside cleans up, and `leave` says in one line what is
left. Two things that Python would do are prevented: it drops an exception that is raised inside a destructor and prints
a traceback (`sys.unraisablehook`), and it waits forever for cleaning up that hangs (`os._exit` after `PATIENCE`).
"""

from __future__ import annotations

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

#: Signals that ask a process to end; the last is not everywhere.
ENDING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]

#: Seconds until a process that was asked to end, and hangs in the attempt, is ended as it is.
PATIENCE = 10.0

#: Seconds until an end that was asked for and not heard is asked for again.
AGAIN = 0.05


class Ended(KeyboardInterrupt):
    """The process was asked to end: by Ctrl-C, a cluster's time limit, or a terminal that was closed."""


@contextmanager
def stoppable(kept: Callable[[], str]) -> Iterator[None]:
    """Ctrl-C, TERM and HUP end what is inside with one line that says what is kept; all take their leftovers along."""
    asked: list[int] = []
    heard = False

    def stopped(number: int) -> Stopped:
        return Stopped(f"stopped; {kept()}", code=128 + number)

    def give_up() -> None:
        say(stopped(asked[0]))
        os._exit(128 + asked[0])

    def end(number: int, _: object) -> None:
        nonlocal heard
        if not asked:
            asked.append(number)
            hangs.start()
        if not heard:  # asked again, it is already cleaning up
            heard = True
            raise Ended

    def swallowed(lost: sys.UnraisableHookArgs) -> None:
        """Python drops an exception that is raised while some object is taken down: ask once more, a moment later."""
        nonlocal heard
        if isinstance(lost.exc_value, Ended):
            heard = False
            signal.setitimer(signal.ITIMER_REAL, AGAIN)
        else:
            hook(lost)

    hangs = threading.Timer(PATIENCE, give_up)
    hangs.daemon = True
    # a signal that is ignored, as HUP below nohup, stays so
    plain = (signal.SIG_DFL, signal.default_int_handler)
    alarm = [signal.SIGALRM] if hasattr(signal, "SIGALRM") else []
    before = {number: signal.signal(number, end) for number in ENDING + alarm if signal.getsignal(number) in plain}
    hook, sys.unraisablehook = sys.unraisablehook, swallowed
    try:
        yield
    except BaseException as error:
        # a library that was interrupted may have made an error of its own of it
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


def say(error: Exception) -> None:
    """The one line."""
    print(f"poolscope: {as_options(one_line(str(error)))}", file=sys.stderr)


def leave(error: Exception) -> NoReturn:
    """Say in one line what is wrong, or what a stopped command keeps, and end."""
    if isinstance(error, Stopped):
        for number in ENDING:  # it ends already: whoever asks again is not told by a traceback
            signal.signal(number, signal.SIG_IGN)
    say(error)
    suppress_for_good()
    raise SystemExit(error.code if isinstance(error, Stopped) else 2 if isinstance(error, InputError) else 1)


def flushed(code: object) -> int:
    """The exit code of a process whose output is written out; whoever reads it may have gone."""
    try:
        sys.stdout.flush()
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            print(f"poolscope: the output cannot be written: {error.strerror}", file=sys.stderr)
        code = code or 1
        # what is left over is not tried again at the end of the process
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code if isinstance(code, int) else int(code is not None)
