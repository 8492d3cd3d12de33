"""What the explorer plays: settings, games whose estimates are kept, crowds that grow, one user's story."""

import re
import threading

import numpy as np
import pytest
from cases.explorer import small

import poolscope as ps
from poolscope.core.errors import InputError
from poolscope.core.randomness import user_keys
from poolscope.explore.answers import SAMPLE_SIZES, Games, curator_error
from poolscope.explore.controls import controls, offered
from poolscope.explore.growing import answers
from poolscope.explore.one_user import in_words, user_history
from poolscope.explore.settings import Scenarios, Setting
from poolscope.explore.streams import Outdated, Stoppable
from poolscope.mechanisms.protocols import ReportColumn
from poolscope.population.behavior import draw_traces, draw_users
from poolscope.population.universe import Universe
from poolscope.scenario.scenario import parse


@pytest.fixture
def shelf(tmp_path):
    return Scenarios(ps.load_scenario(small(tmp_path)))


def test_an_estimate_is_made_once(shelf, monkeypatch):
    games, setting = Games(), Setting(scenario="small")
    scenario, _ = shelf.played(setting)
    assert games.without_pending_estimates(scenario, 0)[1] == [scenario.adversaries[1].name]
    whole = games.complete(scenario, 0, Stoppable())
    monkeypatch.setattr("poolscope.explore.answers.build_adversary", None)
    other, _ = shelf.played(Setting(scenario="small", changes={"devices.cap": 3, "n": 7}))
    game, waiting = games.without_pending_estimates(other, 0)
    assert waiting == []
    assert np.array_equal(game.adversaries[1].popularity, whole.adversaries[1].popularity)
    # another mechanism, or another seed, is another estimate
    for changes, seed in (({"mechanism.epsilon": 1}, 0), ({}, 1)):
        assert games.without_pending_estimates(shelf.played(Setting(scenario="small", changes=changes))[0], seed)[1]


def test_the_game_is_the_scenarios_own(shelf):
    scenario, _ = shelf.played(Setting(scenario="small", changes={"devices.sampling_rate": 0.5}))
    mine, own = Games().complete(scenario, 4, Stoppable()), scenario.game(4)
    assert ps.play(mine, 30, 4).equals(ps.play(own, 30, 4))


def test_the_error_is_of_all_reports_up_to_n_and_a_cap_costs_accuracy(shelf):
    def found(**changes):
        scenario, n = shelf.played(Setting(scenario="small", changes={"n": 10, **changes}))
        return curator_error(scenario.game(0), n)

    once, free, capped = found(n=1), found(), found(**{"devices.cap": 4})
    assert (once["reports_each"], free["reports_each"], capped["reports_each"]) == (1, 10, 4)
    assert once["rmse"] > capped["rmse"] > free["rmse"]
    assert once["n_above"] <= capped["n_above"] <= free["n_above"]
    kept = found(**{"devices.memoize": True})
    assert kept["rmse"] == pytest.approx(once["rmse"]), "noise that repeats does not average out"
    assert found(**{"devices.sampling_rate": 0.5})["reports_each"] == 5


def test_work_that_nobody_waits_for_is_left():
    stop = threading.Event()
    engine = Stoppable(threads=1, stop=stop)
    found = engine.map(lambda x: x, range(10))
    assert next(found) == 0
    stop.set()
    with pytest.raises(Outdated):
        next(found)


def test_a_stopped_answer_does_not_go_on(shelf):
    scenario, n = shelf.played(Setting(scenario="small"))
    engine = Stoppable()
    found = answers(scenario, n, 0, Games(), engine)
    assert next(found).users == SAMPLE_SIZES[0]
    engine.stop.set()
    with pytest.raises(Outdated):
        list(found)


def test_intervals_shrink(shelf):
    scenario, n = shelf.played(Setting(scenario="small"))
    widths = [
        a.strongest_attack.precision.high - a.strongest_attack.precision.low
        for a in answers(scenario, n, 0, Games(), Stoppable())
    ]
    assert widths[1] > widths[2] > widths[3] > widths[4]


