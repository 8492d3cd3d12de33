"""What a person sees of commands on files of reports and traces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from poolscope.attack.levels import sure
from poolscope.base.errors import one_line
from poolscope.cli.terminal import Terminal

if TYPE_CHECKING:
    # a command loads its own verb alone
    from poolscope.verbs.attack.attack import Inferred
    from poolscope.verbs.estimate import Estimated
    from poolscope.verbs.obfuscate import Obfuscated

#: Pools that a terminal names; the rest is summed up.
MOST_POOLS = 12

NO_GUESS = "no guess"

#: Objects that a terminal shows of an estimate.
MOST_OBJECTS = 12


#: How an estimate was made, in words.
METHODS = {
    "linear": "Method: linear, from how many reports support an object.",
    "regression": "Method: regression, least squares on what each object is known to send.",
    "ibu": "Method: ibu, the popularity that makes the reports most likely.",
}


def print_attack(found: Inferred, out: Path | None) -> None:
    """How sure each adversary is and what it guesses; without an output file also the first rows."""
    console = Terminal()
    if out is None:
        console.print(_head(found.head))
    console.print(_confidence(found))
    console.print(_spread(found))
    console.print(
        "Confidence is the mean of what the adversary itself gives its guesses; "
        "the reports do not say whether they are right.",
        style="dim",
        highlight=False,
    )
    _print_place(console, "Posteriors", out)


def print_obfuscated(made: Obfuscated, out: Path) -> None:
    """How many reports there are now, and where."""
    console = Terminal()
    console.print(f"{made.reports:,} reports of {made.users:,} users", highlight=False)
    _print_place(console, "Reports", out)


def print_estimate(found: Estimated, out: Path | None) -> None:
    """What the curator finds most often, and how well it can tell."""
    console = Terminal()
    table = Table(title=f"{found.reports:,} reports, {found.objects:,} objects", title_justify="left")
    for name in ("object", "pool", "count", "standard error", "popularity"):
        table.add_column(name, justify="left" if name in ("object", "pool") else "right")
    for row in found.table.sort("count", descending=True).head(MOST_OBJECTS).iter_rows(named=True):
        table.add_row(
            _text(row["object"]),
            _text(row["pool"] or ""),
            f"{row['count']:,.0f}",
            f"{row['standard_error']:,.0f}",
            f"{row['popularity']:.5f}",
        )
    console.print(table)
    seen = f"{found.seen:,} of {found.objects:,} objects are found more often than twice their standard error."
    console.print(f"{seen}\n{METHODS[found.method]}", style="dim", highlight=False)
    _print_place(console, "Popularity", out)


def _head(rows: Sequence[Mapping[str, Any]]) -> Table:
    """The first rows of the table of posteriors, as far as they are easily read."""
    table = Table(title="The first rows; keep all with --out", title_justify="left")
    for name in ("user", "adversary", "n", "guess", "confidence"):
        table.add_column(name, justify="right" if name in ("n", "confidence") else "left")
    for row in rows:
        table.add_row(
            _text(row["user"]),
            _text(row["adversary"]),
            str(row["n"]),
            _text(NO_GUESS if row["guess"] is None else row["guess"]),
            f"{row['confidence']:.3f}",
        )
    return table


def _confidence(found: Inferred) -> Table:
    table = Table(title=f"{found.users:,} users, {found.reports:,} reports", title_justify="left")
    levels = (sure(level) for level in found.results[0].sure)
    for name in ("adversary", "n", "confidence", "baseline", *levels):
        table.add_column(name, justify="left" if name == "adversary" else "right")
    last = None
    for row in found.results:
        if last is not None and row.adversary != last:
            table.add_section()
        table.add_row(
            _text(row.adversary if row.adversary != last else ""),
            "all" if row.n is None else str(row.n),
            f"{row.confidence:.3f}",
            f"{row.baseline:.3f}",
            *(_share(count, found.users) for count in row.sure.values()),
        )
        last = row.adversary
    return table


def _spread(found: Inferred) -> Table:
    """For how many users each pool is guessed, after as many reports as there are."""
    last = {row.adversary: row for row in found.results}
    n = found.results[-1].n
    after = "all" if n is None else f"at most {n}"
    table = Table(title=f"Guesses after {after} reports", title_justify="left")
    table.add_column("pool")
    for name in last:
        table.add_column(_text(name), justify="right")
    pools = sorted(found.pools, key=lambda pool: -sum(row.guesses.get(pool, 0) for row in last.values()))
    lines = {pool: [row.guesses.get(pool, 0) for row in last.values()] for pool in pools[:MOST_POOLS]}
    rest = pools[MOST_POOLS:]
    if rest:
        lines[f"{len(rest)} others"] = [sum(row.guesses.get(pool, 0) for pool in rest) for row in last.values()]
    if found.threshold is not None:
        lines[NO_GUESS] = [row.no_guess for row in last.values()]
    for pool, counts in lines.items():
        table.add_row(_text(pool), *(_share(count, found.users) for count in counts))
    return table


def _share(count: int, users: int) -> str:
    return f"{100 * count / users:.1f} %"


def _text(value: object) -> Text:
    """A value from a file, which is no markup and has no line breaks."""
    return Text(one_line(str(value)))


def _print_place(console: Terminal, what: str, out: Path | None) -> None:
    if out is not None:
        console.note(f"{what}: {out}")
