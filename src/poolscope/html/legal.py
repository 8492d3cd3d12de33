"""The first section of an advice: two printed sides for the person who must answer for the decision."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from poolscope.core.counting import MIN_USERS, counted
from poolscope.metrics.bounds import in_days
from poolscope.metrics.intervals import Estimate
from poolscope.metrics.usefulness import describe_usefulness
from poolscope.population.universe import Universe
from poolscope.workflows.advise.records import Advice, Case
from poolscope.workflows.advise.search import NO, UNDECIDED, YES
from poolscope.workflows.advise.text import (
    digits,
    events,
    format_total_epsilon,
    number,
    share,
    share_or_count,
    some_of,
    with_ends,
)

#: Options that are listed at most as alternatives; the appendix has all.
MAX_ALTERNATIVES = 5

#: Pools that are listed at most with their sizes.
MAX_POOLS = 8

VERDICTS = {
    YES: "The recommended configuration meets the targets.",
    NO: "No configuration meets the targets. The numbers below are of the closest one.",
    UNDECIDED: "The number of simulated users is too small to decide whether the targets are met.",
}

NOT_COVERED = (
    "Other pools: groups that the scenario does not name, and interests inside a pool.",
    "Other collections: reports about the same person from another feature, product or company add to these.",
    "Re-identification: network addresses, accounts, timing and device data can name the sender of reports.",
    "Implementation: faults of the client, its random numbers or its caps. Test the client with poolscope check.",
    "Other adversaries: one who knows more than is stated here may do better than these numbers.",
)


class Fact(NamedTuple):
    """A number of the first section: what it is, the number, its interval, and what to compare it with."""

    what: str
    value: str
    interval: str
    note: str


def legal_of(advice: Advice) -> dict[str, Any]:
    """Return the first section for the template."""
    return {
        "verdict": VERDICTS[advice.recommendation.meets_targets],
        "collected": list(_collected(advice)),
        "exposed": exposed_in_a_sentence(advice),
        "adversary": list(_adversary(advice)),
        "facts": list(_facts(advice)),
        "worst": list(_worst(advice)),
        "not_covered": NOT_COVERED,
        "alternatives": list(_alternatives(advice)),
        "reproduce": list(_reproduce(advice)),
    }


def exposed_in_a_sentence(advice: Advice) -> str:
    """Return what "exposed" means, with the numbers of the question."""
    question = advice.question
    rate = advice.scenario.devices.reports_per_day
    days = "" if rate is None else f" ({in_days([question.horizon], rate)})"
    return (
        f"A user is exposed if, at any time within {question.horizon:,} {events(advice.scenario)}{days}, the "
        f"adversary's confidence that the user prefers one particular pool has reached {share(question.threshold)}, "
        "whether that guess is correct or not."
    )


def _collected(advice: Advice) -> Iterator[str]:
    universe, devices, found = advice.scenario.universe(), advice.recommended.devices, advice.recommendation
    each = "each event" if devices.sampling_rate == 1 else f"{share(devices.sampling_rate)} of events, chosen at random"
    rate = "" if devices.reports_per_day is None else f", {devices.reports_per_day:g} per day"
    yield (
        f"An event is one of {universe.size:,} objects that a user picks{rate}. The device reports {each}. It "
        f"randomizes every report itself ({found.name}, ε = {found.epsilon:g}); the true object never leaves it."
    )
    limit = f"A device sends at most {counted(devices.cap or found.cap, 'report')}"
    linked = (
        f"its pseudonym changes after {counted(devices.rotate_after, 'report')}"
        if devices.rotate_after
        else "all of its reports can be linked to each other"
    )
    memory = " It stores its randomized responses and repeats them." if advice.recommended.memoizes else ""
    yield f"{limit}; {linked}.{memory}"
    yield f"Sensitive groups of objects (pools): {_pools(universe)}."


def _pools(universe: Universe) -> str:
    sizes = zip(universe.pool_names, universe.pool_sizes, strict=True)
    listed = [f"{name} ({counted(int(size), 'object')})" for name, size in sizes]
    more = len(listed) - MAX_POOLS
    return ", ".join(listed[:MAX_POOLS]) + (f" and {counted(more, 'more pool')}" if more > 0 else "")


def _adversary(advice: Advice) -> Iterator[str]:
    sender = "pseudonym" if advice.recommended.devices.rotate_after else "device"
    yield (
        f"{advice.question.adversary}: someone who holds all reports of a {sender}, knows the mechanism, ε and the "
        f"pools, and makes an assumption on how popular objects are ({advice.adversary})."
    )
    yield advice.assumptions[1]


def _facts(advice: Advice) -> Iterator[Fact]:
    found, question, unit = advice.recommendation, advice.question, events(advice.scenario)
    by = min(question.horizon, found.cap)
    target = f"target: at most {share(question.max_exposed)}"
    held_out = f"{found.users:,} held-out users"
    yield Fact(f"Users exposed by {by:,} {unit}", *_with_ends(found.exposed, found.users), f"{target}; {held_out}")
    if found.cap > by:
        yield Fact(
            f"Users exposed by the cap, {found.cap:,} {unit}", *_with_ends(found.exposed_at_cap, found.users), ""
        )
    yield Fact(
        "Users whose pool is guessed correctly, by the cap",
        *_with_ends(found.precision, found.users),
        f"at random: {digits(found.baseline)}%; bound for any adversary: {digits(found.success_bound)}%",
    )
    spent = found.cumulative_epsilon
    sums = {"per day": spent.day, "per year": spent.year, "in total": spent.total, "per response": spent.response}
    known = [f"{format_total_epsilon(value)} {when}" for when, value in sums.items() if value is not None]
    yield Fact("ε per report", number(found.epsilon), "", ", ".join(known))
    if found.errors is not None:
        goal = "no target" if question.max_error is None else f"target: at most {number(question.max_error)}"
        yield Fact(f"RMSE of a frequency, {found.reports:,} reports", number(found.errors.rmse), "", goal)


def _with_ends(found: Estimate, users: int) -> tuple[str, str]:
    """Return a share and its interval; of fewer than 20 users a count."""
    if users < MIN_USERS:
        return share_or_count(found, users), f"{digits(found.low)}–{digits(found.high)}%"
    return f"{digits(found.value)}%", f"{digits(found.low)}–{digits(found.high)}%"


def _worst(advice: Advice) -> Iterator[str]:
    """Yield the users who bear the most exposure: heavy users, the smallest pool, and the worst pool and assumption."""
    found, unit, horizon = advice.recommendation, events(advice.scenario), advice.question.horizon
    heavy = [case for case in advice.sensitivity if case.about == "behavior" and case.variant.startswith("heavy")]
    for case in heavy:
        yield f"Users with {_group(case)}: {share_or_count(case.exposed, case.users)} exposed by {horizon:,} {unit}."
    sizes = dict(zip(advice.scenario.universe().pool_names, advice.scenario.universe().pool_sizes, strict=True))
    named = [one for one in found.by_pool if one.pool in sizes]
    smallest = min(named, key=lambda one: sizes[one.pool], default=None)
    most = max(named, key=lambda one: one.exposed.value, default=None)
    for what, pool in (("the smallest pool", smallest), ("the most exposed pool", most)):
        if pool is not None:
            text = share_or_count(pool.exposed, pool.users)
            yield f"Users who prefer {what}, {pool.pool}: {text} exposed by the cap, {found.cap:,} {unit}."
    others = [case for case in advice.sensitivity if case.about not in ("all", "behavior")]
    if others:
        worst = max(others, key=lambda case: case.exposed.value)
        about = f"{worst.about}: {worst.variant}"
        yield f"Worst other assumption ({about}): {share_or_count(worst.exposed, worst.users)} exposed."


def _group(case: Case) -> str:
    """Return a group of users in plain words."""
    if "polarized" in case.variant:
        return "much interest in the pools, most of it in one"
    return "much interest in the pools (above two thirds of their events)"


def _alternatives(advice: Advice) -> Iterator[tuple[str, str]]:
    """Yield the options that were not taken, each with the reason; then those that were refused unplayed."""
    others = [option for option in advice.options if not option.recommended]
    for option in others[:MAX_ALTERNATIVES]:
        head = f"{option.name}, ε = {number(option.epsilon)}, {with_ends(option.exposed)} exposed"
        equal = "Equally good by the preference, up to sampling error. " if option.equally_good else ""
        missed = "Misses a target. " if option.meets_targets == NO else ""
        yield head, f"{missed}{equal}{option.price}"
    if (more := len(others) - MAX_ALTERNATIVES) > 0:
        yield counted(more, "more option"), "See the table of options in the appendix."
    if refused := [finding.name for finding in advice.findings if not finding.trials]:
        target = advice.question.max_error
        reason = "No ε of the range meets the error target" + ("." if target is None else f" of {number(target)}.")
        yield some_of(refused), reason


def _reproduce(advice: Advice) -> Iterator[str]:
    outcomes = advice.provenance.outcomes if advice.provenance else None
    checksum = f", checksum of all outcomes {outcomes[:16]}" if outcomes else ""
    yield f"poolscope {advice.version}, seed {advice.seed}{checksum}. The scenario is under Provenance."
    yield "poolscope rerun FOLDER repeats this advice. poolscope audit recommended.toml plays the recommendation."


def useful_in_words(advice: Advice) -> str:
    """Return what can be seen in the frequencies; an empty text where that is unknown."""
    return "" if advice.usefulness is None else describe_usefulness(advice.usefulness)
