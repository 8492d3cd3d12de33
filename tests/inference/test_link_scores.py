"""Link scores of two windows, against the sum over all memoized responses of a device."""

import tracemalloc
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from cases.memoized import CROWD, STRONG, traces_of
from cases.synthetic import SEED
from oracle import memoized
from scipy.special import factorial

from poolscope.devices.protocols import IdenticalReports, NoisyBits, NoisyValues
from poolscope.inference import link_scores as module
from poolscope.inference.link_scores import link_scores, log_ratios, mean_popularity
from poolscope.mechanisms import Rappor, device_of, make, reports_of
from poolscope.population.behavior import Behavior
from poolscope.population.priors import Beta

WEIGHT = (Fraction(1, 2), Fraction(3, 10), Fraction(1, 5))
LAW = ((3, 1, 0, 2, 1), (1, 2, 2, 1, 1), (0, 1, 4, 1, 1))


def shares(rows):
    return tuple(tuple(Fraction(x, sum(row)) for x in row) for row in rows)


def bits_law(device, positions, permanent, again):
    ones = np.array(device.reports, dtype=np.uint8)
    return NoisyBits(ones, positions, tuple(map(float, permanent)), tuple(map(float, again)))


def single_bits():
    permanent, again = (Fraction(3, 4), Fraction(1, 4)), (Fraction(9, 10), Fraction(1, 10))
    device = memoized.bits(3, [{0}, {1}, {2}], permanent, again)
    return device, bits_law(device, np.arange(3)[None], permanent, again)


def bloom_filters():
    """A bit is two slots', a slot has one bit twice, and answers are sent almost as they are."""
    permanent, again = (Fraction(7, 8), Fraction(1, 8)), (Fraction(1), Fraction(1, 50))
    device = memoized.bits(3, [{0, 1}, {1, 2}, {2}], permanent, again)
    positions = np.array([[0, 1, 2], [1, 2, 3]])
    return device, bits_law(device, positions, permanent, again)


def answers():
    device = memoized.identical(shares(LAW))
    with np.errstate(divide="ignore"):
        distribution = np.log(np.array(shares(LAW), dtype=np.float64)).T
    return device, IdenticalReports(np.arange(5), distribution)


def response(truth, again):
    device = memoized.values(4, truth, again, slots=(0, 1, 2))
    steps = ((float(x), float((1 - x) / 3)) for x in (truth, again))
    return device, NoisyValues(np.arange(4), np.arange(3), 4, *steps)


CASES = {
    "identical": answers(),
    "kept response": response(Fraction(3, 5), Fraction(1)),
    "response twice": response(Fraction(3, 5), Fraction(4, 5)),
    "bits": single_bits(),
    "bloom filters": bloom_filters(),
}


@cache
def chances(case):
    """Of every table of answers its probability, and (tables, reports) the chance of each report at such a device."""
    device, _ = CASES[case]
    slots = sorted(set(device.slots))
    distributions, rows = [], []
    for table in product(device.responses, repeat=len(slots)):
        chance = Fraction(1)
        for slot, answer in zip(slots, table, strict=True):
            chance *= device.permanent(answer, slot)
        if chance:
            distributions.append(chance)
            rows.append(
                [
                    sum(w * device.instantaneous(r, a) for w, a in zip(WEIGHT, table, strict=True))
                    for r in device.reports
                ]
            )
    return np.array(distributions, dtype=np.float64), np.array(rows, dtype=np.float64)


def repeated(distribution, first, second):
    """The law of reports of these numbers, first those of one window and then those of the other."""
    rows = np.concatenate([first, second])
    name = {IdenticalReports: "response", NoisyValues: "value", NoisyBits: "ones"}[type(distribution)]
    return distribution._replace(**{name: getattr(distribution, name)[rows]})


