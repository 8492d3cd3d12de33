"""The attack that goes with a device, and the posterior from its reports."""

from dataclasses import replace

import numpy as np
import pytest
from cases.memoized import STRONG, traces_of

from poolscope.core.errors import InputError
from poolscope.inference.adversary import Adversary, report_likelihoods, stacked_pool_weights
from poolscope.inference.attack import attack_for, posterior
from poolscope.inference.independent import IndependentReportsAttack
from poolscope.inference.memoized.attack import MemoizedReportsAttack
from poolscope.mechanisms import CMS, Fresh, Memoized, MemoizedRappor, Rappor, reports_of

NAIVE = replace(STRONG, name="naive", knows_memoization=False)
CMS = CMS(universe=60, epsilon=3.0, m=32, hashes=100)
RAPPOR = Rappor(universe=60, m=32, hashes=2, cohorts=4, f=0.25, p=0.1, q=0.9)
KEPT = [Memoized(CMS), MemoizedRappor(RAPPOR)]


def cut(reports, lengths):
    """The reports of each user."""
    ends = np.cumsum(lengths)
    for start, end in zip(ends - lengths, ends, strict=True):
        yield {name: column[start:end] for name, column in reports.items()}


@pytest.mark.parametrize(
    ("device", "kind"),
    [
        (Fresh(CMS), IndependentReportsAttack),
        (Memoized(CMS), MemoizedReportsAttack),
        (MemoizedRappor(RAPPOR), MemoizedReportsAttack),
    ],
)
def test_every_device_has_its_attack(device, kind):
    assert isinstance(attack_for(device), kind)


def test_others_are_refused():
    with pytest.raises(InputError, match=r"must be a device, which has mechanism, memoizes, send, got 'CMS'"):
        attack_for(CMS)


def test_a_mechanism_stands_for_fresh_reports():
    keys, _, traces = traces_of(6, 12)
    reports, lengths = reports_of(Fresh(CMS), traces, keys), np.full(6, 12)
    found = posterior(CMS, reports, STRONG, lengths=lengths)
    assert found.shape == (6, 13, 3)
    np.testing.assert_array_equal(posterior(Fresh(CMS), reports, STRONG, lengths=lengths), found)


@pytest.mark.parametrize("device", KEPT)
def test_to_one_who_does_not_know_every_report_stands_alone(device):
    keys, _, traces = traces_of(2, 12)
    reports, lengths = reports_of(device, traces, keys), np.full(2, 12)
    naive = posterior(device, reports, NAIVE, lengths=lengths)
    np.testing.assert_array_equal(naive, posterior(device.mechanism, reports, STRONG, lengths=lengths))
    grouped = posterior(device, reports, STRONG, lengths=lengths, observations=[12])
    assert np.abs(naive[:, 12:] - grouped).max() > 0.01


@pytest.mark.parametrize("device", [Fresh(CMS), *KEPT])
@pytest.mark.parametrize("adversary", [STRONG, NAIVE], ids=["strong", "naive"])
def test_a_row_for_each_report_count(device, adversary):
    """In any order, for users of different lengths; a row is the attack on so many of the user's reports alone."""
    keys, _, traces = traces_of(3, 6)
    lengths = np.array([6, 0, 3])
    reports = reports_of(device, traces, keys)
    kept = (np.arange(6) < lengths[:, None]).ravel()
    reports = {name: column[kept] for name, column in reports.items()}
    every = posterior(device, reports, adversary, lengths=lengths)
    assert every.shape == (3, 7, 3)
    counts = [4, 2, 20, 0]
    some = posterior(device, reports, adversary, lengths=lengths, observations=counts)
    np.testing.assert_array_equal(some, every[:, [4, 2, 6, 0]])
    np.testing.assert_array_equal(every[:, 0], np.full((3, 3), 1 / 3))
    for user, own in enumerate(cut(reports, lengths)):
        for row, count in enumerate(counts):
            first = {name: column[:count] for name, column in own.items()}
            alone = posterior(device, first, adversary)
            assert alone.shape == (min(count, lengths[user]) + 1, 3)
            np.testing.assert_array_equal(some[user, row], alone[-1])


@pytest.mark.parametrize("device", [CMS, Memoized(CMS)])
def test_bad_counts(device):
    reports = {name: column[:2] for name, column in reports_of(Fresh(CMS), *traces_of(1, 3)[::-2]).items()}
    with pytest.raises(InputError, match="each of observations must be an integer of at least 0, got -1"):
        posterior(device, reports, STRONG, observations=[3, -1])
    with pytest.raises(InputError, match="lengths must add up to the 2 reports, got 3"):
        posterior(device, reports, STRONG, lengths=np.array([3]))


def test_adversaries_side_by_side_have_their_own_columns():
    weak = Adversary.weak(STRONG.universe)
    keys, _, traces = traces_of(3, 5)
    reports = reports_of(Fresh(CMS), traces, keys)
    together, columns = stacked_pool_weights([STRONG, weak])
    both = CMS.mass(reports, together)
    for adversary, own in zip((STRONG, weak), columns, strict=True):
        alone, _ = stacked_pool_weights([adversary])
        np.testing.assert_allclose(both[:, own], CMS.mass(reports, alone), rtol=1e-12)
    assert not np.allclose(both[:, columns[0]], both[:, columns[1]])


def test_a_pool_without_popularity_is_uniform():
    """An estimate may be zero for every object of a pool."""
    universe = STRONG.universe
    first = universe.pool_of == 0
    unseen = replace(STRONG, popularity=np.where(first, 0.0, STRONG.popularity))
    weights, _ = stacked_pool_weights([unseen])
    np.testing.assert_allclose(weights.weights[0, first], 1 / first.sum())
    known, _ = stacked_pool_weights([STRONG])
    np.testing.assert_allclose(weights.weights[0, ~first], known.weights[0, ~first])


def test_no_preferred_pool_has_the_likelihood_of_neutral_objects():
    mass = np.linspace(0.1, 0.4, STRONG.k + 1)[None]
    unsure = replace(STRONG, belief=replace(STRONG.belief, none=0.3))
    for adversary, columns in ((STRONG, mass[:, 1:]), (unsure, np.append(mass[:, 1:], mass[:, :1], axis=1))):
        own, likelihood = report_likelihoods(CMS, adversary, mass)
        np.testing.assert_array_equal(own, columns)
        np.testing.assert_allclose(likelihood, CMS.likelihood_offset + CMS.likelihood_scale * columns)
