"""Summarize a run in sentences: the strongest attack, the synthetic users, and the error of sampled posteriors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

from poolscope.core.counting import MIN_USERS, counted
from poolscope.core.errors import InputError
from poolscope.game.columns import NON_PRIVATE
from poolscope.inference.thresholds import in_percent
from poolscope.metrics.intervals import Estimate
from poolscope.metrics.records import TOPS, Record
from poolscope.population.priors import UNIFORM, Beta, Density

if TYPE_CHECKING:
    from poolscope.game.game import Game

HEADLINE = "precision_top10"
"""The share of users that the summary is about, fixed in advance: a share chosen after looking would bias its CI."""


def strongest_attack(results: Sequence[Record]) -> Record:
    """Return the record that summarizes a run: the best attack on private reports at the largest n.

    The non-private game counts only where there is nothing else.

    Examples
    --------
    >>> best = ps.metrics.strongest_attack(ps.summarize(outcomes, game, seed=1))
    >>> best.adversary, best.n
    ('strong', 40)
    """
    if not results:
        raise InputError("must not be empty", place="results")
    private = [record for record in results if record.adversary != NON_PRIVATE] or list(results)
    horizon = max(record.n for record in private)
    return max((record for record in private if record.n == horizon), key=lambda record: record.auc_pn.value)


def summary_text(
    results: Sequence[Record], descriptions: Mapping[str, str] | None = None, *, unit: str = "report"
) -> str:
    """Summarize a run in one or two sentences.

    The first sentence is about the most confident 10% of the users. That share is fixed in advance, so its 95% CI needs
    no adjustment. With a threshold, the sentence is about the users whose guess reaches it. The second sentence is
    about all users, beside the best guess without reports. Shares of fewer than 20 users are counts.

    Parameters
    ----------
    results : sequence of Record
        From ``summarize``.
    descriptions : mapping, optional
        What each adversary assumes, as "popularity estimated from 100,000 reports".
    unit : str
        What n counts: "report", or "event" where a cap or sampling makes the two differ (`unit_of`).

    Examples
    --------
    >>> print(ps.metrics.summary_text(ps.summarize(outcomes, game, seed=1)))
    After 40 reports, the strong adversary is correct for all 20 users in its most confident 10% ...random: 33%).
    """
    record = strongest_attack(results)
    description = (descriptions or {}).get(record.adversary)
    opening = f"After {counted(record.n, unit)}, the {record.adversary} adversary"
    opening += f" ({description})" if description else ""
    users = f"{'all ' * (record.users > 1)}{counted(record.users, 'user')}"
    everyone = f"Guessing for {users}, it is {_on_everyone(record)}."
    if record.threshold is not None and record.confident_at_threshold and record.precision_at_threshold:
        confident, correct = record.confident_at_threshold.value, record.precision_at_threshold.value
        reached = round(confident * record.users)
        who = of_users(confident, record.users, "of the users") if reached else "no user"
        outcome = f" and correct for {of_users(correct, reached, 'of them')}" if reached else ""
        return f"{opening} is at least {in_percent(record.threshold)} confident about {who}{outcome}. {everyone}"
    precision, top = getattr(record, HEADLINE), round(TOPS[HEADLINE] * record.users)
    if top < MIN_USERS:
        return f"{opening} guesses for {users} and is {_on_everyone(record)}."
    share = in_percent(TOPS[HEADLINE])
    if precision.value == 1:
        found = f"all {top:,} users in its most confident {share} (95% CI: at least {percent(precision.low)})"
    else:
        found = f"{percent(precision.value)} of the users in its most confident {share} (95% CI {range_of(precision)})"
    return f"{opening} is correct for {found}. {everyone}"


def _on_everyone(record: Record) -> str:
    """Return the success on all users beside the better of the two guesses that need no report."""
    name, chance, share = "random", record.baseline, percent(record.baseline)
    if record.skewed:
        name, chance = "the most common pool", record.majority
        share = of_users(chance, record.users)
    success = f"correct for {of_users(record.precision.value, record.users)}"
    return (
        f"{success} ({name}: {share})"
        if record.precision.low > chance
        else f"{success}, no better than {name} ({share})"
    )


class ReportingLimits(Protocol):
    """What makes events and reports differ: a reporting policy, or the ``[devices]`` of a scenario."""

    @property
    def sampling_rate(self) -> float: ...

    @property
    def cap(self) -> int | None: ...


def unit_of(devices: ReportingLimits) -> Literal["report", "event"]:
    """Return what n counts: "event" where a cap or sampling makes devices send fewer reports, else "report"."""
    return "report" if devices.cap is None and devices.sampling_rate == 1 else "event"


class SampledPosterior(Protocol):
    """What is known of the Monte Carlo error of an adversary's posteriors, see `Record`."""

    @property
    def adversary(self) -> str: ...

    @property
    def confidence_mcse(self) -> float | None: ...

    @property
    def confidence_mcse_max(self) -> float | None: ...


