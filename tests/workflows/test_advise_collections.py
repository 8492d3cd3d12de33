"""Advice on several collections: against exact exposures and a grid, controls, refusals, the folder and the command."""

import itertools
import json
import math
import re

import jsonschema
import numpy as np
import polars as pl
import pytest
from cases.command_line import poolscope
from cases.synthetic import SEED

import poolscope as ps
from poolscope.core.errors import InputError
from poolscope.game.joint_block import play_joint_block
from poolscope.html.advise_collections import command_of
from poolscope.metrics.collections import paired_difference
from poolscope.metrics.intervals import Clusters, known_value, share_of
from poolscope.metrics.models import json_schema
from poolscope.scenario.collections import build_joint_game
from poolscope.workflows.advise.allocation import EQUAL_SHARES, MIN_GAIN, Step
from poolscope.workflows.advise.collection_records import CollectionsAdvice, read_advice
from poolscope.workflows.advise.collections import collections_question_of
from poolscope.workflows.advise.search import Trial, target_with_margin

DAYS, THRESHOLD, TARGET, DEVICES = 10, 0.8, 0.2, 10_000
ASKED = {"max_exposed": TARGET, "threshold": THRESHOLD, "horizon": DAYS, "seed": SEED, "epsilon": (0.2, 6.0)}


def coin(name, link):
    return {
        "name": name,
        "universe": {"size": 2, "pools": {"heads": 1, "tails": 1}},
        "popularity": {"kind": "uniform"},
        "mechanism": {"kind": "grr", "epsilon": 1.0},
        "link": link,
    }


def coins(*links):
    """Return a scenario with a coin for each link, whose objects are the pools."""
    tables = {
        "attribute": {"name": "side", "values": ["heads", "tails"]},
        "collection": [coin(f"coin{i}", link) for i, link in enumerate(links)],
        "adversary": [{"name": "oracle", "popularity": "true"}],
        "attack": {"observations": [DAYS]},
    }
    return ps.Scenario.from_dict(tables, name="coins")


NODES, WEIGHTS = np.polynomial.legendre.leggauss(12)
DELTA, WEIGHTS = 0.75 + NODES / 4, WEIGHTS / 2


def exposed_exactly(epsilons, links, days=DAYS, threshold=THRESHOLD):
    """Return the share of people exposed by two coins, by enumerating counts of reports day by day.

    Polarization is uniform on [1/2, 1]. The value is heads, as both are alike.
    """
    own = [(1 - DELTA) + (2 * DELTA - 1) / (1 + math.exp(-epsilon)) for epsilon in epsilons]
    share = 0.0
    for pools in itertools.product((True, False), repeat=2):
        says = [s if pool else 1 - s for s, pool in zip(own, pools, strict=True)]
        prior = math.prod(link if pool else 1 - link for link, pool in zip(links, pools, strict=True))
        # (nodes, nodes, heads of the first, heads of the second)
        state = np.zeros((12, 12, days + 1, days + 1))
        state[:, :, 0, 0] = prior * WEIGHTS[:, None] * WEIGHTS[None, :]
        for n in range(1, days + 1):
            for axis, s in enumerate(says):
                heads = s.reshape((-1, 1, 1, 1) if axis == 0 else (1, -1, 1, 1))
                state = np.roll(state * heads, 1, axis=2 + axis) + state * (1 - heads)
            k, evidence = np.arange(days + 1), []
            for s, link in zip(own, links, strict=True):
                likely = WEIGHTS @ (s[:, None] ** k * (1 - s[:, None]) ** np.maximum(n - k, 0))
                mirrored = WEIGHTS @ ((1 - s[:, None]) ** k * s[:, None] ** np.maximum(n - k, 0))
                evidence.append((link * likely + (1 - link) * mirrored, link * mirrored + (1 - link) * likely))
            heads, tails = (evidence[0][v][:, None] * evidence[1][v][None, :] for v in (0, 1))
            confident = np.maximum(heads, tails) / (heads + tails) >= threshold
            share += state[:, :, confident].sum()
            state[:, :, confident] = 0
    return share


