"""The outcome table of a run's folder, read one attack (an adversary after n reports) at a time.

A run may have more outcomes than fit into memory. Those of one attack are a row for each user, with the requested
columns only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import polars as pl

from poolscope.core.executors import Local
from poolscope.core.tables.columns import select_columns
from poolscope.core.tables.parquet_check import check_file
from poolscope.core.tables.reading import HELD, check_decoding, check_names, decoding, scan
from poolscope.game.columns import COLLECTION, CONFIDENCE_MCSE, CORRECT, ESTIMATE, with_errors

AttackKey = tuple[str, int]

Partial = TypeVar("Partial")
Result = TypeVar("Result")

#: Largest size in bytes of the attacks in memory at a time, and of each row: its confidence and whether it is right.
#: Reading all files again for each attack would take most of the time.
MAX_BYTES, ROW_BYTES = 1 << 27, 9


class AttackRows(NamedTuple):
    """Rows of one attack in one file without the users' names, and the first and last user if these are sorted."""

    rows: pl.DataFrame
    ends: tuple[Any, Any] | None


def attack_rows(rows: pl.DataFrame, columns: Sequence[str]) -> AttackRows:
    """Return these columns of some rows; the users are dropped if they are sorted."""
    users, wanted = rows["user"], [_SAME_POOL if name == CORRECT else pl.col(name) for name in columns]
    return AttackRows(rows.select(wanted), (users[0], users[-1]) if users.is_sorted() else None)


