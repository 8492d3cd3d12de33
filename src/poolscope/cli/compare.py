"""What a person sees of a comparison in a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from poolscope.cli.terminal import Grid, Terminal
from poolscope.core.counting import counted
from poolscope.html.compare import reservation, summary_text
from poolscope.html.tables import bits, count, decimal, error, log_odds, share
from poolscope.inference.levels import in_percent, sure
from poolscope.metrics.records import EXPOSING
from poolscope.metrics.text import chance_in_words, number
from poolscope.workflows.compare import Comparison, Configuration


def print_comparison(comparison: Comparison, page: Path, seconds: float) -> None:
    """What each choice gives away, adversary by adversary, what its curator learns, and the frontier in words."""
    console = Terminal()
    for phrase in comparison.devices:
        console.say(phrase)
    for adversary in dict.fromkeys(record.adversary for record in comparison.results):
        mine = [record for record in comparison.results if record.adversary == adversary]
        _privacy(f"{adversary} adversary after {counted(comparison.n, 'report')}", mine).print(console)
    first = comparison.results[0].adversary
    estimated = [record for record in comparison.results if record.adversary == first]
    _utility(f"frequencies from {counted(comparison.estimate_from, 'report')}", estimated).print(console)
    console.say(summary_text(comparison))
    if chance := chance_in_words(comparison.results):
        console.say(chance)
    console.note(
        f"{counted(comparison.users, 'user')}, seed {comparison.seed}, {seconds:.1f} s. "
        f"* no other choice has both a smaller error and a smaller AUC. {reservation(comparison)} Page: {page}"
    )


def _privacy(title: str, records: Sequence[Configuration]) -> Grid:
    first = records[0]
    heads = ["mechanism", "eps", "AUC", "95 %", f"exposed\n{in_percent(first.exposed_at)}"]
    heads += [] if first.confident_at_threshold is None else [sure(first.confident_at).replace(" ", "\n", 1)]
    heads += [*(f"to\n{100 * share:g} %" for share in EXPOSING.values()), "to\nhalf"]
    heads += ["security", "least", "bits", "odds", "bound", ""]
    grid = Grid(title=title, heads=heads, box=None)
    for name, record in _named(grid, records):
        grid.add(
            name,
            number(record.epsilon),
            f"{record.auc_pn.value:.3f}",
            f"{record.auc_pn.low:.2f}-{record.auc_pn.high:.2f}",
            f"{share(record.exposed_share.value)} %",
            *([] if record.confident_at_threshold is None else [f"{share(record.confident_at_threshold.value)} %"]),
            *(count(getattr(record, field).value) for field in EXPOSING),
            count(record.reports_to_50pct.value),
            decimal(record.bayes_risk_ratio.value, 2),
            decimal(record.bayes_security.value, 2),
            bits(record.min_entropy_leakage.value),
            log_odds(record.log_odds_gain_p99.value),
            number(record.composition_bound),
            "*" if record.pareto_optimal else "",
        )
    return grid


def _utility(title: str, records: Sequence[Configuration]) -> Grid:
    errors = ("rmse", "rmse_analytical", "mse", "mse_analytical", "mae", "mae_analytical")
    heads = ["RMSE", "closed form", "MSE", "closed form", "MAE", "closed form"]
    grid = Grid(title=title, heads=["mechanism", "eps", *heads], box=None)
    for name, record in _named(grid, records):
        grid.add(name, number(record.epsilon), *(error(getattr(record, field)) for field in errors))
    return grid


def _named(grid: Grid, records: Sequence[Configuration]) -> Iterator[tuple[str, Configuration]]:
    """The records, each with its mechanism where it is the first of it; between mechanisms the grid has a section."""
    for _, block in groupby(records, key=lambda record: record.mechanism):
        for i, record in enumerate(block):
            yield record.mechanism if i == 0 else "", record
        grid.section()