def utility(epsilons):
    """Return the sum of log errors, but for a constant: an error of a fair coin is proportional to 1/tanh(ε/2)."""
    return sum(math.log(math.tanh(epsilon / 2)) for epsilon in epsilons)


def rmse(epsilon, devices=DEVICES):
    return 0.5 / math.sqrt(devices) / math.tanh(epsilon / 2)


def epsilons_of(advice):
    return [one.epsilon for one in advice.collections]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("collections") / "advice"


@pytest.fixture(scope="module")
def unequal(folder):
    return ps.advise(coins(1.0, 0.75), max_error={}, users=2000, **ASKED, out=folder)


@pytest.mark.statistical
def test_the_allocation_against_a_grid_of_exact_exposures(unequal):
    """Of all pairs of epsilons, none that exposes fewer users than the stated interval is better."""
    found, links = unequal.recommendation, (1.0, 0.75)
    chosen = epsilons_of(unequal)
    exact = exposed_exactly(chosen, links)
    assert found.exposed.low <= exact <= found.exposed.high
    assert exact <= TARGET
    assert found.meets_targets == "yes"
    grid = np.geomspace(0.2, 6.0, 28)
    shares = {point: exposed_exactly(point, links) for point in itertools.product(grid, repeat=2)}

    def best(share, points=shares):
        return max(utility(point) for point in points if shares[point] <= share)

    assert best(found.exposed.low) - MIN_GAIN <= utility(chosen) <= best(found.exposed.high) + MIN_GAIN
    equal = best(exact, [point for point in shares if point[0] == point[1]])
    assert utility(chosen) > equal + 0.05, "a negative control: equal shares are worse"


def test_trials_of_the_search_have_exact_exposures(unequal):
    for step in unequal.steps:
        expected = exposed_exactly([one.epsilon for one in step.settings], (1.0, 0.75))
        assert abs(step.exposed.value - expected) <= 4 * math.sqrt(expected * (1 - expected) / step.users)
    assert [step.gain for step in unequal.steps] == sorted(step.gain for step in unequal.steps)


@pytest.mark.slow
def test_symmetric_collections_have_equal_shares():
    found = ps.advise(coins(0.9, 0.9), max_error={}, users=1000, **ASKED)
    first, second = epsilons_of(found)
    assert first == pytest.approx(second, rel=0.1)
    assert [one.limiting_constraint for one in found.collections] == ["exposure", "exposure"]
    costs = [one.cost for one in found.collections]
    assert costs[0].low < costs[1].value < costs[0].high


@pytest.mark.slow
def test_a_worthless_collection_costs_nothing_and_has_the_largest_epsilon():
    """A negative control: with a link of 1/k, its reports say nothing of the attribute."""
    found = ps.advise(coins(1.0, 0.5), max_error={}, users=700, **ASKED)
    known, worthless = found.collections
    assert worthless.epsilon == 6.0
    assert worthless.limiting_constraint == "range"
    assert worthless.cost.value == 0
    assert worthless.cost.low < 0 < worthless.cost.high < 0.003
    assert worthless.exposed_alone.value == 0
    assert worthless.exposed_without == known.exposed_alone
    assert known.epsilon < 6.0
    assert known.cost.low > 0
    assert "coin1 costs no exposure" in found.recommendation.reason


def test_a_worthless_collection_has_the_largest_cap():
    errors = {"coin0": rmse(0.3), "coin1": rmse(0.3)}
    found = ps.advise(coins(1.0, 0.5), max_error=errors, devices=DEVICES, users=1000, **ASKED)
    known, worthless = found.collections
    assert [one.epsilon for one in found.collections] == pytest.approx([0.3, 0.3], rel=0.01)
    assert [one.epsilon for one in found.collections] == [one.epsilon_min for one in found.collections]
    assert worthless.days == 2 * DAYS == worthless.cap
    assert found.horizon == 2 * DAYS
    assert DAYS <= known.days <= worthless.days
    assert found.recommendation.meets_targets == "yes"
    assert found.recommendation.exposed_at_cap.high <= TARGET
    assert [one.rmse for one in found.collections] == pytest.approx([rmse(one.epsilon) for one in found.collections])


