"""One suite that every mechanism passes, and what is particular to some of them."""

import pickle
from dataclasses import replace
from itertools import product

import numpy as np
import polars as pl
import pytest
from cases.report_files import write_reports
from cases.synthetic import SEED
from oracle.distributions import LARGE, TINY
from oracle.kinds import EPSILONS, KINDS, distribution, large, rows, tiny
from scipy import stats

from poolscope.core.errors import InputError
from poolscope.core.randomness import children
from poolscope.inference.adversary import Adversary, stacked_pool_weights
from poolscope.mechanisms import MECHANISMS, Likelihood, PoolWeights, Pure, make
from poolscope.mechanisms.protocols import distinct, is_frequency_oracle, require_frequency_oracle, with_epsilon
from poolscope.mechanisms.pure import ScoreOracle, SupportOracle
from poolscope.population.universe import Universe
from poolscope.reports.files import read_reports


def key(report):
    return tuple((name, np.asarray(report[name]).tolist().__repr__()) for name in sorted(report))


def each_object():
    """A view with a column for every object: masses are what the mechanism says of single objects."""
    return PoolWeights(np.arange(TINY, dtype=np.uint32)[None], np.ones((1, TINY)), TINY)


def two_views():
    """Two adversaries with pools of their own, one without a neutral pool."""
    rng = np.random.default_rng(2)
    first = Universe.sized(LARGE, {"a": 3, "b": 40, "c": 1})
    pool_of = np.arange(LARGE) % 5
    second = Universe(size=LARGE, pool_names=tuple("vwxyz"), pool_of=pool_of)
    return stacked_pool_weights(
        [
            Adversary(name="1", universe=first, popularity=rng.random(LARGE)),
            Adversary(name="2", universe=second, popularity=rng.random(LARGE) ** 8),
        ]
    )[0]


def some(mechanism, count=3000, seed=0):
    """Objects and report keys."""
    keys = children(np.uint64(SEED + seed), np.arange(count))
    return np.random.default_rng(seed).integers(mechanism.universe, size=count), keys


def played(mechanism, objects, keys, view):
    """What `sent_masses` writes, the first reports into the last rows."""
    out = np.full((len(objects), view.width), np.nan)
    mechanism.sent_masses(objects, keys, view, np.arange(len(objects))[::-1].copy(), out)
    return out[::-1]


def general(mechanism):
    """The class whose general methods the fast ones must agree with."""
    return Pure if isinstance(mechanism, Pure) else Likelihood


every_mechanism = pytest.mark.parametrize("name", list(KINDS))
every_noise = pytest.mark.parametrize("name", [name for name in KINDS if KINDS[name].noisy])
every_limit = pytest.mark.parametrize("name", [name for name in KINDS if KINDS[name].limit])
every_count = pytest.mark.parametrize("name", [name for name in KINDS if KINDS[name].counted])
every_support = pytest.mark.parametrize("name", [name for name in KINDS if isinstance(tiny(name), SupportOracle)])
every_listed = pytest.mark.parametrize("name", [name for name in KINDS if KINDS[name].listed])
every_law = pytest.mark.parametrize(
    ("name", "epsilon"), [(name, e) for name in KINDS for e in (*EPSILONS, np.inf) if KINDS[name].limit or e < np.inf]
)

every_sample = pytest.mark.parametrize(("epsilon", "count"), [(0.5, 40_000), (4.0, 40_000), (4.0, 10_000)])


def test_every_mechanism_is_in_the_suite():
    """All names of scenarios, and an object of somebody's own."""
    assert {kind.of or name for name, kind in KINDS.items()} == {*MECHANISMS, "adapted"}


# The role


@every_mechanism
def test_a_mechanism_has_an_estimate_or_not(name):
    mechanism = tiny(name)
    assert is_frequency_oracle(mechanism) == KINDS[name].counted
    if KINDS[name].counted:
        assert require_frequency_oracle(mechanism) is mechanism
    else:
        with pytest.raises(InputError, match=f"no frequency estimate, got '{type(mechanism).__name__}'"):
            require_frequency_oracle(mechanism)


@every_mechanism
def test_a_mechanism_says_what_its_reports_share(name):
    mechanism = large(name)
    objects, keys = some(mechanism, 50)
    shared = mechanism.shared_by(keys)
    assert (shared is None) == (mechanism.shared_column is None)
    if shared is not None:
        np.testing.assert_array_equal(mechanism.report(objects, keys)[mechanism.shared_column], shared)


@every_mechanism
def test_a_mechanism_travels(name):
    mechanism = large(name)
    there = pickle.loads(pickle.dumps(mechanism))
    objects, keys = some(mechanism, 50)
    for column, values in mechanism.report(objects, keys).items():
        np.testing.assert_array_equal(there.report(objects, keys)[column], values)


