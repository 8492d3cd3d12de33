"""Wrong arguments of the public functions: one line of an InputError, never a bare error of Python."""

import sys
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from cases import collections

import poolscope as ps
from poolscope.core.arguments import checked

UNIVERSE = ps.Universe.sized(20, {"a": 6, "b": 6})
RESPONSE = ps.mechanisms.GRR(universe=20, epsilon=1.0)
WEAK = ps.Adversary.weak(UNIVERSE)
GAME = ps.Game(
    universe=UNIVERSE,
    popularity=np.full(20, 0.05),
    device=ps.mechanisms.Fresh(RESPONSE),
    adversaries=[WEAK],
    observations=[5],
)
SCENARIO = ps.Scenario.from_dict(
    {
        "universe": {"size": 20, "pools": {"a": 6, "b": 6}},
        "popularity": {"kind": "uniform"},
        "mechanism": {"kind": "grr", "epsilon": 1},
        "adversary": [{"name": "oracle", "popularity": "true"}],
        "attack": {"observations": [3]},
    },
    name="mine",
)
COLLECTIONS = collections.scenario()
LIKELIHOOD = np.ones((3, 3))


class Mine:
    """Not adapted yet, and it does not say for how many objects it is."""

    epsilon = 1.0

    def obfuscate(self, objects, rng):
        return np.asarray(objects)

    def log_likelihood(self, reports):
        return np.zeros((len(reports), 20))


class Tuned(Mine):
    """A mechanism for any epsilon."""

    def __init__(self, universe, epsilon):
        self.universe, self.epsilon = universe, epsilon


class Own:
    """A mechanism with reports of any kind."""

    epsilon = 1.0

    def __init__(self, reports, universe=20):
        self.reports, self.universe = reports, universe

    def obfuscate(self, objects, rng):
        return self.reports(len(objects))


class Attack:
    """An attack of one's own that is wrong."""

    def __init__(self, name):
        self.name = name

    def posteriors(self, *_):
        return ps.random.integers(np.zeros(1, dtype=np.uint64), range(3), -1)


class Unhashable(list):
    """A density that no cache can hold."""

    rule = sharpness = quantile = None


def draws_nothing(keys, n):
    return ps.random.integers(keys, range(n), -1)


def plays(**parts):
    """Return a call that plays the game with other parts."""
    return lambda: ps.play(replace(GAME, **parts), users=10, seed=1)


def checks(reports, universe=20):
    """Return a call that checks a mechanism with these reports."""
    return lambda: ps.check(Own(reports, universe), samples=1000, seed=1)


@pytest.fixture(scope="module")
def outcomes():
    return ps.play(GAME, users=30, seed=1)


