"""The estimate through channels that do not tell all objects apart, against its exact law."""

from itertools import product

import numpy as np
import pytest
from cases.synthetic import SEED

from poolscope.cli.files import print_estimate
from poolscope.core.errors import InputError
from poolscope.mechanisms import GRR, Channel
from poolscope.reports.channel import prior_variance, ridge_counts
from poolscope.reports.frequencies import estimator, frequencies
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.estimate import estimate

#: Three objects, of which two reports tell two apart at most.
BLURRED = np.array([[0.7, 0.3], [0.5, 0.5], [0.2, 0.8]])


def every_case(matrix, reports):
    """Probability, counts and histogram of all that can happen if every popularity is as likely as every other.

    All ways to divide the reports among objects are then equally likely.
    """
    objects, kinds = matrix.shape
    ways = [c for c in product(range(reports + 1), repeat=objects) if sum(c) == reports]
    for counts in ways:
        sent = np.repeat(np.arange(objects), counts)
        for seen in product(range(kinds), repeat=reports):
            chance = np.prod(matrix[sent, list(seen)]) / len(ways)
            yield chance, np.array(counts), np.bincount(seen, minlength=kinds)


@pytest.mark.parametrize("matrix", [BLURRED, np.full((3, 2), 0.5), np.array([[0.8, 0.2], [0.3, 0.7]])])
def test_no_linear_estimate_has_smaller_errors(matrix):
    """The error is uncorrelated with what was seen: using the histogram otherwise gains nothing."""
    reports, objects = 4, len(matrix)
    t = reports * (reports - 1) / (objects * (objects + 1))
    total, gain = 0.0, np.zeros((objects, 2))
    for chance, counts, seen in every_case(matrix, reports):
        found = ridge_counts(matrix, seen, t)
        assert found.sum() == pytest.approx(reports)
        total += chance
        gain += chance * np.outer(found - counts, seen)
    assert total == pytest.approx(1)
    np.testing.assert_allclose(gain, 0, atol=1e-12)


def drawn(matrix, reports, rng):
    counts = rng.multinomial(reports, rng.dirichlet(np.ones(len(matrix))))
    return counts, sum(rng.multinomial(count, row) for count, row in zip(counts, matrix, strict=True))


def test_unevenness_is_read_off_the_histogram():
    rng, reports = np.random.default_rng(SEED), 3000
    matrix = rng.dirichlet(np.ones(4), 6)
    found = np.array([prior_variance(matrix, drawn(matrix, reports, rng)[1]) for _ in range(600)])
    expected = reports * (reports - 1) / (6 * 7)
    assert abs(found.mean() - expected) < 4 * found.std(ddof=1) / np.sqrt(len(found))
    even = np.bincount(np.arange(3000) % 4)
    assert prior_variance(np.full((6, 4), 0.25) + 0.01 * np.eye(6, 4) - 0.0025, even) >= 0


def test_it_states_no_errors():
    """None can be right: two popularities with the same histogram have one estimate, and are far apart."""
    channel = Channel(universe=3, matrix=BLURRED)
    found = estimator(channel, "ridge").estimate(np.array([500, 500]), 1000)
    assert found.errors is None
    alike = [np.array([0, 1000, 0]), np.array([600, 0, 400])]
    for counts in alike:
        np.testing.assert_allclose(counts @ BLURRED, [500, 500])
    assert max(np.abs(found.counts - counts).max() for counts in alike) > 300


def test_the_table_and_the_terminal_have_no_errors(tmp_path, monkeypatch, capsys):
    np.save(tmp_path / "matrix.npy", BLURRED)
    (tmp_path / "reports.csv").write_text("user,report\n" + "".join(f"{u},{u % 2}\n" for u in range(1000)))
    tables = {
        "universe": {"size": 3, "pools": {"a": 1, "b": 1}},
        "mechanism": {"kind": "channel", "matrix": "matrix.npy"},
    }
    scenario = Scenario.from_dict(tables, folder=tmp_path)
    found = estimate(tmp_path / "reports.csv", scenario, tmp_path / "ridge.csv", method="ridge")
    assert found.n_detected is None
    assert found.table["standard_error"].null_count() == 3
    assert (tmp_path / "ridge.csv").read_text().splitlines()[1].split(",")[3] == ""
    print_estimate(found, None)
    printed = " ".join(capsys.readouterr().out.split())
    assert "no standard errors" in printed
    assert "exceed two standard errors" not in printed
    sure = estimate(tmp_path / "reports.csv", scenario.replace({"mechanism.kind": "channel"}), method="ibu")
    assert sure.n_detected == 0


def test_it_becomes_the_regression_where_there_is_one():
    rng = np.random.default_rng(SEED)
    channel = Channel(universe=5, matrix=rng.dirichlet(np.ones(7), 5))
    reports = channel.obfuscate(rng.choice(5, 300_000, p=[0.5, 0.2, 0.1, 0.1, 0.1]), rng)
    ridge, regression = frequencies(channel, reports, "ridge"), frequencies(channel, reports)
    assert (ridge.method, regression.method) == ("ridge", "regression")
    np.testing.assert_allclose(ridge.counts, regression.counts, atol=regression.errors.max())


def test_what_cannot_be_told_apart_is_shared_evenly():
    matrix = np.array([[0.9, 0.1], [0.1, 0.9], [0.1, 0.9]])
    found = frequencies(Channel(universe=3, matrix=matrix), {"report": np.repeat([0, 1], [100, 900])}, "ridge")
    assert found.counts[1] == pytest.approx(found.counts[2])
    blind = Channel(universe=4, matrix=np.full((4, 2), 0.5))
    none = frequencies(blind, {"report": np.zeros(12, dtype=int)}, "ridge")
    np.testing.assert_allclose(none.counts, 3)


def test_what_it_refuses():
    with pytest.raises(InputError, match=r"ridge requires a channel or a small output space, got 'GRR'"):
        estimator(GRR(universe=5, epsilon=1.0), "ridge")
    with pytest.raises(InputError, match="at least one report"):
        estimator(Channel(universe=3, matrix=BLURRED), "ridge").estimate(np.zeros(2, dtype=int), 0)
