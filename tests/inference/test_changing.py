"""The attack on changing preferences: against enumeration, against the paper's attack, and calibrated in its model."""

import numpy as np
import pytest
from cases.synthetic import SEED
from oracle import changing as oracle

import poolscope as ps
from poolscope.core.errors import InputError
from poolscope.metrics.calibration import ece, ece_null_p95

RNG = np.random.default_rng(SEED)
UNIVERSE = ps.Universe.sized(40, {"a": 8, "b": 8, "c": 8})
POPULARITY = ps.popularity.zipf(UNIVERSE, 1.0)
MECHANISM = ps.mechanisms.GRR(universe=40, epsilon=4.0)
DEVICE = ps.mechanisms.Fresh(MECHANISM)


def context(belief=None, universe=UNIVERSE):
    adversary = ps.Adversary(
        name="x", universe=universe, popularity=ps.popularity.zipf(universe, 1.0), belief=belief or ps.Behavior()
    )
    return ps.attacks.AttackContext(adversary=adversary, device=DEVICE, keys=np.zeros(1, dtype=np.uint64))


@pytest.mark.parametrize("returns", [True, False])
@pytest.mark.parametrize(("n", "k", "rate"), [(1, 3, 0.3), (2, 2, 0.2), (4, 3, 0.1), (5, 2, 0.4)])
def test_every_posterior_is_that_of_the_enumeration(n, k, rate, returns):
    likelihood = RNG.uniform(0.1, 5.0, (n, k + 1))
    prior = RNG.dirichlet(np.ones(k))
    belief = ps.Behavior(pools=tuple(prior))
    found = ps.attacks.preference_history(likelihood, belief=belief, rate=rate, returns=returns)
    pool, changed, first, _ = oracle.history(likelihood, rate, returns, prior)
    np.testing.assert_allclose(found.smoothed, pool, atol=1e-10)
    np.testing.assert_allclose(found.first_change, first, atol=1e-10)
    np.testing.assert_allclose(found.changed[-1], changed, atol=1e-10)
    np.testing.assert_allclose(found.current[0], prior, atol=1e-12)
    for t in range(1, n + 1):
        so_far = oracle.history(likelihood[:t], rate, returns, prior)
        np.testing.assert_allclose(found.current[t], so_far[0][-1], atol=1e-10)
        np.testing.assert_allclose(found.changed[t], so_far[1], atol=1e-10)


def test_without_changes_it_is_the_papers_attack():
    likelihood = RNG.uniform(0.2, 3.0, (120, 5))
    found = ps.attacks.preference_history(likelihood, rate=0.0)
    np.testing.assert_allclose(found.current, ps.posterior_of_likelihood(likelihood), atol=1e-9)
    np.testing.assert_allclose(found.smoothed[-1], found.current[-1], atol=1e-9)
    assert found.changed.max() == 0
    moving = ps.attacks.preference_history(likelihood, rate=0.05)
    assert np.abs(moving.current - found.current).max() > 0.01


@pytest.mark.parametrize("none", [0.0, 0.3])
def test_the_attack_takes_each_users_first_reports(none):
    """Users of several lengths, one without reports; with and without the hypothesis of no preferred pool."""
    given, lengths = context(ps.Behavior(none=none)), np.array([4, 0, 2])
    reports = MECHANISM.obfuscate(np.array([1, 2, 9, 30, 11, 12]), np.random.default_rng(1))
    likelihood = given.likelihoods(reports)
    attack = ps.attacks.ChangingPreference(rate=0.2)
    found = attack.posteriors(reports, lengths, [1, 3, 9], given)
    assert found.shape == (3, 3, 3 + (none > 0))
    for user, rows in ((0, [0, 1, 2, 3]), (2, [4, 5])):
        for place, n in enumerate([1, 3, 9]):
            own = likelihood[rows[:n]]
            pool, _, _, total = oracle.history(own, 0.2, True)
            expected = pool[-1]
            if none:
                of_none = none * np.prod(own[:, 0])
                share = of_none / (of_none + (1 - none) * total)
                expected = np.append((1 - share) * expected, share)
            np.testing.assert_allclose(found[user, place], expected, atol=1e-10)
    np.testing.assert_allclose(found[1], np.tile(given.adversary.prior, (3, 1)))


def test_a_change_is_dated():
    likelihood = np.array([[1.0, 6.0, 1.0, 1.0]] * 40 + [[1.0, 1.0, 6.0, 1.0]] * 40)
    found = ps.attacks.preference_history(likelihood, rate=0.01)
    assert found.first_change.argmax() == 40
    assert found.first_change[36:45].sum() > 0.99
    assert found.changed[40] < 0.1 < 0.99 < found.changed[80]
    assert found.smoothed[20, 0] > 0.99
    assert found.smoothed[60, 1] > 0.99
    assert ps.attacks.preference_history(likelihood[:40], rate=0.01).changed[-1] < 0.1


