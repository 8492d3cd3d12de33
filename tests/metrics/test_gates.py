"""Gates: the grammar, the border from both sides under both policies, and errors with the nearest name."""

import json

import pytest
from cases.command_line import SMALL
from hypothesis import given
from hypothesis import strategies as st

from poolscope.core.errors import InputError
from poolscope.metrics.gates import gate, parse_gate, schema_fields
from poolscope.metrics.models import json_schema
from poolscope.scenario.scenario import parse
from poolscope.workflows.advise.records import Advice
from poolscope.workflows.audit.audit import audit
from poolscope.workflows.audit.run_folder import Summary
from poolscope.workflows.check.verdict import Verdict
from poolscope.workflows.compare import Comparison


def record(value, low=None, high=None, **labels):
    ends = {} if low is None else {"exposed_90_low": low, "exposed_90_high": high}
    return {"adversary": "strong", "n": 30, "exposed_90": value, **ends, **labels}


def judged(condition, *records, policy="fail"):
    return gate({"results": list(records)}, condition, on_uncertain=policy)


def test_a_condition_in_all_its_parts():
    found = parse_gate("results.exposed_90 >= 2% for 'the strong one' at 365 where mechanism = oue and epsilon == 2")
    assert (found.path, found.field, found.op, found.limit) == ("results", "exposed_90", ">=", 0.02)
    assert found.where == {"adversary": "the strong one", "n": "365", "mechanism": "oue", "epsilon": "2"}
    assert parse_gate("rmse<1e-3").limit == 0.001


@pytest.mark.parametrize(
    "text",
    [
        "",
        "exposed_90",
        "exposed_90 > ",
        "exposed_90 > much",
        "exposed_90 > nan",
        "> 0.02",
        "0.02 < exposed_90",
        "exposed_90 > 0.02 at",
        "exposed_90 > 0.02 by 30",
        "exposed_90 > 0.02 at 30 at 7",
        "exposed_90 > 0.02 at 30 where n = 7",
        "exposed_90 > 0.02 where mechanism oue",
        "exposed_90 > 0.02 for 'strong",
        "exposed_90 ~ 0.02",
    ],
)
def test_another_form_is_refused_in_one_line(text):
    with pytest.raises(InputError) as error:
        parse_gate(text)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("condition", "value", "low", "high", "strict", "lenient"),
    [
        # the whole interval on one side
        ("exposed_90 > 0.02", 0.01, 0.005, 0.0199, True, True),
        ("exposed_90 > 0.02", 0.03, 0.0201, 0.04, False, False),
        # the limit inside it
        ("exposed_90 > 0.02", 0.015, 0.01, 0.0201, False, True),
        ("exposed_90 > 0.02", 0.03, 0.0199, 0.04, False, True),
        # an end exactly at it
        ("exposed_90 > 0.02", 0.015, 0.01, 0.02, True, True),
        ("exposed_90 >= 0.02", 0.015, 0.01, 0.02, False, True),
        ("exposed_90 > 0.02", 0.03, 0.02, 0.04, False, True),
        ("exposed_90 >= 0.02", 0.03, 0.02, 0.04, False, False),
        # the other direction: the low end is the unfavorable one
        ("exposed_90 < 0.02", 0.03, 0.0201, 0.04, True, True),
        ("exposed_90 < 0.02", 0.01, 0.005, 0.0199, False, False),
        ("exposed_90 < 0.02", 0.03, 0.0199, 0.04, False, True),
        ("exposed_90 < 0.02", 0.03, 0.02, 0.04, True, True),
        ("exposed_90 <= 0.02", 0.03, 0.02, 0.04, False, True),
    ],
)
def test_the_border_from_both_sides_with_both_policies(condition, value, low, high, strict, lenient):
    one = record(value, low, high)
    assert judged(condition, one).passed is strict
    assert judged(condition, one, policy="pass").passed is lenient
    assert judged(condition, one).uncertain is (strict != lenient)


@given(st.tuples(*[st.floats(0, 1)] * 3).map(sorted), st.floats(0, 1), st.sampled_from(["<", "<=", ">", ">="]))
def test_a_policy_is_a_comparison_with_one_end(interval, limit, op):
    """The oracle: Python's own comparison of the end that decides."""
    low, value, high = interval
    ends = (low, high) if op[0] == "<" else (high, low)
    for policy, end in zip(("fail", "pass"), ends, strict=True):
        holds = {"<": end < limit, "<=": end <= limit, ">": end > limit, ">=": end >= limit}[op]
        assert judged(f"exposed_90 {op} {limit!r}", record(value, low, high), policy=policy).passed is not holds


def test_a_number_without_an_interval_and_infinity():
    assert judged("rmse > 0.1", {"rmse": 0.1}).passed
    assert not judged("rmse > 0.1", {"rmse": 0.11}, policy="pass").passed
    one = {"reports_to_1pct": "inf", "reports_to_1pct_low": 40, "reports_to_1pct_high": "inf"}
    assert judged("reports_to_1pct < 40", one).passed
    assert not judged("reports_to_1pct < 41", one).passed
    assert judged("reports_to_1pct < 41", one, policy="pass").passed


def test_an_unknown_value_is_uncertain():
    one = record(None, None, None)
    assert not judged("exposed_90 > 0.02", one).passed
    found = judged("exposed_90 > 0.02", one, policy="pass")
    assert (found.passed, found.uncertain) == (True, True)
    assert found.reason.endswith("the value is unknown")


