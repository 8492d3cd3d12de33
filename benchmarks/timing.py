"""Timed calls: repeated in turn, with median and spread, by the clock and by processor time."""

import os
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from statistics import median


@dataclass(frozen=True)
class Timing:
    """Seconds of each repeat: by the clock, and of all cores together."""

    wall: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)

    def __truediv__(self, count: float) -> "Timing":
        """The same for one of so many."""
        return Timing([x / count for x in self.wall], [x / count for x in self.processor])

    def __add__(self, other: "Timing") -> "Timing":
        """Two steps, one after the other, repeat by repeat."""
        return Timing(
            [a + b for a, b in zip(self.wall, other.wall, strict=True)],
            [a + b for a, b in zip(self.processor, other.processor, strict=True)],
        )

    def record(self, function: Callable[[], object]) -> None:
        """Call once and keep how long it took."""
        wall, processor = time.perf_counter(), time.process_time()
        function()
        self.processor.append(time.process_time() - processor)
        self.wall.append(time.perf_counter() - wall)

    def show(self, unit: str) -> str:
        """Median and spread by the clock, and the median of the processor time."""
        scale = {"s": 1.0, "ms": 1e3, "us": 1e6}[unit]
        low, mid, high = (scale * f(self.wall) for f in (min, median, max))
        return f"{mid:.4g} {unit} ({low:.4g}..{high:.4g}), processor {scale * median(self.processor):.4g} {unit}"


def repeat(functions: Mapping[str, Callable[[], object]], times: int) -> dict[str, Timing]:
    """Warm all up, then time them in turn, so that a busy moment of the machine hits all of them."""
    for function in functions.values():
        function()
    timings = {name: Timing() for name in functions}
    for _ in range(times):
        for name, function in functions.items():
            timings[name].record(function)
    return timings


def ratio(slow: Timing, fast: Timing) -> str:
    """How many times faster, by medians; the spread from the closest and the farthest repeats."""
    low, high = min(slow.wall) / max(fast.wall), max(slow.wall) / min(fast.wall)
    core = median(slow.processor) / median(fast.processor)
    return f"{median(slow.wall) / median(fast.wall):.0f} times ({low:.0f}..{high:.0f}), per core {core:.0f} times"


def machine() -> str:
    """Processor, cores, load and versions."""
    model = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if os.name == "posix" else ():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    names = ("poolscope", "numpy", "numba", "polars")
    packages = ", ".join(f"{name} {version(name)}" for name in names)
    return (
        f"{model}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.2f}; "
        f"Python {platform.python_version()}, {packages}"
    )