@pytest.mark.statistical
def test_targets_that_contradict_each_other_are_said():
    """The smallest epsilons are known in closed form, and what they expose, and what would have to give."""
    errors, links = {"coin0": rmse(2.5), "coin1": rmse(2.5)}, (1.0, 0.9)
    found = ps.advise(coins(*links), max_error=errors, devices=DEVICES, users=1000, **ASKED)
    recommendation = found.recommendation
    assert recommendation.meets_targets == "no"
    assert recommendation.limiting_constraint == "error and exposure"
    assert epsilons_of(found) == pytest.approx([2.5, 2.5], rel=0.01)
    assert min(one.days for one in found.collections) < DAYS
    assert max(one.days for one in found.collections) <= DAYS
    assert found.sentence.startswith("No configuration meets all targets.\nClosest: coin0: grr, ε = 2.5")
    floor, caps, error, devices, *without = found.relaxations
    exact = exposed_exactly([2.5, 2.5], links)
    assert exact > TARGET
    value, low, high = map(float, re.search(r"expose ([\d.]+)% \(95% CI ([\d.]+)–([\d.]+)%\)", floor).groups())
    assert low - 0.5 <= 100 * exact <= high + 0.5
    assert value == pytest.approx(100 * exact, abs=6)
    assert caps.startswith("The targets are met with caps of ")
    factor = float(re.search(r"([\d.]+) times the targets", error).group(1))

    def at(times):
        return exposed_exactly([2 * math.atanh(math.tanh(1.25) / times)] * 2, links)

    error = math.sqrt(TARGET * (1 - TARGET) / 500)
    assert at(1.15 * factor) <= TARGET + 4 * error
    assert at(max(1.0, 0.85 * factor)) >= TARGET - 4 * error
    # errors of a coin fall with the root of the number of devices
    assert int(re.search(r"with ([\d,]+) devices", devices).group(1).replace(",", "")) == pytest.approx(
        DEVICES * factor**2, rel=0.05
    )
    assert [line.split(",")[0] for line in without] == ["Without coin0", "Without coin1"]


def test_costs_are_differences_of_the_same_held_out_users(unequal):
    """Play the recommended scenario with the seed of the last attempt, and count."""
    scenario = unequal.recommended.replace({"attack.observations": [DAYS], "attack.non_private": False})
    seed = SEED + len(unequal.recommendation.attempts)
    game = build_joint_game(scenario, seed)
    rows = play_joint_block(game, range(2000), seed)
    exposed = {
        subset: (rows.filter(pl.col("collection") == subset).sort("user")["exposed_at_threshold"] <= DAYS)
        .fill_null(False)
        .to_numpy()
        for subset in game.subsets
    }
    assert unequal.recommendation.exposed.value == exposed["joint"].mean()
    for one in unequal.collections:
        rest = exposed[f"without {one.collection}"]
        assert one.exposed_without.value == rest.mean()
        assert one.exposed_alone.value == exposed[one.collection].mean()
        assert one.cost.value == pytest.approx(exposed["joint"].mean() - rest.mean(), abs=1e-12)
        assert one.cost.low < one.cost.value < one.cost.high
    assert unequal.curve[-1] == unequal.recommendation.exposed_at_cap
    assert [record.pool for record in unequal.recommendation.by_value] == ["heads", "tails"]


