"""Frequencies of attributes: unbiased, with the published variance; reports of multi-freq-ldpy to rounding."""

from math import exp, log

import numpy as np
import polars as pl
import pytest
from cases.multidimensional import (
    CASES,
    ODDS,
    RECORDED,
    RISKS,
    normalized,
    recorded_mechanism,
    recorded_reports,
)
from cases.selection import mostly, statistical
from cases.synthetic import SEED

from poolscope.core.errors import InputError
from poolscope.mechanisms import (
    GRR,
    RSFD,
    RSRFD,
    SMP,
    SPL,
    attribute_frequencies,
    attribute_variance,
    reports_from_tuples,
)
from poolscope.population.universe import Universe
from poolscope.reports.files import read_reports, report_frame

RUNS, PEOPLE = 300, 600


def estimates(mechanism, frequencies, rng):
    """(runs, values) estimates of the first attribute, of people drawn from frequencies, and their standard errors."""
    found, errors = [], []
    for _ in range(RUNS):
        people = np.stack([rng.choice(len(f), size=PEOPLE, p=f) for f in frequencies], axis=1)
        estimate = attribute_frequencies(mechanism, mechanism.obfuscate(people, rng))["a0"]
        found.append(estimate.counts / estimate.reports)
        errors.append((estimate.errors / estimate.reports) ** 2)
    return np.array(found), np.array(errors)


def variance_ratio_limit():
    """5 standard errors of a variance's logarithm; the estimates are nearly normal."""
    return 5 * np.sqrt(2 / (RUNS - 1))


@pytest.mark.parametrize("name", mostly(statistical, CASES, "rs+fd grr"))
def test_estimates_are_unbiased_with_the_stated_variance(name):
    mechanism, rng = CASES[name].mechanism, np.random.default_rng(SEED)
    frequencies = [np.arange(1.0, k + 1) / np.arange(1.0, k + 1).sum() for k in mechanism.sizes]
    found, errors = estimates(mechanism, frequencies, rng)
    stated = attribute_variance(mechanism, "a0", frequencies[0], PEOPLE)
    assert np.all(np.abs(found.mean(axis=0) - frequencies[0]) < 5 * np.sqrt(stated / RUNS))
    assert np.all(np.abs(np.log(found.var(axis=0, ddof=1) / stated)) < variance_ratio_limit())
    # the errors are of the counts of these people, to which the draw of the people adds f (1 - f) / N
    count = PEOPLE / mechanism.d if isinstance(mechanism, SMP) else PEOPLE
    total = errors.mean(axis=0) + frequencies[0] * (1 - frequencies[0]) / count
    assert np.all(np.abs(np.log(total / stated)) < 0.05)


def test_an_estimate_that_ignores_the_priors_of_fakes_is_biased():
    """The negative control of the test above."""
    case = CASES["rs+rfd grr"].mechanism
    other = RSFD(case.attributes, epsilon=case.epsilon)
    people, rng = np.zeros((20_000, 2), dtype=np.int64), np.random.default_rng(SEED)
    reports = case.obfuscate(people, rng)
    right, wrong = (attribute_frequencies(one, reports)["a1"] for one in (case, other))
    assert abs(right.counts[0] - 20_000) < 5 * right.errors[0]
    assert abs(wrong.counts[0] - 20_000) > 20 * wrong.errors[0]


def published(p, q, d, fakes, f, n):
    """Theorem of RS+FD, and of RS+RFD: d^2 gamma (1 - gamma) / (n (p - q)^2)."""
    gamma = (q + f * (p - q) + (d - 1) * fakes) / d
    return d**2 * gamma * (1 - gamma) / (n * (p - q) ** 2)


@pytest.mark.parametrize("fake", ["grr", "zero", "random", "prior"])
def test_variances_are_those_of_the_papers(fake):
    f, prior, n, d, e, k = np.array([0.5, 0.3, 0.2]), np.array([0.7, 0.2, 0.1]), 1000, 2, float(ODDS), 3
    attributes = {"a": k, "b": 2}
    if fake == "grr":
        mechanism, p, q = RSFD(attributes, epsilon=log(e)), e / (e + k - 1), 1 / (e + k - 1)
        fakes = 1 / k
    else:
        p, q = 0.5, 1 / (e + 1)
        if fake == "prior":
            priors = {"a": prior, "b": [0.5, 0.5]}
            mechanism = RSRFD(attributes, epsilon=log(e), randomizer="oue", priors=priors)
        else:
            mechanism = RSFD(attributes, epsilon=log(e), randomizer="oue", fake=fake)
        fakes = {"zero": q, "random": p / k + q * (k - 1) / k, "prior": q + prior * (p - q)}[fake]
    np.testing.assert_allclose(attribute_variance(mechanism, "a", f, n), published(p, q, d, fakes, f, n), rtol=1e-12)
    assert not np.allclose(attribute_variance(mechanism, "a", f, n), published(p, q, d, fakes, f, 2 * n))


def test_variances_of_spl_and_smp_are_those_of_their_randomizers():
    f, n, e = np.array([0.6, 0.4, 0.0]), 900, 1.5
    for kind, epsilon, count in ((SPL, e / 3, n), (SMP, e, n / 3)):
        mechanism = kind({"a": 3, "b": 4, "c": 5}, epsilon=e)
        p, q = exp(epsilon) / (exp(epsilon) + 2), 1 / (exp(epsilon) + 2)
        gamma = q + f * (p - q)
        expected = gamma * (1 - gamma) / (count * (p - q) ** 2)
        np.testing.assert_allclose(attribute_variance(mechanism, "a", f, n), expected, rtol=1e-12)


