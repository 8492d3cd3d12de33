"""Write an advice as text: question, recommendation, reason, relaxations, notes, assumptions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from poolscope.core.counting import MIN_USERS, counted
from poolscope.game.game import Game
from poolscope.metrics.bounds import describe_epsilon, in_days
from poolscope.metrics.intervals import Estimate, share_of
from poolscope.metrics.text import users_in_words
from poolscope.scenario.build import build_policy
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.advise.question import (
    EXPOSED_USERS,
    FEWEST_REPORTS,
    LOWEST_EPSILON,
    LOWEST_TOTAL,
    MEMOIZED_USERS,
    UTILITY,
    Budget,
    Question,
)
from poolscope.workflows.advise.records import Alternative, Finding, Recommendation
from poolscope.workflows.advise.search import MIN_PART, NO, UNDECIDED, YES, decidable

#: Mechanisms that a sentence names at most.
MAX_LISTED = 6

#: Pools that a note names at most.
MAX_POOLS = 5

#: Replaces the list of alternatives where the recommended mechanism is the best in every criterion.
NO_BETTER = "No other feasible mechanism has a lower ε, exposes fewer users or has a smaller error."

#: What each limiting constraint means.
LIMITS = {
    "error": "the error target (a smaller ε misses it)",
    "exposure": "the exposure target (a larger ε misses it)",
    "error and exposure": "both targets (every ε that meets the error target exposes too many users)",
    "range": "the range of ε that was searched",
}


def question_text(question: Question, scenario: Scenario) -> str:
    """Return the question."""
    text = (
        f"Which mechanism, ε and cap expose at most {share(question.max_exposed)} of users by "
        f"{question.horizon:,} {events(scenario)}{_time(question, scenario)} at a confidence of "
        f"{share(question.threshold)}"
    )
    if question.max_error is not None:
        text += (
            f", and estimate frequencies with an RMSE of at most {number(question.max_error)} from one report of "
            f"each of {question.devices:,} devices"
        )
    return text + "?"


def answer_of(found: Recommendation, question: Question, scenario: Scenario) -> dict[str, str]:
    """Return the recommendation in four lines: deployment, exposure, utility, and what limits it."""
    unit, by = events(scenario).removesuffix("s"), min(question.horizon, found.cap)
    deployment = f"{found.name}, ε = {found.epsilon:g} per report, cap {counted(found.cap, unit)}"
    if (spent := found.cumulative_epsilon.total) is not None:
        deployment += f", total ε {'unbounded' if math.isinf(spent) else f'≤ {format_total_epsilon(spent)}'}"
    if found.meets_targets == UNDECIDED:
        deployment += " (undecided: the 95% CI contains the target)"
    exposure = (
        f"{_of_users(found.exposed, found.users)} by {counted(by, unit)} ({_interval(found.exposed)}; target ≤ "
        f"{share(question.max_exposed)}; {counted(found.users, 'held-out user')})"
    )
    if found.cap > by:
        exposure += f"; at the cap {_of_users(found.exposed_at_cap, found.users)} ({_interval(found.exposed_at_cap)})"
    utility = "no target" if question.max_error is None else f"target RMSE ≤ {number(question.max_error)}"
    if found.errors is not None:
        utility = f"RMSE {number(found.errors.rmse)} from {found.reports:,} reports ({utility})"
    return {
        "Closest" if found.meets_targets == NO else "Recommended": deployment,
        "Exposure": exposure,
        "Utility": utility,
        "Limited by": LIMITS[found.limiting_constraint],
    }


def refusal_of(found: Recommendation, question: Question) -> str:
    """Return that no configuration meets the targets; an empty text where one does or may."""
    if found.meets_targets != NO:
        return ""
    return f"No configuration meets {'the target' if question.max_error is None else 'both targets'}."


def sentence_of(found: Recommendation, question: Question, scenario: Scenario) -> str:
    """Return the recommendation as lines of text."""
    lines = [f"{name}: {line}." for name, line in answer_of(found, question, scenario).items()]
    return "\n".join([*filter(None, [refusal_of(found, question)]), *lines])


def spent_in_words(found: Recommendation, recommended: Scenario) -> str:
    """Return the cumulative ε of the deployment; of memoized responses, the longitudinal one."""
    return f"{found.name}, {describe_epsilon([found.cumulative_epsilon], build_policy(recommended))}"


def relaxations_of(findings: Sequence[Finding], question: Question, scenario: Scenario) -> Iterator[str]:
    """Yield, where no mechanism is feasible, by how much each target would have to be relaxed for each mechanism."""
    if any(finding.feasible != NO for finding in findings):
        return
    for finding in findings:
        at, largest = finding.at_epsilon_min, finding.epsilon_max
        if question.max_error is not None and finding.epsilon_min is None:
            smallest = "–" if finding.rmse_min is None else number(finding.rmse_min)
            yield f"{finding.name} is feasible with an RMSE target of {smallest}, up to ε = {question.highest:g}"
            continue
        options = []
        if at is not None:
            options.append(f"exposed users of {with_ends(at.exposed)} (target {share(question.max_exposed)})")
            cap = f"{at.cap.value:,.0f} (95% CI {at.cap.low:,.0f}–{at.cap.high:,.0f})"
            options.append(f"a cap of {cap} {events(scenario)} (horizon {question.horizon:,})")
        if largest is not None and finding.rmse_at_epsilon_max is not None and question.max_error is not None:
            options.append(f"an RMSE of {number(finding.rmse_at_epsilon_max)} (target {number(question.max_error)})")
            if finding.devices_at_epsilon_max is not None and math.isfinite(finding.devices_at_epsilon_max):
                options.append(f"{finding.devices_at_epsilon_max:,.0f} devices (now {question.devices:,})")
        text = f"{finding.name} is feasible with one of: {'; '.join(options)}" if options else finding.name
        yield text + (f"; no ε ≥ {question.lowest:g} meets the exposure target" if largest is None else "")


def notes_of(
    findings: Sequence[Finding], found: Recommendation, question: Question, limit: str | None = None
) -> Iterator[str]:
    """Yield further notes; `limit` is what keeps the recommended cap or ε from being larger."""
    if len(found.attempts) > 1:
        first = found.attempts[0]
        seen = (
            "showed that the first choice could be larger"
            if first.meets_targets == YES
            else "did not confirm the first choice"
        )
        yield (
            f"Held-out users {seen}: ε = {first.epsilon:g} with a cap of {first.cap:,} exposed "
            f"{with_ends(first.exposed)} of them. It was refined {counted(len(found.attempts) - 1, 'time')}; each "
            "attempt was verified by other users, unless users are recorded."
        )
    if found.attempts[-1].meets_targets == NO:
        yield "Held-out users contradict the last attempt too: use a smaller cap or ε, and run `advise` again."
    for finding in findings:
        if not finding.monotone:
            yield (
                f"With {finding.name}, a smaller epsilon exposed significantly more users than a larger one: an "
                "estimated popularity and integer parameters depend on epsilon too. Other epsilons may be feasible."
            )
    if question.max_error is None:
        yield "Without an error target nothing bounds ε from below: give `max_error` and `devices`."
    if found.attempts[-1].meets_targets == UNDECIDED:
        yield (
            f"The 95% CI of the verified share contains the target: {found.users:,} users cannot decide. "
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
        f"The target is for all users. By the cap, larger shares are exposed of users who prefer these pools: {named}"
        + (f", and {counted(rest, 'more pool')}" if rest > 0 else "")
        + "."
    )


def slack_of(found: Recommendation, question: Question, limit: str | None) -> Iterator[str]:
    """Explain why the recommendation exposes much less than the target, where it does."""
    if found.exposed_at_cap.value >= MIN_PART * question.max_exposed:
        return
    what = "cap" if question.fixes_epsilon else "epsilon"
    why = {
        "horizon": f"no trial goes beyond {found.cap:,}, and the error target needs no larger ε.",
        "range": f"ε is the largest of the range, {question.highest:g}.",
        "jump": f"the next larger {what} exposes more than that.",
    }
    part = f"It exposes {share(found.exposed_at_cap.value)} of users, where {share(question.max_exposed)} are allowed: "
    if limit in why:
        yield part + why[limit]
    elif not decidable(question.max_exposed, found.users):
        unknown = f"{found.users:,} users cannot determine how much larger the {what} may be."
        yield f"{part}{unknown} {decisive(question.max_exposed)}"
    else:
        yield f"{part}no attempt to find a larger {what} was confirmed."


def decisive(target: float) -> str:
    """Say how many users distinguish a share near the target from the target."""
    return f"About {EXPOSED_USERS / target:,.0f} `users` would."


def budget_notes(budgets: Mapping[str, Budget], question: Question) -> Iterator[str]:
    """Say how many users the time budget allows, where a user takes long, and what so few can show."""
    for kind, budget in budgets.items():
        if budget.seconds is None or budget.users >= MEMOIZED_USERS:
            continue
        bound = share_of(0, budget.users).high
        yield (
            f"{kind}: at most {budget.users:,} users per trial, as each takes {budget.seconds:.2g} s of processor "
            f"time. If none of them is exposed, up to {share(bound)} of all users may be"
            + (f", which cannot confirm {share(question.max_exposed)}" if bound > question.max_exposed else "")
            + ". The search for ε takes wide steps, and the sensitivity analysis is limited to the users' behavior. "
            f"`users` {MEMOIZED_USERS} shows more, and takes proportionally longer."
        )


def assumptions_of(question: Question, scenario: Scenario, game: Game) -> Iterator[str]:
    """Yield the assumptions of the answer; the game is the verified one."""
    phrase, users = game.adversaries[0].phrase, users_in_words(game)
    yield f"The adversary is {question.adversary}: {phrase}. It knows the mechanism and the pools."
    yield f"{users[:1].upper()}{users[1:]}" + ("; half of them search, the others verify." if game.recorded else ".")
    yield (
        "A user is exposed once the adversary's confidence in some pool has reached the threshold, whether the guess "
        "is correct or not."
    )
    events_are = "the recorded ones, in order" if game.recorded else "independent draws"
    yield f"Events of a user are {events_are}; " + (
        "a device memoizes its response for each object." if scenario.memoizes else "every report is randomized afresh."
    )
    yield (
        "The error is that of one collection: one report of each device"
        + (" that sends one" if scenario.devices.sampling_rate < 1 else "")
        + ", averaged over all objects."
    )
    if scenario.memoizes:
        yield "Attacks on memoized responses are computed at some events only, and exposure is observed there."
    yield "All reports of a device can be linked" + (
        f" within {scenario.devices.rotate_after:,} reports." if scenario.devices.rotate_after else "."
    )


def reason_of(
    leaders: Sequence[Finding],
    findings: Sequence[Finding],
    alternatives: Sequence[Alternative],
    question: Question,
    horizon: int,
    equal: Sequence[str] = (),
) -> str:
    """Say why the first of the leaders is recommended, and what it costs; `equal` are names of others about as good."""
    parts = (
        _why(leaders, findings, question, horizon),
        equal_in_words(equal),
        price_of(alternatives, question),
        missed_by(leaders[0], findings),
    )
    return " ".join(filter(None, parts))


#: What each preference compares, and where options stand.
COMPARED = {
    UTILITY: ("the smallest error", "at the largest ε that meets the exposure target"),
    LOWEST_EPSILON: ("the lowest ε per report", ""),
    LOWEST_TOTAL: ("the lowest total ε", ""),
    FEWEST_REPORTS: ("the fewest reports", ""),
}


def _why(leaders: Sequence[Finding], findings: Sequence[Finding], question: Question, horizon: int) -> str:
    """Compare the criterion of the choice; `leaders` are about as good, see `choice.choose`."""
    best, *tied = leaders
    name = best.name
    others = [finding for finding in findings if finding.trials and finding.name != name]
    if not others:
        return f"{name} is the only mechanism " + (
            "that can meet the error target." if len(findings) > 1 else "that was tried."
        )
    if question.prefer in (LOWEST_EPSILON, LOWEST_TOTAL, FEWEST_REPORTS):
        what = COMPARED[question.prefer][0]
        if not tied:
            return f"{name} has {what} of the options that meet the targets, as preferred."
        names = some_of([finding.name for finding in tied])
        return f"{name} has about {what} of the options that meet the targets, as preferred, tied with {names}."
    if question.prefer == UTILITY:
        what, where = COMPARED[UTILITY]
        values = [(f.name, number(f.rmse_at_epsilon_max)) for f in (best, *others) if f.rmse_at_epsilon_max is not None]
    elif question.max_error is None:
        what, where = "the fewest exposed users", "at the largest ε that meets the exposure target"
        values = [(f.name, number(f.epsilon_max.value)) for f in (best, *others) if f.epsilon_max is not None]
        values = [(kind, f"at ε {value}") for kind, value in values]
    else:
        where = "at the smallest ε that meets the error target"
        trials = [(f.name, f.at_epsilon_min) for f in (best, *others) if f.at_epsilon_min]
        if trials[0][1].cap.value < horizon:
            what, values = "the largest cap", [(kind, f"{trial.cap.value:,.0f}") for kind, trial in trials]
        else:
            what, values = "the fewest exposed users", [(kind, share(trial.exposed.value)) for kind, trial in trials]
    listed = some_of([f"{kind} {value}" for kind, value in values], ", ", ", ")
    if not tied:
        return f"{name} has {what} {where} ({listed})."
    lowest = all(best.epsilon <= finding.epsilon for finding in tied)
    rule = (
        "it has the lowest ε per report"
        if lowest
        else "it comes first in the fixed order of mechanisms, at about the same ε"
    )
    names = some_of([finding.name for finding in tied])
    return f"{name} has about {what} {where}, tied with {names} ({listed}); of these {rule}."


def some_of(items: Sequence[str], comma: str = ", ", last: str = " and ") -> str:
    """Return items as "a, b and c"; of many, the first ones and how many more there are."""
    shown = [*items[:MAX_LISTED], *([f"{len(items) - MAX_LISTED} more"] if len(items) > MAX_LISTED else [])]
    return last.join(filter(None, (comma.join(shown[:-1]), shown[-1])))


def equal_in_words(names: Sequence[str]) -> str | None:
    """Say which options are equally good, as another seed may recommend one of them."""
    if not names:
        return None
    verb = "is" if len(names) == 1 else "are"
    return (
        f"By this preference {some_of(names)} {verb} equally good, up to sampling error: another seed may "
        f"recommend {'it' if len(names) == 1 else 'one of them'}."
    )


def price_of(alternatives: Sequence[Alternative], question: Question) -> str | None:
    """Say what the recommended mechanism costs in ε, where another needs less."""
    own, lowest, *_ = alternatives
    if lowest.name == own.name:
        return None
    less = f"{number(lowest.epsilon)} and {format_total_epsilon(lowest.total_epsilon)}"
    return (
        f"Its ε is not the lowest: {number(own.epsilon)} per report and {format_total_epsilon(own.total_epsilon)} in "
        f"total by {question.horizon:,}, where {lowest.name} needs {less}."
    )


def missed_by(best: Finding, findings: Sequence[Finding]) -> str | None:
    """Name the infeasible mechanism with the lowest ε, where the best one is feasible and needs more.

    It is no alternative for the requested horizon, but may be one for fewer events.
    """
    lower = [one for one in findings if one.feasible == NO and one.at_epsilon_min and one.epsilon < best.epsilon]
    if best.feasible == NO or not lower:
        return None
    other = min(lower, key=lambda one: one.epsilon)
    assert other.at_epsilon_min is not None
    return (
        f"{other.name} needs only {number(other.epsilon)} per report, but is infeasible: it meets the exposure "
        f"target up to a cap of {other.at_epsilon_min.cap.value:,.0f}."
    )


def best_in_all(alternatives: Sequence[Alternative]) -> bool:
    """Return whether the recommended mechanism is the best feasible one in every criterion."""
    return len({one.name for one in alternatives}) == 1


def events(scenario: Scenario) -> str:
    """Return the unit of n."""
    if scenario.collections:
        return "days"
    return "events" if scenario.devices.sampling_rate < 1 else "reports"


def share(value: float) -> str:
    """Format a share, as 4.6%."""
    return f"{100 * value:.3g}%"


def with_ends(found: Estimate) -> str:
    """Format a share with its interval, as 4.6% (95% CI 4.0–5.3%)."""
    return f"{digits(found.value)}% (95% CI {digits(found.low)}–{digits(found.high)}%)"


def share_or_count(found: Estimate, users: int) -> str:
    """Format a share with its interval, or of fewer than 20 users as 3 of 12."""
    return with_ends(found) if users >= MIN_USERS else f"{round(found.value * users)} of {users}"


def _of_users(found: Estimate, users: int) -> str:
    """Format a share of users, of fewer than 20 as a count."""
    if users < MIN_USERS:
        return f"{round(found.value * users)} of {users} users"
    return f"{digits(found.value)}% of users"


def _interval(found: Estimate) -> str:
    return f"95% CI {digits(found.low)}–{digits(found.high)}%"


def digits(value: float) -> str:
    """Format a share as the number before the percent sign, to two digits: 0.55, 4.6, 97."""
    percentage = 100 * value
    return f"{percentage:.2g}" if percentage < 99.5 else f"{round(percentage, 1):g}"


def number(value: float) -> str:
    """Format a number with three digits."""
    return f"{value:.3g}"


def format_total_epsilon(epsilon: float) -> str:
    """Format a total ε with all digits before the point."""
    return f"{epsilon:,.0f}" if epsilon >= 100 else number(epsilon)


def _time(question: Question, scenario: Scenario) -> str:
    rate = scenario.devices.reports_per_day
    return "" if rate is None else f" ({in_days([question.horizon], rate)})"
