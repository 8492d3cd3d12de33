"""The game of tuples, against posteriors from likelihoods of whole tuples, and against its definition."""

import pickle
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from cases.calibrated import calibration_p
from cases.synthetic import SEED
from cases.tuples import DOMAIN, EMOJI, OPTIONS, WORD, scenario

from poolscope.core.executors import Local
from poolscope.devices.protocols import fresh_keys
from poolscope.game.collections import draw_persons
from poolscope.game.joint_block import play_joint_block
from poolscope.inference.joint import normalized
from poolscope.mechanisms import attribute_frequencies
from poolscope.population.popularity import within_pools
from poolscope.reports.multidimensional import AttributeOracle
from poolscope.scenario.collections import game_of

KINDS = [(kind, options) for kind, options in OPTIONS.items()]
HIDING = [("rs+fd", {}), ("rs+fd", {"randomizer": "oue"}), ("rs+rfd", OPTIONS["rs+rfd"])]
BOTH = [
    {"name": "strong", "popularity": "true"},
    {"name": "weak", "popularity": "uniform", "prior": {"pools": {"left": 2, "right": 1}}, "links": {"emoji": 0.9}},
]


def rows_of(outcomes, collection, adversary="strong"):
    return outcomes.filter((pl.col("collection") == collection) & (pl.col("adversary") == adversary)).sort("n", "user")


def values_by_state(adversary, nodes):
    """(states, values) the distribution of values for each pool and node, pool by pool, and (states,) weights."""
    universe, belief = adversary.universe, adversary.belief
    x, _, w = belief.polarization.rule(nodes)
    g, _, v = belief.interest.rule(nodes) if universe.neutral_size else (np.ones(1), None, np.ones(1))
    inside = within_pools(universe, adversary.popularity, empty="uniform")
    found, weights = [], []
    for pool in range(universe.k):
        for interest, a in zip(g, v, strict=True):
            for u, b in zip(x, w, strict=True):
                delta = 1 / universe.k + (1 - 1 / universe.k) * u
                shares = np.full(universe.k + 1, interest * (1 - delta) / (universe.k - 1))
                shares[pool], shares[-1] = interest * delta, 1 - interest
                found.append(shares[universe.pool_of] * inside)
                weights.append(a * b)
    return np.array(found), np.array(weights)