@pytest.mark.statistical
def test_intervals_of_paired_differences_cover():
    rng, truth, misses, runs = np.random.default_rng(SEED), 0.06, 0, 1000
    for _ in range(runs):
        draws = rng.random(300)
        one, other = draws < 0.1, (draws >= 0.08) & (draws < 0.12)
        found = paired_difference(one, other)
        misses += not found.low <= truth <= found.high
    # a normal approximation: at most 7% of 1,000, four standard errors above 5% and a little
    assert 0.02 * runs < misses < 0.08 * runs
    nobody = paired_difference(np.zeros(100, dtype=bool), np.zeros(100, dtype=bool))
    assert (nobody.value, nobody.low, nobody.high) == (
        0,
        pytest.approx(-1.96 / 102, rel=1e-3),
        pytest.approx(1.96 / 102, rel=1e-3),
    )
    half = np.arange(100) < 50
    wider = paired_difference(half, np.zeros(100, dtype=bool), Clusters(half.astype(np.int64), 2))
    plain = paired_difference(half, np.zeros(100, dtype=bool))
    assert wider.high - wider.low > 2 * (plain.high - plain.low)
    assert -1 <= wider.low <= wider.value <= wider.high <= 1


@pytest.mark.slow
def test_one_collection_costs_all_that_is_exposed():
    scenario = coins(1.0)
    found = ps.advise(scenario, max_error={}, users=500, **ASKED)
    (one,) = found.collections
    assert one.exposed_without.value == 0
    assert one.cost.value == found.recommendation.exposed.value > 0
    assert len(found.steps) == 1


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"max_error": {"coin2": 0.01}, "devices": 10},
            "`max_error` must be for collections of the scenario, got 'coin2'; did you mean",
        ),
        ({"max_error": {"coin0": 2}, "devices": 10}, "`max_error` of coin0 must be above 0 and below 1, got 2"),
        (
            {"max_error": 0.01, "devices": 10},
            "max_error must be a mapping where there are several collections, got 0.01",
        ),
        ({"max_error": None}, "max_error must be a mapping where there are several collections, got None"),
        ({"max_error": {"coin0": 0.01}}, "`max_error` must come with `devices`"),
        ({"max_error": {"coin0": 1e-5}, "devices": 10}, "`max_error` of coin0 must be at least 0.16"),
        ({"max_error": {"coin0": 0.1585}, "devices": 10}, "coin0 does not meet an error of 0.1585 up to epsilon 6"),
        (
            {"prefer": "least-exposure"},
            "`prefer` least-exposure must have a `max_error` of every collection, got 'coin0'",
        ),
        ({"prefer": "fewest-reports"}, "prefer: must be utility or least-exposure with several collections"),
        ({"mechanisms": ["grr"]}, "`mechanisms` requires a single collection"),
        ({"mitigations": True}, "`mitigations` requires a single collection"),
        ({"threshold": 0.5}, "`threshold` must be above 0.5, the largest prior of a value"),
        ({"horizon": None, "days": 0.5}, "`days` must be a whole number of at least 1"),
        ({"days": 3.0}, "must not be both `horizon` and `days`"),
        ({"max_exposed": 0.001, "epsilon": (4.0, 6.0)}, "epsilons of 4 must expose at most 0.001 of the users"),
        (
            {"adversary": "orcale"},
            "adversary: must be an adversary of the scenario, got 'orcale'; did you mean 'oracle'",
        ),
    ],
)
def test_what_cannot_be_asked_is_refused_in_one_line(changed, message, tmp_path):
    asked = {"max_error": {}, "users": 100, **ASKED, **changed}
    with pytest.raises(InputError) as caught:
        ps.advise(coins(1.0, 0.8), **asked, out=tmp_path / "out")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_mapping_is_for_several_collections():
    with pytest.raises(InputError, match="max_error must be a number where there is one collection"):
        ps.advise(ps.load_scenario("apple-emojis"), max_exposed=0.1, max_error={"emojis": 0.1}, devices=10)