WRONG = [
    (lambda: ps.check(Mine(), samples=2000, seed=1), "must be a scenario or a mechanism, which has universe and obf"),
    (lambda: ps.check(Mine, samples=2000, seed=1), "must be a scenario or a mechanism"),
    (lambda: ps.check(RESPONSE, samples=2000, seed=-1), "seed must be at least 0, got -1"),
    (lambda: ps.check(RESPONSE, samples=2000, seed=1, objects=[20]), "must be an object of the universe, .* got 20"),
    (lambda: ps.check(RESPONSE, samples=2000, seed=1, objects=[]), "objects: must be two or more, got"),
    (lambda: ps.check(RESPONSE, samples="many", seed=1), "samples must be a whole number, got 'many'"),
    (lambda: ps.audit(SCENARIO, "never", mechanism=5), "must be a mechanism, which has .*, got 'int'"),
    (lambda: ps.audit("mine.toml", "never"), "scenario must be a Scenario, got 'mine.toml'; made by poolscope.load_sc"),
    (lambda: ps.audit(SCENARIO, 5), "out must be a path, got 5"),
    (
        lambda: ps.audit(SCENARIO, "never", engine="local"),
        "engine: must be an engine or have a method map, got 'str'",
    ),
    (lambda: ps.audit(SCENARIO, "never", observations=5), "observations must be a list of whole numbers, got 5"),
    (lambda: ps.audit(SCENARIO, "never", observations=[2**63]), "observations.*must be at most 9.22337e.18, got 92233"),
    (lambda: ps.audit(SCENARIO, "never", html="yes"), "html must be true or false, got 'yes'"),
    (lambda: ps.audit(SCENARIO, "never", progress=None), "progress must be a Progress, got None"),
    (
        lambda: ps.advise(SCENARIO, max_exposed=0.1, mechanisms=[Mine]),
        "mechanisms must be a list of names, got .<class",
    ),
    (lambda: ps.advise(SCENARIO, max_exposed=0.1, mechanisms=[]), "`mechanisms` must name at least one"),
    (lambda: ps.advise(SCENARIO, max_exposed="few"), "exposed must be a number, got 'few'"),
    (lambda: ps.advise(SCENARIO, max_exposed=0.1, epsilon=(1,)), "epsilon must be two numbers, got .1,."),
    (
        lambda: ps.compare(SCENARIO, "grr", [1.0]),
        "mechanisms must be a list of names or classes of mechanisms",
    ),
    (lambda: ps.compare(SCENARIO, [Mine()], [1.0]), "mechanisms must be a list of names or classes of mechanisms"),
    (lambda: ps.compare(SCENARIO, ["grr"], 1.0), "epsilons must be a list of numbers, got 1.0"),
    (lambda: ps.compare(SCENARIO, ["grr"], [10**400]), "epsilons must be a list of numbers, got .1000"),
    (lambda: ps.reproduce("emoji", "never"), "unknown experiment, got 'emoji'"),
    (lambda: ps.reproduce(5, "never"), "names must be a name or a list of names, got 5"),
    (lambda: ps.attack("reports.csv", SCENARIO, top=10**23), "top: must be from 0 to 1,000,000, got 1000000"),
    (lambda: ps.estimate("reports.csv", "mine"), "scenario must be a Scenario, got 'mine'"),
    (lambda: ps.play(SCENARIO, 10, 1), r"game must be a Game, got .*; of a scenario: scenario.game\(seed\)"),
    (lambda: ps.play(GAME, 1.5, 1), "users must be a whole number, got 1.5"),
    (lambda: SCENARIO.game(1.5), "^seed must be a whole number, got 1.5"),
    (lambda: SCENARIO.game(-1), "^seed must be at least 0, got -1"),
    (lambda: ps.play(GAME, 10, "x"), "seed must be a whole number, got 'x'"),
    (lambda: ps.posterior_of_likelihood(LIKELIHOOD, belief="uniform"), "belief must be a Behavior, got 'uniform'"),
    (
        lambda: ps.posterior_of_likelihood(LIKELIHOOD, likelihood_offset=-1.0),
        "likelihood_offset . likelihood_scale . likelihood must be from 0 to 1e.300",
    ),
    (
        lambda: ps.posterior_of_likelihood(LIKELIHOOD, likelihood_scale=np.inf),
        "likelihood_offset . likelihood_scale . likelihood must be from 0 to 1e",
    ),
    (lambda: ps.posterior_of_likelihood([["a", "b", "c"]]), "likelihoods must be numbers"),
    (lambda: ps.behavior_posterior(LIKELIHOOD, likelihood_offset="x"), "likelihood_offset must be a number, got 'x'"),
    (lambda: ps.load_scenario(5), "must be a built-in name or a path, got 5"),
    (lambda: ps.mechanisms.GRR(universe=UNIVERSE, epsilon=1.0), "universe: must be a whole number, .*; pass its size"),
    (lambda: ps.mechanisms.GRR(universe=0, epsilon=1.0), "universe: must have at least one object, got 0"),
    (lambda: ps.mechanisms.GRR(universe=20, epsilon="1"), "epsilon: must be a number, got '1'"),
    (lambda: ps.mechanisms.CMS(universe=20, epsilon=1.0, m=8, hash_table=5), "a hash table must have the shape"),
    (lambda: ps.mechanisms.Channel(universe=2, matrix=[[1], [0, 1]]), "matrix must be numbers"),
    (lambda: ps.mechanisms.adapt(Mine, 20), "must be a mechanism, not a class, got 'Mine'"),
    (lambda: ps.mechanisms.adapt(Mine(), None), "universe must be a Universe or the number of objects, got None"),
    (lambda: ps.mechanisms.make(5, 20, {}), "kind: must be a known mechanism, got 5"),
    (lambda: ps.mechanisms.ReportingPolicy(cap="x"), "cap must be a whole number of at least 1, got 'x'"),
    (lambda: ps.mechanisms.device_of(RESPONSE, memoize="yes"), "memoize must be true, false or None, got 'yes'"),
    (lambda: ps.mechanisms.reports_of(RESPONSE, [[1]], [1]), "must be a device, got 'GRR'"),
    (lambda: RESPONSE.obfuscate(["x"], np.random.default_rng(1)), "objects must be integers"),
    (lambda: RESPONSE.obfuscate([1.5], np.random.default_rng(1)), "objects must be integers"),
    (lambda: RESPONSE.obfuscate([1], 5), r"rng must be a generator, got 5; numpy.random.default_rng"),
    (lambda: ps.Behavior(interest=(2, 1)), r"interest must be a density, got \(2, 1\); for example"),
    (lambda: ps.Behavior(pools=("a", "b")), "pool weights must be numbers"),
    (lambda: ps.priors.Beta(a="1"), "Beta parameter a must be a number from"),
    (lambda: ps.priors.StepDensity("ab"), "a table of weights must be numbers"),
    (lambda: ps.priors.FunctionDensity(5), "a density must be a function"),
    (lambda: ps.priors.FunctionDensity(np.sqrt, resolution=0), "resolution must be an integer from 1 to 65536"),
    (lambda: ps.Universe.sized(10, "ab"), "pools: must be a mapping from the names of pools, got 'ab'"),
    (lambda: ps.Universe.named("xy", ["a", "b"]), "objects: must be a list, got 'xy'"),
    (lambda: ps.Universe.from_pools(5, {"a": 0, "b": [1]}), "pools.a: must be a list of its members, got 0"),
    (lambda: ps.popularity.zipf(20, 1.0), "universe must be a Universe, got 20"),
    (lambda: ps.popularity.zipf(UNIVERSE, "steep"), "exponent must be a number, got 'steep'"),
    (lambda: ps.Local(threads=0), "threads must be an integer of at least 1, got 0"),
    (lambda: ps.mechanisms.make("grr", 20, [1]), "parameters must be a mapping of names to values, got .1."),
    (lambda: ps.mechanisms.reports_of(GAME.device, [1, 2], [1]), r"traces must be \(users, n\), and users a key for"),
    (lambda: RESPONSE.obfuscate([[1]], np.random.default_rng(1)), r"objects must be one-dimensional, got \(1, 1\)"),
    (lambda: replace(WEAK, name=5), "an adversary's name must be a text, got 5"),
    (lambda: replace(WEAK, universe=20), "an adversary's universe must be a Universe, got 20"),
    (lambda: replace(WEAK, belief="x"), "an adversary's belief must be a Behavior, got 'x'"),
    (lambda: replace(WEAK, attack=5), "an adversary's attack must have a method posteriors or scores, got 'int'"),
    (lambda: ps.posterior(RESPONSE, {"value": [1]}, "weak"), "must be an Adversary, got 'weak'"),
    (lambda: ps.posterior(RESPONSE, {"value": [[1], [1, 2]]}, WEAK), "must be arrays with a row for each report"),
    (lambda: ps.Behavior(none=1.0), "none must be a probability below 1, got 1.0"),
    (lambda: ps.Behavior(none="few"), "none must be a probability below 1, got 'few'"),
    (lambda: ps.Behavior(interest=Unhashable()), "interest must be a density that can be hashed, got 'Unhashable'"),
    (lambda: ps.Population.from_function(5), "must be a function of keys and n, got 5"),
    (plays(population=ps.Population.from_traces([[1, 2]])), "users must be at most the 1 of the population, got 10"),
    (plays(population=ps.Population.from_function(draws_nothing)), "high must be an integer from 1 to .* got -1"),
    (plays(adversaries=[Attack("")]), "an attack's name must be a text, got ''"),
    (plays(adversaries=[Attack("mine")]), "high must be an integer from 1 to 9007199254740992, got -1"),
    (checks(lambda n: np.full(n, "a")), "report: reports must be real numbers, got '<U1 .64,.'; number the values"),
    (checks(lambda n: np.zeros((n, 0))), r"report: reports must be real numbers, got 'float64 \(64, 0\)'"),
    (checks(lambda n: [[1] * (1 + i % 2) for i in range(n)]), "reports must be arrays with a row for each report"),
    (checks(np.zeros, universe=None), "Own.universe: must be the number of objects, got None"),
    (lambda: ps.compare(SCENARIO, [Tuned], []), "epsilon: must have at least one value"),
    (lambda: ps.attack_collections({}, COLLECTIONS), "reports must be a file for each collection, got {}"),
    (lambda: ps.attack_collections({"emojis": 5}, COLLECTIONS), r"reports.'emojis'.: must be a path, got 5"),
    (
        lambda: ps.attack_collections({"emojis": "reports.csv"}, COLLECTIONS, top=-1),
        "top: must be from 0 to 1,000,000, got -1",
    ),
    (
        lambda: ps.attack_collections({"emojis": "reports.csv"}, COLLECTIONS, ground_truth="truth.csv"),
        "ground_truth: must have `out`, the table that it evaluates, got 'truth.csv'",
    ),
    (lambda: ps.figures.save(None, "x.svg"), "must be a picture, as the functions of poolscope.figures make, got None"),
]


