"""Channels: given and estimated, in memory and in files; what all mechanisms share is in the conformance suite."""

import numpy as np
import polars as pl
import pytest
from cases.synthetic import SEED
from oracle import reference
from scipy import stats

from poolscope.core.errors import InputError
from poolscope.core.randomness import children
from poolscope.game.game import play
from poolscope.inference.adversary import Adversary, stacked_pool_weights
from poolscope.inference.attack import posterior
from poolscope.mechanisms import GRR, Channel, Empirical, Likelihood
from poolscope.population.universe import Universe
from poolscope.scenario.build import build_game, build_mechanism
from poolscope.scenario.scenario import load_scenario

UNIVERSE = Universe.sized(4, {"a": 1, "b": 2})
ADVERSARY = Adversary(name="oracle", universe=UNIVERSE, popularity=np.array([0.1, 0.2, 0.4, 0.3]))
#: A report that nobody sends, and one that some cannot.
MATRIX = np.array(
    [[0.5, 0.3, 0.2, 0.0, 0.0], [0.1, 0.6, 0.3, 0.0, 0.0], [0.2, 0.2, 0.2, 0.0, 0.4], [0.0, 0.2, 0.3, 0.0, 0.5]]
)
FINITE = np.array([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.2, 0.2, 0.6], [0.25, 0.25, 0.5]])


# Given


def test_epsilon_is_exact():
    assert Channel(universe=4, matrix=FINITE).epsilon == pytest.approx(np.log(5), rel=1e-14)
    assert Channel(universe=4, matrix=MATRIX).epsilon == np.inf
    assert Channel(universe=3, matrix=np.full((3, 2), 0.5)).epsilon == 0
    unsent = np.hstack([FINITE, np.zeros((4, 1))])
    assert Channel(universe=4, matrix=unsent).epsilon == pytest.approx(np.log(5), rel=1e-14)


def test_posterior_is_the_oracles():
    mechanism = Channel(universe=4, matrix=MATRIX)
    reports = np.array([0, 2, 1, 1, 4, 2])
    found = posterior(mechanism, {"report": reports}, ADVERSARY)
    for n in (1, 3, 6):
        rows = MATRIX[:, reports[:n]].T.tolist()
        expected = reference.posterior(rows, ADVERSARY.popularity, UNIVERSE.pool_of, 2)
        np.testing.assert_allclose(found[n], expected, rtol=1e-12)


def test_what_nobody_sends_is_impossible():
    mechanism = Channel(universe=4, matrix=MATRIX)
    view, _ = stacked_pool_weights([ADVERSARY])
    mass = mechanism.mass({"report": np.array([0, 3])}, view)
    assert not mass[1].any()
    np.testing.assert_allclose(mass, Likelihood.mass(mechanism, {"report": np.array([0, 3])}, view), rtol=1e-14)
    reports = mechanism.obfuscate(np.repeat(np.arange(4), 20_000), np.random.default_rng(SEED))["report"]
    assert not (reports == 3).any()


def test_samples_follow_the_matrix():
    mechanism, count = Channel(universe=4, matrix=MATRIX), 40_000
    for z in range(4):
        reports = mechanism.report(np.full(count, z), children(np.uint64(SEED), np.arange(count)))["report"]
        seen, possible = np.bincount(reports, minlength=5), MATRIX[z] > 0
        assert not seen[~possible].any()
        assert stats.chisquare(seen[possible], count * MATRIX[z][possible]).pvalue > 1e-4


def test_the_attack_on_a_channel_is_that_on_its_mechanism():
    mechanism = GRR(universe=4, epsilon=1.5)
    distribution = np.full((4, 4), np.exp(-1.5))
    np.fill_diagonal(distribution, 1.0)
    same = Channel(universe=4, matrix=distribution / distribution.sum(axis=1, keepdims=True))
    assert same.epsilon == pytest.approx(1.5, rel=1e-12)
    value = np.array([0, 3, 1, 1, 2, 2, 2])
    expected = posterior(mechanism, {"value": value}, ADVERSARY)
    np.testing.assert_allclose(posterior(same, {"report": value}, ADVERSARY), expected, rtol=1e-12)


