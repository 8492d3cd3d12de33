"""What a person sees of a check."""

from __future__ import annotations

import math

from rich.table import Table
from rich.text import Text

from poolscope.cli.terminal import Terminal
from poolscope.verbs.check.check import Verdict
from poolscope.verbs.check.fit import Fit
from poolscope.verbs.check.law import LAW_CONFIDENCE, Share
from poolscope.verbs.check.repeats import Repeats


def print_verdict(verdict: Verdict) -> None:
    """A small table of what was found, and one sentence."""
    console = Terminal()
    table = Table(title=f"Does {verdict.mechanism} keep its promise?", title_justify="left", show_header=False)
    table.add_column()
    table.add_column(overflow="fold")
    for name, value in rows(verdict):
        table.add_row(name, value)
    console.print(table)
    console.print(Text(sentence(verdict), style="" if verdict.kept else "bold red"), soft_wrap=True)
    for warning in verdict.warnings:
        console.print(Text(f"Warning: {warning}.", style="yellow"), soft_wrap=True)


def rows(verdict: Verdict) -> list[tuple[str, str]]:
    """What was found, a line each."""
    sure = f"{100 * verdict.confidence:g} %"
    out = [("claimed epsilon", f"{verdict.claimed:g}"), ("stated epsilon", _exact(verdict))]
    shown = verdict.shown
    if shown:
        out += [
            (f"sampled epsilon ({sure})", f"at least {shown.epsilon:.4g}"),
            ("most telling event", shown.event),
            *(
                (f"  from object {z}", f"in {hits:,} of {trials:,} reports")
                for z, hits, trials in zip((shown.one, shown.other), shown.hits, shown.trials, strict=True)
            ),
        ]
    out += [(f"{share.name} stated, sampled", _share(share)) for share in verdict.shares]
    if verdict.fit:
        out.append(("likelihood stated, sampled", _fit(verdict.fit)))
    return [*out, ("generator", _generator(verdict.repeats))]


def sentence(verdict: Verdict) -> str:
    """Kept or broken, and why."""
    if not verdict.kept:
        return f"Broken: {'; '.join(verdict.reasons)}."
    made = f"{verdict.samples:,} reports of {len(verdict.objects):,} objects"
    if math.isinf(verdict.claimed):
        return f"Kept: the claimed epsilon is infinite, which promises nothing ({made})."
    lower = verdict.shown.epsilon if verdict.shown else 0.0
    if math.isnan(verdict.claimed):
        return f"It claims no epsilon; {made} prove that it is at least {lower:.3g} ({100 * verdict.confidence:g} %)."
    spent = f"{made} prove that at least {lower:.3g} of it is spent ({100 * verdict.confidence:g} %)"
    return f"Kept: nothing contradicts the claimed epsilon of {verdict.claimed:g}; {spent}."


def _exact(verdict: Verdict) -> str:
    if verdict.exact is None:
        return "not known: too many reports to go through them"
    fits = {True: "", False: "; no probabilities fit it", None: ""}[verdict.exact.consistent]
    return f"{verdict.exact.epsilon:.4g} over all {verdict.exact.reports:,} reports{fits}"


def _share(share: Share) -> str:
    judged = {True: "", False: ": differs", None: ": too few objects to judge"}[share.kept]
    return f"{share.stated:.4g}, {share.low:.4g} to {share.high:.4g} ({100 * LAW_CONFIDENCE:g} %){judged}"


def _fit(fit: Fit) -> str:
    judged = "" if fit.kept else ": differs"
    found = f"{fit.stated:.4g}, {fit.low:.4g} to {fit.high:.4g} ({100 * LAW_CONFIDENCE:g} %)"
    return f"{found} of {fit.reports:,} reports are object {fit.object}'s{judged}"


def _generator(repeats: Repeats) -> str:
    if repeats.found:
        return "; ".join(repeats.found)
    return "not the only source of randomness" if repeats.foreign else "every report is drawn anew"
