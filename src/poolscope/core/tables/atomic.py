"""Writing so that nothing is ever half there: beside, flushed, renamed."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

#: How the name of a file that is not finished ends; it begins with a dot.
UNFINISHED = ".part"


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path beside the target to write to; on success it is flushed and takes the target's place.

    The name beside is drawn, not the process's number: two machines may write the same file.
    """
    beside = path.with_name(f".{path.name}.{secrets.token_hex(6)}{UNFINISHED}")
    try:
        yield beside
        put_in_place(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def put_in_place(beside: Path, path: Path) -> None:
    """Flush a finished file and give it its name, in the same file system."""
    with beside.open("rb+") as stream:
        os.fsync(stream.fileno())
    beside.replace(path)
    flush_folder(path.parent)


def flush_folder(folder: Path) -> None:
    """Make a new name in the folder outlive a power cut, where the system can."""
    with suppress(OSError):
        entry = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(entry)
        finally:
            os.close(entry)


def write_text(path: Path, text: str) -> None:
    """Replace the file's text at once."""
    with replacing(path) as beside:
        beside.write_text(text, encoding="utf-8", newline="\n")


def write_bytes(path: Path, data: bytes | memoryview) -> None:
    """Replace the file's content at once."""
    with replacing(path) as beside:
        beside.write_bytes(data)


def is_unfinished(path: Path) -> bool:
    """Whether a file has the name of one that is not finished."""
    return path.name.startswith(".") and path.name.endswith(UNFINISHED)


def sweep(folder: Path) -> None:
    """Take away what a killed process left unfinished in the folder."""
    for path in folder.glob(f".*{UNFINISHED}"):
        path.unlink(missing_ok=True)


def checksum(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
