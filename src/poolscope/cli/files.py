"""Print the results of commands on files of reports and traces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
from rich.text import Text

from poolscope.cli.inspection import checks_table, print_explanations
from poolscope.cli.terminal import Terminal, TextTable
from poolscope.core.counting import MIN_USERS, counted
from poolscope.core.errors import as_options, visible
from poolscope.core.tables import Destination
from poolscope.core.tables.locations import scheme_of
from poolscope.game.columns import LOG_ODDS_ADDED
from poolscope.inference.thresholds import at_least

if TYPE_CHECKING:
    # a command imports its own workflow only
    from poolscope.metrics.fitted import Fitted
    from poolscope.workflows.attack.attack import Inferred
    from poolscope.workflows.attack.one_user import UserAttack
    from poolscope.workflows.attack.summary import Evaluation
    from poolscope.workflows.estimate import Estimated
    from poolscope.workflows.obfuscate import Obfuscated

#: Pools listed by name; the rest is one row.
MAX_POOLS = 12

NO_GUESS = "no guess"

#: Further columns of rows of posteriors, and their headers.
EXTRA_COLUMNS = {"confidence_corrected": "corrected", "log_odds": "log-odds"}

#: Links listed.
MAX_LINKS = 12

#: Columns of each report of one user, for each pool.
KINDS = ("mass", "log_bayes_factor", "posterior")

#: Objects of an estimate listed.
MAX_OBJECTS = 12


#: Description of each estimation method.
METHODS = {
    "linear": "Method: linear (unbiased counts of supporting reports).",
    "regression": "Method: regression (least squares on the expected reports of each object).",
    "ridge": "Method: ridge (splits evenly what reports cannot distinguish; no standard errors).",
    "ibu": "Method: ibu (iterative Bayesian update, the maximum-likelihood popularity).",
}


def print_attack(found: Inferred, out: str | None, page: Path | None = None, joined: Path | None = None) -> None:
    """Print the confidence and guesses of each adversary; without an output file also the first rows."""
    from poolscope.workflows.attack.attack import (
        expected_note,
        joined_in_words,
        mcse_note,
        popularity_estimate_note,
    )

    console = Terminal()
    if found.joined is not None:
        console.say(joined_in_words(found.joined))
    if out is None:
        _rows("First rows (write all with --out)", found.preview).print(console)
    _confidence(found).print(console)
    _spread(found).print(console)
    if found.top:
        _rows("Most confident guesses, after all reports", found.top).print(console)
    if found.explanations.users:
        print_explanations(console, found.explanations)
    if found.evaluation:
        _evaluation(found.evaluation).print(console)
    note = "Confidence: mean posterior probability of the guess"
    note += "." if found.evaluation else "; without --ground-truth, correctness is unknown."
    console.print(note, style="dim", highlight=False)
    notes = (expected_note(found), *found.cautions, popularity_estimate_note(found), mcse_note(found))
    for sentence in filter(None, notes):
        console.print(sentence, style="dim", highlight=False)
    every = {one.name: one.inspection for one in found.collections}
    for name, inspection in {"": found.inspection, **every}.items():
        if inspection is None:
            continue
        if any(check.status in ("warn", "fail") for check in inspection.checks):
            title = f"Checks of the reports{f' of {visible(name)}' * bool(name)} (all: poolscope inspect)"
            checks_table(inspection, title, only_noted=True).print(console)
        said = f"{visible(name)}: {inspection.sentence}" if name else inspection.sentence
        console.print(said, style="dim", highlight=False)
    _print_verdict(console, found.violations)
    _print_place(console, "Posteriors", out)
    _print_place(console, "Pseudonyms", joined)
    _print_place(console, "Report", page)


def print_links(linked: pl.DataFrame, out: Path) -> None:
    """Print the pairs of pseudonyms most likely to be one device."""
    console, heads = Terminal(), ["user", "other", "score"]
    for rows in linked.partition_by("adversary", maintain_order=True):
        title = f"{counted(rows.height, 'pseudonym')} with a likely match, {visible(rows['adversary'][0])} adversary"
        table = TextTable(title=title, heads=heads, left=["other"], keys=2)
        for row in rows.head(MAX_LINKS).iter_rows(named=True):
            table.add(_text(row["user"]), _text(row["other"]), f"{row['score']:.2f}")
        table.print(console)
    if linked.is_empty():
        console.say("No pseudonym has a likely match.")
    note = "score: log likelihood ratio of one device against two, summed over pairs of reports; not a probability"
    console.print(f"{note}.", style="dim", highlight=False)
    _print_place(console, "Links", out)


def print_user_attack(story: UserAttack, out: str | None) -> None:
    """Print one user report by report: the support of each pool, the log Bayes factor, and the posterior."""
    console = Terminal()
    heads = [f"{kind}\n{visible(pool)}" for kind in KINDS for pool in story.pools]
    for rows in story.table.partition_by("adversary", maintain_order=True):
        name, last = visible(rows["adversary"][0]), rows.row(-1, named=True)
        title = f"{visible(story.user)}, {counted(story.reports, 'report')}, {name} adversary"
        kept = "response" in rows.columns and rows["response"].count() > 0
        table = TextTable(title=title, heads=["n", *["response"] * kept, *heads], keys=1 + kept, box=None)
        for row in rows.iter_rows(named=True):
            cells = (_cell(row[f"{kind}.{pool}"], kind) for kind in KINDS for pool in story.pools)
            table.add(*(str(row[name]) for name in ("n", "response")[: 1 + kept]), *cells)
        table.print(console)
        after = {pool: last[f"posterior.{pool}"] for pool in story.pools if last[f"posterior.{pool}"] is not None}
        pool = max(after, key=lambda pool: after[pool])
        largest = (
            rows.select(pl.col("n"), pl.col(f"log_bayes_factor.{pool}").alias("gain"))
            .sort("gain", descending=True)
            .row(0)
        )
        console.print(
            f"After all reports, the {name} adversary assigns {100 * after[pool]:.1f}% to {visible(pool)}; report "
            f"{largest[0]:,} has the largest Bayes factor for it.",
            highlight=False,
        )
    console.print(
        "mass: popularity of the pool's objects that the report supports; log_bayes_factor: log likelihood of the "
        "report under this pool, relative to all pools; posterior: after the report."
        + " response: first report with the same memoized response."
        * ("response" in story.table.columns and story.table["response"].count() > 0),
        style="dim",
        highlight=False,
    )
    _print_verdict(console, story.violations)
    _print_place(console, "Report by report", out)


def _cell(value: float | None, kind: str) -> str:
    return "–" if value is None else f"{value:+.3f}" if kind == "log_bayes_factor" else f"{value:.3f}"


def _evaluation(evaluation: Sequence[Evaluation]) -> TextTable:
    heads = ["adversary", "users", "guessed", "precision", "95% CI", "ECE", "ECE null 95%", "calibrated"]
    table = TextTable(title="Evaluation against the ground truth, after all reports", heads=heads, keys=1)
    for row in evaluation:
        right, gap = row.precision, row.ece
        facts = ["–"] * 5
        if right and gap:
            limit = row.ece_null_p95
            facts = [f"{right.value:.3f}", f"{right.low:.3f}–{right.high:.3f}", f"{gap.value:.3f}", f"{limit:.3f}"]
            facts.append("yes" if row.calibrated else "no")
        table.add(_text(row.adversary), f"{row.users:,}", f"{row.guessed:,}", *facts)
    return table


def output_name(out: str | None, table: str | None) -> str | None:
    """Return where a table was written, without credentials."""
    if out is None:
        return None
    place = Destination(path=Path(out)) if scheme_of(out) is None else Destination(address=out, table=table)
    return place.label


def print_obfuscated(made: Obfuscated, out: str | None) -> None:
    """Print how many reports were written, and where."""
    console = Terminal()
    console.print(f"{counted(made.reports, 'report')} of {counted(made.users, 'user')}", highlight=False)
    _print_place(console, "Reports", out)


def print_estimate(found: Estimated, out: str | None) -> None:
    """Print the most frequent objects with standard errors."""
    console = Terminal()
    tuples = "collection" in found.table.columns
    heads = [*["collection"] * tuples, "object", "pool", "count", "standard error", "popularity"]
    table = TextTable(
        title=f"{counted(found.reports, 'report')}, {counted(found.objects, 'object')}",
        heads=heads,
        left=["collection", "pool"],
    )
    for row in found.table.sort("count", descending=True).head(MAX_OBJECTS).iter_rows(named=True):
        table.add(
            *([_text(row["collection"])] if tuples else []),
            _text(row["object"]),
            _text(row["pool"] or ""),
            f"{row['count']:,.0f}",
            "–" if row["standard_error"] is None else f"{row['standard_error']:,.0f}",
            f"{row['popularity']:.5f}",
        )
    table.print(console)
    if found.n_detected is not None:
        detected = f"{found.n_detected:,} of {counted(found.objects, 'object')} exceed two standard errors."
        console.print(detected, style="dim", highlight=False)
    console.print(METHODS[found.method], style="dim", highlight=False)
    _print_place(console, "Popularity", out)


def print_fit(found: Fitted, out: Path | None) -> None:
    """Print the fitted distributions with intervals, what the data do not say, and the table of the scenario."""
    console = Terminal()
    users = "devices of unknown number" if found.users is None else counted(found.users, "user")
    heads = ["distribution", "mean", "95% CI", "a + b", "95% CI"]
    title = f"Fit to {found.data}: {users}, {counted(found.events, 'event')}"
    table = TextTable(title=title, heads=heads, keys=1)
    for name, one in (("interest", found.interest), ("polarization", found.polarization)):
        if one is not None:
            mean, spread = one.mean, one.concentration
            cells = f"{mean.value:.4g}", f"{mean.low:.3g}–{mean.high:.3g}", f"{spread.value:.3g}"
            table.add(name, *cells, f"{spread.low:.3g}–{spread.high:.3g}")
    if found.interest is None:
        mean = found.mean_interest
        known = f"{mean.low:.3g}–{mean.high:.3g}" if mean.low < mean.high else "–"
        table.add("mean interest only", f"{mean.value:.4g}", known, "–", "–")
    table.print(console)
    if found.popularity_in_pools is not None:
        console.say(f"Pools have {100 * found.popularity_in_pools:.3g}% of the scenario's popularity.")
    for note in found.notes:
        console.say(as_options(note))
    console.print(Text(found.toml), soft_wrap=True, highlight=False)
    _print_place(console, "Scenario", out)


def _rows(title: str, rows: Sequence[Mapping[str, Any]]) -> TextTable:
    """Return rows of posteriors, with the columns that fit a terminal."""
    heads = ["user", "adversary", "n", "guess", "confidence"]
    more = {name: head for name, head in EXTRA_COLUMNS.items() if rows and name in rows[0]}
    added = [name for name in rows[0] if name.startswith(LOG_ODDS_ADDED)] if rows else []
    more |= {name: f"from\n{visible(name.removeprefix(LOG_ODDS_ADDED))}" for name in added}
    table = TextTable(title=title, heads=[*heads, *more.values()], left=["adversary", "guess"], keys=3)
    for row in rows:
        table.add(
            _text(row["user"]),
            _text(row["adversary"]),
            str(row["n"]),
            _text(NO_GUESS if row["guess"] is None else row["guess"]),
            f"{row['confidence']:.3f}",
            *(f"{row[name]:.3f}" if not name.startswith("log_odds") else f"{row[name]:z.1f}" for name in more),
        )
    return table


def _confidence(found: Inferred) -> TextTable:
    levels = (at_least(level) for level in found.results[0].confident_at_threshold)
    table = TextTable(
        title=f"{counted(found.users, 'user')}, {counted(found.reports, 'report')}",
        heads=["adversary", "n", "confidence", "random", *levels],
    )
    last = None
    for row in found.results:
        if last is not None and row.adversary != last:
            table.section()
        table.add(
            _text(row.adversary if row.adversary != last else ""),
            "all" if row.n is None else str(row.n),
            f"{row.confidence:.3f}",
            f"{row.baseline:.3f}",
            *(_share(count, found.users) for count in row.confident_at_threshold.values()),
        )
        last = row.adversary
    return table


def _spread(found: Inferred) -> TextTable:
    """Return for how many users each pool is guessed, at the largest n."""
    last = {row.adversary: row for row in found.results}
    n = found.results[-1].n
    several = found.attribute is not None
    after = "all reports" if n is None else counted(n, "day") if several else f"at most {counted(n, 'report')}"
    table = TextTable(
        title=f"Guesses after {after}", heads=["value" if several else "pool", *map(visible, last)], keys=1
    )
    pools = sorted(found.pools, key=lambda pool: -sum(row.guesses.get(pool, 0) for row in last.values()))
    lines = {pool: [row.guesses.get(pool, 0) for row in last.values()] for pool in pools[:MAX_POOLS]}
    rest = pools[MAX_POOLS:]
    if rest:
        lines[counted(len(rest), "other")] = [sum(row.guesses.get(pool, 0) for pool in rest) for row in last.values()]
    if found.threshold is not None:
        lines[NO_GUESS] = [row.no_guess for row in last.values()]
    for pool, counts in lines.items():
        table.add(_text(pool), *(_share(count, found.users) for count in counts))
    return table


def _share(count: int, users: int) -> str:
    return f"{count} of {users}" if users < MIN_USERS else f"{100 * count / users:.1f}%"


def _text(value: object) -> Text:
    """Return a value from a file as plain text without line breaks."""
    return Text(visible(str(value)))


def _print_verdict(console: Terminal, violations: Sequence[str]) -> None:
    """Print how many consistency checks failed; the warnings above name them."""
    if violations:
        failed = counted(len(violations), "consistency check")
        console.say(f"FAIL: {failed} failed, see the warnings. Do not rely on these guesses.")


def _print_place(console: Terminal, what: str, out: Path | str | None) -> None:
    if out is not None:
        console.note(f"{what}: {out}")
