"""Advice: against enumeration, fresh users against luck, what cannot be asked, the folder and the command."""

import json
import math
import re
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from cases.command_line import COIN, SMALL, poolscope
from cases.synthetic import SEED
from cases.unshuffled import stand_in, unshuffled
from scipy import integrate, optimize

from poolscope.core.errors import InputError
from poolscope.core.executors import Local
from poolscope.core.progress import SILENT
from poolscope.metrics.intervals import share_of
from poolscope.metrics.shuffling import shuffle_epsilon
from poolscope.scenario.scenario import load_scenario, parse
from poolscope.workflows.advise.advise import advise, recommended_scenario
from poolscope.workflows.advise.candidates import candidates_of
from poolscope.workflows.advise.question import parse_range, question_of
from poolscope.workflows.advise.refine import Deployment, Proposal, verify
from poolscope.workflows.advise.simulation import Simulator, simulator_of
from poolscope.workflows.advise.text import notes_of, pools_above
from poolscope.workflows.advise.variants import resized

MECHANISMS = ["grr", "oue"]
ASKED = {"horizon": 10, "max_error": 0.02, "devices": 20_000, "users": 800, "seed": SEED, "mechanisms": MECHANISMS}


@pytest.fixture(scope="module")
def coin():
    return parse(COIN, name="coin")


@pytest.fixture(scope="module")
def small():
    return parse(SMALL + "[devices]\nreports_per_day = 2\n", name="small")


@pytest.fixture(scope="module")
def done(small):
    with unshuffled():
        return advise(small, max_exposed=0.1, **ASKED)


# A case that is solvable by hand: users of two objects send two reports of randomized response


def same_twice(epsilon):
    """Posterior after two reports alike, and how often both are alike, by integrals over delta in (1/2, 1]."""
    p = 1 / (1 + math.exp(-epsilon))

    def says(delta):
        return p * delta + (1 - p) * (1 - delta)

    own, _ = integrate.quad(lambda d: 2 * says(d) ** 2, 0.5, 1)
    other, _ = integrate.quad(lambda d: 2 * (1 - says(d)) ** 2, 0.5, 1)
    return own / (own + other), own + other


@pytest.mark.default_cases("0.8")
@pytest.mark.parametrize("confidence", [0.7, 0.8])
def test_two_reports_of_a_coin_against_enumeration(coin, confidence):
    """Nobody is exposed until two reports alike are enough; from then on everyone who sends such."""
    border = optimize.brentq(lambda e: same_twice(e)[0] - confidence, 0.1, 10)
    found = advise(coin, max_exposed=0.1, threshold=confidence, users=1000, seed=SEED, mechanisms=["grr"])
    (finding,) = found.findings
    assert finding.epsilon_max.low <= border <= finding.epsilon_max.high
    assert finding.epsilon_max.high / finding.epsilon_max.low < 1.1
    for trial in finding.trials:
        expected = same_twice(trial.epsilon)[1] if trial.epsilon >= border else 0.0
        error = math.sqrt(expected * (1 - expected) / trial.users)
        assert abs(trial.exposed.value - expected) <= 4 * error, trial
    assert found.recommendation.epsilon <= border
    assert found.recommendation.exposed.value == 0
    assert found.recommendation.meets_targets == "yes"
    assert found.recommendation.precision.low <= found.recommendation.success_bound


def test_a_cap_of_one_report_against_enumeration(coin):
    """Two reports expose nearly two thirds; one exposes nobody, and that is the cap."""
    found = advise(coin, max_exposed=0.1, threshold=0.8, max_error=0.012, devices=2000, users=1000, mechanisms=["grr"])
    (finding,) = found.findings
    # RMSE of a frequency of 1/2: sqrt(1/4 / N) / (2 p - 1)
    wanted = 2 * math.atanh(0.5 / math.sqrt(2000) / 0.012)
    assert wanted <= finding.epsilon_min <= wanted + 0.01, "three digits, rounded up"
    expected = same_twice(finding.epsilon_min)[1]
    assert abs(finding.at_epsilon_min.exposed.value - expected) < 4 * math.sqrt(expected * (1 - expected) / 1000)
    assert finding.feasible == "no"
    assert finding.at_epsilon_min.cap.value == found.recommendation.cap == 1
    assert (found.recommendation.meets_targets, found.recommendation.exposed.value) == ("no", 0.0)
    assert finding.limiting_constraint == "error and exposure"
    (gives,) = found.relaxations
    assert re.search(
        r"exposed users of .*; a cap of 1 \(95% CI 1–1\) reports \(horizon 2\); an RMSE of .*; .* devices",
        gives,
    )
    assert finding.rmse_at_epsilon_max > 0.012
    assert finding.devices_at_epsilon_max == pytest.approx(2000 * (finding.rmse_at_epsilon_max / 0.012) ** 2, rel=0.01)


