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
from poolscope.metrics.calibration import brier, calibration_error, calibration_limit
from poolscope.metrics.intervals import Estimate
from poolscope.metrics.records import Record, summarise


def test_summary_holds_every_metric_of_every_attack():
    outcomes = game(300)
    results = summarise(outcomes, Pools(6), SEED)
    assert [(r.adversary, r.n) for r in results] == [
        (a, n) for a in ("weak", "strong", "non-private") for n in (7, 30, 90)
    ]
    rows = metrics.select(outcomes, "strong", 30)
    record = results[4]
    assert (record.threshold, record.sure, record.precision_when_sure) == (None, None, None)
    for field, estimate in {
        "auc": metrics.auc(rows, SEED),
        "precision": metrics.precision(rows, SEED),
        "precision_top5": metrics.precision(rows, SEED, top=0.05),
        "precision_top20": metrics.precision(rows, SEED, top=0.2),
        "calibration_error": calibration_error(rows, SEED),
        "brier": brier(rows),
        "sure_90": metrics.sure(rows, 0.9),
        "exposed_90": metrics.exposed(rows, 0.9, 30),
    }.items():
        assert getattr(record, field) == estimate
    assert record.calibration_error_limit == calibration_limit(rows, SEED)
    assert record.baseline == 1 / 6
    assert record.majority == rows["pool"].value_counts()["count"].max() / 300


def test_order_of_rows_categories_and_names_of_users_change_nothing():
    outcomes = attack(50)
    shuffled = outcomes.sample(fraction=1, shuffle=True, seed=1).sort("n", maintain_order=True)
    assert summarise(shuffled, Pools(6), SEED) == summarise(outcomes, Pools(6), SEED)
    named = outcomes.with_columns(
        pl.col("adversary", "pool", "guess").cast(pl.Categorical),
        pl.col("user").cast(pl.String).str.zfill(6),
    )
    assert summarise(named, Pools(6), SEED) == summarise(outcomes, Pools(6), SEED)


def test_a_threshold_of_your_own():
    outcomes = attack(300)
    rows = metrics.select(outcomes, "strong", 90)
    found = summarise(outcomes, Pools(6), SEED, threshold=0.7)[-1]
    assert found.threshold == 0.7
    assert found.sure == metrics.sure(rows, 0.7)
    assert found.precision_when_sure == metrics.precision_when_sure(rows, 0.7)
    told = found.as_json()
    assert told["sure"] == found.sure.value
    assert told["precision_when_sure_low"] == found.precision_when_sure.low


def test_json_is_flat_and_comes_back():
    for found in summarise(game(60), Pools(6), SEED, threshold=0.9):
        flat = found.as_json()
        assert (flat["auc"], flat["auc_low"], flat["auc_high"]) == found.auc
        again = Record.from_json(json.loads(json.dumps(flat, allow_nan=False)))
        assert again.as_json() == flat
        assert again.auc == found.auc
    plain = record()
    assert not {"threshold", "sure", "sure_low", "precision_when_sure"} & set(plain.as_json())
    assert Record.from_json(plain.as_json()) == plain


def test_what_is_infinite_or_not_known_is_still_json():
    found = choice(epsilon=np.inf, mse=None, min_entropy_leakage=(-np.inf, -np.inf))
    found = replace(found, threshold=0.9, sure=Estimate(0, 0, 0.1), precision_when_sure=Estimate(np.nan, 0, 1))
    flat = json.loads(json.dumps(found.as_json(), allow_nan=False))
    assert flat["epsilon"] == "inf"
    assert flat["min_entropy_leakage"] == "-inf"
    assert flat["mse"] is None
    assert flat["precision_when_sure"] is None
    again = Record.from_json(flat)
    assert again.min_entropy_leakage.value == -np.inf
    assert np.isnan(again.precision_when_sure.value)


def test_an_attack_that_is_never_right():
    never = bare(np.full(9, 0.5), np.zeros(9, dtype=bool))
    never = never.with_columns(**{f"exposed_{level}": pl.lit(None, dtype=pl.Int32) for level in (50, 90, 95)})
    (found,) = summarise(never.with_columns(pool=pl.Series([*"abcdefghi"]), guess=pl.lit("z")), Pools(10), 1)
    assert json.dumps(found.as_json(), allow_nan=False)
    assert found.as_json()["min_entropy_leakage"] == "-inf"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"adversary": 3}, "adversary: must be a text, got 3"),
        ({"n": None}, "n: must be a number, got None"),
        ({"n": 7.5}, "n: must be a whole number of at least 1, got 7.5"),
        ({"users": 0}, "users: must be a whole number of at least 1, got 0"),
        ({"auc": None}, "auc: must be a number, got None"),
        ({"auc_low": "low"}, "auc_low: must be a number, got 'low'"),
        ({"brier_high": True}, "brier_high: must be a number, got True"),
        ({"threshold": 0.9, "sure": "x"}, "sure: must be a number, got 'x'"),
    ],
)
def test_a_record_of_another_kind_is_refused(change, message):
    with pytest.raises(InputError) as error:
        Record.from_json(record().as_json() | change)
    assert str(error.value) == message
