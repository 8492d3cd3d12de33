"""The outcome table of a run's folder, read one attack (an adversary after n reports) at a time.

A run may have more outcomes than memory; those of one attack are a row for each user, and only the columns that are
asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from poolscope.errors import InputError, one_line, reading
from poolscope.parquet_check import check_file

Attack = tuple[str, int]


@dataclass(frozen=True)
class OutcomeFiles:
    """The Parquet files of an outcome table, in the order of their names."""

    files: tuple[Path, ...]

    @classmethod
    def within(cls, folder: Path) -> OutcomeFiles:
        """All parts of a folder."""
        return cls(tuple(sorted(folder.glob("*.parquet"))))

    def check(self, columns: Sequence[str]) -> None:
        """Every file is Parquet and has these columns."""
        for file in self.files:
            check_file(file)
            with _told(file):
                names = pl.read_parquet_schema(file)
            for name in columns:
                if name not in names:
                    raise InputError(f"must have a column {name!r}", value=list(names), file=file)

    def attacks(self) -> list[Attack]:
        """The adversaries and observation counts, in order of appearance."""
        found: dict[Attack, None] = {}
        for file in self.files:
            with _told(file):
                both = _scan(file).select(_ADVERSARY, pl.col("n").cast(pl.Int64)).unique(maintain_order=True).collect()
            found |= dict.fromkeys(both.rows())
        return list(found)

    def of(self, attack: Attack, columns: Sequence[str]) -> pl.DataFrame:
        """The rows of one attack, user by user as the files have them."""
        adversary, n = attack
        parts = []
        for file in self.files:
            with _told(file):
                same = (adversary == _ADVERSARY) & (pl.col("n") == n)
                parts.append(_scan(file).filter(same).select(columns).collect())
        with _told(self.files[0].parent):
            return pl.concat(parts)


# As a string: a column of categories refuses to be compared with an unknown one.
_ADVERSARY = pl.col("adversary").cast(pl.String)


def _scan(file: Path) -> pl.LazyFrame:
    return pl.scan_parquet(file, glob=False, hive_partitioning=False)


@contextmanager
def _told(file: Path) -> Iterator[None]:
    """What polars says of a file that it cannot read, in one line."""
    with reading(file):
        try:
            yield
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            raise InputError(f"must be a Parquet file: {one_line(str(error))[:80]}") from error
