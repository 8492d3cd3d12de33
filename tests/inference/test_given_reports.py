"""Reports, lengths and adversaries that a caller gives to `posterior`: what does not fit is refused in one line."""

import numpy as np
import pytest
from cases.memoized import CROWD, STRONG, traces_of
from oracle.distributions import LARGE
from oracle.kinds import KINDS, large

from poolscope.core.errors import InputError
from poolscope.inference.adversary import Adversary
from poolscope.inference.attack import posterior
from poolscope.mechanisms import CMS, GRR, HCMS, SUE, Fresh, Memoized, adapt
from poolscope.population.universe import Universe
from poolscope.reports.frequencies import frequencies

RESPONSE = GRR(universe=60, epsilon=2.0)
UNIVERSE = Universe.sized(LARGE, {"a": 3, "b": 40, "c": 1})


def weak(size):
    return Adversary.weak(Universe.sized(size, {"a": 2, "b": 2}))


@pytest.mark.parametrize("value", [-1, 60, 99])
@pytest.mark.parametrize("device", [RESPONSE, Fresh(RESPONSE), Memoized(RESPONSE)])
def test_objects_outside_the_universe(value, device):
    with pytest.raises(InputError, match=rf"value, report 2: must be 0 to 59, got {value}"):
        posterior(device, {"value": np.array([0, 1, value])}, STRONG)


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ([-1, 4], "lengths must be a list of integers of at least 0"),
        ([1.5, 1.5], "lengths must be a list of integers of at least 0"),
        ([[1, 2]], "lengths must be a list of integers of at least 0"),
        (["3"], "lengths must be a list of integers of at least 0"),
        ([2, 2], "lengths must add up to the 3 reports, got 4"),
        ([1, 1], "lengths must add up to the 3 reports, got 2"),
    ],
)
@pytest.mark.parametrize("device", [Fresh(RESPONSE), Memoized(RESPONSE)])
def test_lengths(lengths, message, device):
    with pytest.raises(InputError, match=message):
        posterior(device, {"value": np.array([0, 1, 2])}, STRONG, lengths=lengths)


@pytest.mark.parametrize("observations", [[-1], [1.5], "12", 3, [True]])
def test_observations(observations):
    with pytest.raises(InputError, match="observations"):
        posterior(RESPONSE, {"value": np.array([0, 1, 2])}, STRONG, observations=observations)


def test_an_adversary_of_another_universe():
    rule = "the adversary's universe must have the mechanism's 13 objects, got 12"
    with pytest.raises(InputError, match=rule):
        posterior(GRR(universe=13, epsilon=1.0), {"value": np.array([12])}, weak(12))


HASHED = {"universe": 60, "epsilon": 2.0, "m": 20, "hashes": 8}


@pytest.mark.parametrize(
    ("mechanism", "column", "wrong", "message"),
    [
        (CMS(**HASHED), "hash", [0, 8], "hash, report 1: must be 0 to 7, got 8"),
        (CMS(**HASHED), "hash", [-1, 0], "hash, report 0: must be 0 to 7, got -1"),
        (CMS(**HASHED), "bits", np.zeros((2, 4), np.uint8), r"bits: must be bytes \(uint8\), 3 for each report"),
        (CMS(**HASHED), "bits", np.full((2, 3), 255, np.uint8), "bits: no bit beyond m = 20 may be set"),
        (CMS(**HASHED), "bits", np.zeros((2, 3)), r"bits: must be bytes \(uint8\), 3 for each report, got 'float64"),
        (SUE(universe=60, epsilon=1.0), "bits", np.zeros((2, 60), np.uint8), "bits: must be bytes"),
        (HCMS(**(HASHED | {"m": 16})), "coordinate", [3, 16], "coordinate, report 1: must be 0 to 15, got 16"),
        (HCMS(**(HASHED | {"m": 16})), "bit", [1, 0], "bit, report 1: must be 1 or -1, got 0"),
        (RESPONSE, "value", [0.0, 1.0], "value: must be integers, one for each report, got 'float64"),
        (RESPONSE, "value", [[0], [1]], "value: must be integers, one for each report"),
    ],
)
def test_columns_that_do_not_fit(mechanism, column, wrong, message):
    reports = dict(mechanism.obfuscate(np.array([3, 4]), np.random.default_rng(1)))
    for attack in (posterior, frequencies):
        rest = (STRONG,) if attack is posterior else ()
        attack(mechanism, reports, *rest)
        with pytest.raises(InputError, match=message):
            attack(mechanism, reports | {column: np.asarray(wrong)}, *rest)


@pytest.mark.parametrize("name", list(KINDS))
def test_every_column_of_every_mechanism_is_checked(name):
    """Each is taken away, given one row too few, and given a value that it cannot have."""
    mechanism, adversary = large(name), Adversary.weak(UNIVERSE)
    reports = dict(mechanism.obfuscate(np.arange(3), np.random.default_rng(1)))
    assert np.isfinite(posterior(mechanism, reports, adversary)).all()
    for column, kind in mechanism.report_columns.items():
        without = {key: value for key, value in reports.items() if key != column}
        with pytest.raises(InputError, match=r"reports must have a column"):
            posterior(mechanism, without, adversary)
        wrong = reports[column].astype(np.float64) if kind.kind != "reals" else np.full((3, kind.size), np.nan)
        with pytest.raises(InputError, match=rf"{column}.*must be"):
            posterior(mechanism, reports | {column: wrong}, adversary)
        if len(reports) > 1:
            with pytest.raises(InputError, match="reports must have a row for each object"):
                posterior(mechanism, reports | {column: reports[column][:2]}, adversary)


@pytest.mark.parametrize("reports", [np.array([1, 2]), [1, 2], "value", None, {}])
def test_reports_that_are_no_columns(reports):
    with pytest.raises(InputError, match="reports must"):
        posterior(RESPONSE, reports, STRONG)


class Own:
    """Says nothing of its columns: its reports are one array, as it makes them."""

    epsilon = 1.0

    def obfuscate(self, objects, rng):
        return np.asarray(objects)

    def log_likelihood(self, reports):
        return np.log(0.5 * (np.asarray(reports)[:, None] == np.arange(60)) + 0.5 / 60)


def test_reports_of_an_adapted_mechanism():
    own = adapt(Own(), CROWD)
    bare = posterior(own, np.array([0, 1, 2]), STRONG)
    np.testing.assert_array_equal(bare, posterior(own, {"report": np.array([0, 1, 2])}, STRONG))
    with pytest.raises(InputError, match="reports must have a column 'report'"):
        posterior(own, {"value": np.array([0, 1, 2])}, STRONG)


@pytest.mark.parametrize("given", [Own, GRR, "grr", None])
def test_what_is_no_mechanism(given):
    with pytest.raises(InputError, match="must be a mechanism"):
        posterior(given, {"value": np.array([0])}, STRONG)
    with pytest.raises(InputError, match="must be a mechanism"):
        Fresh(given)
    with pytest.raises(InputError, match="must be a mechanism"):
        frequencies(given, {"value": np.array([0])})


def test_integers_of_any_width():
    keys, _, traces = traces_of(6, 12)
    reports = Fresh(RESPONSE).send(traces.ravel(), np.repeat(keys, 12), np.tile(np.arange(12), 6))
    found = posterior(RESPONSE, reports, STRONG, lengths=np.full(6, 12))
    assert found.shape == (6, 13, 3)
    narrow = {name: column.astype(np.int8) for name, column in reports.items()}
    np.testing.assert_array_equal(posterior(RESPONSE, narrow, STRONG, lengths=np.full(6, 12)), found)
