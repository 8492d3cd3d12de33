"""Progress callbacks of workflows."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from typing import TextIO

from poolscope.kernels.compilation import watched


class Progress:
    """Receives the progress of a workflow and ignores it; a subclass shows it.

    Examples
    --------
    >>> class Printed(ps.Progress):
    ...     def stage(self, doing):
    ...         print(doing)
    ...
    >>> _ = ps.audit(ps.load_scenario("apple-emojis"), "run", users=20, progress=Printed())
    Preparing
    Summarizing
    Writing the report
    """

    @staticmethod
    def auto() -> Progress:
        """Return a progress that prints one line on a terminal or in a notebook, and nothing elsewhere.

        Examples
        --------
        >>> done = ps.sweep(
        ...     ps.load_scenario("apple-emojis"), {"mechanism.epsilon": [1]}, users=20, progress=ps.Progress.auto()
        ... )
        """
        if "ipykernel" in sys.modules:
            return _LineProgress(sys.stdout)
        return _LineProgress(sys.stderr) if sys.stderr is not None and sys.stderr.isatty() else SILENT

    def stage(self, doing: str) -> None:
        """Start a stage of unknown duration, described in words."""

    def begin(self, total: int) -> None:
        """Start work on `total` users or reports."""

    def tick(self, amount: float) -> None:
        """Add `amount` users or reports that are done."""

    def within(self) -> Progress:
        """Return the progress of a part of the work, which forwards amounts only."""
        return _PartialProgress(self)


class _LineProgress(Progress):
    """One line, rewritten at most ten times a second; says when kernels are compiled, which happens once."""

    INTERVAL = 0.1

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._width = stream, 0
        self._total, self._done, self._written = 0, 0.0, 0.0
        self._watching = ExitStack()

    def stage(self, doing: str) -> None:
        self._show(f"{doing} ...")

    def begin(self, total: int) -> None:
        self._total, self._done = total, 0.0
        self._watching.close()
        self._watching.enter_context(watched(lambda: self._show("compiling, once per installation ...")))

    def tick(self, amount: float) -> None:
        self._done += amount
        finished = self._done >= self._total - 1e-9
        if finished or time.monotonic() - self._written >= self.INTERVAL:
            self._show(f"{self._done:,.0f} of {self._total:,} ({100 * self._done / max(self._total, 1):.0f}%)")
        if finished:
            self._watching.close()
            print(file=self._stream)
            self._width = 0

    def _show(self, text: str) -> None:
        # spaces cover what a longer line left
        print(f"\r{text:<{self._width}}", end="", file=self._stream, flush=True)
        self._width, self._written = len(text), time.monotonic()


class _PartialProgress(Progress):
    def __init__(self, whole: Progress) -> None:
        self._whole = whole

    def tick(self, amount: float) -> None:
        self._whole.tick(amount)


#: Shows nothing.
SILENT = Progress()
