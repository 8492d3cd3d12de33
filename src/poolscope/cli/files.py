"""What a person sees of commands on files of reports and traces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
from rich.text import Text

from poolscope.cli.terminal import Grid, Terminal
from poolscope.core.counting import MIN_USERS, counted
from poolscope.core.errors import visible
from poolscope.inference.levels import sure

if TYPE_CHECKING:
    # a command loads its own verb alone
    from poolscope.workflows.attack.attack import Inferred
    from poolscope.workflows.attack.one_user import UserAttack
    from poolscope.workflows.attack.summary import Evaluation
    from poolscope.workflows.estimate import Estimated
    from poolscope.workflows.obfuscate import Obfuscated

#: Pools that a terminal names; the rest is summed up.
MAX_POOLS = 12

NO_GUESS = "no guess"

#: Links that a terminal shows.
MAX_LINKS = 12

#: What is told of each report of one user, for each pool.
KINDS = ("mass", "log_bayes_factor", "posterior")

#: Objects that a terminal shows of an estimate.
MAX_OBJECTS = 12


#: How an estimate was made, in words.
METHODS = {
    "linear": "Method: linear, from how many reports support an object.",
    "regression": "Method: regression, least squares on what each object is known to send.",
    "ridge": "Method: ridge, which shares out evenly what the reports do not tell apart; it has no standard errors.",
    "ibu": "Method: ibu, the popularity that makes the reports most likely.",
}


def print_attack(found: Inferred, out: Path | None, page: Path | None = None, joined: Path | None = None) -> None:
    """How sure each adversary is and what it guesses; without an output file also the first rows."""
    # as above
    from poolscope.workflows.attack.attack import chance_of, estimate_of, joined_in_words

    console = Terminal()
    if found.joined is not None:
        console.say(joined_in_words(found.joined))
    if out is None:
        _rows("The first rows; keep all with --out", found.preview).print(console)
    _confidence(found).print(console)
    _spread(found).print(console)
    if found.top:
        _rows("The surest, after all their reports", found.top).print(console)
    if found.evaluation:
        _judged(found.evaluation).print(console)
    words = "Confidence is the mean of what the adversary itself gives its guesses"
    words += "" if found.evaluation else "; the reports do not say whether they are right"
    console.print(f"{words}.", style="dim", highlight=False)
    for sentence in filter(None, (estimate_of(found), chance_of(found))):
        console.print(sentence, style="dim", highlight=False)
    _print_verdict(console, found.violations)
    _print_place(console, "Posteriors", out)
    _print_place(console, "Pseudonyms", joined)
    _print_place(console, "Page", page)


def print_links(linked: pl.DataFrame, out: Path) -> None:
    """The pseudonyms that are likeliest one device's."""
    console, heads = Terminal(), ["user", "other", "score"]
    for rows in linked.partition_by("adversary", maintain_order=True):
        having = f"{counted(rows.height, 'pseudonym')} that {'has' if rows.height == 1 else 'have'} a likely other"
        title = f"{having}, seen by {visible(rows['adversary'][0])}"
        grid = Grid(title=title, heads=heads, left=["other"], keys=2)
        for row in rows.head(MAX_LINKS).iter_rows(named=True):
            grid.add(_text(row["user"]), _text(row["other"]), f"{row['score']:.2f}")
        grid.print(console)
    if linked.is_empty():
        console.say("No pseudonym has a likely other.")
    words = "score: log of how much likelier two are one device's than two, summed over pairs of reports"
    console.print(f"{words}; it ranks, and is no probability.", style="dim", highlight=False)
    _print_place(console, "Links", out)


def print_story(story: UserAttack, out: Path | None) -> None:
    """One user, report by report: how much of each pool a report supports, what it tells, and the belief after it."""
    console = Terminal()
    heads = [f"{kind}\n{visible(pool)}" for kind in KINDS for pool in story.pools]
    for rows in story.table.partition_by("adversary", maintain_order=True):
        name, last = visible(rows["adversary"][0]), rows.row(-1, named=True)
        title = f"{visible(story.user)}, {counted(story.reports, 'report')}, seen by {name}"
        kept = "answer" in rows.columns and rows["answer"].count() > 0
        grid = Grid(title=title, heads=["n", *["answer"] * kept, *heads], keys=1 + kept, box=None)
        for row in rows.iter_rows(named=True):
            cells = (_cell(row[f"{kind}.{pool}"], kind) for kind in KINDS for pool in story.pools)
            grid.add(*(str(row[name]) for name in ("n", "answer")[: 1 + kept]), *cells)
        grid.print(console)
        after = {pool: last[f"posterior.{pool}"] for pool in story.pools if last[f"posterior.{pool}"] is not None}
        pool = max(after, key=lambda pool: after[pool])
        most = (
            rows.select(pl.col("n"), pl.col(f"log_bayes_factor.{pool}").alias("gain"))
            .sort("gain", descending=True)
            .row(0)
        )
        console.print(
            f"After all reports {name} gives {visible(pool)} {100 * after[pool]:.1f} %; "
            f"report {most[0]:,} told most for it.",
            highlight=False,
        )
    console.print(
        "mass: the popularity of the pool's objects that the report supports; evidence: log of how much likelier the "
        "report is from this pool than from any; posterior: the belief after it."
        + " answer: the first report with the same kept answer."
        * ("answer" in story.table.columns and story.table["answer"].count() > 0),
        style="dim",
        highlight=False,
    )
    _print_verdict(console, story.violations)
    _print_place(console, "Report by report", out)


