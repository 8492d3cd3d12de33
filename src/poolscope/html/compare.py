"""A comparison as sentences and as one self-contained HTML report."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from poolscope.core.counting import counted
from poolscope.core.files import located_os_errors
from poolscope.core.tables.atomic import write_text
from poolscope.figures.charts import ZOOM
from poolscope.figures.compare import pareto_front
from poolscope.figures.saving import Figure
from poolscope.html.glossary import COMPARISON, explained
from poolscope.html.render import options, origin, placed, render, tied
from poolscope.html.tables import Column, bits, count, decimal, error, log_odds, share, table
from poolscope.inference.levels import in_percent
from poolscope.metrics.bounds import in_days
from poolscope.metrics.text import chance_in_words, number, of_users, percent
from poolscope.workflows.compare import Comparison, Configuration

WIDEST_GAP = math.log(16.0)
"""Log of the ratio of two mean squared errors between which an AUC is read off: a factor of 4 of the errors."""


def summary_text(comparison: Comparison) -> str:
    """One or two sentences: the range of what is given away, and who gives away least at equal error."""
    worst = max(comparison.results, key=lambda record: record.auc_pn.value).adversary
    mine = [record for record in comparison.results if record.adversary == worst]
    least, most = (pick(mine, key=lambda record: record.auc_pn.value) for pick in (min, max))
    words = (
        f"After {counted(comparison.n, 'report')}, the {worst} adversary is right for "
        f"{of_users(least.precision.value, least.users, 'of the users')} under {choice(least)}"
    )
    several = len(mine) > 1
    if several:
        words += f" and for {of_users(most.precision.value, most.users)} under {choice(most)}"
    words += f"; a random guess is right for {percent(least.baseline)}."
    if least.threshold is not None and least.confident_at_threshold and most.confident_at_threshold:
        words += (
            f" It is at least {in_percent(least.threshold)} sure of "
            f"{of_users(least.confident_at_threshold.value, least.users, 'of them')} under {choice(least)}"
        )
        words += (
            f" and of {of_users(most.confident_at_threshold.value, most.users)} under {choice(most)}."
            if several
            else "."
        )
    equal = at_equal_error(mine)
    if equal is None:
        return words
    rmse, aucs = equal
    (low, min_auc), *_, (high, max_auc) = sorted(aucs.items(), key=lambda item: item[1])
    return (
        f"{words} Where the frequencies have the same error (RMSE {rmse:.2g}), {low} gives away least (AUC "
        f"{min_auc:.2f}) and {high} most ({max_auc:.2f})."
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


def at_equal_error(records: Sequence[Configuration]) -> tuple[float, dict[str, float]] | None:
    """An error that most mechanisms reach, and the AUC of each there, between its epsilons.

    Of the errors that were measured the one that the most mechanisms have on both sides, and of those the one at which
    their AUCs differ most. None where no two mechanisms share one. The AUC is linear in the logarithm of the error
    between two epsilons, where their errors are not too far apart to say.
    """
    lines = {}
    for name in dict.fromkeys(record.mechanism for record in records):
        mine = sorted((r.mse, r.auc_pn.value) for r in records if r.mechanism == name and r.mse)
        if len(mine) > 1:
            lines[name] = np.log([mse for mse, _ in mine]), [auc_pn for _, auc_pn in mine]
    best: tuple[float, dict[str, float]] | None = None
    for at in sorted({float(at) for errors, _ in lines.values() for at in errors}):
        aucs = {name: float(np.interp(at, *line)) for name, line in lines.items() if _reaches(line[0], at)}
        if len(aucs) > 1 and (best is None or _notify(aucs) > _notify(best[1])):
            best = math.exp(at / 2), aucs
    return best


def _reaches(errors: np.ndarray, at: float) -> bool:
    """Whether rising errors have one at or near both sides of a given one."""
    after = int(np.searchsorted(errors, at))
    if after == len(errors):
        return False
    return bool(errors[after] == at or (after > 0 and errors[after] - errors[after - 1] <= WIDEST_GAP))


def _notify(aucs: Mapping[str, float]) -> tuple[int, float]:
    return len(aucs), max(aucs.values()) - min(aucs.values())


def choice(record: Configuration) -> str:
    """A mechanism and its epsilon."""
    return f"{record.mechanism} at epsilon {number(record.epsilon)}"


SUCCESS = (
    Column("auc_pn", "", "AUC", decimal),
    Column("precision", "% of users", "guessed rightly", share),
    Column("success_bound", "% of users", "at most", share),
)

LEAKAGE = (
    Column("reports_to_1pct", "Reports to expose", "1 %", count),
    Column("reports_to_5pct", "Reports to expose", "5 %", count),
    Column("reports_to_10pct", "Reports to expose", "10 %", count),
    Column("reports_to_50pct", "Reports to expose", "half", count),
    Column("bayes_risk_ratio", "Bayes security", "at the prior", decimal),
    Column("bayes_security", "Bayes security", "least", decimal),
    Column("min_entropy_leakage", "Leakage", "bits", bits),
    Column("log_odds_gain_p99", "Log odds", "gained", log_odds),
    Column("composition_bound", "Log odds", "bound", number),
)

ERRORS = (
    Column("rmse", "Root mean squared error", "measured", error),
    Column("rmse_analytical", "Root mean squared error", "closed form", error),
    Column("mse", "Mean squared error", "measured", error),
    Column("mse_analytical", "Mean squared error", "closed form", error),
    Column("mae", "Mean absolute error", "measured", error),
    Column("mae_analytical", "Mean absolute error", "closed form", error),
)

BY_MECHANISM: dict[str, Any] = {"block": ("mechanism", "Mechanism"), "row": ("epsilon", "ε"), "form": number}

TITLE = "What each choice gives away against the error of its frequencies"

CAPTION = (
    "Every point is a choice of mechanism and ε, which stands beside it where there is room: to the left the curator "
    "errs less, downwards the adversary learns less, so the lower left is best. Bars are 95 % intervals of the AUC."
)


def write_page(comparison: Comparison, out: Path) -> Path:
    """Write ``comparison.html`` into the comparison's folder; returns the page."""
    html, page = page_of(comparison), out / "comparison.html"
    with located_os_errors(page):
        write_text(page, html)
    return page


