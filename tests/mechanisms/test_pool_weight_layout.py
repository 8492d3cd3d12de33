"""Rows that hold masses and counts sum to the same as a dense matrix."""

import numpy as np
import pytest
from cases.compiled import entry
from numba import njit

from poolscope.kernels import grouping
from poolscope.kernels.grouping import sum_set_bits
from poolscope.mechanisms.protocols import PoolWeights
from poolscope.mechanisms.sketch import packed_layout, plain_layout

UNIVERSE = 300


@njit
def sums(words, rows, out):
    sum_set_bits(words, rows, out)


def views_of(*kinds, pools=3):
    """Adversaries side by side: "level" weighs the objects of a pool alike, "sloped" does not; some lack pools."""
    rng = np.random.default_rng(1)
    columns, weights = [], []
    for v, kind in enumerate(kinds):
        own = rng.integers(0, 2 if kind == "few" else pools + 1, UNIVERSE)
        own = np.sort(own) if v % 2 else own
        columns.append(len(kinds) * own + v)
        size = np.bincount(own, minlength=pools + 1)[own]
        weights.append(rng.random(UNIVERSE) if kind == "sloped" else 1.0 / size)
    return PoolWeights(np.array(columns, dtype=np.uint32), np.array(weights), len(kinds) * (pools + 1))


def side_by_side(*kinds):
    """As `views_of`, but with the same pools for all."""
    views = views_of(*kinds)
    columns = views.columns[:1] // len(kinds) * len(kinds) + np.arange(len(kinds), dtype=np.uint32)[:, None]
    own = columns[0] // len(kinds)
    level = 1.0 / np.bincount(own)[own]
    weights = [weights if kind == "sloped" else level for kind, weights in zip(kinds, views.weights, strict=True)]
    return PoolWeights(columns, np.array(weights), views.width)


def mostly_neutral(*kinds):
    """As `side_by_side`, but the last five in six objects are neutral."""
    views = side_by_side(*kinds)
    columns = views.columns.copy()
    columns[:, UNIVERSE // 6 :] = np.arange(len(kinds))[:, None]
    size = np.stack([np.bincount(own)[own] for own in columns])
    level = np.array([[kind == "level"] for kind in kinds])
    return PoolWeights(columns, np.where(level, 1.0 / size, views.weights), views.width)


CASES = {
    "both": views_of("level", "sloped"),
    "same pools": side_by_side("level", "sloped"),
    "two sloped": side_by_side("sloped", "sloped"),
    "two sloped and a count": side_by_side("sloped", "level", "sloped", "sloped"),
    "counts alone": views_of("level"),
    "masses alone": views_of("sloped"),
    "fewer pools": views_of("few", "sloped", "level"),
    "most are neutral": mostly_neutral("sloped"),
    "most are neutral, a count": mostly_neutral("level", "sloped"),
    "most are neutral, two sloped": mostly_neutral("sloped", "sloped"),
    "no neutral objects": PoolWeights(
        np.repeat(np.array([[1, 2]], np.uint32), UNIVERSE // 2, axis=1), np.full((1, UNIVERSE), 0.5), 3
    ),
    "more counts than a word has bits": views_of(*["level"] * 4, pools=5),
}


@pytest.mark.parametrize("layout", [packed_layout, plain_layout])
@pytest.mark.parametrize("case", CASES)
def test_sums_are_those_of_the_matrix(case, layout):
    views = CASES[case]
    chosen = np.random.default_rng(2).random(UNIVERSE) < 0.3
    words = np.packbits(np.resize(chosen, 320) & (np.arange(320) < UNIVERSE), bitorder="little").view(np.uint64)
    out = np.empty(views.width)
    sums(words, layout(views).rows(), out)
    np.testing.assert_allclose(out, views.matrix()[chosen].sum(axis=0), rtol=1e-13, atol=0)


@pytest.mark.parametrize("m", [64, 5])  # long runs are summed apart: more than four objects to a bucket
@pytest.mark.parametrize("layout", [packed_layout, plain_layout])
@pytest.mark.parametrize("case", CASES)
def test_masses_of_buckets_are_those_of_their_objects(case, layout, m):
    views = CASES[case]
    buckets = np.random.default_rng(3).integers(0, m, UNIVERSE).astype(np.uint32)
    made = layout(views)
    rows = made.empty(m)
    entry(grouping.bucket_masses)(buckets, made.runs, made.weights, rows.table)
    expected = np.zeros((m, views.width))
    np.add.at(expected, buckets, views.matrix())
    out = np.empty(views.width)
    for b in range(m):
        sums((np.arange(1) == b // 64).astype(np.uint64) << np.uint64(b % 64), rows, out)
        np.testing.assert_allclose(out, expected[b], rtol=1e-13, atol=0)


def test_what_is_counted():
    assert packed_layout(CASES["both"]).columns == 4
    assert packed_layout(CASES["counts alone"]).columns == 0
    assert packed_layout(CASES["masses alone"]).words is None
    assert plain_layout(CASES["both"]).columns == 8
    # six columns of six bits for each view: one word holds the counts of one view and of no second
    full = packed_layout(CASES["more counts than a word has bits"])
    assert full.columns == 3 * 6


def test_a_column_that_two_views_share_is_not_counted():
    columns = np.ones((2, UNIVERSE), np.uint32) + 1
    assert packed_layout(PoolWeights(columns, np.ones((2, UNIVERSE)), 3)).words is None
