"""A table of tuple reports in memory, and what adversaries assume about its collections."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from poolscope.core.arrays import Integers
from poolscope.core.errors import InputError, located
from poolscope.core.progress import Progress
from poolscope.core.randomness import collection_seed
from poolscope.core.tables import Data, SourceOptions, label_of, opened
from poolscope.inference.adversary import Adversary
from poolscope.mechanisms.multidimensional import SMP, Multidimensional
from poolscope.mechanisms.protocols import Reports
from poolscope.reports.files import MEMORY_BYTES, blocks, report_names, row_bytes, rows_within
from poolscope.reports.multidimensional import attribute_frequencies
from poolscope.scenario.build import adversary_of, build_adversary
from poolscope.scenario.multidimensional import attribute_oracle, column_universes, tuple_columns
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.attack.partitioning import name_hashes


@dataclass(frozen=True, kw_only=True, eq=False)
class TupleTable:
    """Reports in memory, user after user, each user's in order of the file; users by the hash of their names."""

    users: pl.Series
    hashes: NDArray[np.uint64]
    reports: Reports
    lengths: Integers

    def some(self, users: range) -> Reports:
        """Return the reports of users in sequence."""
        starts = np.cumsum(self.lengths) - self.lengths
        end = starts[users.stop - 1] + self.lengths[users.stop - 1]
        return {name: column[starts[users.start] : end] for name, column in self.reports.items()}

    def only(self, user: str) -> TupleTable:
        """Return the table of one user."""
        found = np.flatnonzero((self.users == user).to_numpy())
        if not len(found):
            raise InputError("must be a user of the file", value=user, place="user")
        (u,) = found.tolist()
        own = slice(u, u + 1)
        return TupleTable(
            users=self.users[own],
            hashes=self.hashes[own],
            reports=self.some(range(u, u + 1)),
            lengths=self.lengths[own],
        )


def read_tuple_table(
    reports: Data, scenario: Scenario, mechanism: Multidimensional, options: SourceOptions, progress: Progress
) -> TupleTable:
    """Read all reports, and put those of a user together; users are in order of the hash of their names."""
    universes = {part.name: part.universe() for part in scenario.parts}
    own = tuple_columns(mechanism, universes)
    known = column_universes(own, universes)
    rows = rows_within(MEMORY_BYTES / 8, 2 * row_bytes(own))
    names: list[pl.Series] = []
    parts: dict[str, list[Any]] = {name: [] for name in own}
    with opened(reports, report_names(own), options) as source:
        for users, block in blocks(source, own, known, rows=rows):
            names.append(users.cast(pl.String))
            for name, column in block.items():
                parts[name].append(column.copy())
            progress.tick(len(users))
    with located(file=label_of(reports)):
        if not names:
            raise InputError("must have reports", value=0)
        everyone = pl.concat(names)
        distinct = everyone.unique().sort()
        hashes = name_hashes(distinct)
        order = np.argsort(hashes, kind="stable")
        distinct, hashes = distinct.gather(order), hashes[order]
        place = pl.DataFrame({"user": distinct, "place": np.arange(len(distinct))})
        index = pl.DataFrame({"user": everyone}).join(place, on="user", how="left", maintain_order="left")["place"]
        rows_of = np.argsort(index.to_numpy(), kind="stable")
        columns = {name: np.concatenate(some)[rows_of] for name, some in parts.items()}
        if isinstance(mechanism, SMP):
            # it checks that other columns are empty
            mechanism.log_weights(columns)
    lengths = np.bincount(index.to_numpy(), minlength=len(distinct)).astype(np.int64)
    return TupleTable(users=distinct, hashes=hashes, reports=columns, lengths=lengths)


def tuple_adversaries(
    scenario: Scenario, mechanism: Multidimensional, table: TupleTable, seed: int
) -> list[list[Adversary]]:
    """Return for each adversary of the scenario what it assumes of each collection."""
    parts = [list(_of_part(scenario, part, c, mechanism, table, seed)) for c, part in enumerate(scenario.parts)]
    return [list(own) for own in zip(*parts, strict=True)]


def _of_part(
    scenario: Scenario, part: Scenario, index: int, mechanism: Multidimensional, table: TupleTable, seed: int
) -> Iterator[Adversary]:
    """Yield the adversaries of one collection."""
    universe = part.universe()
    popularity = part.true_popularity(universe) if part.popularity_table else None
    oracle, own = attribute_oracle(part, mechanism)
    estimated = None
    for i, entry in enumerate(own.adversaries):
        if entry.popularity == "estimated" and entry.estimate_from is None:
            if estimated is None:
                estimated = attribute_frequencies(mechanism, table.reports)[part.name].popularity
            yield adversary_of(entry, universe, [estimated])
        else:
            with located(file=scenario.file, place=f"collection[{index}]"):
                yield build_adversary(own, i, universe, popularity, oracle, collection_seed(seed, index), map)
