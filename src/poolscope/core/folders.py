"""Outputs: which folder is taken by default, which is refused, and how it is told that one cannot be written."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from poolscope.core.errors import InputError

ANOTHER = "choose another with `out`"

#: The file that is locked while a process is at work in a folder (`base.scratch`); it counts for nothing.
LOCK = ".poolscope-lock"

#: How a scratch folder is called; one that holds something and no lock's file is not ours.
PREFIX = ".poolscope."


@contextmanager
def told(path: Path, remedy: str | None = None) -> Iterator[None]:
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
