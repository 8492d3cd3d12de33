"""Print the verdict of a check."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from poolscope.cli.terminal import Terminal
from poolscope.metrics.collections import TupleEpsilon
from poolscope.metrics.gates import GateResult
from poolscope.workflows.check.bounds import GuessBound
from poolscope.workflows.check.distribution import LikelihoodFit, SupportProbabilityCheck
from poolscope.workflows.check.independence import Independence
from poolscope.workflows.check.verdict import LowerBound, SampledVerdict, Verdict


def names_in(text: str | None) -> list[str] | None:
    """Return names separated by commas; double quotes protect a comma."""
    return None if text is None else [name.strip() for name in next(csv.reader([text], skipinitialspace=True))]


def print_verdict(verdict: Verdict) -> None:
    """Print PASS or FAIL in a sentence, the evidence in a table, and warnings."""
    console = Terminal()
    console.print(Text(sentence(verdict), style="" if verdict.passed else "bold red"), soft_wrap=True)
    table = Table(title=f"Check of {verdict.mechanism}", title_justify="left", show_header=False)
    table.add_column()
    table.add_column(overflow="fold")
    for name, value in rows(verdict):
        table.add_row(name, value)
    console.print(table)
    for warning in verdict.warnings:
        console.print(Text(f"Warning: {warning}.", style="yellow"), soft_wrap=True)


def as_gate(verdict: Verdict) -> GateResult:
    """Return the verdict as that of a gate."""
    return GateResult(
        condition="no violation of the declared epsilon", passed=verdict.passed, uncertain=False, reason=verdict.text
    )


def rows(verdict: Verdict) -> list[tuple[str, str]]:
    """Return the evidence, a name and a value each."""
    out = [
        ("declared ε", f"{verdict.declared:g}"),
        ("ε of the stated likelihoods", _exact(verdict)),
        *_tuples(verdict.multidimensional),
        ("objects", _tried(verdict)),
    ]
    out += _sampled(verdict, verdict.sampled)
    out += [("false alarms", f"at most {100 * verdict.false_alarm_rate:.2g}% of the checks of a correct mechanism")]
    if verdict.played:
        out += [("method `report`, used by games", f"{verdict.played.samples:,} reports")]
        out += [(f"  {name.strip()}", value) for name, value in _sampled(verdict, verdict.played)]
    return out


def _sampled(verdict: Verdict, sampled: SampledVerdict) -> Iterator[tuple[str, str]]:
    """Yield the evidence of the reports of one method."""
    level, bound = f"{100 * verdict.confidence:g}% confidence", sampled.lower_bound
    if bound:
        yield "empirical lower bound", f"ε ≥ {bound.epsilon:.4g} ({level})"
        yield "event", bound.event
        for z, hits, trials in zip((bound.one, bound.other), bound.hits, bound.trials, strict=True):
            yield f"  object {verdict.name(z)}", f"{hits:,} of {trials:,} reports"
        yield "detectable", _detectable(bound, verdict.declared)
    if sampled.guessed:
        yield "lower bound by guessing", f"{_guessed(sampled.guessed)} ({level})"
    for share in sampled.shares:
        yield f"{share.name} declared, empirical", _share(share, verdict)
    if sampled.fit:
        yield "likelihood declared, empirical", _fit(sampled.fit, verdict)
    if sampled.repeats:
        yield "generator", _generator(sampled.repeats)


def sentence(verdict: Verdict) -> str:
    """Return the verdict in one line."""
    return verdict.text


def _exact(verdict: Verdict) -> str:
    if verdict.exact is None:
        return "unknown: too many possible reports to enumerate"
    fits = {True: "", False: "; no probabilities fit it", None: ""}[verdict.exact.consistent]
    return f"{verdict.exact.epsilon:.4g} over all {verdict.exact.reports:,} possible reports{fits}"


def _tuples(found: TupleEpsilon | None) -> Iterator[tuple[str, str]]:
    """Yield the epsilons of a mechanism for several attributes."""
    if found:
        yield "ε of whole tuples", f"{found.epsilon:.4g}, exact"
        yield "ε of tuples that differ in one attribute", f"{found.single_attribute_epsilon:.4g}, exact"
        yield "ε in the literature", f"{found.claimed_epsilon:.4g}"


def _tried(verdict: Verdict) -> str:
    tried, screened = len(verdict.objects), verdict.screened
    found = f"{tried:,} of {verdict.universe:,}"
    return found if screened <= tried else f"{found}, after screening {screened:,}"


def _detectable(bound: LowerBound, declared: float) -> str:
    if not math.isfinite(declared):
        return "nothing: no finite ε is declared"
    if math.isinf(bound.detectable):
        return "no ε: the sample is too small for an event this common"
    return f"ε ≥ {bound.detectable:.4g} with 90% power, for an event this common"


def _guessed(guessed: GuessBound) -> str:
    if not guessed.guesses:
        return "none: no report is rare enough"
    return f"ε ≥ {guessed.epsilon:.4g}: {guessed.share} correct among {guessed.objects:,} objects, from {guessed.rule}"


def _share(share: SupportProbabilityCheck, verdict: Verdict) -> str:
    level = f"{100 * verdict.distribution_confidence:g}% CI"
    judged = {True: "", False: ": differs", None: ": too few objects to decide"}[share.passed]
    return f"{share.stated:.4g}, {share.low:.4g}–{share.high:.4g} ({level}){judged}"


def _fit(fit: LikelihoodFit, verdict: Verdict) -> str:
    judged = "" if fit.passed else ": differs"
    found = f"{fit.stated:.4g}, {fit.low:.4g}–{fit.high:.4g} ({100 * verdict.distribution_confidence:g}% CI)"
    return f"{found} for {fit.reports:,} reports of object {verdict.name(fit.object)}{judged}"


def _generator(repeats: Independence) -> str:
    if repeats.found:
        return "; ".join(repeats.found)
    found = (
        "reports differ for the same generator state" if repeats.foreign else "no repeats and no dependence detected"
    )
    if repeats.keys:
        return f"{found}; every bit of a key was tested"
    if not repeats.seeds:
        return f"{found}; repeated seeds are undetectable because reports are too similar"
    return f"{found}; fewer than {repeats.seeds:,} distinct seeds would have been detected"
