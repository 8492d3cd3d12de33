"""Hash families: independence proven in a small field, and the kernel's arithmetic in the large."""

from itertools import combinations, product

import numpy as np
import pytest
from cases.synthetic import SEED
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from poolscope.core.errors import InputError
from poolscope.mechanisms.hashing import PRIME, Bijection, PolynomialFamily, TableFamily, family


def bucket(a, b, c, x, m, prime, power):
    """The formula of PolynomialFamily in Python's integers; 2^power is the least above prime."""
    return m * ((a * x * x + b * x + c) % prime) >> power


@pytest.mark.parametrize(("prime", "power"), [(3, 2), (7, 3)])
def test_polynomials_are_three_wise_independent(prime, power):
    """Over all (a, b, c), any three points take every triple of values exactly once.

    With m = 2^power a bucket is a value.
    """
    functions = list(product(range(prime), repeat=3))
    every = sorted(product(range(prime), repeat=3))
    for points in combinations(range(prime), 3):
        triples = [tuple(bucket(*f, x, 2**power, prime, power) for x in points) for f in functions]
        assert sorted(triples) == every


def test_polynomials_are_not_four_wise_independent():
    """The control: three coefficients cannot give four independent values."""
    images = {tuple(bucket(*f, x, 8, 7, 3) for x in (0, 1, 2, 3)) for f in product(range(7), repeat=3)}
    assert len(images) == 7**3 < 7**4


@pytest.mark.parametrize("m", [2, 3, 5])
def test_buckets_are_three_wise_independent(m):
    """Cut into m intervals: joint probabilities are products, each bucket has p/m values or so."""
    prime, power = 7, 3
    share = np.bincount([bucket(0, 0, c, 0, m, prime, power) for c in range(prime)], minlength=m)
    assert share.sum() == prime
    # 2^power values in m intervals, each of them floor or ceil; the last value is not in the field
    assert np.ptp(share + (np.arange(m) == m - 1)) <= 1
    joint = np.zeros((m, m, m))
    for f in product(range(prime), repeat=3):
        joint[tuple(bucket(*f, x, m, prime, power) for x in (1, 4, 6))] += 1
    np.testing.assert_array_equal(joint, np.einsum("i,j,k->ijk", share, share, share))


@settings(max_examples=60)
@given(
    universe=st.integers(1, 3000),
    m=st.one_of(st.integers(2, 2000), st.sampled_from([1024, 32768, 65535, 2**20])),
    function=st.integers(0, 2**40),
    seed=st.integers(0, 2**63),
)
def test_kernel_computes_the_formula(universe, m, function, seed):
    functions = PolynomialFamily(universe=universe, m=m, size=2**41, seed=seed)
    chosen = np.array([function, 0])
    got = functions.buckets(chosen)
    assert got.shape == (2, universe)
    for row, (a, b, c) in zip(got, functions.coefficients(chosen).tolist(), strict=True):
        assert max(a, b, c) < PRIME
        for x in {0, universe // 2, universe - 1}:
            assert row[x] == bucket(a, b, c, x, m, PRIME, 31)


def test_kernel_at_the_ends_of_the_field(monkeypatch):
    """The largest coefficients and points: nothing overflows, nothing is left unreduced."""
    functions = PolynomialFamily(universe=70_000, m=1 << 20, size=1)
    ends = [0, 1, 2, 2**16, PRIME - 2, PRIME - 1]
    triples = np.array(list(product(ends, repeat=3)))
    kind = functions.coefficients(np.array([0])).dtype
    monkeypatch.setattr(PolynomialFamily, "coefficients", lambda self, chosen: triples[chosen].astype(kind))
    points = [0, 1, 2, 46_340, 46_341, 65_535, 65_536, 69_999]
    got = functions.buckets(np.arange(len(triples)))[:, points]
    expected = [[bucket(*map(int, t), x, 1 << 20, PRIME, 31) for x in points] for t in triples]
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("m", [2, 10, 1024])
def test_buckets_are_uniform(m):
    functions = PolynomialFamily(universe=3, m=m, size=200_000, seed=SEED)
    got = functions.buckets(np.arange(functions.size))
    for z in range(3):
        assert stats.chisquare(np.bincount(got[:, z], minlength=m)).pvalue > 1e-4
    # two objects share a bucket once in m
    together, bound = np.mean(got[:, 0] == got[:, 2]), 4 * np.sqrt(1 / m / functions.size)
    assert abs(together - 1 / m) < bound, (together, 1 / m, bound)


def test_functions_are_facts_of_the_seed():
    one = PolynomialFamily(universe=50, m=64, size=1000, seed=1)
    rows = one.buckets(np.array([7, 999, 7]))
    np.testing.assert_array_equal(rows[0], rows[2])
    np.testing.assert_array_equal(rows[1], one.buckets(np.array([999]))[0])
    assert (rows[0] != rows[1]).any()
    other = PolynomialFamily(universe=50, m=64, size=1000, seed=2)
    assert (other.buckets(np.array([7]))[0] != rows[0]).any()
    # a larger universe keeps the buckets of its first objects
    larger = PolynomialFamily(universe=80, m=64, size=1000, seed=1)
    np.testing.assert_array_equal(larger.buckets(np.array([7]))[0, :50], rows[0])


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.int32])
def test_tables_are_taken_as_they_are(dtype):
    table = np.array([[0, 4, 2], [3, 3, 1]], dtype=dtype)
    functions = TableFamily(table=table, m=5)
    assert (functions.size, functions.universe, functions.m) == (2, 3, 5)
    np.testing.assert_array_equal(functions.buckets(np.array([1, 0, 1])), table[[1, 0, 1]])


