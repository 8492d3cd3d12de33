"""A comparison in plain words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from poolscope.core.counting import counted
from poolscope.html.numbers import number
from poolscope.inference.adversary import in_percent
from poolscope.metrics.text import of_users, percent
from poolscope.workflows.compare import Choice, Comparison

WIDEST_GAP = math.log(16.0)
"""Log of the ratio of two mean squared errors between which an AUC is read off: a factor of 4 of the errors."""


def in_plain_words(comparison: Comparison) -> str:
    """One or two sentences: the range of what is given away, and who gives away least at equal error."""
    worst = max(comparison.results, key=lambda record: record.auc.value).adversary
    mine = [record for record in comparison.results if record.adversary == worst]
    least, most = (pick(mine, key=lambda record: record.auc.value) for pick in (min, max))
    words = (
        f"After {counted(comparison.n, 'report')}, the {worst} adversary is right for "
        f"{of_users(least.precision.value, least.users, 'of the users')} under {choice(least)}"
    )
    several = len(mine) > 1
    if several:
        words += f" and for {of_users(most.precision.value, most.users)} under {choice(most)}"
    words += f"; a random guess is right for {percent(least.baseline)}."
    if least.threshold is not None and least.sure and most.sure:
        words += (
            f" It is at least {in_percent(least.threshold)} sure of "
            f"{of_users(least.sure.value, least.users, 'of them')} under {choice(least)}"
        )
        words += f" and of {of_users(most.sure.value, most.users)} under {choice(most)}." if several else "."
    equal = at_equal_error(mine)
    if equal is None:
        return words
    rmse, aucs = equal
    (low, least_auc), *_, (high, most_auc) = sorted(aucs.items(), key=lambda item: item[1])
    return (
        f"{words} Where the frequencies have the same error (RMSE {rmse:.2g}), {low} gives away least (AUC "
        f"{least_auc:.2f}) and {high} most ({most_auc:.2f})."
    )


def reservation(comparison: Comparison) -> str:
    """Whether the intervals hold what adversaries have estimated; nothing where none has."""
    names = [entry.name for entry in comparison.scenario.adversaries if entry.popularity == "estimated"]
    if not names:
        return ""
    who = f"{names[0]} estimates" if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]} estimate"
    attack = comparison.scenario.attack
    if attack is not None and attack.estimates > 1:
        return f"Intervals include the spread of the popularity that {who}: {attack.estimates} estimates were drawn."
    return f"Intervals are given the popularity that {who} once for each choice."


def at_equal_error(records: Sequence[Choice]) -> tuple[float, dict[str, float]] | None:
    """An error that most mechanisms reach, and the AUC of each there, between its epsilons.

    Of the errors that were measured the one that the most mechanisms have on both sides, and of those the one at which
    their AUCs differ most. None where no two mechanisms share one. The AUC is linear in the logarithm of the error
    between two epsilons, where their errors are not too far apart to say.
    """
    lines = {}
    for name in dict.fromkeys(record.mechanism for record in records):
        mine = sorted((r.mse, r.auc.value) for r in records if r.mechanism == name and r.mse)
        if len(mine) > 1:
            lines[name] = np.log([mse for mse, _ in mine]), [auc for _, auc in mine]
    best: tuple[float, dict[str, float]] | None = None
    for at in sorted({float(at) for errors, _ in lines.values() for at in errors}):
        aucs = {name: float(np.interp(at, *line)) for name, line in lines.items() if _reaches(line[0], at)}
        if len(aucs) > 1 and (best is None or _told(aucs) > _told(best[1])):
            best = math.exp(at / 2), aucs
    return best


def _reaches(errors: np.ndarray, at: float) -> bool:
    """Whether rising errors have one at or near both sides of a given one."""
    after = int(np.searchsorted(errors, at))
    if after == len(errors):
        return False
    return bool(errors[after] == at or (after > 0 and errors[after] - errors[after - 1] <= WIDEST_GAP))


def _told(aucs: Mapping[str, float]) -> tuple[int, float]:
    return len(aucs), max(aucs.values()) - min(aucs.values())


def choice(record: Choice) -> str:
    """A mechanism and its epsilon."""
    return f"{record.mechanism} at epsilon {number(record.epsilon)}"