def pictures(comparison: Comparison) -> list[Figure]:
    """The frontier."""
    shown = comparison.results, comparison.non_private, comparison.estimate_from
    caption = f"{CAPTION} {reservation(comparison)}".strip()
    return [Figure(name="pareto-front", title=TITLE, caption=f"{caption} {ZOOM}", chart=pareto_front(*shown))]


def page_of(comparison: Comparison) -> str:
    """The page as HTML; every name is escaped."""
    names = list(dict.fromkeys(record.adversary for record in comparison.results))
    by_name = {name: [record for record in comparison.results if record.adversary == name] for name in names}
    return render(
        "comparison.html.j2",
        title=comparison.scenario.title.strip() or comparison.scenario.name,
        words=tied(summary_text(comparison)),
        facts=_facts(comparison),
        figures=placed(pictures(comparison)),
        note=tied(
            f"{'; '.join(comparison.devices)}. After {counted(comparison.n, 'report')} of each user. Reports to expose "
            f"are at {in_percent(comparison.results[0].exposed_at)} confidence. Below each value its 95 % interval; a "
            f"star marks the choices on the frontier. {reservation(comparison)} "
            f"{chance_in_words(comparison.results)} The words are explained under the tables."
        ),
        tables=[_given_away(name, comparison.adversaries.get(name, ""), records) for name, records in by_name.items()],
        utility=_utility(comparison, by_name[names[0]]),
        glossary=explained(COMPARISON),
        origin=_origin(comparison),
        scenario=comparison.scenario.text,
        version=comparison.version,
    )


def _facts(comparison: Comparison) -> list[str]:
    pools, rate = round(1 / comparison.results[0].baseline), comparison.scenario.devices.reports_per_day
    return [
        f"{counted(comparison.users, 'user')}, the same for every choice",
        f"{counted(comparison.n, 'report')} each" + (f", {in_days([comparison.n], rate)}" if rate else ""),
        f"{pools} pools",
        f"frequencies from {counted(comparison.estimate_from, 'report')}",
        *map(tied, comparison.devices),
    ]


def _given_away(name: str, phrase: str, records: Sequence[Configuration]) -> dict[str, Any]:
    label = f"The {name} adversary" + (f": {phrase}" if phrase else "")
    return table(label, records, _columns(records[0]), **BY_MECHANISM, best="pareto_optimal")


def _columns(record: Configuration) -> list[Column]:
    """The columns of what is given away, with the confidence that was asked for."""
    sure, exposed = (in_percent(level) for level in (record.confident_at, record.exposed_at))
    return [
        *SUCCESS,
        Column("confident", "% of users", f"sure, {sure}", share),
        Column("exposed_share", "% of users", f"exposed, {exposed}", share),
        *LEAKAGE,
    ]


def _utility(comparison: Comparison, records: Sequence[Configuration]) -> dict[str, Any]:
    note = (
        f"Errors of the frequencies that {counted(comparison.estimate_from, 'report')} give, averaged over all objects."
    )
    return {"note": note, "table": table("Errors of the frequency estimate", records, ERRORS, **BY_MECHANISM)}


def _origin(comparison: Comparison) -> list[tuple[str, str]]:
    kinds = shlex.quote(",".join(comparison.mechanisms))
    epsilons = ",".join(dict.fromkeys(f"{record.epsilon:g}" for record in comparison.results))
    command = (
        f"poolscope compare {shlex.quote(comparison.scenario.file)} --mechanism {kinds} --epsilon {epsilons} "
        f"--users {comparison.users} --reports {comparison.estimate_from} --seed {comparison.seed}"
    )
    command += options(comparison.scenario.asked)
    return origin(
        command, seed=comparison.seed, users=comparison.users, version=comparison.version, seconds=comparison.seconds
    )
