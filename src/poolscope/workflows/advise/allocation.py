"""Allocate a budget of exposure over collections: from equal shares, by exchange.

Every collection has a level, an ε or a number of days, and a utility that increases with it. All levels together
expose some share of the users, who are the same in every trial. The search starts where all levels are equal, within
their ranges, and the share is the target. Then one collection gives, another takes what this frees, and the exchange is
kept if the utilities of all sum to more. The search is given a function that runs a trial, and knows nothing of games.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from poolscope.workflows.advise.search import Trial, largest_epsilon, log_odds

Point = tuple[float, ...]
"""The level of each collection."""

#: Factor by which a level is raised to see what it costs.
PROBE = 1.25

#: Factors by which a collection gives: the first, and the smallest that is tried.
FIRST_RATIO, LAST_RATIO = 1.6, 1.1

#: Sum of utilities by which an exchange must gain: 0.02 is 2% of one collection's error or cap.
MIN_GAIN = 0.02

#: Relative difference of prices below which nothing is exchanged.
SAME_PRICE = 0.1

#: Exchanges at most.
MAX_EXCHANGES = 12

#: Defaults of a search along a line: it ends at this ratio of levels, or this part of the target below it.
CLOSE, NEAR = 1.02, 0.03

#: First step of a search along a line.
LINE_STEP = 1.25

#: Relative difference up to which a level counts as an end of its range.
AT_END = 1.005

#: What a step did.
EQUAL_SHARES, RAISE, EXCHANGE = "equal shares", "raise", "exchange"


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """What is allocated.

    Parameters
    ----------
    low, high : range of each level; at the lowest levels, the share is at most the target.
    utility : of a collection at a level, increasing; only sums and differences count.
    trial : plays a point, always with the same users.
    target : largest share of users exposed.
    start : first level that is tried for all.
    close, near : ratio of levels that need no trial between them, and part of the target at which a search along a line
        ends.
    """

    low: Point
    high: Point
    utility: Callable[[int, float], float]
    trial: Callable[[Point], Trial]
    target: float
    start: float
    close: float = CLOSE
    near: float = NEAR

    def total(self, point: Point) -> float:
        """Return the sum of utilities."""
        return sum(self.utility(c, level) for c, level in enumerate(point))

    def clipped(self, levels: Sequence[float]) -> Point:
        """Return the levels within their ranges."""
        return tuple(min(max(level, low), high) for level, low, high in zip(levels, self.low, self.high, strict=True))

    def with_level(self, point: Point, c: int, level: float) -> Point:
        """Return a point with another level of one collection, within its range."""
        return self.clipped([level if i == c else own for i, own in enumerate(point)])


class Step(NamedTuple):
    """A point that was kept: what led to it, who gave and who took (indexes), its trial and the sum of utilities."""

    step: str
    point: Point
    trial: Trial
    utility: float
    giver: int | None = None
    taker: int | None = None


class Price(NamedTuple):
    """What raising one level costs: utility gained, log odds of exposure added, and the trial of the raised point."""

    utility: float
    log_odds: float
    raised: Trial | None

    @property
    def rate(self) -> float:
        """Utility for each unit of log odds; infinite where a level costs nothing."""
        return self.utility / self.log_odds if self.log_odds > 0 else math.inf


def allocate(problem: Problem) -> list[Step]:
    """Return the points from equal shares to the allocation that no exchange improves, each better than the last."""
    low, high = max(min(problem.low), 1e-12), max(problem.high)
    level, _ = along(problem, lambda level: problem.clipped([level] * len(problem.low)), problem.start, low, high)
    steps = [step_of(problem, EQUAL_SHARES, problem.clipped([level] * len(problem.low)))]
    ratio, exchanges = FIRST_RATIO, 0
    prices = prices_at(problem, steps[-1])
    while exchanges < MAX_EXCHANGES:
        tried = raised(problem, steps[-1], prices)
        if tried is None:
            exchanges += 1
            pair = best_pair(problem, steps[-1].point, prices)
            if pair is None:
                break
            tried = exchanged(problem, steps[-1], *pair, ratio, prices)
        if tried.utility >= steps[-1].utility + (MIN_GAIN if tried.step == EXCHANGE else 0.0):
            steps.append(tried)
            prices = prices_at(problem, tried)
            continue
        ratio = math.sqrt(ratio)
        if ratio < LAST_RATIO:
            break
    return steps


def step_of(problem: Problem, step: str, point: Point, giver: int | None = None, taker: int | None = None) -> Step:
    """Return the step to a point."""
    return Step(step, point, problem.trial(point), problem.total(point), giver, taker)


def along(
    problem: Problem, path: Callable[[float], Point], start: float, low: float, high: float
) -> tuple[float, Trial]:
    """Find the largest level on a path of points that meets the target; the lowest where none does."""

    def trial(level: float) -> Trial:
        return replace(problem.trial(path(level)), epsilon=level)

    begin = min(max(start, low), high)
    found = largest_epsilon(trial, problem.target, begin, low, high, problem.close, step=LINE_STEP, near=problem.near)
    met = [one for one in found.trials if one.exposed.value <= problem.target]
    best = met[-1] if met else trial(low)
    return best.epsilon, best


def prices_at(problem: Problem, step: Step) -> list[Price]:
    """Return the price of each level at a point; of a level at its highest, by lowering it."""
    point, prices = step.point, []
    for c, level in enumerate(point):
        at_top = level * AT_END >= problem.high[c]
        other = problem.with_level(point, c, level / PROBE if at_top else level * PROBE)
        if other == point:
            prices.append(Price(0.0, 0.0, None))
            continue
        trial, sign = problem.trial(other), -1 if at_top else 1
        added = _log_odds(trial) - _log_odds(step.trial)
        prices.append(
            Price(sign * (problem.total(other) - step.utility), sign * added, None if at_top else trial),
        )
    return prices


def raised(problem: Problem, step: Step, prices: Sequence[Price]) -> Step | None:
    """Raise the level that gains most, where the target leaves room for it; None where it leaves none."""
    free = [c for c, price in enumerate(prices) if price.raised and price.raised.exposed.value <= problem.target]
    if not free:
        return None
    c = max(free, key=lambda c: prices[c].rate)
    point, high = step.point, problem.high[c]
    # the probe meets the target: from there on every step rises, even where exposure does not increase with the level
    low = min(PROBE * point[c], high)
    # a level that costs nothing is raised to the end of its range at once
    start = high if prices[c].log_odds <= 0 else low
    level, _ = along(problem, lambda level: problem.with_level(point, c, level), start, low, high)
    return step_of(problem, RAISE, problem.with_level(point, c, level), taker=c)


def best_pair(problem: Problem, point: Point, prices: Sequence[Price]) -> tuple[int, int] | None:
    """Return who gives the least utility and who takes the most for the same exposure; None where these are alike."""
    givers = [c for c, level in enumerate(point) if level > AT_END * problem.low[c]]
    takers = [c for c, price in enumerate(prices) if price.raised is not None]
    pairs = [
        (giver, taker)
        for giver in givers
        for taker in takers
        if giver != taker and prices[taker].rate > (1 + SAME_PRICE) * prices[giver].rate
    ]
    return max(pairs, key=lambda pair: (prices[pair[1]].rate, -prices[pair[0]].rate), default=None)


def exchanged(problem: Problem, step: Step, giver: int, taker: int, ratio: float, prices: Sequence[Price]) -> Step:
    """Lower the giver's level by a ratio, raise the taker's as far as the target allows, then the giver's again."""
    point = step.point
    lowered = problem.with_level(point, giver, point[giver] / ratio)
    relative = prices[giver].log_odds / prices[taker].log_odds if prices[taker].log_odds > 0 else 1.0
    start = point[taker] * ratio ** min(max(relative, 0.2), 2.0)

    def taken(level: float) -> Point:
        return problem.with_level(lowered, taker, level)

    level, trial = along(problem, taken, start, point[taker], problem.high[taker])
    if level < problem.high[taker] or trial.exposed.value >= (1 - problem.near) * problem.target:
        return step_of(problem, EXCHANGE, taken(level), giver, taker)
    full = taken(level)
    back, _ = along(
        problem,
        lambda level: problem.with_level(full, giver, level),
        math.sqrt(lowered[giver] * point[giver]),
        lowered[giver],
        point[giver],
    )
    return step_of(problem, EXCHANGE, problem.with_level(full, giver, back), giver, taker)


def _log_odds(trial: Trial) -> float:
    return log_odds(trial.exposed.value, trial.users)
