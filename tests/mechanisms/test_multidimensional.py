"""SPL, SMP, RS+FD and RS+RFD against their definitions in exact fractions."""

from math import exp, expm1, log, log1p

import numpy as np
import pytest
from cases.multidimensional import CASES, ODDS
from cases.selection import mostly, statistical
from cases.synthetic import SEED
from oracle.multidimensional import largest_ratio
from scipy import stats

from poolscope.core.errors import InputError
from poolscope.core.randomness import children
from poolscope.mechanisms import RSFD, RSRFD, SMP, SPL, PoolWeights
from poolscope.mechanisms.custom import adapt
from poolscope.mechanisms.protocols import report_count
from poolscope.mechanisms.pure import all_probabilities, all_reports

every_case = pytest.mark.parametrize("name", CASES)


def columns_of(mechanism, reports):
    """Reports of the oracle as columns."""
    sampled = isinstance(mechanism, SMP)
    out = {"sampled": np.array([report[0] for report in reports])} if sampled else {}
    for j, part in enumerate(mechanism.parts):
        column = part.empty(len(reports))
        for row, report in enumerate(reports):
            if not sampled or report[0] == j:
                entry = report[1] if sampled else report[j]
                if isinstance(entry, tuple):
                    column[row] = np.packbits(entry, bitorder="little")
                else:
                    column[row] = entry
        out[part.name] = column
    return out


def stated(case):
    """The oracle's reports and (reports, tuples) their probabilities."""
    found = [case.distribution(x) for x in case.tuples]
    reports = list(found[0])
    return reports, np.array([[float(one[report]) for one in found] for report in reports])


# Likelihoods


@every_case
def test_probabilities_are_those_of_the_definition(name):
    case, mechanism = CASES[name], CASES[name].mechanism
    reports, expected = stated(case)
    columns = columns_of(mechanism, reports)
    assert mechanism.universe == len(case.tuples)
    assert mechanism.tuples(np.arange(mechanism.universe)).tolist() == [list(x) for x in case.tuples]
    np.testing.assert_allclose(np.exp(mechanism.log_likelihood(columns)), expected, rtol=1e-12, atol=0)
    for index, x in enumerate(case.tuples):
        assert sum(case.distribution(x).values()) == 1
        own = mechanism.log_probability(columns, np.tile(x, (len(reports), 1)))
        np.testing.assert_allclose(np.exp(own), expected[:, index], rtol=1e-12, atol=0)


@every_case
def test_every_report_is_listed_once(name):
    case, mechanism = CASES[name], CASES[name].mechanism
    listed = all_reports(mechanism, 10_000)
    assert report_count(listed) == len(case.distribution(case.tuples[0]))
    assert all_probabilities(mechanism) is not None


@every_case
def test_masses_are_sums_of_scaled_likelihoods(name):
    mechanism = CASES[name].mechanism
    listed, rng = all_reports(mechanism, 10_000), np.random.default_rng(SEED)
    columns = rng.integers(3, size=(1, mechanism.universe)).astype(np.uint32)
    weights = rng.random((1, mechanism.universe)) * (columns > 0)
    view = PoolWeights(columns, weights, 3)
    found = mechanism.likelihood(listed) @ view.matrix()
    np.testing.assert_allclose(mechanism.mass(listed, view), found, rtol=1e-12, atol=1e-300)
    none = {key: column[:0] for key, column in listed.items()}
    assert mechanism.mass(none, view).shape == (0, 3)
    assert mechanism.log_likelihood(none).shape == (0, mechanism.universe)


@every_case
def test_one_attribute_is_a_constant_plus_a_slope_on_the_support(name):
    """The others are averaged over beliefs, in the oracle over all of their values."""
    case, mechanism = CASES[name], CASES[name].mechanism
    rng = np.random.default_rng(SEED)
    beliefs = [rng.dirichlet(np.ones(size)) for size in case.sizes]
    reports, probabilities = stated(case)
    columns = columns_of(mechanism, reports)
    for j, size in enumerate(case.sizes):
        others = {f"a{m}": belief for m, belief in enumerate(beliefs) if m != j}
        offset, slope = mechanism.attribute_likelihood(columns, f"a{j}", others)
        found = offset[:, None] + slope[:, None] * mechanism.parts[j].support(columns)
        expected = np.zeros((len(reports), size))
        for index, x in enumerate(case.tuples):
            weight = np.prod([beliefs[m][value] for m, value in enumerate(x) if m != j])
            expected[:, x[j]] += weight * probabilities[:, index]
        possible = expected.max(axis=1) > 0
        assert np.all(found[~possible] == 0)
        ratio = found[possible] / found[possible].max(axis=1, keepdims=True)
        np.testing.assert_allclose(
            ratio, expected[possible] / expected[possible].max(axis=1, keepdims=True), rtol=1e-12, atol=0
        )


# Epsilon


