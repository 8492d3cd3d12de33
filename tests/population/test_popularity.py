import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from scipy.spatial.distance import jensenshannon

from poolscope.core.errors import InputError
from poolscope.population import popularity
from poolscope.population.universe import Universe

EMOJIS = Universe.sized(2600, {f"tone{i}": 228 for i in range(6)})
SMALL = Universe.named(["a1", "n1", "b1", "a2", "b2"], ["a", "", "b", "a", "b"])
FULL = Universe.sized(5, {"a": 2, "b": 3})

# Bits by pool size and Zipf exponent: the table tab:entropy_values of the paper.
EXPONENTS = [0, 0.5, 1, 2, 4]
PUBLISHED_ENTROPY = {
    10: [3.32, 3.22, 2.88, 1.78, 0.48],
    50: [5.64, 5.44, 4.61, 2.19, 0.48],
    200: [7.64, 7.36, 5.99, 2.31, 0.48],
    400: [8.64, 8.33, 6.64, 2.33, 0.48],
}

universes = st.builds(
    lambda sizes, neutral, seed: Universe.named(
        [str(i) for i in range(sum(sizes) + neutral)],
        np.random.default_rng(seed)
        .permutation([f"p{i}" for i, size in enumerate(sizes) for _ in range(size)] + [""] * neutral)
        .tolist(),
    ),
    st.lists(st.integers(1, 6), min_size=2, max_size=5),
    st.integers(0, 6),
    st.integers(0, 2**32),
)


def part_masses(universe, values):
    masses = [values[universe.pool_of == i].sum() for i in range(universe.k)]
    if universe.neutral_size:
        masses.append(values[universe.pool_of == -1].sum())
    return masses


def test_uniform():
    np.testing.assert_allclose(popularity.uniform(SMALL), 0.2)


def test_zipf_ranks_in_object_order_within_parts():
    expected = np.array([1, 1, 1, 0.5, 0.5]) / np.array([1.5, 1, 1.5, 1.5, 1.5]) / 3
    np.testing.assert_allclose(popularity.zipf(SMALL, 1), expected)


@given(universes, st.one_of(st.just(0.0), st.floats(0, 2000)), st.integers(0, 2**32))
def test_parts_weigh_the_same(universe, exponent, seed):
    rng = np.random.default_rng(seed)
    parts = universe.k + (universe.neutral_size > 0)
    for values in (popularity.zipf(universe, exponent), popularity.random(universe, rng)):
        assert values.dtype == np.float64
        assert (values >= 0).all()
        np.testing.assert_allclose(part_masses(universe, values), 1 / parts, rtol=1e-12)