@pytest.mark.parametrize("changes", [{}, {"devices.sampling_rate": 0.6}, {"devices.cap": 4}, {"mechanism.kind": "oue"}])
def test_a_story_is_what_posterior_says_after_every_report(shelf, changes):
    scenario, n = shelf.played(Setting(scenario="small", changes=changes))
    game = scenario.game(2)
    story = user_history(game, 11, 2, "weak", n)
    keys = user_keys(2, np.array([11]))
    traces = draw_traces(game.universe, game.popularity, draw_users(game.universe, game.behavior, keys), n)
    sent = game.policy.select_events(traces, keys)
    posterior = ps.posterior(game.device, sent.reports(game.device, keys), game.adversaries[0])
    assert sum(step.report is not None for step in story.steps) == sent.lengths[0]
    done = 0
    for step in story.steps:
        done += step.report is not None
        assert step.posterior == pytest.approx(posterior[done])
    gains = sum(step.evidence for step in story.steps if step.evidence is not None)
    at = story.pools.index(story.preferred)
    odds = np.log(posterior[[0, -1], at] / (1 - posterior[[0, -1], at]))
    assert gains == pytest.approx(odds[1] - odds[0])
    outcome = ps.play(game, 12, 2).filter(user=11, adversary="weak", n=n)
    assert max(story.steps[-1].posterior) == pytest.approx(outcome["confidence"][0])


def test_a_story_starts_anew_with_each_pseudonym(shelf):
    scenario, n = shelf.played(Setting(scenario="small", changes={"devices.rotate_after": 6}))
    story = user_history(scenario.game(2), 11, 2, "weak", n)
    assert [step.pseudonym for step in story.steps] == [1] * 6 + [2] * 6 + [3] * 6 + [4] * 2
    first = user_history(shelf.scenario("small").game(2), 11, 2, "weak", 6)
    assert story.steps[5].posterior == pytest.approx(first.steps[5].posterior)


def test_the_story_of_nobody_is_refused(shelf):
    game = shelf.scenario("small").game(0)
    for user in (-1, 10**9):
        with pytest.raises(InputError, match="there is no such user"):
            user_history(game, user, 0)


@pytest.mark.parametrize(
    ("column", "values", "words"),
    [
        (ReportColumn("integer", 9), np.array([4]), "x 4"),
        (ReportColumn("bits", 9), np.array([[0b101, 1]], dtype=np.uint8), "3 of 9 bits set"),
        (ReportColumn("sign"), np.array([-1]), "x −1"),
        (ReportColumn("object", 3), np.array([2]), "object 2"),
        (ReportColumn("reals", 2), np.array([[0.5, 1.25]]), "2 noisy numbers, the largest 1.25"),
    ],
)
def test_a_report_in_words(column, values, words):
    assert in_words({"x": values}, {"x": column}, Universe.sized(3, {"a": 1, "b": 1})) == [words]


def test_memory_can_be_taken_away(tmp_path):
    path = tmp_path / "kept.toml"
    text = (
        small(tmp_path)
        .read_text()
        .replace("[attack]", "knows_memoization = false\n[devices]\nmemoize = true\n[attack]")
    )
    path.write_text(text)
    shelf = Scenarios(ps.load_scenario(path))
    assert shelf.changed(Setting(scenario="kept")).devices.memoize
    without = shelf.changed(Setting(scenario="kept", changes={"devices.memoize": False}))
    assert not without.devices.memoize


def test_why_a_control_is_disabled_or_what_it_starts_from(tmp_path):
    text = small(tmp_path).read_text()
    pools = ", ".join(f"p{i} = 2" for i in range(27))
    behavior = "behavior = { interest = { beta = [2, 3] }, polarization = { table = [1, 2] } }"
    text = re.sub(r"pools = \{.*\}", f"pools = {{ {pools} }}", text).replace("[users]", f"[users]\n{behavior}")
    found = {control["key"]: control for control in controls(parse(text, name="many"))}
    assert found["universe.pools"]["why"] == "This scenario has 27 pools, too many to list."
    assert found["universe.pools"]["value"] == {}
    assert found["users.behavior.interest"]["value"] == [2.0, 3.0]
    assert found["users.behavior.polarization"]["why"] == "This scenario gives the behavior as a table."
    (recorded,) = (one for one in controls(ps.load_scenario("recorded-emojis")) if one["key"].endswith("interest"))
    assert recorded["why"] == "This scenario has recorded users."


def test_a_sampling_rate_of_all_events_is_not_written(shelf):
    assert "sampling_rate" not in shelf.changed(Setting(scenario="small", changes={"devices.sampling_rate": 1})).text


def test_mechanisms_are_offered_that_have_all_they_need(shelf):
    found = offered(shelf.scenario("small"))
    assert found["grr"]
    assert not found["identity"]
    assert "channel" not in found
    assert "recorded-emojis" not in shelf.names
