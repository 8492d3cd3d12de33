"""How a comparison's numbers are written, in a terminal and on a page, and what its words mean."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from poolscope.metrics.leakage import SMALLEST_DOUBT
from poolscope.metrics.records import percent
from poolscope.verbs.compare import Comparison

Record = Mapping[str, Any]

WIDEST_GAP = math.log(16.0)
"""Log of the ratio of two mean squared errors between which an AUC is read off: a factor of 4 of the errors."""

GLOSSARY = (
    (
        "Mechanism, ε",
        "What a device does to an object before it leaves, and the epsilon that bounds what one single report reveals.",
    ),
    (
        "AUC",
        "The area under the curve of precision against null rate: the adversary’s precision averaged over all "
        "thresholds. A random guess has 1 divided by the number of pools; 1 is an attack that never errs.",
    ),
    (
        "★, frontier",
        "No other choice has both a smaller error and a smaller AUC. The frontier is of what was measured: where "
        "intervals overlap, another draw of users may see a neighbour on it.",
    ),
    (
        "Exposed, reports",
        "A user is exposed once the adversary’s confidence has reached 90 %. Reports are how many that takes for half "
        "of the users; a dash means that more than half are never exposed.",
    ),
    (
        "Bayes security",
        "The adversary’s error rate with reports over that of the best guess without any: 1 is no leakage, 0 an "
        "adversary who never errs.",
    ),
    (
        "Min-entropy leakage",
        "The bits by which reports improve the guess: the binary logarithm of precision over the success of the best "
        "guess without reports.",
    ),
    (
        "Log odds, bound",
        "What the reports added to the log odds of a user’s true pool, for the user at the 99 % quantile, beside n ε, "
        "the most that composition allows. The gap is what the bound overstates for this attack.",
    ),
    (
        "Mean squared and absolute error",
        "Of the estimated frequencies of all objects, measured on simulated reports and in closed form from the "
        "mechanism’s p* and q*. With few hash functions what is measured lies above the closed form.",
    ),
    (
        "Interval",
        "Small grey numbers are 95 % intervals: what another group of as many users could have shown. All choices are "
        "played by the same users, so differences between choices are surer than the intervals suggest. An adversary "
        "who has estimated what is popular has done so once for each choice: another seed gives it another estimate, "
        "which the intervals do not cover.",
    ),
)
"""Terms and their meaning."""


def in_plain_words(comparison: Comparison) -> str:
    """One or two sentences: the range of what is given away, and who gives away least at equal error."""
    worst = max(comparison.results, key=lambda record: record["auc"])["adversary"]
    mine = [record for record in comparison.results if record["adversary"] == worst]
    least, most = (pick(mine, key=lambda record: record["auc"]) for pick in (min, max))
    words = (
        f"After {comparison.n:,} reports, the {worst} adversary is right for {percent(least['precision'])} of the "
        f"users under {choice(least)} and for {percent(most['precision'])} under {choice(most)}; "
        f"a random guess is right for {percent(least['baseline'])}."
    )
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
    """What the intervals leave out, where they leave something out: the one estimate that an adversary works with."""
    names = [entry.name for entry in comparison.scenario.adversaries if entry.popularity == "estimated"]
    if not names:
        return ""
    who = f"{names[0]} works" if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]} work"
    return f"Intervals are over users; the popularity that {who} with is one estimate for each choice."


def at_equal_error(records: Sequence[Record]) -> tuple[float, dict[str, float]] | None:
    """An error that most mechanisms reach, and the AUC of each there, between its epsilons.

    Of the errors that were measured the one that the most mechanisms have on both sides, and of those the one at which
    their AUCs differ most. None where no two mechanisms share one. The AUC is linear in the logarithm of the error
    between two epsilons, where their errors are not too far apart to say.
    """
    lines = {}
    for name in dict.fromkeys(record["mechanism"] for record in records):
        mine = sorted((r["mse"], r["auc"]) for r in records if r["mechanism"] == name and r["mse"])
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


def choice(record: Record) -> str:
    """A mechanism and its epsilon."""
    return f"{record['mechanism']} at epsilon {number(record['epsilon'])}"


def number(value: float) -> str:
    """A plain number; infinity as its sign."""
    return "∞" if math.isinf(value) else f"{value:g}"


def count(value: float) -> str:
    """A number of reports; a dash for never."""
    return "–" if math.isinf(value) else f"{value:.0f}"


def bits(value: float) -> str:
    """Bits, to two decimals."""
    return "–" if not math.isfinite(value) else f"{value:.2f}"


def log_odds(value: float) -> str:
    """Evidence; what double precision cannot tell from certainty is a lower bound."""
    return f"≥ {value:.1f}" if value >= -math.log(SMALLEST_DOUBT) else f"{value:.1f}"


def error(value: float | None) -> str:
    """An error, always with its power of ten; a dash where there is no estimate."""
    return "–" if value is None else f"{value:.2e}"
