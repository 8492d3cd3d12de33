"""Summarize a comparison, and render it as one self-contained HTML report."""

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
from poolscope.html.render import options, origin, placed, render
from poolscope.html.tables import Column, bits, count, decimal, error, log_odds, share, table
from poolscope.inference.thresholds import in_percent
from poolscope.metrics.bounds import in_days
from poolscope.metrics.text import mcse_text, number, of_users, percent, unit_of
from poolscope.workflows.compare import Comparison, Configuration

WIDEST_GAP = math.log(16.0)
"""Largest log ratio of two mean squared errors between which AUC-PN is interpolated: a factor of 4 in RMSE."""


def summary_text(comparison: Comparison) -> str:
    """Return two sentences: the range of the strongest adversary's success, and the best mechanism at equal RMSE."""
    worst = max(comparison.results, key=lambda record: record.auc_pn.value).adversary
    mine = [record for record in comparison.results if record.adversary == worst]
    least, most = (pick(mine, key=lambda record: record.auc_pn.value) for pick in (min, max))
    several = len(mine) > 1
    text = (
        f"After {counted(comparison.n, unit_of(comparison.scenario.devices))}, the {worst} adversary is correct for "
        f"{of_users(least.precision.value, least.users, 'of the users')} with {configuration(least)}"
    )
    text += f" and for {of_users(most.precision.value, most.users)} with {configuration(most)}" if several else ""
    text += f" (random: {percent(least.baseline)})."
    if least.threshold is not None and least.confident_at_threshold and most.confident_at_threshold:
        text += (
            f" It is at least {in_percent(least.threshold)} confident about "
            f"{of_users(least.confident_at_threshold.value, least.users, 'of them')} with {configuration(least)}"
        )
        upper = of_users(most.confident_at_threshold.value, most.users)
        text += f" and about {upper} with {configuration(most)}." if several else "."
    equal = at_equal_error(mine)
    if equal is None:
        return text
    rmse, aucs = equal
    (low, min_auc), *_, (high, max_auc) = sorted(aucs.items(), key=lambda item: item[1])
    lowest, highest = f"{low} ({min_auc:.2f})", f"{high} ({max_auc:.2f})"
    return f"{text} At equal RMSE ({rmse:.2g}), AUC-PN is lowest for {lowest} and highest for {highest}."


def interval_note(comparison: Comparison) -> str:
    """Return whether the intervals cover the adversaries' estimates of the popularity; empty where none estimates."""
    names = [entry.name for entry in comparison.scenario.adversaries if entry.popularity == "estimated"]
    if not names:
        return ""
    who = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    attack = comparison.scenario.attack
    if attack is not None and attack.estimates > 1:
        return f"Intervals include the variation of the popularity estimate of {who} ({attack.estimates} estimates)."
    return f"Intervals are conditional on one popularity estimate of {who} for each configuration."


def at_equal_error(records: Sequence[Configuration]) -> tuple[float, dict[str, float]] | None:
    """Return an RMSE that several mechanisms reach, and the interpolated AUC-PN of each at it; None if there is none.

    Of the empirical errors, take the one that the largest number of mechanisms has on both sides; of those, the one
    with the widest range of AUC-PN. Interpolate linearly in the logarithm of the error, unless two neighboring errors
    are more than `WIDEST_GAP` apart.
    """
    lines = {}
    for name in dict.fromkeys(record.mechanism for record in records):
        mine = sorted((r.mse, r.auc_pn.value) for r in records if r.mechanism == name and r.mse)
        if len(mine) > 1:
            lines[name] = np.log([mse for mse, _ in mine]), [auc_pn for _, auc_pn in mine]
    best: tuple[float, dict[str, float]] | None = None
    for at in sorted({float(at) for errors, _ in lines.values() for at in errors}):
        aucs = {name: float(np.interp(at, *line)) for name, line in lines.items() if _reaches(line[0], at)}
        if len(aucs) > 1 and (best is None or _spread(aucs) > _spread(best[1])):
            best = math.exp(at / 2), aucs
    return best


def _reaches(errors: np.ndarray, at: float) -> bool:
    """Return whether sorted errors contain one close to both sides of a given one."""
    after = int(np.searchsorted(errors, at))
    if after == len(errors):
        return False
    return bool(errors[after] == at or (after > 0 and errors[after] - errors[after - 1] <= WIDEST_GAP))


def _spread(aucs: Mapping[str, float]) -> tuple[int, float]:
    return len(aucs), max(aucs.values()) - min(aucs.values())


def configuration(record: Configuration) -> str:
    """Return a mechanism and its ε."""
    return f"{record.mechanism} at ε = {number(record.epsilon)}"


