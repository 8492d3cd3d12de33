"""What a consistency check of reports found: a row of the table that `inspect` and `attack` show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

Status = Literal["pass", "warn", "fail", "skip"]

DUPLICATES, MEMOIZATION, EPSILON = "duplicates", "memoization", "epsilon"
BIT_ORDER, HASH_TABLE, POPULARITY = "bit order", "hash table", "popularity"

OTHER_FUNCTIONS = "likely another hash table, seed, order of bits or order of objects"


class Finding(NamedTuple):
    """A contradiction: the check that found it, what was found, and its likely cause or remedy."""

    check: str
    value: str
    remedy: str

    @property
    def line(self) -> str:
        """The contradiction in one line."""
        return f"{self.value}: {self.remedy}"


@dataclass(frozen=True, kw_only=True)
class Check:
    """The result of one check of a file of reports.

    Parameters
    ----------
    check : what is compared with the scenario.
    status : "pass", "warn" (worth a look), "fail" (the reports contradict the scenario) or "skip" (not tested).
    value : what was found, in words.
    remedy : what to do; empty where nothing is to be done.
    """

    check: str
    status: Status
    value: str
    remedy: str = ""

    @classmethod
    def failed(cls, found: Finding) -> Check:
        """Return the failed check of a contradiction."""
        return cls(check=found.check, status="fail", value=found.value, remedy=found.remedy)

    @property
    def line(self) -> str:
        """The result in one line."""
        return f"{self.value}: {self.remedy}" if self.remedy else self.value
