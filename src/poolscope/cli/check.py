"""What a person sees of a check."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from poolscope.cli.terminal import Terminal
from poolscope.workflows.check.bounds import GuessBound
from poolscope.workflows.check.distribution import DISTRIBUTION_CONFIDENCE, Fit, Share
from poolscope.workflows.check.independence import Independence
from poolscope.workflows.check.verdict import LowerBound, SampledVerdict, Verdict


def names_in(text: str | None) -> list[str] | None:
    """Names separated by commas; one that has a comma is put in double quotes."""
    return None if text is None else [name.strip() for name in next(csv.reader([text], skipinitialspace=True))]


def print_verdict(verdict: Verdict) -> None:
    """A small table of what was found, and one sentence."""
    console = Terminal()
    table = Table(title=f"Does {verdict.mechanism} keep its promise?", title_justify="left", show_header=False)
    table.add_column()
    table.add_column(overflow="fold")
    for name, value in rows(verdict):
        table.add_row(name, value)
    console.print(table)
    console.print(Text(sentence(verdict), style="" if verdict.passed else "bold red"), soft_wrap=True)
    for warning in verdict.warnings:
        console.print(Text(f"Warning: {warning}.", style="yellow"), soft_wrap=True)


def rows(verdict: Verdict) -> list[tuple[str, str]]:
    """What was found, a line each."""
    out = [
        ("claimed epsilon", f"{verdict.declared:g}"),
        ("stated epsilon", _exact(verdict)),
        ("objects", _tried(verdict)),
    ]
    out += _sampled(verdict, verdict.sampled)
    if verdict.played:
        out += [("by `report`, which games play", f"{verdict.played.samples:,} reports")]
        out += [(f"  {name.strip()}", value) for name, value in _sampled(verdict, verdict.played)]
    return out


def _sampled(verdict: Verdict, sampled: SampledVerdict) -> Iterator[tuple[str, str]]:
    """What the reports of one method show."""
    sure, shown = f"{100 * verdict.confidence:g} %", sampled.lower_bound
    if shown:
        yield f"sampled epsilon ({sure})", f"at least {shown.epsilon:.4g}"
        yield "most telling event", shown.event
        for z, hits, trials in zip((shown.one, shown.other), shown.hits, shown.trials, strict=True):
            yield f"  from {verdict.name(z)}", f"in {hits:,} of {trials:,} reports"
        yield "could have been found", _detectable(shown, verdict.declared)
    if sampled.guessed:
        yield f"guessed epsilon ({sure})", _guessed(sampled.guessed)
    for share in sampled.shares:
        yield f"{share.name} stated, sampled", _share(share)
    if sampled.fit:
        yield "likelihood stated, sampled", _fit(sampled.fit, verdict.name(sampled.fit.object))
    if sampled.repeats:
        yield "generator", _generator(sampled.repeats)


def sentence(verdict: Verdict) -> str:
    """The verdict in one line."""
    return verdict.text


def _exact(verdict: Verdict) -> str:
    if verdict.exact is None:
        return "not known: too many reports to go through them"
    fits = {True: "", False: "; no probabilities fit it", None: ""}[verdict.exact.consistent]
    return f"{verdict.exact.epsilon:.4g} over all {verdict.exact.reports:,} reports{fits}"


def _tried(verdict: Verdict) -> str:
    tried, screened = len(verdict.objects), verdict.screened
    found = f"{tried:,} tried of {verdict.universe:,}"
    return found if screened <= tried else f"{found}, after a first look at {screened:,}"


def _detectable(bound: LowerBound, claimed: float) -> str:
    if not math.isfinite(claimed):
        return "nothing, as no finite epsilon is claimed"
    if math.isinf(bound.detectable):
        return "no epsilon, however large: the event is too rare for these samples"
    return f"an epsilon of {bound.detectable:.4g} or more of an event as common as this, in nine of ten checks"


def _guessed(guessed: GuessBound) -> str:
    if not guessed.guesses:
        return "nothing to guess from: no report is rare enough"
    return f"at least {guessed.epsilon:.4g}: {guessed.share} right among {guessed.objects:,}, from {guessed.rule}"


def _share(share: Share) -> str:
    judged = {True: "", False: ": differs", None: ": too few objects to judge"}[share.passed]
    return f"{share.stated:.4g}, {share.low:.4g} to {share.high:.4g} ({100 * DISTRIBUTION_CONFIDENCE:g} %){judged}"


def _fit(fit: Fit, name: str) -> str:
    judged = "" if fit.passed else ": differs"
    found = f"{fit.stated:.4g}, {fit.low:.4g} to {fit.high:.4g} ({100 * DISTRIBUTION_CONFIDENCE:g} %)"
    return f"{found} of {fit.reports:,} reports are of {name}{judged}"


def _generator(repeats: Independence) -> str:
    if repeats.found:
        return "; ".join(repeats.found)
    found = "the same generator gave different reports" if repeats.foreign else "no repeats and no dependence found"
    if repeats.keys:
        return f"{found}; every bit of a key was changed"
    if not repeats.seeds:
        return f"{found}; seeds of calls that repeat could not be seen, as reports are too much alike"
    return f"{found}; one of up to {repeats.seeds:,} seeds for each call would have been found"
