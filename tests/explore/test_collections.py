"""The explorer of several collections: controls of each, answers as an audit has them, one user in order of time."""

import json
import tomllib

import altair as alt
import numpy as np
import polars as pl
import pytest
from cases.collections import DOMAINS, EMOJIS, WORDS, scenario
from cases.explorer import events, fetched, query, serving

import poolscope as ps
from poolscope.core.errors import InputError
from poolscope.core.executors import Local
from poolscope.explore import view
from poolscope.explore.answers import Games
from poolscope.explore.controls import collection_controls
from poolscope.explore.growing import answers, first_sample, whole_sample
from poolscope.explore.joint_user import joint_user_history
from poolscope.explore.server import HEADERS, explorer_of
from poolscope.explore.settings import Scenarios, Setting, setting_text
from poolscope.game.joint_block import play_joint_block
from poolscope.scenario.collections import build_joint_game
from poolscope.scenario.scenario import parse

SEED = 3
START = {"scenario": "two", "seed": SEED}
WEAK = {"name": "weak", "popularity": "uniform"}
ESTIMATING = {"name": "strong", "popularity": "estimated", "estimate_from": 20_000}
CHANGES = {"n": 9, "collection[0].mechanism.epsilon": 2.5, "collection[1].devices.cap": 4, "collection[0].link": 0.6}


def estimating():
    """Two collections, whose strong adversary estimates in both."""
    return scenario(adversary=[WEAK, ESTIMATING], attack={"estimates": 3, "observations": [3, 10, 20]})


def joint(**changes):
    """The shelf with two collections, whose strong adversary estimates in both, and a setting of it."""
    shelf = Scenarios(estimating())
    return shelf, Setting(scenario="collections", changes=changes, seed=SEED)


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    path = tmp_path_factory.mktemp("collections") / "two.toml"
    path.write_text(estimating().text)
    with serving(explorer_of(str(path), SEED)) as found:
        yield found


def test_answers_are_those_of_an_audit(address, tmp_path, monkeypatch):
    monkeypatch.setattr("poolscope.explore.answers.SAMPLE_SIZES", (48, 96))
    setting = START | {"changes": CHANGES}
    text = fetched(address + query("answers", setting))[2]
    found, ended = events(text)
    assert ended, text[-300:]
    facts = [answer for answer in found if "results" in answer]
    assert [answer["users"] for answer in facts] == [48, 48, 96]
    assert facts[0]["waiting"] == ["strong"]
    assert {record["adversary"] for record in facts[0]["results"]} == {"weak", "non-private"}
    changed = parse(fetched(address + query("toml", setting))[2], name="two")
    audit = ps.audit(changed, tmp_path / "run", users=96, seed=SEED, html=False)
    expected = [record.as_json() for record in audit.results if record.n == 9]
    assert facts[2]["results"] == expected
    assert {record["collection"] for record in expected} == {
        *("joint", "emojis", "domains"),
        *("without emojis", "without domains"),
    }
    words = next(row for row in audit.collections.exposures if (row.adversary, row.n) == ("strong", 9))
    assert f"{round(100 * words.exposed.value)}% of the users" in facts[2]["words"]
    assert len(facts[2]["alone"]) == 2
    # of two collections, all but one is the other alone
    rows = [row["head"] for block in facts[2]["by_collection"]["blocks"] for row in block["rows"]]
    assert set(rows) == {"joint", "emojis", "domains"}


@pytest.fixture(scope="module")
def answer():
    """What 60 users say of the first 9 days."""
    shelf, setting = joint(n=9)
    sample = whole_sample(*shelf.played(setting), SEED, Games(), Local())
    sample.grow(60)
    return sample.answer()


def test_figures_show_all_collections_beside_each_alone(answer):
    pictures = view.pictures(answer)
    assert set(pictures) == {"exposure", "auc_pn", "contributions"}
    for picture in pictures.values():
        alt.FacetChart.validate(picture)
    assert set(answer.exposure["collection"]) == {"joint", "emojis", "domains"}
    assert set(answer.exposure["adversary"]) == {"weak", "strong"}
    assert answer.exposure["n"].max() == 20
    assert {(one.collection, one.n) for one in answer.days} == {
        (name, day) for name in ("joint", "emojis", "domains") for day in (3, 9, 10, 20)
    }
    at_n = next(row for row in answer.exposure.filter(pl.col("n") == 9).iter_rows(named=True))
    record = next(one for one in answer.results if (one.collection, one.adversary) == ("joint", "weak"))
    assert at_n["share"] == record.exposed_share.value
    assert (at_n["low"], at_n["high"]) == (record.exposed_share.low, record.exposed_share.high)


