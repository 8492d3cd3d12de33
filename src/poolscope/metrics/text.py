"""A run in plain words for readers who know no metric, and the users that it assumes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from poolscope.core.counting import MIN_USERS, counted
from poolscope.core.errors import InputError
from poolscope.game.columns import NON_PRIVATE
from poolscope.inference.levels import in_percent
from poolscope.metrics.intervals import Estimate
from poolscope.metrics.records import TOPS, Record
from poolscope.population.priors import UNIFORM, Beta, Density

if TYPE_CHECKING:
    from poolscope.game.game import Game


_LEVELS = (0.99, 0.95, 0.90)


def strongest_attack(results: Sequence[Record]) -> Record:
    """Return the record that summarizes a run: the best attack on private reports at the largest n that was asked for.

    The non-private game counts only when there is nothing else.

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


def summary_text(results: Sequence[Record], descriptions: Mapping[str, str] | None = None) -> str:
    """Return one or two sentences that say what a run found.

    With a threshold, about how many users the adversary is that confident, and how often it is right. Without one,
    the largest group of users about which it is nearly always right (lower end of the interval at 99, else 95,
    else 90 %). Then the success on everyone against a guess without any report. Of fewer than 20 users no percentage is
    given, but a count.

    Parameters
    ----------
    results : sequence of Record
        From ``summarize``.
    descriptions : mapping, optional
        What each adversary knows, as "an adversary who knows what is popular".

    Examples
    --------
    >>> print(ps.metrics.summary_text(ps.summarize(outcomes, game, seed=1)))
    After 40 reports, the strong adversary names the preferred pool ...re guessing at random is right for 33 %.
    """
    record = strongest_attack(results)
    phrase = (descriptions or {}).get(record.adversary)
    who = f"{phrase} ({record.adversary})" if phrase else f"the {record.adversary} adversary"
    opening = f"After {counted(record.n, 'report')}, {who}"
    if record.threshold is not None and record.confident_at_threshold and record.precision_at_threshold:
        sure, right = record.confident_at_threshold.value, record.precision_at_threshold.value
        confident = round(sure * record.users)
        about = f" and right about {of_users(right, confident, 'of them')}" if confident else ""
        who = of_users(sure, record.users, "of the users") if confident else "nobody"
        first = f"{opening} is at least {in_percent(record.threshold)} sure of {who}{about}."
        return f"{first} Naming a pool for every user, the same adversary {_on_everyone(record)}."
    group = _largest_group(record)
    if group is None:
        return f"{opening} names the preferred pool of every user and {_on_everyone(record)}."
    share, precision = group
    who = "every user" if share == 1 else f"{percent(share)} of the users"
    first = f"{opening} names the preferred pool of {who} and {_how_often(precision)}."
    if share == 1:
        return first
    return f"{first} Naming a pool for every user, the same adversary {_on_everyone(record)}."


def _largest_group(record: Record) -> tuple[float, Estimate] | None:
    """Return the largest share of users whose precision has a high lower bound, and that precision."""
    groups = [(1.0, record.precision)]
    groups += [(top, getattr(record, name)) for name, top in reversed(TOPS.items())]
    groups = [group for group in groups if group[0] * record.users >= MIN_USERS]
    for level in _LEVELS:
        for share, precision in groups:
            if precision.low >= level:
                return share, precision
    return None


def _how_often(precision: Estimate) -> str:
    if precision.value < 1:
        return f"is right {percent(precision.value)} of the time"
    # of those who played; what that says of others is the interval's to say
    return f"is right about all who played, surely more than {percent(precision.low)} of the time"


def _on_everyone(record: Record) -> str:
    """Return the success rate on all users beside the better of the two guesses that need no report."""
    blind, chance, often = "guessing at random", record.baseline, percent(record.baseline)
    if record.skewed:
        blind, chance = "always naming the most common pool", record.majority
        often = of_users(chance, record.users)
    success = f"is right for {of_users(record.precision.value, record.users, 'of them')}"
    if record.precision.low > chance:
        return f"{success}, where {blind} is right for {often}"
    return f"{success}, no better than {blind} ({often})"


class SampledRecord(Protocol):
    """What is known of an adversary's posteriors that may be sampled, see `Record`."""

    @property
    def adversary(self) -> str: ...

    @property
    def confidence_mcse(self) -> float | None: ...

    @property
    def confidence_mcse_max(self) -> float | None: ...


def chance_in_words(
    results: Sequence[SampledRecord], facts: str = "which the intervals of who is sure and exposed reckon with"
) -> str:
    """Return one sentence on the adversaries whose posteriors are sampled; none where nobody samples."""
    sampled = [record for record in results if record.confidence_mcse]
    if not sampled:
        return ""
    names = " and ".join(dict.fromkeys(record.adversary for record in sampled))
    mean = max(record.confidence_mcse or 0.0 for record in sampled)
    most = max(record.confidence_mcse_max or 0.0 for record in sampled)
    return (
        f"Posteriors of {names} are sampled: a confidence has a standard error of {mean:.3f} in the mean, "
        f"{most:.3f} at most, {facts}."
    )


def of_users(share: float, users: int, who: str = "") -> str:
    """A share of some users as a headline has it: "12 %" and the group, or of fewer than 20 a count, "3 of 8 users"."""
    if users < MIN_USERS:
        return f"{round(share * users)} of {counted(users, 'user')}"
    return f"{percent(share)} {who}".rstrip()


def percent(share: float) -> str:
    """Return a share as a reader says it: whole, with a decimal near 0 and 1, never rounded to them."""
    value = 100 * share
    if 0 < value < 0.1:
        return "less than 0.1 %"
    if 99.9 < value < 100:
        return "more than 99.9 %"
    decimals = 0 if 1 <= value <= 99 or value in (0, 100) else 1
    return f"{value:.{decimals}f} %"


def users_in_words(game: Game) -> str:
    """Return who plays, as "users drawn with uniform interest and polarization"."""
    if game.recorded is not None:
        return "recorded users"
    own = game.behavior
    words = f"users drawn with {_of(own.interest, 'interest')} and {_of(own.polarization, 'polarization')}"
    if own.interest == own.polarization:
        words = f"users drawn with {_of(own.interest, 'interest and polarization')}"
    prior = own.pool_prior(game.universe.k)
    if prior.min() < prior.max():
        words += f", pools preferred by {100 * prior.min():.2g} to {100 * prior.max():.2g} %"
    if own.none:
        words += f", {100 * own.none:.2g} % of them without a preferred pool"
    return words if game.sigma == 0 else f"{words}, tastes of their own (sigma {game.sigma:g})"


def _of(density: Density, what: str) -> str:
    if density == UNIFORM:
        return f"uniform {what}"
    return f"Beta({density.a:g}, {density.b:g}) {what}" if type(density) is Beta else f"{what} by a given density"


def number(value: float) -> str:
    """Return a plain number; infinity as its sign."""
    return f"{value:g}".replace("inf", "∞")