def test_defaults_of_a_question():
    scenario = coins(1.0, 0.8)
    common = {"max_exposed": 0.1, "horizon": None, "users": None, "prefer": None}
    none = collections_question_of(scenario, max_error={}, devices=None, days=None, **common)
    assert (none.prefer, none.fixes_epsilon, none.horizon, none.users) == ("utility", False, DAYS, 8000)
    some = collections_question_of(scenario, max_error={"coin1": 0.1}, devices=100, days=4.0, **common)
    assert (some.prefer, some.fixes_epsilon, some.horizon, some.max_error) == ("utility", False, 4, None)
    every = collections_question_of(scenario, max_error={"coin0": 0.1, "coin1": 0.1}, devices=100, days=None, **common)
    assert (every.prefer, every.fixes_epsilon, every.max_errors["coin0"]) == ("least-exposure", True, 0.1)


@pytest.mark.slow
def test_a_cap_is_in_reports_of_the_collection():
    """Two events a day, of which a quarter is reported; the other collection has neither."""
    sampled = {**coin("often", 0.9), "devices": {"reports_per_day": 4, "sampling_rate": 0.25, "cap": 3}}
    tables = coins(1.0).to_dict() | {"collection": [sampled, coin("coin", 0.9)]}
    found = ps.advise(ps.Scenario.from_dict(tables, name="two"), max_error={}, users=40, **ASKED)
    assert [(one.cap, one.days) for one in found.collections] == [(DAYS, DAYS), (DAYS, DAYS)]
    caps = [own.devices.cap for own in found.recommended.collections]
    assert caps == [DAYS, DAYS]
    assert [own.mechanism.epsilon for own in found.recommended.collections] == epsilons_of(found)


@pytest.mark.slow
def test_a_collection_that_memoizes_is_observed_on_some_days():
    tables = coins(1.0).to_dict() | {
        "collection": [{**coin("memoized", 0.9), "devices": {"memoize": True}}, coin("coin", 0.9)]
    }
    asked = {**ASKED, "horizon": 4, "epsilon": (0.5, 2.0), "max_exposed": 0.4}
    scenario = ps.Scenario.from_dict(tables, name="two")
    found = ps.advise(scenario, max_error={}, users=40, **asked)
    assert len(found.curve) == 5
    assert found.recommendation.epsilon_day is None, "epsilons of memoized responses do not add up"
    assert found.assumptions[-1].startswith("Attacks on memoized responses are computed on some days only")
    default = collections_question_of(
        scenario, max_error={}, max_exposed=0.4, horizon=4, days=None, devices=None, users=None, prefer=None
    )
    assert default.users == 200


def test_the_folder_has_a_schema_and_a_report(unequal, folder):
    written = json.loads((folder / "advice.json").read_text())
    jsonschema.validate(written, json_schema(CollectionsAdvice, strict=True))
    found = read_advice(folder)
    assert found.as_json() == written == unequal.as_json()
    recommended = ps.load_scenario(folder / "recommended.toml")
    assert [own.mechanism.epsilon for own in recommended.collections] == epsilons_of(found)
    page = (folder / "advice.html").read_text()
    for one in found.collections:
        assert f"{one.collection}: grr, ε = {one.epsilon:g} per report" in page
    assert "Cost of each collection" in page
    assert command_of(found) in page
    assert ps.metrics.gate(found, "collections.cost > 90%").passed
    worst = max(found.collections, key=lambda one: one.cost.high)
    assert f"at collection {worst.collection}, mechanism grr" in ps.metrics.gate(found, "collections.cost > 90%").reason
    assert not ps.metrics.gate(found, "exposed > 0.1%").passed
    broken = {**written, "collections": []}
    (folder / "advice.json").write_text(json.dumps(broken))
    with pytest.raises(InputError, match=r"advice.json: collections: "):
        read_advice(folder)
    (folder / "advice.json").write_text(json.dumps(written))


