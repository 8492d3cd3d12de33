"""Every interval holds the truth as often as it says, also where the sentences of a report are quoted: at the ends."""

import numpy as np
import pytest
from cases.coverage import LAWS, METRICS, coverage, partitions, truth
from cases.selection import mostly, statistical
from cases.synthetic import SEED
from scipy import stats

from poolscope.metrics.intervals import TAIL, clopper_pearson, precision_at_rank, quantile, ratio, share_of

CROWDS = 300
SLOW = {"ece": 60}
"""Fewer crowds for what draws crowds of its own."""

SMALL = ("skewed", 50)
SIZES = [(*SMALL, 120), *((*case, CROWDS) for case in [("noisy", 50), ("clear", 100), SMALL, ("skewed", 200)])]
"""Whose users, how many, and of how many crowds."""

SMOOTH = ("auc_pn", "precision", "precision_top20", "bayes_risk_ratio", "min_entropy_leakage", "brier")
"""Metrics that are not a handful of users, so that their width says something."""


def bound(partitions: int, nominal: float = 1 - 2 * TAIL) -> float:
    """The least coverage of so many crowds that chance explains."""
    return nominal - 4 * np.sqrt(nominal * (1 - nominal) / partitions)


@pytest.fixture(
    scope="module",
    params=[SIZES[0], *(pytest.param(case, marks=pytest.mark.statistical) for case in SIZES[1:])],
    ids=lambda case: "-".join(map(str, case)),
)
def drawn(request):
    distribution, users, count = request.param
    return distribution, partitions(distribution, users, count)


@pytest.mark.default_cases(
    "*-auc_pn",
    "*-brier",
    "*-confident_90",
    "*-evidence",
    "*-exposed_95",
    "*-precision",
    "*-precision_top10",
    "*-precision_at_threshold",
    "*-reports_to_exposure",
)
@pytest.mark.parametrize("name", METRICS)
def test_every_interval_holds_the_truth(drawn, name):
    distribution, some = drawn
    some = some[: SLOW.get(name, CROWDS)]
    found = coverage(name, distribution, some)
    assert found.held >= bound(len(some)), found


@pytest.mark.default_cases("precision", "bayes_risk_ratio")
@pytest.mark.parametrize("name", SMOOTH)
def test_no_interval_is_much_wider_than_its_values_vary(name):
    found = coverage(name, "skewed", partitions("skewed", 400, 150))
    # a standard deviation from 150 crowds has relative error 1 / sqrt(300)
    assert found.width < (1.25 + 4 / np.sqrt(300)) * found.spread, found


@pytest.mark.slow
def test_the_laws_have_what_a_report_quotes():
    """Groups who are nearly always guessed rightly, and shares of users that are small."""
    assert 0.95 < truth("precision_top10", "skewed") < 0.99
    assert truth("exposed_95", "noisy") < 0.02
    assert all(truth("bayes_security", distribution) < truth("bayes_risk_ratio", distribution) for distribution in LAWS)


# Shares


def held(ends, users, share):
    """Exact coverage of a binomial share: over all numbers of successes."""
    hits = np.arange(users + 1)
    low, high = ends(hits, users)
    return stats.binom.pmf(hits, users, share) @ ((low <= share) & (share <= high))


def wilson(hits, users):
    """Wilson's score interval, which was used before."""
    share, z = hits / users, stats.norm.isf(TAIL)
    centre, half = share + z**2 / (2 * users), z * np.sqrt(share * (1 - share) / users + z**2 / (4 * users**2))
    return (centre - half) / (1 + z**2 / users), (centre + half) / (1 + z**2 / users)


@pytest.mark.parametrize("users", [1, 7, 50, 300])
def test_a_share_is_held_wherever_it_is(users):
    shares = np.concatenate([np.geomspace(1e-5, 0.5, 60), 1 - np.geomspace(1e-5, 0.5, 60)])
    assert min(held(clopper_pearson, users, share) for share in shares) >= 1 - 2 * TAIL


@pytest.mark.parametrize(("users", "share"), [(100, 0.995), (250, 0.0005)])
def test_wilson_is_not_held_at_the_ends(users, share):
    assert held(wilson, users, share) < 0.92
    assert held(clopper_pearson, users, share) > 0.95