@every_case
def test_epsilon_holds_for_whole_tuples_and_no_smaller_one_does(name):
    case, mechanism = CASES[name], CASES[name].mechanism
    found = {x: case.distribution(x) for x in case.tuples}
    worst = largest_ratio(found, lambda x, other: True)
    assert worst == (ODDS ** len(case.sizes) if case.kind == "spl" else ODDS)
    assert abs(log(worst) - mechanism.epsilon) < 1e-12
    one = largest_ratio(found, lambda x, other: sum(a != b for a, b in zip(x, other, strict=True)) == 1)
    assert abs(log(one) - mechanism.single_attribute_epsilon) < 1e-12


def test_the_claim_of_rs_fd_holds_for_one_attribute_among_equals_only():
    """Sampling amplifies the privacy of one attribute where all have the same number of values, and of no tuple."""
    equal = RSFD.claiming({"a": 5, "b": 5, "c": 5}, claimed_epsilon=2.0)
    assert abs(equal.claimed_epsilon - 2.0) < 1e-12
    assert abs(equal.single_attribute_epsilon - 2.0) < 1e-12
    assert abs(equal.epsilon - log1p(3 * expm1(2.0))) < 1e-12
    zero = RSFD.claiming({"a": 8, "b": 5, "c": 4}, claimed_epsilon=2.0, randomizer="sue", fake="zero")
    assert abs(zero.single_attribute_epsilon - 2.0) < 1e-12
    random = RSFD.claiming({"a": 5, "b": 5, "c": 5}, claimed_epsilon=2.0, randomizer="sue", fake="random")
    assert random.single_attribute_epsilon > 2.5


def test_the_ratio_of_8_5_4_values_is_the_one_worked_out_by_hand():
    """As docs/explanation/multidimensional.md does: 20.17 for all attributes, 9.37 for the first alone."""
    mechanism = RSFD.claiming({"a": 8, "b": 5, "c": 4}, claimed_epsilon=2.0)
    odds = 1 + 3 * (exp(2.0) - 1)
    shares = np.array([k / (odds + k - 1) for k in (8, 5, 4)])
    report = {"a": np.array([0]), "b": np.array([0]), "c": np.array([0])}

    def probability(x):
        return float(np.exp(mechanism.log_probability(report, [x]))[0])

    assert abs(probability((0, 0, 0)) / probability((1, 1, 1)) / odds - 1) < 1e-12
    by_hand = (odds * shares[0] + shares[1] + shares[2]) / shares.sum()
    assert abs(probability((0, 1, 1)) / probability((1, 1, 1)) / by_hand - 1) < 1e-12
    assert abs(mechanism.single_attribute_epsilon - log(by_hand)) < 1e-12
    assert round(mechanism.epsilon, 3) == 3.004
    assert round(log(by_hand), 3) == 2.238


# The client


def chi_square(case, mechanism, x, count, keys):
    """The p-value of drawn reports against the definition's distribution."""
    expected = {report: p for report, p in case.distribution(x).items() if p}
    drawn = mechanism.report(np.tile(x, (count, 1)), keys)
    both = {key: np.concatenate([column, drawn[key]]) for key, column in columns_of(mechanism, list(expected)).items()}
    flat = np.hstack([np.ascontiguousarray(c).reshape(len(c), -1).astype(np.int64) for c in both.values()])
    _, which = np.unique(flat, axis=0, return_inverse=True)
    place = {int(group): position for position, group in enumerate(which[: len(expected)])}
    seen = np.bincount([place[int(group)] for group in which[len(expected) :]], minlength=len(expected))
    means = count * np.array([float(p) for p in expected.values()])
    return stats.chisquare(seen, means * (count / means.sum())).pvalue


@pytest.mark.parametrize("name", mostly(statistical, CASES, "rs+fd oue random", "rs+rfd grr"))
def test_reports_follow_the_definition(name):
    case, mechanism = CASES[name], CASES[name].mechanism
    for index in (0, len(case.tuples) - 1):
        keys = children(np.uint64(SEED + index), np.arange(40_000))
        assert chi_square(case, mechanism, case.tuples[index], 40_000, keys) > 1e-4


def test_the_chi_square_finds_other_fakes():
    case = CASES["rs+fd sue zero"]
    other = CASES["rs+fd sue random"].mechanism
    keys = children(np.uint64(SEED), np.arange(40_000))
    assert chi_square(case, other, case.tuples[0], 40_000, keys) < 1e-9


@every_case
def test_a_report_depends_on_its_key_alone(name):
    mechanism = CASES[name].mechanism
    keys = children(np.uint64(SEED), np.arange(50))
    objects = np.arange(50) % mechanism.universe
    all_of_them = mechanism.report(objects, keys)
    some = mechanism.report(mechanism.tuples(objects)[::-7], keys[::-7])
    for key, column in all_of_them.items():
        assert np.array_equal(column[::-7], some[key])
        assert list(all_of_them) == list(mechanism.report_columns)
    assert np.array_equal(mechanism.index(mechanism.tuples(objects)), objects)
    assert report_count(mechanism.report(objects[:0], keys[:0])) == 0


