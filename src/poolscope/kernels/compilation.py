"""Compile kernels: when, into which cache, without reference counts, and with fused multiply-adds.

Numba counts references wherever an array is taken out of a tuple. The chains over memoized responses pass a few dozen
arrays from function to function: counting was a third of their time, and two fifths of the time to compile them.
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numba import config, njit, types
from numba.core import event, options
from numba.extending import intrinsic


def _probe():
    """For numba to say whether it finds a place to keep it."""


def ensure_cache_dir() -> None:
    """Where neither the package nor the user's cache can be written, keep what is compiled for this process alone.

    Without a place numba would refuse to define a single kernel. Processes that this one starts use the same place
    (`cache_environment`).
    """
    try:
        njit(cache=True)(_probe)
    except RuntimeError:
        folder = tempfile.mkdtemp(prefix="poolscope-kernels-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        config.CACHE_DIR = folder
        warnings.warn(
            "compiled kernels cannot be kept, so that every run compiles them anew: "
            "set NUMBA_CACHE_DIR to a folder that can be written",
            stacklevel=2,
        )


def cache_environment() -> dict[str, str]:
    """The environment variable that makes another process keep its kernels where this one does."""
    return {"NUMBA_CACHE_DIR": config.CACHE_DIR} if config.CACHE_DIR else {}


class _Compiling(event.Listener):
    def __init__(self, notify: Callable[[], None]) -> None:
        self._notify = notify

    def on_start(self, _: event.Event) -> None:
        self._notify()

    def on_end(self, _: event.Event) -> None:
        pass


@contextmanager
def watched(notify: Callable[[], None]) -> Iterator[None]:
    """`told` is called whenever a kernel is compiled inside; one that is found in the cache is not."""
    with event.install_listener("numba:compile", _Compiling(notify)):
        yield


class BackgroundCompile:
    """A kernel that another process compiles while this one is at others; numba itself compiles one after another.

    code : what that process runs to compile the kernel into the cache.
    """

    def __init__(self, kernel: Any, code: str) -> None:
        self._kernel, self._code = kernel, code
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Compile, unless it is in the cache already."""
        name = self._kernel.py_func.__name__
        if not any(Path(self._kernel.stats.cache_path).glob(f"*.{name}-*.nbi")):
            command = [sys.executable, "-c", self._code]
            nowhere, environment = subprocess.DEVNULL, os.environ | cache_environment()
            self._process = subprocess.Popen(command, stdin=nowhere, stdout=nowhere, stderr=nowhere, env=environment)
            atexit.register(self._process.kill)

    def wait(self) -> None:
        """Before the kernel is called; if the other process has failed, this one compiles it."""
        with self._lock:
            if self._process is not None:
                self._process.wait()
                atexit.unregister(self._process.kill)
                self._process = None


#: Where Numba knows no such option, the same is compiled as any other kernel.
_OPTIONS = {"_nrt": False} if hasattr(getattr(options, "DefaultOptions", None), "_nrt") else {}

#: For functions whose arrays all come from Python, which holds them, and that neither make nor return one: else Numba
#: refuses to compile them.
njit_no_refcount = njit(nogil=True, cache=True, **_OPTIONS)

#: The same, and division by zero gives an infinity instead of an error: a loop that divides goes through vector
#: registers only without the check.
unchecked = njit(nogil=True, cache=True, error_model="numpy", **_OPTIONS)


@intrinsic
def fma(typing, a, b, c):
    """a * b + c, rounded once; twice where llvmlite has no such instruction, which changes last bits."""

    def codegen(context, builder, signature, arguments):
        if hasattr(builder, "fma"):
            return builder.fma(*arguments)
        a, b, c = arguments
        return builder.fadd(builder.fmul(a, b), c)

    return types.float64(types.float64, types.float64, types.float64), codegen
