"""How much windows prove that they are one device's: one or less in the mean over two devices'."""

from itertools import product

import numpy as np
import pytest
from cases.selection import mostly, slow
from cases.synthetic import SEED

from poolscope.core.errors import InputError
from poolscope.core.randomness import user_keys
from poolscope.inference import link_e_values
from poolscope.inference.adversary import Adversary
from poolscope.inference.link_e_values import WindowPairs, join_windows, pairs_above_e_value, select_links
from poolscope.inference.link_scores import link_scores, log_ratios, mean_popularity
from poolscope.mechanisms import device_of, make, reports_of
from poolscope.population.popularity import zipf
from poolscope.population.universe import Universe

TINY = Universe.sized(4, {"a": 2, "b": 2})
SMALL = Adversary(name="small", universe=TINY, popularity=zipf(TINY, 1.0))
CROWD = Universe.sized(40, {"a": 10, "b": 10})
KNOWN = Adversary(name="known", universe=CROWD, popularity=zipf(CROWD, 1.2))
IDENTICAL = {
    "grr": ({"epsilon": 2.0}, lambda: {"value": np.arange(4)}),
    "sue": ({"epsilon": 3.0}, lambda: {"bits": np.arange(16, dtype=np.uint8)[:, None]}),
    "hcms": (
        {"epsilon": 2.0, "m": 2, "hashes": 2},
        lambda: {
            "hash": np.repeat([0, 1], 4).astype(np.int32),
            "coordinate": np.tile([0, 0, 1, 1], 2).astype(np.int32),
            "bit": np.tile([1, -1], 4).astype(np.int8),
        },
    ),
}


@pytest.mark.parametrize("kind", mostly(slow, IDENTICAL, "grr"))
def test_two_devices_have_one_in_the_mean_at_most_whatever_they_pick(kind):
    """Of every window of one device, and every trace of three objects of the other: the sum over all its answers."""
    parameters, every = IDENTICAL[kind]
    device, reports = device_of(make(kind, 4, parameters), memoize=True), every()
    rows = len(next(iter(reports.values())))
    distribution = np.exp(
        device.mechanism.log_likelihood(reports) + device.mechanism.log_base_measure(reports)[:, None]
    )
    rng, most = np.random.default_rng(SEED), 0.0
    for trace in [(0, 0, 0), (0, 0, 1), (0, 1, 2), (3, 1, 0)]:
        first = rng.integers(rows, size=3)
        picked, which = np.unique(trace, return_inverse=True)
        mean = 0.0
        for answers in product(range(rows), repeat=len(picked)):
            both = np.concatenate([first, np.array(answers)[which]])
            window = {name: column[both] for name, column in reports.items()}
            found = pairs_above_e_value(device, window, np.array([3, 3]), SMALL, -np.inf)
            chance = np.prod([distribution[answer, z] for answer, z in zip(answers, picked, strict=True)])
            mean += chance * np.exp(found.log_e_value).sum()
            most = max(most, float(np.exp(found.log_e_value).sum()))
        assert mean <= 1 + 1e-12, trace
    assert most > 1


@pytest.mark.parametrize("kind", ["l-grr", "l-sue"])
def test_with_noise_it_is_the_mean_ratio(kind):
    """Which is one in the mean over reports of two devices, as ratios are exact (`test_link_scores`)."""
    device = device_of(make(kind, CROWD.size, {"epsilon": 3.0}))
    traces = np.random.default_rng(SEED).integers(CROWD.size, size=(3, 4))
    reports, sizes = reports_of(device, traces, user_keys(SEED, np.arange(3))), np.array([4, 4, 4])
    found = pairs_above_e_value(device, reports, sizes, KNOWN, -np.inf)
    assert found.first.tolist() == [0, 0, 1]
    assert found.second.tolist() == [1, 2, 2]
    evidence = device.likelihood(reports)
    weight = np.bincount(evidence.slots, weights=mean_popularity(KNOWN))
    twice = device.likelihood({name: np.concatenate([x, x]) for name, x in reports.items()})
    ratios = np.exp(log_ratios(twice.distribution, weight, 12)).reshape(3, 4, 3, 4).mean(axis=(1, 3))
    assert np.exp(found.log_e_value) == pytest.approx(ratios[found.first, found.second])


def test_what_a_device_keeps_beside_counts_as_often_as_it_is_rare():
    device = device_of(make("loloha", CROWD.size, {"epsilon": 1.0, "seed_bits": 20}))
    traces = np.random.default_rng(SEED).integers(CROWD.size, size=(6, 8))
    reports = reports_of(device, traces, np.repeat(user_keys(SEED, np.arange(3)), 2))
    found = pairs_above_e_value(device, reports, np.full(6, 8), KNOWN, -np.inf)
    assert list(zip(found.first.tolist(), found.second.tolist(), strict=True)) == [(0, 1), (2, 3), (4, 5)]
    assert found.log_e_value == pytest.approx(20 * np.log(2), abs=3)