# Honest search


class Lucky:
    """Settings of which the searching users say, by luck, that they expose the share that was aimed at."""

    users, design_effect = 400, 1.0

    def __init__(self, *choices):
        self.choices = list(choices)

    def at(self, share, target):
        choice = self.choices.pop(0) if len(self.choices) > 1 else self.choices[0]
        return Proposal(choice, share)


def test_held_out_users_reject_what_luck_has_chosen(coin):
    """A negative control: a choice far beyond the border, as if few users had been lucky, is contradicted."""
    question = question_of(coin, max_exposed=0.1, threshold=0.8, users=400, mechanisms=["grr"])
    simulator = simulator_of(coin, question, SEED, Local(threads=1), SILENT)
    border = optimize.brentq(lambda e: same_twice(e)[0] - 0.8, 0.1, 10)
    beyond, below = (Deployment(kind="grr", epsilon=part * border, cap=2) for part in (1.05, 0.95))
    found, attempts = verify(Lucky(beyond, below), simulator)
    assert [attempt.meets_targets for attempt in attempts][:2] == ["no", "yes"]
    assert attempts[0].exposed.low > 0.1 >= found.exposures.share(2).value
    assert found.choice == below
    # where the search finds nothing smaller, a contradicted choice is taken back a step
    found, attempts = verify(Lucky(beyond), simulator)
    assert [attempt.meets_targets for attempt in attempts] == ["no", "yes"]
    assert found.choice.epsilon == pytest.approx(0.93 * beyond.epsilon, rel=0.01)
    _, hopeless = verify(Lucky(beyond._replace(epsilon=4 * border)), simulator)
    assert [attempt.meets_targets for attempt in hopeless] == ["no"] * 4
    assert found.seed > SEED, "users who verify have no part in the search"


def test_recorded_users_search_or_verify(tmp_path, monkeypatch):
    """No user does both, as those who were searched with would confirm their own luck."""
    rows = {"user": np.repeat(np.arange(60), 12), "object": np.random.default_rng(SEED).integers(2, size=720)}
    pl.DataFrame(rows).write_parquet(tmp_path / "traces.parquet")
    text = COIN.replace("count = 100", 'traces = "traces.parquet"')
    (tmp_path / "mine.toml").write_text(text)
    mine = load_scenario(tmp_path / "mine.toml")
    played, given = {}, Simulator.outcomes

    def outcomes(simulator, game, users, seed=None):
        played.setdefault(seed in (None, SEED), set()).update(users)
        return given(simulator, game, users, seed)

    monkeypatch.setattr(Simulator, "outcomes", outcomes)
    question = question_of(mine, max_exposed=0.3, threshold=0.7, users=400, mechanisms=["grr"])
    simulator = simulator_of(mine, question, SEED, Local(threads=1), SILENT)
    (candidate,) = candidates_of(simulator, tmp_path)
    candidate.played(1.0, candidate.max_users)
    found, _ = verify(Lucky(Deployment(kind="grr", epsilon=1.0, cap=2)), simulator)
    assert played[False] == set(found.users)
    assert len(played[True]) > 5 < len(found.users)
    assert played[True].isdisjoint(found.users)


def test_a_contradicted_cap_is_not_verified_below_one_report(coin):
    question = question_of(coin, max_exposed=0.1, threshold=0.7, max_error=0.012, devices=2000, users=400)
    simulator = simulator_of(coin, question, SEED, Local(threads=1), SILENT)
    both = [Deployment(kind="grr", epsilon=4.0, cap=cap) for cap in (2, 1)]
    found, attempts = verify(Lucky(*both), simulator)
    assert [(attempt.epsilon, attempt.cap) for attempt in attempts] == [(4.0, 2), (4.0, 1)]
    assert found.choice.cap == 1


