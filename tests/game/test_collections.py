"""The game of several collections, against a recomputation from its own reports, and against its definition."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from cases.calibrated import calibration_p
from cases.collections import DOMAINS, EMOJIS, WORDS, scenario
from cases.selection import mostly, statistical
from cases.synthetic import SEED

from poolscope.core.executors import Local
from poolscope.game.collections import draw_persons, events_by
from poolscope.game.joint_block import play_joint_block
from poolscope.inference.attack import posterior
from poolscope.inference.joint import joint_posterior
from poolscope.scenario.collections import build_joint_game

LIMITED = {**EMOJIS, "devices": {"reports_per_day": 1.5, "sampling_rate": 0.6, "cap": 12}}
ROTATED = {**DOMAINS, "devices": {"reports_per_day": 2, "rotate_after": 7}}
MEMOIZED = {**DOMAINS, "mechanism": {"kind": "grr", "epsilon": 2.0}, "devices": {"memoize": True}}


def played(found, users=20, seed=1):
    return play_joint_block(build_joint_game(found, seed), range(users), seed)


def rows_of(outcomes, collection, adversary="strong"):
    return outcomes.filter((pl.col("collection") == collection) & (pl.col("adversary") == adversary)).sort("n", "user")


def daily_evidence(game, persons, adversary):
    """Of each collection, the posteriors (users, days + 1, pools) from the reports that the devices send."""
    days, daily = np.arange(game.horizon + 1), []
    for c, one in enumerate(game.collections):
        sent = persons.sent[c]
        reports = sent.reports(one.game.device, persons.collection_keys[c])
        starts, own = np.cumsum(sent.lengths) - sent.lengths, []
        for user, (start, size) in enumerate(zip(starts, sent.lengths, strict=True)):
            events = np.floor(days * one.events_per_day + 1e-9)
            count = np.array([(sent.event_index[user, :size] < n).sum() for n in events])
            mine = {name: column[start : start + size] for name, column in reports.items()}
            own.append(posterior(one.game.device, mine, one.game.adversaries[adversary], observations=count.tolist()))
        daily.append(np.stack(own))
    return daily


def recomputed(game, daily, adversary, used):
    """Daily joint posteriors (users, days + 1, values), user by user."""
    name = game.adversaries[adversary].name
    links = [game.links(name)[c] for c in np.flatnonzero(used)]
    return joint_posterior([daily[c] for c in np.flatnonzero(used)], links, game.belief(name))


@pytest.mark.parametrize("second", [DOMAINS, WORDS], ids=["by name", "by a matrix"])
def test_outcomes_are_those_of_the_reports(second):
    priors = {"pools": {"left": 2, "right": 1}}
    adversaries = [{"name": "strong", "popularity": "true"}, {"name": "weak", "popularity": "uniform", "prior": priors}]
    game = build_joint_game(scenario(LIMITED, second, adversary=adversaries, users={"behavior": priors}), 3)
    outcomes, persons = play_joint_block(game, range(10), 3), draw_persons(game, range(10), 3, Local(threads=1))
    for a, adversary in enumerate(("strong", "weak")):
        daily = daily_evidence(game, persons, a)
        for subset, used in game.subsets.items():
            expected = recomputed(game, daily, a, used)
            rows = rows_of(outcomes, subset, adversary)
            truth = np.array(game.values)[persons.attribute]
            for n in game.observations:
                own = rows.filter(pl.col("n") == n)
                assert own["pool"].to_list() == truth.tolist()
                np.testing.assert_allclose(own["confidence"], expected[:, n].max(axis=1), rtol=1e-9)
                of_truth = expected[np.arange(10), n, persons.attribute]
                np.testing.assert_allclose(own["posterior_true"], of_truth, rtol=1e-9)
                np.testing.assert_allclose(
                    own["log_odds_true"], np.log(of_truth / (1 - of_truth)), rtol=1e-6, atol=1e-9
                )
            top = expected.max(axis=2)
            first = [next((day for day in range(game.horizon + 1) if top[u, day] >= 0.5), None) for u in range(10)]
            assert own["exposed_at_50"].to_list() == first


def test_memoized_responses_count_at_the_days_of_guesses():
    game = build_joint_game(scenario(EMOJIS, MEMOIZED, attack={"observations": [2, 4]}), 4)
    outcomes, persons = play_joint_block(game, range(2), 4), draw_persons(game, range(2), 4, Local(threads=1))
    assert "confidence_mcse" in outcomes.columns
    daily = daily_evidence(game, persons, 0)
    for subset, used in game.subsets.items():
        expected = recomputed(game, daily, 0, used)
        for n in game.observations:
            own = rows_of(outcomes, subset).filter(pl.col("n") == n)
            np.testing.assert_allclose(own["confidence"], expected[:, n].max(axis=1), rtol=1e-9)
    alone = rows_of(outcomes, "emojis")
    assert (alone["confidence_mcse"] == 0).all()
    assert (alone["exposed_at_50"] == alone["exposed_at_50_plus_mcse"]).fill_null(True).all()


def test_a_rotating_pseudonym_limits_what_counts():
    game = build_joint_game(scenario(EMOJIS, ROTATED), 5)
    outcomes = play_joint_block(game, range(20), 5)
    # after 3 days 6 reports; after 10 and 20 days the newest full pseudonym of 7
    persons = draw_persons(game, range(20), 5, Local(threads=1))
    one, sent = game.collections[1], persons.sent[1]
    reports = sent.reports(one.game.device, persons.collection_keys[1])
    for n, (begin, end) in {3: (0, 6), 10: (7, 14), 20: (28, 35)}.items():
        own = rows_of(outcomes, "domains").filter(pl.col("n") == n)
        for user in range(20):
            start = 40 * user
            mine = {name: column[start + begin : start + end] for name, column in reports.items()}
            expected = posterior(one.game.device, mine, one.game.adversaries[0], observations=[end - begin])[0]
            assert own["confidence"][user] == pytest.approx(expected.max(), rel=1e-9)


def test_another_collection_changes_no_draws():
    one, two, three = (
        played(scenario(*some, adversary=[{"name": "strong", "popularity": "estimated", "estimate_from": 5000}]))
        for some in ((EMOJIS,), (EMOJIS, DOMAINS), (EMOJIS, DOMAINS, WORDS))
    )
    own = rows_of(one, "emojis").drop("collection")
    assert rows_of(two, "emojis").drop("collection").equals(own)
    assert rows_of(three, "emojis").drop("collection").equals(own)
    assert rows_of(three, "domains").drop("collection").equals(rows_of(two, "domains").drop("collection"))
    assert not rows_of(two, "joint").drop("collection").equals(own)
    assert two["collection"].unique().sort().to_list() == [
        "joint",
        "emojis",
        "domains",
        "without emojis",
        "without domains",
    ]
    assert rows_of(two, "without domains").drop("collection").equals(own)


def test_outcomes_do_not_depend_on_blocks_or_threads():
    game = build_joint_game(scenario(LIMITED, DOMAINS, WORDS), 6)
    whole = play_joint_block(game, range(30), 6)
    halves = [play_joint_block(game, some, 6, engine=Local(threads=2)) for some in (range(13), range(13, 30))]
    order = ["collection", "adversary", "n", "user"]
    assert pl.concat(halves).sort(order).equals(whole.sort(order))


def test_a_link_of_chance_makes_a_collection_worthless():
    found = played(scenario({**EMOJIS, "link": 0.5}, DOMAINS), users=200)
    assert rows_of(found, "emojis")["confidence"].to_numpy() == pytest.approx(0.5)
    joint, domains = (rows_of(found, name) for name in ("joint", "domains"))
    np.testing.assert_allclose(joint["posterior_true"], domains["posterior_true"], rtol=1e-12)
    # the control: with a link it says something
    known = played(scenario(EMOJIS, DOMAINS), users=200)
    assert rows_of(known, "emojis")["confidence"].max() > 0.7


def test_by_name_with_uniform_priors_the_log_odds_of_collections_add_up():
    """The joint posterior is the normalized product of single ones: of two values, their odds multiply."""
    by_name = [{**EMOJIS, "link": 1.0}, DOMAINS]
    found = played(scenario(*by_name), users=60)
    joint, *alone = (rows_of(found, name) for name in ("joint", "emojis", "domains"))
    product = [np.stack([rows["posterior_true"], 1 - rows["posterior_true"]]) for rows in alone]
    expected = product[0] * product[1] / (product[0] * product[1]).sum(axis=0)
    np.testing.assert_allclose(joint["posterior_true"], expected[0], rtol=0, atol=1e-12)
    odds = sum(rows["log_odds_true"].to_numpy() for rows in alone)
    np.testing.assert_allclose(joint["log_odds_true"], odds, rtol=1e-12, atol=1e-12)
    # the control: another prior would count twice
    leaning = [{"name": "strong", "popularity": "true", "prior": {"pools": {"left": 2, "right": 1}}}]
    other = played(scenario(*by_name, adversary=leaning), users=60)
    joint, *alone = (rows_of(other, name)["log_odds_true"].to_numpy() for name in ("joint", "emojis", "domains"))
    np.testing.assert_allclose(np.abs(joint - sum(alone)), np.log(2), rtol=1e-6)


@pytest.mark.statistical
def test_pools_are_drawn_from_the_link():
    game = build_joint_game(scenario(WORDS, users={"behavior": {"pools": {"left": 3, "right": 1}}}), SEED)
    persons, users = draw_persons(game, range(20_000), SEED, Local(threads=1)), 20_000
    assert abs(persons.attribute.mean() - 0.25) < 4 * (0.25 * 0.75 / users) ** 0.5
    for value, row in enumerate(WORDS["link"]):
        own = persons.pools[0][persons.attribute == value]
        for pool, p in enumerate(row):
            assert abs((own == pool).mean() - p) < 4 * (p * (1 - p) / len(own)) ** 0.5
    other = persons.pools[0][persons.attribute == 1]
    assert abs((other == 0).mean() - WORDS["link"][0][0]) > 0.3, "the control: another row is noticed"


#: Chance that any of the calibrated posteriors is rejected.
ERROR = 1e-3


@pytest.mark.parametrize("users", mostly(statistical, [1000, 6000], 1000))
def test_posteriors_of_all_subsets_are_calibrated_and_a_wrong_link_is_not(users):
    believers = [
        {"name": "strong", "popularity": "true"},
        {"name": "wrong", "popularity": "true", "links": {"emojis": 1.0}},
    ]
    sharp = {**EMOJIS, "link": 0.65, "mechanism": {"kind": "grr", "epsilon": 7.0}, "devices": {"reports_per_day": 3}}
    game = build_joint_game(scenario(sharp, DOMAINS, WORDS, adversary=believers), SEED)
    game = replace(game, non_private=False)
    outcomes = play_joint_block(game, range(users), SEED, engine=Local())
    tests = [(subset, n) for subset in game.subsets for n in game.observations]

    def p_of(subset, n, adversary):
        rows = rows_of(outcomes, subset, adversary).filter(pl.col("n") == n)
        own = rows["posterior_true"].to_numpy()
        truth = (rows["pool"] == "right").to_numpy().astype(int)
        found = np.stack([np.where(truth == 0, own, 1 - own), np.where(truth == 1, own, 1 - own)], axis=1)
        return calibration_p(truth, found, SEED)

    assert min(p_of(subset, n, "strong") for subset, n in tests) > ERROR / len(tests)
    assert p_of("joint", 20, "wrong") < ERROR / len(tests)
    rows = rows_of(outcomes, "joint", "wrong").filter(pl.col("n") == 20)
    correct = (rows["guess"] == rows["pool"]).mean()
    assert rows["confidence"].mean() > correct + 0.05, "overconfident, not only miscalibrated"


def test_rates_are_not_rounded_down():
    """The product of a rate and a number of days may be a little below a whole number."""
    assert 100 * 0.29 < 29
    assert events_by(np.array([0, 99, 100]), 0.29).tolist() == [0, 28, 29]


def test_draws_of_collections_are_independent():
    game = build_joint_game(scenario(EMOJIS, {**EMOJIS, "name": "more"}), SEED)
    persons, users = draw_persons(game, range(200), SEED, Local(threads=1)), 200
    for one, other in (persons.gamma, persons.delta, persons.collection_keys):
        assert not np.isin(one, other).any()
    assert abs(np.corrcoef(*persons.gamma)[0, 1]) < 4 / users**0.5
    assert np.corrcoef(persons.gamma[0], persons.gamma[0])[0, 1] > 4 / users**0.5, "the control"


def test_sampled_reports_count_from_the_day_of_their_event():
    game = build_joint_game(scenario(LIMITED), 3)
    (one,), days = game.collections, np.arange(game.horizon + 1)
    (sent,) = draw_persons(game, range(10), 3, Local(threads=1)).sent
    found = one.reports_by(sent, days)
    for user, size in enumerate(sent.lengths):
        events = np.floor(1.5 * days)
        assert found[user].tolist() == [(sent.event_index[user, :size] < n).sum() for n in events]
    assert found[:, -1].min() > 0