# Reports of multi-freq-ldpy


@pytest.mark.parametrize("name", RECORDED["protocols"])
def test_recorded_reports_are_estimated_as_multi_freq_ldpy_does(name):
    mechanism = recorded_mechanism(name)
    found = attribute_frequencies(mechanism, reports_from_tuples(mechanism, recorded_reports(name)))
    assert RECORDED["version"] == "0.2.5"
    for estimate, expected in zip(found.values(), RECORDED["protocols"][name]["estimates"], strict=True):
        np.testing.assert_allclose(normalized(estimate.counts / estimate.reports), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", RISKS["protocols"])
def test_recorded_reports_of_rs_rfd_are_estimated_as_by_the_code_of_its_paper(name):
    attributes = {f"a{j}": size for j, size in enumerate(RISKS["sizes"])}
    priors = dict(zip(attributes, RISKS["priors"], strict=True))
    randomizer, claimed = name.split()[1], RISKS["epsilon"]
    mechanism = RSRFD.claiming(attributes, claimed_epsilon=claimed, randomizer=randomizer, priors=priors)
    found = attribute_frequencies(mechanism, reports_from_tuples(mechanism, recorded_reports(name, RISKS)))
    for estimate, expected in zip(found.values(), RISKS["protocols"][name]["estimates"], strict=True):
        np.testing.assert_allclose(normalized(estimate.counts / estimate.reports), expected, rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("randomizer", ["grr", "sue zero", "oue zero", "sue random", "oue random"])
def test_reports_made_now_are_estimated_as_multi_freq_ldpy_does(randomizer):
    solution = pytest.importorskip("multi_freq_ldpy.mdim_freq_est.RSpFD_solution")
    kind, *fake = randomizer.split()
    middle = f"UE_{'rnd' if fake == ['random'] else 'zero'}" if fake else "GRR"
    client, aggregate = (getattr(solution, f"RSpFD_{middle}_{end}") for end in ("Client", "Aggregator_MI"))
    sizes, options = [5, 3, 4], [kind == "oue"] if fake else []
    people = np.random.default_rng(SEED).integers(3, size=(500, 3)).tolist()
    made = [client(person, sizes, 3, 2.0, *options) for person in people]
    attributes = {f"a{j}": size for j, size in enumerate(sizes)}
    own = {"fake": fake[0]} if fake else {}
    mechanism = RSFD.claiming(attributes, claimed_epsilon=2.0, randomizer=kind, **own)
    found = attribute_frequencies(mechanism, reports_from_tuples(mechanism, made))
    for estimate, expected in zip(found.values(), aggregate(made, sizes, 3, 2.0, *options), strict=True):
        np.testing.assert_allclose(normalized(estimate.counts / estimate.reports), expected, rtol=0, atol=1e-12)


# Files


@pytest.mark.parametrize("ending", ["parquet", "csv"])
@pytest.mark.parametrize("kind", [SMP, RSFD])
def test_files_of_reports_are_read_as_they_were_written(kind, ending, tmp_path):
    """With the columns of the mechanism, an attribute each; values are no objects of the universe."""
    mechanism, rng = kind({"emoji": 12, "word": 9}, epsilon=2.0, randomizer=["grr", "oue"]), np.random.default_rng(SEED)
    reports = mechanism.obfuscate(rng.integers(9, size=(50, 2)), rng)
    universe, users, path = Universe.sized(12, {"a": 4, "b": 4}), pl.Series(range(50)), tmp_path / f"reports.{ending}"
    frame = report_frame(users, reports, mechanism.report_columns, universe, text=ending == "csv")
    assert frame.columns == ["user", *mechanism.report_columns]
    getattr(frame, f"write_{ending}")(path)
    _, found = read_reports(path, mechanism, universe)
    for name, column in reports.items():
        assert np.array_equal(found[name], column)


# Errors


@pytest.mark.parametrize(
    ("tuples", "message"),
    [
        ([[0, [1, 0]], [0]], "report 1: must have 2 entries, got 1"),
        ([[0, [1, 0, 0]]], "b: must be vectors of 2 bits, 0 or 1"),
        ([[0, [1, 2]]], "b: must be vectors of 2 bits, 0 or 1"),
        ([[0, [1, 0]], [0, [1]]], "b: must be vectors of 2 bits"),
        ([[3, [1, 0]]], "a, report 0: must be 0 to 2, got 3"),
        ([[0.5, [1, 0]]], "a: must be integers"),
    ],
)
def test_bad_tuples_are_one_line(tuples, message):
    mechanism = RSFD({"a": 3, "b": 2}, epsilon=1.0, randomizer=["grr", "oue"])
    with pytest.raises(InputError, match=message):
        reports_from_tuples(mechanism, tuples)


def test_other_mechanisms_and_attributes_without_reports_are_one_line():
    grr = GRR(universe=3, epsilon=1.0)
    for call in (attribute_frequencies, reports_from_tuples):
        with pytest.raises(InputError, match="must be a mechanism for several attributes, got 'GRR'; SPL, SMP"):
            call(grr, [])
    mechanism = SMP({"a": 3, "b": 2}, epsilon=1.0)
    reports = reports_from_tuples(mechanism, [(0, 1), (0, 2)])
    with pytest.raises(InputError, match="b: an estimate needs at least one report, got 0"):
        attribute_frequencies(mechanism, reports)
    with pytest.raises(InputError, match="reports must be an integer of at least 1, got 0"):
        attribute_variance(mechanism, "a", [1, 0, 0], 0)
    with pytest.raises(InputError, match="sampled, report 0: must be 0 to 1, got 2"):
        reports_from_tuples(mechanism, [(2, 1)])
