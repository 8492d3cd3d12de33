"""The built-in scenarios: every one can be played, says where it is from, and has the noise that is published."""

import math
import re
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from cases.selection import mostly, slow

from poolscope.core.executors import Local
from poolscope.game.game import play
from poolscope.game.joint_block import play_joint_block
from poolscope.mechanisms import make
from poolscope.metrics.bounds import epsilon_of
from poolscope.scenario.build import build_mechanism
from poolscope.scenario.collections import build_joint_game
from poolscope.scenario.scenario import builtin_names, builtin_text, load_scenario

RETIRED = {"chrome-attribution", "chrome-rappor", "chrome-rappor-sites", "chrome-topics", "mozilla-homepages"}
USERS, SEED = 50, 1
WEAK = {"name": "weak", "popularity": "uniform"}
STRONG = {"name": "strong", "popularity": "estimated", "estimate_from": 20_000}


def mechanism_of(name):
    found = load_scenario(name)
    return build_mechanism(found, found.universe())


def played(found):
    """Outcomes of few users, after few reports: a device with memory is attacked anew for each count."""
    game = found.replace({"attack.estimates": 3}).game(SEED, Local().map)
    few = [n for n in game.observations if n <= 7]
    outcomes = play(replace(game, observations=few), USERS, SEED)
    assert outcomes.height == USERS * len(few) * (len(found.adversaries) + 1)
    return outcomes


#: Their filters and memoized responses take long to attack.
LONG = {"mozilla-homepages", "chrome-rappor", "chrome-rappor-sites"}
SYNTHETIC = [name for name in builtin_names() if name not in ("recorded-emojis", "apple-collections")]


@pytest.mark.default_cases("apple-emojis", "apple-health", "chrome-*")
@pytest.mark.parametrize("name", mostly(slow, SYNTHETIC, *(name for name in SYNTHETIC if name not in LONG)))
def test_every_scenario_is_played(name):
    outcomes = played(load_scenario(name))
    assert outcomes["confidence"].is_between(0, 1 + 1e-12).all()
    assert set(outcomes["adversary"]) == {"weak", "strong", "non-private"}


def test_the_collections_are_played_and_what_is_invented_is_said():
    found = load_scenario("apple-collections")
    game = build_joint_game(found.replace({"attack.observations": [2], "adversary": [WEAK, STRONG]}), SEED, Local().map)
    outcomes = play_joint_block(game, range(20), SEED)
    assert set(outcomes["collection"]) == {"joint", "emojis", "domains", "without emojis", "without domains"}
    assert outcomes["confidence"].is_between(0, 1 + 1e-12).all()
    alone = load_scenario("apple-web-domains")
    assert found.parts[1].mechanism == alone.mechanism
    assert found.parts[1].universe_table == alone.universe_table
    assert len(re.findall(r"\b[Oo]urs\b", found.text)) >= 3


@pytest.mark.slow
def test_the_scenario_of_recorded_users_is_played(tmp_path):
    (tmp_path / "mine.toml").write_text(builtin_text("recorded-emojis"), encoding="utf-8")
    found = load_scenario(tmp_path / "mine.toml")
    picks = np.random.default_rng(SEED).integers(found.universe().size, size=100 * 12)
    objects = [found.universe().objects[i] for i in picks]
    pl.DataFrame({"user": np.repeat(np.arange(100), 12), "object": objects}).write_parquet(tmp_path / "traces.parquet")
    assert played(found)["confidence"].is_between(0, 1 + 1e-12).all()


@pytest.mark.parametrize("name", builtin_names())
def test_every_scenario_has_its_source(name):
    found = load_scenario(name)
    assert found.title
    assert re.search(r"\((20\d\d(-20\d\d)?|undated)\)", found.source)
    assert found.historical == (name in RETIRED)
    head = found.text.partition("[universe]")[0]
    assert re.search(r"^# - .*20\d\d", head, re.MULTILINE)