def test_impossible_reports_leave_the_prior():
    """The identity mechanism excludes all pools where a popularity of zero is reported."""
    identity = ps.mechanisms.Fresh(ps.mechanisms.Identity(universe=40))
    popularity = np.where(np.arange(40) == 0, 0.0, 1.0)
    adversary = ps.Adversary(name="x", universe=UNIVERSE, popularity=popularity)
    given = ps.attacks.AttackContext(adversary=adversary, device=identity, keys=np.zeros(1, dtype=np.uint64))
    found = ps.attacks.ChangingPreference().posteriors({"value": np.array([0])}, np.array([1]), [1], given)
    np.testing.assert_allclose(found, 1 / 3)


@pytest.mark.parametrize(
    ("call", "rule"),
    [
        (lambda: ps.attacks.ChangingPreference(rate=1.0), "rate"),
        (lambda: ps.attacks.Forgetting(window=0), "window"),
        (lambda: ps.attacks.preference_history(np.ones((2, 2))), "two pools"),
        (lambda: ps.attacks.preference_history(np.zeros((2, 3))), "not all zero"),
        (lambda: ps.attacks.preference_history(np.full((2, 3), np.nan)), "finite"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(call, rule):
    with pytest.raises(InputError, match=rule) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_who_forgets_uses_the_last_reports():
    given, lengths = context(), np.array([30, 12])
    reports = MECHANISM.obfuscate(RNG.integers(40, size=42), np.random.default_rng(2))
    found = ps.attacks.Forgetting(window=10).posteriors(reports, lengths, [5, 20, 30], given)
    spans = {(0, 0): (0, 5), (0, 1): (10, 20), (0, 2): (20, 30), (1, 0): (30, 35), (1, 1): (32, 42), (1, 2): (32, 42)}
    for (user, place), (start, stop) in spans.items():
        some = {"value": reports["value"][start:stop]}
        np.testing.assert_allclose(found[user, place], ps.posterior(MECHANISM, some, given.adversary)[-1], atol=1e-9)


RATE = 0.03


def switching(keys, n):
    """Users of the attack's own model: gamma and delta uniform, and a change with probability RATE per report."""
    u = ps.random.uniforms(keys, range(2 + 4 * n))
    gamma, delta = u[:, 0, None], 1 / 3 + 2 / 3 * u[:, 1, None]
    first, moves, section, within = u[:, 2:].reshape(len(keys), 4, n).transpose(1, 0, 2)
    pools = np.empty((len(keys), n), dtype=np.int64)
    pools[:, 0] = first[:, 0] * 3
    for t in range(1, n):
        other = (pools[:, t - 1] + 1 + (first[:, t] * 2).astype(np.int64)) % 3
        pools[:, t] = np.where(moves[:, t] < RATE, other, pools[:, t - 1])
    other = (pools + 1 + (section * 1e6 % 2).astype(np.int64)) % 3
    kind = np.where(section < gamma * delta, pools + 1, np.where(section < gamma, other + 1, 0))
    inside = np.stack([np.where(UNIVERSE.pool_of + 1 == s, POPULARITY, 0.0) for s in range(4)])
    cumulative = (inside / inside.sum(axis=1, keepdims=True)).cumsum(axis=1)
    return (cumulative[kind, :-1] <= within[..., None]).sum(axis=2), pools


@pytest.mark.slow
@pytest.mark.statistical
def test_the_attack_is_calibrated_under_its_own_model():
    """And the paper's attack is not, which takes the pool as constant."""
    strong = ps.Adversary(name="paper", universe=UNIVERSE, popularity=POPULARITY)
    game = ps.Game(
        universe=UNIVERSE,
        popularity=POPULARITY,
        device=DEVICE,
        adversaries=[strong, ps.attacks.ChangingPreference(rate=RATE)],
        observations=[60],
        population=ps.Population.from_function(switching),
        non_private=False,
    )
    outcomes = ps.play(game, 1500, SEED)
    changing, paper = (outcomes.filter(outcomes["adversary"] == name) for name in ("changing", "paper"))
    assert ece(changing, SEED).value < ece_null_p95(changing, SEED) * 1.2
    assert ece(paper, SEED).value > 2 * ece_null_p95(paper, SEED)
    assert ps.metrics.auc_pn(changing, seed=1).low > ps.metrics.auc_pn(paper, seed=1).high
