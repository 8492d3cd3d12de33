"""The verdict of a check: lower bounds on ε, violations, and what could have been detected."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import computed_field

from poolscope.metrics.collections import TupleEpsilon
from poolscope.metrics.models import Real, Result, UnknownReal, result
from poolscope.workflows.check.bounds import (
    GuessBound,
)
from poolscope.workflows.check.distribution import (
    ExactEpsilon,
    LikelihoodFit,
    SupportProbabilityCheck,
)
from poolscope.workflows.check.independence import (
    Independence,
)

#: Relative rounding of an exact epsilon.
ROUNDING = 1e-9
EXTERNAL_RANDOMNESS = (
    "reports depend on more than the generator: the same generator gave different reports, so that the same seed may "
    "give another verdict"
)

BATCH_DEPENDENCE = (
    "`report` gave another report for the same key when other reports of the call were omitted: outcomes of a game "
    "depend on how its users are split into blocks"
)

#: False-alarm rate below which the text states it, and the power that it leaves.
RARE = 1e-3
#: Share of the declared epsilon below which the text says how much of it could be tested.
TESTED = 0.9


@dataclass(frozen=True, kw_only=True)
class LowerBound:
    """The lower bound on ε from one event.

    epsilon : lower bound, not below 0.
    event : the event, as text.
    one, other : the objects.
    hits, trials : in how many of how many reports of one and of other the event happened.
    detectable : the smallest ε of an event as common as this one that nine in ten checks would report as a
        violation; NaN where none is declared.
    """

    epsilon: Real
    event: str
    one: int
    other: int
    hits: tuple[int, int]
    trials: tuple[int, int]
    detectable: UnknownReal


@dataclass(frozen=True, kw_only=True)
class SampledVerdict:
    """What the reports of one method show.

    method : "obfuscate" or "report".
    lower_bound : from the most distinguishing event; guessed : from guesses. None where there is a single object.
    shares : p* and q* beside samples; empty where the mechanism states none.
    fit : stated likelihoods beside samples; None where none are stated.
    repeats : whether reports are independent; None where calls of `obfuscate` have shown that already.
    apart : a warning about a few reports that differ from all others; None where there are none.
    samples : reports that were made for the empirical ε.
    """

    method: str
    lower_bound: LowerBound | None
    guessed: GuessBound | None
    shares: tuple[SupportProbabilityCheck, ...]
    fit: LikelihoodFit | None
    repeats: Independence | None
    apart: str | None
    samples: int

    @property
    def epsilon(self) -> float:
        """The largest lower bound."""
        return max((found.epsilon for found in (self.lower_bound, self.guessed) if found), default=0.0)


@result
class Verdict(Result):
    """Whether a mechanism satisfies its declared ε, and the evidence.

    Parameters
    ----------
    mechanism : its name; declared : its ε, NaN where it declares none.
    exact : the stated distribution by enumeration; None where the output space is too large.
    sampled : what reports of `obfuscate` show; its parts are the verdict's own as well.
    played : what reports of `report` show, which games use; None where `obfuscate` calls it.
    objects : the objects that were tested; names : their labels.
    universe : how many objects there are; screened : how many of them were screened for conspicuous ones.
    confidence : of the lower bounds, all together; distribution_confidence : of the comparisons with the stated
        distribution and the tests of independence, all together.
    multidimensional : the values of ε of a mechanism for several attributes, whose objects are tuples; else None.

    Examples
    --------
    >>> verdict = ps.check(mechanism, samples=2000, seed=1)
    >>> verdict.mechanism, verdict.declared, verdict.passed, verdict.violations
    ('GRR', 3.0, True, ())
    """

    mechanism: str
    declared: UnknownReal
    exact: ExactEpsilon | None
    sampled: SampledVerdict
    played: SampledVerdict | None
    objects: tuple[int, ...]
    names: tuple[str, ...]
    universe: int
    screened: int
    confidence: Real
    distribution_confidence: Real
    multidimensional: TupleEpsilon | None = None

    @property
    def lower_bound(self) -> LowerBound | None:
        return self.sampled.lower_bound

    @property
    def guessed(self) -> GuessBound | None:
        return self.sampled.guessed

    @property
    def shares(self) -> tuple[SupportProbabilityCheck, ...]:
        return self.sampled.shares

    @property
    def fit(self) -> LikelihoodFit | None:
        return self.sampled.fit

    @property
    def repeats(self) -> Independence:
        assert self.sampled.repeats is not None
        return self.sampled.repeats

    @property
    def samples(self) -> int:
        return self.sampled.samples

    @computed_field  # type: ignore[prop-decorator]
    @property
    def false_alarm_rate(self) -> Real:
        """How often a correct mechanism that spends its whole ε fails, at most."""
        return (1.0 - self.confidence) + (1.0 - self.distribution_confidence)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def testable(self) -> Real:
        """The empirical lower bound of `obfuscate`: no larger part of the declared ε could be tested."""
        return self.sampled.epsilon

    @computed_field  # type: ignore[prop-decorator]
    @property
    def violations(self) -> tuple[str, ...]:
        """What contradicts the declaration; empty where nothing does."""
        return tuple(self._violations())

    @computed_field  # type: ignore[prop-decorator]
    @property
    def passed(self) -> bool:
        return not self.violations

    @computed_field  # type: ignore[prop-decorator]
    @property
    def warnings(self) -> tuple[str, ...]:
        """Findings that are no violation of the declared ε."""
        methods = [sampled for sampled in (self.sampled, self.played) if sampled]
        found = [sampled.repeats for sampled in methods if sampled.repeats]
        foreign = (EXTERNAL_RANDOMNESS,) if any(repeats.foreign for repeats in found) else ()
        blocks = (BATCH_DEPENDENCE,) if any(repeats.blocks for repeats in found) else ()
        return foreign + blocks + tuple(sampled.apart for sampled in methods if sampled.apart)

    def name(self, object_number: int) -> str:
        """Return the label of a tested object."""
        return self.names[self.objects.index(object_number)]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def text(self) -> str:
        """The verdict in one line: PASS or FAIL, the lower bound on ε, and what was tested."""
        if not self.passed:
            return f"FAIL: {'; '.join(self.violations)}."
        sample = f"{self.samples:,} reports; {len(self.objects):,} of {self.universe:,} objects"
        if math.isinf(self.declared):
            return f"PASS: the declared ε is infinite, which promises nothing ({sample})."
        bound = f"ε ≥ {self.testable:.3g} ({100 * self.confidence:g}% confidence; {sample})"
        if math.isnan(self.declared):
            return f"PASS: no ε is declared. Empirical lower bound {bound}."
        text = f"PASS: no violation of ε = {self.declared:g} detected. Empirical lower bound {bound}."
        if self.lower_bound and self.testable < TESTED * self.declared:
            text += f" The sample can test ε up to {self.testable:.3g} only."
        return f"{text}{self._power()} A pass is not a proof."

    def _power(self) -> str:
        """Say what a check with rare false alarms detects."""
        if self.false_alarm_rate >= RARE or not self.lower_bound:
            return ""
        found = self.lower_bound.detectable
        power = (
            "no ε is detectable, so use more samples" if math.isinf(found) else f"nine in ten detect ε ≥ {found:.3g}"
        )
        return f" A correct mechanism fails at most 1 in {round(1.0 / self.false_alarm_rate):,} checks; {power}."

    def _violations(self) -> Iterator[str]:
        if self.exact and self.exact.epsilon > self.declared * (1.0 + ROUNDING):
            yield f"the stated distribution has ε = {self.exact.epsilon:.4g}, the declared ε is {self.declared:g}"
        if self.exact and self.exact.consistent is False:
            yield "no probabilities match the stated likelihoods and p*"
        yield from self._found(self.sampled, "")
        if self.played:
            yield from self._found(self.played, "`report`, which games use: ")

    def _found(self, sampled: SampledVerdict, prefix: str) -> Iterator[str]:
        """Yield the violations in the reports of one method."""
        level, exceeds = f"{100 * self.confidence:g}% confidence", f"exceeds the declared ε = {self.declared:g}"
        if (shown := sampled.lower_bound) and shown.epsilon > self.declared:
            pair = f"{self.name(shown.one)} against {self.name(shown.other)}"
            yield f"{prefix}ε ≥ {shown.epsilon:.3g} ({level}) {exceeds} ({pair}, event: {shown.event})"
        if (guessed := sampled.guessed) and guessed.epsilon > self.declared:
            limit = 1.0 / (1.0 + (guessed.objects - 1) * math.exp(-self.declared))
            right = f"{guessed.share} guesses are correct among {guessed.objects:,} objects, limit {100 * limit:.3g}%"
            yield f"{prefix}ε ≥ {guessed.epsilon:.3g} ({level}) by guesses {exceeds} ({right}, from {guessed.rule})"
        for share in sampled.shares:
            if share.passed is False:
                yield f"{prefix}samples do not match the stated {share.name}"
        if (fit := sampled.fit) and not fit.passed:
            stated = f"of reports with posterior {fit.stated:.3g} for {self.name(fit.object)}"
            yield f"{prefix}samples do not match the stated likelihoods: {stated}, {fit.low:.3g} to {fit.high:.3g} are"
        for found in sampled.repeats.found if sampled.repeats else ():
            yield f"{prefix}{found}"