def test_single_precision_will_do():
    mechanism = Channel(universe=4, matrix=FINITE.astype(np.float32))
    np.testing.assert_allclose(mechanism.matrix.sum(axis=1), 1, rtol=1e-15)
    assert not mechanism.matrix.flags.writeable


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        (FINITE[:3], r"a row for each of 4 objects, got \(3, 3\)"),
        (FINITE[0], "a row for each of 4 objects"),
        (FINITE * 1.01, r"rows must sum to one, object 0, got 1\.01"),
        (FINITE - [[0.6, 0, 0]], "finite and not negative, object 0 and report 0, got -0"),
        (np.where(FINITE == 0.6, np.nan, FINITE), "finite and not negative, object 1 and report 1, got nan"),
        (np.full((4, 1), "1"), "must be numbers"),
        (np.empty((4, 0)), "must be numbers"),
    ],
)
def test_bad_matrices(matrix, words):
    with pytest.raises(InputError, match=words):
        Channel(universe=4, matrix=matrix)


def test_matrices_beyond_memory(monkeypatch):
    monkeypatch.setattr("poolscope.mechanisms.channel.MAX_CELLS", 11)
    with pytest.raises(InputError, match=r"at most 11 cells.*got 12"):
        Channel(universe=4, matrix=FINITE)
    with pytest.raises(InputError, match=r"at most 11 cells.*got 40"):
        Empirical(universe=4, samples=np.array([[0, 9]]))


# Estimated


def drawn(count, seed=SEED, matrix=FINITE):
    """Samples of each object as often, from a known channel."""
    objects = np.repeat(np.arange(4), count)
    reports = Channel(universe=4, matrix=matrix).obfuscate(objects, np.random.default_rng(seed))["report"]
    return np.stack([objects, reports], axis=1)


def test_smoothing_is_additive():
    samples = np.array([[0, 0], [0, 0], [0, 1], [1, 2], [3, 1]])
    found = Empirical(universe=4, samples=samples)
    expected = [[2.5, 1.5, 0.5], [0.5, 0.5, 1.5], [0.5] * 3, [0.5, 1.5, 0.5]]
    np.testing.assert_allclose(found.matrix, np.array(expected) / np.sum(expected, axis=1, keepdims=True), rtol=1e-14)
    less = Empirical(universe=4, samples=samples, smoothing=0.1, reports=5)
    np.testing.assert_allclose(less.matrix[0], np.array([2.1, 1.1, 0.1, 0.1, 0.1]) / 3.5, rtol=1e-14)
    bare = Empirical(universe=1, samples=samples[:3], smoothing=0, reports=3)
    np.testing.assert_allclose(bare.matrix, [[2 / 3, 1 / 3, 0]], rtol=1e-14)


def test_errors_cover_the_truth():
    """In 60 worlds, two standard errors hold the truth as often as a normal law promises, within four of its errors."""
    inside = []
    for world in range(60):
        found = Empirical(universe=4, samples=drawn(400, SEED + world))
        inside.append(np.mean(np.abs(found.matrix - FINITE) < 2 * found.errors))
    expected = stats.norm.cdf(2) - stats.norm.cdf(-2)
    assert abs(np.mean(inside) - expected) < 4 * np.std(inside) / np.sqrt(len(inside)) + 0.01


def test_errors_are_those_of_the_replicas():
    found = Empirical(universe=4, samples=drawn(30))
    matrices = found.bootstrap(lambda replica: replica.matrix, 2000, np.random.default_rng(SEED))
    assert matrices.shape == (2000, 4, 3)
    np.testing.assert_allclose(matrices.mean(axis=0), found.matrix, atol=4 * found.errors.max() / np.sqrt(2000))
    np.testing.assert_allclose(matrices.std(axis=0), found.errors, rtol=4 / np.sqrt(2 * 2000) + 0.02)


