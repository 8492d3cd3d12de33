"""Atomic writing: a temporary file in the same folder is flushed and renamed."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

#: Suffix of the names of unfinished files, which begin with a dot.
UNFINISHED = ".part"


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path in the target's folder; on success the file is flushed and replaces the target.

    The name is random rather than the process's number, as two machines may write the same file.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}{UNFINISHED}")
    try:
        yield temporary
        put_in_place(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def put_in_place(temporary: Path, path: Path) -> None:
    """Flush a finished file and rename it, within the same file system."""
    with temporary.open("rb+") as stream:
        os.fsync(stream.fileno())
    temporary.replace(path)
    flush_folder(path.parent)


def flush_folder(folder: Path) -> None:
    """Flush the entries of a folder, so that a rename survives a power failure, where the system supports it."""
    with suppress(OSError):
        entry = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(entry)
        finally:
            os.close(entry)


def write_text(path: Path, text: str) -> None:
    """Replace the text of a file atomically."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def write_bytes(path: Path, data: bytes | memoryview) -> None:
    """Replace the content of a file atomically."""
    with replacing(path) as temporary:
        temporary.write_bytes(data)


def is_unfinished(path: Path) -> bool:
    """Return whether a file has the name of an unfinished one."""
    return path.name.startswith(".") and path.name.endswith(UNFINISHED)


def sweep(folder: Path) -> None:
    """Remove the unfinished files that a killed process left in a folder."""
    for path in folder.glob(f".*{UNFINISHED}"):
        path.unlink(missing_ok=True)


def checksum(path: Path) -> str:
    """Return the SHA-256 checksum of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