@pytest.mark.parametrize("case", CASES)
def test_the_ratio_of_two_reports_is_exact(case):
    """Every report of one window beside every report of the other, by the sum over all tables of answers."""
    device, distribution = CASES[case]
    prior, chance = chances(case)
    assert chance.sum(axis=1) == pytest.approx(1), "some report is sent"
    alone = prior @ chance
    expected = np.log((chance * prior[:, None]).T @ chance / np.outer(alone, alone))
    every = np.arange(len(device.reports))
    found = log_ratios(repeated(distribution, every, every), np.array(WEIGHT, dtype=np.float64), len(every))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    assert np.abs(expected).max() > 0.05


def crowded(hashes):
    """Reports of slots that set so many bits, or fewer."""
    draw = np.random.default_rng(SEED)
    positions = draw.integers(0, 25, size=(hashes, 37))
    ones, weight = draw.integers(0, 2, size=(9, 24), dtype=np.uint8), draw.dirichlet(np.ones(37))
    return NoisyBits(ones, np.minimum(positions, 24), (0.8, 0.1), (0.75, 0.2)), weight


@pytest.mark.parametrize("hashes", [1, 2, 4, 5, 8])
def test_tiles_and_ways_make_no_difference(hashes, monkeypatch):
    """Slots a few at a time, by patterns of bits and report by report, against the sum as it is written."""
    distribution, weight = crowded(hashes)
    found = []
    for cells, few in ((module.MAX_CELLS, 8 if hashes < 8 else 4), (9, 8 if hashes < 5 else 4), (40, 0)):
        monkeypatch.setattr(module, "MAX_CELLS", cells)
        monkeypatch.setattr(module, "MAX_PATTERN_BITS", few)
        found.append(log_ratios(distribution, weight, 4))
    np.testing.assert_allclose(
        found, np.broadcast_to(written_out(distribution, weight, 4), (3, 4, 5)), rtol=0, atol=1e-10
    )


def written_out(distribution, weight, cut):
    """Slot by slot and bit by bit; a position that a slot has twice counts twice, as for the attack."""
    set_, unset = (
        [
            [sum(chance * a[x] * a[y] for chance, a in ((one, of_one), (1 - one, of_zero))) for y in (0, 1)]
            for x in (0, 1)
        ]
        for of_one, of_zero in [
            (
                [1 - distribution.instantaneous[0], distribution.instantaneous[0]],
                [1 - distribution.instantaneous[1], distribution.instantaneous[1]],
            )
        ]
        for one in distribution.permanent
    )
    alone = [[sum(row) for row in law_] for law_ in (set_, unset)]
    m = distribution.ones.shape[1]
    out = np.empty((cut, len(distribution.ones) - cut))
    for r, u in product(range(cut), range(len(distribution.ones) - cut)):
        x, y = distribution.ones[r], distribution.ones[cut + u]
        mine, other, both = [], [], []
        for positions in distribution.positions.T:
            one = [np.prod([alone[1][b] for b in bits]) for bits in (x, y)]
            pair = np.prod([unset[a][b] for a, b in zip(x, y, strict=True)])
            for j in positions[positions < m]:
                one = [value * alone[0][bits[j]] / alone[1][bits[j]] for value, bits in zip(one, (x, y), strict=True)]
                pair *= set_[x[j]][y[j]] / unset[x[j]][y[j]]
            mine.append(one[0])
            other.append(one[1])
            both.append(pair)
        mine, other, both = np.array(mine), np.array(other), np.array(both)
        chance = (weight @ mine) * (weight @ other)
        out[r, u] = np.log(1 + weight**2 @ (both - mine * other) / chance)
    return out


def test_many_bits_to_a_slot_need_little_memory():
    """A table of all pairs of patterns of 12 bits would have 10^11 numbers."""
    distribution, weight = crowded(12)
    tracemalloc.start()
    try:
        assert np.all(np.isfinite(log_ratios(distribution, weight, 4)))
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def area(same, different, score):
    """Chance that a pair of one device has a higher score than one of two; ties count half."""
    _, which = np.unique(np.round(score, 9), return_inverse=True)
    more, fewer = (np.bincount(which.ravel(), weights=distribution.ravel()) for distribution in (same, different))
    return float(more @ (np.cumsum(fewer) - fewer / 2))


