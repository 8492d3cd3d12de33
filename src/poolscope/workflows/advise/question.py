"""What is asked of a deployment: how many users may be max_exposed, by when, and how well the curator must learn."""

from __future__ import annotations

import math
from collections.abc import Sequence

from poolscope.core.errors import InputError, did_you_mean
from poolscope.game.game import Game
from poolscope.inference.levels import DEFAULT_THRESHOLD
from poolscope.metrics.models import Count, Real, Result, result
from poolscope.scenario.model import AdversaryTable
from poolscope.scenario.scenario import Scenario

#: Where epsilon is looked for, if nobody says.
EPSILONS = (0.1, 10.0)

#: Mechanisms that are tried beside the scenario's own, if nobody says: all need nothing but an epsilon.
COMMON = ("oue", "olh", "grr", "hr")

#: Reports that errors are told of, if nobody says how many devices there are.
REPORTS = 100_000

#: Users who search and who verify the recommendation, if nobody says: as many as expose this many at the target,
#: within bounds; and where devices keep answers, which takes a hundred times as long and more.
EXPOSED, USERS, KEEPING = 800, (4000, 40_000), 200

#: Most users of a trial before one mechanism is chosen.
SEARCHING = 4000

#: How wide an interval at the border may be, as a part of the share that is asked for, if nobody says.
WIDTH = 0.4


@result
class Question(Result):
    """The targets, and how hard to look for what meets them.

    Parameters
    ----------
    max_exposed : the share of users who may be exposed by `horizon` events, at most; threshold : from which on they
        are.
    horizon : n, after how many events; days : the same in days, where devices say how many a day.
    max_error : the most that the error (RMSE) of a frequency may be, from one report of each of so many `devices`;
        None: nobody asks.
    mechanisms : the names that are tried; adversary : the name of who attacks.
    lowest, highest : where epsilon is looked for.
    users : how many search at most, and as many verify; tolerance : how wide the interval of a share at the border may
        be.
    """

    max_exposed: Real
    threshold: Real
    horizon: Count
    days: Real | None
    max_error: Real | None
    devices: Count | None
    mechanisms: tuple[str, ...]
    adversary: str
    lowest: Real
    highest: Real
    users: Count
    tolerance: Real


def question_of(
    scenario: Scenario,
    *,
    max_exposed: float,
    threshold: float | None = None,
    horizon: int | None = None,
    days: float | None = None,
    max_error: float | None = None,
    devices: int | None = None,
    mechanisms: Sequence[str] | None = None,
    adversary: str | None = None,
    epsilon: tuple[float, float] | None = None,
    users: int | None = None,
    tolerance: float | None = None,
) -> Question:
    """The question about a scenario, with what nobody says filled in; what cannot be asked is refused."""
    if scenario.attack is None:
        raise scenario.missing("attack")
    _within(max_exposed, "max_exposed", 1)
    threshold = scenario.attack.threshold or DEFAULT_THRESHOLD if threshold is None else threshold
    _within(threshold, "threshold", 1)
    if (max_error is None) != (devices is None):
        given, lacking = ("max_error", "devices") if devices is None else ("devices", "max_error")
        remedy = "an error is of the frequencies that so many devices give, one report each"
        raise InputError(f"`{given}` must come with `{lacking}`", value=max_error or devices, remedy=remedy)
    if max_error is not None:
        _within(max_error, "max_error", 1)
    for name, count in (("devices", devices), ("users", users), ("horizon", horizon)):
        if count is not None and count < 1:
            raise InputError(f"`{name}` must be at least 1", value=count)
    lowest, highest = epsilon or EPSILONS
    if not 0 < lowest < highest < math.inf:
        raise InputError("must be LOW:HIGH with 0 < LOW < HIGH", value=f"{lowest:g}:{highest:g}", place="epsilon")
    tolerance = WIDTH * max_exposed if tolerance is None else tolerance
    _within(tolerance, "tolerance", 1)
    own = (scenario.mechanism.kind, *COMMON)
    if mechanisms is not None and not len(mechanisms):
        raise InputError("`mechanisms` must name at least one")
    return Question(
        max_exposed=max_exposed,
        threshold=threshold,
        horizon=_events(scenario, horizon, days),
        days=days,
        max_error=max_error,
        devices=devices,
        mechanisms=tuple(dict.fromkeys(own if mechanisms is None else mechanisms)),
        adversary=_adversary(scenario, adversary),
        lowest=lowest,
        highest=highest,
        users=users or min(max(math.ceil(EXPOSED / max_exposed), USERS[0]), USERS[1]),
        tolerance=tolerance,
    )


def check_game(question: Question, game: Game) -> None:
    """The adversary is not that sure before the first report."""
    adversary = game.adversaries[0]
    prior = float(adversary.belief.pool_prior(adversary.k).max())
    if question.threshold <= prior:
        rule = f"`threshold` must be above {prior:.3g}, which the adversary has of everyone before any report"
        raise InputError(rule, value=question.threshold)


def parse_range(text: str) -> tuple[float, float]:
    """LOW:HIGH."""
    try:
        low, high = map(float, text.split(":"))
    except ValueError:
        raise InputError("must be LOW:HIGH, as 0.5:8", value=text, place="epsilon") from None
    return low, high


def strength(entry: AdversaryTable) -> tuple[int, int]:
    """Who knows more of the popularity comes after who knows less."""
    return ("uniform", "given", "estimated", "true").index(entry.popularity), entry.estimate_from or 0


def _within(value: float, name: str, top: float) -> None:
    if not 0 < value < top:
        raise InputError(f"`{name}` must be above 0 and below {top:g}", value=value)


def _events(scenario: Scenario, horizon: int | None, days: float | None) -> int:
    """n, from a number of events or of days, or else the scenario's last."""
    assert scenario.attack is not None
    if horizon is not None and days is not None:
        raise InputError("must not be both `horizon` and `days`", value=(horizon, days), remedy="leave one out")
    if days is None:
        return scenario.attack.observations[-1] if horizon is None else horizon
    rate = scenario.devices.reports_per_day
    if rate is None:
        remedy = "write reports_per_day in [devices], or ask for `horizon`"
        raise InputError(
            "`days` must have a scenario that says how many reports a day has", file=scenario.file, remedy=remedy
        )
    if not (math.isfinite(days) and days * rate >= 1):
        raise InputError("`days` must be long enough for a report, and finite", value=days)
    return round(days * rate)


def _adversary(scenario: Scenario, name: str | None) -> str:
    """The adversary of that name, or else the strongest."""
    if not scenario.adversaries:
        raise scenario.missing("[adversary]")
    known = [entry.name for entry in scenario.adversaries]
    if name is None:
        return max(scenario.adversaries, key=strength).name
    if name not in known:
        raise InputError(
            "must be an adversary of the scenario", value=name, place="adversary", remedy=did_you_mean(name, known)
        )
    return name