def test_the_posterior_is_as_uncertain_as_the_channel():
    """The spread over replicas shrinks with the samples, and covers what the true channel says."""
    reports = {"report": np.array([0, 0, 2, 1, 0, 0])}
    truth = posterior(Channel(universe=4, matrix=FINITE), reports, ADVERSARY)[-1, 0]
    widths = []
    for count in (30, 3000):
        found = Empirical(universe=4, samples=drawn(count))
        posteriors = found.bootstrap(
            lambda c: posterior(c, reports, ADVERSARY)[-1, 0], 200, np.random.default_rng(SEED)
        )
        assert abs(posteriors.mean() - truth) < 4 * posteriors.std()
        widths.append(posteriors.std())
    # ten times, once it is small enough for the posterior to be linear in the channel
    assert widths[0] > 5 * widths[1]


def test_replicas_of_hardly_any_samples():
    """Shapes so small that a row can vanish: then it is all one report."""
    found = Empirical(universe=4, samples=np.array([[0, 0]]), smoothing=1e-4, reports=3)
    for replica in found.replicas(20, np.random.default_rng(SEED)):
        np.testing.assert_allclose(replica.matrix.sum(axis=1), 1)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"smoothing": np.inf}, "smoothing: must be a finite number, at least 0, got inf"),
        ({"smoothing": np.nan}, "smoothing: must be"),
        ({"smoothing": 0}, "a sample of every object, object 2 has none; or set a smoothing above 0"),
        ({"reports": 1}, "reports: must be at least the 2 that were seen, got 1"),
        ({"samples": np.array([[0, 1], [4, 0]])}, r"objects must be 0\.\.3, got 4"),
        ({"samples": np.array([[0, -1]])}, "samples: must be pairs"),
        ({"samples": np.array([0, 1])}, "samples: must be pairs"),
        ({"samples": np.empty((0, 2), dtype=int)}, "samples: must be pairs"),
        ({"samples": np.array([[0.0, 1.0]])}, "samples: must be pairs"),
    ],
)
def test_bad_samples(changed, words):
    with pytest.raises(InputError, match=words):
        Empirical(**{"universe": 4, "samples": np.array([[0, 1], [1, 0], [3, 1]]), **changed})


# Files

SCENARIO = """
[universe]
{universe}
[popularity]
kind = "zipf"
exponent = 1.0
[mechanism]
{mechanism}
[[adversary]]
name = "weak"
popularity = "uniform"
[attack]
observations = [5]
"""
SIZED = "size = 4\npools = { a = 1, b = 2 }"


def scenario(folder, mechanism, universe=SIZED):
    (folder / "mine.toml").write_text(SCENARIO.format(universe=universe, mechanism=mechanism))
    return load_scenario(folder / "mine.toml")


def long_table(matrix=MATRIX):
    z, y = np.nonzero(matrix)
    return pl.DataFrame({"object": z, "report": y, "probability": matrix[z, y]})


def test_a_matrix_from_any_file(tmp_path):
    np.save(tmp_path / "channel.npy", MATRIX)
    long_table().sample(fraction=1, shuffle=True, seed=1).write_parquet(tmp_path / "channel.parquet")
    long_table().write_csv(tmp_path / "channel.csv")
    for name in ("channel.npy", "channel.parquet", "channel.csv"):
        found = scenario(tmp_path, f"kind = 'channel'\nmatrix = '{name}'")
        np.testing.assert_allclose(build_mechanism(found, UNIVERSE).matrix, MATRIX, rtol=1e-15)
    outcomes = play(build_game(found, seed=1), 20, 1)
    assert outcomes["adversary"].unique(maintain_order=True).to_list() == ["weak", "non-private"]


def test_samples_from_any_file(tmp_path):
    samples = drawn(20)
    frame = pl.DataFrame({"object": samples[:, 0], "report": samples[:, 1]})
    frame.write_parquet(tmp_path / "pairs.parquet")
    frame.write_csv(tmp_path / "pairs.csv")
    expected = Empirical(universe=4, samples=samples, smoothing=0.25)
    for name in ("pairs.parquet", "pairs.csv"):
        found = scenario(tmp_path, f"kind = 'empirical'\nsamples = '{name}'\nsmoothing = 0.25")
        mechanism = build_mechanism(found, UNIVERSE)
        assert isinstance(mechanism, Empirical)
        np.testing.assert_array_equal(mechanism.counts, expected.counts)
        np.testing.assert_array_equal(mechanism.matrix, expected.matrix)
    play(build_game(found, seed=1), 20, 1)


