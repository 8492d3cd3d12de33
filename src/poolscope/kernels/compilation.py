"""Compilation of kernels: cache folder, background compilation, reference counts, fused multiply-adds.

Numba counts references wherever an array is taken out of a tuple. The chains over memoized responses pass dozens of
arrays between functions: counting took a third of their run time, and two fifths of their compile time.
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
    """Do nothing: Numba checks that it can cache this function."""


def ensure_cache_dir() -> None:
    """Use a temporary cache folder where neither the package nor the user's cache is writable.

    Without any folder Numba refuses to define a cached kernel. Child processes use the same folder
    (`cache_environment`).
    """
    try:
        njit(cache=True)(_probe)
    except RuntimeError:
        folder = tempfile.mkdtemp(prefix="poolscope-kernels-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        config.CACHE_DIR = folder
        warnings.warn(
            "compiled kernels cannot be cached, so that every run compiles them: "
            "set NUMBA_CACHE_DIR to a writable folder",
            stacklevel=2,
        )


def cache_environment() -> dict[str, str]:
    """Return the environment variable that makes another process use the same cache folder."""
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
    """Call `notify` whenever a kernel is compiled inside; kernels found in the cache do not count."""
    with event.install_listener("numba:compile", _Compiling(notify)):
        yield


class BackgroundCompile:
    """Compile a kernel in another process while this one compiles others; Numba itself compiles serially.

    code : what that process runs to compile the kernel into the cache.
    """

    def __init__(self, kernel: Any, code: str) -> None:
        self._kernel, self._code = kernel, code
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Start compiling, unless the kernel is in the cache already."""
        name = self._kernel.py_func.__name__
        if not any(Path(self._kernel.stats.cache_path).glob(f"*.{name}-*.nbi")):
            command = [sys.executable, "-c", self._code]
            nowhere, environment = subprocess.DEVNULL, os.environ | cache_environment()
            self._process = subprocess.Popen(command, stdin=nowhere, stdout=nowhere, stderr=nowhere, env=environment)
            atexit.register(self._process.kill)

    def wait(self) -> None:
        """Wait for the other process before the kernel is called; if that failed, this process compiles it."""
        with self._lock:
            if self._process is not None:
                self._process.wait()
                atexit.unregister(self._process.kill)
                self._process = None


#: Empty where this version of Numba lacks the option: kernels are then compiled with reference counts.
_OPTIONS = {"_nrt": False} if hasattr(getattr(options, "DefaultOptions", None), "_nrt") else {}

#: For functions that receive all arrays from Python, and neither allocate nor return one; Numba refuses others.
njit_no_refcount = njit(nogil=True, cache=True, **_OPTIONS)

#: The same, with division by zero giving infinity: a loop that divides vectorizes only without the check.
unchecked = njit(nogil=True, cache=True, error_model="numpy", **_OPTIONS)

# Numba compiles a function with each of its callers again, up to the kernel. One that has a single caller is therefore
# inlined (`inline="always"`); small ones with several callers are not, as Numba copies their code at every call.
_NO_ENTRY = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}

#: For functions that only kernels call; a call from Python would crash (`tests/kernels/test_compilation.py`). The code
#: that takes arguments from Python is left out: with tuples of many arrays, it was a fifth of their compile time.
inner = njit(nogil=True, cache=True, **_NO_ENTRY, **_OPTIONS)

#: The same, with division by zero giving infinity.
inner_unchecked = njit(nogil=True, cache=True, error_model="numpy", **_NO_ENTRY, **_OPTIONS)

#: Like `inner`, for functions that allocate or return an array.
inner_counted = njit(nogil=True, cache=True, **_NO_ENTRY)


@intrinsic
def fma(typing, a, b, c):
    """Return a * b + c, rounded once; twice where llvmlite lacks the instruction, which changes last bits."""

    def codegen(context, builder, signature, arguments):
        if hasattr(builder, "fma"):
            return builder.fma(*arguments)
        a, b, c = arguments
        return builder.fadd(builder.fmul(a, b), c)

    return types.float64(types.float64, types.float64, types.float64), codegen
