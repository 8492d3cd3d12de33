"""Write an advice on several collections as text: question, recommendation, reason, relaxations, notes, assumptions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from poolscope.core.counting import counted
from poolscope.game.collections import JointGame
from poolscope.metrics.text import users_in_words
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.advise.collection_plan import Plan, Relaxation
from poolscope.workflows.advise.collection_records import (
    AllocationStep,
    CollectionChoice,
    CollectionSetting,
    CollectionsQuestion,
    CollectionsRecommendation,
)
from poolscope.workflows.advise.search import MIN_PART, NO, UNDECIDED, YES, decidable
from poolscope.workflows.advise.text import LIMITS, decisive, number, share, share_or_count, some_of, with_ends


def question_text(question: CollectionsQuestion) -> str:
    """Return the question."""
    text = (
        f"Which ε and cap of each collection expose at most {share(question.max_exposed)} of users to all of them "
        f"together by {counted(question.horizon, 'day')} at a confidence of {share(question.threshold)}"
    )
    if question.max_errors:
        errors = some_of([f"{number(error)} for {name}" for name, error in question.max_errors.items()])
        text += (
            f", and estimate frequencies with an RMSE of at most {errors}, from one report of each of "
            f"{question.devices:,} devices"
        )
    return text + "?"


def answer_of(
    found: CollectionsRecommendation, choices: Sequence[CollectionChoice], question: CollectionsQuestion
) -> dict[str, str]:
    """Return the recommendation in five lines: settings, exposure, utility, costs, and what limits it."""
    settings = "; ".join(
        f"{one.collection}: {one.mechanism}, ε = {one.epsilon:g} per report, cap {counted(one.cap, 'report')} "
        f"({counted(one.days, 'day')})"
        for one in choices
    )
    if found.meets_targets == UNDECIDED:
        settings += " (undecided: the 95% CI contains the target)"
    by = min(question.horizon, found.last_day)
    exposure = (
        f"{share_or_count(found.exposed, found.users)} of users by {counted(by, 'day')}, jointly (target ≤ "
        f"{share(question.max_exposed)}; {counted(found.users, 'held-out user')})"
    )
    if found.last_day > by:
        exposure += f"; at the caps {share_or_count(found.exposed_at_cap, found.users)}"
    errors = "; ".join(f"{one.collection}: {_error(one)}" for one in choices)
    costs = "; ".join(f"{one.collection}: {points(one)} of users" for one in choices)
    return {
        "Closest" if found.meets_targets == NO else "Recommended": settings,
        "Exposure": exposure,
        "Utility": errors,
        "Cost": costs,
        "Limited by": LIMITS[found.limiting_constraint],
    }


def _error(one: CollectionChoice) -> str:
    target = "no target" if one.max_error is None else f"target ≤ {number(one.max_error)}"
    return f"RMSE {number(one.rmse)} from {one.reports:,} reports ({target})"


def points(one: CollectionChoice) -> str:
    """Return the cost of a collection in percentage points, as "+0.9 points (95% CI 0.7 to 1.1)"."""
    value, low, high = (round(100 * end, 2) + 0.0 for end in one.cost)
    return f"{value:+.2g} points (95% CI {low:.2g} to {high:.2g})"


def refusal_of(found: CollectionsRecommendation) -> str:
    """Return that no configuration meets the targets; an empty text where one does or may."""
    return "No configuration meets all targets." if found.meets_targets == NO else ""


def sentence_of(
    found: CollectionsRecommendation, choices: Sequence[CollectionChoice], question: CollectionsQuestion
) -> str:
    """Return the recommendation as lines of text."""
    lines = [f"{name}: {line}." for name, line in answer_of(found, choices, question).items()]
    return "\n".join([*filter(None, [refusal_of(found)]), *lines])


def settings_text(settings: Sequence[CollectionSetting]) -> str:
    """Return the settings of all collections in one line."""
    return ", ".join(f"{one.collection} ε {number(one.epsilon)} for {counted(one.days, 'day')}" for one in settings)


def reason_of(
    steps: Sequence[AllocationStep], choices: Sequence[CollectionChoice], question: CollectionsQuestion
) -> str:
    """Say what the exchange changed against equal shares, and which collection costs most."""
    what = "caps" if len({one.days for one in steps[-1].settings} | {question.horizon}) > 1 else "errors"
    if len(steps) == 1:
        text = f"Equal shares are the best that was found ({settings_text(steps[0].settings)})."
    else:
        mean = math.expm1(steps[-1].gain / len(choices))
        change = f"caps {share(mean)} longer" if what == "caps" else f"errors {share(1 - 1 / (1 + mean))} smaller"
        text = (
            f"From equal shares ({settings_text(steps[0].settings)}), {counted(len(steps) - 1, 'step')} led to "
            f"{settings_text(steps[-1].settings)}, with {change} on average."
        )
    if len(choices) == 1:
        return text
    most, *others = sorted(choices, key=lambda one: -one.cost.value)
    if all(most.cost.low > one.cost.high for one in others):
        text += f" {most.collection} costs most: without it, {with_ends(most.exposed_without)} of users are exposed."
    free = [one.collection for one in choices if one.cost.low <= 0 <= one.cost.high]
    if free:
        verb = "costs" if len(free) == 1 else "cost"
        text += f" {some_of(free)} {verb} no exposure that can be distinguished from zero."
    return text


def relaxations_of(
    plan: Plan, relaxation: Relaxation | None, choices: Sequence[CollectionChoice], question: CollectionsQuestion
) -> Iterator[str]:
    """Yield, where the targets contradict each other, by how much each would have to be relaxed."""
    if plan.feasible:
        return
    yield (
        f"The smallest ε that meet the error targets expose {with_ends(plan.floor.exposed)} of users by "
        f"{counted(question.horizon, 'day')} (target {share(question.max_exposed)})"
    )
    days = some_of([f"{counted(one.days, 'day')} for {one.collection}" for one in choices])
    yield f"The targets are met with caps of {days} (horizon {question.horizon:,})"
    if relaxation is not None:
        errors = some_of([f"{number(relaxation.factor * e)} for {name}" for name, e in question.max_errors.items()])
        yield f"The targets are met with an RMSE of {errors}, {number(relaxation.factor)} times the targets"
        if math.isfinite(relaxation.devices):
            yield f"The targets are met with {relaxation.devices:,.0f} devices (now {question.devices:,})"
    for name, exposed in plan.without.items():
        verb = "is met" if exposed.value <= question.max_exposed else "is missed"
        yield f"Without {name}, the exposure target {verb}: {with_ends(exposed)}"


def notes_of(
    found: CollectionsRecommendation,
    choices: Sequence[CollectionChoice],
    question: CollectionsQuestion,
    limit: str | None,
) -> Iterator[str]:
    """Yield further notes; `limit` is what keeps the common factor of all levels from being larger."""
    first, last = found.attempts[0], found.attempts[-1]
    if len(found.attempts) > 1:
        seen = (
            "showed that the first allocation could be larger"
            if first.meets_targets == YES
            else "did not confirm the first allocation"
        )
        yield (
            f"Held-out users {seen}: {settings_text(first.settings)} exposed {with_ends(first.exposed)} of them. "
            f"It was refined {counted(len(found.attempts) - 1, 'time')}; each attempt was verified by other users."
        )
    if last.meets_targets == NO:
        yield "Held-out users contradict the last attempt too: use smaller caps or ε, and run `advise` again."
    lacking = [one.collection for one in choices if one.max_error is None]
    if lacking:
        yield f"Without an error target nothing bounds the ε of {some_of(lacking)} from below: give `max_error`."
    if last.meets_targets == UNDECIDED:
        yield (
            f"The 95% CI of the verified share contains the target: {found.users:,} users cannot decide. "
            f"{decisive(question.max_exposed)}"
        )
    if found.exposed_at_cap.value < MIN_PART * question.max_exposed:
        exposed, allowed = share(found.exposed_at_cap.value), share(question.max_exposed)
        part = f"It exposes {exposed} of users, where {allowed} are allowed: "
        if all(one.limiting_constraint == "range" for one in choices):
            yield f"{part}every ε is the largest of the range, {question.highest:g}."
        elif limit == "range":
            yield f"{part}no trial goes beyond {counted(found.last_day, 'day')}, and error targets need no larger ε."
        elif limit == "jump":
            yield f"{part}the next larger allocation exposes more than that."
        elif not decidable(question.max_exposed, found.users):
            yield f"{part}{found.users:,} users cannot determine how much more may be. {decisive(question.max_exposed)}"
        else:
            yield f"{part}the users of the search do not show that more may be."
    if len(choices) > 1:
        yield (
            "Costs do not add up to the exposure: users whom two collections expose on their own count for neither, "
            "and users whom only both expose count for both."
        )


def assumptions_of(question: CollectionsQuestion, scenario: Scenario, game: JointGame) -> Iterator[str]:
    """Yield the assumptions of the answer; the game is the verified one."""
    phrase, users = game.adversaries[0].phrase, users_in_words(game.collections[0].game)
    yield f"The adversary is {question.adversary}: {phrase}. It knows the mechanisms, the pools and the links."
    yield f"{users[:1].upper()}{users[1:]}."
    yield (
        f"A user is exposed once the adversary's confidence in some value of {game.attribute} has reached the "
        "threshold, whether the guess is correct or not."
    )
    yield "In each collection, the preferred pool depends on the attribute by the link, which is an assumption."
    yield "All reports of a person can be linked, within a collection and between collections."
    yield "The error of a collection is that of one report of each device, averaged over all objects."
    yield "Utility is the sum over collections of the log of the error, or of the cap where error targets set every ε."
    if scenario.memoizes:
        yield "Attacks on memoized responses are computed on some days only, and exposure is observed there."
