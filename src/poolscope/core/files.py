"""Input files and output folders: what is read, what may be written, and which process owns a folder.

Inputs are regular files; a folder must hold files of one kind, so that none is skipped. A folder that a process writes
is locked (`filelock`). The lock ends with the process, however that ended, so that a later process can tell a folder in
use from one that a killed process left behind, and removes the latter.
"""

from __future__ import annotations

import json
import math
import os
import secrets
import shutil
import stat
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poolscope.core.errors import InputError, reading, shown

if TYPE_CHECKING:
    from filelock import BaseFileLock

#: What other systems put beside the data of a folder; hidden files are ignored too.
MARKERS = ("_SUCCESS", "_metadata", "_common_metadata")

#: Endings of files that hold data.
DATA = (".parquet", ".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".arrow", ".feather", ".gz", ".zst", ".zip")

_OTHERS = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def check_regular(path: Path) -> None:
    """Refuse what never ends or never begins when it is read: pipes, sockets and devices."""
    with reading(path):
        mode = path.stat().st_mode
    for is_kind, kind in _OTHERS:
        if is_kind(mode):
            raise InputError(f"must be a regular file, is {kind}", file=path, remedy="write it to a file first")


def folder_files(folder: Path, ending: str, kind: str) -> list[Path]:
    """The files of a folder with this ending, of this kind in words, in the order of their names.

    Other data and folders are refused, as their rows would be missing. What else is left out is named by a warning.
    """
    with reading(folder):
        found = sorted(path for path in folder.iterdir() if not path.name.startswith(".") and path.name not in MARKERS)
    wanted = [path for path in found if path.suffix.lower() == ending and not path.is_dir()]
    others = [path for path in found if path not in wanted]
    if not wanted:
        raise InputError(f"a folder must have {kind}", value=[path.name for path in others], file=folder)
    for path in others:
        if path.is_dir() or path.suffix.lower() in DATA:
            rule, remedy = f"a folder must hold {kind} alone", "move it out of the folder"
            raise InputError(rule, value=path.name, file=folder, remedy=remedy)
    if others:
        names = ", ".join(shown(path.name) for path in others[:3])
        more = f" and {len(others) - 3:,} more" if len(others) > 3 else ""
        warnings.warn(f"{folder}: left out {names}{more}, which are no {kind}", stacklevel=3)
    for path in wanted:
        check_regular(path)
    return wanted


ANOTHER = "choose another with `out`"

#: The file that is locked while a process is at work in a folder (`held`); it counts for nothing.
LOCK = ".poolscope-lock"

#: How a scratch folder is called; one that holds something and no lock's file is not ours.
PREFIX = ".poolscope."


@contextmanager
def located_os_errors(path: Path, remedy: str | None = None) -> Iterator[None]:
    """What the disk says when `path` cannot be written, in one line."""
    try:
        yield
    except OSError as error:
        raise unwritable(path, error, remedy) from error


def unwritable(path: Path, error: OSError, remedy: str | None = None) -> InputError:
    """The one line."""
    return InputError(f"cannot write: {error.strerror or error}", file=path, remedy=remedy)


def new_folder(name: str) -> Path:
    """The folder of this name where the command is run, numbered where that is taken."""
    return next(path for path in _numbered(name) if not path.exists())


def last_folder(name: str) -> Path:
    """The last that `new_folder` has given; the first where there is none yet."""
    last = Path(name)
    for path in _numbered(name):
        if not path.exists():
            return last
        last = path
    raise AssertionError("numbers do not end")


def _numbered(name: str) -> Iterator[Path]:
    return (Path(name if number == 1 else f"{name}-{number}") for number in count(1))


def check_folder(out: Path) -> None:
    """What is to be a folder is one, or is not there yet, and can be written."""
    if out.exists() and not out.is_dir():
        raise InputError("must be a folder", file=out, remedy=ANOTHER)
    check_writable(out, out)


def nearest_folder(path: Path) -> Path:
    """The path itself if it is a folder, or else the nearest one above it."""
    path = path.absolute()
    while not path.is_dir():
        path = path.parent
    return path


def check_writable(folder: Path, out: Path, remedy: str = ANOTHER) -> None:
    """Refuse the output `out` where nothing can be put into the folder, or into the nearest one above it."""
    try:
        os.rmdir(tempfile.mkdtemp(prefix=PREFIX, dir=nearest_folder(folder)))
    except OSError as error:
        rule = f"must be where files can be written: {nearest_folder(folder)} is not writable"
        raise InputError(rule, file=out, remedy=remedy) from error


def check_new(out: Path, *, what: str = "is not empty", remedy: str = ANOTHER) -> None:
    """An output folder is new or empty; otherwise `what` it is, and what to do."""
    check_folder(out)
    if out.exists() and any(path.name != LOCK for path in out.iterdir()):
        raise InputError(f"the output folder {what}", file=out, remedy=remedy)


def check_shared(folder: Path, what: str) -> None:
    """A worker, who may be on another machine, sees the folder that is `what`."""
    if not folder.is_dir():
        raise unshared(f"a worker cannot see {what}", folder)


def unshared(rule: str, path: Path) -> InputError:
    """The error of a file or folder that is there on one machine and not on another."""
    return InputError(rule, file=path, remedy="workers must share the file system of the output folder")


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold a folder; refused where another process holds it. The lock's file is gone afterwards."""
    lock = _acquired(folder / LOCK)
    if lock is None:
        raise InputError("another process is at work in this folder", file=folder, remedy=f"wait for it, or {ANOTHER}")
    try:
        yield
    finally:
        _release_and_remove(lock)


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
        while lock is None:  # a sweep may come between making and locking
            folder.mkdir(mode=0o700, exist_ok=True)
            with suppress(FileNotFoundError):
                lock = _acquired(folder / LOCK)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            _release_and_remove(lock)


def sweep_scratch(beside: Path) -> None:
    """Take away scratch folders whose process is dead, be it before its lock was there: then the folder is empty."""
    for folder in beside.glob(f"{PREFIX}*"):
        if folder.is_symlink():
            continue
        with suppress(OSError):
            if not (folder / LOCK).is_file():
                folder.rmdir()
            elif lock := _acquired(folder / LOCK):
                shutil.rmtree(folder, ignore_errors=True)
                _release_and_remove(lock)


def _acquired(path: Path) -> BaseFileLock | None:
    """The lock of a file, which is made where it is not there; None where another one holds it."""
    from filelock import FileLock, Timeout  # as slow to import as all of the command line

    lock = FileLock(path, mode=0o600, blocking=False, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        return None
    return lock


def _release_and_remove(lock: BaseFileLock) -> None:
    """First the name, then the lock: whoever opens the name from now on makes a file of its own."""
    with suppress(OSError):
        os.unlink(lock.lock_file)
    lock.release()


def read_json(path: Path) -> Any:
    """What a file of JSON holds."""
    check_regular(path)
    with reading(path):
        return parse_json(path.read_text("utf-8"))


def parse_json(text: str, place: str | None = None) -> Any:
    """What a text says that is JSON; an error is at its own line, or at the place of the text."""
    try:
        return json.loads(text)
    except RecursionError:
        raise InputError("must not be nested that deeply", place=place) from None
    except ValueError as error:
        message = getattr(error, "msg", str(error))
        place = place or f"line {getattr(error, 'lineno', 1)}"
        raise InputError(f"must be JSON: {message}", place=place) from error


def plain(value: Any) -> Any:
    """A value for JSON, which has no infinity and no NaN: the first is a text, the second null."""
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value
