"""Columns of real numbers: lists in Parquet, decimals with blanks between them in CSV."""

import numpy as np
import polars as pl
import pytest
from cases.report_files import write_reports

from poolscope.core.errors import InputError
from poolscope.mechanisms import make
from poolscope.population.universe import Universe
from poolscope.reports.files import read_reports

UNIVERSE, SHE = Universe.sized(3, {"a": 1, "b": 1}), make("she", 3, {"epsilon": 1.0})
VALUES = np.array([[1.5, -2.0, 0.25], [0.1, 1e-300, -7e20]])


def written(tmp_path, column, ending="parquet"):
    path = tmp_path / f"reports.{ending}"
    frame = pl.DataFrame({"user": ["u"] * len(column), "reals": column})
    frame.write_csv(path) if ending == "csv" else frame.write_parquet(path)
    return path


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_every_number_comes_back_to_the_bit(tmp_path, ending):
    rng = np.random.default_rng(0)
    numbers = rng.laplace(size=(500, 3)) * 10.0 ** rng.integers(-12, 12, size=(500, 3))
    write_reports(tmp_path / f"r.{ending}", pl.Series(["u"] * 500), {"reals": numbers}, SHE, UNIVERSE)
    np.testing.assert_array_equal(read_reports(tmp_path / f"r.{ending}", SHE, UNIVERSE)[1]["reals"], numbers)


@pytest.mark.parametrize(
    "dtype", [pl.Array(pl.Float64, 3), pl.List(pl.Float64), pl.List(pl.Float32), pl.Array(pl.Float32, 3)]
)
def test_lists_of_either_kind_and_precision(tmp_path, dtype):
    found = read_reports(written(tmp_path, pl.Series(VALUES.tolist(), dtype=dtype)), SHE, UNIVERSE)[1]["reals"]
    assert found.dtype == np.float64
    single = dtype.inner == pl.Float32
    np.testing.assert_array_equal(found, VALUES.astype(np.float32).astype(np.float64) if single else VALUES)


def test_decimals_in_a_text(tmp_path):
    found = read_reports(written(tmp_path, ["1 -2.5 3e-2", "0 0.0 -1E3"], "csv"), SHE, UNIVERSE)[1]["reals"]
    np.testing.assert_array_equal(found, [[1.0, -2.5, 0.03], [0.0, 0.0, -1000.0]])


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ([[1.0, 2.0, 3.0], [1.0, 2.0]], r"row 2: reals must be 3 finite numbers, got 2"),
        ([[1.0, 2.0, 3.0, 4.0]] * 2, r"row 1: reals must be 3 finite numbers, got 4"),
        ([[1.0, 2.0, 3.0], None], r"row 2: reals must be 3 finite numbers, got None"),
        ([[1.0, 2.0, 3.0], [1.0, None, 3.0]], r"row 2: reals must be 3 finite numbers, got None"),
        ([[1.0, 2.0, np.inf]], r"row 1: reals must be 3 finite numbers, got inf"),
        ([[1.0, np.nan, 2.0]], r"row 1: reals must be 3 finite numbers, got nan"),
        (pl.Series([[1.0, 2.0, 3.0], None], dtype=pl.Array(pl.Float64, 3)), r"row 2.*3 finite numbers, got None"),
        (pl.Series([[1.0, 2.0]], dtype=pl.Array(pl.Float64, 2)), r"row 1.*3 finite numbers, got 2"),
        ([["1", "2", "3"]], r"column 'reals' must hold lists of numbers"),
        ([1.0, 2.0], r"column 'reals' must hold lists of numbers"),
    ],
)
def test_what_is_wrong_in_parquet(tmp_path, column, words):
    with pytest.raises(InputError, match=words):
        read_reports(written(tmp_path, column), SHE, UNIVERSE)


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (["1 2 3", "1 2"], r"row 2: reals must be 3 finite numbers, separated by spaces, got 2"),
        (["1 2 3", "1 two 3"], r"row 2.*separated by spaces, got 'two'"),
        (["1 2 inf"], r"row 1.*separated by spaces, got 'inf'"),
        (["1 nan 3"], r"row 1.*separated by spaces, got 'nan'"),
        (["1  2 3"], r"row 1.*separated by spaces, got 4"),
        (["1 2 3", None], r"row 2.*separated by spaces, got 1"),
    ],
)
def test_what_is_wrong_in_csv(tmp_path, column, words):
    with pytest.raises(InputError, match=words):
        read_reports(written(tmp_path, column, "csv"), SHE, UNIVERSE)