@pytest.mark.slow
def test_the_same_question_has_the_same_answer(small, done):
    with unshuffled():
        again = advise(small, max_exposed=0.1, **ASKED, engine=Local(threads=1)).as_json()
    facts = done.as_json()
    assert {**again, "seconds": 0} == {**facts, "seconds": 0}


@pytest.mark.slow
def test_a_looser_target_allows_no_smaller_epsilon(small, done):
    with unshuffled():
        loose = advise(small, max_exposed=0.3, **ASKED)
    for one, other in zip(done.findings, loose.findings, strict=True):
        assert one.epsilon_min == other.epsilon_min
        assert one.epsilon_max is None or one.epsilon_max.low <= other.epsilon_max.high
        assert one.at_epsilon_min.cap.value <= other.at_epsilon_min.cap.value


@pytest.mark.slow
def test_bounds_are_never_below_the_attack(small):
    found = advise(small, max_exposed=0.1, **ASKED).recommendation
    assert found.precision.low <= found.success_bound
    assert found.shuffle_epsilon < found.shuffle_epsilon_total <= found.cap * found.shuffle_epsilon
    assert found.shuffle_epsilon < shuffle_epsilon(found.epsilon, 20_000, 1e-6), "the bound is of the mechanism"
    assert found.errors.rmse == pytest.approx(found.empirical_errors.rmse, rel=0.25)
    assert found.errors.rmse <= 0.02


def test_the_bounds_for_a_shuffler_are_of_one_report_and_of_the_cap(done):
    found = done.recommendation
    assert found.cap > 1
    assert found.shuffle_epsilon == pytest.approx(stand_in(found.epsilon, ASKED["devices"], 1e-6))
    assert found.shuffle_epsilon_total == pytest.approx(found.cap * found.shuffle_epsilon)


def test_verified_users_are_shown_by_preferred_pool(small, done):
    """The pools have all verified users among them, and as many exposed ones as the share at the cap says."""
    found = done.recommendation
    assert [one.pool for one in found.by_pool] == list(small.universe().pool_names)
    assert sum(one.users for one in found.by_pool) == found.users
    exposed = sum(one.users * one.exposed.value for one in found.by_pool)
    assert exposed == pytest.approx(found.users * found.exposed_at_cap.value)
    assert {(one.n, one.exposed_at) for one in found.by_pool} == {(found.cap, done.question.threshold)}
    facts = done.as_json()["recommendation"]["by_pool"]
    assert [one["exposed_high"] for one in facts] == [one.exposed.high for one in found.by_pool]


def test_pools_above_the_target_are_named(done):
    """By their interval; a pool of few users, and one that may be below the target, is not."""
    one, *_ = done.recommendation.by_pool
    shares = {"often": (60, 200), "few": (9, 10), "perhaps": (22, 200), "seldom": (2, 200)}
    pools = tuple(
        replace(one, pool=name, users=users, exposed=share_of(exposed, users))
        for name, (exposed, users) in shares.items()
    )
    (note,) = pools_above(replace(done.recommendation, by_pool=pools), done.question)
    assert re.search(r"often 30% \(95% CI 24–37%\)\.$", note)
    assert not list(pools_above(replace(done.recommendation, by_pool=pools[1:]), done.question))


def test_what_the_answer_hangs_on(done):
    about = {case.about for case in done.sensitivity}
    assert about == {"all", "behavior", "users", "adversary", "pools"}
    cases = {case.variant.partition(":")[0]: case for case in done.sensitivity}
    assert cases["light"].exposed.value <= cases["heavy"].exposed.value
    assert sum(cases[name].users for name in ("light", "middle", "heavy")) == cases["all users"].users
    assert cases["knows the popularity exactly"].users == 800
    half, double = (scenario.universe() for _, scenario in resized(done.scenario))
    assert (half.size, double.size) == (30 - 15 + 6, 30 + 15)


