import json
import math
import pickle
import tomllib

import numpy as np
import pytest

from poolscope.core.errors import InputError
from poolscope.population import popularity
from poolscope.population.universe import Universe
from poolscope.scenario import scenario
from poolscope.scenario.build import build_behavior
from poolscope.scenario.tables import PriorTable, is_inside

UNIVERSE = "[universe]\nsize = 10\npools = { a = 2, b = 3 }\n"
MECHANISM = '[mechanism]\nkind = "cms"\nepsilon = 4\n'
ADVERSARY = '[[adversary]]\nname = "weak"\npopularity = "uniform"\n'
SMALLEST = UNIVERSE + MECHANISM
OBJECTS = "object,pool,popularity\nx,a,2\ny,b,1\nz,,1\n"


def write(tmp_path, text, name="scenario.toml"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_the_smallest_scenario(tmp_path):
    found = scenario.load_scenario(write(tmp_path, SMALLEST, "mine.toml"))
    assert (found.name, found.text, found.title) == ("mine", SMALLEST, "")
    assert (found.source, found.historical) == (None, False)
    assert found.file == str(tmp_path / "mine.toml")
    assert found.mechanism.kind == "cms"
    assert found.mechanism.parameters == {"epsilon": 4.0}
    assert found.users is found.attack is found.popularity_table is None
    assert found.adversaries == ()
    assert str(found.missing("attack")) == f"{found.file}: must have a table [attack]"
    with pytest.raises(InputError, match=r"mine\.toml: must have a table \[popularity\]"):
        found.true_popularity(found.universe())


def test_every_key(tmp_path):
    text = """
    title = "All"
    source = "A paper (2020)"
    historical = true
    [universe]
    size = 10
    pools = { a = 2, b = 3 }
    [popularity]
    kind = "random"
    seed = 7
    [mechanism]
    kind = "cms"
    epsilon = inf
    m = 1024
    hash_table = "table.npy"
    [users]
    count = 12
    sigma = 1e-4
    [[adversary]]
    name = "weak"
    popularity = "uniform"
    [[adversary]]
    name = "published"
    popularity = "estimated"
    estimate_from = 1_000
    [adversary.prior]
    interest = { beta = [2, 1] }
    polarization = "uniform"
    pools = "popularity"
    [[adversary]]
    name = "biased"
    popularity = "true"
    prior = { pools = { b = 3, a = 1 } }
    [attack]
    observations = [1, 7]
    threshold = 0.5
    non_private = false
    """
    found = scenario.load_scenario(write(tmp_path, text))
    assert (found.title, found.source, found.historical) == ("All", "A paper (2020)", True)
    assert found.mechanism.parameters == {
        "epsilon": math.inf,
        "m": 1024,
        "hash_table": "table.npy",
    }
    weak, published, biased = found.adversaries
    assert weak.prior.interest == weak.prior.polarization == weak.prior.pools == "uniform"
    assert published.estimate_from == 1000
    assert published.prior.interest.beta == (2, 1)
    assert published.prior.pools == "popularity"
    assert published.prior.pool_weights(["a", "b"]) is None
    assert biased.prior.pool_weights(["a", "b"]) == (1, 3)
    assert (found.users.count, found.users.sigma) == (12, 1e-4)
    assert found.attack.observations == (1, 7)
    assert (found.attack.threshold, found.attack.non_private) == (0.5, False)

    dumped = found.dump()
    assert json.loads(json.dumps(dumped, allow_nan=False)) == dumped
    assert dumped.pop("mechanism") == {
        "kind": "cms",
        "epsilon": "inf",
        "m": 1024,
        "hash_table": "table.npy",
    }
    original = tomllib.loads(text)
    del original["mechanism"]
    assert dumped == original


def test_survives_pickling():
    found = scenario.load_scenario("apple-emojis")
    again = pickle.loads(pickle.dumps(found))
    assert (again, again.text, again.name) == (found, found.text, found.name)


@pytest.mark.parametrize(
    ("table", "build"),
    [
        ('kind = "uniform"', popularity.uniform),
        ('kind = "zipf"\nexponent = 0', lambda u: popularity.zipf(u, 0)),
        ('kind = "zipf"\nexponent = 1.2', lambda u: popularity.zipf(u, 1.2)),
        ('kind = "random"', lambda u: popularity.random(u, np.random.default_rng(0))),
        ('kind = "random"\nseed = 7', lambda u: popularity.random(u, np.random.default_rng(7))),
    ],
)
def test_true_popularity(table, build):
    found = scenario.parse(f"{SMALLEST}[popularity]\n{table}\n", name="mine")
    universe = found.universe()
    np.testing.assert_array_equal(found.true_popularity(universe), build(universe))


def test_objects_and_popularity_from_files(tmp_path):
    (tmp_path / "data").mkdir()
    write(tmp_path, OBJECTS, "data/objects.csv")
    write(tmp_path, "object,popularity\nz,2\ny,1\nx,1\n", "believed.csv")
    text = (
        '[universe]\nobjects = "data/objects.csv"\n[popularity]\nkind = "given"\n'
        + MECHANISM
        + '[[adversary]]\nname = "one"\npopularity = "given"\n'
        + '[[adversary]]\nname = "two"\npopularity = "given"\nfile = "believed.csv"\n'
    )
    found = scenario.load_scenario(write(tmp_path, text))
    universe = found.universe()
    assert universe is found.universe()
    assert universe.objects == ("x", "y", "z")
    assert found.true_popularity(universe).tolist() == [0.5, 0.25, 0.25]
    one, two = found.adversaries
    assert found.given_popularity(one, universe).tolist() == [0.5, 0.25, 0.25]
    assert found.given_popularity(two, universe).tolist() == [0.25, 0.25, 0.5]


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ("[users]\nbehavior = { pools = { a = 1 } }", "users.behavior.pools.b: is missing"),
        (
            "[users]\nedges = { more = { pools = { a = 1, bb = 1 } } }",
            "users.edges.more.pools.bb: unknown pool; did you",
        ),
        ('[[adversary]]\nname = "x"\npopularity = "true"\nprior = { pools = { a = 1 } }', "adversary[0].prior.pools.b"),
    ],
)
def test_weights_of_pools_are_checked_before_anything_is_played(tables, message):
    with pytest.raises(InputError) as caught:
        scenario.parse(SMALLEST + tables, name="mine").universe()
    assert str(caught.value).startswith(f"mine: {message}")


