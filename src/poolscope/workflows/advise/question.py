"""Parse and validate what is asked of a deployment: how many users may be exposed, by when, and at what utility."""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence

from poolscope.core.errors import InputError, did_you_mean
from poolscope.devices.registry import MECHANISMS
from poolscope.game.game import Game
from poolscope.inference.thresholds import DEFAULT_THRESHOLD
from poolscope.metrics.models import Count, Real, Result, result
from poolscope.scenario.scenario import Scenario
from poolscope.scenario.tables import AdversaryTable

#: Default range of epsilon.
EPSILON_RANGE = (0.1, 10.0)

#: Default mechanisms beside the scenario's own: all need nothing but an epsilon.
DEFAULT_MECHANISMS = ("oue", "olh", "grr", "hr")

#: What a recommendation may be chosen by, among options that meet the targets.
PREFERENCES = UTILITY, LOWEST_EPSILON, LOWEST_TOTAL, MIN_EXPOSURE, FEWEST_REPORTS = (
    "utility",
    "lowest-epsilon",
    "lowest-total-epsilon",
    "least-exposure",
    "fewest-reports",
)

#: What devices may do beside the mechanism, each a candidate of its own.
MEASURES = MEMOIZE, ROTATE, SAMPLE, CAP = "memoize", "rotate", "sample", "cap"

#: Reports that errors are computed for where the number of devices is not given.
DEFAULT_REPORTS = 100_000

#: Default users of the search, and of the verification: as many as expose this many at the target, within a range.
#: Attacks on memoized responses take a hundred times as long and more: there this many.
EXPOSED_USERS, USER_RANGE, MEMOIZED_USERS = 800, (4000, 40_000), 200

#: Users of a trial at most, before one mechanism is chosen.
MAX_SEARCH_USERS = 4000

#: Default width of a confidence interval near the target, as a part of the target.
RELATIVE_TOLERANCE = 0.4


@result
class Budget(Result):
    """How many users a mechanism is simulated with, and how far.

    Parameters
    ----------
    users : of a trial at most; horizon_factor : horizon of a trial, as a multiple of the requested one.
    seconds : core seconds of a user, up to the requested horizon; None where it was not timed.
    """

    users: Count
    horizon_factor: Count = 1
    seconds: Real | None = None


