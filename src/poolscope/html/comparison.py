"""A comparison as one page that needs nothing else."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from poolscope.core.counting import counted
from poolscope.core.files import told
from poolscope.core.tables.atomic import write_text
from poolscope.html.charts import Shown, placed
from poolscope.html.figures import ZOOM
from poolscope.html.frontier import frontier
from poolscope.html.glossary import COMPARISON, explained
from poolscope.html.html import options, origin, render, tied
from poolscope.html.numbers import bits, count, decimal, error, log_odds, number, share
from poolscope.html.tables import Column, table
from poolscope.html.words import in_plain_words, reservation
from poolscope.inference.adversary import in_percent
from poolscope.metrics.bounds import in_days
from poolscope.metrics.text import chance_in_words
from poolscope.workflows.compare import Choice, Comparison

SUCCESS = (
    Column("auc", "", "AUC", decimal),
    Column("precision", "% of users", "guessed rightly", share),
    Column("most_right", "% of users", "at most", share),
)

LEAKAGE = (
    Column("reports_to_expose_1", "Reports to expose", "1 %", count),
    Column("reports_to_expose_5", "Reports to expose", "5 %", count),
    Column("reports_to_expose_10", "Reports to expose", "10 %", count),
    Column("reports_to_exposure", "Reports to expose", "half", count),
    Column("bayes_security", "Bayes security", "at the prior", decimal),
    Column("bayes_security_least", "Bayes security", "least", decimal),
    Column("min_entropy_leakage", "Leakage", "bits", bits),
    Column("evidence", "Log odds", "gained", log_odds),
    Column("composition_bound", "Log odds", "bound", number),
)

ERRORS = (
    Column("rmse", "Root mean squared error", "measured", error),
    Column("rmse_expected", "Root mean squared error", "closed form", error),
    Column("mse", "Mean squared error", "measured", error),
    Column("mse_expected", "Mean squared error", "closed form", error),
    Column("mae", "Mean absolute error", "measured", error),
    Column("mae_expected", "Mean absolute error", "closed form", error),
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
    with told(page):
        write_text(page, html)
    return page


def pictures(comparison: Comparison) -> list[Shown]:
    """The frontier."""
    shown = comparison.results, comparison.non_private, comparison.reports
    caption = f"{CAPTION} {reservation(comparison)}".strip()
    return [Shown(name="frontier", title=TITLE, caption=f"{caption} {ZOOM}", chart=frontier(*shown))]


def page_of(comparison: Comparison) -> str:
    """The page as HTML; every name is escaped."""
    names = list(dict.fromkeys(record.adversary for record in comparison.results))
    by_name = {name: [record for record in comparison.results if record.adversary == name] for name in names}
    return render(
        "comparison.html.j2",
        title=comparison.scenario.title.strip() or comparison.scenario.name,
        words=tied(in_plain_words(comparison)),
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
        f"frequencies from {counted(comparison.reports, 'report')}",
        *map(tied, comparison.devices),
    ]


def _given_away(name: str, phrase: str, records: Sequence[Choice]) -> dict[str, Any]:
    label = f"The {name} adversary" + (f": {phrase}" if phrase else "")
    return table(label, records, _columns(records[0]), **BY_MECHANISM, best="frontier")


def _columns(record: Choice) -> list[Column]:
    """The columns of what is given away, with the confidence that was asked for."""
    sure, exposed = (in_percent(level) for level in (record.confident_at, record.exposed_at))
    return [
        *SUCCESS,
        Column("confident", "% of users", f"sure, {sure}", share),
        Column("exposed_share", "% of users", f"exposed, {exposed}", share),
        *LEAKAGE,
    ]


def _utility(comparison: Comparison, records: Sequence[Choice]) -> dict[str, Any]:
    note = f"Errors of the frequencies that {counted(comparison.reports, 'report')} give, averaged over all objects."
    return {"note": note, "table": table("Errors of the frequency estimate", records, ERRORS, **BY_MECHANISM)}


def _origin(comparison: Comparison) -> list[tuple[str, str]]:
    kinds = shlex.quote(",".join(comparison.mechanisms))
    epsilons = ",".join(dict.fromkeys(f"{record.epsilon:g}" for record in comparison.results))
    command = (
        f"poolscope compare {shlex.quote(comparison.scenario.file)} --mechanism {kinds} --epsilon {epsilons} "
        f"--users {comparison.users} --reports {comparison.reports} --seed {comparison.seed}"
    )
    command += options(comparison.scenario.asked)
    return origin(
        command, seed=comparison.seed, users=comparison.users, version=comparison.version, seconds=comparison.seconds
    )