@pytest.mark.parametrize(("call", "message"), WRONG, ids=[message[:50] for _, message in WRONG])
def test_a_wrong_argument_is_one_line(call, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reports.csv").write_text("user,value\nann,1\n")
    with pytest.raises(ps.InputError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "never").exists(), "nothing is written"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"universe": 20}, "universe must be a Universe, got 20"),
        ({"popularity": np.ones(3)}, "popularity must be a finite number of at least 0 for each of 20 objects"),
        ({"adversaries": WEAK}, "adversaries must be a list"),
        ({"adversaries": ["weak"]}, "must be an Adversary, got 'weak'"),
        (
            {"adversaries": [ps.Adversary.weak(ps.Universe.sized(21, {"a": 6, "b": 6}))]},
            "the universe of adversary 'weak' must have the game's 20 objects, got 21",
        ),
        ({"observations": 5}, "observations must be a list of integers, got 5"),
        ({"observations": [2**63]}, "each of observations must be an integer of at least 1, got 9223372036854775808"),
        ({"behavior": 5}, "behavior must be a Behavior, got 5"),
        ({"policy": None}, "policy must be a ReportingPolicy, got None"),
        ({"sigma": "x"}, "sigma must be finite and not negative, got 'x'"),
        ({"threshold": 2}, "threshold must be a number from 0 to 1, got 2"),
        ({"non_private": "no"}, "non_private must be true or false, got 'no'"),
        ({"recorded": 5}, "recorded must be Recorded users, got 5"),
    ],
)
def test_a_game_of_wrong_parts(changed, message):
    given = {name: getattr(GAME, name) for name in ("universe", "popularity", "device", "adversaries", "observations")}
    with pytest.raises(ps.InputError, match=message):
        ps.Game(**(given | changed))