def mcse_text(
    results: Sequence[SampledPosterior], consequence: str = "The intervals of confident and exposed users include it."
) -> str:
    """Return the Monte Carlo error of adversaries who sample their posteriors; an empty text where none does."""
    sampled = [record for record in results if record.confidence_mcse]
    if not sampled:
        return ""
    names = " and ".join(dict.fromkeys(record.adversary for record in sampled))
    mean = max(record.confidence_mcse or 0.0 for record in sampled)
    largest = max(record.confidence_mcse_max or 0.0 for record in sampled)
    return (
        f"Posteriors of {names} are sampled (MCMC): the Monte Carlo standard error of a confidence is {mean:.3f} on "
        f"average and at most {largest:.3f}. {consequence}"
    )


def of_users(share: float, users: int, whom: str = "") -> str:
    """Return a share of users, as "12% of the users"; of fewer than 20 users a count, as "3 of 8 users"."""
    if users < MIN_USERS:
        return f"{round(share * users)} of {counted(users, 'user')}"
    return f"{percent(share)} {whom}".rstrip()


def percent(share: float) -> str:
    """Return a share as a whole percentage, with a decimal near 0 and 1, and never rounded to them."""
    value = 100 * share
    if 0 < value < 0.1:
        return "less than 0.1%"
    if 99.9 < value < 100:
        return "more than 99.9%"
    return f"{_digits(value)}%"


def range_of(found: Estimate) -> str:
    """Return an interval of a share, as "93–99.4%"."""
    return f"{_digits(100 * found.low)}–{_digits(100 * found.high)}%"


def _digits(value: float) -> str:
    return f"{value:.0f}" if 1 <= value <= 99 or value in (0, 100) else f"{value:.1f}"


def reports_text(found: Estimate, horizon: int) -> str:
    """Return a number of reports with its 95% CI, as "16 (15–17)"; beyond the horizon, as "> 180"."""
    value, low, high = (f"{n:,.0f}" if math.isfinite(n) else f"> {horizon:,}" for n in found)
    if low == high:
        return value
    return f"{value} ({low}{'–' if math.isfinite(found.high) else ' to '}{high})"


def linkability_title(window: int) -> str:
    """Return the title of a table of linkability."""
    return f"Linking two windows of {counted(window, 'report')} to one device"


def users_in_words(game: Game) -> str:
    """Return who plays, as "synthetic users with uniform interest and polarization"."""
    if game.recorded is not None:
        return "recorded users"
    if game.population is not None:
        return "users of a custom population"
    own = game.behavior
    text = f"synthetic users with {_of(own.interest, 'interest')} and {_of(own.polarization, 'polarization')}"
    if own.interest == own.polarization:
        text = f"synthetic users with {_of(own.interest, 'interest and polarization')}"
    prior = own.pool_prior(game.universe.k)
    if prior.min() < prior.max():
        text += f", each pool preferred by {100 * prior.min():.2g} to {100 * prior.max():.2g}%"
    if own.none:
        text += f", {100 * own.none:.2g}% without a preferred pool"
    if game.habits is not None:
        text += f", individual popularity (Dirichlet, concentration {game.habits:g})"
    if game.change is not None:
        text += f", {100 * game.change.share:.2g}% of whom prefer another pool after {game.change.after} events"
    return text if game.sigma == 0 else f"{text}, individual popularity (sigma {game.sigma:g})"


def _of(density: Density, what: str) -> str:
    if density == UNIFORM:
        return f"uniform {what}"
    return f"Beta({density.a:g}, {density.b:g}) {what}" if type(density) is Beta else f"{what} of a given density"


def number(value: float) -> str:
    """Return a plain number; infinity as its sign."""
    return f"{value:g}".replace("inf", "∞")
