"""Does an epsilon hold for whole tuples: by enumeration where it is possible, else by samples."""

from math import expm1, log1p

import numpy as np
import pytest
from cases.multidimensional import CASES
from cases.synthetic import SEED

from poolscope.mechanisms import RSFD, SPL
from poolscope.workflows.check.check import check
from poolscope.workflows.check.distribution import exact

ATTRIBUTES = {"a": 8, "b": 5, "c": 4}


class Claimed:
    """A mechanism under the epsilon that its paper claims; `opaque` says that it states no likelihoods."""

    def __init__(self, mechanism, opaque):
        self.epsilon, self.universe, self.obfuscate = mechanism.claimed_epsilon, mechanism.universe, mechanism.obfuscate
        if not opaque:
            self.log_likelihood, self.report_columns = mechanism.log_likelihood, mechanism.report_columns


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_declared_epsilon_holds(name):
    mechanism = CASES[name].mechanism
    # one bound in twenty at 95% confidence would exceed the exact epsilon, and there are fifteen
    verdict = check(mechanism, samples=1000, seed=SEED, confidence=0.9999)
    assert verdict.passed, verdict.text
    assert abs(verdict.exact.epsilon - mechanism.epsilon) < 1e-9
    assert verdict.exact.consistent


def test_enumeration_finds_3_004_where_rs_fd_claims_2():
    mechanism = RSFD.claiming(ATTRIBUTES, claimed_epsilon=2.0)
    verdict = check(Claimed(mechanism, opaque=False), samples=1000, seed=SEED)
    assert abs(verdict.exact.epsilon - log1p(3 * expm1(2.0))) < 1e-9
    assert not verdict.passed
    assert "the stated distribution has ε = 3.004, the declared ε is 2" in verdict.text
    assert exact(mechanism).epsilon <= mechanism.epsilon * (1 + 1e-9)


@pytest.mark.slow
def test_samples_alone_find_more_than_the_claim():
    """A lower bound of about 2.3 from 50,000 reports: above the claimed 2, below the 3.004 that holds."""
    mechanism = RSFD.claiming(ATTRIBUTES, claimed_epsilon=2.0)
    verdict = check(Claimed(mechanism, opaque=True), samples=50_000, seed=1)
    assert verdict.exact is None
    assert 2.0 < verdict.testable < mechanism.epsilon
    assert not verdict.passed
    split = check(Claimed(SPL(ATTRIBUTES, epsilon=2.0), opaque=True), samples=50_000, seed=1)
    assert split.passed, split.text


@pytest.mark.slow
def test_reports_of_multi_freq_ldpy_show_more_than_its_epsilon():
    client = pytest.importorskip("multi_freq_ldpy.mdim_freq_est.RSpFD_solution").RSpFD_GRR_Client
    sizes = list(ATTRIBUTES.values())

    class Foreign:
        epsilon, universe = 2.0, 160

        def obfuscate(self, objects, rng):
            # its generator is NumPy's global one
            np.random.seed(int(rng.integers(2**32)))  # noqa: NPY002
            people = np.stack(np.unravel_index(objects, sizes), axis=1).tolist()
            reports = np.array([client(person, sizes, 3, 2.0) for person in people]).reshape(-1, 3)
            return dict(zip(ATTRIBUTES, reports.T, strict=True))

    verdict = check(Foreign(), samples=200_000, seed=1, confidence=0.999)
    assert verdict.testable > 2.0, verdict.text


@pytest.mark.slow
def test_a_large_output_space_is_sampled():
    mechanism = RSFD({"a": 40, "b": 30}, epsilon=2.0, randomizer="oue", fake="random")
    verdict = check(mechanism, samples=10_000, seed=SEED)
    assert verdict.exact is None
    assert verdict.passed, verdict.text
    assert verdict.testable > 0.5
    assert np.isfinite(verdict.testable)