def test_files_are_blamed_for_what_they_say(tmp_path):
    path = write(tmp_path, '[universe]\nobjects = "o.csv"\n[popularity]\nkind = "given"\n' + MECHANISM)
    found = scenario.load_scenario(path)
    with pytest.raises(InputError, match=r"o\.csv: there is no such file$"):
        found.universe()
    write(tmp_path, "object,pool\nx,a\ny,b\n", "o.csv")
    with pytest.raises(InputError, match=r"o\.csv: must have a column 'popularity'$"):
        found.true_popularity(found.universe())
    write(tmp_path, OBJECTS.replace("y,b,1", "y,b,0"), "o.csv")
    found = scenario.load_scenario(path)
    with pytest.raises(InputError, match=r"o\.csv: popularity: .* in pool 'b', got 0"):
        found.true_popularity(found.universe())


def test_the_pools_of_a_prior_are_those_of_the_objects(tmp_path):
    write(tmp_path, OBJECTS, "o.csv")
    text = '[universe]\nobjects = "o.csv"\n' + MECHANISM + ADVERSARY
    found = scenario.load_scenario(write(tmp_path, text + "prior = { pools = { a = 1, c = 1 } }\n"))
    with pytest.raises(InputError, match=r"\.toml: adversary\[0\]\.prior\.pools\.c: unknown pool"):
        found.universe()


def test_files_that_are_no_scenarios(tmp_path):
    (tmp_path / "folder.toml").mkdir()
    (tmp_path / "latin.toml").write_bytes(b"# ok\ntitle = 'caf\xe9'\n")
    (tmp_path / "large.toml").write_bytes(b"#" * (scenario.MAX_FILE_BYTES + 1))
    for name, rule in [
        ("gone.toml", r"there is no such file$"),
        ("folder.toml", r"must be a file, is a folder$"),
        ("latin.toml", r"line 2: must be UTF-8 text, got b'\\xe9'$"),
        ("large.toml", r"must have at most 1000000 bytes$"),
    ]:
        with pytest.raises(InputError, match=f"{name}: {rule}"):
            scenario.load_scenario(tmp_path / name)


def test_a_byte_order_mark_and_windows_lines_are_fine(tmp_path):
    path = tmp_path / "scenario.toml"
    path.write_bytes(b"\xef\xbb\xbf" + SMALLEST.replace("\n", "\r\n").encode())
    assert scenario.load_scenario(path).universe().size == 10