# Shares above a threshold


def steep(users, rng):
    """Successes from the most to the least confident, and the success of the surest tenth."""
    place = np.sort(rng.random((CROWDS, users)), axis=1)
    middle = (np.arange(100_000) + 0.5) / 1_000_000
    return rng.random(place.shape) < _fall(place), _fall(middle).mean()


def _fall(place):
    return 1 / (1 + np.exp(60 * (place - 0.1)))


@pytest.mark.parametrize("users", mostly(statistical, [50, 200, 2000], 200))
def test_a_top_share_is_held_where_success_falls_at_its_threshold(users):
    rng = np.random.default_rng([SEED, users])
    partitions, truth = steep(users, rng)
    guessed = np.array([users // 10])
    ends = np.array([precision_at_rank(correct, guessed) for correct in partitions])[:, 1:, 0]
    assert np.mean((ends[:, 0] <= truth) & (truth <= ends[:, 1])) >= bound(CROWDS)


def test_a_threshold_that_is_taken_as_given_is_not_enough():
    """As it was before."""
    partitions, truth = steep(2000, np.random.default_rng(SEED))
    low, high = clopper_pearson(partitions[:, :200].sum(axis=1), 200)
    assert np.mean((low <= truth) & (truth <= high)) < bound(CROWDS)


def test_a_top_share_of_many_users_has_the_variance_of_its_law():
    rng, users = np.random.default_rng(SEED), 5000
    partitions, share = steep(users, rng)
    _, low, high = np.array([precision_at_rank(correct, np.array([users // 10])) for correct in partitions])[:, :, 0].T
    error = np.sqrt((share * (1 - share) + 0.9 * (share - _fall(0.1)) ** 2) / (users / 10))
    assert np.mean(high - low) == pytest.approx(2 * stats.norm.isf(TAIL) * error, rel=0.05)


# Quantiles


@pytest.mark.parametrize("users", [50, 100, 1000])
def test_a_high_quantile_is_held_and_was_not(users):
    rng = np.random.default_rng([SEED, users])
    truth = stats.norm.ppf(0.99)
    values = rng.standard_normal((CROWDS, users))
    ends = np.array([quantile(some, 0.99) for some in values])
    assert np.mean((ends[:, 1] <= truth) & (truth <= ends[:, 2])) >= bound(CROWDS)
    cut = np.minimum(ends[:, 2], values.max(axis=1))
    below = np.mean((ends[:, 1] <= truth) & (truth <= cut))
    assert below < 0.7 if users <= 100 else below >= bound(CROWDS)


@pytest.mark.parametrize("users", [1, 3, 20, 400])
@pytest.mark.parametrize("level", [0.01, 0.5, 0.99])
def test_a_quantile_is_held_exactly(users, level):
    """Of uniform values: the place of each end is a beta variable."""
    _, low, high = quantile(np.arange(1, users + 1), level)
    above = stats.beta.sf(level, low, users + 1 - low) if low > 0 else 0.0
    below = stats.beta.cdf(level, high, users + 1 - high) if high <= users else 0.0
    assert above <= TAIL
    assert below <= TAIL


# Ratios


def test_a_ratio_of_two_shares_of_the_same_users_is_held():
    """The second needs the correlation: without it the interval is too narrow or too wide."""
    rng, users = np.random.default_rng(SEED), 150
    chances = {(1, 1): 0.3, (1, 0): 0.2, (0, 1): 0.1, (0, 0): 0.4}
    truth, found, blind = (0.3 + 0.2) / (0.3 + 0.1), [], []
    for both, one, other, _ in rng.multinomial(users, list(chances.values()), size=CROWDS):
        x, y = both + one, both + other
        rho = (users * both - x * y) / np.sqrt(float(x * (users - x) * y * (users - y)))
        found.append(ratio(share_of(x, users), share_of(y, users), rho))
        blind.append(ratio(share_of(x, users), share_of(y, users)))
    low, high = np.array(found)[:, 1:].T
    assert np.mean((low <= truth) & (truth <= high)) >= bound(CROWDS)
    assert np.mean(high - low) < 0.85 * np.mean(np.array(blind)[:, 2] - np.array(blind)[:, 1])
