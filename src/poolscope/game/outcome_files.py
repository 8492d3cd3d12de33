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

from poolscope.base.errors import InputError, one_line, reading
from poolscope.base.tables.parquet_check import check_file
from poolscope.game.columns import CORRECT

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

    def parts(self, attack: Attack, columns: Sequence[str | pl.Expr]) -> Iterator[pl.DataFrame]:
        """The rows of one attack, file by file."""
        adversary, n = attack
        for file in self.files:
            with _told(file):
                same = (adversary == _ADVERSARY) & (pl.col("n") == n)
                part = _scan(file).filter(same).select(columns).collect()
            yield part

    def of(self, attack: Attack, columns: Sequence[str]) -> pl.DataFrame:
        """The rows of one attack in order of the users, whose names are left out.

        A column ``correct`` says whether the guess is the preferred pool, which takes a bit instead of two names. Users
        are numbered one file after another, so mostly they are in order already, and their numbers need not be held.
        """
        wanted: list[str | pl.Expr] = ["user"]
        wanted += [_SAME_POOL if name == CORRECT else pl.col(name) for name in columns]
        held: list[pl.DataFrame] = []
        last = None
        for part in self.parts(attack, wanted):
            users = part["user"]
            if not part.height:
                continue
            if not users.is_sorted() or (last is not None and users[0] <= last):
                held = []
                break
            last = users[-1]
            held.append(part.drop("user"))
        with _told(self.files[0].parent):
            if held:
                return pl.concat(held)
            return pl.concat(list(self.parts(attack, wanted))).sort("user").drop("user")


# As strings: two columns of categories need not share them.
_SAME_POOL = (pl.col("guess").cast(pl.String) == pl.col("pool").cast(pl.String)).alias(CORRECT)

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