def everybody(kind, parameters, users, seed):
    """One window of each of some devices, and the first links of pairs by evidence, and by scores taken for it."""
    device = device_of(make(kind, CROWD.size, parameters), memoize=True)
    rng = np.random.default_rng(seed)
    popularity = mean_popularity(KNOWN)
    traces = rng.choice(CROWD.size, size=(users, 8), p=popularity)
    # habits: half of what anyone picks is one object
    traces[:, ::2] = traces[:, :1]
    reports, sizes = reports_of(device, traces, user_keys(seed, np.arange(users))), np.full(users, 8)
    pairs = np.triu_indices(users, 1)
    scores = link_scores(device, reports, reports, KNOWN, (sizes, sizes))[pairs]
    return pairs_above_e_value(device, reports, sizes, KNOWN, 0.0), WindowPairs(*pairs, scores)


@pytest.mark.default_cases("cms-parameters0-40")
@pytest.mark.parametrize(
    ("kind", "parameters", "files"),
    [
        ("cms", {"epsilon": 1.0, "m": 4, "hashes": 4}, 40),
        ("grr", {"epsilon": 1.0}, 100),
        ("grr", {"epsilon": 4.0}, 100),
        ("cms", {"epsilon": 1.0, "m": 4, "hashes": 4}, 100),
        ("sue", {"epsilon": 6.0}, 100),
        ("l-grr", {"epsilon": 2.0}, 100),
        ("dbitflip", {"epsilon": 2.0, "buckets": 8, "d": 8}, 100),
    ],
)
def test_where_nobody_has_two_windows_links_are_as_rare_as_they_may_be(kind, parameters, files):
    """Then all links are wrong, and there may be any in so many files at most."""
    rate, users = 0.2, 12
    wrong, scored = 0, 0
    for seed in range(files):
        evidence, scores = everybody(kind, parameters, users, SEED + seed)
        wrong += len(select_links(evidence, users, rate).first) > 0
        scored += len(select_links(scores, users, rate).first) > 0
    bound = files * rate + 4 * np.sqrt(files * rate * (1 - rate))
    assert wrong <= bound
    if kind in ("cms", "sue"):
        # a score that is taken for evidence links what is not one device's
        assert scored > bound


def test_links_are_as_many_as_the_rate_allows():
    """By hand: of ten windows there are 45 pairs; k links need evidence of 45 / (rate k)."""
    log = np.log([900.0, 450.0, 299.0, 120.0])
    pairs = WindowPairs(np.array([0, 2, 4, 6]), np.array([1, 3, 5, 7]), log)
    assert select_links(pairs, 10, 0.05).first.tolist() == [0, 2]
    assert select_links(pairs, 10, 0.06).first.tolist() == [0, 2, 4]
    assert select_links(pairs, 10, 0.1).first.tolist() == [0, 2, 4, 6]
    assert select_links(pairs.some(np.array([3])), 10, 0.1).first.tolist() == []


def test_links_add_up_unless_two_names_are_used_at_once():
    links = WindowPairs(np.array([0, 1, 3]), np.array([1, 2, 4]), np.array([20.0, 20.0, 30.0]))
    first, last = np.array([0, 4, 8, 1, 6, 12]), np.array([3, 7, 11, 7, 9, 13])
    made = join_windows(links, first, last)
    assert made.device.tolist() == [0, 0, 0, 3, 4, 5]
    assert made.refused.tolist() == [False, False, False, True, True, False]
    assert made.links.first.tolist() == [0, 1]


def test_too_many_pairs_are_refused(monkeypatch):
    device = device_of(make("grr", CROWD.size, {"epsilon": 8.0}), memoize=True)
    reports = reports_of(device, np.zeros((30, 4), dtype=np.int64), user_keys(SEED, np.arange(30)))
    monkeypatch.setattr(link_e_values, "MAX_PAIRS", 100)
    rule = "must have at most 100 responses that two pseudonyms have in common, got .*; take some of the users"
    with pytest.raises(InputError, match=rule):
        pairs_above_e_value(device, reports, np.full(30, 4), KNOWN, 0.0)
    noisy = device_of(make("l-grr", CROWD.size, {"epsilon": 3.0}))
    monkeypatch.setattr(link_e_values, "MAX_REPORTS", 100)
    with pytest.raises(InputError, match="must have at most 100 noisy reports of memoized responses"):
        pairs_above_e_value(noisy, reports, np.full(30, 4), KNOWN, 0.0)
