"""Input files and output folders: checks, locks, scratch folders and JSON.

Inputs are regular files; a folder must contain files of one kind, so that none is skipped. A folder that a process
writes is locked (`filelock`). The lock ends with the process, however it ended. A later process can therefore
distinguish a folder in use from one that a killed process left behind, and removes the latter.
"""

from __future__ import annotations

import json
import math
import os
import secrets
import shutil
import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poolscope.core.errors import InputError, format_value, reading

if TYPE_CHECKING:
    from filelock import BaseFileLock

#: Marker files that other systems write into a data folder; hidden files are ignored too.
MARKERS = ("_SUCCESS", "_metadata", "_common_metadata")

#: Suffixes of data files.
DATA = (".parquet", ".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".arrow", ".feather", ".gz", ".zst", ".zip")

_OTHERS = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def check_regular(path: Path) -> None:
    """Check that a path is a regular file: reading a pipe, socket or device may block or never end."""
    with reading(path):
        mode = path.stat().st_mode
    for is_kind, kind in _OTHERS:
        if is_kind(mode):
            raise InputError(f"must be a regular file, is {kind}", file=path, remedy="write it to a file first")


def folder_files(folder: Path, ending: str, kind: str) -> list[Path]:
    """Return the files of a folder with this suffix, sorted by name; `kind` describes them in messages.

    Other data files and subfolders are errors, as their rows would be missing. A warning names other ignored files.
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
        names = ", ".join(format_value(path.name) for path in others[:3])
        more = f" and {len(others) - 3:,} more" if len(others) > 3 else ""
        warnings.warn(f"{folder}: ignored {names}{more}, which are not {kind}", stacklevel=3)
    for path in wanted:
        check_regular(path)
    return wanted


ANOTHER = "choose another with `out`"

#: The file that is locked while a process uses a folder (`held`); it does not count as content.
LOCK = ".poolscope-lock"

#: Prefix of the names of scratch folders; a non-empty one without a lock file is not ours.
PREFIX = ".poolscope."


@contextmanager
def located_os_errors(path: Path, remedy: str | None = None) -> Iterator[None]:
    """Convert an `OSError` of writing `path` into a one-line `InputError`."""
    try:
        yield
    except OSError as error:
        raise unwritable(path, error, remedy) from error


def unwritable(path: Path, error: OSError, remedy: str | None = None) -> InputError:
    """Return the error of a path that cannot be written."""
    return InputError(f"cannot write: {error.strerror or error}", file=path, remedy=remedy)


def new_folder(name: str) -> Path:
    """Return the first unused folder of this name in the current directory: NAME, NAME-2, NAME-3, ..."""
    return next(path for path in _numbered(name) if not path.exists())


def last_folder(name: str) -> Path:
    """Return the last existing folder of `new_folder`'s sequence; the first name where there is none."""
    last = Path(name)
    for path in _numbered(name):
        if not path.exists():
            return last
        last = path
    raise AssertionError("numbers do not end")


def _numbered(name: str) -> Iterator[Path]:
    return (Path(name if number == 1 else f"{name}-{number}") for number in count(1))


def check_folder(out: Path) -> None:
    """Check that a path is a writable folder, or does not exist and can be created."""
    if out.exists() and not out.is_dir():
        raise InputError("must be a folder", file=out, remedy=ANOTHER)
    check_writable(out, out)


def nearest_folder(path: Path) -> Path:
    """Return the path itself if it is a folder, or else its nearest existing parent folder."""
    path = path.absolute()
    while not path.is_dir():
        path = path.parent
    return path


def check_writable(folder: Path, out: Path, remedy: str = ANOTHER) -> None:
    """Check that files can be created in the folder, or in its nearest existing parent; `out` is the output."""
    # named before it is created, so that it is removed even if the process is stopped in between
    probe = _scratch_name(nearest_folder(folder))
    try:
        try:
            probe.mkdir(mode=0o700)
        finally:
            with suppress(FileNotFoundError):
                probe.rmdir()
    except OSError as error:
        rule = f"must be where files can be written: {nearest_folder(folder)} is not writable"
        raise InputError(rule, file=out, remedy=remedy) from error


def check_new(out: Path, *, what: str = "is not empty", remedy: str = ANOTHER) -> None:
    """Check that an output folder is new or empty; `what` and `remedy` complete the message otherwise."""
    check_folder(out)
    if out.exists() and any(path.name != LOCK for path in out.iterdir()):
        raise InputError(f"the output folder {what}", file=out, remedy=remedy)


def check_shared(folder: Path, what: str) -> None:
    """Check that this worker, possibly on another machine, can see the folder; `what` describes it."""
    if not folder.is_dir():
        raise unshared(f"a worker cannot see {what}", folder)


def unshared(rule: str, path: Path) -> InputError:
    """Return the error of a file or folder that exists on one machine but not on another."""
    return InputError(rule, file=path, remedy="workers must share the file system of the output folder")


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder, or raise an `InputError` where another process has locked it; the lock file is removed."""
    lock = _acquired(folder / LOCK)
    if lock is None:
        raise InputError("another process is at work in this folder", file=folder, remedy=f"wait for it, or {ANOTHER}")
    try:
        yield
    finally:
        _release_and_remove(lock)


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Create a folder where it does not exist, and lock it; created folders that stay empty are removed."""
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder):
            yield
    finally:
        for path in made:
            with suppress(OSError):
                path.rmdir()


