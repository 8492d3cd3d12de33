"""Scenarios with several collections: what they are made of, and one line for what is wrong."""

import copy
import json

import jsonschema
import numpy as np
import pytest
from cases.collections import DOMAINS, EMOJIS, WORDS, scenario

import poolscope as ps
from poolscope.core.errors import InputError
from poolscope.scenario.collections import build_joint_game
from poolscope.scenario.json_schema import scenario_schema

TEXT = """# a person
title = "Two"
[attribute]
name = "leaning"
values = ["left", "right"]
[[collection]]
name = "emojis"
link = 0.8 # invented
universe = { size = 30, pools = { left = 6, right = 6 } }
popularity = { kind = "zipf", exponent = 1.0 }
[collection.mechanism]
kind = "grr"
epsilon = 3
[[collection]]
name = "domains"
universe = { size = 20, pools = { right = 5, left = 4 } }
popularity = { kind = "uniform" }
mechanism = { kind = "oue", epsilon = 2 }
[[adversary]]
name = "strong"
popularity = "true"
[attack]
observations = [3, 10]
"""


def changed(place, value):
    """The tables of a scenario with one key set; None removes it."""
    tables = copy.deepcopy(scenario().to_dict())
    *path, last = place
    inner = tables
    for step in path:
        inner = inner[step]
    if value is None:
        del inner[last]
    else:
        inner[last] = value
    return tables


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (["colection"], [], "colection: unknown key; did you mean 'collection'?"),
        (["collection", 1, "linc"], 0.5, "collection[1].linc: unknown key; did you mean 'link'?"),
        (["collection", 1, "link"], 1.5, "collection[1].link: must be at most 1, got 1.5"),
        (["collection", 1, "link"], [[1, 0], [0.5, 0.4]], "collection[1].link: rows of a link must sum to 1"),
        (["collection", 1, "link"], "../link.csv", "collection[1].link: must be a path inside"),
        (["collection", 1, "name"], "emojis", "collection[1].name: must be unique, got 'emojis'"),
        (["collection", 0, "name"], "joint", "collection[0].name: is a name of several collections in results"),
        (["collection", 0, "name"], "without x", "collection[0].name: is a name of several collections in results"),
        (["collection", 0, "universe", "size"], 3, "collection[0].universe.pools: must fit into the universe"),
        (["collection", 0, "mechanism"], None, "collection[0].mechanism: is missing"),
        (["attribute"], None, "attribute: is missing"),
        (["attribute", "values"], ["left"], "attribute.values: must have at least 2 entries"),
        (["attribute", "values"], ["left", "left"], "attribute.values: must be different"),
        (["collection"], None, "attribute: requires [[collection]]"),
        (["devices"], {"cap": 3}, "devices: belongs to a [[collection]]"),
        (["mechanism"], {"kind": "grr", "epsilon": 1}, "mechanism: belongs to a [[collection]]"),
        (["users", "none"], 0.1, "users.none: cannot be combined with [[collection]]"),
        (["adversary", 0, "pools"], {"a": [1], "b": [2]}, "adversary[0].pools: cannot be combined with [[collection]]"),
        (["adversary", 0, "links"], {"emoji": 0.5}, "adversary[0].links.emoji: unknown collection; did you mean"),
        (["adversary", 0, "prior"], {"pools": {"left": 1, "wright": 1}}, "adversary[0].prior.pools.wright: unknown"),
        (["adversary", 0, "prior"], {"pools": {"left": 1}}, "adversary[0].prior.pools.right: is missing"),
        (["adversary", 0, "prior"], {"pools": "popularity"}, "adversary[0].prior.pools: must not be fitted"),
        (["adversary", 0, "prior"], {"none": 0.2}, "adversary[0].prior.none: cannot be combined with"),
    ],
)
def test_what_is_wrong_is_one_line(place, value, message):
    with pytest.raises(InputError) as caught:
        ps.Scenario.from_dict(changed(place, value))
    assert str(caught.value).startswith(f"scenario: {message}")


@pytest.mark.parametrize(
    ("link", "message"),
    [
        (0.8, "collection[0].link: every value must be a pool, got 'left'"),
        ([[0.5, 0.5], [0.5, 0.5]], "collection[0].link: must have 2 rows (values) of 3 numbers (pools)"),
        (None, "collection[0].link: every value must be a pool"),
    ],
)
def test_a_link_must_fit_the_pools(link, message):
    words = {key: value for key, value in WORDS.items() if key != "link"} | ({} if link is None else {"link": link})
    with pytest.raises(InputError) as caught:
        build_joint_game(scenario(words), 1)
    assert message in str(caught.value)