def test_any_selected_record_decides_and_the_worst_is_named():
    records = [
        record(0.01, 0.0, 0.015, n=7),
        record(0.03, 0.02, 0.05, n=30),
        record(0.04, 0.025, 0.06, adversary="weak"),
    ]
    assert judged("exposed_90 > 0.02 at 7", *records).passed
    found = judged("exposed_90 > 0.02", *records)
    assert found.text == (
        "gate failed: exposed_90 > 0.02: exposed_90 is 0.04 (95% CI 0.025–0.06) at adversary weak, n 30, "
        "the worst of 3 records"
    )
    assert judged("exposed_90 > 0.05 for strong", *records).passed
    assert not judged("exposed_90 > 0.05 for weak", *records).passed


def test_the_game_without_a_mechanism_is_selected_by_name_only():
    records = [record(0.01), record(0.9, adversary="non-private")]
    assert judged("exposed_90 > 0.02", *records).passed
    assert not judged("exposed_90 > 0.02 for non-private", *records).passed


def test_texts_and_flags_are_equal_or_not():
    found = {"recommendation": {"meets_targets": "undecided"}, "monotone": True}
    assert not gate(found, "meets_targets != yes").passed
    assert gate(found, "meets_targets = no").passed
    assert not gate(found, "monotone = true").passed


def test_a_record_of_a_list_has_the_labels_around_it():
    found = {"findings": [{"mechanism": name, "trials": [{"rmse": error}]} for name, error in (("grr", 3), ("oue", 1))]}
    assert gate(found, "findings.trials.rmse > 2 where mechanism = oue").passed
    assert not gate(found, "findings.trials.rmse > 2 where mechanism = grr").passed


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("exposd_90 > 0.02", "did you mean 'exposed_90'?"),
        ("result.exposed_90 > 0.02", "did you mean 'results.exposed_90'?"),
        ("exposed_90 > 0.02 for stron", "did you mean 'strong'?"),
        ("exposed_90 > 0.02 at 31", "known: 30, 7"),
        ("exposed_90 > 0.02 where mechanism = oue", "the records of exposed_90 have no field 'mechanism'"),
        ("exposed_90 = 0.02", "a number must be compared with one of > >= < <="),
        ("adversary > 0.02", "a text must be compared with one of = !="),
        ("users > 3", "name one: pools.users, others.users"),
        ("exposed_90 > 0.02 at 7 for weak", "no record has this combination"),
    ],
)
def test_what_a_result_does_not_have_is_an_error(condition, message):
    records = [record(0.01), record(0.01, n=7), record(0.01, adversary="weak")]
    with pytest.raises(InputError) as error:
        gate({"results": records, "pools": [{"users": 1}], "others": [{"users": 1}]}, condition)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.fixture(scope="module")
def summary(tmp_path_factory):
    scenario = parse(SMALL, name="small")
    return audit(scenario, tmp_path_factory.mktemp("gate") / "run", users=40, seed=1)


def test_every_numeric_field_of_a_summary_can_be_a_gate(summary):
    """A limit below every number fails, one above passes; the schema knows the same fields before the run."""
    known = schema_fields(json_schema(Summary))
    for name, value in summary.results[0].as_json().items():
        if isinstance(value, str) and value != "inf":
            continue
        assert known["results"][name] == "number"
        assert not gate(summary, f"{name} > -1e9 at 10 for strong").passed
        if summary.results[3].as_json()[name] not in (None, "inf") and not name.startswith("reports_to"):
            assert gate(summary, f"{name} > 1e9 at 10 for strong").passed


def test_a_result_and_its_json_are_judged_alike(summary):
    for condition in ("auc_pn > 0.5", "exposed_90 > 0.02 at 3", "users < 41", "seed > 1"):
        assert gate(summary, condition) == gate(json.loads(json.dumps(summary.as_json())), condition)


@pytest.mark.parametrize(
    ("kind", "condition"),
    [
        (Summary, "exposed_90 > 0.02 at 180 for strong"),
        (Summary, "pool_results.exposed_high > 0.1"),
        (Comparison, "rmse > 0.001 where mechanism = oue and epsilon = 2"),
        (Advice, "exposed > 0.05"),
        (Advice, "meets_targets != yes"),
        (Verdict, "sampled.lower_bound.detectable > 1.5"),
        (Verdict, "testable < 0.9"),
        (Verdict, "passed = false"),
    ],
)
def test_fields_are_known_before_a_run(kind, condition):
    parse_gate(condition).check(kind)
    wrong = condition.replace(" ", "x ", 1)
    with pytest.raises(InputError, match="must be a field of the result"):
        parse_gate(wrong).check(kind)


def test_values_are_known_before_a_run():
    known = {"adversary": ["weak", "strong"], "n": [7, 30]}
    parse_gate("exposed_90 > 0.02 at 30 for strong").check(Summary, known)
    with pytest.raises(InputError, match="did you mean 'strong'"):
        parse_gate("exposed_90 > 0.02 at 30 for strng").check(Summary, known)
    with pytest.raises(InputError, match="set a threshold"):
        parse_gate("exposed_high > 0.02").check(Summary, known, {"exposed": "set a threshold"})


def test_what_is_no_result_or_policy_is_refused():
    with pytest.raises(InputError, match="must be a result of"):
        gate(3, "users > 2")
    with pytest.raises(InputError, match="must be fail or pass"):
        gate({"users": 3}, "users > 2", on_uncertain="ignore")
