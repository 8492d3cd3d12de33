"""The outcome table of a run's folder, read one attack (an adversary after n reports) at a time.

A run may have more outcomes than memory; those of one attack are a row for each user, and only the columns that are
asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from poolscope.base.tables.batch import chosen
from poolscope.base.tables.parquet_check import check_file
from poolscope.base.tables.reading import HELD, check_decoding, decoding, scan
from poolscope.game.columns import CONFIDENCE_ERROR, CORRECT, with_errors

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
        """Every file is Parquet, has these columns, and fits into memory."""
        for file in self.files:
            account = check_file(file)
            with decoding(file):
                check_decoding(account, chosen(scan(file).collect_schema().names(), columns), HELD)

    def with_errors(self, columns: Sequence[str]) -> tuple[str, ...]:
        """These columns and, where an adversary of the table samples, those that say how far chance moves them."""
        with decoding(self.files[0]):
            sampled = CONFIDENCE_ERROR in scan(self.files[0]).collect_schema().names()
        return with_errors(columns) if sampled else tuple(columns)

    def attacks(self) -> list[Attack]:
        """The adversaries and observation counts, in order of appearance."""
        found: dict[Attack, None] = {}
        for file in self.files:
            with decoding(file):
                both = scan(file).select(_ADVERSARY, pl.col("n").cast(pl.Int64)).unique(maintain_order=True).collect()
            found |= dict.fromkeys(both.rows())
        return list(found)

    def parts(self, attack: Attack, columns: Sequence[str | pl.Expr]) -> Iterator[pl.DataFrame]:
        """The rows of one attack, file by file."""
        adversary, n = attack
        for file in self.files:
            with decoding(file):
                same = (adversary == _ADVERSARY) & (pl.col("n") == n)
                part = scan(file).filter(same).select(columns).collect()
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
        with decoding(self.files[0].parent):
            if held:
                return pl.concat(held)
            return pl.concat(list(self.parts(attack, wanted))).sort("user").drop("user")


# As strings: two columns of categories need not share them.
_SAME_POOL = (pl.col("guess").cast(pl.String) == pl.col("pool").cast(pl.String)).alias(CORRECT)

# As a string: a column of categories refuses to be compared with an unknown one.
_ADVERSARY = pl.col("adversary").cast(pl.String)
