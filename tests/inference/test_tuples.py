"""The attack on tuple reports that hide the sampled attribute, against enumeration in exact fractions."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from cases.multidimensional import CASES
from cases.synthetic import SEED
from oracle import tuple_posterior as oracle

from poolscope.core.errors import InputError
from poolscope.inference.adversary import Adversary
from poolscope.inference.tuples import RUNGS, TOLERANCE, TupleAttack, believed_pools, pool_posteriors, subset_evidence
from poolscope.mechanisms import RSFD, reports_from_tuples, sampled_attribute_posterior
from poolscope.population.behavior import Behavior
from poolscope.population.popularity import within_pools
from poolscope.population.priors import Beta
from poolscope.population.universe import Universe

HIDING = [name for name, case in CASES.items() if case.kind.startswith("rs+")]
LINKS = [
    [[Fraction(7, 10), Fraction(3, 10)], [Fraction(1, 5), Fraction(4, 5)]],
    [[Fraction(1, 4), Fraction(3, 4)], [Fraction(1), Fraction(0)]],
    [[Fraction(3, 5), Fraction(2, 5)], [Fraction(1, 2), Fraction(1, 2)]],
]
PRIOR = [Fraction(2, 3), Fraction(1, 3)]


def universe_of(size):
    """Two pools; one neutral value where there are three values or more."""
    return Universe.sized(size, {"left": 1, "right": max(1, size - 2)})


def adversaries_of(sizes, **belief):
    made = []
    for c, size in enumerate(sizes):
        popularity = np.arange(1.0, size + 1.0) + c
        own = Behavior(**belief)
        made.append(Adversary(name="a", universe=universe_of(size), popularity=popularity, belief=own))
    return made


def exact_weights(adversary):
    """The popularity within pools as fractions."""
    pool_of = adversary.universe.pool_of.tolist()
    given = [Fraction(int(p)) for p in adversary.popularity]
    sums = {pool: sum(p for p, own in zip(given, pool_of, strict=True) if own == pool) for pool in set(pool_of)}
    return [p / sums[pool] for p, pool in zip(given, pool_of, strict=True)]


def drawn_reports(case, count, seed):
    """Reports of random tuples, as the oracle writes them."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(count):
        x = case.tuples[int(rng.integers(len(case.tuples)))]
        distribution = case.distribution(x)
        p = np.array([float(value) for value in distribution.values()])
        found.append(list(distribution)[int(rng.choice(len(p), p=p / p.sum()))])
    return found


@pytest.mark.default_cases("rs+fd grr", "rs+fd grr and oue", "rs+fd sue zero", "rs+fd oue random", "rs+rfd grr")
@pytest.mark.parametrize("name", HIDING)
def test_posteriors_are_those_of_the_enumeration(name):
    case, adversaries = CASES[name], adversaries_of(CASES[name].sizes)
    d, count = len(case.sizes), 3 if len(case.sizes) == 2 else 2
    reports = drawn_reports(case, count, SEED)
    weights = [exact_weights(one) for one in adversaries]
    pool_of = [one.universe.pool_of.tolist() for one in adversaries]
    distributions = {x: case.distribution(x) for x in case.tuples}
    attack = TupleAttack(case.mechanism, adversaries)
    terms = attack.terms(reports_from_tuples(case.mechanism, reports))
    found = attack.evidence(terms)
    assert found.shape == (count + 1, 2**d)
    links = [np.array(link, dtype=float) for link in LINKS[:d]]
    believed = believed_pools(links, np.array(PRIOR, dtype=float))
    for n in range(count + 1):
        exact = {
            pools: oracle.likelihood(reports[:n], lambda y, x: distributions[x].get(y, 0), pools, pool_of, weights)
            for pools in product(range(2), repeat=d)
        }
        largest = max(exact.values())
        np.testing.assert_allclose(found[n], [float(value / largest) for value in exact.values()], rtol=1e-12)
        for used in product((False, True), repeat=d):
            expected = oracle.posterior(exact, PRIOR, LINKS[:d], used)
            scores = subset_evidence(found[n], links, believed, np.array(used)) * np.array(PRIOR, dtype=float)
            np.testing.assert_allclose(scores / scores.sum(), np.array(expected, dtype=float), rtol=1e-12)
        pools = pool_posteriors(found[n], links, np.array(PRIOR, dtype=float))
        for c, own in enumerate(pools):
            expected = oracle.pool_posterior(exact, PRIOR, LINKS[:d], c)
            np.testing.assert_allclose(own, np.array(expected, dtype=float), rtol=1e-12)


def test_pools_of_reports_that_are_excluded_are_those_believed():
    links, prior = [np.array(link, dtype=float) for link in LINKS[:2]], np.array([0.25, 0.75])
    first, second = pool_posteriors(np.zeros((3, 2, 4)), links, prior)
    np.testing.assert_allclose(first, np.broadcast_to(prior @ links[0], (3, 2, 2)))
    np.testing.assert_allclose(second, np.broadcast_to(prior @ links[1], (3, 2, 2)))


def random_terms(count, seed, d=2, k=2):
    """Terms of reports of any mechanism: numbers by pool, the largest likelihood 1."""
    rng = np.random.default_rng(seed)
    terms = [rng.uniform(0.02, 1.0, size=(count, k + 1)) for _ in range(d)]
    top = np.sum([own.max(axis=1) for own in terms], axis=0)[:, None]
    return [own / top for own in terms]