@pytest.mark.slow
def test_the_command(tmp_path):
    """Its folder is played again, drawn and rendered, and gates look into it."""
    (tmp_path / "coins.toml").write_text(coins(1.0, 0.8).text)
    asked = ["advise", "coins.toml", "--max-exposed", TARGET, "--threshold", THRESHOLD, "--users", 400]
    asked += ["--epsilon", "0.2:6", "--devices", DEVICES, "--seed", 2, "--max-error", 0.03]
    done = poolscope(*asked, "--out", "advice", "--fail-if", "collections.cost > 90%", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    written = json.loads((tmp_path / "advice" / "advice.json").read_text())
    assert json.loads(done.stdout) == written
    assert written["question"]["max_errors"] == {"coin0": 0.03, "coin1": 0.03}
    assert "Collections, 400 held-out users" in done.stderr
    again = poolscope("rerun", "advice", cwd=tmp_path)
    assert (again.returncode, "the bits agree" in again.stdout) == (0, True)
    drawn = poolscope("figures", "advice", cwd=tmp_path)
    assert {path.name for path in (tmp_path / "advice" / "figures").iterdir()} == {"costs.svg", "exposure.svg"}, drawn
    page = (tmp_path / "advice" / "advice.html").read_text()
    (tmp_path / "advice" / "advice.html").unlink()
    assert poolscope("render", "advice", cwd=tmp_path).returncode == 0
    assert (tmp_path / "advice" / "advice.html").read_text() == page
    failed = poolscope(*asked, "--fail-if", "exposed > 0.1%", "--out", "gated", cwd=tmp_path)
    assert failed.returncode == 1
    assert "gate failed: exposed > 0.1%" in failed.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--max-error", "coin=0.1"], "--max-error must be for collections of the scenario, got 'coin'; did you mean"),
        (["--max-error", "coin0=x"], "--max-error: must be a number, or NAME=NUMBER"),
        (["--max-error", "0.1", "--max-error", "coin0=0.2"], "--max-error: must be given once, got 'coin0=0.2'"),
        (["--mechanism", "grr"], "--mechanism requires a single collection"),
        (["--fail-if", "findings.rmse > 1"], "findings"),
    ],
)
def test_the_command_refuses_in_one_line(tmp_path, options, message):
    (tmp_path / "coins.toml").write_text(coins(1.0, 0.8).text)
    done = poolscope(
        "advise", "coins.toml", "--max-exposed", 0.1, "--devices", 10, *options, "--out", "out", cwd=tmp_path
    )
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()
    (tmp_path / "one.toml").write_text(ps.load_scenario("apple-emojis").text)
    single = poolscope("advise", "one.toml", "--max-exposed", 0.1, "--max-error", "emojis=0.1", cwd=tmp_path)
    assert "must be a number where there is one collection, got 'emojis=0.1'" in single.stderr


def test_held_out_users_reject_what_luck_has_chosen(monkeypatch):
    """A negative control: an allocation far beyond the border, as if few users had been lucky, is contradicted."""
    beyond = (1.0, 1.0)
    assert exposed_exactly(beyond, (1.0, 0.9)) > 2 * TARGET

    def lucky(problem):
        aimed = round(400 * target_with_margin(TARGET, 400, 400))
        trial = Trial(epsilon=1.0, users=400, exposed=share_of(aimed, 400), cap=known_value(DAYS))
        return [Step(EQUAL_SHARES, beyond, trial, 0.0)]

    monkeypatch.setattr("poolscope.workflows.advise.collections.allocate", lucky)
    found = ps.advise(coins(1.0, 0.9), max_error={}, users=400, **ASKED)
    first, *_, last = found.recommendation.attempts
    assert [one.epsilon for one in first.settings] == [1.0, 1.0]
    assert (first.meets_targets, last.meets_targets) == ("no", "yes")
    assert exposed_exactly(epsilons_of(found), (1.0, 0.9)) <= TARGET
    assert epsilons_of(found)[0] == epsilons_of(found)[1] < 1.0, "all levels have one factor"
    assert "did not confirm the first allocation" in found.notes[0]


def test_held_out_users_are_others(unequal):
    assert len(unequal.recommendation.attempts) <= 4
    last = unequal.recommendation.attempts[-1]
    assert last.exposed == unequal.recommendation.exposed_at_cap
    assert [one.epsilon for one in last.settings] == epsilons_of(unequal)
    assert unequal.steps[-1].users < last.users
