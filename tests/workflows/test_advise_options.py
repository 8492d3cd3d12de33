"""Options of an advice: the choice by hand for every preference, and rows that equal separate audits to the bit."""

import itertools
from dataclasses import replace

import pytest
from cases.command_line import SMALL
from cases.synthetic import SEED
from cases.unshuffled import unshuffled

import poolscope as ps
from poolscope.core.errors import InputError
from poolscope.metrics.intervals import Estimate
from poolscope.scenario.scenario import parse
from poolscope.workflows.advise.advise import advise
from poolscope.workflows.advise.choice import Standing, choose, equally_good
from poolscope.workflows.advise.options import _costs, mark_pareto_optimal, option_scenario
from poolscope.workflows.advise.question import PREFERENCES, canonical_order, question_of
from poolscope.workflows.advise.setups import deployed, expand_all, names_of, order_of, parameter_notes
from poolscope.workflows.advise.simulation import Simulator

FIXED = {"horizon": 10, "threshold": 0.7, "max_error": 0.022, "devices": 2000, "users": 200, "seed": SEED}
ORDERS = {"two": (["grr", "oue"], ["oue", "grr"]), "three": (["grr", "oue", "olh"], ["olh", "grr", "oue"])}


@pytest.fixture(scope="module", autouse=True)
def _unshuffled():
    with unshuffled():
        yield


def near(value, width=0.0):
    return Estimate(value, value * (1 - width), value * (1 + width))


def standing(name, epsilon, total, reports, cap, exposed, rmse, feasible="yes", width=0.0):
    return Standing(
        name=name,
        order=order_of(name, "cms"),
        feasible=feasible,
        epsilon=near(epsilon),
        total_epsilon=near(total),
        reports=reports,
        cap=near(cap),
        exposed=near(exposed, width),
        rmse=near(rmse, width),
    )


#: Each is the best of the feasible ones in one number; `she` is the best in all, and misses a target.
BY_HAND = (
    standing("oue", 1.0, 100, 100, 200, 0.04, 0.010),
    standing("grr", 4.0, 400, 100, 200, 0.01, 0.009),
    standing("grr + memoize", 4.0, 60, 100, 200, 0.04, 0.009),
    standing("olh + sample", 2.0, 66, 33, 200, 0.04, 0.010),
    standing("ss", 3.0, 300, 100, 200, 0.04, 0.005),
    standing("she", 0.1, 1, 1, 400, 0.0, 0.001, "no"),
)
EXPECTED = {
    "utility": "ss",
    "lowest-epsilon": "oue",
    "lowest-total-epsilon": "grr + memoize",
    "least-exposure": "grr",
    "fewest-reports": "olh + sample",
}


@pytest.mark.parametrize("prefer", PREFERENCES)
@pytest.mark.parametrize("fixed", [True, False])
def test_a_case_solvable_by_hand_for_every_preference(prefer, fixed):
    for some in itertools.permutations(BY_HAND):
        assert choose(some, prefer, 200, fixed=fixed)[0].name == EXPECTED[prefer]
    assert {EXPECTED[one] for one in PREFERENCES} == {one.name for one in BY_HAND if one.feasible == "yes"}


@pytest.mark.parametrize("prefer", PREFERENCES)
def test_where_nothing_is_feasible_the_closest_is_chosen(prefer):
    missed = [one._replace(feasible="no") for one in BY_HAND]
    assert choose(missed, prefer, 400, fixed=True)[0].name == "she", "the best in all"


def test_ties_of_the_preferred_number_are_broken_by_exposure_then_epsilon():
    alike = [standing("oue", 1.0, 100, 50, 200, 0.04, 0.01), standing("grr", 4.0, 400, 50, 200, 0.01, 0.01)]
    assert choose(alike, "fewest-reports", 200, fixed=True)[0].name == "grr"
    assert choose(alike, "fewest-reports", 200, fixed=False)[0].name == "oue", "errors tie, so epsilon decides"


def test_a_mechanism_that_is_played_less_far_is_not_at_a_disadvantage():
    """Caps beyond the shortest horizon are not known of all, and count as equal."""
    short = standing("l-grr", 1.0, 100, 100, 100, 0.02, 0.01)
    far = standing("oue", 2.0, 200, 100, 200, 0.02, 0.01)
    assert choose([far, short], "least-exposure", 100, fixed=True)[0].name == "l-grr"
    assert choose([far, short], "least-exposure", 200, fixed=True)[0].name == "oue", "where it is known of both"