def _cell(value: float | None, kind: str) -> str:
    return "-" if value is None else f"{value:+.3f}" if kind == "log_bayes_factor" else f"{value:.3f}"


def _judged(evaluation: Sequence[Evaluation]) -> Grid:
    heads = ["adversary", "users", "guessed", "precision", "95 % interval", "calibration error", "noise", "calibrated"]
    grid = Grid(title="Held against the truth, after all reports", heads=heads, keys=1)
    for row in evaluation:
        right, gap = row.precision, row.ece
        facts = ["-"] * 5
        if right and gap:
            limit = row.ece_null_p95
            facts = [f"{right.value:.3f}", f"{right.low:.3f}-{right.high:.3f}", f"{gap.value:.3f}", f"{limit:.3f}"]
            facts.append("yes" if row.calibrated else "no")
        grid.add(_text(row.adversary), f"{row.users:,}", f"{row.guessed:,}", *facts)
    return grid


def print_obfuscated(made: Obfuscated, out: Path) -> None:
    """How many reports there are now, and where."""
    console = Terminal()
    console.print(f"{counted(made.reports, 'report')} of {counted(made.users, 'user')}", highlight=False)
    _print_place(console, "Reports", out)


def print_estimate(found: Estimated, out: Path | None) -> None:
    """What the curator finds most often, and how well it can tell."""
    console = Terminal()
    heads = ["object", "pool", "count", "standard error", "popularity"]
    grid = Grid(
        title=f"{counted(found.reports, 'report')}, {counted(found.objects, 'object')}", heads=heads, left=["pool"]
    )
    for row in found.table.sort("count", descending=True).head(MAX_OBJECTS).iter_rows(named=True):
        grid.add(
            _text(row["object"]),
            _text(row["pool"] or ""),
            f"{row['count']:,.0f}",
            "-" if row["standard_error"] is None else f"{row['standard_error']:,.0f}",
            f"{row['popularity']:.5f}",
        )
    grid.print(console)
    if found.n_detected is not None:
        seen = (
            f"{found.n_detected:,} of {found.objects:,} objects are found more often than twice their standard error."
        )
        console.print(seen, style="dim", highlight=False)
    console.print(METHODS[found.method], style="dim", highlight=False)
    _print_place(console, "Popularity", out)


def _rows(title: str, rows: Sequence[Mapping[str, Any]]) -> Grid:
    """Rows of the table of posteriors, as far as they are easily read."""
    heads = ["user", "adversary", "n", "guess", "confidence"]
    grid = Grid(title=title, heads=heads, left=["adversary", "guess"], keys=3)
    for row in rows:
        grid.add(
            _text(row["user"]),
            _text(row["adversary"]),
            str(row["n"]),
            _text(NO_GUESS if row["guess"] is None else row["guess"]),
            f"{row['confidence']:.3f}",
        )
    return grid


def _confidence(found: Inferred) -> Grid:
    levels = (sure(level) for level in found.results[0].confident_at_threshold)
    grid = Grid(
        title=f"{counted(found.users, 'user')}, {counted(found.reports, 'report')}",
        heads=["adversary", "n", "confidence", "baseline", *levels],
    )
    last = None
    for row in found.results:
        if last is not None and row.adversary != last:
            grid.section()
        grid.add(
            _text(row.adversary if row.adversary != last else ""),
            "all" if row.n is None else str(row.n),
            f"{row.confidence:.3f}",
            f"{row.baseline:.3f}",
            *(_share(count, found.users) for count in row.confident_at_threshold.values()),
        )
        last = row.adversary
    return grid


def _spread(found: Inferred) -> Grid:
    """For how many users each pool is guessed, after as many reports as there are."""
    last = {row.adversary: row for row in found.results}
    n = found.results[-1].n
    after = "all reports" if n is None else f"at most {counted(n, 'report')}"
    grid = Grid(title=f"Guesses after {after}", heads=["pool", *map(visible, last)], keys=1)
    pools = sorted(found.pools, key=lambda pool: -sum(row.guesses.get(pool, 0) for row in last.values()))
    lines = {pool: [row.guesses.get(pool, 0) for row in last.values()] for pool in pools[:MAX_POOLS]}
    rest = pools[MAX_POOLS:]
    if rest:
        lines[counted(len(rest), "other")] = [sum(row.guesses.get(pool, 0) for pool in rest) for row in last.values()]
    if found.threshold is not None:
        lines[NO_GUESS] = [row.no_guess for row in last.values()]
    for pool, counts in lines.items():
        grid.add(_text(pool), *(_share(count, found.users) for count in counts))
    return grid


def _share(count: int, users: int) -> str:
    return f"{count} of {users}" if users < MIN_USERS else f"{100 * count / users:.1f} %"


def _text(value: object) -> Text:
    """A value from a file, which is no markup and has no line breaks."""
    return Text(visible(str(value)))


def _print_verdict(console: Terminal, violations: Sequence[str]) -> None:
    """What is wrong was said in warnings, above all that is printed here."""
    if violations:
        what = f"{len(violations)} contradiction{'s' * (len(violations) != 1)}, see the warnings"
        console.say(f"Verdict: failed, {what}. Do not rely on these guesses.")


def _print_place(console: Terminal, what: str, out: Path | None) -> None:
    if out is not None:
        console.note(f"{what}: {out}")
