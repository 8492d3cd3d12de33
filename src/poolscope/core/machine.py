"""Resources that are available to this process: cores, memory, disk."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from poolscope.core.errors import InputError
from poolscope.core.files import nearest_folder

#: Files with the limit and the usage of a control group: version 2, then version 1.
GROUPS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def available_memory() -> int | None:
    """Return the bytes that this process may still allocate, by all limits that are known; None if none is."""
    found = [
        bytes_
        for bytes_ in (_memory_of_system(), *map(_memory_of_cgroup, GROUPS), _memory_under_ulimit())
        if bytes_ is not None
    ]
    return min(found, default=None)


def check_memory(what: str, size: int, remedy: str) -> None:
    """Raise an `InputError` if more memory is required than is available."""
    free = available_memory()
    if free is not None and size > free:
        rule = f"{what} would take about {as_bytes(size)} of memory, {as_bytes(free)} are free"
        raise InputError(rule, remedy=remedy)


def check_disk(what: str, size: int, folder: Path, remedy: str) -> None:
    """Raise an `InputError` if more disk space is required than is available."""
    free = available_disk(folder)
    if size > free:
        raise InputError(f"{what} would take about {as_bytes(size)} on disk, {as_bytes(free)} are free", remedy=remedy)


def as_bytes(count: float) -> str:
    """Format a number of bytes with a decimal unit, as 1.5 GB."""
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if count >= 10 or unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:,.0f} PB"


def available_disk(folder: Path) -> int:
    """Return the free bytes on the disk of a folder that may not exist yet."""
    return shutil.disk_usage(nearest_folder(folder)).free


def _memory_of_system() -> int | None:
    with suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text("utf-8").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    return None


def _memory_of_cgroup(files: tuple[str, str]) -> int | None:
    with suppress(OSError, ValueError):  # "max" is no number: no limit
        limit, used = (int(Path(file).read_text("utf-8")) for file in files)
        return max(limit - used, 0)
    return None


def _memory_under_ulimit() -> int | None:
    """Return the remaining bytes under `ulimit -v`."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY:
            pages = int(Path("/proc/self/statm").read_text("utf-8").split()[0])
            return max(limit - pages * resource.getpagesize(), 0)
    return None
