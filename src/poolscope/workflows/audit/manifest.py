"""``manifest.json``: what a folder's run is, and the checksum of every block that is finished."""

from __future__ import annotations

import json
import re
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from poolscope.core.errors import InputError, reading
from poolscope.core.files import ANOTHER, read_json
from poolscope.core.tables.atomic import checksum, write_text
from poolscope.game.blocks import Part
from poolscope.inference.independent import MOST_USERS
from poolscope.scenario.scenario import Scenario, named_files

#: What must be the same for a run to go on, and how a message calls it.
SAME = {
    "scenario": "the scenario",
    "inputs": "a file that the scenario names",
    "seed": "the seed",
    "users": "the number of users",
}

#: Share of the time that writing the manifest may take: of a hundred thousand blocks it is long.
SHARE = 0.05

NEEDED = {"scenario", "seed", "users", "version", "block", "parts"}
"""Keys without which a file is no manifest."""


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a folder's run is, and which of its blocks are done.

    Parameters
    ----------
    scenario, seed, users, version : what is played, by which version.
    block : users to a block.
    inputs : checksums of the files that the scenario names.
    parts : checksums of the finished blocks' files.
    """

    scenario: str
    seed: int
    users: int
    version: str
    block: int
    inputs: dict[str, str] = field(default_factory=dict)
    parts: dict[str, str] = field(default_factory=dict)

    @property
    def blocks(self) -> int:
        """How many there are, finished or not."""
        return -(-self.users // self.block)

    def write(self, out: Path) -> None:
        write_text(out / "manifest.json", json.dumps(asdict(self), indent=1) + "\n")


class Keeper:
    """Writes the manifest as blocks are finished, and once more at the end, however it comes."""

    def __init__(self, manifest: Manifest, out: Path) -> None:
        self._manifest, self._out, self._next, self._behind = manifest, out, 0.0, False

    def __enter__(self) -> Keeper:
        self._write()
        return self

    def __exit__(self, *_: object) -> None:
        if self._behind:
            self._write()

    def add(self, part: Part) -> None:
        """A block's file is there; the manifest says so now, or soon where it was written just before."""
        self._manifest.parts[part.name] = part.checksum
        self._behind = True
        if time.monotonic() >= self._next:
            self._write()

    def _write(self) -> None:
        started = time.monotonic()
        self._manifest.write(self._out)
        self._behind = False
        now = time.monotonic()
        self._next = now + (now - started) / SHARE


def input_files(scenario: Scenario) -> dict[str, str]:
    """Checksums of the files that a scenario names, by their names."""
    found = {}
    for name in named_files(scenario):
        path = scenario.resolve(name)
        with reading(path):
            found[name] = checksum(path)
    return found


def read_manifest(out: Path) -> Manifest | None:
    """The manifest of a folder, if it has one."""
    path = out / "manifest.json"
    if not path.exists():
        return None
    found = read_json(path)
    if not _is_manifest(found):
        raise InputError("must be the manifest of a run", file=path, remedy=ANOTHER)
    return Manifest(**found)


def kept_users(out: Path) -> tuple[int, int] | None:
    """How many users of a run are on disk, and of how many; None where there is no run."""
    if (kept := read_manifest(out)) is None:
        return None
    numbers = [int(name.removeprefix("part-").removesuffix(".parquet")) for name in kept.parts]
    users = sum(min(kept.block, kept.users - number * kept.block) for number in numbers)
    return users, kept.users


def continued(kept: Manifest, new: Manifest, out: Path) -> Manifest:
    """The kept run, if it is the one asked for; its blocks are verified."""
    for name, words in SAME.items():
        if getattr(kept, name) != getattr(new, name):
            rule = f"{words} differs from that of the run to resume"
            raise InputError(rule, file=out, value=getattr(new, name), remedy=ANOTHER)
    if kept.version.split(".")[:2] != new.version.split(".")[:2]:
        rule = f"the run to resume was made by version {kept.version}"
        raise InputError(rule, file=out, value=new.version, remedy=ANOTHER)
    for name, digest in kept.parts.items():
        path = out / "outcomes" / name
        if not path.exists() or checksum(path) != digest:
            remedy = f"delete {name} from manifest.json to play it again"
            raise InputError("a finished block is missing or has been changed", file=path, remedy=remedy)
    return kept


def _is_manifest(found: Any) -> bool:
    """Whether it has what a manifest has, of the right types; names are those of blocks, never other paths."""
    if not isinstance(found, dict) or not NEEDED <= set(found) <= NEEDED | {"inputs"}:
        return False
    tables = [found["parts"], found.get("inputs", {})]
    return (
        all(type(found[name]) is int for name in ("seed", "users", "block"))
        and all(isinstance(found[name], str) for name in ("scenario", "version"))
        and all(isinstance(table, dict) for table in tables)
        and all(isinstance(value, str) for table in tables for value in table.values())
        and all(map(re.compile(r"part-\d{6,}\.parquet").fullmatch, found["parts"]))
        and found["users"] >= 1
        and 1 <= found["block"] <= MOST_USERS
    )
