"""The oracle against a stored example, against itself by two methods, and against hand results."""

import math
from pathlib import Path

import numpy as np
import pytest
from mpmath import inf, mp, mpf
from oracle.reference import (
    cms_probability,
    enumerate_cms_reports,
    enumerate_hcms_reports,
    hcms_probability,
    identity_probability,
    log_scores,
    moments,
    plain_numpy_attack,
    posterior,
    posterior_by_quadrature,
    representation,
)

EXAMPLE = Path(__file__).resolve().parents[2] / ".." / "shared" / "oracle" / "cms_example.npz"

# Six objects: pools of two, one and one, two neutral objects.
POOL_OF = [0, 1, -1, 2, 0, -1]
POPULARITY = [0.3, 0.1, 0.2, 0.05, 0.15, 0.2]
HASH_TABLE = [[0, 1, 2, 3, 1, 0], [3, 3, 0, 2, 1, 2]]
M = 4


def two_gamma(gamma):
    return 2 * gamma


def delta_density(delta):
    """A density on (1/3, 1] that is no polynomial."""
    return mp.exp(delta)


def cms_table(bits, j, hash_table, epsilon):
    """Pr[report t | z] of every report and object under CMS."""
    universe = range(len(hash_table[0]))
    reports = list(zip(bits, j, strict=True))
    return [[cms_probability(b, f, z, hash_table, epsilon) for z in universe] for b, f in reports]


def identity_table(objects):
    return [[identity_probability(y, z) for z in range(len(POOL_OF))] for y in objects]


def random_likelihood(seed, n):
    return np.random.default_rng(seed).uniform(0.01, 1.0, size=(n, len(POOL_OF))).tolist()


@pytest.fixture(scope="module")
def example():
    if not EXAMPLE.exists():
        pytest.skip(f"the stored example {EXAMPLE.name} is not beside the repository")
    with np.load(EXAMPLE, allow_pickle=False) as data:
        return dict(data)


@pytest.fixture(scope="module", params=[3, 12, 40])
def stored_users(example, request):
    """The arrays of one n, and the likelihoods of its users (five of the ten at n = 40)."""
    prefix = f"n{request.param}_"
    arrays = {name.removeprefix(prefix): x for name, x in example.items() if name.startswith(prefix)}
    users = list(zip(arrays["bits"], arrays["j"], strict=True))[: 5 if request.param == 40 else 10]
    tables = [cms_table(b, j, example["hash_table"], float(example["eps"])) for b, j in users]
    return arrays, tables


@pytest.mark.default_cases("3-*")
@pytest.mark.parametrize("adversary", ["weak", "strong"])
def test_stored_example(example, stored_users, adversary):
    arrays, tables = stored_users
    k = arrays["posterior_weak"].shape[1]
    popularity = example["popularity"] if adversary == "strong" else np.ones(len(tables[0][0]))
    belief = popularity, example["pool_of_object"], k
    # The stored scores leave out Pr[j] = 1/|H|, a constant.
    constant = len(tables[0]) * mp.log(len(example["hash_table"]))
    for user, table in enumerate(tables):
        expected = arrays[f"posterior_{adversary}"][user]
        assert posterior(table, *belief) == pytest.approx(expected, rel=0, abs=1e-12)

        scores = [float(score + constant) for score in log_scores(table, *belief)]
        assert scores == pytest.approx(arrays[f"logscore_{adversary}"][user], rel=0, abs=1e-12)

        weighted = posterior(table, *belief, prior_gamma=two_gamma)
        expected = arrays[f"posterior_nojac_{adversary}"][user]
        assert weighted == pytest.approx(expected, rel=0, abs=1e-12)


def test_plain_numpy_attack_on_the_stored_example(example, stored_users):
    arrays, _ = stored_users
    k = arrays["posterior_weak"].shape[1]
    world = example["hash_table"], example["popularity"], example["pool_of_object"], k
    for user, (bits, j) in enumerate(zip(arrays["bits"], arrays["j"], strict=True)):
        found = plain_numpy_attack(bits, j, *world, float(example["eps"]))
        assert found == pytest.approx(arrays["posterior_strong"][user], rel=0, abs=1e-12)


@pytest.mark.parametrize("iota", [0, 1, 2])
def test_representation(iota):
    phi = representation(iota, 0.7, 0.6, POPULARITY, POOL_OF)
    own = sum(p for p, pool in zip(phi, POOL_OF, strict=True) if pool == iota)
    neutral = sum(p for p, pool in zip(phi, POOL_OF, strict=True) if pool == -1)
    assert float(sum(phi)) == pytest.approx(1)
    assert float(own) == pytest.approx(0.42)
    assert float(neutral) == pytest.approx(0.3)
    assert float(phi[0] / phi[4]) == pytest.approx(2)


def test_representation_without_neutral_objects():
    assert float(sum(representation(0, 0.7, 0.6, [1, 2, 5], [0, 1, 1]))) == pytest.approx(0.7)