@every_noise
def test_another_epsilon(name):
    """As if it were made with it; what is no mechanism of that epsilon says so."""
    if name in ("spotme", "rappor"):
        with pytest.raises(InputError, match="cannot be given with epsilon"):
            with_epsilon(tiny(name, 1.0), 3.0)
        return
    one, other = with_epsilon(tiny(name, 1.0), 3.0), tiny(name, 3.0)
    assert (one.own_mean, one.other_mean, one.epsilon) == (other.own_mean, other.other_mean, 3.0)
    assert getattr(one, "q_star", None) == getattr(other, "q_star", None)
    assert one.report_columns == other.report_columns


@pytest.mark.parametrize("name", ["cms", "hcms", "rappor"])
def test_functions_outlive_another_parameter(name):
    """A table is checked once; computed functions are those of the new parameters."""
    given = tiny(name)
    assert replace(given, seed=3).hash_table is given.hash_table
    computed = large(name)
    for changed in ({"seed": 3}, {"m": 64}):
        found, other = replace(computed, **changed), large(name, **changed)
        assert (found, found.epsilon) == (other, other.epsilon)
        assert found != computed
    with pytest.raises(InputError, match="hash values must be"):
        replace(given, m=2)


# The law


@pytest.mark.default_cases("*-1.0", "grr-inf", "cms-inf")
@every_law
def test_likelihoods_are_the_law(name, epsilon):
    """likelihood_offset + likelihood_scale * mass is Pr[report | z] up to a factor of the report, and sums to one.

    So are the likelihood and its logarithm.
    """
    mechanism, probability, reports = tiny(name, epsilon), distribution(name, epsilon), KINDS[name].every()
    if KINDS[name].listed:
        np.testing.assert_allclose(probability.sum(axis=0), 1, atol=1e-14)
    by_mass = mechanism.likelihood_offset + mechanism.likelihood_scale * mechanism.mass(reports, each_object())
    possible = probability.any(axis=1)
    for weight in (by_mass, mechanism.likelihood(reports), np.exp(mechanism.log_likelihood(reports))):
        factor = probability.sum(axis=1) / np.where(weight.any(axis=1), weight.sum(axis=1), 1)
        np.testing.assert_allclose((factor[:, None] * weight)[possible], probability[possible], rtol=1e-13)


@pytest.mark.default_cases("*-1.0", "*-inf")
@every_law
def test_the_own_object_is_supported_with_probability_p_star(name, epsilon):
    """For pure mechanisms under any hash function; others may have a p* that is a mean over them."""
    mechanism, probability = tiny(name, epsilon), distribution(name, epsilon)
    if isinstance(mechanism, Pure):
        support = mechanism.support(KINDS[name].every())
        np.testing.assert_allclose((probability * support).sum(axis=0), mechanism.p_star, rtol=1e-14)


@pytest.mark.default_cases("1.0-*")
@every_noise
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_no_ratio_exceeds_e_to_the_epsilon(name, epsilon):
    probability = distribution(name, epsilon)
    ratio = probability.max(axis=1) / probability.min(axis=1)
    assert ratio.max() <= np.exp(epsilon) * (1 + 1e-12)
    assert (ratio.max() == pytest.approx(np.exp(epsilon), rel=1e-12)) == KINDS[name].tight, "reached, where it is tight"


@pytest.mark.default_cases("3.0-*")
@every_listed
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_samples_follow_the_law(name, epsilon):
    mechanism, probability = tiny(name, epsilon), distribution(name, epsilon)
    position = {key(report): i for i, report in enumerate(rows(KINDS[name].every()))}
    rng = np.random.default_rng(SEED)
    for z in range(TINY):
        reports = mechanism.obfuscate(np.full(8000, z), rng)
        assert tuple(reports) == tuple(mechanism.report_columns)
        first, which = distinct(reports)
        places = [position[key(r)] for r in rows({column: values[first] for column, values in reports.items()})]
        seen = np.bincount(np.array(places)[which], minlength=len(position))
        expected = 8000 * probability[:, z]
        assert seen[expected == 0].sum() == 0
        often = expected >= 5
        if (expected[~often] > 0).any():
            seen = np.append(seen[often], seen[~often].sum())
            expected = np.append(expected[often], expected[~often].sum())
        else:
            seen, expected = seen[often], expected[often]
        p = stats.chisquare(seen, expected).pvalue if len(seen) > 1 else 1.0
        assert p > 1e-4, (z, p)