@pytest.mark.parametrize("case", CASES)
def test_pairs_of_reports_rank_windows_nearly_as_well_as_can_be(case):
    """Windows of two reports: the exact law of all pairs of windows, the best ranking and ours."""
    device, distribution = CASES[case]
    prior, chance = chances(case)
    windows = np.array(list(product(range(len(device.reports)), repeat=2)))
    likely = chance[:, windows].prod(axis=2)
    alone = prior @ likely
    same, different = (likely * prior[:, None]).T @ likely, np.outer(alone, alone)
    with np.errstate(divide="ignore"):
        best = area(same, different, np.log(same / different))
    every = np.arange(len(device.reports))
    ratio = log_ratios(repeated(distribution, every, every), np.array(WEIGHT, dtype=np.float64), len(every))
    ours = area(same, different, sum(ratio[windows[:, [i]], windows[:, j]] for i in (0, 1) for j in (0, 1)))
    assert best - 0.03 < ours <= best + 1e-9
    assert area(same, different, np.zeros_like(same)) == pytest.approx(0.5)
    assert best > 0.53


def response_areas(popularity, epsilon, window):
    """ROC areas of the score and of the likelihood ratio, exactly: all tables of responses, all pairs of histograms."""
    objects = len(popularity)
    keep = np.exp(epsilon) / (np.exp(epsilon) + objects - 1)
    tables = np.array(list(product(range(objects), repeat=objects)))
    prior = np.where(tables == np.arange(objects), keep, (1 - keep) / (objects - 1)).prod(axis=1)
    chance = (popularity[:, None] * (tables[:, :, None] == np.arange(objects))).sum(axis=1)
    chance, which = np.unique(chance.round(12), axis=0, return_inverse=True)
    prior = np.bincount(which.ravel(), weights=prior)
    seen = [np.bincount(c, minlength=objects) for c in combinations_with_replacement(range(objects), window)]
    ways = [np.prod(np.arange(1, window + 1.0)) / np.prod(factorial(h)) for h in seen]
    likely = np.prod(chance[:, None] ** np.array(seen), axis=2) * ways
    alone = prior @ likely
    same, different = (likely * prior[:, None]).T @ likely, np.outer(alone, alone)
    distribution = np.log(np.where(np.eye(objects, dtype=bool), keep, (1 - keep) / (objects - 1)))
    both = np.tile(np.arange(objects), 2)
    pairs = np.maximum(log_ratios(IdenticalReports(both, distribution), popularity, objects), -1e6)
    with np.errstate(divide="ignore"):
        best = area(same, different, np.log(same / different))
    return area(same, different, np.array(seen) @ pairs @ np.array(seen).T), best


@pytest.mark.parametrize(
    ("objects", "exponent", "window", "ours", "best"),
    [
        *[(5, 1, 2, 0.667, 0.678), (5, 1, 6, 0.779, 0.844), (5, 0, 6, 0.751, 0.816)],
        *[(3, 0, 1, 0.560, 0.560), (3, 0, 2, 0.613, 0.624), (3, 0, 8, 0.707, 0.846)],
    ],
)
def test_the_score_beside_the_likelihood_ratio(objects, exponent, window, ours, best):
    """The numbers of docs/explanation/linkability.md: equal for one report, and below the best for longer windows."""
    popularity = np.arange(1.0, objects + 1) ** -exponent
    found = response_areas(popularity / popularity.sum(), 2.0, window)
    np.testing.assert_allclose(found, (ours, best), atol=6e-4)
    assert found[0] <= found[1] + 1e-9