@pytest.mark.parametrize(("popularity", "pool_of"), [([1, 0], [0, 1]), ([1, 1], [0, 2]), ([1, 1], [0, -1])])
def test_representation_rejects_pools_without_popularity(popularity, pool_of):
    with pytest.raises(ValueError, match="phi_representation"):
        representation(0, 0.5, 0.8, popularity, pool_of)


@pytest.mark.parametrize("epsilon", [0, 0.5, 4, math.inf])
@pytest.mark.parametrize("z", [0, 3, 4])
def test_probabilities_sum_to_one(epsilon, z):
    cms = [cms_probability(bits, j, z, HASH_TABLE, epsilon) for bits, j in enumerate_cms_reports(M, len(HASH_TABLE))]
    hcms = [
        hcms_probability(*report, z, HASH_TABLE, M, epsilon) for report in enumerate_hcms_reports(M, len(HASH_TABLE))
    ]
    assert len(cms) == 2**M * len(HASH_TABLE)
    assert len(hcms) == 2 * M * len(HASH_TABLE)
    for probabilities in (cms, hcms):
        assert min(probabilities) >= 0
        assert abs(mp.fsum(probabilities) - 1) < 1e-14


def test_probabilities_have_ratio_exp_epsilon():
    """Both mechanisms are tight: the largest ratio between two objects is e^epsilon."""
    epsilon, objects = 1.5, range(len(POOL_OF))
    for bits, j in enumerate_cms_reports(M, len(HASH_TABLE)):
        values = [cms_probability(bits, j, z, HASH_TABLE, epsilon) for z in objects]
        hit = {bits[HASH_TABLE[j][z]] for z in objects}
        ratio = math.exp(epsilon) if len(hit) == 2 else 1
        assert float(max(values) / min(values)) == pytest.approx(ratio)
    # Row 1 of H_2 is (1, -1, 1, -1); function 0 sends objects 0 and 1 to buckets 0 and 1.
    agree, disagree = (hcms_probability(0, 1, 1, z, HASH_TABLE, M, epsilon) for z in (0, 1))
    assert float(agree / disagree) == pytest.approx(math.exp(epsilon))


def test_hadamard_is_the_recursive_matrix():
    """Without noise the reported bits spell out H_2, columns by bucket."""
    table = [[0, 1, 2, 3]]
    bits = [[1 if hcms_probability(0, row, 1, z, table, M, math.inf) > 0 else -1 for z in range(M)] for row in range(M)]
    assert bits == [[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]]


def test_hcms_rejects_other_lengths():
    with pytest.raises(ValueError, match="power of two"):
        hcms_probability(0, 0, 1, 0, HASH_TABLE, 6, 1.0)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_scores_sum_to_one_over_all_reports(n):
    """The scores of a pool over all sequences of n reports sum to the area of the integral."""
    hash_table = [[0, 1, 1, 0, 1, 0]]
    reports = list(enumerate_cms_reports(2, 1))
    table = cms_table(*zip(*reports, strict=True), hash_table, 1.0)
    totals = [mpf(0)] * 3
    for indices in np.ndindex(*[len(reports)] * n):
        scores = log_scores([table[i] for i in indices], POPULARITY, POOL_OF, 3)
        totals = [total + mp.exp(score) for total, score in zip(totals, scores, strict=True)]
    assert [float(total) for total in totals] == pytest.approx([2 / 3] * 3)


@pytest.mark.default_cases("*-1", "uniform-4", "pool-4")
@pytest.mark.parametrize("n", [1, 4, 9])
@pytest.mark.parametrize(
    "priors",
    [
        {},
        {"pool_prior": [0.2, 0.5, 0.3]},
        {"prior_gamma": two_gamma, "prior_delta": delta_density, "pool_prior": [1, 0, 4]},
    ],
    ids=["uniform", "pool", "all"],
)
def test_both_methods_agree(n, priors):
    arguments = random_likelihood(n, n), POPULARITY, POOL_OF, 3
    exact = posterior(*arguments, **priors)
    assert sum(exact) == pytest.approx(1)
    assert exact == pytest.approx(posterior_by_quadrature(*arguments, **priors), rel=0, abs=1e-14)


def test_both_methods_agree_on_tiny_likelihoods():
    table = [[value * 1e-40 for value in row] for row in random_likelihood(7, 3)]
    arguments = table, POPULARITY, POOL_OF, 3
    assert posterior(*arguments) == pytest.approx(posterior_by_quadrature(*arguments), abs=1e-14)


@pytest.mark.slow
def test_sixty_reports():
    table = random_likelihood(60, 60)
    found = posterior(table, POPULARITY, POOL_OF, 3)
    assert sum(found) == pytest.approx(1)
    assert found == pytest.approx(posterior(table[::-1], POPULARITY, POOL_OF, 3), abs=1e-15)