def test_links_by_name_number_matrix_and_file(tmp_path):
    (tmp_path / "link.csv").write_text("value,formal,casual,slang\nright,0.1,0.3,0.6\nleft,0.6,0.3,0.1\n")
    tables = scenario(EMOJIS, DOMAINS, WORDS, {**WORDS, "name": "again", "link": "link.csv"}).to_dict()
    found = ps.Scenario.from_dict(tables, folder=tmp_path)
    assert found.named_files == ["link.csv"]
    emojis, domains, words, again = (one.link for one in build_joint_game(found, 1).collections)
    np.testing.assert_allclose(emojis, [[0.8, 0.2], [0.2, 0.8]])
    np.testing.assert_allclose(domains, [[0, 1], [1, 0]])
    np.testing.assert_allclose(again, words)
    np.testing.assert_allclose(words, WORDS["link"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("value,formal,casual\nleft,0.5,0.5\nright,0.5,0.5\n", "must have a column 'slang'"),
        ("value,formal,casual,slang\nleft,0.5,0.5,0\n", "must have a row for each value, got 'right'"),
        ("value,formal,casual,slang\nleft,0.5,0.5,0\nleft,1,0,0\n", "row 2: every row must be another value"),
        ("value,formal,casual,slang\nleft,0.5,0.4,0\nright,1,0,0\n", "rows of a link must sum to 1"),
        ("formal,casual,slang\n0.5,0.5,0\n1,0,0\n", "must have a column 'value'"),
    ],
)
def test_a_wrong_link_file_is_one_line(tmp_path, text, message):
    (tmp_path / "link.csv").write_text(text)
    tables = scenario({**WORDS, "link": "link.csv"}).to_dict()
    with pytest.raises(InputError, match=r"link\.csv") as caught:
        build_joint_game(ps.Scenario.from_dict(tables, folder=tmp_path), 1)
    assert message in str(caught.value)


def test_a_text_is_edited_and_keeps_its_comments(tmp_path):
    path = tmp_path / "two.toml"
    path.write_text(TEXT)
    found = ps.load_scenario(path)
    assert found.text == TEXT
    other = found.replace({"attack.observations": [5]})
    assert "# invented" in other.text
    assert other.attack.observations == (5,)
    (tmp_path / "other.toml").write_text(other.text)
    assert ps.load_scenario(tmp_path / "other.toml").to_dict() == other.to_dict()
    assert ps.Scenario.from_dict(found.to_dict()).to_dict() == found.to_dict()


@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.universe(),
        lambda s: s.mechanism,
        lambda s: s.game(1),
        lambda s: ps.check(s, samples=1000, seed=0),
        lambda s: ps.compare(s, ["grr"], [1.0]),
        lambda s: ps.estimate("reports.parquet", s),
    ],
    ids=["universe", "mechanism", "game", "check", "compare", "estimate"],
)
def test_what_takes_one_collection_refuses_several(call):
    with pytest.raises(InputError, match=r"must have tables \[universe\] and \[mechanism\]; several collections"):
        call(scenario())


def test_parts_are_scenarios_with_even_pools():
    found = scenario(
        {**EMOJIS, "devices": {"memoize": True}},
        DOMAINS,
        adversary=[
            {"name": "a", "popularity": "true", "knows_memoization": False, "prior": {"pools": {"left": 3, "right": 1}}}
        ],
        users={"behavior": {"pools": {"left": 1, "right": 2}, "interest": {"beta": [2, 3]}}},
    )
    memoized, fresh = found.parts
    assert memoized.adversaries[0].knows_memoization is False
    assert "knows_memoization" not in fresh.adversaries[0].model_fields_set
    for part in found.parts:
        assert part.adversaries[0].prior.pools == "uniform"
        assert part.users.behavior.pools == "uniform"
        assert part.users.behavior.interest.beta == (2, 3)
    game = build_joint_game(found, 1)
    np.testing.assert_allclose(game.prior, [1 / 3, 2 / 3])
    np.testing.assert_allclose(game.beliefs["a"], [3 / 4, 1 / 4])


def test_the_schema_knows_both_kinds():
    schema = json.loads(json.dumps(scenario_schema()))
    validator = jsonschema.Draft202012Validator(schema)
    assert not list(validator.iter_errors(scenario(EMOJIS, DOMAINS, WORDS).dump()))
    single = {"universe": {"size": 5, "pools": {"a": 2, "b": 2}}, "mechanism": {"kind": "grr", "epsilon": 1}}
    assert not list(validator.iter_errors(single))
    assert list(validator.iter_errors({"universe": single["universe"]}))
    assert list(validator.iter_errors({"collection": scenario().dump()["collection"]}))
    wrong = scenario().dump()
    wrong["collection"][0]["linc"] = 1
    assert list(validator.iter_errors(wrong))
