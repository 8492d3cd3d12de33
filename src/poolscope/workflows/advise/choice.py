"""Choose among options: a pure function of what the search knows of each option, and of a preference.

Options that miss a target come in only where all do. Only differences that another seed would not undo decide: of
options about as good, the lowest ε per report comes first, and of about equal values of ε the first in the canonical
order of mechanisms. The order in which mechanisms were named has no influence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from poolscope.metrics.intervals import Estimate
from poolscope.workflows.advise.question import (
    FEWEST_REPORTS,
    LOWEST_EPSILON,
    LOWEST_TOTAL,
    MIN_EXPOSURE,
    UTILITY,
)
from poolscope.workflows.advise.search import NO

#: Relative difference up to which caps, errors and epsilons count as equal.
MARGIN = 0.1

#: Relative difference up to which closed-form values count as equal.
EQUAL = 0.01


class Standing(NamedTuple):
    """What the search knows of an option.

    Parameters
    ----------
    name : of the candidate; order : its place in the canonical order; feasible : "yes", "no" or "undecided".
    epsilon : of a report; total_epsilon : by the horizon, of memoized responses the longitudinal one.
    reports : that a device sends by the horizon, on average.
    cap : the largest that meets the exposure target; exposed : share of users exposed by the horizon.
    rmse : error of a frequency; NaN where there is no closed form. Its ends are those of ε.
    """

    name: str
    order: tuple[int, str]
    feasible: str
    epsilon: Estimate
    total_epsilon: Estimate
    reports: float
    cap: Estimate
    exposed: Estimate
    rmse: Estimate


#: What is least in the option that a preference chooses.
CRITERIA: Mapping[str, Callable[[Standing], Estimate]] = {
    UTILITY: lambda one: one.rmse,
    LOWEST_EPSILON: lambda one: one.epsilon,
    LOWEST_TOTAL: lambda one: one.total_epsilon,
    MIN_EXPOSURE: lambda one: one.exposed,
    FEWEST_REPORTS: lambda one: Estimate(one.reports, one.reports, one.reports),
}


def choose(standings: Sequence[Standing], prefer: str, horizon: float, *, fixed: bool) -> list[Standing]:
    """Return the options that are about as good as the best, the recommended one first.

    Parameters
    ----------
    horizon : events that every trial was played to; a larger cap is not known.
    fixed : whether an error target sets the ε of each option, so that caps and exposures compare. Otherwise
        every option exposes about the target, and values of ε and errors compare.
    """
    among = [one for one in standings if one.feasible != NO] or list(standings)
    if prefer in (LOWEST_EPSILON, LOWEST_TOTAL, FEWEST_REPORTS):
        criterion = CRITERIA[prefer]
        # what has a closed form does not vary with the seed
        margin = EQUAL if fixed or prefer == FEWEST_REPORTS else MARGIN
        least = min(criterion(one).value for one in among)
        among = [one for one in among if criterion(one).value <= (1 + margin) * least]
        prefer = MIN_EXPOSURE if fixed else UTILITY
    if prefer == UTILITY:
        known = [one for one in among if one.rmse.value == one.rmse.value]
        if not known:
            return _by_epsilon(among)
        least = min(one.rmse.value for one in known)
        return _by_epsilon([one for one in known if one.rmse.value <= (1 + MARGIN) * least])
    # slow mechanisms are played less far, which is no reason against them
    most = min(horizon, max(one.cap.value for one in among))
    ties = [one for one in among if one.cap.value >= (1 - MARGIN) * most]
    if most >= horizon:
        fewest = min(one.exposed.high for one in ties)
        ties = [one for one in ties if one.exposed.low <= fewest]
    return _by_epsilon(ties)


def _by_epsilon(ties: Sequence[Standing]) -> list[Standing]:
    """Put the first of those with about the lowest ε first, in canonical order."""
    ordered = sorted(ties, key=lambda one: one.order)
    lowest = min(one.epsilon.value for one in ordered)
    best = next(one for one in ordered if one.epsilon.value <= (1 + MARGIN) * lowest)
    return [best, *(one for one in ordered if one is not best)]


def equally_good(
    standings: Sequence[Standing], chosen: Standing, prefer: str, horizon: float, *, fixed: bool
) -> list[str]:
    """Return the names of other options that another seed may recommend, in canonical order.

    These are as feasible, and what they are compared by is within the margin of the chosen one's, or their intervals
    overlap.
    """
    among = [one for one in standings if one.feasible != NO] or list(standings)
    second = MIN_EXPOSURE if fixed else UTILITY

    def alike(one: Standing, by: str) -> bool:
        mine, other = CRITERIA[by](chosen), CRITERIA[by](one)
        if by == FEWEST_REPORTS or (fixed and by in (LOWEST_EPSILON, LOWEST_TOTAL)):
            return abs(other.value - mine.value) <= EQUAL * mine.value and alike(one, second)
        if by == MIN_EXPOSURE and fixed:
            pairs = (one.cap, chosen.cap), (chosen.cap, one.cap)
            if not all(a.high >= (1 - MARGIN) * min(horizon, b.low) for a, b in pairs):
                return False
            beyond = min(one.cap.value, chosen.cap.value) >= horizon
            return not beyond or (other.low <= mine.high and mine.low <= other.high)
        return other.low <= (1 + MARGIN) * mine.high and mine.low <= (1 + MARGIN) * other.high

    found = sorted((one for one in among if one.name != chosen.name and alike(one, prefer)), key=lambda one: one.order)
    return [one.name for one in found]