def recomputed(game, persons, a, used):
    """Joint posteriors (users, days + 1, values) from log Pr[report | tuple] of the reports, summed over states."""
    mechanism, name = game.tuples, game.adversaries[a].name
    links, prior = game.links(name), game.belief(name)
    parts = [values_by_state(one.game.adversaries[a], 8) for one in game.collections]
    pools = [
        np.repeat(np.arange(link.shape[1]), len(own) // link.shape[1])
        for link, (own, _) in zip(links, parts, strict=True)
    ]
    sent, out = persons.sent[0], []
    for user, size in enumerate(sent.lengths):
        keys = fresh_keys(persons.keys[user], sent.event_index[user, :size])
        values = np.stack([own.objects[user, :size] for own in persons.sent], axis=1)
        likelihood = np.exp(mechanism.log_likelihood(mechanism.report(values, keys)).reshape(size, *mechanism.sizes))
        state = np.outer(parts[0][1], parts[1][1])
        daily = []
        for day in range(game.horizon + 1):
            scores = []
            for value in range(len(prior)):
                weights = [link[value] if one else prior @ link for link, one in zip(links, used, strict=True)]
                grid = np.outer(weights[0][pools[0]], weights[1][pools[1]])
                scores.append(prior[value] * (grid * state).sum())
            daily.append(normalized(np.log(scores), prior))
            count = int(
                (sent.event_index[user, :size] < np.floor((day + 1) * game.policy.reports_per_day + 1e-9)).sum()
            )
            done = int((sent.event_index[user, :size] < np.floor(day * game.policy.reports_per_day + 1e-9)).sum())
            for t in range(done, count):
                state = state * (parts[0][0] @ likelihood[t] @ parts[1][0].T)
        out.append(daily)
    return np.array(out)


@pytest.mark.default_cases("rs+rfd-options2")
@pytest.mark.parametrize(("kind", "options"), HIDING)
def test_outcomes_are_those_of_the_reports(kind, options):
    limited = {"reports_per_day": 1.5, "sampling_rate": 0.8, "cap": 9}
    game = game_of(scenario(kind, options=options, adversary=BOTH, devices=limited), 3)
    outcomes, persons = play_joint_block(game, range(6), 3), draw_persons(game, range(6), 3, Local(threads=1))
    for a, adversary in enumerate(("strong", "weak")):
        for subset, used in game.subsets.items():
            expected, rows = recomputed(game, persons, a, used), rows_of(outcomes, subset, adversary)
            for n in game.observations:
                own = rows.filter(pl.col("n") == n)
                np.testing.assert_allclose(own["confidence"], expected[:, n].max(axis=1), rtol=1e-6)
                of_truth = expected[np.arange(6), n, persons.attribute]
                np.testing.assert_allclose(own["posterior_true"], of_truth, rtol=1e-6)
            top = expected.max(axis=2)
            first = [next((day for day in range(game.horizon + 1) if top[u, day] >= 0.5), None) for u in range(6)]
            assert own["exposed_at_50"].to_list() == first


@pytest.mark.default_cases("spl-options0", "rs+rfd-options3")
@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_outcomes_do_not_depend_on_blocks_or_threads(kind, options):
    estimated = [{"name": "strong", "popularity": "estimated", "estimate_from": 1000}]
    game = game_of(scenario(kind, options=options, adversary=estimated), 6)
    whole = play_joint_block(game, range(10), 6)
    halves = [play_joint_block(game, some, 6, engine=Local(threads=2)) for some in (range(4), range(4, 10))]
    order = ["collection", "adversary", "n", "user"]
    assert pl.concat(halves).sort(order).equals(whole.sort(order))
    assert ("sampled_correct" in whole.columns) == kind.startswith("rs+")


@pytest.mark.parametrize(("kind", "options"), HIDING[1:])
def test_a_game_can_be_sent_to_workers_and_knows_its_memory(kind, options):
    game = game_of(scenario(kind, options=options), 2)
    again = pickle.loads(pickle.dumps(game))
    assert play_joint_block(again, range(5), 2).equals(play_joint_block(game, range(5), 2))
    assert game.bytes_a_user - replace(game, tuples=None).bytes_a_user == 8 * 2


def test_smp_sends_each_event_of_one_collection():
    limited = {"sampling_rate": 0.7, "cap": 6}
    game = game_of(scenario("smp", EMOJI, DOMAIN, WORD, devices=limited, attack={"observations": [12]}), 2)
    persons = draw_persons(game, range(200), 2, Local(threads=1))
    counts = np.zeros((200, 12), dtype=int)
    for own in persons.sent:
        for user, size in enumerate(own.lengths):
            counts[user, own.event_index[user, :size]] += 1
            assert np.all(np.diff(own.event_index[user, :size]) > 0)
    assert counts.max() == 1
    assert counts.sum(axis=1).max() == 6
    # all of them are drawn: of 12 events 8.4 are reported, of which 6 are sent
    assert 5.8 < counts.sum(axis=1).mean() <= 6
    assert min(own.lengths.sum() for own in persons.sent) > 0.28 * counts.sum()
    for own, one in zip(persons.sent, game.collections, strict=True):
        np.testing.assert_array_equal(one.reports_by(own, np.array([12]))[:, 0], own.lengths)


def test_spl_is_the_game_of_collections_with_a_part_of_epsilon():
    from cases import collections

    tuples = scenario("spl", options={"epsilon": 5.0})
    split = [{**one, "mechanism": {"kind": "grr", "epsilon": 2.5}} for one in (EMOJI, DOMAIN)]
    several = collections.scenario(*split, attack={"observations": [3, 8]})
    one, other = (play_joint_block(game_of(some, 4), range(20), 4) for some in (tuples, several))
    assert one.equals(other)


def test_links_of_chance_make_tuples_worthless():
    found = play_joint_block(
        game_of(scenario("rs+fd", {**EMOJI, "link": 0.5}, {**DOMAIN, "link": 0.5}), 1), range(10), 1
    )
    np.testing.assert_allclose(rows_of(found, "joint")["confidence"], 0.5, rtol=1e-12)
    # the control: with a link they say something
    known = play_joint_block(game_of(scenario("rs+fd", EMOJI, DOMAIN), 1), range(10), 1)
    assert rows_of(known, "joint")["confidence"].max() > 0.6


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("kind", "options"),
    [*HIDING, ("rs+fd", {"randomizer": "sue", "fake": "random"}), ("rs+rfd", {"priors": "popularity"}), ("smp", {})],
)
def test_estimates_are_simulated_as_reports_are(kind, options):
    """Simulated tallies against those of reports: means within four standard errors, and other fakes are noticed."""
    game = game_of(scenario(kind, options=options), 1)
    mechanism, rng, count, times = game.tuples, np.random.default_rng(SEED), 400, 150
    popularity = game.collections[0].game.popularity
    oracle = AttributeOracle(mechanism, "emoji")
    keys = rng.integers(0, 2**63, size=times).astype(np.uint64)
    simulated = np.array([oracle.simulate_tally(popularity, count, key)[0] for key in keys])
    counted = []
    for _ in range(times):
        values = np.stack([rng.choice(8, count, p=popularity), rng.integers(0, 5, count)], axis=1)
        reports = mechanism.obfuscate(values, rng)
        counted.append(
            oracle.tally(reports)[0] if kind != "smp" else attribute_frequencies(mechanism, reports)["emoji"].counts
        )
    if kind == "smp":
        rates = oracle.rates
        simulated = (simulated - count * rates.q_star) / (rates.p_star - rates.q_star) / 2
    one, other = simulated, np.array(counted)
    error = np.sqrt((one.var(axis=0) + other.var(axis=0)) / times)
    assert np.all(np.abs(one.mean(axis=0) - other.mean(axis=0)) < 4.5 * error)
    wrong = np.array([oracle.simulate_tally(popularity[::-1], count, key)[0] for key in keys])
    if kind != "smp":
        assert np.any(np.abs(wrong.mean(axis=0) - other.mean(axis=0)) > 4.5 * error), "the control"
        np.testing.assert_allclose(one.var(axis=0), other.var(axis=0), rtol=0.75)


#: Chance that any of the calibrated posteriors is rejected.
ERROR = 1e-3


@pytest.mark.slow
@pytest.mark.statistical
def test_joint_posteriors_are_calibrated_and_a_wrong_link_is_not():
    believers = [
        {"name": "strong", "popularity": "true"},
        {"name": "wrong", "popularity": "true", "links": {"emoji": 1.0, "domain": 1.0}},
    ]
    linked = {**EMOJI, "link": 0.65}, {**DOMAIN, "link": 0.7}
    game = game_of(scenario("rs+fd", *linked, options={"epsilon": 7.0}, adversary=believers), SEED)
    game = replace(game, non_private=False, observations=[8])
    outcomes = play_joint_block(game, range(6000), SEED, engine=Local())

    def p_of(adversary):
        rows = rows_of(outcomes, "joint", adversary)
        own = rows["posterior_true"].to_numpy()
        truth = (rows["pool"] == "right").to_numpy().astype(int)
        found = np.stack([np.where(truth == 0, own, 1 - own), np.where(truth == 1, own, 1 - own)], axis=1)
        return calibration_p(truth, found, SEED)

    assert p_of("strong") > ERROR
    assert p_of("wrong") < ERROR
