"""Print a comparison."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from poolscope.cli.terminal import Terminal, TextTable
from poolscope.core.counting import counted
from poolscope.html.compare import interval_note, summary_text
from poolscope.html.tables import bits, count, decimal, error, log_odds, share
from poolscope.inference.thresholds import at_least, in_percent
from poolscope.metrics.records import EXPOSING
from poolscope.metrics.text import mcse_text, number, unit_of
from poolscope.workflows.compare import Comparison, Configuration

LEGEND = "* Pareto-optimal: no other configuration has both a smaller RMSE and a smaller AUC-PN. – not reached."


def print_comparison(comparison: Comparison, report: Path, seconds: float) -> None:
    """Print the summary, one table for each adversary, the errors of the frequency estimate, and the legend."""
    console = Terminal()
    console.say(summary_text(comparison))
    if sampled := mcse_text(comparison.results):
        console.say(sampled)
    for phrase in comparison.devices:
        console.say(phrase)
    for adversary in dict.fromkeys(record.adversary for record in comparison.results):
        mine = [record for record in comparison.results if record.adversary == adversary]
        n = counted(comparison.n, unit_of(comparison.scenario.devices))
        _privacy(f"{adversary} adversary, n = {n}", mine).print(console)
    first = comparison.results[0].adversary
    estimated = [record for record in comparison.results if record.adversary == first]
    _utility(f"Frequency estimate from {counted(comparison.estimate_from, 'report')}", estimated).print(console)
    console.say(f"{LEGEND} {interval_note(comparison)}".strip())
    console.note(
        f"{counted(comparison.users, 'user')}, seed {comparison.seed}, {seconds:.1f} s. Report: {report}",
    )


def _privacy(title: str, records: Sequence[Configuration]) -> TextTable:
    first = records[0]
    heads = ["mechanism", "ε", "", "AUC-PN", "95% CI", f"exposed\n≥ {in_percent(first.exposed_at)}"]
    heads += [] if first.confident_at_threshold is None else [at_least(first.confident_at).replace(" ", "\n", 1)]
    heads += [f"{'n to ' * (i == 0)}{100 * part:g}%" for i, part in enumerate(EXPOSING.values())]
    heads += ["50%", "RMSE", "Bayes risk\nratio", "Bayes\nsecurity", "leakage\nbits", "log-odds\ngain", "bound"]
    table = TextTable(title=title, heads=heads, keys=3, box=None)
    for name, record in _named(table, records):
        table.add(
            name,
            number(record.epsilon),
            "*" if record.pareto_optimal else "",
            f"{record.auc_pn.value:.3f}",
            f"{record.auc_pn.low:.2f}–{record.auc_pn.high:.2f}",
            f"{share(record.exposed_share.value)}%",
            *([] if record.confident_at_threshold is None else [f"{share(record.confident_at_threshold.value)}%"]),
            *(count(getattr(record, field).value) for field in EXPOSING),
            count(record.reports_to_50pct.value),
            error(record.rmse),
            decimal(record.bayes_risk_ratio.value, 2),
            decimal(record.bayes_security.value, 2),
            bits(record.min_entropy_leakage.value),
            log_odds(record.log_odds_gain_p99.value),
            number(record.composition_bound),
        )
    return table


def _utility(title: str, records: Sequence[Configuration]) -> TextTable:
    errors = ("rmse", "rmse_analytical", "mse", "mse_analytical", "mae", "mae_analytical")
    heads = ["RMSE", "analytical", "MSE", "analytical", "MAE", "analytical"]
    heads += ["objects\nabove 2 SE", "top-10\nrecall"]
    table = TextTable(title=title, heads=["mechanism", "ε", *heads], box=None)
    for name, record in _named(table, records):
        above = "–" if record.n_above is None else f"{record.n_above:,}"
        recall = "–" if record.recall_top10 is None else f"{share(record.recall_top10)}%"
        table.add(name, number(record.epsilon), *(error(getattr(record, field)) for field in errors), above, recall)
    return table


def _named(table: TextTable, records: Sequence[Configuration]) -> Iterator[tuple[str, Configuration]]:
    """Yield the records, the first of each mechanism with its name; a section separates mechanisms."""
    for _, block in groupby(records, key=lambda record: record.mechanism):
        for i, record in enumerate(block):
            yield record.mechanism if i == 0 else "", record
        table.section()
