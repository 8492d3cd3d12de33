"""Compare the interest that a scenario assumes with the popularity that it gives."""

from __future__ import annotations

import warnings

from poolscope.core.errors import located
from poolscope.scenario.build import build_behavior
from poolscope.scenario.scenario import Scenario

#: Ratio of the assumed interest and the popularity of the pools from which a warning is due.
RATIO = 2.0


def popularity_in_pools(scenario: Scenario) -> float | None:
    """Return the share of the scenario's popularity in pools; None where it states none."""
    if scenario.popularity_table is None:
        return None
    universe = scenario.universe()
    popularity = scenario.true_popularity(universe)
    return float(popularity[universe.pool_of >= 0].sum() / popularity.sum())


def interest_warning(scenario: Scenario) -> str | None:
    """Return a warning where the assumed users have far more or fewer events in pools than the given popularity.

    Only a popularity that is given, by a column of the objects, describes real users.
    """
    table = scenario.popularity_table
    if table is None or table.kind != "given" or (scenario.users is not None and scenario.users.traces is not None):
        return None
    universe = scenario.universe()
    share = popularity_in_pools(scenario)
    if share is None or not universe.neutral_size or share <= 0:
        return None
    prior = scenario.users.behavior if scenario.users else None
    none = scenario.users.none if scenario.users else 0.0
    mean = 0.5
    if prior is not None:
        with located(file=scenario.file):
            nodes, _, weights = build_behavior(prior, universe, scenario.true_popularity(universe)).interest.rule(16)
        mean = float(nodes @ weights)
    mean *= 1.0 - none
    if share / RATIO <= mean <= share * RATIO:
        return None
    return (
        f"pools have {100 * share:.2g}% of the given popularity, but the assumed users have {100 * mean:.2g}% of their "
        "events there; fit [users] behavior to data with `poolscope fit`"
    )


def warn_of_interest(scenario: Scenario) -> None:
    """Warn where `interest_warning` has something to say."""
    if text := interest_warning(scenario):
        warnings.warn(f"{scenario.file}: {text}", stacklevel=4)
