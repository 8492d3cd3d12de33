"""Epsilon with its time: an epsilon of a report says little without how many reports there are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from poolscope.mechanisms.devices import Device
from poolscope.mechanisms.policy import Sending

if TYPE_CHECKING:
    from poolscope.game.game import Game

DAYS = 365
"""Days of a year."""


@dataclass(frozen=True, kw_only=True)
class EpsilonInTime:
    """The epsilon of a report, and the sum over those of a day, of a year and of all time: what composition allows.

    Where a share of events is reported, sums are of as many reports as are sent on average. None is what is not known:
    of a day and a year where nobody says how many reports there are, of all time without a cap.

    Where devices keep their answers, reports are not independent and their epsilons do not add up. There is the epsilon
    of a kept `answer`, whose reports together reveal no more, and as the papers count it the longitudinal one for all
    time: that of an answer times the answers that a device can send. It is about the answers alone: which reports come
    from the same one is in no epsilon.

    Examples
    --------
    >>> ps.metrics.EpsilonInTime(report=4.0, day=4.0, year=1460.0).year
    1460.0
    """

    report: float
    day: float | None = None
    year: float | None = None
    ever: float | None = None
    answer: float | None = None


class KeptAnswers(NamedTuple):
    """What a device keeps: the epsilon of an answer, and how many answers there are at most.

    Examples
    --------
    >>> ps.metrics.KeptAnswers(epsilon=2.0, answers=30).spent(reports=10)
    20.0
    """

    epsilon: float
    answers: int

    def spent(self, reports: float) -> float:
        """What so many reports add up to, each of an answer of its own as long as there are any."""
        return self.epsilon * min(self.answers, reports)


def kept_by(device: Device) -> KeptAnswers | None:
    """What a device keeps, as its mechanism tells; of any mechanism its answer to each object. None: nothing.

    Examples
    --------
    >>> ps.metrics.kept_by(ps.mechanisms.Memoised(mechanism))
    KeptAnswers(epsilon=3.0, answers=30)
    """
    if not device.memoizes:
        return None
    mechanism: Any = device.mechanism
    epsilon = getattr(mechanism, "kept_epsilon", mechanism.epsilon)
    return KeptAnswers(float(epsilon), int(getattr(mechanism, "kept_answers", mechanism.universe)))


def epsilon_in_time(epsilon: float, sending: Sending, *, kept: KeptAnswers | None = None) -> EpsilonInTime:
    """What an epsilon of a report adds up to on devices that send so much; ``kept`` is what they keep of it.

    Examples
    --------
    >>> ps.metrics.epsilon_in_time(4.0, ps.mechanisms.Sending(reports_per_day=1.0))
    EpsilonInTime(report=4.0, day=4.0, year=1460.0, ever=None, answer=None)
    """
    if kept is not None:
        most = math.inf if sending.cap is None else sending.cap
        return EpsilonInTime(report=epsilon, answer=kept.epsilon, ever=kept.spent(most))
    ever = None if sending.cap is None else sending.cap * epsilon
    if sending.reports_per_day is None:
        return EpsilonInTime(report=epsilon, ever=ever)
    day, year = (epsilon * sending.mean_reports(days * sending.reports_per_day) for days in (1, DAYS))
    return EpsilonInTime(report=epsilon, day=day, year=year, ever=ever)


def epsilon_of(game: Game) -> EpsilonInTime:
    """The epsilon of a game with its time."""
    return epsilon_in_time(float(game.mechanism.epsilon), game.sending, kept=kept_by(game.device))


def composition_bound(game: Game) -> float:
    """What the epsilons of a user's linked reports add up to: of kept answers, those that they can come from."""
    reports, kept = int(game.sending.linked(game.horizon)[0].max()), kept_by(game.device)
    return reports * float(game.mechanism.epsilon) if kept is None else kept.spent(reports)


def in_words(epsilons: Sequence[EpsilonInTime], sending: Sending) -> str:
    """One epsilon or several, as "epsilon 4 a report, 1 a day: 1,460 a year"."""
    words = f"epsilon {_listed([epsilon.report for epsilon in epsilons])} a report"
    if sending.reports_per_day is not None:
        words += f", {_figure(sending.sample * sending.reports_per_day)} a day"
        words += " on average" if sending.sample < 1 else ""
    sums = {
        "a kept answer": [epsilon.answer for epsilon in epsilons],
        "a year": [epsilon.year for epsilon in epsilons],
        "in all": [epsilon.ever for epsilon in epsilons],
    }
    if sums["a year"] == sums["in all"]:
        # the cap is reached within a year
        del sums["a year"]
    told = [f"{_listed(known)} {when}" for when, of in sums.items() if (known := [x for x in of if x is not None])]
    return f"{words}: {', '.join(told)}" if told else words


def of_each_in_words(spent: Mapping[str, Sequence[EpsilonInTime]], sending: Sending) -> list[str]:
    """The epsilons of several mechanisms: what is drawn anew in one phrase, and one for each that keeps answers."""
    kept = {name: epsilons for name, epsilons in spent.items() if any(one.answer is not None for one in epsilons)}
    fresh = [one for name, epsilons in spent.items() if name not in kept for one in epsilons]
    told = [f"{name}, {in_words(epsilons, sending)}" for name, epsilons in kept.items()]
    return [in_words(fresh, sending), *told] if fresh else told


def devices_in_words(game: Game) -> list[str]:
    """What the devices of a game do beyond the mechanism, a phrase each."""
    sending, told = game.sending, []
    if sending.sample < 1:
        told.append(f"n counts events, of which {_figure(100 * sending.sample)} % are reported")
    if sending.cap is not None:
        told.append(f"a device sends {sending.cap:,} report{'s' * (sending.cap != 1)} and no more")
    if sending.window is not None:
        many = f"{sending.window:,} report{'s' * (sending.window != 1)}"
        told.append(f"the pseudonym changes after {many}: a guess is about one, a user is exposed if one of theirs is")
    if kept_by(game.device):
        told.append("a device keeps its answers: what adds up are their epsilons, as long as there are new ones")
    if kept_by(game.device) and sending.window is not None:
        told.append("who knows of the kept answers links pseudonyms by them: for such an adversary they never change")
    return told


def in_days(counts: Sequence[int], reports_per_day: float) -> str:
    """How long so many events take, as "7, 30 days"."""
    days = [n / reports_per_day for n in counts]
    return f"{_listed(days)} day{'s' * (days != [1])}"


def _listed(values: Sequence[float]) -> str:
    return ", ".join(dict.fromkeys(map(_figure, values)))


def _figure(value: float) -> str:
    """Three digits, all of those before the point; infinity as its sign."""
    return f"{value:,.0f}" if 100 <= value < 1e15 else f"{value:.3g}".replace("inf", "∞")