@result
class Question(Result):
    """The targets, and how hard to look for what meets them.

    Parameters
    ----------
    max_exposed : the share of users who may be exposed by `horizon` events, at most; threshold : from which on they
        are.
    horizon : n, after how many events; days : the same in days, where devices say how many a day.
    max_error : the most that the error (RMSE) of a frequency may be, from one report of each of the `devices`;
        None without a target.
    mechanisms : names of the candidates; adversary : name of the adversary.
    lowest, highest : range of ε.
    users : how many search at most, and as many verify; tolerance : allowed width of the interval of a share near the
        target.
    prefer : what the recommendation is chosen by; consider : what devices may do beside the mechanism, each tried with
        every mechanism.
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
    prefer: str = UTILITY
    consider: tuple[str, ...] = ()

    @property
    def fixes_epsilon(self) -> bool:
        """Whether the error target sets ε, so that the cap is refined; otherwise ε is."""
        return self.max_error is not None and self.prefer != UTILITY


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
    prefer: str | None = None,
    consider: Sequence[str] | None = None,
) -> Question:
    """Return the question about a scenario, with defaults filled in; refuse what cannot be asked."""
    if scenario.attack is None:
        raise scenario.missing("attack")
    _within(max_exposed, "max_exposed", 1)
    threshold = scenario.attack.threshold or DEFAULT_THRESHOLD if threshold is None else threshold
    _within(threshold, "threshold", 1)
    if (max_error is None) != (devices is None):
        given, lacking = ("max_error", "devices") if devices is None else ("devices", "max_error")
        remedy = "the error is that of frequencies estimated from one report of each device"
        raise InputError(f"`{given}` must come with `{lacking}`", value=max_error or devices, remedy=remedy)
    if max_error is not None:
        _within(max_error, "max_error", 1)
    for name, count in (("devices", devices), ("users", users), ("horizon", horizon)):
        if count is not None and count < 1:
            raise InputError(f"`{name}` must be at least 1", value=count)
    lowest, highest = epsilon or EPSILON_RANGE
    if not 0 < lowest < highest < math.inf:
        raise InputError("must be LOW:HIGH with 0 < LOW < HIGH", value=f"{lowest:g}:{highest:g}", place="epsilon")
    tolerance = RELATIVE_TOLERANCE * max_exposed if tolerance is None else tolerance
    _within(tolerance, "tolerance", 1)
    if mechanisms is not None and not len(mechanisms):
        raise InputError("`mechanisms` must name at least one")
    _known(prefer, PREFERENCES, "prefer", "a preference")
    for measure in consider or ():
        _known(measure, MEASURES, "consider", "a measure")
    return Question(
        max_exposed=max_exposed,
        threshold=threshold,
        horizon=_events(scenario, horizon, days),
        days=days,
        max_error=max_error,
        devices=devices,
        mechanisms=tuple(_mechanisms(scenario, mechanisms)),
        adversary=_adversary(scenario, adversary),
        lowest=lowest,
        highest=highest,
        users=users or min(max(math.ceil(EXPOSED_USERS / max_exposed), USER_RANGE[0]), USER_RANGE[1]),
        tolerance=tolerance,
        prefer=prefer or (UTILITY if max_error is None else MIN_EXPOSURE),
        consider=tuple(measure for measure in MEASURES if measure in (consider or ())),
    )


def _mechanisms(scenario: Scenario, asked: Sequence[str] | None) -> list[str]:
    """Return the names of the mechanisms."""
    if asked is None:
        return list(dict.fromkeys((scenario.mechanism.kind, *DEFAULT_MECHANISMS)))
    return list(dict.fromkeys(asked))


def canonical_order(own: str) -> list[str]:
    """Return all mechanisms with an ε: the scenario's own, the default ones, then the others.

    Candidates are searched in this order, and ties are broken by it, so that the order of names does not matter.
    """
    noisy = [kind for kind, maker in MECHANISMS.items() if "epsilon" in inspect.signature(maker).parameters]
    return [kind for kind in dict.fromkeys((own, *DEFAULT_MECHANISMS, *noisy)) if kind in noisy]


def _known(value: str | None, known: Sequence[str], name: str, what: str) -> None:
    """Refuse a word that is not one of the known ones."""
    if value is not None and value not in known:
        raise InputError(f"must be {what}", value=value, place=name, remedy=did_you_mean(str(value), known))


def check_game(question: Question, game: Game) -> None:
    """Refuse a threshold that the adversary's prior already reaches."""
    adversary = game.adversaries[0]
    prior = float(adversary.belief.pool_prior(adversary.k).max())
    if question.threshold <= prior:
        rule = f"`threshold` must be above {prior:.3g}, the largest prior of a pool"
        raise InputError(rule, value=question.threshold)


def parse_range(text: str) -> tuple[float, float]:
    """Parse LOW:HIGH."""
    try:
        low, high = map(float, text.split(":"))
    except ValueError:
        raise InputError("must be LOW:HIGH, as 0.5:8", value=text, place="epsilon") from None
    return low, high


def strength(entry: AdversaryTable) -> tuple[int, int]:
    """Return a sort key: adversaries who know more of the popularity come later."""
    return ("uniform", "given", "estimated", "true").index(entry.popularity), entry.estimate_from or 0


def _within(value: float, name: str, top: float) -> None:
    """Refuse a value outside (0, top)."""
    if not 0 < value < top:
        raise InputError(f"`{name}` must be above 0 and below {top:g}", value=value)


def _events(scenario: Scenario, horizon: int | None, days: float | None) -> int:
    """Return the horizon from a number of events or days, else the scenario's last observation count."""
    assert scenario.attack is not None
    if horizon is not None and days is not None:
        raise InputError("must not be both `horizon` and `days`", value=(horizon, days), remedy="leave one out")
    if days is None:
        return scenario.attack.observations[-1] if horizon is None else horizon
    rate = scenario.devices.reports_per_day
    if rate is None:
        remedy = "set reports_per_day in [devices], or give `horizon`"
        raise InputError("`days` must have a scenario with reports_per_day", file=scenario.file, remedy=remedy)
    if not (math.isfinite(days) and days * rate >= 1):
        raise InputError("`days` must be long enough for a report, and finite", value=days)
    return round(days * rate)


def _adversary(scenario: Scenario, name: str | None) -> str:
    """Return the adversary of that name, else the strongest."""
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
