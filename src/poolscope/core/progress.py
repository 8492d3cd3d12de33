"""What a verb tells of its work while it is at it."""

from __future__ import annotations


class Progress:
    """Is told, and says nothing: what shows it to somebody says how.

    Examples
    --------
    >>> class Printed(ps.Progress):
    ...     def stage(self, doing):
    ...         print(doing)
    ...
    >>> _ = ps.audit(ps.load_scenario("apple-emojis"), "run", users=20, progress=Printed())
    Preparing
    Summing up
    Writing the report
    """

    def stage(self, doing: str) -> None:
        """What is done now, in words, where nobody knows how long it takes."""

    def begin(self, total: int) -> None:
        """So many users, or reports, are about to be worked on."""

    def tick(self, amount: float) -> None:
        """So many of them are done."""

    def within(self) -> Progress:
        """For a part of the work: what is done counts, and it neither begins anew nor says what it does."""
        return _Within(self)


class _Within(Progress):
    def __init__(self, whole: Progress) -> None:
        self._whole = whole

    def tick(self, amount: float) -> None:
        self._whole.tick(amount)


#: For whoever does not want to know.
SILENT = Progress()
