"""Results as models: every number survives a file, and a schema says what a file holds."""

import dataclasses
import json
from math import inf, isnan, nan

import pytest
from cases.records import choice, record
from jsonschema import Draft202012Validator, ValidationError
from pydantic import ValidationError as Invalid

from poolscope.core.errors import InputError
from poolscope.metrics.bounds import CumulativeEpsilon
from poolscope.metrics.intervals import Estimate
from poolscope.metrics.linkability import Linkability
from poolscope.metrics.models import Count, Flag, Real, Result, intervals, json_schema, read_model, result
from poolscope.metrics.records import Record
from poolscope.workflows.compare import Configuration


@result
class Nested(Result):
    """A record in a record."""

    share: Estimate
    times: Count = 1


@result
class Outer(Result):
    """A record with everything that a record may have."""

    real: Real
    sure: Flag
    inner: Nested | None
    curve: tuple[Estimate, ...]
    many: tuple[Nested, ...] = ()


FULL = Outer(
    real=-inf,
    sure=True,
    inner=Nested(share=Estimate(0.5, -inf, inf)),
    curve=(Estimate(0, 0.0, inf), Estimate(1, 1, 1)),
    many=(Nested(share=Estimate(1, 0, 1), times=3),),
)


def through_a_file(found):
    return json.loads(json.dumps(found.as_json(), allow_nan=False))


def test_a_record_is_flat_in_json_and_comes_back():
    flat = through_a_file(FULL)
    assert flat["real"] == "-inf"
    assert flat["inner"] == {"share": 0.5, "share_low": "-inf", "share_high": "inf", "times": 1}
    assert flat["curve"] == [[0, 0.0, "inf"], [1, 1, 1]]
    again = Outer.from_json(flat)
    assert again == FULL
    assert type(again.curve[0].value) is int, "whole numbers stay whole"


@pytest.mark.parametrize("name", [interval.name for interval in intervals(Configuration)])
def test_every_estimate_survives_with_infinite_ends(name):
    found = dataclasses.replace(choice(threshold=0.9), **{name: Estimate(0.25, -inf, inf)})
    assert Configuration.from_json(through_a_file(found)) == found


@pytest.mark.parametrize("name", [interval.name for interval in intervals(Record) if interval.nullable])
def test_what_is_not_known_is_null_and_comes_back(name):
    flat = through_a_file(dataclasses.replace(record(threshold=0.9), **{name: Estimate(nan, 0.0, 1.0)}))
    assert flat[name] is None
    assert isnan(getattr(Record.from_json(flat), name).value)


def test_only_what_may_be_unknown_is_nullable():
    assert {interval.name for interval in intervals(Record) if interval.nullable} == {
        "bayes_risk_ratio",
        "bayes_security",
        "precision_at_threshold",
    }


def test_a_name_of_json_may_differ():
    found = Linkability(
        adversary="a", window=3, devices=4, roc_auc=Estimate(1, 0, 1), tpr_at_fpr=Estimate(0.1, 0.0, 0.3)
    )
    flat = through_a_file(found)
    assert (flat["tpr_at_fpr_0.001"], flat["tpr_at_fpr_0.001_high"]) == (0.1, 0.3)
    assert not any(name.startswith("tpr_at_fpr") and "0.001" not in name for name in flat)
    assert Linkability.from_json(flat) == found
    Draft202012Validator(json_schema(Linkability, strict=True)).validate(flat)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"real": "much"}, "real: must be a number, got 'much'"),
        ({"real": None}, "real: must be a number, got None"),
        ({"sure": 1}, "sure: must be true or false"),
        ({"inner": []}, "inner: must be an object, got []"),
        ({"inner": {"share": 1, "share_low": 0}}, "inner.share_high: must be a number, got None"),
        ({"curve": [[1, 2]]}, "curve.0: must be three numbers, got [1, 2]"),
        ({"curve": [[1, 2, None]]}, "curve.0: must be a number, got None"),
        ({"many": [{"share": 1, "share_low": 0, "share_high": 1, "times": 0}]}, "many.0.times: must be a whole number"),
        ({"many": {}}, "many: must be a list"),
    ],
)
def test_what_is_malformed_is_one_line_with_its_place(change, message):
    with pytest.raises(InputError) as error:
        Outer.from_json(through_a_file(FULL) | change)
    assert str(error.value).startswith(message)
    with pytest.raises(ValidationError):
        Draft202012Validator(json_schema(Outer, strict=True)).validate(through_a_file(FULL) | change)


def test_what_is_missing_is_named():
    flat = through_a_file(FULL)
    del flat["real"]
    with pytest.raises(InputError, match=r"^real: is missing$"):
        Outer.from_json(flat)
    with pytest.raises(InputError, match=r"^must be an object, got \[\]$"):
        read_model(Outer, [])


def test_a_schema_holds_what_is_written_and_nothing_else():
    check = Draft202012Validator(json_schema(Outer, strict=True))
    check.validate(through_a_file(FULL))
    for wrong in ({"more": 1}, {"real": "Infinity"}, {"curve": [[1, 2, 3, 4]]}):
        assert not check.is_valid(through_a_file(FULL) | wrong), wrong
    assert not check.is_valid({key: value for key, value in through_a_file(FULL).items() if key != "curve"})
    of_record = Draft202012Validator(json_schema(Record, strict=True))
    of_record.validate(through_a_file(record()))
    of_record.validate(through_a_file(record(threshold=0.9)))
    assert not of_record.is_valid(through_a_file(record()) | {"auc_pn": None})


def test_a_published_schema_allows_fields_of_later_versions():
    check, flat = Draft202012Validator(json_schema(Outer)), through_a_file(FULL)
    check.validate(flat | {"more": 1, "inner": flat["inner"] | {"more": 1}})
    assert not check.is_valid(flat | {"real": "much"})
    assert not check.is_valid({key: value for key, value in flat.items() if key != "real"})


def test_results_are_frozen_dataclasses_that_check_their_values():
    spent = CumulativeEpsilon(report=4.0)
    assert dataclasses.replace(spent, day=2.0).as_json() == {
        "report": 4.0,
        "day": 2.0,
        "year": None,
        "total": None,
        "response": None,
    }
    with pytest.raises(dataclasses.FrozenInstanceError):
        spent.report = 1.0
    with pytest.raises(Invalid, match="rule"):
        CumulativeEpsilon(report="four")