@dataclass(frozen=True)
class OutcomeFiles:
    """The Parquet files of an outcome table, in the order of their names.

    With `collection`, only the rows about these collections count (`COLLECTION`).
    """

    files: tuple[Path, ...]
    collection: str | None = None

    @classmethod
    def within(cls, folder: Path, collection: str | None = None) -> OutcomeFiles:
        """Return the outcome files of a folder."""
        return cls(tuple(sorted(folder.glob("*.parquet"))), collection)

    def _scan(self, file: Path) -> pl.LazyFrame:
        """Return the rows of a file that count."""
        rows = scan(file)
        return rows if self.collection is None else rows.filter(pl.col(COLLECTION).cast(pl.String) == self.collection)

    def check(self, columns: Sequence[str]) -> None:
        """Check that every file is Parquet, has these columns, fits into memory, and has names of bounded length."""
        for file in self.files:
            account = check_file(file)
            with decoding(file):
                schema = scan(file).collect_schema()
                kinds = {name: schema[name] for name in select_columns(schema.names(), columns)}
            check_decoding(file, account, kinds, HELD)
            check_names(file, [name for name, kind in kinds.items() if not kind.is_numeric()])

    def with_mcse_columns(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return these columns and those that intervals need: `with_estimate_column`, and Monte Carlo errors."""
        return self.with_estimate_column(with_errors(columns) if CONFIDENCE_MCSE in self.columns else columns)

    def with_estimate_column(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return these columns and, where an adversary has several estimates, the one of each user."""
        return (*columns, ESTIMATE) if ESTIMATE in self.columns else tuple(columns)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns of the table."""
        with decoding(self.files[0]):
            return tuple(scan(self.files[0]).collect_schema().names())

    def estimates(self) -> dict[str, int]:
        """Return the number of popularity estimates of each adversary that has several."""
        found: dict[str, int] = {}
        for file in self.files if ESTIMATE in self.columns else ():
            with decoding(file):
                last = self._scan(file).group_by(_ADVERSARY).agg(pl.col(ESTIMATE).max()).drop_nulls().collect()
            found |= {name: max(found.get(name, 0), int(estimate) + 1) for name, estimate in last.rows()}
        return found

    def attacks(self) -> list[AttackKey]:
        """Return the adversaries and observation counts, in order of appearance."""
        found: dict[AttackKey, None] = {}
        for file in self.files:
            with decoding(file):
                both = (
                    self._scan(file)
                    .select(_ADVERSARY, pl.col("n").cast(pl.Int64))
                    .unique(maintain_order=True)
                    .collect()
                )
            found |= dict.fromkeys(both.rows())
        return list(found)

    def parts(self, attack: AttackKey, columns: Sequence[str | pl.Expr]) -> Iterator[pl.DataFrame]:
        """Yield the rows of one attack, file by file."""
        adversary, n = attack
        for file in self.files:
            with decoding(file):
                same = (adversary == _ADVERSARY) & (pl.col("n") == n)
                part = self._scan(file).filter(same).select(columns).collect()
            yield part

    def map_reduce(
        self,
        attacks: Sequence[AttackKey],
        columns: Sequence[str],
        map_file: Callable[[AttackKey, pl.DataFrame], Partial],
        reduce_files: Callable[[AttackKey, list[Partial]], Result],
    ) -> Iterator[Result]:
        """Yield the result of each attack: `map_file` of its rows in each file, then `reduce_files`, on all cores.

        As many attacks are processed together as memory allows.
        """
        per_pass = max(1, MAX_BYTES * len(attacks) // max(1, ROW_BYTES * self.rows))

        def map_one(index: int) -> tuple[int, dict[AttackKey, Partial]]:
            file = self.files[index]
            with decoding(file):
                label, count = _ADVERSARY.alias("attack.adversary"), pl.col("n").cast(pl.Int64).alias("attack.n")
                table = self._scan(file)
                if len(some) < len(attacks):
                    table = table.filter(
                        pl.any_horizontal(*((name == _ADVERSARY) & (pl.col("n") == n) for name, n in some))
                    )
                rows = table.select(label, count, *columns).collect()
                found = rows.partition_by("attack.adversary", "attack.n", include_key=False, as_dict=True)
            return index, {attack: map_file(attack, found[attack]) for attack in some if attack in found}

        def reduce_one(index: int) -> tuple[int, Result]:
            attack = some[index]
            return index, reduce_files(attack, [found[attack] for found in files if attack in found])

        for begin in range(0, len(attacks), per_pass):
            some = attacks[begin : begin + per_pass]
            files = _in_order(Local().map(map_one, range(len(self.files))))
            # one at a time where memory does not allow more
            cores = Local() if per_pass > 1 else Local(threads=1)
            yield from _in_order(cores.map(reduce_one, range(len(some))))

    @property
    def rows(self) -> int:
        """Number of rows of all attacks."""
        total = 0
        for file in self.files:
            with decoding(file):
                total += int(self._scan(file).select(pl.len()).collect().item())
        return total

    def joined(self, attack: AttackKey, columns: Sequence[str], parts: Sequence[AttackRows]) -> pl.DataFrame:
        """Return the rows of one attack in order of the users, from its rows in each file.

        Users are numbered one file after another, so that they are mostly in order, and their names need not be in
        memory. Otherwise the attack is read again with them.
        """
        ends = [part.ends for part in parts if part.ends]
        if len(ends) == len(parts) and all(one[1] < other[0] for one, other in pairwise(ends)):
            return pl.concat([part.rows for part in parts])
        wanted = [pl.col("user"), *(_SAME_POOL if name == CORRECT else pl.col(name) for name in columns)]
        with decoding(self.files[0].parent):
            return pl.concat(list(self.parts(attack, wanted))).sort("user").drop("user")

    def of(self, attack: AttackKey, columns: Sequence[str]) -> pl.DataFrame:
        """Return the rows of one attack in order of the users, without their names.

        A column ``correct`` states whether the guess is the preferred pool, in one bit instead of two names.
        """
        read = dict.fromkeys(["user", *needed(columns)])
        parts = (attack_rows(rows, columns) for rows in self.parts(attack, list(read)) if rows.height)
        return self.joined(attack, columns, list(parts))


def needed(columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of a file from which these are computed."""
    found = (name for column in columns for name in (("guess", "pool") if column == CORRECT else (column,)))
    return tuple(dict.fromkeys(found))


def _in_order(found: Iterable[tuple[int, Result]]) -> list[Result]:
    """Return results of threads by their index."""
    return [one for _, one in sorted(found, key=itemgetter(0))]


# as strings: two categorical columns need not share their categories
_SAME_POOL = (pl.col("guess").cast(pl.String) == pl.col("pool").cast(pl.String)).alias(CORRECT)

# as a string: a categorical column cannot be compared with an unknown category
_ADVERSARY = pl.col("adversary").cast(pl.String)
