"""The bound on reports of several epsilons, against enumeration of all lies, and against mechanisms."""

import math
from itertools import product

import numpy as np
import pytest

from poolscope.core.errors import InputError
from poolscope.metrics import composition
from poolscope.metrics.bounds import success_bound
from poolscope.metrics.composition import composed_success_bound, mean_composed_bound, privacy_loss


def enumerated(epsilons, prior):
    """The best guess between two candidates after one randomized response of each epsilon, by all 2^n outcomes."""
    right = 0.0
    for answers in product((0, 1), repeat=len(epsilons)):
        p = [prior, 1 - prior]
        for epsilon, answer in zip(epsilons, answers, strict=True):
            p = [p[x] * (math.exp(epsilon) if answer == x else 1) / (1 + math.exp(epsilon)) for x in (0, 1)]
        right += max(p)
    return right


@pytest.mark.parametrize("prior", [0.5, 0.7])
def test_two_candidates_are_exact(prior):
    found = composed_success_bound([0.3, 1.0, 2.0], [3, 2, 1], prior)
    assert found == pytest.approx(enumerated([0.3] * 3 + [1.0] * 2 + [2.0], prior), rel=1e-12)


@pytest.mark.parametrize("prior", [1 / 6, 0.3, 0.5, 0.8])
def test_equal_epsilons_are_the_bound_of_one_collection(prior):
    for counts in ([1, 1], [5, 2], [0, 7], [3, 0]):
        expected = success_bound(0.7, sum(counts), prior)
        assert composed_success_bound([0.7, 0.7], counts, prior) == pytest.approx(expected, rel=1e-12)
    assert composed_success_bound([0.7, 9.0], [4, 0], prior) == pytest.approx(success_bound(0.7, 4, prior), rel=1e-12)
    assert composed_success_bound([1.0], [0], prior) == pytest.approx(prior)


@pytest.mark.parametrize("prior", [1 / 5, 0.5])
def test_it_lies_between_its_parts_and_the_largest_epsilon(prior):
    for counts in ([3, 3], [20, 4], [60, 60]):
        found = composed_success_bound([0.1, 0.4], counts, prior)
        parts = success_bound(0.1, counts[0], prior), success_bound(0.4, counts[1], prior)
        assert max(parts) - 1e-12 <= found <= success_bound(0.4, sum(counts), prior) + 1e-12


def test_no_mechanism_beats_it():
    """Randomized responses about k candidates, k-ary and binary, with the best guess by enumeration."""
    k, epsilons = 3, (1.0, 2.0)
    channels = []
    for epsilon in epsilons:
        same = math.exp(epsilon) / (math.exp(epsilon) + k - 1)
        channels.append(np.full((k, k), (1 - same) / (k - 1)) + (same - (1 - same) / (k - 1)) * np.eye(k))
    right = sum(max(channels[0][x, a] * channels[1][x, b] for x in range(k)) for a in range(k) for b in range(k)) / k
    bound = composed_success_bound(epsilons, [1, 1], 1 / k)
    assert 1 / k < right <= bound < 1
    # the control: more privacy would be violated
    assert right > composed_success_bound([0.5, 1.0], [1, 1], 1 / k)


@pytest.mark.parametrize("prior", [0.2, 0.5])
def test_a_lattice_of_losses_is_a_bound_and_close(prior, monkeypatch):
    many = [0.11, 0.17, 0.23], [25, 20, 15]
    exact = composed_success_bound(*many, prior)
    monkeypatch.setattr(composition, "MAX_ATOMS", 4000)
    rough = composed_success_bound(*many, prior)
    assert exact <= rough + 1e-12
    assert rough == pytest.approx(exact, abs=1e-4)


def test_both_masses_of_an_atom_stay_on_the_lattice(monkeypatch):
    monkeypatch.setattr(composition, "MAX_ATOMS", 800)
    loss, p = privacy_loss([0.5, 0.3], [40, 40])
    assert len(loss) == 100
    assert p.sum() == pytest.approx(1, rel=1e-12)
    assert (p * np.exp(-loss)).sum() == pytest.approx(1, rel=1e-9)


def test_the_mean_is_over_the_numbers_of_reports():
    counts, chances = np.array([0, 2, 5]), np.array([0.5, 0.25, 0.25])
    one = np.array([3]), np.array([1.0])
    expected = sum(c * composed_success_bound([1.0, 0.5], [n, 3], 0.5) for n, c in zip(counts, chances, strict=True))
    found = mean_composed_bound([1.0, 0.5], [(counts, chances), one], 0.5)
    assert found == pytest.approx(expected, rel=1e-12)
    many = np.arange(101), np.full(101, 1 / 101)
    assert mean_composed_bound([1.0, 0.5], [many, one], 0.5) >= sum(
        composed_success_bound([1.0, 0.5], [n, 3], 0.5) / 101 for n in range(101)
    )


def test_infinite_and_wrong_epsilons():
    assert composed_success_bound([math.inf, 1.0], [1, 1], 0.5) == pytest.approx(1)
    with pytest.raises(InputError, match="for each epsilon"):
        composed_success_bound([1.0], [1, 2], 0.5)
    with pytest.raises(InputError, match="at least 0"):
        composed_success_bound([-1.0], [1], 0.5)
