"""Files that are read: regular ones, and in a folder all of one kind, so that nothing is left out unsaid."""

from __future__ import annotations

import stat
import warnings
from pathlib import Path

from poolscope.core.errors import InputError, reading, shown

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
