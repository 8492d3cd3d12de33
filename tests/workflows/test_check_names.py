"""What a check calls objects and mechanisms, and which objects can be asked for."""

import re

import numpy as np
import pytest
from cases.broken import HasLikelihood, Response, Silent, Unary
from cases.synthetic import SEED
from typer.testing import CliRunner

from poolscope.cli.check import names_in, rows, sentence
from poolscope.cli.commands import app
from poolscope.core.errors import InputError
from poolscope.mechanisms import adapt, make
from poolscope.population.universe import Universe
from poolscope.scenario.scenario import load_scenario
from poolscope.workflows.check.check import check

SAMPLES = 4000

NAMES = [f"{kind} {n}" for kind in ("cat", "oak", "rain, hail") for n in range(20)]
POOLS = [pool for pool in ("animals", "plants", "") for _ in range(20)]


@pytest.fixture
def scenario(tmp_path):
    lines = [f'"{name}",{pool}' for name, pool in zip(NAMES, POOLS, strict=True)]
    (tmp_path / "objects.csv").write_text("\n".join(["object,pool", *lines]))
    path = tmp_path / "named.toml"
    path.write_text('[universe]\nobjects = "objects.csv"\n[mechanism]\nkind = "grr"\nepsilon = 3\n')
    return str(path)


@pytest.mark.default_cases("grr", "sue")
@pytest.mark.parametrize("kind", ["grr", "cms", "sue", "olh", "rappor", "ss"])
def test_the_event_is_about_the_objects_whose_reports_are_counted(kind):
    options = {"cms": {"m": 16, "hashes": 4}, "rappor": {"cohorts": 2, "m": 16}}.get(kind, {})
    mechanism = make(kind, 40, {"epsilon": 2.0, **options})
    for seed in range(SEED, SEED + 2):
        shown = check(mechanism, samples=SAMPLES, seed=seed).lower_bound
        named = [
            int(word.strip(","))
            for word, before in zip(shown.event.split()[1:], shown.event.split(), strict=False)
            if before == "object"
        ]
        assert set(named) <= {shown.one, shown.other}, shown
        if "likelier" in shown.event:
            assert named == [shown.one, shown.other]


def test_objects_have_the_names_of_the_scenario(scenario):
    verdict = check(load_scenario(scenario), samples=SAMPLES, seed=SEED)
    found = dict(rows(verdict))
    one, other = (repr(NAMES[z]) for z in (verdict.lower_bound.one, verdict.lower_bound.other))
    assert verdict.name(verdict.lower_bound.one) == one
    assert {f"  object {one}", f"  object {other}"} <= set(found)
    everything = " ".join([*found, *found.values(), sentence(verdict)])
    assert not re.search(r"object \d", everything), "objects have names"
    assert one in found["event"]
    assert f"reports of object {verdict.name(verdict.fit.object)}" in found["likelihood declared, empirical"]


def test_a_value_that_is_an_object_has_its_name():
    """The law is not stated, so that the event is of the column itself."""
    universe = Universe.named(NAMES, POOLS)

    class Declared(Silent):
        report_columns = make("grr", len(NAMES), {"epsilon": 3.0}).report_columns

        def obfuscate(self, objects, rng):
            return {"value": super().obfuscate(objects, rng)}

    verdict = check(Declared(Response(universe=60, epsilon=3.0)), samples=SAMPLES, seed=SEED, universe=universe)
    assert verdict.lower_bound.event == f"value is {NAMES[verdict.lower_bound.one]!r}"


def test_a_mechanism_of_ones_own_has_the_name_of_its_class():
    class Mine(HasLikelihood):
        pass

    own = Mine(Response(universe=4))
    for mechanism in (own, adapt(own, 4)):
        assert check(mechanism, samples=1000, seed=SEED).mechanism == "Mine"
    assert check(own, samples=1000, seed=SEED, name="theirs").mechanism == "theirs"
    assert check(make("grr", 4, {"epsilon": 1.0}), samples=1000, seed=SEED).mechanism == "GRR"