def _whole(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _percent(value: float | None) -> str:
    return "–" if value is None else share(value)


SUCCESS = (
    Column("auc_pn", "", "AUC-PN", decimal),
    Column("precision", "% of users", "correct", share),
    Column("success_bound", "% of users", "bound", share),
)

LEAKAGE = (
    Column("reports_to_1pct", "n until exposed, share of users", "1%", count),
    Column("reports_to_5pct", "n until exposed, share of users", "5%", count),
    Column("reports_to_10pct", "n until exposed, share of users", "10%", count),
    Column("reports_to_50pct", "n until exposed, share of users", "50%", count),
    Column("bayes_risk_ratio", "", "Bayes risk ratio", decimal),
    Column("bayes_security", "", "Bayes security", decimal),
    Column("min_entropy_leakage", "", "min-entropy leakage, bits", bits),
    Column("log_odds_gain_p99", "Log odds (99% quantile)", "gain", log_odds),
    Column("composition_bound", "Log odds (99% quantile)", "bound", number),
)

ERRORS = (
    Column("rmse", "Root mean squared error", "empirical", error),
    Column("rmse_analytical", "Root mean squared error", "analytical", error),
    Column("mse", "Mean squared error", "empirical", error),
    Column("mse_analytical", "Mean squared error", "analytical", error),
    Column("mae", "Mean absolute error", "empirical", error),
    Column("mae_analytical", "Mean absolute error", "analytical", error),
    Column("n_above", "Usefulness", "objects above 2 SE", _whole),
    Column("recall_top10", "Usefulness", "recall of the top 10, %", _percent),
)

LIMITATIONS = (
    "The results are those of these adversaries and users, not a bound for every adversary.",
    "Pareto optimality compares point estimates; where CIs overlap, the order is uncertain.",
    "Exposed is not the same as correctly guessed: the adversary may be confident and wrong.",
)

BY_MECHANISM: dict[str, Any] = {"block": ("mechanism", "Mechanism"), "row": ("epsilon", "ε"), "form": number}

TITLE = "Privacy against utility"

CAPTION = (
    "Each point is one mechanism at one ε; the label is ε. Further left, the frequency estimate is more accurate. "
    "Further down, the adversary learns less: the lower left is best. Bars are 95% CIs of AUC-PN."
)


def write_page(comparison: Comparison, out: Path) -> Path:
    """Write ``comparison.html`` into the comparison's folder and return its path."""
    html, page = page_of(comparison), out / "comparison.html"
    with located_os_errors(page):
        write_text(page, html)
    return page


def pictures(comparison: Comparison) -> list[Figure]:
    """Return the figures of a comparison: the Pareto front."""
    shown = comparison.results, comparison.non_private, comparison.estimate_from
    caption = f"{CAPTION} {interval_note(comparison)}".strip()
    return [Figure(name="pareto-front", title=TITLE, caption=f"{caption} {ZOOM}", chart=pareto_front(*shown))]


def page_of(comparison: Comparison) -> str:
    """Return the report as HTML; every name is escaped."""
    unit = unit_of(comparison.scenario.devices)
    names = list(dict.fromkeys(record.adversary for record in comparison.results))
    by_name = {name: [record for record in comparison.results if record.adversary == name] for name in names}
    return render(
        "comparison.html.j2",
        title=comparison.scenario.title.strip() or comparison.scenario.name,
        words=summary_text(comparison),
        facts=_facts(comparison),
        figures=placed(pictures(comparison)),
        note=(
            f"{'; '.join(comparison.devices)}. n = {counted(comparison.n, unit)} of each user. Exposed: confidence "
            f"≥ {in_percent(comparison.results[0].exposed_at)} at least once, correct or not. Small numbers are 95% "
            f"CIs; ★ is Pareto-optimal; – is not reached. {interval_note(comparison)} {mcse_text(comparison.results)}"
        ),
        tables=[_privacy(name, comparison.adversaries.get(name, ""), records) for name, records in by_name.items()],
        utility=_utility(comparison, by_name[names[0]]),
        limitations=LIMITATIONS,
        glossary=explained(COMPARISON),
        origin=_origin(comparison),
        scenario=comparison.scenario.text,
        version=comparison.version,
    )


def _facts(comparison: Comparison) -> list[str]:
    pools, rate = round(1 / comparison.results[0].baseline), comparison.scenario.devices.reports_per_day
    return [
        f"{counted(comparison.users, 'user')}, the same for every configuration",
        f"{counted(comparison.n, unit_of(comparison.scenario.devices))} each"
        + (f", {in_days([comparison.n], rate)}" if rate else ""),
        f"{pools} pools",
        f"frequency estimate from {counted(comparison.estimate_from, 'report')}",
        *comparison.devices,
    ]


def _privacy(name: str, phrase: str, records: Sequence[Configuration]) -> dict[str, Any]:
    label = f"The {name} adversary" + (f": {phrase}" if phrase else "")
    return table(label, records, _columns(records[0]), **BY_MECHANISM, best="pareto_optimal")


def _columns(record: Configuration) -> list[Column]:
    """Return the columns of a table of adversaries, with the requested threshold."""
    confident, exposed = (in_percent(level) for level in (record.confident_at, record.exposed_at))
    return [
        *SUCCESS,
        Column("confident", "% of users", f"confidence ≥ {confident}", share),
        Column("exposed_share", "% of users", f"exposed, ≥ {exposed}", share),
        *LEAKAGE,
    ]


def _utility(comparison: Comparison, records: Sequence[Configuration]) -> dict[str, Any]:
    reports = counted(comparison.estimate_from, "report")
    note = f"Errors of the frequency estimate from {reports}, averaged over all objects."
    return {"note": note, "table": table("Utility", records, ERRORS, **BY_MECHANISM)}


def _origin(comparison: Comparison) -> list[tuple[str, str]]:
    kinds = shlex.quote(",".join(comparison.mechanisms))
    epsilons = ",".join(dict.fromkeys(f"{record.epsilon:g}" for record in comparison.results))
    command = (
        f"poolscope compare {shlex.quote(comparison.scenario.file)} --mechanism {kinds} --epsilon {epsilons} "
        f"--users {comparison.users} --estimate-from {comparison.estimate_from} --seed {comparison.seed}"
    )
    command += options(comparison.scenario.overrides)
    return origin(
        command, seed=comparison.seed, users=comparison.users, version=comparison.version, seconds=comparison.seconds
    )
