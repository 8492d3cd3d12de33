"""The base measure of each mechanism: with it, likelihoods are probabilities."""

import numpy as np
import pytest
from oracle.kinds import EPSILONS, KINDS, tiny

from poolscope.core.errors import InputError
from poolscope.mechanisms import SHE, SUE, DBitFlip, Likelihood, ReportColumn, adapt, device_of, histogram
from poolscope.population.universe import Universe

#: Kinds whose devices keep reports as they are, and of which all reports can be listed.
WHOLE = (
    "cms",
    "cms-no-hash",
    "hcms",
    "grr",
    "sue",
    "oue",
    "the",
    "spotme",
    "ss",
    "blh",
    "olh",
    "hr",
    "pi-rappor",
    "channel",
)


@pytest.mark.parametrize("kind", WHOLE)
def test_all_reports_of_an_object_are_sent_with_certainty(kind):
    reports = KINDS[kind].every()
    for epsilon in EPSILONS if KINDS[kind].noisy else [None]:
        mechanism = tiny(kind, epsilon)
        log_response_prob = mechanism.log_likelihood(reports) + mechanism.log_base_measure(reports)[:, None]
        assert np.exp(log_response_prob).sum(axis=0) == pytest.approx(1)


def test_positions_and_bits_without_noise():
    """dBitFlip states what the positions have; without noise a report has the object's bit, or is impossible."""
    positions = DBitFlip(universe=20, epsilon=2.0, buckets=6, d=4)
    reports = positions.obfuscate(np.arange(20), np.random.default_rng(1))
    assert np.exp(positions.log_base_measure(reports)) == pytest.approx(1 / 15)
    with pytest.raises(InputError, match="positions must be 4, the d of the mechanism, got 0"):
        positions.log_likelihood({name: np.zeros_like(column) for name, column in reports.items()})
    exact = SUE(universe=3, epsilon=np.inf)
    bits = {"bits": np.array([[1], [3], [0]], dtype=np.uint8)}
    assert exact.log_base_measure(bits).tolist() == [0.0, -np.inf, -np.inf]


def test_histograms_with_noise_on_a_coarse_grid(monkeypatch):
    """Steps of one eighth, and all reports within 5 scales of the noise but for e^-20."""
    monkeypatch.setattr(histogram, "GRID_BITS", 3)
    mechanism = SHE(universe=2, epsilon=8.0)
    x = np.arange(-5.0, 6.0, mechanism.step)
    reports = {"reals": np.stack(np.meshgrid(x, x), axis=-1).reshape(-1, 2)}
    log_response_prob = mechanism.log_likelihood(reports) + mechanism.log_base_measure(reports)[:, None]
    assert np.exp(log_response_prob).sum(axis=0) == pytest.approx(1, abs=1e-6)


class Coarse:
    """Says whether an object is even, and lies one time in four."""

    def obfuscate(self, objects, rng):
        return (objects + (rng.random(len(objects)) < 0.25)) % 2

    def log_likelihood(self, reports):
        return np.where(reports[:, None] == np.arange(4) % 2, np.log(3.0), 0.0)


def test_a_mechanism_of_ones_own_must_state_it():
    universe, reports = Universe.sized(4, {"a": 2, "b": 1}), {"report": np.array([0, 1, 1])}
    rule = (
        r"must have a method `log_base_measure` where devices memoize.* got 'Coarse'; return zeros if it omits nothing"
    )
    with pytest.raises(InputError, match=rule):
        device_of(adapt(Coarse(), universe), memoize=True).likelihood(reports)

    class HasLikelihood(Coarse):
        def log_base_measure(self, reports):
            return np.full(len(reports), np.log(0.25))

    distribution = device_of(adapt(HasLikelihood(), universe), memoize=True).likelihood(reports).distribution
    np.testing.assert_allclose(
        np.exp(distribution.log_response_prob), [[0.75, 0.25, 0.75, 0.25], [0.25, 0.75, 0.25, 0.75]]
    )

    class Short(Coarse):
        def log_base_measure(self, reports):
            return np.zeros(1)

    with pytest.raises(InputError, match=r"log_base_measure must give a number for each report, \(2,\)"):
        device_of(adapt(Short(), universe), memoize=True).likelihood(reports)


class Whole(Coarse):
    """States its probabilities, and all its reports."""

    def log_likelihood(self, reports):
        return np.log(0.25) + super().log_likelihood(reports)

    def all_reports(self):
        return np.arange(2)


def test_probabilities_that_sum_to_one_leave_nothing_out():
    """Of a mechanism that lists its reports, adapted or a `Likelihood`; one with other sums must state what it is."""
    universe, reports = Universe.sized(4, {"a": 2, "b": 1}), {"report": np.array([0, 1, 1])}
    distribution = device_of(adapt(Whole(), universe), memoize=True).likelihood(reports).distribution
    np.testing.assert_allclose(
        np.exp(distribution.log_response_prob), [[0.75, 0.25, 0.75, 0.25], [0.25, 0.75, 0.25, 0.75]]
    )

    class Listing(Coarse):
        all_reports = Whole.all_reports

    with pytest.raises(InputError, match="must have a method `log_base_measure` where devices memoize"):
        device_of(adapt(Listing(), universe), memoize=True).likelihood(reports)

    class Own(Likelihood):
        universe, epsilon, report_columns = 4, np.log(3.0), {"report": ReportColumn("integer", 2)}

        def report(self, objects, keys):
            return {"report": objects % 2}

        def log_likelihood(self, reports):
            return Whole().log_likelihood(np.asarray(reports["report"]))

    np.testing.assert_allclose(
        device_of(Own(), memoize=True).likelihood(reports).distribution.log_response_prob,
        distribution.log_response_prob,
    )
