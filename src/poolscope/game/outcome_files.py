"""The outcome table of a run's folder, read one attack (an adversary after n reports) at a time.

A run may have more outcomes than memory; those of one attack are a row for each user, and only the columns that are
asked for.
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
from poolscope.core.tables.batch import select_columns
from poolscope.core.tables.parquet_check import check_file
from poolscope.core.tables.reading import HELD, check_decoding, check_names, decoding, scan
from poolscope.game.columns import CONFIDENCE_MCSE, CORRECT, ESTIMATE, with_errors

Attack = tuple[str, int]

Kept = TypeVar("Kept")
Told = TypeVar("Told")

#: Bytes of outcomes that are held of several attacks at once, and of each row: its confidence and whether it is right.
#: To look at all files anew for each attack would take most of the time.
MAX_HELD, ROW_BYTES = 1 << 27, 9


class Part(NamedTuple):
    """Rows of one attack in one file without the users' names, and between which users they stand if in order."""

    rows: pl.DataFrame
    ends: tuple[Any, Any] | None


def part_of(rows: pl.DataFrame, columns: Sequence[str]) -> Part:
    """These columns of some rows, whose users are needed no longer if they are in order."""
    users, wanted = rows["user"], [_SAME_POOL if name == CORRECT else pl.col(name) for name in columns]
    return Part(rows.select(wanted), (users[0], users[-1]) if users.is_sorted() else None)


@dataclass(frozen=True)
class OutcomeFiles:
    """The Parquet files of an outcome table, in the order of their names."""

    files: tuple[Path, ...]

    @classmethod
    def within(cls, folder: Path) -> OutcomeFiles:
        """All parts of a folder."""
        return cls(tuple(sorted(folder.glob("*.parquet"))))

    def check(self, columns: Sequence[str]) -> None:
        """Every file is Parquet, has these columns, fits into memory, and has names of a length."""
        for file in self.files:
            account = check_file(file)
            with decoding(file):
                schema = scan(file).collect_schema()
                kinds = {name: schema[name] for name in select_columns(schema.names(), columns)}
            check_decoding(file, account, kinds, HELD)
            check_names(file, [name for name, kind in kinds.items() if not kind.is_numeric()])

    def extended(self, columns: Sequence[str]) -> tuple[str, ...]:
        """These columns and what intervals need beside them: `grouped`, and how far chance in an attack moves them."""
        return self.grouped(with_errors(columns) if CONFIDENCE_MCSE in self.columns else columns)

    def grouped(self, columns: Sequence[str]) -> tuple[str, ...]:
        """These columns and, where an adversary of the table has several, the estimate that each user met."""
        return (*columns, ESTIMATE) if ESTIMATE in self.columns else tuple(columns)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Those of the table."""
        with decoding(self.files[0]):
            return tuple(scan(self.files[0]).collect_schema().names())

    def estimates(self) -> dict[str, int]:
        """How many estimates of the popularity each adversary has who has several."""
        found: dict[str, int] = {}
        for file in self.files if ESTIMATE in self.columns else ():
            with decoding(file):
                last = scan(file).group_by(_ADVERSARY).agg(pl.col(ESTIMATE).max()).drop_nulls().collect()
            found |= {name: max(found.get(name, 0), int(estimate) + 1) for name, estimate in last.rows()}
        return found

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

    def map_reduce(
        self,
        attacks: Sequence[Attack],
        columns: Sequence[str],
        keep: Callable[[Attack, pl.DataFrame], Kept],
        tell: Callable[[Attack, list[Kept]], Told],
    ) -> Iterator[Told]:
        """What is told of each attack from what is kept of its rows in each file, on all cores.

        As many attacks are looked at together as memory allows.
        """
        at_once = max(1, MAX_HELD * len(attacks) // max(1, ROW_BYTES * self.rows))

        def kept(place: int) -> tuple[int, dict[Attack, Kept]]:
            file = self.files[place]
            with decoding(file):
                label, count = _ADVERSARY.alias("attack.adversary"), pl.col("n").cast(pl.Int64).alias("attack.n")
                table = scan(file)
                if len(some) < len(attacks):
                    table = table.filter(
                        pl.any_horizontal(*((name == _ADVERSARY) & (pl.col("n") == n) for name, n in some))
                    )
                rows = table.select(label, count, *columns).collect()
                found = rows.partition_by("attack.adversary", "attack.n", include_key=False, as_dict=True)
            return place, {attack: keep(attack, found[attack]) for attack in some if attack in found}

        def summarize(place: int) -> tuple[int, Told]:
            attack = some[place]
            return place, tell(attack, [found[attack] for found in files if attack in found])

        for begin in range(0, len(attacks), at_once):
            some = attacks[begin : begin + at_once]
            files = _in_order(Local().map(kept, range(len(self.files))))
            # one at a time where one is all that memory allows
            cores = Local() if at_once > 1 else Local(threads=1)
            yield from _in_order(cores.map(summarize, range(len(some))))

    @property
    def rows(self) -> int:
        """How many there are, of all attacks."""
        total = 0
        for file in self.files:
            with decoding(file):
                total += int(scan(file).select(pl.len()).collect().item())
        return total

    def joined(self, attack: Attack, columns: Sequence[str], parts: Sequence[Part]) -> pl.DataFrame:
        """The rows of one attack in order of the users, from the parts (`part_of`) of its files.

        Users are numbered one file after another, so mostly they are in order already, and their names need not be
        held; else the attack is read again with them.
        """
        ends = [part.ends for part in parts if part.ends]
        if len(ends) == len(parts) and all(one[1] < other[0] for one, other in pairwise(ends)):
            return pl.concat([part.rows for part in parts])
        wanted = [pl.col("user"), *(_SAME_POOL if name == CORRECT else pl.col(name) for name in columns)]
        with decoding(self.files[0].parent):
            return pl.concat(list(self.parts(attack, wanted))).sort("user").drop("user")

    def of(self, attack: Attack, columns: Sequence[str]) -> pl.DataFrame:
        """The rows of one attack in order of the users, whose names are left out.

        A column ``correct`` says whether the guess is the preferred pool, which takes a bit instead of two names.
        """
        read = dict.fromkeys(["user", *needed(columns)])
        parts = (part_of(rows, columns) for rows in self.parts(attack, list(read)) if rows.height)
        return self.joined(attack, columns, list(parts))


def needed(columns: Sequence[str]) -> tuple[str, ...]:
    """The columns of a file that these are made of."""
    found = (name for column in columns for name in (("guess", "pool") if column == CORRECT else (column,)))
    return tuple(dict.fromkeys(found))


def _in_order(found: Iterable[tuple[int, Told]]) -> list[Told]:
    """What threads found, by its place."""
    return [one for _, one in sorted(found, key=itemgetter(0))]


# As strings: two columns of categories need not share them.
_SAME_POOL = (pl.col("guess").cast(pl.String) == pl.col("pool").cast(pl.String)).alias(CORRECT)

# As a string: a column of categories refuses to be compared with an unknown one.
_ADVERSARY = pl.col("adversary").cast(pl.String)
