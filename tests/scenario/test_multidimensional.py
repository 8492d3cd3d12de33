"""Scenarios with ``[multidimensional]``: the mechanism that they build, and one line for what is wrong."""

import copy
import json

import jsonschema
import numpy as np
import pytest
from cases.tuples import DOMAIN, EMOJI, OPTIONS, WORD, scenario

import poolscope as ps
from poolscope.core.errors import InputError
from poolscope.mechanisms import RSFD, RSRFD, SMP, SPL
from poolscope.scenario.collections import build_joint_game, game_of
from poolscope.scenario.json_schema import scenario_schema
from poolscope.scenario.multidimensional import build_multidimensional, tuple_label


def changed(place, value, kind="rs+fd"):
    """The tables of a scenario with one key set; None removes it."""
    tables = copy.deepcopy(scenario(kind, options=OPTIONS[kind]).to_dict())
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
        (["multidimensional", "kind"], "rsfd", "multidimensional.kind: must be"),
        (["multidimensional", "epsilon"], None, "multidimensional.epsilon: is missing"),
        (["multidimensional", "epsilon"], 0, "multidimensional.epsilon: must be positive, got 0"),
        (
            ["multidimensional", "claimed_epsilon"],
            1.0,
            "multidimensional.claimed_epsilon: requires a table without",
        ),
        (
            ["multidimensional", "randomiser"],
            "grr",
            "multidimensional.randomiser: unknown key; did you mean 'randomizer'",
        ),
        (["multidimensional", "randomizer"], "cms", "multidimensional.randomizer: must be"),
        (["multidimensional", "fake"], "zero", "multidimensional.fake: is for sue and oue"),
        (["multidimensional", "priors"], "popularity", 'multidimensional.priors: requires kind = "rs+rfd"'),
        (["collection", 0, "mechanism"], {"kind": "cms"}, "collection[0].mechanism.kind: must be grr, sue, oue"),
        (["collection", 1, "mechanism"], {"kind": "oue", "epsilon": 1.0}, "collection[1].mechanism.epsilon: is common"),
        (["collection", 1, "devices"], {"cap": 3}, "collection[1].devices: is common with [multidimensional]"),
        (["collection"], [EMOJI], "collection: must be two or more with [multidimensional], got 1"),
        (["devices"], {"memoize": True}, "devices.memoize: cannot be combined with [multidimensional]"),
        (["devices"], {"rotate_after": 3}, "devices.rotate_after: cannot be combined with [multidimensional]"),
        (
            ["adversary", 0],
            {"name": "a", "popularity": "estimated", "estimate_from": 10, "method": "ibu"},
            "adversary[0].method: must be linear with [multidimensional], got 'ibu'",
        ),
        (["attribute"], None, "attribute: is missing"),
        (["collection"], None, "requires [[collection]]"),
    ],
)
def test_what_is_wrong_is_one_line(place, value, message):
    with pytest.raises(InputError) as caught:
        ps.Scenario.from_dict(changed(place, value))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (
            "spl",
            {"claimed_epsilon": 1.0, "epsilon": None},
            'claimed_epsilon: requires kind = "rs+fd" or "rs+rfd"',
        ),
        ("smp", {"fake": "zero"}, 'fake: requires kind = "rs+fd"'),
        ("rs+rfd", {}, "multidimensional.priors: is missing"),
        ("rs+rfd", {"priors": {"emoji": "a.csv"}}, "multidimensional.priors.domain: is missing"),
        (
            "rs+rfd",
            {"priors": {"emojis": "a.csv", "domain": "b.csv"}},
            "priors.emojis: unknown collection; did you mean",
        ),
        ("rs+rfd", {"priors": {"emoji": "../a.csv", "domain": "b.csv"}}, "must be a path inside"),
    ],
)
def test_options_go_with_their_kind(kind, options, message):
    with pytest.raises(InputError) as caught:
        scenario(kind, options=options)
    assert message in str(caught.value)


def test_a_column_of_smp_is_no_collection():
    with pytest.raises(InputError, match=r"collection\[0\].name: is another column of tuple reports, got 'sampled'"):
        scenario("smp", {**EMOJI, "name": "sampled"}, DOMAIN)
    assert scenario("spl", {**EMOJI, "name": "sampled"}, DOMAIN).parts[0].name == "sampled"


@pytest.mark.parametrize("kind", OPTIONS)
def test_the_mechanism_is_the_library_s(kind):
    found = build_multidimensional(scenario(kind, EMOJI, DOMAIN, WORD, options=OPTIONS[kind]))
    assert type(found) is {"spl": SPL, "smp": SMP, "rs+fd": RSFD, "rs+rfd": RSRFD}[kind]
    assert found.attributes == {"emoji": 8, "domain": 5, "word": 4}
    assert found.epsilon == 3.0
    inner = {part.randomizer.epsilon for part in found.parts}
    assert inner == {1.0 if kind == "spl" else 3.0}
    assert [part.mechanism.epsilon for part in scenario(kind, EMOJI, DOMAIN, WORD, options=OPTIONS[kind]).parts] == [
        *inner,
        *inner,
        *inner,
    ]


