"""How numbers are written, in a terminal and on a page."""

from __future__ import annotations

import math

from poolscope.core.counting import MIN_USERS
from poolscope.metrics.leakage import SMALLEST_DOUBT
from poolscope.metrics.text import percent


def decimal(value: float, places: int = 3) -> str:
    """A number around 1, to three decimals or so many; a dash where it is not known."""
    if math.isinf(value):
        return number(value)
    return "–" if math.isnan(value) else f"{value:.{places}f}"


def share(value: float) -> str:
    """A share as the number before the percent sign."""
    return "–" if math.isnan(value) else f"{100 * value:.1f}"


def large_percent(value: float) -> str:
    """A share as it stands alone, in large letters, where there is no room for words."""
    return percent(value).replace("less than ", "<\u202f").replace("more than ", ">\u202f")


def large_share(value: float, users: int) -> str:
    """A share of some users as it stands alone: a percentage, or of fewer than 20 users a count."""
    return large_percent(value) if users >= MIN_USERS else f"{round(value * users)} of {users}"


def number(value: float) -> str:
    """A plain number; infinity as its sign."""
    return f"{value:g}".replace("inf", "∞")


def count(value: float) -> str:
    """A number of reports; a dash for never."""
    return "–" if math.isinf(value) else f"{value:.0f}"


def bits(value: float) -> str:
    """Bits, to two decimals."""
    return "–" if not math.isfinite(value) else f"{value:.2f}"


def log_odds(value: float) -> str:
    """Evidence; what double precision cannot tell from certainty is a lower bound."""
    if math.isinf(value):
        return number(value)
    return f"≥ {value:.1f}" if value >= -math.log(SMALLEST_DOUBT) else f"{value:.1f}"


def error(value: float | None) -> str:
    """An error, always with its power of ten; a dash where there is no estimate."""
    return "–" if value is None or math.isnan(value) else f"{value:.2e}"


def rounded(value: float | str | None) -> str:
    """Two decimals, more where the number is small, none where it is large; words as they are."""
    if value is None or isinstance(value, str):
        return value or "-"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if abs(value) >= 0.1 or value == 0 else f"{value:.3g}"