def two_windows(device, users, size, seed=SEED, traces=None):
    keys, _, drawn = traces_of(users, 2 * size, seed)
    reports = reports_of(device, drawn if traces is None else traces, keys)
    halves = np.arange(2 * size * users).reshape(users, 2, size)
    return [{name: column[halves[:, side].ravel()] for name, column in reports.items()} for side in (0, 1)]


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        ("cms", {"epsilon": 4.0, "m": 64, "hashes": 64}),
        ("l-grr", {"epsilon": 3.0}),
        ("l-osue", {"epsilon": 3.0}),
        ("loloha", {"epsilon": 3.0, "seed_bits": 8}),
        ("dbitflip", {"epsilon": 3.0, "buckets": 4, "d": 2}),
    ],
)
def test_a_score_is_the_sum_over_pairs(kind, parameters):
    """Windows one by one against all at once, those with another cohort, seed or positions being impossible."""
    device = device_of(make(kind, CROWD.size, parameters), memoize=True)
    first, second = two_windows(device, 8, 3)
    sizes = np.full(8, 3), np.full(8, 3)
    found = link_scores(device, first, second, STRONG, sizes)
    for i, j in product(range(8), range(8)):
        one, two = (
            {name: x[3 * at : 3 * at + 3] for name, x in part.items()} for part, at in ((first, i), (second, j))
        )
        own = all(np.array_equal(one[name][0], two[name][0]) for name in device.per_device_columns)
        assert np.isneginf(found[i, j]) != own
        if own:
            alone = link_scores(device, one, two, STRONG, (np.array([3]), np.array([3])))
            parts = link_scores(device, one, two, STRONG, (np.ones(3, dtype=int), np.ones(3, dtype=int)))
            chance = np.log(np.prod([float(choices) for choices in device.per_device_columns.values()]))
            assert found[i, j] == pytest.approx(alone.item(), rel=1e-9, abs=1e-9)
            assert found[i, j] == pytest.approx((parts - chance).sum() + chance, rel=1e-9, abs=1e-9)


def test_windows_need_not_be_of_one_length():
    device = device_of(Rappor(universe=CROWD.size, m=16, hashes=2, cohorts=1, f=0.25, p=0.1, q=0.9), memoize=True)
    first, second = two_windows(device, 3, 4)
    whole = link_scores(device, first, second, STRONG, (np.array([4, 4, 4]), np.array([4, 4, 4])))
    apart = link_scores(device, first, second, STRONG, (np.array([1, 3, 4, 4]), np.array([2, 10])))
    assert apart[:2].sum() == pytest.approx(whole[0].sum())
    assert apart.sum() == pytest.approx(whole.sum())


def test_how_often_anybody_picks_an_object():
    """Popularity within a pool, and the pool's weight by the means of Beta priors."""
    belief = Behavior(interest=Beta(a=2.0, b=1.0), polarization=Beta(a=1.0, b=3.0), pools=(0.5, 0.3, 0.2))
    adversary = type(STRONG)(name="x", universe=CROWD, popularity=STRONG.popularity, belief=belief)
    found = mean_popularity(adversary)
    assert found.sum() == pytest.approx(1)
    gamma, delta = 2 / 3, 1 / 3 + 2 / 3 * 1 / 4
    for pool, prior in enumerate((0.5, 0.3, 0.2)):
        expected = gamma * (prior * delta + (1 - prior) * (1 - delta) / 2)
        assert found[CROWD.pool_of == pool].sum() == pytest.approx(expected)


def test_what_cannot_be_is_no_ratio_without_a_number():
    """Bits that nothing sets, and an answer that only an object of no weight can have."""
    ones = np.array([[1, 0, 0], [1, 0, 0], [0, 1, 0]], dtype=np.uint8)
    never = NoisyBits(ones, np.arange(3)[None], (1.0, 0.0), (1.0, 0.0))
    # without noise all devices have the same answers, which link none of them
    np.testing.assert_allclose(log_ratios(never, np.array([0.5, 0.3, 0.2]), 1), [[0.0, 0.0]], atol=1e-12)
    with np.errstate(divide="ignore"):
        honest = IdenticalReports(np.array([2, 2, 0]), np.log(np.eye(3)))
    np.testing.assert_array_equal(log_ratios(honest, np.array([0.5, 0.5, 0.0]), 1), [[0.0, 0.0]])