def test_a_claimed_epsilon_is_not_the_one_that_holds():
    options = {"epsilon": None, "claimed_epsilon": 2.0}
    found = build_multidimensional(scenario("rs+fd", EMOJI, DOMAIN, WORD, options=options))
    assert found.epsilon == pytest.approx(3.004, abs=5e-4)
    assert found.claimed_epsilon == pytest.approx(2.0)


def test_a_collection_may_name_its_randomizer_and_fakes_are_options():
    one = {**EMOJI, "mechanism": {"kind": "oue"}}
    found = build_multidimensional(scenario("rs+fd", one, DOMAIN, options={"fake": "random"}))
    assert [type(part.randomizer).__name__ for part in found.parts] == ["OUE", "GRR"]
    np.testing.assert_allclose(found.parts[0].fake, 1 / 8)
    found = build_multidimensional(scenario("rs+fd", one, DOMAIN))
    assert found.parts[0].fake is None


def test_priors_are_uniform_popularities_or_files(tmp_path):
    made = {}
    for priors in ("uniform", "popularity", {"emoji": "emoji.csv", "domain": "domain.csv"}):
        tables = scenario("rs+rfd", options={"priors": priors}).to_dict()
        for name, size in (("emoji", 8), ("domain", 5)):
            rows = "".join(f"{z},{z + 1}\n" for z in range(size))
            (tmp_path / f"{name}.csv").write_text("object,popularity\n" + rows)
        found = ps.Scenario.from_dict(tables, folder=tmp_path)
        made[str(priors)] = [part.fake for part in build_multidimensional(found).parts]
        assert set(found.named_files) == (set(priors.values()) if isinstance(priors, dict) else set())
    uniform, popular, read = made.values()
    np.testing.assert_allclose(uniform[1], 0.2)
    assert popular[0] == pytest.approx(scenario("spl").parts[0].true_popularity(scenario("spl").parts[0].universe()))
    np.testing.assert_allclose(read[1], np.arange(1, 6) / 15)


@pytest.fixture(scope="module")
def schema():
    found = scenario_schema()
    jsonschema.Draft202012Validator.check_schema(found)
    return jsonschema.Draft202012Validator(found)


@pytest.mark.parametrize("kind", OPTIONS)
def test_the_schema_knows_the_tables(kind, schema):
    tables = scenario(kind, {**EMOJI, "mechanism": {"kind": "oue"}}, DOMAIN, options=OPTIONS[kind]).to_dict()
    schema.validate(json.loads(json.dumps(tables)))
    del tables["multidimensional"]
    with pytest.raises(jsonschema.ValidationError):
        schema.validate(tables)


def test_a_text_is_read_and_edited(tmp_path):
    path = tmp_path / "tuples.toml"
    path.write_text("# mine\n" + scenario("rs+fd").text)
    found = ps.load_scenario(path)
    assert found.text.startswith("# mine\n")
    other = found.replace({"multidimensional.epsilon": 1.5})
    assert build_multidimensional(other).epsilon == 1.5
    assert other.text.startswith("# mine\n")


def test_tuples_are_labeled_by_objects(tmp_path):
    (tmp_path / "objects.csv").write_text("object,pool\nsmile,left\nfrown,right\n")
    named = {"name": "face", "universe": {"objects": "objects.csv"}, "popularity": {"kind": "uniform"}}
    found = ps.Scenario.from_dict(scenario("spl", named, DOMAIN).to_dict(), folder=tmp_path)
    mechanism, universes = build_multidimensional(found), [part.universe() for part in found.parts]
    assert tuple_label(mechanism, universes, 7) == "('frown', 2)"


def test_too_many_combinations_are_refused_before_a_game():
    pools = dict.fromkeys(("left", "right"), 1)
    many = [{**DOMAIN, "name": f"c{i}", "universe": {"size": 5, "pools": pools}} for i in range(6)]
    with pytest.raises(InputError, match="tuples: collection: pools of all attributes together have too many"):
        game_of(scenario("rs+fd", *many), 1)
    assert len(game_of(scenario("smp", *many), 1).collections) == 6


def test_tuples_are_not_played_as_single_collections():
    with pytest.raises(InputError, match=r"must not have a table \[multidimensional\]; tuples are for audit"):
        build_joint_game(scenario("smp"), 1)


def test_devices_are_common():
    found = game_of(scenario("rs+fd", devices={"reports_per_day": 2, "cap": 5}), 1)
    assert [one.game.policy.cap for one in found.collections] == [5, 5]
    assert [one.game.horizon for one in found.collections] == [16, 16]
    assert found.policy.cap == 5
    sampled = game_of(scenario("smp", devices={"sampling_rate": 0.6}), 1)
    assert [one.game.policy.sampling_rate for one in sampled.collections] == [0.3, 0.3]
    assert sampled.policy.sampling_rate == 0.6