def test_outcomes_of_ones_own(outcomes):
    """Another adversary, columns that lack, confidences that are none: each is said."""
    renamed = outcomes.with_columns(adversary=pl.lit("wek"))
    with pytest.raises(ps.InputError, match="must be of the game's adversaries, got 'wek'; did you mean 'weak'"):
        ps.summarize(renamed, GAME, seed=1)
    for name in ("adversary", "n", "pool", "guess", "confidence", "exposed_at_90"):
        with pytest.raises(ps.InputError, match=f"outcomes must have a column '{name}'"):
            ps.summarize(outcomes.drop(name), GAME, seed=1)
    for confidence in (pl.lit("confident_at_threshold"), pl.lit(1.5), pl.lit(None, dtype=pl.Float64)):
        with pytest.raises(ps.InputError, match="confidence of outcomes must be numbers from 0 to 1"):
            ps.summarize(outcomes.with_columns(confidence=confidence), GAME, seed=1)
    with pytest.raises(ps.InputError, match="n of outcomes must be integers, got 'Float64'"):
        ps.summarize(outcomes.with_columns(pl.col("n").cast(pl.Float64)), GAME, seed=1)
    with pytest.raises(ps.InputError, match="outcomes must be a DataFrame of polars"):
        ps.summarize(outcomes.to_dict(), GAME, seed=1)
    with pytest.raises(ps.InputError, match="threshold must be from 0 to 1, got 2"):
        ps.summarize(outcomes, GAME, seed=1, threshold=2)
    own = outcomes.with_columns(adversary=pl.lit("weak")).filter(n=5).unique("user", maintain_order=True)
    assert [record.users for record in ps.summarize(own, GAME, seed=1)] == [30]


def test_one_name_and_a_text_for_a_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = ps.reproduce("no-hash", "paper", users=2)
    assert {cell.experiment for cell in done.cells} == {"no-hash"}
    assert (tmp_path / "paper" / "reproduction.html").exists()


def test_records_are_a_table_of_pandas_without_pyarrow(outcomes, monkeypatch):
    pandas = pytest.importorskip("pandas")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    frame = ps.summarize(outcomes, GAME, seed=1).to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert frame["n"].tolist() == [5, 5]


# The decorator


def test_types_are_checked_as_declared():
    @checked
    def function(count: "int", share: "float | None" = None, *, names: "Sequence[str]" = (), other: "object" = 5):  # noqa: F821
        return count, share, names, other

    assert function(np.int64(3), None, names=["a"], other="anything") == (3, None, ["a"], "anything")
    assert function.__name__ == "function"
    for given in ((True,), ("1",), (1.0,), (None,)):
        with pytest.raises(ps.InputError, match="count must be a whole number"):
            function(*given)
    with pytest.raises(ps.InputError, match="share must be a number, got 'half'"):
        function(1, "half")
    with pytest.raises(ps.InputError, match="names must be a list of names, got 'a'"):
        function(1, names="a")
    with pytest.raises(TypeError, match="missing a required argument"):
        function()