# Objects that are asked for


def test_a_broken_object_is_found_where_it_is_asked_for(scenario):
    """One bit of 300 is never flipped; with so few samples only its own object shows it."""
    mechanism = Silent(Unary(universe=300, unflipped=123))
    assert not check(mechanism, samples=2000, seed=SEED, objects=[7, 123], confidence=0.999).passed
    assert check(mechanism, samples=2000, seed=SEED, objects=[7, 124], confidence=0.999).passed


def test_objects_are_asked_for_by_name_or_number(scenario):
    loaded = load_scenario(scenario)
    verdict = check(loaded, samples=1000, seed=SEED, objects=["oak 3", "cat 1", 40])
    assert verdict.objects == (23, 1, 40)
    assert verdict.names == ("'oak 3'", "'cat 1'", "'rain, hail 0'")
    assert {verdict.lower_bound.one, verdict.lower_bound.other} <= set(verdict.objects)
    assert check(make("grr", 9, {"epsilon": 1.0}), samples=1000, seed=1, objects=["3", 5]).objects == (3, 5)


def test_pools_are_asked_for_by_name(scenario):
    verdict = check(load_scenario(scenario), samples=1000, seed=SEED, pools=["plants", "animals"])
    assert len(verdict.objects) == 12
    assert [sum(POOLS[z] == pool for z in verdict.objects) for pool in ("animals", "plants")] == [6, 6]
    universe = Universe.from_pools(20, {"low": range(3), "high": range(14, 20)})
    asked = check(HasLikelihood(Response()), samples=1000, seed=SEED, universe=universe, pools=["low"]).objects
    assert asked == (0, 1, 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"objects": ["cat 1", "oak33"]}, "must be an object of the universe, got 'oak33'; did you mean 'oak 3'"),
        ({"objects": [1, 60]}, "must be an object of the universe, got 60"),
        ({"objects": ["cat 1"]}, "objects: must be two or more"),
        ({"pools": ["plant"]}, "pools: must be a pool of the universe, got 'plant'; did you mean 'plants'"),
        ({"pools": ["plants"], "objects": [1, 2]}, "pools: objects and pools must not be given together"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(scenario, options, message):
    with pytest.raises(InputError, match=message):
        check(load_scenario(scenario), samples=1000, seed=SEED, **options)


def test_a_mechanism_must_know_its_universe():
    class Unsized:
        epsilon = 1.0

        def obfuscate(self, objects, rng):
            return np.asarray(objects)

    with pytest.raises(InputError, match="must be a scenario or a mechanism, which has universe"):
        check(Unsized(), samples=1000, seed=SEED)
    with pytest.raises(InputError, match="pools need a universe"):
        check(make("grr", 9, {"epsilon": 1.0}), samples=1000, seed=SEED, pools=["low"])
    with pytest.raises(InputError, match="universe: must have the 9 objects of the mechanism, got 8"):
        check(make("grr", 9, {"epsilon": 1.0}), samples=1000, seed=SEED, universe=8)


def test_names_are_separated_by_commas():
    assert names_in(None) is None
    assert names_in("a, b,c") == ["a", "b", "c"]
    assert names_in('"rain, hail 0",cat 1') == ["rain, hail 0", "cat 1"]


def test_the_command_takes_objects_and_pools(scenario):
    options = ["check", scenario, "--samples", "1000", "--seed", "1"]
    asked = CliRunner().invoke(app, [*options, "--objects", 'cat 1,"rain, hail 0"'])
    assert asked.exit_code == 0, asked.output
    assert "2 of 60" in asked.output
    assert "from 'rain, hail 0'" in asked.output
    pools = CliRunner().invoke(app, [*options, "--pools", "animals"])
    assert "object 'cat" in pools.output
    assert "oak" not in pools.output