@pytest.mark.parametrize("name", sorted({*RETIRED, "apple-health", "apple-mail-senders", "apple-quicktype"}))
def test_what_is_invented_is_said(name):
    tables = re.split(r"^\[", builtin_text(name), flags=re.MULTILINE)
    for table in ("universe]", "popularity]"):
        assert re.search(r"\b[Oo]urs\b", next(text for text in tables if text.startswith(table)))


@pytest.mark.parametrize(
    ("name", "published", "flipped", "epsilon"),
    [
        # half of the bits replaced by a coin, then one in four flipped: 1/4 + 1/8
        ("chrome-rappor", (32, 2, 128, 0.5, 0.25, 0.75), 3 / 8, 4 * math.log(5 / 3)),
        ("chrome-rappor-sites", (128, 2, 128, 0.25, 0.25, 0.75), 5 / 16, 4 * math.log(11 / 5)),
        ("mozilla-homepages", (128, 2, 100, 0.0, 0.35, 0.65), 0.35, 4 * math.log(0.65 / 0.35)),
    ],
)
def test_rappor_has_the_published_noise(name, published, flipped, epsilon):
    found = mechanism_of(name)
    assert (found.m, found.hashes, found.cohorts, found.f, found.p, found.q) == published
    assert (found.prob_0_to_1, found.prob_1_to_0) == (pytest.approx(flipped), pytest.approx(flipped))
    assert found.epsilon == pytest.approx(epsilon)
    assert load_scenario(name).memoizes == name.startswith("chrome")


def test_the_comments_have_the_epsilons():
    """What the files say of one report, and of all reports of one value: 2 h log((1 - f/2) / (f/2))."""
    for name in ("chrome-rappor", "chrome-rappor-sites", "mozilla-homepages"):
        found = mechanism_of(name)
        assert f"= {found.epsilon:.2f} a report" in builtin_text(name)
        if found.f:
            assert f"= {4 * math.log(2 / found.f - 1):.2f} for all reports of one value" in builtin_text(name)


def test_mail_senders_are_sketched_as_in_the_log():
    found = mechanism_of("apple-mail-senders")
    assert (found.epsilon, found.m, found.hashes) == (8, 1024, 65536)


@pytest.mark.parametrize(("name", "epsilon", "a_day"), [("apple-quicktype", 8, 16), ("apple-health", 2, 2)])
def test_apple_spends_as_much_a_day_as_it_says(name, epsilon, a_day):
    spent = epsilon_of(load_scenario(name).replace({"adversary": [WEAK]}).game(SEED))
    assert (spent.report, spent.day) == (epsilon, a_day)


def test_topics_are_random_in_one_case_of_twenty():
    found = mechanism_of("chrome-topics")
    assert found.universe == 349
    assert found.q_star * 349 == pytest.approx(0.05, rel=1e-12)
    assert found.p_star == pytest.approx(0.95 + 0.05 / 349, rel=1e-12)
    lists = math.log((0.95 / 5 + 0.05 / 349) / (0.05 / 349))
    assert f"= {lists:.2f}." in builtin_text("chrome-topics")


@pytest.mark.parametrize(("windows", "outcomes", "alone"), [(3, 2925, 19), (2, 969, 9), (1, 165, 3)])
def test_attribution_has_the_published_outcomes(windows, outcomes, alone):
    """Multisets of at most three purchases, each of eight kinds in one of the windows."""
    assert math.comb(3 + 8 * windows, 3) == outcomes
    assert math.comb(3 + windows, 3) - 1 == alone
    found = load_scenario("chrome-attribution")
    assert f"{outcomes:,}" in found.text
    if windows == 3:
        assert found.universe().size == outcomes
        assert found.universe().pool_sizes.tolist() == [alone] * 8


def test_attribution_has_the_published_noise():
    """The explainer has 0.24 % for clicks and 0.00025 % for views, which have three outcomes."""
    found = mechanism_of("chrome-attribution")
    assert found.epsilon == 14
    assert f"{100 * found.universe * found.q_star:.2f} %" == "0.24 %"
    views = make("grr", 3, {"epsilon": 14})
    assert f"{100 * 3 * views.q_star:.5f} %" == "0.00025 %"
