"""The enumeration of memoized responses against a simpler one, and against properties of any device."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from cases.memoized import pool_integral
from cases.selection import mostly, slow
from oracle.memoized import bits, identical, of_one_response, of_trace, pool_scores, posterior, table_scores, values
from oracle.tables import table_posterior, uniform_grid

WITHIN = [Fraction(1, 3), Fraction(2, 3), Fraction(1, 4), Fraction(3, 4), Fraction(1)]
POOL_OF = [0, 0, 1, 1, -1]
F = Fraction
DEVICES = {
    "identical": identical([[F(1, 2), F(1, 4), F(1, 4)]] * 2 + [[F(1, 5), F(3, 5), F(1, 5)]] * 3),
    "l-grr": values(5, F(3, 5), F(4, 5)),
    "loloha": values(3, F(3, 5), F(2, 3), slots=(0, 2, 1, 1, 0)),
    "l-osue": bits(5, [{z} for z in range(5)], (F(1, 2), F(1, 10)), (F(4, 5), F(1, 5))),
    "rappor": bits(3, [{0, 1}, {1}, {0, 2}, {1, 2}, {2}], (F(3, 4), F(1, 4)), (F(7, 8), F(1, 8))),
    "dbitflip": bits(2, [set(), {1}, {0}], (F(3, 4), F(1, 4)), slots=(0, 0, 1, 2, 2)),
}
every_device = pytest.mark.parametrize("name", DEVICES)


def literally(device, reports):
    """Every trace with every answer to every slot, whether it is sent or not."""
    n, slots = len(reports), sorted(set(device.slots))
    scores = [F(0), F(0)]
    for answers in product(device.responses, repeat=len(slots)):
        kept = dict(zip(slots, answers, strict=True))
        drawn = F(1)
        for slot, answer in kept.items():
            drawn *= device.permanent(answer, slot)
        for trace in product(range(5), repeat=n):
            chance = drawn
            for z, report in zip(trace, reports, strict=True):
                chance *= WITHIN[z] * device.instantaneous(report, kept[device.slots[z]])
            pools = [POOL_OF[z] for z in trace]
            for i in range(2):
                scores[i] += chance * pool_integral(pools.count(-1), pools.count(i), n, 2)
    return scores


@pytest.mark.default_cases("loloha", "dbitflip")
@pytest.mark.parametrize("name", ["identical", "loloha", "dbitflip"])
def test_answers_that_are_not_sent_sum_to_one(name):
    device = DEVICES[name]
    for reports in list(product(device.reports, repeat=2))[:4]:
        assert pool_scores(device, reports, WITHIN, POOL_OF, 2) == literally(device, reports)


@pytest.mark.parametrize("name", mostly(slow, DEVICES, *(name for name in DEVICES if name != "l-osue")))
def test_all_reports_of_a_trace_sum_to_one(name):
    device = DEVICES[name]
    for trace in ([0, 1], [2, 2], [3, 2]):
        assert sum(of_trace(device, reports, trace) for reports in product(device.reports, repeat=2)) == 1


@pytest.mark.default_cases("identical", "rappor", "loloha", "dbitflip", "l-grr")
@every_device
def test_one_report_has_the_law_of_both_steps(name):
    device = DEVICES[name]
    for report, slot in product(device.reports, set(device.slots)):
        steps = sum(
            device.permanent(answer, slot) * device.instantaneous(report, answer) for answer in device.responses
        )
        assert of_one_response(device, [report], slot) == steps


@pytest.mark.default_cases("identical", "rappor", "loloha", "dbitflip", "l-grr")
@every_device
def test_the_posterior_is_one_in_the_mean(name):
    """Over all reports, weighed by how likely they are, the posterior is the prior; over pools it sums to one."""
    device, total = DEVICES[name], [F(0), F(0)]
    for reports in product(device.reports, repeat=1):
        scores = pool_scores(device, reports, WITHIN, POOL_OF, 2)
        total = [a + b for a, b in zip(total, scores, strict=True)]
        assert sum(posterior(device, reports, WITHIN, POOL_OF, 2)) == 1
    assert total == [1, 1]


def test_memory_matters():
    """Kept answers are not fresh ones, and objects of one slot are not two slots."""
    device = DEVICES["loloha"]
    fresh = of_trace(device, [1], [2]) * of_trace(device, [1], [3])
    assert of_trace(device, [1, 1], [2, 3]) > fresh
    assert of_trace(device, [1, 1], [2, 1]) == of_trace(device, [1], [2]) * of_trace(device, [1], [1])


@pytest.mark.default_cases("identical", "loloha", "dbitflip")
@pytest.mark.parametrize("name", ["identical", "l-grr", "loloha", "dbitflip"])
def test_the_sum_over_tables_is_the_sum_over_traces(name):
    """Two routes to one number, in exact fractions; bit vectors of five objects have too many tables for this test."""
    device = DEVICES[name]
    for picked in [(0, 1)] if name == "l-grr" else [(0, 1), (2, 2), (0, 1, 0)]:
        reports = [device.reports[i] for i in picked]
        assert table_scores(device, reports, WITHIN, POOL_OF, 2) == pool_scores(device, reports, WITHIN, POOL_OF, 2)


@pytest.mark.default_cases("identical", "loloha", "dbitflip")
@pytest.mark.parametrize("name", ["identical", "l-grr", "loloha", "dbitflip"])
def test_tables_in_floating_point_are_those_in_fractions(name):
    device = DEVICES[name]
    slots = sorted(set(device.slots))
    mass = np.zeros((len(slots), 3))
    for z, slot in enumerate(device.slots):
        mass[slots.index(slot), POOL_OF[z] + 1] += float(WITHIN[z])
    response = np.array([[float(device.permanent(a, s)) for a in device.responses] for s in slots])
    emission = np.array([[float(device.instantaneous(r, a)) for r in device.reports] for a in device.responses])
    reports = [device.reports[i] for i in (0, 1, 0, 2)]
    counts = np.array([reports.count(report) for report in device.reports])
    found = table_posterior(mass, response, emission, counts, uniform_grid(2, 6))
    expected = [float(x) for x in posterior(device, reports, WITHIN, POOL_OF, 2)]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_two_objects_may_share_an_empty_vector():
    """Seven objects, pools of one and five, oue with epsilon 8, two empty reports: half of all responses are empty."""
    q = F(1, 2982)  # 1 / (e^8 + 1), rounded
    device = bits(7, [{z} for z in range(7)], (F(1, 2), q))
    pool_of, within = [0, 1, 1, 1, 1, 1, -1], [F(1), *[F(1, 5)] * 5, F(1)]
    empty = (0,) * 7
    found = posterior(device, [empty, empty], within, pool_of, 2)
    assert float(found[0]) == pytest.approx(0.523, abs=5e-4)
    one_object = [
        sum(within[z] ** 2 * pool_integral(2 * (pool_of[z] == -1), 2 * (pool_of[z] == i), 2, 2) for z in range(7))
        for i in range(2)
    ]
    assert float(one_object[0] / sum(one_object)) == pytest.approx(0.571, abs=5e-4), "what gluing them would say"
