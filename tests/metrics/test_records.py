"""Records: every metric of every attack, and the flat JSON that holds them."""

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from cases.records import Pools, choice, record
from cases.synthetic import SEED, attack, bare, game

from poolscope import metrics
from poolscope.core.errors import InputError
from poolscope.metrics.calibration import brier, ece, ece_null_p95
from poolscope.metrics.intervals import Estimate
from poolscope.metrics.records import Record, summarize


def test_summary_holds_every_metric_of_every_attack():
    outcomes = game(300)
    results = summarize(outcomes, Pools(6), SEED)
    assert [(r.adversary, r.n) for r in results] == [
        (a, n) for a in ("weak", "strong", "non-private") for n in (7, 30, 90)
    ]
    rows = metrics.select(outcomes, "strong", 30)
    record = results[4]
    assert (record.threshold, record.confident_at_threshold, record.precision_at_threshold) == (None, None, None)
    for field, estimate in {
        "auc_pn": metrics.auc_pn(rows, SEED),
        "precision": metrics.precision(rows, SEED),
        "precision_top5": metrics.precision(rows, SEED, top=0.05),
        "precision_top20": metrics.precision(rows, SEED, top=0.2),
        "ece": ece(rows, SEED),
        "brier": brier(rows),
        "confident_90": metrics.confident(rows, 0.9),
        "exposed_90": metrics.exposed(rows, 0.9, 30),
    }.items():
        assert getattr(record, field) == estimate
    assert record.ece_null_p95 == ece_null_p95(rows, SEED)
    assert record.baseline == 1 / 6
    assert record.majority == rows["pool"].value_counts()["count"].max() / 300


def test_users_who_share_an_estimate_widen_the_security():
    outcomes = attack(300, observations=(30,)).with_columns(estimate=pl.col("user") % 5)
    (found,) = summarize(outcomes, Pools(6), SEED)
    assert metrics.bayes_security(outcomes, 6, SEED) == found.bayes_security
    assert metrics.bayes_security(outcomes.drop("estimate"), 6, SEED).low > found.bayes_security.low


def test_order_of_rows_categories_and_names_of_users_change_nothing():
    outcomes = attack(50)
    shuffled = outcomes.sample(fraction=1, shuffle=True, seed=1).sort("n", maintain_order=True)
    assert summarize(shuffled, Pools(6), SEED) == summarize(outcomes, Pools(6), SEED)
    named = outcomes.with_columns(
        pl.col("adversary", "pool", "guess").cast(pl.Categorical),
        pl.col("user").cast(pl.String).str.zfill(6),
    )
    assert summarize(named, Pools(6), SEED) == summarize(outcomes, Pools(6), SEED)


def test_a_threshold_of_your_own():
    outcomes = attack(300)
    rows = metrics.select(outcomes, "strong", 90)
    found = summarize(outcomes, Pools(6), SEED, threshold=0.7)[-1]
    assert found.threshold == 0.7
    assert found.confident_at_threshold == metrics.confident(rows, 0.7)
    assert found.precision_at_threshold == metrics.precision_at_threshold(rows, 0.7)
    facts = found.as_json()
    assert facts["confident_at_threshold"] == found.confident_at_threshold.value
    assert facts["precision_at_threshold_low"] == found.precision_at_threshold.low


def test_json_is_flat_and_comes_back():
    for found in summarize(game(60), Pools(6), SEED, threshold=0.9):
        flat = found.as_json()
        assert (flat["auc_pn"], flat["auc_pn_low"], flat["auc_pn_high"]) == found.auc_pn
        again = Record.from_json(json.loads(json.dumps(flat, allow_nan=False)))
        assert again.as_json() == flat
        assert again.auc_pn == found.auc_pn
    plain = record()
    assert not {"threshold", "confident_at_threshold", "confident_at_threshold_low", "precision_at_threshold"} & set(
        plain.as_json()
    )
    assert Record.from_json(plain.as_json()) == plain


def test_what_is_infinite_or_not_known_is_still_json():
    found = choice(epsilon=np.inf, mse=None, min_entropy_leakage=(-np.inf, -np.inf))
    found = replace(
        found, threshold=0.9, confident_at_threshold=Estimate(0, 0, 0.1), precision_at_threshold=Estimate(np.nan, 0, 1)
    )
    flat = json.loads(json.dumps(found.as_json(), allow_nan=False))
    assert flat["epsilon"] == "inf"
    assert flat["min_entropy_leakage"] == "-inf"
    assert flat["mse"] is None
    assert flat["precision_at_threshold"] is None
    again = Record.from_json(flat)
    assert again.min_entropy_leakage.value == -np.inf
    assert np.isnan(again.precision_at_threshold.value)


def test_an_attack_that_is_never_right():
    never = bare(np.full(9, 0.5), np.zeros(9, dtype=bool))
    never = never.with_columns(**{f"exposed_at_{level}": pl.lit(None, dtype=pl.Int32) for level in (50, 90, 95)})
    (found,) = summarize(never.with_columns(pool=pl.Series([*"abcdefghi"]), guess=pl.lit("z")), Pools(10), 1)
    assert json.dumps(found.as_json(), allow_nan=False)
    assert found.as_json()["min_entropy_leakage"] == "-inf"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"adversary": 3}, "adversary: must be a string, got 3"),
        ({"n": None}, "n: must be a number, got None"),
        ({"n": 7.5}, "n: must be a whole number of at least 1, got 7.5"),
        ({"users": 0}, "users: must be a whole number of at least 1, got 0"),
        ({"auc_pn": None}, "auc_pn: must be a number, got None"),
        ({"auc_pn_low": "low"}, "auc_pn_low: must be a number, got 'low'"),
        ({"brier_high": True}, "brier_high: must be a number, got True"),
        ({"threshold": 0.9, "confident_at_threshold": "x"}, "confident_at_threshold: must be a number, got 'x'"),
    ],
)
def test_a_record_of_another_kind_is_refused(change, message):
    with pytest.raises(InputError) as error:
        Record.from_json(record().as_json() | change)
    assert str(error.value) == message
