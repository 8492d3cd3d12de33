"""From a file of traces to what the devices would send."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from poolscope.base.arrays import Tick
from poolscope.base.engines import Local
from poolscope.base.errors import located
from poolscope.base.machine import check_disk
from poolscope.base.randomness import user_keys
from poolscope.base.tables import Source, check_output, open_table, writing
from poolscope.mechanisms.role import ReportColumn
from poolscope.reports.files import MEMORY_BYTES, blocks, report_frame, row_bytes, rows_within
from poolscope.scenario.build import build_device, build_mechanism
from poolscope.scenario.scenario import Scenario
from poolscope.world.arrivals import Arrivals, Places
from poolscope.world.universe import Universe

#: Reports of a part of the file, and those that a thread makes at once: as many as stay in its cache.
ROWS, PIECE = 1 << 19, 1 << 15

#: Bytes that a report takes while it is made, as a multiple of what it takes afterwards; as text it takes more.
MAKING = {False: 4, True: 32}


class _Part(NamedTuple):
    number: int
    names: pl.Series
    users: NDArray[np.int64]
    places: NDArray[np.int64]
    objects: NDArray[np.int64]


def obfuscate(
    traces_path: str | PathLike[str],
    scenario: Scenario,
    out: str | PathLike[str],
    seed: int = 0,
    *,
    engine: Local | None = None,
    tick: Tick | None = None,
) -> dict[str, Any]:
    """One report for each row of a file of traces, in its order.

    What a report draws depends on the seed, on its user's place among the users (by first row) and on its place among
    the user's reports, exactly as in the game.

    Parameters
    ----------
    traces_path : a table ``user``, ``object``, Parquet or CSV, of any size.
    out : the reports, Parquet or CSV by its ending; a file that is there already is refused.
    tick : told reports as they are made.

    Returns
    -------
    ``users`` and ``reports``: how many.
    """
    path, target = Path(traces_path), Path(out)
    check_output(target, overwrite=False)
    universe = scenario.universe()
    mechanism = build_mechanism(scenario, universe)
    columns = mechanism.report_columns
    device = build_device(scenario, mechanism)
    engine, arrivals = engine or Local(), Arrivals()
    source = open_table(path)
    if rows_said := source.height():
        what = f"reports of {rows_said:,} rows"
        with located(file=path):
            check_disk(what, rows_said * row_bytes(columns), target.parent, "take fewer rows, or another disk")
    with writing(target, compression="uncompressed") as written:

        def part(some: _Part) -> int:
            frames = []
            for start in range(0, len(some.users), PIECE):
                piece = slice(start, start + PIECE)
                made = device.sent(some.objects[piece], user_keys(seed, some.users[piece]), some.places[piece])
                frames.append(report_frame(some.names[piece], made, columns, universe, text=written.text))
            written.write(some.number, pl.concat(frames))
            return len(some.users)

        rows = rows_within(MEMORY_BYTES / engine.threads, MAKING[written.text] * row_bytes(columns))
        reports = 0
        for count in engine.map(part, _parts(source, universe, arrivals, min(rows, ROWS))):
            reports += count
            if tick:
                tick(count)
    return {"users": len(arrivals), "reports": reports}


def _parts(source: Source, universe: Universe, arrivals: Arrivals, rows: int) -> Iterator[_Part]:
    places = Places()
    columns = {"object": ReportColumn("object", universe.size)}
    # not reused: a thread works on a part while the next is read
    for number, (names, block) in enumerate(blocks(source, columns, universe, rows=rows, reuse=False)):
        users = arrivals.number(names)
        yield _Part(number, names, users, places.of(users), block["object"])