@every_limit
@pytest.mark.parametrize("epsilon", [np.inf, 2000.0])
@pytest.mark.filterwarnings("error")
def test_without_noise_a_report_is_transparent(name, epsilon):
    """It supports what it was made from, always, and gives other likelihoods no floor."""
    mechanism = large(name, epsilon)
    objects, keys = some(mechanism)
    reports = mechanism.report(objects, keys)
    assert mechanism.support(reports)[np.arange(len(objects)), objects].all()
    assert (mechanism.p_star, mechanism.likelihood_offset, mechanism.likelihood_scale) == (1, 0, 1)
    if mechanism.q_star == 0:
        np.testing.assert_array_equal(mechanism.support(reports).sum(axis=1), 1)


@pytest.mark.default_cases("4.0-10000-*")
@every_support
@every_sample
def test_p_star_and_q_star(name, epsilon, count):
    """Over many hash functions: the own object, and the mean over all others, by Monte Carlo."""
    mechanism = large(name, epsilon)
    objects, keys = some(mechanism, count, seed=1)
    support = mechanism.support(mechanism.report(objects, keys))
    own = support[np.arange(len(objects)), objects]
    others = (support.sum(axis=1) - own) / (LARGE - 1)
    for stated, sample in ((mechanism.p_star, own), (mechanism.q_star, others)):
        bound = 4 * sample.std() / np.sqrt(len(sample)) + 1e-15
        assert abs(sample.mean() - stated) < bound, (stated, sample.mean(), bound)


@pytest.mark.default_cases("4.0-10000-*")
@every_count
@every_sample
def test_means_of_the_scores(name, epsilon, count):
    """The same of what the curator sums; of supports it is the same."""
    mechanism = large(name, epsilon)
    objects, keys = some(mechanism, count, seed=1)
    scores = mechanism.scores(mechanism.report(objects, keys)).astype(float)
    own = scores[np.arange(len(objects)), objects]
    others = (scores.sum(axis=1) - own) / (LARGE - 1)
    for stated, sample in ((mechanism.own_mean, own), (mechanism.other_mean, others)):
        bound = 4 * sample.std() / np.sqrt(len(sample)) + 1e-15
        assert abs(sample.mean() - stated) < bound, (stated, sample.mean(), bound)
    if mechanism.binary_scores:
        assert set(np.unique(scores)) <= {0.0, 1.0}


# Fast paths


@pytest.mark.default_cases("changed0-*", "changed[13]-cms", "changed1-hcms", "changed3-rappor")
@every_mechanism
@pytest.mark.parametrize("changed", [{}, {"m": 64}, {"m": 1024}, {"hashes": 3}])
def test_fast_paths_are_the_general_ones(name, changed):
    if not set(changed) <= set(KINDS[name].large):
        pytest.skip(f"{name} has no {', '.join(changed)}")
    mechanism, view = large(name, **changed), two_views()
    objects, keys = some(mechanism)
    reports = mechanism.report(objects, keys)
    mass = mechanism.mass(reports, view)
    np.testing.assert_array_equal(played(mechanism, objects, keys, view), mass)
    np.testing.assert_allclose(mass, general(mechanism).mass(mechanism, reports, view), rtol=0, atol=1e-13)
    assert mass.min() >= 0
    if KINDS[name].counted:
        np.testing.assert_array_equal(mechanism.score_sums(reports), ScoreOracle.score_sums(mechanism, reports))
    if isinstance(mechanism, SupportOracle):
        counts = mechanism.support_counts(reports)
        np.testing.assert_array_equal(counts, SupportOracle.support_counts(mechanism, reports))


@every_mechanism
def test_reports_depend_on_their_key_alone(name):
    mechanism = large(name)
    objects, keys = some(mechanism)
    reports = mechanism.report(objects, keys)
    part = np.random.default_rng(3).permutation(len(objects))[:500]
    for column, values in mechanism.report(objects[part], keys[part]).items():
        np.testing.assert_array_equal(values, reports[column][part])


