"""Progress callbacks of workflows."""

from __future__ import annotations


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

    def stage(self, doing: str) -> None:
        """Start a stage of unknown duration, described in words."""

    def begin(self, total: int) -> None:
        """Start work on `total` users or reports."""

    def tick(self, amount: float) -> None:
        """Add `amount` users or reports that are done."""

    def within(self) -> Progress:
        """Return the progress of a part of the work, which forwards amounts only."""
        return _PartialProgress(self)


class _PartialProgress(Progress):
    def __init__(self, whole: Progress) -> None:
        self._whole = whole

    def tick(self, amount: float) -> None:
        self._whole.tick(amount)


#: Shows nothing.
SILENT = Progress()
