"""Order rows by time in bounded memory, whatever their number: an external merge sort.

Rows arrive in batches. Each batch is sorted and written as a run. Regular samples of all runs then cut the order into
windows of bounded size; a window is a slice of each run, as runs are sorted. Rows of the same time keep their order: a
row is placed by its time and, within, by its number.

References
----------
Shi and Schaeffer (1992), Parallel sorting by regular sampling.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from poolscope.core.arrays import Integers
from poolscope.core.errors import InputError
from poolscope.core.tables.columns import first_false

#: Columns of a row's time and number; no column that is read has a blank in its name.
TIME, NUMBER = "time of row", "number of row"

#: Times of text: ISO 8601 with an offset, without one (UTC), to the minute, and dates.
ISO_FORMATS = ("%+", "%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%dT%H:%M", "%Y-%m-%d")

RULE = "must be a time: a date, ISO 8601, or a number"


@dataclass
class TimeColumn:
    """Converts the values of a time column to numbers; the first batch decides which kind of time all rows have."""

    name: str
    dtype: pl.DataType | None = None
    text: Literal["integers", "numbers", "dates"] | None = None

    def numbers(self, values: pl.Series, label: str, first: int) -> pl.Series:
        """Return the times as numbers that order them; a missing or unreadable one is refused."""
        if self.dtype is None:
            self.dtype = values.dtype
            self.text = _kind_of_text(values) if values.dtype == pl.String else None
        if values.dtype != self.dtype:
            rule = f"column {self.name!r} must hold {self.dtype} as in the rows before"
            raise InputError(rule, value=str(values.dtype), file=label, place=f"row {first}")
        times = self._from_text(values) if self.text else self._from_type(values, label)
        row = first_false(times.is_finite() if times.dtype.is_float() else times.is_not_null())
        if row is not None:
            raise InputError(f"{self.name} {RULE}", value=values[row], file=label, place=f"row {first + row}")
        return times.alias(TIME)

    @property
    def seconds(self) -> float | None:
        """Seconds of one unit of `numbers`, once some were converted; None for numbers without a unit."""
        if self.text is not None:
            return 1e-9 if self.text == "dates" else None
        if isinstance(self.dtype, pl.Datetime):
            return {"ms": 1e-3, "us": 1e-6, "ns": 1e-9}[self.dtype.time_unit]
        return 86400.0 if isinstance(self.dtype, pl.Date) else None

    def _from_text(self, values: pl.Series) -> pl.Series:
        if self.text != "dates":
            return values.cast(pl.Int64 if self.text == "integers" else pl.Float64, strict=False)
        text = pl.col("t").str.strip_chars().str.replace(" ", "T", literal=True)
        parsed = [
            text.str.to_datetime(form, time_unit="ns", time_zone="UTC" if form == "%+" else None, strict=False)
            for form in ISO_FORMATS
        ]
        naive = pl.coalesce([time.dt.replace_time_zone(None) for time in parsed])
        return pl.DataFrame({"t": values}).select(naive.to_physical().cast(pl.Int64)).to_series()

    def _from_type(self, values: pl.Series, label: str) -> pl.Series:
        if values.dtype.is_float():
            return values.cast(pl.Float64)
        if values.dtype.is_integer() or isinstance(values.dtype, pl.Datetime | pl.Date):
            return values.to_physical().cast(pl.Int64, strict=False)
        rule = f"column {self.name!r} must hold times: dates, texts of ISO 8601, or numbers"
        raise InputError(rule, value=str(values.dtype), file=label)


def _kind_of_text(values: pl.Series) -> Literal["integers", "numbers", "dates"]:
    if values.cast(pl.Int64, strict=False).null_count() == 0:
        return "integers"
    return "numbers" if values.cast(pl.Float64, strict=False).null_count() == 0 else "dates"


@dataclass
class _Run:
    """A sorted batch: its file and height, and times and numbers of samples of its rows."""

    file: Path
    height: int
    times: NDArray[Any]
    numbers: Integers


@dataclass
class TimeOrder:
    """Sorts batches with the columns `TIME` and `NUMBER`, whose numbers increase from batch to batch.

    Parameters
    ----------
    folder : for runs.
    window_bytes : about the maximum bytes of a window.
    step : rows of a run between two samples.
    """

    folder: Path
    window_bytes: int = 1 << 25
    step: int = 1 << 8
    runs: list[_Run] = field(default_factory=list)
    total_bytes: int = 0

    def add(self, frame: pl.DataFrame) -> None:
        """Sort a batch and write it."""
        frame = frame.sort(TIME, NUMBER)
        file = self.folder / f"{len(self.runs)}.run"
        frame.write_parquet(file, compression="uncompressed", statistics=False, row_group_size=1 << 14)
        samples = frame[:: self.step]
        self.runs.append(_Run(file, frame.height, samples[TIME].to_numpy(), samples[NUMBER].to_numpy()))
        self.total_bytes += int(frame.estimated_size())

    def windows(self) -> Iterator[pl.DataFrame]:
        """Yield all rows in order of time; runs are removed at the end."""
        cuts = self._cuts()
        positions = [self._positions(run, cuts) for run in self.runs]
        for window in range(len(cuts) + 1):
            slices = []
            for run, places in zip(self.runs, positions, strict=True):
                begin, end = places[window], places[window + 1]
                if end > begin:
                    table = pl.scan_parquet(run.file, glob=False, hive_partitioning=False)
                    slices.append(table.slice(begin, end - begin).collect())
            if slices:
                yield pl.concat(slices).sort(TIME, NUMBER).drop(TIME, NUMBER)
        for run in self.runs:
            run.file.unlink()

    def _cuts(self) -> list[tuple[Any, int]]:
        """Return times and numbers that begin a window, all but the first.

        Between two samples of a run there are at most `step` rows. A window from one cut to the next therefore has at
        most `step` rows for each of its samples and one more `step` for each run.
        """
        times = np.concatenate([run.times for run in self.runs])
        numbers = np.concatenate([run.numbers for run in self.runs])
        order = np.lexsort((numbers, times))
        row_bytes = max(1, self.total_bytes // sum(run.height for run in self.runs))
        every = max(1, self.window_bytes // (row_bytes * self.step))
        return [(times[i], int(numbers[i])) for i in order[every::every]]

    @staticmethod
    def _positions(run: _Run, cuts: list[tuple[Any, int]]) -> list[int]:
        """Return where in a run each window begins, and the end of the last one."""
        keys = pl.read_parquet(run.file, columns=[TIME, NUMBER], glob=False, hive_partitioning=False)
        times, numbers = keys[TIME].to_numpy(), keys[NUMBER].to_numpy()
        places = [0]
        for time, number in cuts:
            begin, end = np.searchsorted(times, time, "left"), np.searchsorted(times, time, "right")
            places.append(int(begin + np.searchsorted(numbers[begin:end], number)))
        return [*places, run.height]