def test_no_reports_give_the_prior():
    assert posterior([], POPULARITY, POOL_OF, 3) == pytest.approx([1 / 3] * 3)
    prior = [0.2, 0.5, 0.3]
    assert posterior([], POPULARITY, POOL_OF, 3, pool_prior=prior) == pytest.approx(prior)
    scores = log_scores([], POPULARITY, POOL_OF, 3)
    assert [float(score) for score in scores] == pytest.approx([math.log(2 / 3)] * 3)
    assert moments([], POPULARITY, POOL_OF, 3) == pytest.approx((1 / 2, 2 / 3))
    weighted = moments([], POPULARITY, POOL_OF, 3, prior_gamma=two_gamma)
    assert weighted == pytest.approx((2 / 3, 2 / 3))


def test_one_report_by_hand():
    """Identity, two pools of one object each, none neutral: the integrand is gamma delta."""
    table = [[1, 0]]
    scores = [float(mp.exp(score)) for score in log_scores(table, [5, 7], [0, 1], 2)]
    assert scores == pytest.approx([1 / 2 * 3 / 8, 1 / 2 * 1 / 8])
    assert posterior(table, [5, 7], [0, 1], 2) == pytest.approx([3 / 4, 1 / 4])
    # Over both pools delta + (1 - delta) = 1: delta keeps its prior, gamma has density 2 gamma.
    assert moments(table, [5, 7], [0, 1], 2) == pytest.approx((2 / 3, 3 / 4))


def test_a_neutral_report_by_hand():
    """A neutral object says nothing of the pool; gamma has density 2 (1 - gamma)."""
    table = identity_table([2])
    assert posterior(table, POPULARITY, POOL_OF, 3) == pytest.approx([1 / 3] * 3)
    assert moments(table, POPULARITY, POOL_OF, 3) == pytest.approx((1 / 3, 2 / 3))


def test_moments_by_finite_sums():
    """The means against a fine midpoint rule in double precision."""
    table = random_likelihood(5, 6)
    grid = (np.arange(400) + 0.5) / 400
    gamma, delta = grid[:, None, None], (1 / 3 + grid * 2 / 3)[None, :, None]
    weight = np.zeros((400, 400))
    for pool in range(3):
        corners = [
            np.array(representation(pool, *at, POPULARITY, POOL_OF), dtype=float) for at in ((1, 1), (1, 0), (0, 0))
        ]
        preferred, alternative, neutral = (np.array(table) @ corner for corner in corners)
        mixed = gamma * (delta * preferred + (1 - delta) * alternative) + (1 - gamma) * neutral
        weight += mixed.prod(axis=2)
    expected = [(weight * x[:, :, 0]).sum() / weight.sum() for x in (gamma, delta)]
    assert moments(table, POPULARITY, POOL_OF, 3) == pytest.approx(expected, abs=1e-5)


def test_infinite_epsilon():
    """Without noise and collisions CMS and HCMS (all coordinates) are the identity mechanism."""
    universe = len(POOL_OF)
    injective, objects = np.array([[3, 0, 5, 1, 2, 4]]), [0, 3, 5, 0]
    bits, j = np.eye(6, dtype=int)[injective[0, objects]], [0] * len(objects)
    identity = posterior(identity_table(objects), POPULARITY, POOL_OF, 3)
    table = cms_table(bits, j, injective, math.inf)
    assert table == identity_table(objects)
    assert posterior(table, POPULARITY, POOL_OF, 3) == identity
    plain = plain_numpy_attack(bits, j, injective, POPULARITY, POOL_OF, 3, math.inf)
    assert plain == pytest.approx(identity, rel=0, abs=1e-12)

    agree = [hcms_probability(0, 0, 1, z, injective, 8, math.inf) for z in range(universe)]
    assert agree == [mpf(1) / 8] * universe  # row 0 of H is all ones


def test_impossible_reports():
    # Object 1 has no popularity: a report of it alone is impossible.
    world = [1, 0, 1, 1], [0, 0, 1, -1], 2
    table = [[0, 1, 0, 0]]
    assert log_scores(table, *world) == [-inf, -inf]
    for function in (posterior, posterior_by_quadrature, moments):
        with pytest.raises(ValueError, match="impossible"):
            function(table, *world)


def test_a_pool_of_prior_zero_is_impossible():
    arguments = random_likelihood(3, 2), POPULARITY, POOL_OF, 3
    assert log_scores(*arguments, pool_prior=[1, 0, 1])[1] == -inf
    assert posterior(*arguments, pool_prior=[1, 0, 1])[1] == 0


def test_wrong_shapes_are_errors():
    table = random_likelihood(3, 2)
    with pytest.raises(ValueError, match="k does not match"):
        log_scores(table, POPULARITY, POOL_OF, 4)
    with pytest.raises(ValueError, match="zip"):
        posterior(table, POPULARITY, POOL_OF, 3, pool_prior=[1, 1])
    with pytest.raises(ValueError, match="zip"):
        posterior([row[:-1] for row in table], POPULARITY, POOL_OF, 3)
