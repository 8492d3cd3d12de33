"""Allocation over collections, on exposures in closed form: against the optimum, and against a grid."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from poolscope.metrics.intervals import known_value
from poolscope.workflows.advise.allocation import EQUAL_SHARES, EXCHANGE, MIN_GAIN, RAISE, Problem, allocate
from poolscope.workflows.advise.search import Trial

USERS = 100_000


def problem(weights, *, low=0.1, high=10.0, target=0.05, utility=None, played=None):
    """Return a problem whose evidence adds up: 1 - exp(-sum of weight times level squared)."""

    def trial(point):
        if played is not None:
            played.append(point)
        share = 1 - math.exp(-sum(weight * level**2 for weight, level in zip(weights, point, strict=True)))
        return Trial(epsilon=1.0, users=USERS, exposed=known_value(share), cap=known_value(1.0))

    count = len(weights)
    lows, highs = (tuple(np.broadcast_to(end, count).tolist()) for end in (low, high))
    return Problem(
        low=lows,
        high=highs,
        utility=utility or (lambda _, level: math.log(level)),
        trial=trial,
        target=target,
        start=2.0,
    )


def evidence_left(target):
    return -math.log(1 - target)


@pytest.mark.parametrize("weights", [(0.01, 0.01), (0.01, 0.1), (0.3, 0.002), (0.01, 0.03, 0.1)])
def test_exchange_reaches_the_optimum_of_the_calculus(weights):
    """The sum of logs is largest where every collection has the same part of the evidence."""
    asked = problem(weights)
    steps = allocate(asked)
    best = [math.sqrt(evidence_left(asked.target) / len(weights) / weight) for weight in weights]
    assert max(best) < 10
    optimum = sum(map(math.log, best))
    assert steps[0].step == EQUAL_SHARES
    assert len(set(steps[0].point)) == 1, "the start has equal levels"
    assert all(later.utility > earlier.utility for earlier, later in itertools.pairwise(steps))
    assert all(step.trial.exposed.value <= asked.target for step in steps)
    assert steps[-1].utility == pytest.approx(asked.total(steps[-1].point))
    # no exchange gains, and the target is used but for the tolerance of a line
    assert optimum - 0.06 <= steps[-1].utility <= optimum
    if len(set(weights)) > 1:
        assert steps[-1].utility > steps[0].utility + 0.1, "a negative control: equal shares are not the optimum"


def test_symmetric_collections_have_equal_shares():
    steps = allocate(problem((0.02, 0.02)))
    assert [step.step for step in steps] == [EQUAL_SHARES]
    assert steps[0].point[0] == steps[0].point[1]


def test_what_costs_nothing_is_raised_to_the_end():
    played = []
    steps = allocate(problem((0.02, 0.0), played=played))
    assert steps[-1].point[1] == 10.0
    assert (steps[1].step, steps[1].giver, steps[1].taker) == (RAISE, None, 1)
    assert steps[-1].point[0] == pytest.approx(math.sqrt(evidence_left(0.05) / 0.02), rel=0.03)
    assert len(played) < 40


def test_ranges_hold():
    steps = allocate(problem((0.3, 0.002), high=(10.0, 3.0)))
    first, second = steps[-1].point
    assert second == 3.0
    assert first == pytest.approx(math.sqrt((evidence_left(0.05) - 0.002 * 9) / 0.3), rel=0.03)
    # the lowest level of the first is nearly all that is allowed; the little that it gives is much for the second
    steps = allocate(problem((0.3, 0.002), low=(0.4, 0.1)))
    first, second = steps[-1].point
    assert 0.4 <= first <= 0.403
    assert 1.0 < second <= math.sqrt((evidence_left(0.05) - 0.3 * 0.16) / 0.002)


def test_against_a_grid_where_utilities_saturate():
    """Errors have a floor without noise: the optimum is inside, and a grid finds none that is better."""

    def utility(index, level):
        return -0.5 * math.log(0.02 * (1, 5)[index] + 1 / math.expm1(level) ** 2)

    weights = (0.004, 0.02)
    asked = problem(weights, utility=utility)
    found = allocate(asked)[-1]
    grid = np.geomspace(0.1, 10, 400)
    evidence = weights[0] * grid[:, None] ** 2 + weights[1] * grid[None, :] ** 2
    values = np.array([utility(0, x) for x in grid])[:, None] + np.array([utility(1, y) for y in grid])[None, :]
    best = values[1 - np.exp(-evidence) <= asked.target].max()
    assert best - 0.08 <= found.utility <= best + 0.02
    assert found.utility > allocate(asked)[0].utility


def test_a_gain_below_the_margin_is_not_taken():
    """Weights that differ by 1% are equal shares: the gain would be 1e-5."""
    steps = allocate(problem((0.02, 0.0202)))
    assert EXCHANGE not in {step.step for step in steps}
    assert MIN_GAIN > 1e-5


def test_one_collection_has_all():
    steps = allocate(problem((0.02,)))
    assert steps[-1].point[0] == pytest.approx(math.sqrt(evidence_left(0.05) / 0.02), rel=0.03)


def test_a_line_ends_near_the_target():
    """With a wide tolerance fewer trials are played, and what is found exposes at least that part of the target."""
    fine, coarse = [], []
    asked = problem((0.02, 0.02), played=fine)
    exact = allocate(asked)[0]
    rough = allocate(replace(problem((0.02, 0.02), played=coarse), near=0.3))[0]
    assert len(coarse) < len(fine)
    assert 0.97 * asked.target <= exact.trial.exposed.value <= asked.target
    assert 0.7 * asked.target <= rough.trial.exposed.value <= asked.target


def test_exposure_that_does_not_increase_with_a_level_ends():
    """With few users a raised level may expose nobody more, and a level between exposes more than the target."""
    played = []

    def trial(point):
        played.append(point)
        assert len(played) < 500, "the search does not end"
        first, second = point
        # equal shares end at 2; of either level, 2.4 to 3 exposes as many, and all others above 2 too many
        share = 0.1 if all(level <= 2.0 or 2.4 <= level <= 3.0 for level in point) and first + second < 5 else 0.2
        return Trial(epsilon=1.0, users=50, exposed=known_value(share), cap=known_value(1.0))

    asked = replace(problem((1.0, 1.0)), trial=trial, target=0.1)
    steps = allocate(asked)
    assert steps[0].point == pytest.approx((2.0, 2.0), rel=0.03)
    assert RAISE in [step.step for step in steps]
    assert all(later.utility > earlier.utility for earlier, later in itertools.pairwise(steps))
    assert all(step.trial.exposed.value <= asked.target for step in steps)