@every_mechanism
def test_methods_work_in_parts(name, monkeypatch):
    """The general ones and the fast ones: what is held at once changes nothing."""
    mechanism, view = large(name, **({"hashes": 7} if "hashes" in KINDS[name].large else {})), two_views()
    objects, keys = some(mechanism, 500)
    reports = mechanism.report(objects, keys)
    whole = general(mechanism).mass(mechanism, reports, view)
    monkeypatch.setattr("poolscope.mechanisms.pure.CELLS_AT_ONCE", 7 * LARGE)
    monkeypatch.setattr("poolscope.mechanisms.hashing.BUCKETS_PER_CHUNK", 7 * LARGE)
    monkeypatch.setattr("poolscope.mechanisms.unary.WORDS_PER_CHUNK", 22)
    np.testing.assert_allclose(general(mechanism).mass(mechanism, reports, view), whole, atol=1e-13)
    np.testing.assert_allclose(mechanism.mass(reports, view), whole, atol=1e-13)
    np.testing.assert_array_equal(played(mechanism, objects, keys, view), mechanism.mass(reports, view))
    if KINDS[name].counted:
        dense = mechanism.scores(reports).sum(axis=0)
        np.testing.assert_array_equal(ScoreOracle.score_sums(mechanism, reports), dense)
        np.testing.assert_array_equal(mechanism.score_sums(reports), dense)
    if isinstance(mechanism, SupportOracle):
        dense = mechanism.support(reports).sum(axis=0)
        np.testing.assert_array_equal(SupportOracle.support_counts(mechanism, reports), dense)
        np.testing.assert_array_equal(mechanism.support_counts(reports), dense)


@every_mechanism
def test_the_same_reports_are_found(name):
    mechanism = tiny(name)
    reports = mechanism.report(*some(mechanism, 300))
    first, which = distinct(reports)
    assert len(first) == len({key(report) for report in rows(reports)})
    assert np.all(first[which] <= np.arange(300)), "none stands before the first"
    for column in reports.values():
        np.testing.assert_array_equal(column[first][which], column)


@every_mechanism
def test_no_reports_at_all(name):
    mechanism, view = large(name), two_views()
    reports = mechanism.obfuscate(np.empty(0, dtype=np.int64), np.random.default_rng(0))
    assert mechanism.mass(reports, view).shape == (0, view.width)
    assert [len(found) for found in distinct(reports)] == [0, 0]
    if KINDS[name].counted:
        assert not mechanism.score_sums(reports).any()


@every_mechanism
def test_obfuscate_takes_a_generator(name):
    mechanism = large(name)
    one, same, other = (mechanism.obfuscate([5, 0, LARGE - 1] * 20, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert set(one) == set(mechanism.report_columns)
    for column in one:
        assert len(one[column]) == 60
        np.testing.assert_array_equal(one[column], same[column])
    if KINDS[name].noisy:
        assert any((one[column] != other[column]).any() for column in one)


@pytest.mark.default_cases(
    "csv-cms", "csv-grr", "csv-she", "csv-dbitflip", "csv-hr-blocks", "csv-adapted", "csv-cms-no-hash"
)
@every_mechanism
@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_reports_survive_a_file(name, ending, tmp_path):
    mechanism, universe = large(name), Universe.sized(LARGE, {"a": 3, "b": 4})
    objects, keys = some(mechanism, 50)
    reports = mechanism.report(objects, keys)
    assert tuple(mechanism.report_columns) == tuple(reports)
    users = pl.Series("user", [f"u{i // 10}" for i in range(50)])
    write_reports(tmp_path / f"reports.{ending}", users, reports, mechanism, universe)
    read_users, read = read_reports(tmp_path / f"reports.{ending}", mechanism, universe)
    assert read_users.to_list() == users.to_list()
    np.testing.assert_array_equal(mechanism.mass(read, two_views()), mechanism.mass(reports, two_views()))
    for column in reports:
        np.testing.assert_array_equal(read[column], reports[column])


# Bad input


@every_mechanism
def test_bits_of_another_length(name):
    mechanism = large(name)
    if "bits" not in mechanism.report_columns:
        return
    size = -(-mechanism.report_columns["bits"].size // 8)
    reports = mechanism.obfuscate([1, 2], np.random.default_rng(0))
    short = {**reports, "bits": reports["bits"][:, :-1]}
    for method in (mechanism.score_sums, lambda r: mechanism.mass(r, two_views())):
        with pytest.raises(InputError, match=f"bits must be {size} bytes"):
            method(short)


# Particulars


def test_bits_lie_as_the_format_says():
    """Bit i is bit i mod 8, least significant first, of byte i div 8; spare bits are zero."""
    mechanism = make("cms-no-hash", 20, {"epsilon": np.inf})
    bits = mechanism.obfuscate(np.arange(20), np.random.default_rng(0))["bits"]
    assert bits.shape == (20, 3)
    for z, byte in product(range(20), range(3)):
        assert bits[z, byte] == (1 << z % 8 if z // 8 == byte else 0)
    noisy = make("cms-no-hash", 20, {"epsilon": 0.01}).obfuscate(np.zeros(400, dtype=int), np.random.default_rng(0))[
        "bits"
    ]
    assert (noisy[:, 2] < 16).all()
    assert (noisy[:, 2] >= 8).any()