def test_pools_of_an_adversary_may_not_fit_a_smaller_universe():
    scenario = parse(SMALL, name="small")
    own = {"name": "own", "popularity": "uniform", "pools": {"a": ["0:5"], "b": [28, 29]}}
    assert [word for word, _ in resized(scenario)] == ["half the size", "double the size"]
    found = dict(resized(scenario.replace({"adversary": [own]})))
    assert list(found) == ["double the size"]
    assert found["double the size"].game(0).adversaries[0].universe.size == 45


# What cannot be asked


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"max_exposed": 0}, "`max_exposed` must be above 0 and below 1, got 0"),
        ({"max_exposed": 1.0}, "`max_exposed` must be above 0"),
        ({"max_exposed": math.nan}, "`max_exposed` must be above 0"),
        ({"max_exposed": -0.1}, "`max_exposed` must be above 0"),
        ({"threshold": math.nan}, "`threshold` must be above 0"),
        (
            {"threshold": 0.3},
            "`threshold` must be above 0.333, the largest prior of a pool",
        ),
        ({"max_error": 0.1}, "`max_error` must come with `devices`"),
        ({"devices": 10}, "`devices` must come with `max_error`"),
        ({"max_error": 0.0, "devices": 10}, "`max_error` must be above 0"),
        ({"max_error": math.nan, "devices": 10}, "`max_error` must be above 0"),
        ({"max_error": 0.1, "devices": 0}, "`devices` must be at least 1"),
        ({"max_error": 1e-6, "devices": 1000}, "`max_error` must be at least 0.005"),
        ({"horizon": 0}, "`horizon` must be at least 1"),
        ({"horizon": 5, "days": 5}, "must not be both `horizon` and `days`"),
        ({"days": math.nan}, "`days` must be long enough"),
        ({"users": 0}, "`users` must be at least 1"),
        ({"tolerance": 0}, "`tolerance` must be above 0"),
        ({"epsilon": (2, 1)}, "epsilon: must be LOW:HIGH with 0 < LOW < HIGH, got '2:1'"),
        ({"epsilon": (math.nan, 1)}, "epsilon: must be LOW:HIGH"),
        ({"mechanisms": ["grrr"]}, "mechanism: must be a known mechanism, got 'grrr'; did you mean 'grr'"),
        ({"mechanisms": ["identity"]}, "mechanism: must have an epsilon parameter, got 'identity'"),
        (
            {"adversary": "stronk"},
            "adversary: must be an adversary of the scenario, got 'stronk'; did you mean 'strong'",
        ),
        (
            {"max_exposed": 0.001, "epsilon": (9, 10), "mechanisms": ["grr"]},
            "no mechanism exposes at most 0.001 of the users",
        ),
        (
            {"max_error": 0.03, "devices": 50, "mechanisms": ["grr"], "epsilon": (0.1, 0.2)},
            "no mechanism meets an error of 0.03",
        ),
    ],
)
def test_bad_questions_are_one_line(small, asked, message, tmp_path):
    with pytest.raises(InputError, match=re.escape(message)) as error:
        advise(small, **{"max_exposed": 0.1, "users": 50, **asked}, out=tmp_path / "out")
    assert "\n" not in str(error.value)
    assert not list(tmp_path.iterdir())


def test_days_need_a_rate(coin, small):
    with pytest.raises(InputError, match="`days` must have a scenario with reports_per_day"):
        question_of(coin, max_exposed=0.1, days=10)
    assert question_of(small, max_exposed=0.1, days=4).horizon == 8
    assert question_of(small, max_exposed=0.1).horizon == 10
    assert question_of(small, max_exposed=0.1).adversary == "strong"
    with pytest.raises(InputError, match=r"must be LOW:HIGH, as 0\.5:8, got '1'"):
        parse_range("1")


# The folder and the command


def test_the_recommended_scenario_is_what_was_verified(done, small, tmp_path):
    done.write(tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"advice.json", "recommended.toml"}
    loaded = load_scenario(tmp_path / "out" / "recommended.toml")
    chosen = done.recommendation
    assert (loaded.mechanism.kind, loaded.mechanism.epsilon) == (chosen.mechanism, chosen.epsilon)
    assert (loaded.devices.cap, loaded.attack.threshold) == (chosen.cap, 0.9)
    assert loaded.attack.observations[-1] == 10
    assert loaded.game(1).mechanism.epsilon == chosen.epsilon
    content = json.loads((tmp_path / "out" / "advice.json").read_text())
    assert content["recommendation"]["exposed"] == chosen.exposed.value
    with pytest.raises(InputError, match="is not empty"):
        done.write(tmp_path / "out")


