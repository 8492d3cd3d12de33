"""Tables of the options of an advice, and of what can be seen in its frequencies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from poolscope.core.counting import MIN_USERS
from poolscope.html.tables import Column, share, table, three_digits
from poolscope.metrics.intervals import Estimate
from poolscope.metrics.pools import PoolRecord
from poolscope.metrics.usefulness import NEUTRAL_NAME, PeriodUsefulness, PoolUsefulness
from poolscope.workflows.advise.question import DEFAULT_REPORTS
from poolscope.workflows.advise.records import Advice, Option
from poolscope.workflows.advise.text import events, format_total_epsilon, number, share_or_count


@dataclass(frozen=True, kw_only=True)
class OptionRow:
    """The row of an option."""

    name: str
    meets_targets: str
    epsilon: float
    day: float | None
    year: float | None
    by_horizon: float
    total: float | None
    cap: int | None
    reports: float
    exposed: Estimate
    rmse: float | None
    users: int
    parameters: str
    pareto_optimal: bool

    @classmethod
    def of(cls, option: Option) -> OptionRow:
        """Return the row of an option."""
        spent = option.cumulative_epsilon
        return cls(
            name=f"{option.name} (recommended)" if option.recommended else option.name,
            meets_targets=option.meets_targets,
            epsilon=option.epsilon,
            day=spent.day,
            year=spent.year,
            by_horizon=option.total_epsilon,
            total=spent.total,
            cap=option.cap,
            reports=option.reports,
            exposed=option.exposed,
            rmse=option.rmse,
            users=option.users,
            parameters=option.parameters,
            pareto_optimal=option.pareto_optimal,
        )


@dataclass(frozen=True, kw_only=True)
class PoolRow:
    """The row of the users of a preferred pool."""

    adversary: str
    pool: str
    users: int
    exposed: Estimate | str
    precision: Estimate | str

    @classmethod
    def of(cls, record: PoolRecord) -> PoolRow:
        """Return the row of a record; shares of fewer than 20 users are counts."""
        few, users = record.users < MIN_USERS, record.users
        return cls(
            adversary=record.adversary,
            pool=record.pool,
            users=users,
            exposed=share_or_count(record.exposed, users) if few else record.exposed,
            precision=share_or_count(record.precision, users) if few else record.precision,
        )


def share_or_text(value: float | str) -> str:
    """Return a share as a percentage without its sign; a count of few users as it is."""
    return value if isinstance(value, str) else share(value)


@dataclass(frozen=True, kw_only=True)
class SeenRow:
    """The row of a pool: how much of it stands out from the error."""

    kind: str
    pool: str
    objects: int
    n_above: int
    rmse: float
    largest: float

    @classmethod
    def of(cls, one: PoolUsefulness) -> SeenRow:
        """Return the row of a pool, or of neutral objects."""
        kind = "neutral" if one.pool == NEUTRAL_NAME else "pools"
        return cls(
            kind=kind, pool=one.pool, objects=one.objects, n_above=one.n_above, rmse=one.rmse, largest=one.largest
        )


@dataclass(frozen=True, kw_only=True)
class PeriodRow:
    """The row of a period."""

    days: str
    events: int
    reports: float
    rmse: float
    rmse_uncapped: float
    n_above: int

    @classmethod
    def of(cls, one: PeriodUsefulness) -> PeriodRow:
        """Return the row of a period."""
        return cls(
            days=three_digits(one.days),
            events=one.events,
            reports=one.reports,
            rmse=one.rmse,
            rmse_uncapped=one.rmse_uncapped,
            n_above=one.n_above,
        )


OPTIONS = (
    "Every candidate as it would be deployed, with its own cap, and played by the same held-out users. A star marks "
    "options that no other option that may meet the targets beats in ε, total ε, exposure, RMSE and reports, by two "
    "digits. Prices are against the recommended option, which comes first."
)

OVER_TIME = (
    "The error of all reports of {devices} devices, after some time. The draw of objects counts once for each device, "
    "as its events may be alike, so that these errors are not too small. Memoized responses repeat their noise."
)


def options_of(advice: Advice) -> dict[str, Any]:
    """Return the table of options, and their prices."""
    shown = option_table([OptionRow.of(option) for option in advice.options], advice.question.horizon)
    prices = [(option.name, option.price) for option in advice.options if option.price]
    return {"options": shown, "options_note": OPTIONS, "prices": prices}


def option_table(rows: Sequence[OptionRow], n: int) -> dict[str, Any]:
    """Return the table of options, by n events."""
    by = f"n = {n:,}"
    columns = (
        Column("epsilon", "ε", "per report", number),
        Column("day", "ε", "per day", _total),
        Column("year", "ε", "per year", _total),
        Column("by_horizon", "ε", f"by {by}", _total),
        Column("total", "ε", "at the cap", _total),
        Column("cap", "Reports", "cap", _cap),
        Column("reports", "Reports", f"by {by}", number),
        Column("exposed", "", "Exposed, % of users", share),
        Column("rmse", "", "RMSE", three_digits),
        Column("users", "", "Users", "{:,}".format),
        Column("parameters", "", "Parameters", str),
    )
    return table(
        "Options",
        rows,
        columns,
        block=("meets_targets", "Meets targets"),
        row=("name", "Option"),
        best="pareto_optimal",
    )


def usefulness_of(advice: Advice) -> dict[str, Any]:
    """Return the tables of what can be seen in the frequencies: by pool, and over time."""
    found = advice.usefulness
    by_pool = [] if found is None else [SeenRow.of(one) for one in found.by_pool]
    over_time = [] if found is None else [PeriodRow.of(one) for one in found.over_time]
    devices = f"{advice.question.devices or DEFAULT_REPORTS:,}"
    return {
        "over_time_note": OVER_TIME.format(devices=devices),
        "usefulness_by_pool": table(
            "Objects that stand out, by pool",
            by_pool,
            (
                Column("objects", "", "Objects", "{:,}".format),
                Column("n_above", "", "Above twice their standard error", "{:,}".format),
                Column("rmse", "", "RMSE", number),
                Column("largest", "", "Largest frequency", number),
            ),
            block=("kind", "Objects of"),
            row=("pool", "Pool"),
        ),
        "over_time": table(
            "Error over time",
            over_time,
            (
                Column("reports", "", "Reports of each device", number),
                Column("rmse", "RMSE", "with the cap", number),
                Column("rmse_uncapped", "RMSE", "without", number),
                Column("n_above", "", "Objects above twice their standard error", "{:,}".format),
            ),
            block=("days", "Days"),
            row=("events", events(advice.scenario).capitalize()),
        ),
    }


def _cap(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _total(value: float | None) -> str:
    return "–" if value is None else format_total_epsilon(value)