def test_the_page_has_its_headers_and_every_collection_its_controls(address):
    status, headers, _ = fetched(address)
    assert status == 200
    assert all(headers[name] == value for name, value in HEADERS.items())
    found = json.loads(fetched(address + "controls?scenario=two")[2])
    assert [one["name"] for one in found["collections"]] == ["emojis", "domains"]
    keys = [control["key"] for control in found["collections"][1]["controls"]]
    assert keys[:5] == [
        f"collection[1].{key}"
        for key in ("mechanism.kind", "mechanism.epsilon", "devices.reports_per_day", "devices.cap", "link")
    ]
    assert {control["key"] for control in found["controls"]} >= {"n", "attack.threshold"}
    values = {control["key"]: control["value"] for one in found["collections"] for control in one["controls"]}
    assert (values["collection[0].link"], values["collection[1].link"]) == (0.8, 1)
    assert values["collection[0].devices.reports_per_day"] == 2


def test_a_scenario_of_one_collection_has_the_controls_that_it_had(address):
    found = json.loads(fetched(address + "controls?scenario=apple-emojis")[2])
    assert found["collections"] == []
    assert found["controls"][0]["key"] == "mechanism.kind"
    assert "apple-collections" in Scenarios().names


def test_a_link_that_is_a_matrix_cannot_be_set():
    _, groups = collection_controls(scenario(EMOJIS, WORDS))
    why = [next(c for c in one["controls"] if c["key"].endswith("].link")).get("why") for one in groups]
    assert why[0] is None
    assert "matrix" in why[1]


def test_the_toml_has_what_was_changed_and_nothing_else(address):
    before = tomllib.loads(fetched(address + query("toml", START))[2])
    after = tomllib.loads(fetched(address + query("toml", START | {"changes": CHANGES}))[2])
    assert after["attack"]["observations"] == [3, 9, 10, 20]
    before["attack"], (first, second) = after["attack"], before["collection"]
    first["mechanism"]["epsilon"], first["link"], second["devices"] = 2.5, 0.6, {"cap": 4}
    assert after == before


def test_memoization_can_be_turned_off_in_the_last_collection_that_has_it():
    memoized = {**DOMAINS, "mechanism": {"kind": "grr", "epsilon": 2.0}, "devices": {"memoize": True}}
    knowing = [{**WEAK, "knows_memoization": False}]
    shelf = Scenarios(scenario(EMOJIS, memoized, adversary=knowing))
    changed = shelf.changed(Setting(scenario="collections", changes={"collection[1].devices.memoize": False}))
    assert not changed.memoizes
    assert "knows_memoization" not in changed.to_dict()["adversary"][0]
    other = shelf.changed(Setting(scenario="collections", changes={"collection[0].devices.cap": 5}))
    assert other.to_dict()["adversary"][0]["knows_memoization"] is False


def test_a_setting_in_one_line():
    shelf, setting = joint(**CHANGES)
    assert setting_text(shelf.changed(setting), setting.changes) == (
        "collections: emojis: grr, ε = 2.5, link 0.6; domains: oue, ε = 3, cap 4; n = 9"
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"collection[2].mechanism.epsilon": 1}, "must be below 2"),
        ({"collection[0].universe.objects": "/etc/passwd"}, "unknown key"),
        ({"collection[0].attack.threshold": 0.6}, "unknown key"),
        ({"collection[-1].link": 1}, "unknown key"),
        ({"mechanism.epsilon": 1}, "must be a key of a collection"),
        ({"collection[0].mechanism.epsilon": -1}, "collection[0].mechanism.epsilon"),
        ({"collection[0].link": 2}, "collection[0].link"),
        ({"collection[0].devices.reports_per_day": 500}, "must be at most 2,000"),
        ({"n": 1900}, "must be at most 2,000"),
    ],
)
def test_a_wrong_setting_is_one_line(address, changes, words):
    status, _, text = fetched(address + query("toml", START | {"changes": changes}))
    assert status == 400
    assert words in json.loads(text)["error"]
    assert "\n" not in json.loads(text)["error"]


def test_a_collection_cannot_be_set_where_there_is_one():
    with pytest.raises(InputError, match=r"must have \[\[collection\]\]"):
        Scenarios().changed(Setting(scenario="apple-emojis", changes={"collection[0].mechanism.epsilon": 1}))


@pytest.mark.parametrize("adversary", ["weak", "strong"])
def test_a_user_is_shown_in_order_of_time_up_to_the_posterior_of_the_game(address, adversary):
    setting = START | {"changes": {"n": 10, "collection[1].devices.cap": 4}}
    story = json.loads(fetched(address + query("story", setting, user=7, adversary=adversary))[2])
    changed = parse(fetched(address + query("toml", setting))[2], name="two")
    game = build_joint_game(changed, SEED)
    outcome = play_joint_block(game, range(7, 8), SEED)
    (row,) = outcome.filter(
        (pl.col("collection") == "joint") & (pl.col("adversary") == adversary) & (pl.col("n") == 10)
    ).iter_rows(named=True)
    last = story["steps"][-1]["posterior"]
    assert story["preferred"] == row["pool"]
    np.testing.assert_allclose(last[story["pools"].index(row["pool"])], row["posterior_true"], rtol=1e-9)
    days = [step["day"] for step in story["steps"]]
    assert days == sorted(days)
    assert days[-1] == 10
    counts = [sum(step["collection"] == name for step in story["steps"]) for name in ("emojis", "domains")]
    assert counts == [20, 4]
    # what the reports add is the whole way from the prior to the posterior
    odds = [np.log(p / (1 - p)) for p in (story["prior"][0], last[0])]
    sign = 1 if story["preferred"] == story["pools"][0] else -1
    assert sum(step["evidence"] for step in story["steps"]) == pytest.approx(sign * (odds[1] - odds[0]), rel=1e-6)
    assert all(sum(step["support"]) == pytest.approx(1) for step in story["steps"])