def test_objects_by_name(tmp_path):
    pl.DataFrame({"object": list("wxyz"), "pool": ["a", "b", "b", ""]}).write_csv(tmp_path / "objects.csv")
    frame = long_table().with_columns(pl.Series("object", [list("wxyz")[z] for z in long_table()["object"]]))
    frame.write_parquet(tmp_path / "channel.parquet")
    found = scenario(tmp_path, "kind = 'channel'\nmatrix = 'channel.parquet'", "objects = 'objects.csv'")
    np.testing.assert_allclose(build_mechanism(found, found.universe()).matrix, MATRIX, rtol=1e-15)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (pl.col("probability") * 2, "row 5: probability must be a number from 0 to 1, got 1.2"),
        (pl.lit(0.1).alias("probability"), r"mechanism\.matrix: rows must sum to one, object 0"),
        (pl.col("object") + 1, "object must be an object of the universe"),
        (pl.col("report") - 1, "report must be an integer from 0"),
        (pl.col("report").cast(pl.String), "column 'report' must hold integers"),
        (pl.lit("x").alias("probability"), "column 'probability' must hold numbers"),
        (pl.lit(0).alias("report"), "a pair must be listed once"),
        (pl.col("report").alias("y"), None),
    ],
)
def test_bad_tables(tmp_path, change, words):
    long_table().with_columns(change).write_parquet(tmp_path / "channel.parquet")
    found = scenario(tmp_path, "kind = 'channel'\nmatrix = 'channel.parquet'")
    if words is None:
        build_mechanism(found, UNIVERSE)
        return
    with pytest.raises(InputError, match=words):
        build_mechanism(found, UNIVERSE)


@pytest.mark.parametrize(
    ("mechanism", "words"),
    [
        ("kind = 'channel'", "mechanism.matrix: is missing; the mechanism channel needs it"),
        ("kind = 'channel'\nmatrix = 'no.npy'", "no such file"),
        ("kind = 'channel'\nmatrix = 'mine.toml'", r"must end in \.csv or \.parquet"),
        ("kind = 'channel'\nmatrix = '../channel.npy'", "inside the scenario's folder"),
        ("kind = 'channel'\nmatrix = 'pickle.npy'", "without pickled objects"),
        ("kind = 'channel'\nmatrix = 'other.npy'", r"mechanism\.matrix: must have a row for each of 4 objects"),
        ("kind = 'channel'\nmatrix = 'other.npy'\nepsilon = 1", "unknown key for the mechanism channel"),
        ("kind = 'empirical'\nsamples = 'other.npy'", r"must end in \.csv or \.parquet"),
        ("kind = 'empirical'\nsamples = 'empty.csv'", "must have at least one row"),
        ("kind = 'empirical'\nsamples = 'short.csv'", "must have a column 'report'"),
    ],
)
def test_bad_files(tmp_path, mechanism, words):
    np.save(tmp_path / "pickle.npy", np.array([{}], dtype=object))
    np.save(tmp_path / "other.npy", np.eye(3))
    (tmp_path / "empty.csv").write_text("object,report\n")
    (tmp_path / "short.csv").write_text("object\n1\n")
    with pytest.raises(InputError, match=words):
        build_mechanism(scenario(tmp_path, mechanism), UNIVERSE)


@pytest.mark.parametrize("method", ["", 'method = "ibu"'])
def test_a_strong_adversary_of_a_channel(tmp_path, method):
    """It learns what is popular through the channel."""
    np.save(tmp_path / "channel.npy", MATRIX)
    found = scenario(tmp_path, "kind = 'channel'\nmatrix = 'channel.npy'")
    text = found.text.replace(
        'popularity = "uniform"', f'popularity = "estimated"\nestimate_from = 10_000_000\n{method}'
    )
    (tmp_path / "mine.toml").write_text(text)
    game = build_game(load_scenario(tmp_path / "mine.toml"), seed=1)
    np.testing.assert_allclose(game.adversaries[0].popularity, game.popularity / game.popularity.sum(), atol=0.01)