def test_options_whose_intervals_overlap_are_equally_good():
    one = standing("oue", 1.0, 100, 100, 200, 0.030, 0.010, width=0.2)
    other = standing("grr", 4.0, 400, 100, 200, 0.035, 0.013, width=0.2)
    apart = standing("ss", 3.0, 300, 100, 200, 0.09, 0.030, width=0.2)
    both = [apart, one, other]
    assert equally_good(both, one, "least-exposure", 200, fixed=True) == ["grr"]
    assert equally_good(both, one, "utility", 200, fixed=False) == ["grr"]
    assert equally_good(both, one, "lowest-epsilon", 200, fixed=True) == [], "a closed form has no sampling error"
    narrow = [replaced._replace(exposed=near(replaced.exposed.value)) for replaced in both]
    assert equally_good(narrow, narrow[1], "least-exposure", 200, fixed=True) == [], "a negative control"


@pytest.fixture(scope="module")
def small():
    return parse(
        SMALL.replace('"estimated"\nestimate_from = 1000', '"true"') + "[devices]\nreports_per_day = 2\n", name="s"
    )


@pytest.fixture(scope="module")
def advice(small):
    return advise(small, max_exposed=0.1, mechanisms=["grr", "oue"], consider=["sample", "rotate", "cap"], **FIXED)


def test_every_row_equals_an_audit_of_the_same_users(advice, tmp_path):
    """Exposure with its interval, and epsilon with its sums, to the bit."""
    assert len(advice.options) == 8
    for option in advice.options:
        asked = {"users": option.users, "seed": option.seed, "out": tmp_path / option.name, "html": False}
        audit = ps.audit(option_scenario(advice, option), **asked)
        record = next(one for one in audit.results if one.n == advice.question.horizon)
        assert record.exposed_share == option.exposed
        assert audit.epsilon == option.cumulative_epsilon
        assert record.users == option.users


def test_a_row_of_other_users_differs(advice, tmp_path):
    """A negative control: exposures of other users are not the same to the bit."""
    most = max(advice.options, key=lambda option: option.exposed.value)
    assert 0 < most.exposed.value < 1
    other = ps.audit(
        option_scenario(advice, most), users=most.users, seed=most.seed + 1, out=tmp_path / "x", html=False
    )
    assert other.results[-1].exposed_share != most.exposed


def test_measures_pay_for_fewer_reports(advice):
    rows = {option.name: option for option in advice.options}
    assert set(rows) == {
        name if not measure else f"{name} + {measure}"
        for name in ("grr", "oue")
        for measure in ("", "sample", "rotate", "cap")
    }
    for kind in ("grr", "oue"):
        assert rows[f"{kind} + sample"].epsilon > rows[kind].epsilon, "a third of the reports, the same error"
        assert rows[f"{kind} + cap"].epsilon > rows[kind].epsilon
        assert rows[f"{kind} + rotate"].epsilon == rows[kind].epsilon
        assert rows[f"{kind} + sample"].reports == pytest.approx(10 * 0.3333)
        assert rows[f"{kind} + cap"].reports == rows[f"{kind} + cap"].cap == 3
        assert rows[f"{kind} + rotate"].parameters == "rotate_after = 3"
    for row in rows.values():
        assert row.rmse <= FIXED["max_error"]
        assert row.total_epsilon == pytest.approx(row.epsilon * row.reports)
    assert sum(row.recommended for row in rows.values()) == 1
    assert advice.options[0].recommended
    assert advice.options[0].price == ""
    assert all(row.price for row in advice.options[1:])


def test_pareto_optimal_options_are_those_that_none_beats(advice):
    """By enumeration of pairs, among those that may meet the targets."""
    possible = [one for one in advice.options if one.meets_targets != "no"]
    for one in advice.options:
        beaten = any(
            all(a <= b for a, b in zip(_costs(other), _costs(one), strict=True)) and _costs(other) != _costs(one)
            for other in possible
        )
        assert one.pareto_optimal == (one in possible and not beaten)
    best = replace(advice.options[0], epsilon=0.01, total_epsilon=0.01, reports=0.1, rmse=1e-9, exposed=near(0.0))
    marked = list(mark_pareto_optimal([*advice.options, best]))
    assert [one.pareto_optimal for one in marked] == [*[False] * len(advice.options), True]


@pytest.mark.default_cases("two-error")
@pytest.mark.parametrize("asked", [{"max_error": 0.045, "devices": 500}, {}], ids=["error", "no error"])
@pytest.mark.parametrize("orders", ORDERS.values(), ids=ORDERS)
def test_the_order_of_mechanisms_has_no_influence(small, asked, orders):
    one, other = (
        advise(small, max_exposed=0.1, horizon=6, users=100, seed=SEED, mechanisms=names, **asked) for names in orders
    )
    assert one.recommendation == other.recommendation
    assert one.options == other.options
    assert sorted(one.findings, key=str) == sorted(other.findings, key=str)


