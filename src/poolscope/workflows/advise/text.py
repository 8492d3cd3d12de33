"""An advice in words: the question, the recommendation, what would have to give, what is taken for granted."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from poolscope.core.counting import MIN_USERS, counted
from poolscope.game.game import Game
from poolscope.metrics.bounds import in_days, in_words
from poolscope.metrics.intervals import Estimate, share_of
from poolscope.metrics.text import users_in_words
from poolscope.scenario.build import build_policy
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.advise.plays import Effort
from poolscope.workflows.advise.question import EXPOSED as DECISIVE
from poolscope.workflows.advise.question import KEEPING, Question
from poolscope.workflows.advise.records import Finding, Recommendation
from poolscope.workflows.advise.search import MIN_PART, NO, UNDECIDED, YES, decidable

#: Pools that a sentence names at most.
MAX_POOLS = 5


def asked(question: Question, scenario: Scenario) -> str:
    """The question, as a person asks it."""
    words = (
        f"Which mechanism, epsilon and cap expose at most {share(question.max_exposed)} of the users by "
        f"{question.horizon:,} {events(scenario)}{_time(question, scenario)}, with a confidence of "
        f"{share(question.threshold)}"
    )
    if question.max_error is not None:
        words += (
            f", and estimate a frequency with an error of at most {number(question.max_error)} (RMSE) from one report "
        )
        words += f"of each of {question.devices:,} devices"
    return words + "?"


def sentence_of(found: Recommendation, question: Question, scenario: Scenario) -> str:
    """The recommendation, with numbers and intervals, as fresh users found it."""
    by, what = min(question.horizon, found.cap), events(scenario)
    words = (
        f"{found.mechanism} at epsilon {found.epsilon:g} with a cap of {found.cap:,} {what}: of {found.users:,} "
        f"held-out users, {_of_users(found.exposed, found.users)} are exposed by {by:,} {what}"
    )
    if found.cap > by:
        words += f" and {_of_users(found.exposed_at_cap, found.users)} by the cap, for good"
    words += f", where at most {share(question.max_exposed)} was asked for"
    if found.errors is not None:
        words += f"; the error of a frequency from {found.reports:,} reports is {number(found.errors.rmse)} (RMSE)"
        words += f", where {number(question.max_error)} was asked for" if question.max_error is not None else ""
    return f"{words}. {BINDING[found.limiting_constraint]} {MEETING[found.meets_targets]}"


def spent_in_words(found: Recommendation, recommended: Scenario) -> str:
    """What the epsilon of the choice adds up to, with its cap: of kept answers, the longitudinal one."""
    return f"{found.mechanism}, {in_words([found.cumulative_epsilon], build_policy(recommended))}"


MEETING = {
    YES: "It meets all targets.",
    NO: "It does not meet all targets.",
    UNDECIDED: "It is undecided whether it meets all targets: the interval contains what was asked for.",
}

BINDING = {
    "error": "The error binds: a smaller epsilon would serve worse than asked for.",
    "exposure": "Exposure binds: a larger epsilon would expose more users than asked for.",
    "error and exposure": "Error and exposure contradict each other: what serves exposes too many.",
    "range": "Nothing but the range of epsilon that was looked at binds.",
}


def relaxations_of(findings: Sequence[Finding], question: Question, scenario: Scenario) -> Iterator[str]:
    """Where no mechanism fits, by how much each target would have to give, mechanism by mechanism."""
    if any(finding.feasible != NO for finding in findings):
        return
    for finding in findings:
        at, largest = finding.at_epsilon_min, finding.epsilon_max
        if question.max_error is not None and finding.epsilon_min is None:
            least = "–" if finding.rmse_min is None else number(finding.rmse_min)
            yield f"{finding.mechanism}: the error would have to be {least} or more, up to epsilon {question.highest:g}"
            continue
        parts = []
        if at is not None:
            parts.append(f"exposed would have to be {with_ends(at.exposed)} instead of {share(question.max_exposed)}")
            cap = f"{at.cap.value:,.0f} ({at.cap.low:,.0f} to {at.cap.high:,.0f})"
            parts.append(f"or the cap {cap} instead of {question.horizon:,} {events(scenario)}")
        if largest is None:
            parts.append(f"no epsilon from {question.lowest:g} on exposes few enough")
        elif finding.rmse_at_epsilon_max is not None and question.max_error is not None:
            parts.append(f"or the error {number(finding.rmse_at_epsilon_max)} instead of {number(question.max_error)}")
            if finding.devices_at_epsilon_max is not None and math.isfinite(finding.devices_at_epsilon_max):
                parts.append(f"or the devices {finding.devices_at_epsilon_max:,.0f} instead of {question.devices:,}")
        yield f"{finding.mechanism}: " + ", ".join(parts)


def notes_of(
    findings: Sequence[Finding], found: Recommendation, question: Question, limit: str | None = None
) -> Iterator[str]:
    """What a reader must know besides; `limit` is what keeps the recommended setting from being larger."""
    if len(found.attempts) > 1:
        first = found.attempts[0]
        seen = (
            "showed that the first choice could be larger"
            if first.meets_targets == YES
            else "did not confirm the first choice"
        )
        yield (
            f"Held-out users {seen}: epsilon {first.epsilon:g} with a cap of {first.cap:,} exposed "
            f"{with_ends(first.exposed)} of them. It was refined {counted(len(found.attempts) - 1, 'time')}; other "
            "users verified each attempt, but for recorded ones."
        )
    if found.attempts[-1].meets_targets == NO:
        yield "Held-out users contradict the last attempt too: take a smaller cap or epsilon, and ask again."
    for finding in findings:
        if not finding.monotone:
            yield (
                f"With {finding.mechanism}, a smaller epsilon exposed significantly more users than a larger one: an "
                "estimated popularity, and parameters that are whole numbers, depend on epsilon as well. There may be "
                "other epsilons that fit."
            )
    if question.max_error is None:
        yield "Nobody asked for an error, so that nothing bounds epsilon from below: give `max_error` and `devices`."
    if found.attempts[-1].meets_targets == UNDECIDED:
        yield (
            f"The interval of the verified share contains the target: {found.users:,} users cannot decide. "
            f"{decisive(question.max_exposed)}"
        )
    yield from slack_of(found, question, limit)
    yield from pools_above(found, question)


def pools_above(found: Recommendation, question: Question) -> Iterator[str]:
    """Name pools whose users are exposed significantly more often than the target, which is for all users."""
    above = [one for one in found.by_pool if one.users >= MIN_USERS and one.exposed.low > question.max_exposed]
    if not above:
        return
    above.sort(key=lambda one: -one.exposed.value)
    named = ", ".join(f"{one.pool} {with_ends(one.exposed)}" for one in above[:MAX_POOLS])
    rest = len(above) - MAX_POOLS
    yield (
        f"The target is for all users. By the cap, more users of these preferred pools are exposed: {named}"
        + (f", and {counted(rest, 'more pool')}" if rest > 0 else "")
        + "."
    )


def share_or_count(found: Estimate, users: int) -> str:
    """As 4.6 % (4.0 to 5.3 %), or of fewer than 20 users as 3 of 12."""
    return with_ends(found) if users >= MIN_USERS else f"{round(found.value * users)} of {users}"


def slack_of(found: Recommendation, question: Question, limit: str | None) -> Iterator[str]:
    """Why the recommendation exposes much less than was allowed, where it does."""
    if found.exposed_at_cap.value >= MIN_PART * question.max_exposed:
        return
    what = "epsilon" if question.max_error is None else "cap"
    why = {
        "horizon": f"no play goes beyond {found.cap:,}, and the error needs no larger epsilon.",
        "range": f"epsilon is the largest of the range, {question.highest:g}.",
        "jump": f"the next larger {what} exposes more than that.",
    }
    part = f"It exposes {share(found.exposed_at_cap.value)} of the users, of {share(question.max_exposed)} allowed: "
    if limit in why:
        yield part + why[limit]
    elif not decidable(question.max_exposed, found.users):
        unsaid = f"{found.users:,} users cannot say how much larger the {what} may be."
        yield f"{part}{unsaid} {decisive(question.max_exposed)}"
    else:
        yield f"{part}the attempts to find a larger {what} were not confirmed."


def decisive(target: float) -> str:
    """How many users tell a share near the target from the target."""
    return f"About {DECISIVE / target:,.0f} `users` would."


def efforts_in_words(efforts: Mapping[str, Effort], question: Question) -> Iterator[str]:
    """How many users there was time for, where one takes long, and what so few can tell."""
    for kind, effort in efforts.items():
        if effort.seconds is None or effort.users >= KEEPING:
            continue
        most = share_of(0, effort.users).high
        yield (
            f"{kind}: at most {effort.users:,} users play a trial, as one takes {effort.seconds:.2g} s of a processor; "
            f"if none of them is exposed, up to {share(most)} of all may be"
            + (f", which cannot show that {share(question.max_exposed)} holds" if most > question.max_exposed else "")
            + f". Epsilon is closed in on in wide steps, and other assumptions are not played. `users` {KEEPING} tells "
            "more, and takes longer by that."
        )


def assumptions_of(question: Question, scenario: Scenario, game: Game) -> Iterator[str]:
    """What the answer takes for granted; the game is the one that was verified."""
    phrase, users = game.adversaries[0].phrase, users_in_words(game)
    yield f"The adversary is {question.adversary}: {phrase}. It knows the mechanism and the pools."
    yield f"{users[:1].upper()}{users[1:]}" + ("; half of them search, the others verify." if game.recorded else ".")
    yield (
        "Exposed means that the adversary has been sure at some time, with the asked confidence; it may be wrong, "
        "about as often as it says."
    )
    events_are = "what was recorded, in order" if game.recorded else "independent draws"
    yield f"Events of a user are {events_are}; " + (
        "a device keeps its answer for each object." if scenario.memoizes else "a report is drawn anew each time."
    )
    yield (
        "The error is that of one collection: one report of each device"
        + (" that sends one" if scenario.devices.sampling_rate < 1 else "")
        + ", averaged over all objects."
    )
    if scenario.memoizes:
        yield "Where devices keep answers the adversary is asked at some events only: exposure is seen at these."
    yield "All reports of a device can be linked" + (
        f" within {scenario.devices.rotate_after:,} reports." if scenario.devices.rotate_after else "."
    )


def events(scenario: Scenario) -> str:
    """What n counts."""
    return "events" if scenario.devices.sampling_rate < 1 else "reports"


def share(value: float) -> str:
    """As 4.6 %."""
    return f"{100 * value:.3g} %"


def with_ends(found: Estimate) -> str:
    """As 4.6 % (4.0 to 5.3 %)."""
    return f"{digits(found.value)} % ({digits(found.low)} to {digits(found.high)} %)"


def _of_users(found: Estimate, users: int) -> str:
    """The same, with a count in place of the share of fewer than 20 users."""
    few = f"{round(found.value * users)} ({digits(found.low)} to {digits(found.high)} % of all)"
    return with_ends(found) if users >= MIN_USERS else few


def digits(value: float) -> str:
    """A share as the number before the percent sign, to two digits: 0.55, 4.6, 97."""
    percentage = 100 * value
    return f"{percentage:.2g}" if percentage < 99.5 else f"{round(percentage, 1):g}"


def number(value: float) -> str:
    """Three digits."""
    return f"{value:.3g}"


def _time(question: Question, scenario: Scenario) -> str:
    rate = scenario.devices.reports_per_day
    return "" if rate is None else f" ({in_days([question.horizon], rate)})"