@pytest.mark.default_cases("60-belief1")
@pytest.mark.parametrize("belief", [{}, {"interest": Beta(a=2.0, b=5.0), "polarization": Beta(a=8.0, b=2.0)}])
@pytest.mark.parametrize("count", [60, 120])
def test_rules_that_agree_are_right(belief, count):
    """Sharper than any reports of a mechanism: dozens, each up to 50 times as likely from one pool."""
    attack = TupleAttack(RSFD({"a": 5, "b": 4}, epsilon=3.0), adversaries_of((5, 4), **belief))
    terms = random_terms(count, SEED)
    found, fine = attack.evidence(terms), attack._evidence(terms, 40)
    np.testing.assert_allclose(found, fine, atol=10 * TOLERANCE)
    # the control: the smallest rule is not enough
    assert np.abs(attack._evidence(terms, RUNGS[0]) - fine).max() > 1e-4


@pytest.mark.default_cases("1.0-40")
@pytest.mark.parametrize(("epsilon", "count"), [(1.0, 40), (3.0, 100), (6.0, 60)])
def test_reports_of_a_mechanism_are_integrated(epsilon, count):
    mechanism = RSFD({"a": 8, "b": 5}, epsilon=epsilon)
    attack, rng = TupleAttack(mechanism, adversaries_of((8, 5))), np.random.default_rng(SEED)
    for favorite in ([0, 1], [7, 4], [3, 0]):
        people = np.where(rng.random((count, 1)) < 0.7, [favorite], rng.integers(0, [8, 5], size=(count, 2)))
        terms = attack.terms(mechanism.obfuscate(people, rng))
        np.testing.assert_allclose(attack.evidence(terms), attack._evidence(terms, 28), atol=1e-6)


def test_products_do_not_underflow():
    """The same 40 reports 60 times, of a likelihood below e^-745."""
    attack = TupleAttack(RSFD({"a": 5, "b": 4}, epsilon=3.0), adversaries_of((5, 4)))
    terms = [np.tile(own, (60, 1)) for own in random_terms(40, SEED)]
    found = attack._evidence(terms, 4)
    assert np.all(np.isfinite(found))
    np.testing.assert_allclose(found.max(axis=1), 1.0)
    logs, states = np.zeros(0), [attack._states(c, 4) for c in range(2)]
    scores = {}
    for i, j in product(range(2), repeat=2):
        own = [
            (1 - s.interest) * t[:, :1]
            + s.interest * (s.polarization * t[:, 1 + p, None] + (1 - s.polarization) * t[:, 1:].mean(axis=1)[:, None])
            for s, t, p in zip(states, terms, (i, j), strict=True)
        ]
        logs = np.log(own[0][:, :, None] + own[1][:, None, :]).sum(axis=0)
        scores[i, j] = logs + np.log(np.outer(states[0].weight, states[1].weight))
    assert max(own.max() for own in scores.values()) < -745
    total = np.array([np.logaddexp.reduce(own.ravel()) for own in scores.values()])
    np.testing.assert_allclose(found[-1], np.exp(total - total.max()), rtol=1e-9)


def test_the_order_of_attributes_does_not_matter():
    """Three attributes of 2, 3 and 4 pools: the innermost of the kernel is another one."""
    universes = [Universe.sized(k + 1, {f"p{i}": 1 for i in range(k)}) for k in (2, 3, 4)]
    made = [Adversary(name="a", universe=own, popularity=np.arange(1.0, own.size + 1)) for own in universes]
    rng = np.random.default_rng(SEED)
    terms = [rng.uniform(0.1, 0.3, size=(5, own.k + 1)) for own in universes]
    orders = [(0, 1, 2), (2, 0, 1), (1, 2, 0)]
    found = []
    for order in orders:
        attributes = {f"a{c}": universes[c].size for c in order}
        attack = TupleAttack(RSFD(attributes, epsilon=2.0), [made[c] for c in order])
        shaped = attack.evidence([terms[c] for c in order]).reshape(6, *(universes[c].k for c in order))
        found.append(np.moveaxis(shaped, [1 + order.index(c) for c in range(3)], [1, 2, 3]))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-10)
    np.testing.assert_allclose(found[2], found[0], rtol=1e-10)


@pytest.mark.parametrize("name", HIDING)
def test_the_sampled_attribute_is_scored_by_what_is_believed(name):
    case, adversaries = CASES[name], adversaries_of(CASES[name].sizes)
    mechanism, attack = case.mechanism, TupleAttack(CASES[name].mechanism, adversaries)
    reports = reports_from_tuples(mechanism, drawn_reports(case, 6, SEED))
    believed = [np.array([0.7, 0.3])] * len(adversaries)
    scores = attack.sampled_scores(attack.terms(reports), believed)
    beliefs = {}
    for part, adversary in zip(mechanism.parts, adversaries, strict=True):
        g = 0.5 if adversary.universe.neutral_size else 1.0
        shares = np.append(g * (0.5 * believed[0] + 0.25), 1 - g)
        inside = within_pools(adversary.universe, adversary.popularity, empty="uniform")
        beliefs[part.name] = shares[adversary.universe.pool_of] * inside
    expected = sampled_attribute_posterior(mechanism, reports, beliefs=beliefs)
    np.testing.assert_allclose(scores / scores.sum(axis=1, keepdims=True), expected, rtol=1e-9)
    np.testing.assert_allclose(attack.sampled_posterior(attack.terms(reports), believed), expected, rtol=1e-9)
    excluded = attack.sampled_posterior([np.zeros_like(own) for own in attack.terms(reports)], believed)
    np.testing.assert_allclose(excluded, 1 / len(adversaries))


def test_too_many_combinations_are_refused():
    sizes = dict.fromkeys("abcdef", 8)
    universe = Universe.sized(8, {f"p{i}": 1 for i in range(6)})
    made = [Adversary(name="a", universe=universe, popularity=np.ones(8)) for _ in sizes]
    with pytest.raises(InputError, match="too many combinations for the joint posterior, got 46656"):
        TupleAttack(RSFD(sizes, epsilon=2.0), made)