def test_files_that_a_scenario_names_come_along(tmp_path):
    (tmp_path / "in").mkdir()
    objects = "object,pool\n" + "".join(f"o{i},{'ab'[i % 2]}\n" for i in range(8))
    (tmp_path / "in" / "objects.csv").write_text(objects)
    text = re.sub(r"size = 2\n.*\n", 'objects = "objects.csv"\n', COIN)
    (tmp_path / "in" / "mine.toml").write_text(text)
    mine = load_scenario(tmp_path / "in" / "mine.toml")
    advise(mine, max_exposed=0.2, threshold=0.7, users=60, mechanisms=["grr"], out=tmp_path / "out")
    assert load_scenario(tmp_path / "out" / "recommended.toml").universe().size == 8


def test_a_share_of_events_is_capped_in_reports(small):
    half = parse(SMALL + "[devices]\nsampling_rate = 0.5\ncap = 3\n", name="half")
    question = question_of(half, max_exposed=0.1, horizon=10)
    made = recommended_scenario(half, Deployment(kind="grr", epsilon=1.0, cap=10), question)
    assert (made.devices.cap, made.devices.sampling_rate) == (5, 0.5)
    assert simulator_of(half, question, 0, Local(), SILENT).scenario.devices.cap is None


def test_the_command(tmp_path):
    (tmp_path / "coin.toml").write_text(COIN)
    asked = ["advise", "coin.toml", "--max-exposed", 0.2, "--horizon", 6, "--mechanism", "grr,oue", "--users", 60]
    ran = poolscope(*asked, "--epsilon", "0.2:8", "--out", "out", cwd=tmp_path, COLUMNS="80")
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    assert all(len(row) <= 80 for row in ran.stdout.splitlines()[:-1])
    assert "Which mechanism, ε and cap expose at most 20% of users" in ran.stdout
    played = poolscope("audit", "out/recommended.toml", "--users", 20, "--out", "run", cwd=tmp_path)
    assert played.returncode == 0, played.stderr
    bad = poolscope(*asked, "--max-error", 0.1, "--out", "other", cwd=tmp_path)
    assert (bad.returncode, len(bad.stderr.splitlines())) == (2, 1)
    assert "--max-error must come with --devices" in bad.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["coin.toml", "out", "run"]


def test_a_question_that_nothing_meets_ends_with_one(tmp_path):
    """And leaves what it found all the same."""
    (tmp_path / "coin.toml").write_text(COIN)
    asked = ["--max-exposed", 0.1, "--threshold", 0.8, "--max-error", 0.012, "--devices", 2000, "--users", 60]
    ran = poolscope("advise", "coin.toml", *asked, "--mechanism", "grr", "--out", "out", cwd=tmp_path)
    assert (ran.returncode, ran.stderr) == (1, "")
    assert "No configuration meets both targets." in ran.stdout
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"advice.html", "advice.json", "recommended.toml"}
    assert json.loads((tmp_path / "out" / "advice.json").read_text())["recommendation"]["meets_targets"] == "no"


def test_words_follow_what_was_found(done):
    assert "held-out users" in done.sentence
    assert not re.search(r"\b(un)?safe\b", " ".join([done.sentence, *done.notes, *done.assumptions]))
    for kept, words in (("no", "did not confirm the first choice:"), ("yes", "showed that the first choice could be")):
        attempt = replace(done.recommendation.attempts[0], meets_targets=kept)
        contradicted = replace(done.recommendation, attempts=(attempt, attempt))
        notes = list(notes_of(done.findings, contradicted, done.question))
        assert any(f"Held-out users {words}" in note and "refined 1 time;" in note for note in notes)
    odd = [replace(finding, monotone=False) for finding in done.findings]
    assert any(
        "smaller epsilon exposed significantly more" in note for note in notes_of(odd, contradicted, done.question)
    )
    assert np.all(np.diff([share.value for share in done.curve]) >= 0)