def _scratch_name(beside: Path) -> Path:
    return beside / f"{PREFIX}{secrets.token_hex(8)}"


@contextmanager
def scratch_folder(beside: Path) -> Iterator[Path]:
    """Create a temporary folder in `beside`; those of dead processes are removed first."""
    sweep_scratch(beside)
    # named before it is created, so that it is removed even if the process is stopped before locking it
    folder, lock = _scratch_name(beside), None
    try:
        while lock is None:  # another process may remove the folder between its creation and the lock
            folder.mkdir(mode=0o700, exist_ok=True)
            with suppress(FileNotFoundError):
                lock = _acquired(folder / LOCK)
        yield folder
    finally:
        _remove_folder(folder, lock)


def sweep_scratch(beside: Path) -> None:
    """Remove scratch folders of dead processes; a process that died before the lock left an empty folder."""
    for folder in beside.glob(f"{PREFIX}*"):
        if folder.is_symlink():
            continue
        with suppress(OSError):
            if not (folder / LOCK).is_file():
                folder.rmdir()
            elif lock := _acquired(folder / LOCK):
                _remove_folder(folder, lock)


def _remove_folder(folder: Path, lock: BaseFileLock | None) -> None:
    """Remove a scratch folder and release its lock; Windows removes the lock file only after the release."""
    shutil.rmtree(folder, ignore_errors=True)
    if lock is not None:
        _release_and_remove(lock)
    with suppress(OSError):
        folder.rmdir()


def _acquired(path: Path) -> BaseFileLock | None:
    """Return the acquired lock of a file, created if necessary; None where another process holds it."""
    from filelock import FileLock, Timeout  # its import is slow

    lock = FileLock(path, mode=0o600, blocking=False, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        return None
    return lock


def _release_and_remove(lock: BaseFileLock) -> None:
    """Remove the lock file, then release the lock, so that a later process creates a new file."""
    with suppress(OSError):
        os.unlink(lock.lock_file)
    lock.release()


def read_json(path: Path) -> Any:
    """Read a JSON file."""
    check_regular(path)
    with reading(path):
        return parse_json(path.read_text("utf-8"))


def parse_json(text: str, place: str | None = None) -> Any:
    """Parse JSON text; an error names its line, or `place` if given."""
    try:
        return json.loads(text)
    except RecursionError:
        raise InputError("must not be nested that deeply", place=place) from None
    except ValueError as error:
        message = getattr(error, "msg", str(error))
        place = place or f"line {getattr(error, 'lineno', 1)}"
        raise InputError(f"must be JSON: {message}", place=place) from error


def json_safe(value: Any) -> Any:
    """Return a value for JSON, which has neither infinity nor NaN: infinity becomes a string, NaN null."""
    if isinstance(value, dict):
        return {key: json_safe(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [json_safe(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value