def test_random_is_its_generators():
    one, same, other = (popularity.random(EMOJIS, np.random.default_rng(s)) for s in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()


def test_random_weights_are_uniform_within_a_part():
    universe = Universe.sized(100_002, {"a": 1, "b": 1})
    within = popularity.within_pools(universe, popularity.random(universe, np.random.default_rng(0)))
    weights = np.sort(within[2:] / within[2:].max())
    # Kolmogorov-Smirnov at 1e-6: sqrt(-ln(5e-7) / 2) / sqrt(size)
    bound = np.sqrt(-np.log(5e-7) / 2 / weights.size)
    assert np.abs(weights - np.arange(1, weights.size + 1) / weights.size).max() < bound


@pytest.mark.parametrize("size", PUBLISHED_ENTROPY)
def test_entropy_of_zipf_is_the_published_one(size):
    universe = Universe.sized(2600, {f"p{i}": size for i in range(6)})
    for exponent, bits in zip(EXPONENTS, PUBLISHED_ENTROPY[size], strict=True):
        found = popularity.entropy(universe, popularity.zipf(universe, exponent))
        assert found.shape == (6,)
        np.testing.assert_allclose(found, bits, rtol=0, atol=0.005)  # two decimals are printed


def test_entropy_with_zeros():
    np.testing.assert_allclose(popularity.entropy(SMALL, [1, 1, 1, 0, 1]), [0, 1], atol=1e-15)


@given(st.data(), universes)
@settings(max_examples=40)
def test_given_and_within_pools(data, universe):
    weights = data.draw(npst.arrays(np.float64, universe.size, elements=st.floats(0, 1e308)))
    within = popularity.within_pools(universe, weights, empty="uniform")
    np.testing.assert_allclose(part_masses(universe, within), 1, rtol=1e-12)
    masses = part_masses(universe, weights / (weights.max() or 1))
    if min(masses) > 0:
        known = popularity.given(universe, weights)
        assert known.sum() == pytest.approx(1)
        np.testing.assert_allclose(popularity.within_pools(universe, weights), within)
    else:
        with pytest.raises(InputError, match="must have positive total popularity in"):
            popularity.given(universe, weights)


def test_given_keeps_zeros_and_ratios():
    found = popularity.given(SMALL, [0, 1, 2, 3, 4])
    np.testing.assert_allclose(found, np.arange(5) / 10)


def test_within_pools_of_a_part_without_mass():
    within = popularity.within_pools(SMALL, [0, 0, 1, 0, 3], empty="uniform")
    np.testing.assert_allclose(within, [0.5, 1, 0.25, 0.5, 0.75])


def test_an_empty_neutral_pool_needs_no_mass():
    np.testing.assert_allclose(popularity.within_pools(FULL, [1, 3, 1, 0, 1])[:2], [0.25, 0.75])


NO_MASS_IN = "popularity: must have positive total popularity in {}, got 0; give one of its objects"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: popularity.zipf(SMALL, -1),
            "exponent: must be a finite number, at least 0, got -1",
        ),
        (
            lambda: popularity.zipf(SMALL, np.nan),
            "exponent: must be a finite number, at least 0, got nan",
        ),
        (
            lambda: popularity.zipf(SMALL, np.inf),
            "exponent: must be a finite number, at least 0, got inf",
        ),
        (
            lambda: popularity.given(SMALL, np.ones(4)),
            "popularity: must have one entry for each of 5 objects, got (4,)",
        ),
        (
            lambda: popularity.given(SMALL, [1, 1, np.nan, 1, 1]),
            "popularity: must be a finite number, at least 0, for object 'b1', got nan",
        ),
        (
            lambda: popularity.given(FULL, [1, 1, 1, -1, 1]),
            "popularity: must be a finite number, at least 0, for object 3, got -1.0",
        ),
        (
            lambda: popularity.given(SMALL, [1, 1, 1, 1, np.inf]),
            "popularity: must be a finite number, at least 0, for object 'b2', got inf",
        ),
        (lambda: popularity.given(SMALL, np.zeros(5)), NO_MASS_IN.format("pool 'a'")),
        (lambda: popularity.given(SMALL, [1, 1, 0, 1, 0]), NO_MASS_IN.format("pool 'b'")),
        (lambda: popularity.given(SMALL, [1, 0, 1, 1, 1]), NO_MASS_IN.format("the neutral pool")),
        (lambda: popularity.within_pools(SMALL, [0, 1, 1, 0, 1]), NO_MASS_IN.format("pool 'a'")),
        (
            lambda: popularity.within_pools(SMALL, [1, 0, 1, 1, 1]),
            NO_MASS_IN.format("the neutral pool"),
        ),
        (
            lambda: popularity.within_pools(SMALL, [-1, 1, 1, 0, 1], empty="uniform"),
            "popularity: must be a finite number, at least 0, for object 'a1', got -1.0",
        ),
        (lambda: popularity.project_to_simplex([]), "v: must be a one-dimensional array, got (0,)"),
        (
            lambda: popularity.project_to_simplex([[1.0]]),
            "v: must be a one-dimensional array, got (1, 1)",
        ),
        (lambda: popularity.project_to_simplex([1, np.inf]), "v: must be finite, got inf"),
    ],
)
def test_what_is_wrong_is_said(call, message):
    with pytest.raises(InputError, match="^" + re.escape(message)):
        call()


def test_read_popularity_in_any_order(tmp_path):
    path = tmp_path / "popularity.csv"
    path.write_text("object,popularity\nb2,4\nb1,2\na1,0\na2,3\nn1,1\n")
    np.testing.assert_allclose(popularity.read_popularity(path, SMALL), np.arange(5) / 10)
    path.write_text("object,popularity\n4,2\n0,1\n2,0\n3,1\n1,1\n")
    np.testing.assert_allclose(popularity.read_popularity(path, FULL), [0.2, 0.2, 0, 0.2, 0.4])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("a1,1\n", "must list every object of the universe, 'n1' is missing"),
        ("a1,1\nn1,1\na1,2\n", "row 3: an object must be listed once, row 1 has it too, got 'a1'"),
        ("a1,1\nq1,1\n", "row 2: object must be an object of the universe, got 'q1'; known: a1, n1"),
        ("a1,x\nn1,1\nb1,1\na2,1\nb2,1\n", "row 1: popularity must be a finite number"),
        ("a1,0\nn1,1\nb1,1\na2,0\nb2,1\n", NO_MASS_IN.format("pool 'a'")),
    ],
)
def test_read_popularity_names_the_row(tmp_path, rows, message):
    path = tmp_path / "popularity.csv"
    path.write_text("object,popularity\n" + rows)
    with pytest.raises(InputError, match="^" + re.escape(f"{path}: {message}")):
        popularity.read_popularity(path, SMALL)


