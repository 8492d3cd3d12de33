"""Likelihoods of some objects are those of all, found without the others."""

import numpy as np
import pytest
from cases.synthetic import SEED

from poolscope.mechanisms import make
from poolscope.workflows.check.distribution import likelihoods, support_shares

SKETCHES = {
    "cms": ("cms", {"epsilon": 2.0, "m": 16, "hashes": 8}),
    "hcms": ("hcms", {"epsilon": 2.0, "m": 16, "hashes": 8}),
    "a table": ("cms", {"epsilon": 2.0, "m": 16, "hash_table": np.random.default_rng(1).integers(16, size=(5, 40))}),
    "without hashing": ("cms-no-hash", {"epsilon": 2.0}),
}


@pytest.mark.parametrize("name", list(SKETCHES))
def test_likelihoods_of_a_sketch_need_no_other_objects(name):
    kind, parameters = SKETCHES[name]
    mechanism, objects = make(kind, 40, parameters), [31, 0, 7]
    reports = mechanism.obfuscate(np.arange(200) % 40, np.random.default_rng(SEED))
    np.testing.assert_array_equal(likelihoods(mechanism, reports, objects), mechanism.likelihood(reports)[:, objects])
    assert mechanism.restricted(objects).support(reports).shape == (200, 3)


@pytest.mark.parametrize("off", [0.0, 0.2])
def test_the_share_of_other_objects_lies_between_the_extremes(off):
    """q* is a mean over pairs: it may lie anywhere between the shares of pairs, and nowhere else."""
    mechanism = make("oue", 30, {"epsilon": 1.0})
    trials, q = 20_000, mechanism.q_star + off
    counts = np.random.default_rng(SEED).binomial(trials, q, size=(3, 30))
    counts[range(3), [0, 1, 29]] = round(trials * mechanism.p_star)
    share = support_shares(mechanism, [0, 1, 29], [trials] * 3, counts)[1]
    assert (share.name, share.passed) == ("q*", off == 0.0)
    assert share.low < q < share.high
    assert share.high < mechanism.p_star, "the objects' own counts are left out"
