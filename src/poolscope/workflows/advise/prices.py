"""Write the options of an advice as text: labels, and prices against the recommended one."""

from __future__ import annotations

import math
from collections.abc import Callable

from poolscope.workflows.advise.records import Option
from poolscope.workflows.advise.search import NO
from poolscope.workflows.advise.text import format_total_epsilon, number, share

#: Marks Pareto-optimal options.
STAR = "★"


def option_label(option: Option) -> str:
    """Return the name of an option, with a star where it is Pareto-optimal."""
    return f"{option.name} {STAR}" if option.pareto_optimal else option.name


#: Relative difference below which a price is not named.
SAME_PRICE = 0.02


def describe_price(option: Option, own: Option) -> str:
    """Return the price of an option against the recommended one, as "Gains: ...; costs: ..."."""
    gains: list[str] = []
    costs: list[str] = []

    def compare(mine: float | None, other: float | None, what: str, form: Callable[[float], str]) -> None:
        if mine is None or other is None or math.isinf(mine + other):
            return
        if abs(mine - other) > SAME_PRICE * max(abs(mine), abs(other)):
            (gains if other < mine else costs).append(f"{what} {form(other)} instead of {form(mine)}")

    compare(own.epsilon, option.epsilon, "ε per report", number)
    compare(own.total_epsilon, option.total_epsilon, "total ε", format_total_epsilon)
    compare(own.reports, option.reports, "reports", lambda value: f"{value:,.0f}")
    if option.exposed.low > own.exposed.high or option.exposed.high < own.exposed.low:
        compare(own.exposed.value, option.exposed.value, "exposed users", share)
    compare(own.rmse, option.rmse, "RMSE", number)
    if option.meets_targets == NO and own.meets_targets != NO:
        early = option.reports >= option.cap < option.observations[-1]
        costs.append(f"must stop after {option.cap:,} reports to expose few enough" if early else "misses a target")
    texts = [f"{word} {', '.join(some)}" for word, some in (("Gains:", gains), ("Costs:", costs)) if some]
    return ". ".join(texts) + "." if texts else "No difference beyond sampling error."
