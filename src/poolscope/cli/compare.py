"""What a person sees of a comparison in a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from poolscope.cli.terminal import Terminal
from poolscope.pages.numbers import bits, count, decimal, error, log_odds, number
from poolscope.pages.words import in_plain_words, reservation
from poolscope.verbs.compare import Choice, Comparison


def print_comparison(comparison: Comparison, page: Path, seconds: float) -> None:
    """What each choice gives away, adversary by adversary, what its curator learns, and the frontier in words."""
    console = Terminal()
    for phrase in comparison.devices:
        console.print(phrase, highlight=False)
    for adversary in dict.fromkeys(record.adversary for record in comparison.results):
        mine = [record for record in comparison.results if record.adversary == adversary]
        console.print(_privacy(f"{adversary} adversary after {comparison.n:,} reports", mine))
    first = comparison.results[0].adversary
    estimated = [record for record in comparison.results if record.adversary == first]
    console.print(_utility(f"frequencies from {comparison.reports:,} reports", estimated))
    console.print(in_plain_words(comparison), highlight=False)
    console.note(
        f"{comparison.users:,} users, seed {comparison.seed}, {seconds:.1f} s. "
        f"* no other choice has both a smaller error and a smaller AUC. {reservation(comparison)} Page: {page}"
    )


def _privacy(title: str, records: Sequence[Choice]) -> Table:
    heads = ("AUC", "95 %", "exposed\n90 %", "to\nexposure", "security", "least", "bits", "odds", "bound", "")
    table = _table(title, heads)
    for block in _blocks(records):
        for record in block:
            table.add_row(
                record.mechanism if record is block[0] else "",
                number(record.epsilon),
                f"{record.auc.value:.3f}",
                f"{record.auc.low:.2f}-{record.auc.high:.2f}",
                f"{100 * record.exposed_90.value:.0f} %",
                count(record.reports_to_exposure.value),
                decimal(record.bayes_security.value, 2),
                decimal(record.bayes_security_least.value, 2),
                bits(record.min_entropy_leakage.value),
                log_odds(record.evidence.value),
                number(record.composition_bound),
                "*" if record.frontier else "",
            )
        table.add_row()
    return table


def _utility(title: str, records: Sequence[Choice]) -> Table:
    table = _table(title, ("MSE", "closed form", "MAE", "closed form"))
    for block in _blocks(records):
        for record in block:
            errors = (error(getattr(record, name)) for name in ("mse", "mse_expected", "mae", "mae_expected"))
            table.add_row(record.mechanism if record is block[0] else "", number(record.epsilon), *errors)
        table.add_row()
    return table


def _table(title: str, heads: tuple[str, ...]) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("mechanism", no_wrap=True)
    for head in ("eps", *heads):
        table.add_column(head, justify="right", no_wrap=True)
    return table


def _blocks(records: Sequence[Choice]) -> list[list[Choice]]:
    """The records of each mechanism."""
    names = dict.fromkeys(record.mechanism for record in records)
    return [[record for record in records if record.mechanism == name] for name in names]
