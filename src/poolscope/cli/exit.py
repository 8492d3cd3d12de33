"""The last line of a command that did not do what it was asked, and its exit code."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from typing import NoReturn

from poolscope.core.errors import InputError, Stopped, one_line
from poolscope.core.errors import as_options as as_options
from poolscope.core.suppress_stderr import for_good

#: Signals that ask a process to end; the last is not everywhere.
ENDING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]

#: Seconds that libraries have for what they do at the end of a process that was stopped.
GRACE = 3.0


def leave(error: Exception) -> NoReturn:
    """Say in one line what is wrong, or what a stopped command keeps."""
    if isinstance(error, Stopped) and threading.current_thread() is threading.main_thread():
        for number in ENDING:  # it ends already: whoever asks again is not told by a traceback
            signal.signal(number, signal.SIG_IGN)
    print(f"poolscope: {as_options(one_line(str(error)))}", file=sys.stderr)
    for_good()
    if not isinstance(error, Stopped):
        raise SystemExit(2 if isinstance(error, InputError) else 1)
    end_process(error.code)


def end_process(code: int) -> NoReturn:
    """Not by the interpreter's own end: threads in the middle of native code would not survive it, nor it them."""
    hangs = threading.Timer(GRACE, os._exit, (code,))
    hangs.daemon = True
    hangs.start()
    atexit._run_exitfuncs()
    os._exit(code)


def flushed(code: object) -> int:
    """The exit code of a process whose output is written out; whoever reads it may have gone."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = code or 1
    except OSError as error:
        print(f"poolscope: the output cannot be written: {error.strerror}", file=sys.stderr)
        code = code or 1
    return code if isinstance(code, int) else int(code is not None)