def test_a_new_pseudonym_starts_from_the_prior():
    rotated = {**DOMAINS, "devices": {"reports_per_day": 2, "rotate_after": 7}}
    found = joint_user_history(build_joint_game(scenario(rotated), 5), 3, 5, days=10)
    assert len(found.steps) == 20
    for step in (found.steps[7], found.steps[14]):
        (share,) = [p for value, p in zip(found.pools, step.posterior, strict=True) if value == found.preferred]
        assert step.evidence == pytest.approx(np.log(share / (1 - share)), rel=1e-9), "odds of the prior are 1"


@pytest.mark.parametrize(
    ("user", "adversary", "words"), [(-1, None, "no such user"), (0, "nobody", "unknown adversary")]
)
def test_an_unknown_user_or_adversary_is_one_line(user, adversary, words):
    with pytest.raises(InputError, match=words):
        joint_user_history(build_joint_game(scenario(), 5), user, 5, adversary)


def test_a_wrong_link_is_said_to_be_overconfident():
    sharp = {**EMOJIS, "link": 0.65, "mechanism": {"kind": "grr", "epsilon": 7.0}, "devices": {"reports_per_day": 3}}
    believers = [
        {"name": "right", "popularity": "true"},
        {"name": "wrong", "popularity": "true", "links": {"emojis": 1.0}},
        {"name": "said", "popularity": "true", "links": {"emojis": 0.65}},
    ]
    sample, _ = first_sample(scenario(sharp, DOMAINS, adversary=believers), 20, SEED, Games(), Local())
    sample.grow(1000)
    answer = sample.answer()
    (caution,) = answer.about.cautions
    assert answer.strongest_attack.adversary != "wrong"
    assert "to the wrong adversary" not in answer.words, "an overconfident adversary exposes more, and wrongly"
    assert caution.startswith("The wrong adversary assumes another link for emojis")
    assert "overconfident" in caution


def test_a_day_before_the_first_report_is_answered():
    seldom = {**DOMAINS, "devices": {"reports_per_day": 0.1}}
    found = scenario(EMOJIS, seldom)
    answer = next(answers(found.replace({"attack.observations": [3, 20]}), 3, SEED, Games(), Local()))
    assert answer.alone[1].rmse is None
    assert answer.alone[1].record.precision_top10.value <= 1
    assert view.answer(answer)["alone"][1][-1]["note"] == "no analytical error"


@pytest.mark.slow
def test_a_comparison_takes_scenarios_of_one_and_of_several(address, monkeypatch):
    monkeypatch.setattr("poolscope.explore.answers.SAMPLE_SIZES", (48,))
    other = {"scenario": "apple-emojis", "seed": SEED, "changes": {"n": 5, "universe.size": 1500}}
    found, ended = events(fetched(address + query("comparison", START, other))[2])
    assert ended
    assert [(row["place"], row["users"]) for row in found] == [(0, 48), (1, 48)]


def test_a_row_of_a_comparison_adds_up_epsilons(answer):
    cells = view.compared(answer)["cells"]
    assert cells[0][1] == "n = 9 days"
    assert cells[6][1] == "largest"
    # 8 per day from two emojis, 3 from a domain
    assert cells[7][0] == "4,015"


def test_a_run_lists_whom_all_collections_expose(tmp_path):
    found = scenario(adversary=[WEAK])
    summary = ps.audit(found, tmp_path / "run", users=30, seed=SEED, html=False)
    with serving(explorer_of(str(tmp_path / "run"), 0)) as address:
        people = json.loads(fetched(address + "people")[2])
        assert (people["users"], len(people["rows"])) == (30, 30)
        growth = json.loads(fetched(address + "growth?row=0")[2])["rows"]
        first = dict(zip(people["columns"], people["rows"][0], strict=True))
        setting = {"scenario": people["scenario"], "seed": SEED, "changes": {"n": first["n"]}}
        story = json.loads(fetched(address + query("story", setting, user=first["user"], adversary="weak"))[2])
    rows = pl.concat(pl.read_parquet(path) for path in sorted((tmp_path / "run").rglob("*.parquet")))
    own = rows.filter(
        (pl.col("user") == int(first["user"])) & (pl.col("collection") == "joint") & (pl.col("adversary") == "weak")
    ).sort("n")
    assert [row["confidence"] for row in growth if row["adversary"] == "weak"] == own["confidence"].to_list()
    assert first["confidence"] == own["confidence"][-1]
    assert first["n"] == summary.horizon
    np.testing.assert_allclose(max(story["steps"][-1]["posterior"]), first["confidence"], rtol=1e-9)
