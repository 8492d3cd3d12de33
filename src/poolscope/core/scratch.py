"""Folders that belong to one living process: locked while it lives, taken away by whoever comes after its death.

The lock is the system's (`flock`, or its like): it is gone when the process is, however that ended. So a folder in use
is told from one that a killed process left, and a second process that wants the same folder is told so.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from poolscope.core.errors import InputError
from poolscope.core.folders import ANOTHER, LOCK, PREFIX


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold a folder; refused where another process holds it. The lock's file is gone afterwards."""
    path = folder / LOCK
    lock = _locked(path)
    if lock is None:
        raise InputError("another process is at work in this folder", file=folder, remedy=f"wait for it, or {ANOTHER}")
    try:
        yield
    finally:
        # first the name, then the lock: whoever opens the name from now on makes a file of its own
        path.unlink(missing_ok=True)
        os.close(lock)


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Make a folder where it is not there, and hold it; what was made is removed where nothing was put into it."""
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with held(folder):
            yield
    finally:
        for path in made:
            with suppress(OSError):
                path.rmdir()


@contextmanager
def scratch_folder(beside: Path) -> Iterator[Path]:
    """A folder for files that are needed for a while, in `beside`; those of dead processes are taken away first."""
    sweep_scratch(beside)
    # named before it is there: whoever is stopped between making and locking it still takes it away
    folder, lock = beside / f"{PREFIX}{secrets.token_hex(8)}", None
    try:
        lock = _made_and_locked(folder)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _made_and_locked(folder: Path) -> int:
    """The descriptor that holds a new folder; made again where a sweep came between making and locking."""
    while True:
        folder.mkdir(mode=0o700, exist_ok=True)
        with suppress(FileNotFoundError):
            lock = _locked(folder / LOCK)
            if lock is not None:
                return lock


def sweep_scratch(beside: Path) -> None:
    """Take away scratch folders whose process is dead, be it before its lock was there: then the folder is empty."""
    for folder in beside.glob(f"{PREFIX}*"):
        if folder.is_symlink():
            continue
        with suppress(OSError):
            if not (folder / LOCK).is_file():
                folder.rmdir()
                continue
            lock = _locked(folder / LOCK)
            if lock is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)


def _locked(path: Path) -> int | None:
    """A descriptor of the file, made where it is not there, that holds its lock; None where another one does."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _lock(descriptor)
            # the file may have lost its name between opening and locking: then the lock is worth nothing
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            return None
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _lock(descriptor: int) -> None:
    """Lock at once or raise `BlockingIOError`."""
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        except OSError as error:
            raise BlockingIOError(str(error)) from None
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
