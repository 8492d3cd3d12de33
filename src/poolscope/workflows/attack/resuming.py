"""Keep the finished work of an attack beside its output, so that a stopped one continues where it was.

The folder ``OUT.unfinished`` has the features of each chunk of reports, the posteriors of each partition of users, and
a record of each with the checksum of its file. What has no record, or another checksum, is computed again. The folder
is removed when the attack is finished.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poolscope import __version__
from poolscope.core.errors import InputError, reading
from poolscope.core.files import claimed, located_os_errors, read_json
from poolscope.core.tables import Data, Destination, SourceOptions, label_of, local_paths
from poolscope.core.tables.atomic import UNFINISHED as PART
from poolscope.core.tables.atomic import checksum, sweep, write_text
from poolscope.scenario.scenario import Scenario

#: Suffix of the folder.
UNFINISHED = ".unfinished"

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class Records:
    """The records of finished tasks in a folder, written by any worker."""

    folder: Path

    def add(self, task: str, file: Path, facts: Mapping[str, Any], arrays: Arrays | None = None) -> None:
        """Record a finished task: its file is on disk, `facts` are JSON, and `arrays` are numbers.

        Files are renamed into place but not flushed: what a power failure leaves has another checksum.
        """
        stream = BytesIO()
        np.savez(stream, allow_pickle=False, **dict(arrays or {}))
        _put(self._arrays(task), stream.getvalue())
        record = {"file": file.name, "checksum": checksum(file), "arrays": _digest(stream.getvalue()), "facts": facts}
        _put(self.folder / f"{task}.json", json.dumps(record).encode())

    def found(self, task: str, folder: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]] | None:
        """Return facts and arrays of a finished task whose file in the folder is unchanged; else None."""
        try:
            record = json.loads((self.folder / f"{task}.json").read_bytes())
            stored = self._arrays(task).read_bytes()
            same = checksum(folder / record["file"]) == record["checksum"] and _digest(stored) == record["arrays"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        if not same:
            return None
        with np.load(BytesIO(stored), allow_pickle=False) as arrays:
            return record["facts"], {name: arrays[name] for name in arrays.files}

    def popularity(self, method: str) -> NDArray[np.float64] | None:
        """Return the popularity that was estimated by a method; None where it was not."""
        found = self.found(f"popularity-{method}", self.folder)
        return None if found is None else np.load(self.folder / f"popularity-{method}.npy", allow_pickle=False)

    def keep_popularity(self, method: str, popularity: NDArray[np.float64]) -> None:
        """Keep a popularity that was estimated by a method."""
        path = self.folder / f"popularity-{method}.npy"
        with path.open("wb") as stream:
            np.save(stream, popularity)
        self.add(f"popularity-{method}", path, {})

    def _arrays(self, task: str) -> Path:
        return self.folder / f"{task}.npz"


def _put(path: Path, data: bytes) -> None:
    """Write a file under another name, and rename it."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}{PART}")
    temporary.write_bytes(data)
    temporary.replace(path)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def check_resumable(place: Destination, reports: Data, source: SourceOptions) -> None:
    """Refuse to resume an attack whose table goes to an address, or whose reports come from one."""
    if place.path is None:
        rule, remedy = "resume needs a table in a file on this machine", "choose a file with `out`"
        raise InputError(rule, value=place.label, remedy=remedy)
    if not local_paths(reports) or source.query is not None:
        remedy = "write the reports to a file first"
        raise InputError("resume needs reports in files on this machine", value=label_of(reports), remedy=remedy)


@contextmanager
def unfinished_folder(out: Path, identity: Mapping[str, Any]) -> Iterator[Path]:
    """Create or reuse the folder of unfinished work of an output, and remove it in the end.

    It stays where the process is stopped, or fails for another reason than wrong input. `identity` is what the work
    depends on, by name: a folder of other work is refused.
    """
    folder = out.with_name(out.name + UNFINISHED)
    asked = {"version": __version__, **identity}
    manifest = folder / "manifest.json"
    fresh = not manifest.is_file()
    if fresh and folder.exists() and any(not _is_ours(path) for path in folder.iterdir()):
        raise InputError(
            "must be a folder of unfinished work", file=folder, remedy="remove it, or choose another `out`"
        )
    if not fresh:
        _check_same(read_json(manifest), json.loads(json.dumps(asked)), folder)
    done = False
    with located_os_errors(folder, "free disk space and continue with `resume`"), claimed(folder):
        try:
            sweep(folder)
            for name in ("parts", "records"):
                (folder / name).mkdir(exist_ok=True)
                sweep(folder / name)
            write_text(manifest, json.dumps(asked))
            yield folder
            done = True
        except InputError:
            done = fresh
            raise
        finally:
            if done:
                shutil.rmtree(folder, ignore_errors=True)


def _is_ours(path: Path) -> bool:
    return path.name.startswith(".") or path.name in ("parts", "records")


def _check_same(before: Any, now: Mapping[str, Any], folder: Path) -> None:
    """Refuse to continue other work."""
    if not isinstance(before, dict):
        raise InputError("must be the manifest of unfinished work", file=folder / "manifest.json")
    for name, value in now.items():
        if before.get(name) != value:
            rule = f"{name} differs from that of the attack to resume"
            remedy = f"remove the folder {folder.name} to start over"
            raise InputError(rule, file=folder, remedy=remedy)


def identity(
    reports: Data,
    source: SourceOptions,
    scenario: Scenario,
    pools: str | PathLike[str] | None,
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """Return what an attack depends on, by name: reports by size and time of modification, other files by content."""
    paths = local_paths(reports)
    files = {name: _checksum(scenario.resolve(name)) for name in scenario.named_files}
    parts = [part for path in paths for part in (sorted(path.rglob("*")) if path.is_dir() else [path])]
    with reading(paths[0]):
        state = {str(part): [(found := part.stat()).st_size, found.st_mtime_ns] for part in parts}
    return {
        "the file of reports": state,
        "the choice of columns": [dict(source.columns), source.time],
        "the scenario": {"text": scenario.text, "overrides": scenario.about()["asked"]},
        "a file that the scenario names": files,
        "the file of pools": None if pools is None else _checksum(Path(pools)),
        **{f"the option {name}": value for name, value in options.items()},
    }


def _checksum(path: Path) -> str:
    with reading(path):
        return checksum(path)