def test_a_large_universe_is_not_searched_for_the_nearest_name(tmp_path):
    path = tmp_path / "p.csv"
    path.write_text("object,popularity\nthing 30000,1\n")
    many = [f"thing {i}" for i in range(20_000)]
    with pytest.raises(InputError, match=r"must be an object of the universe, got 'thing 30000'$"):
        popularity.read_popularity(path, Universe.named(many, ["p", "q"] * 10_000))


vectors = npst.arrays(np.float64, st.integers(1, 30), elements=st.floats(-3, 3, width=32))


@given(vectors)
@settings(max_examples=40)
def test_projection_satisfies_kkt(v):
    x = popularity.project_to_simplex(v)
    assert (x >= 0).all()
    assert x.sum() == pytest.approx(1, abs=1e-12)
    # Optimal if and only if one shift explains every positive entry and exceeds the others.
    shift = (v - x)[x > 0]
    np.testing.assert_allclose(shift, shift[0], atol=1e-12)
    assert (v[x == 0] <= shift[0] + 1e-12).all()


@given(vectors)
@settings(max_examples=40)
def test_projection_is_idempotent_and_ignores_a_common_shift(v):
    x = popularity.project_to_simplex(v)
    np.testing.assert_allclose(popularity.project_to_simplex(x), x, atol=1e-14)
    np.testing.assert_allclose(popularity.project_to_simplex(v + 8), x, atol=1e-12)


@given(vectors)
@settings(max_examples=20)
def test_alternating_projections_converge_to_it(v):
    x = v
    for _ in range(2000):
        x = np.maximum(x - (x.sum() - 1) / x.size, 0)
    np.testing.assert_allclose(x, popularity.project_to_simplex(v), atol=1e-9)


@given(vectors)
@settings(max_examples=15)
def test_dykstra_converges_to_it(v):
    x, correction = v, np.zeros_like(v)
    for _ in range(4000):
        y = x - (x.sum() - 1) / x.size  # affine: needs no correction
        x = np.maximum(y + correction, 0)
        correction = y + correction - x
    np.testing.assert_allclose(x, popularity.project_to_simplex(v), atol=1e-9)


def test_projection_of_many_and_of_extremes():
    noisy = np.random.default_rng(0).normal(0, 1e-3, 250_000)
    x = popularity.project_to_simplex(noisy)
    assert x.sum() == pytest.approx(1, abs=1e-12)
    assert popularity.project_to_simplex([1e308, -1e308, 0]).tolist() == [1, 0, 0]
    assert popularity.project_to_simplex([1e17, 1e17, 0]).tolist() == [0.5, 0.5, 0]


# Not below 1e-300: half of the smallest number is 0, and scipy's divergence then infinite.
distributions = npst.arrays(np.float64, (2, 7), elements=st.just(0.0) | st.floats(1e-300, 1)).filter(
    lambda a: (a.sum(axis=1) > 0).all()
)


@given(distributions)
@settings(max_examples=40)
def test_jensen_shannon_is_the_squared_distance(pair):
    p, q = pair / pair.sum(axis=1, keepdims=True)
    found = popularity.jensen_shannon(p, q)
    assert 0 <= found <= 1
    assert found == pytest.approx(np.nan_to_num(jensenshannon(p, q, 2)) ** 2, abs=1e-12)
    assert popularity.jensen_shannon(p, p) == 0


def test_jensen_shannon_of_lists():
    """Lists are numbers, which neither repeat nor join."""
    p, q = [0.5, 0.5], [0.25, 0.75]
    assert popularity.jensen_shannon(p, q) == popularity.jensen_shannon(np.array(p), np.array(q)) < 0.1


def test_jensen_shannon_of_extremes():
    assert popularity.jensen_shannon(np.array([1.0, 0]), np.array([0, 1.0])) == 1
    smallest = np.nextafter(0, 1)
    assert popularity.jensen_shannon(np.array([1, smallest]), np.array([1.0, 0])) == 0