@pytest.mark.slow
@pytest.mark.statistical
def test_five_seeds_agree_or_the_advice_names_the_others(small):
    """In the choice of the mechanism, in at least four of five; otherwise all choices are among those called equal."""
    for asked in ({"max_error": 0.007, "devices": 20_000}, {}):
        found = [
            advise(small, max_exposed=0.1, horizon=10, users=1000, seed=seed, mechanisms=["grr", "oue", "olh"], **asked)
            for seed in range(SEED, SEED + 5)
        ]
        names = [one.recommendation.name for one in found]
        if max(map(names.count, names)) < 4:
            for one in found:
                assert set(names) <= {one.recommendation.name, *one.recommendation.equally_good}


@pytest.mark.default_cases("fewest-reports")
@pytest.mark.parametrize("prefer", ["lowest-epsilon", "utility", "fewest-reports"])
def test_a_real_question_with_a_preference(small, prefer):
    asked = {**FIXED, "users": 200}
    found = advise(small, max_exposed=0.1, mechanisms=["grr", "oue"], consider=["sample"], prefer=prefer, **asked)
    rows = [one for one in found.options if one.meets_targets != "no"]
    own = next(one for one in rows if one.recommended)
    if prefer == "lowest-epsilon":
        assert own.epsilon == min(one.epsilon for one in rows)
    elif prefer == "fewest-reports":
        assert own.measure == "sample"
        assert own.reports == pytest.approx(min(one.reports for one in rows))
        assert found.recommended.devices.sampling_rate == pytest.approx(0.3333)
    else:
        assert own.epsilon > found.findings[0].epsilon_min, "a larger epsilon than the error target needs"
        assert own.rmse < FIXED["max_error"]
    assert found.question.prefer == prefer
    assert found.recommendation.meets_targets in ("yes", "undecided")


def test_defaults_have_names(small):
    assert question_of(small, max_exposed=0.1).prefer == "utility"
    assert question_of(small, max_exposed=0.1, max_error=0.1, devices=100).prefer == "least-exposure"
    with pytest.raises(InputError, match="prefer: must be a preference, got 'utilty'; did you mean 'utility'"):
        question_of(small, max_exposed=0.1, prefer="utilty")
    with pytest.raises(InputError, match="consider: must be a measure, got 'memorize'; did you mean 'memoize'"):
        question_of(small, max_exposed=0.1, consider=["memorize"])


def test_all_mechanisms_get_what_they_need(small):
    kinds, notes = expand_all(small, ["all"], (0.1, 10.0), True)
    assert {"cms", "hcms", "grr", "oue", "l-grr", "rappor", "dbitflip"} <= set(kinds)
    assert not {"identity", "channel", "empirical"} & set(kinds)
    assert kinds[0] == small.mechanism.kind
    table = 'kind = "cms"\nepsilon = 4\nm = 32\nhashes = 64'
    without = parse(SMALL.replace(table, 'kind = "grr"\nepsilon = 4'), name="grr")
    made = deployed(without, "cms", 2.0, 10).mechanism.parameters
    assert (made["m"], made["hashes"]) == (1024, 65536)
    (note,) = parameter_notes(without, ["grr", "cms"])
    assert note == "cms was tried with m = 1,024, hashes = 65,536, as the scenario sets no such parameter."
    assert set(expand_all(without, ["all"], (0.1, 10.0), False)[0]) == set(canonical_order("grr"))
    assert all(" was not tried: " in note for note in notes)


def test_measures_that_change_nothing_are_no_candidates(small):
    memoized = small.replace({"devices.memoize": True, "devices.rotate_after": 2})
    question = question_of(
        memoized, max_exposed=0.1, horizon=9, mechanisms=["grr"], consider=["memoize", "rotate", "cap"]
    )
    assert list(names_of(memoized, question)) == ["grr", "grr + cap"]


def test_refusals_come_before_anything_is_played(small, monkeypatch):
    monkeypatch.setattr(Simulator, "outcomes", lambda *_: pytest.fail("played"))
    asked = {"max_error": 0.006, "devices": 3000, "epsilon": (0.1, 0.5)}
    with pytest.raises(InputError, match="no mechanism meets an error"):
        advise(small, max_exposed=0.1, mechanisms=["grr", "oue"], consider=["sample", "cap"], **asked)