def test_bijection_never_collides():
    functions = Bijection(universe=6)
    assert (functions.size, functions.m) == (1, 6)
    np.testing.assert_array_equal(functions.buckets(np.array([0, 0])), [range(6), range(6)])


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (np.zeros(3, dtype=int), "shape"),
        (np.zeros((2, 0), dtype=int), "shape"),
        (np.zeros((2, 2, 2), dtype=int), "shape"),
        (np.zeros((2, 3)), "must hold integers"),
        (np.zeros((2, 3), dtype=bool), "must hold integers"),
        (np.array([[0, 1, 2], [0, 4, 1]]), r"row 1 column 1.*0\.\.3.*4"),
        (np.array([[0, -1, 2]]), r"row 0 column 1.*0\.\.3.*-1"),
    ],
)
def test_bad_tables(table, words):
    with pytest.raises(InputError, match=words):
        TableFamily(table=table, m=4)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"m": 1}, "m must be at least 2"),
        ({"m": 0}, "m must be at least 2"),
        ({"size": 0}, "hashes must be at least 1"),
        ({"universe": 0}, "universe must have"),
        ({"universe": PRIME}, "universe must have"),
    ],
)
def test_bad_polynomials(options, words):
    with pytest.raises(InputError, match=words):
        PolynomialFamily(**{"universe": 10, "m": 8, "size": 4, **options})


TABLE = np.zeros((3, 10), dtype=int)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "hashes.*is missing"),
        ({"hash_table": TABLE, "hashes": 4}, "must be the 3 rows"),
        ({"hash_table": TABLE[:, :9]}, "a column for each of 10 objects"),
        ({"hash_table": np.zeros(10, dtype=int)}, "shape"),
    ],
)
def test_bad_families(options, words):
    given_ = {"universe": 10, "m": 8, "seed": 0, "hashes": None, "hash_table": None, **options}
    with pytest.raises(InputError, match=words):
        family(**given_)


def test_family_by_table_or_by_number():
    common = {"universe": 10, "m": 8, "seed": 3}
    assert isinstance(family(**common, hashes=3, hash_table=TABLE), TableFamily)
    assert isinstance(family(**common, hashes=None, hash_table=TABLE), TableFamily)
    computed = family(**common, hashes=4, hash_table=None)
    assert computed == PolynomialFamily(universe=10, m=8, size=4, seed=3)