def test_vectors_of_many_values_have_no_padding_bits():
    """Sizes around a byte and a word: the zero vector has one bit more while it is drawn."""
    for size in (7, 8, 9, 63, 64, 65):
        mechanism = RSFD({"a": size, "b": 2}, epsilon=0.5, randomizer="sue", fake="zero")
        reports = mechanism.obfuscate(np.zeros((2000, 2), dtype=np.int64), np.random.default_rng(SEED))
        bits = np.unpackbits(reports["a"], axis=1, bitorder="little")
        assert not bits[:, size:].any()
        means = bits[:, 1:size].mean(axis=0)
        q = mechanism.parts[0].randomizer.q_star
        assert np.all(np.abs(means - q) < 5 * np.sqrt(q * (1 - q) / 2000))


def test_the_mechanism_can_be_adapted_as_any_other():
    """It states everything that a custom mechanism may state."""
    mechanism = CASES["rs+fd grr"].mechanism
    assert adapt(mechanism, mechanism.universe).epsilon == mechanism.epsilon


# Errors


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SPL({"a": 3}, epsilon=1.0), "attributes: must be a mapping from two or more names"),
        (lambda: SPL({1: 3, "b": 4}, epsilon=1.0), "attributes: must be named by strings, got 1"),
        (lambda: SPL({"a": 3, "b": 1}, epsilon=1.0), "attributes.b: must have two values or more, got 1"),
        (lambda: SPL({"a": 3, "b": 2}, epsilon=-1.0), "epsilon must be positive"),
        (lambda: SPL({"a": 3, "b": 2}, epsilon=1.0, randomizer="olh"), "randomizer: must be grr, sue, oue, got 'olh'"),
        (lambda: SPL({"a": 3, "b": 2}, epsilon=1.0, randomizer=["grr"]), "one for each of 2 attributes"),
        (lambda: SMP({"a": 3, "sampled": 2}, epsilon=1.0), "no attribute may have the name of SMP's own column"),
        (lambda: RSFD({"a": 3, "b": 2}, epsilon=1.0, fake="zero"), "fake: is for unary encodings"),
        (lambda: RSFD({"a": 3, "b": 2}, epsilon=1.0, fake="one", randomizer="oue"), "fake: must be zero or random"),
        (lambda: RSFD.claiming({"a": 3}, claimed_epsilon=1.0), "attributes: must be a mapping"),
        (lambda: RSRFD({"a": 3, "b": 2}, epsilon=1.0, priors=[1.0]), "priors: must be a mapping"),
        (lambda: RSRFD({"a": 3, "b": 2}, epsilon=1.0, priors={"a": [1, 0, 0]}), "priors.b: is missing"),
        (lambda: RSRFD({"a": 2, "b": 2}, epsilon=1.0, priors={"a": [1, 0], "b": [0.5, 0.4]}), "priors.b: must sum"),
        (lambda: RSRFD({"a": 2, "b": 2}, epsilon=1.0, priors={"a": [1, 0], "c": [1, 0]}), "name of an attribute"),
        (lambda: RSRFD({"a": 2, "b": 2}, epsilon=1.0, priors={"a": [1], "b": [1, 0]}), "for each of 2 values"),
        (lambda: RSRFD({"a": 2, "b": 2}, epsilon=1.0, priors={"a": [2, -1], "b": [1, 0]}), "not negative"),
    ],
)
def test_bad_parameters_are_one_line(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_bad_tuples_attributes_and_reports_are_one_line():
    mechanism, rng = SMP({"word": 3, "emoji": 2}, epsilon=1.0), np.random.default_rng(SEED)
    with pytest.raises(InputError, match=r"emoji: objects must be 0..1, got 2"):
        mechanism.obfuscate([[0, 2]], rng)
    with pytest.raises(InputError, match="rows of 2 values"):
        mechanism.obfuscate([[0, 1, 1]], rng)
    with pytest.raises(InputError, match=r"objects must be 0..5, got 6"):
        mechanism.obfuscate([6], rng)
    with pytest.raises(InputError, match="rng must be a generator"):
        mechanism.obfuscate([0], 1)
    with pytest.raises(InputError, match=r"attribute: must be the name of an attribute, got 'words'.*word"):
        mechanism.part("words")
    with pytest.raises(InputError, match="word: must be 0 where another attribute was sampled"):
        mechanism.log_weights({"sampled": np.array([1]), "word": np.array([2]), "emoji": np.array([1])})
    with pytest.raises(InputError, match="name of an attribute"):
        mechanism.attribute_likelihood(mechanism.obfuscate([0], rng), "word", {"emojis": [0.5, 0.5]})