def test_unknown_names_suggest_the_nearest(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as caught:
        scenario.load_scenario("aple-emoji")
    assert str(caught.value) == (
        "unknown scenario, neither built in nor a file, got 'aple-emoji'; did you mean 'apple-emojis'?"
    )
    with pytest.raises(InputError, match="known: apple-collections, apple-emojis, apple-hcms, apple-health"):
        scenario.load_scenario("zzz")
    with pytest.raises(InputError, match=r"unknown scenario, .* did you mean 'apple-hcms'\?"):
        scenario.builtin_text("apple-hmcs")
    write(tmp_path, SMALLEST, "without-ending")
    assert scenario.load_scenario("without-ending").universe().size == 10


@pytest.mark.parametrize("path", ["/x", "..", "../x", "a/../../x", ".", "", "a/..", "x\0", "x\ny"])
def test_paths_stay_in_the_folder(tmp_path, path):
    found = scenario.load_scenario(write(tmp_path, SMALLEST))
    with pytest.raises(InputError) as caught:
        found.resolve(path, place="mechanism.hash_table")
    rule = "mechanism.hash_table: must be a path inside the scenario's folder, relative to it"
    assert str(caught.value).startswith(f"{found.file}: {rule}, got ")


def test_paths_are_relative_to_the_file(tmp_path):
    found = scenario.load_scenario(write(tmp_path, SMALLEST))
    assert found.resolve("data/x.csv") == tmp_path / "data" / "x.csv"
    assert is_inside("a/../x")
    with pytest.raises(InputError, match="apple-emojis: a scenario without a folder cannot name"):
        scenario.load_scenario("apple-emojis").resolve("x.csv")


NEWS = {"left": 14, "lean-left": 13, "center": 13, "lean-right": 10, "right": 10}
TONES = dict.fromkeys(("default", "light", "medium-light", "medium", "medium-dark", "dark"), 228)


@pytest.mark.parametrize(
    ("name", "size", "pools", "kind", "mechanism"),
    [
        ("apple-emojis", 2600, TONES, "zipf", ("cms", 4, 1024, 65536)),
        ("apple-web-domains", 2000, NEWS, "random", ("cms", 8, 1024, 65536)),
        ("apple-hcms", 250_000, NEWS, "random", ("hcms", 4, 32768, 1024)),
    ],
)
def test_built_in_scenarios(name, size, pools, kind, mechanism):
    found = scenario.load_scenario(name)
    assert (found.name, found.file) == (name, name)
    assert found.text == scenario.builtin_text(name)
    universe = found.universe()
    assert universe.size == size
    assert dict(zip(universe.pool_names, universe.pool_sizes.tolist(), strict=True)) == pools
    assert found.popularity_table.kind == kind
    assert found.true_popularity(universe).sum() == pytest.approx(1)
    expected = dict(zip(("epsilon", "m", "hashes"), mechanism[1:], strict=True))
    assert (found.mechanism.kind, found.mechanism.parameters) == (mechanism[0], expected)
    assert [(a.name, a.popularity, a.estimate_from) for a in found.adversaries] == [
        ("weak", "uniform", None),
        ("strong", "estimated", 1_000_000),
    ]
    assert found.attack.observations == (7, 30, 90, 180)
    assert found.attack.non_private


def test_all_built_in_scenarios_are_tested():
    """The others are in test_builtin.py, which names each of them too."""
    deployments = ["chrome-attribution", "chrome-rappor", "chrome-rappor-sites", "chrome-topics", "mozilla-homepages"]
    apple = ["apple-emojis", "apple-hcms", "apple-health", "apple-mail-senders", "apple-quicktype", "apple-web-domains"]
    assert scenario.builtin_names() == ["apple-collections", *apple, *deployments, "recorded-emojis"]


def test_the_built_in_scenario_of_recorded_users_needs_a_folder():
    found = scenario.load_scenario("recorded-emojis")
    assert (found.universe().size, found.universe().k) == (2780, 6)
    with pytest.raises(InputError, match=r"poolscope scenarios recorded-emojis > mine\.toml"):
        found.resolve(found.users.traces, place="users.traces")


def test_pools_weighted_by_popularity_leave_out_the_neutral_pool():
    universe = Universe.from_pools(6, {"a": [0, 1], "b": [2]})
    weights = np.array([0.1, 0.2, 0.25, 0.2, 0.15, 0.1])
    made = build_behavior(PriorTable(pools="popularity"), universe, weights)
    assert made.pools == pytest.approx((0.3, 0.25))
