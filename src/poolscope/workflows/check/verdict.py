"""What a check found, and whether the promise is kept."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from poolscope.workflows.check.distribution import Exact, Share
from poolscope.workflows.check.fit import Fit
from poolscope.workflows.check.guesses import Guessed
from poolscope.workflows.check.repeats import Repeats

#: Relative rounding of an exact epsilon.
ROUNDING = 1e-9
FOREIGN = (
    "it depends on something else than its generator: the same generator gave other reports, so the same seed may give "
    "another verdict"
)
BLOCKS = (
    "`report` gave another report for the same key when other reports of the call were left out: outcomes of a game "
    "depend on how its users are split into blocks"
)
#: Share of the claimed epsilon below which a check says that no more of it could be tested.
TESTED = 0.9


@dataclass(frozen=True, kw_only=True)
class LowerBound:
    """What the samples prove: an event that one object causes more often than another.

    epsilon : lower bound, not below 0.
    event : the event in words.
    one, other : the objects.
    hits, trials : in how many of how many reports of one and of other the event happened.
    detectable : the smallest epsilon of an event as common as this one that nine in ten checks would call broken; NaN
        where none is claimed.
    """

    epsilon: float
    event: str
    one: int
    other: int
    hits: tuple[int, int]
    trials: tuple[int, int]
    detectable: float


@dataclass(frozen=True, kw_only=True)
class Sampled:
    """What the reports of one method show.

    method : "obfuscate" or "report".
    lower_bound : what the most telling event proves, and guessed : what guesses prove; None where there is a single
        object.
    shares : p* and q* beside samples; empty where the mechanism states none.
    fit : stated likelihoods beside samples; None where none are stated.
    repeats : whether reports are independent; None where calls of `obfuscate` have shown that already.
    apart : a few reports that differ from all others, in words; None where there are none.
    samples : reports that were made for the sampled epsilon.
    """

    method: str
    lower_bound: LowerBound | None
    guessed: Guessed | None
    shares: tuple[Share, ...]
    fit: Fit | None
    repeats: Repeats | None
    apart: str | None
    samples: int

    @property
    def epsilon(self) -> float:
        """The largest lower bound."""
        return max((found.epsilon for found in (self.lower_bound, self.guessed) if found), default=0.0)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether a mechanism keeps its promise, and how that is known.

    Parameters
    ----------
    mechanism : its name; declared : its epsilon, NaN where it claims none.
    exact : the stated law by enumeration; None where its reports are too many.
    sampled : what reports of `obfuscate` show; its parts are the verdict's own as well.
    played : what reports of `report` show, which games play; None where `obfuscate` is made of it.
    objects : the objects that were tried; names : what they are called.
    universe : how many objects there are; screened : how many of them were looked at for those that stand out.
    confidence : of the lower bounds, all together.

    Examples
    --------
    >>> verdict = ps.check(mechanism, samples=2000, seed=1)
    >>> verdict.mechanism, verdict.declared, verdict.passed, verdict.violations
    ('GRR', 3.0, True, ())
    """

    mechanism: str
    declared: float
    exact: Exact | None
    sampled: Sampled
    played: Sampled | None
    objects: tuple[int, ...]
    names: tuple[str, ...]
    universe: int
    screened: int
    confidence: float

    @property
    def lower_bound(self) -> LowerBound | None:
        return self.sampled.lower_bound

    @property
    def guessed(self) -> Guessed | None:
        return self.sampled.guessed

    @property
    def shares(self) -> tuple[Share, ...]:
        return self.sampled.shares

    @property
    def fit(self) -> Fit | None:
        return self.sampled.fit

    @property
    def repeats(self) -> Repeats:
        assert self.sampled.repeats is not None
        return self.sampled.repeats

    @property
    def samples(self) -> int:
        return self.sampled.samples

    @property
    def testable(self) -> float:
        """How much of the claimed epsilon the samples have seen spent: no more of it could be tested."""
        return self.sampled.epsilon

    @property
    def violations(self) -> tuple[str, ...]:
        """Why the promise is broken; empty where it is kept."""
        return tuple(self._violations())

    @property
    def passed(self) -> bool:
        return not self.violations

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is no breach but should be known."""
        methods = [sampled for sampled in (self.sampled, self.played) if sampled]
        found = [sampled.repeats for sampled in methods if sampled.repeats]
        foreign = (FOREIGN,) if any(repeats.foreign for repeats in found) else ()
        blocks = (BLOCKS,) if any(repeats.blocks for repeats in found) else ()
        return foreign + blocks + tuple(sampled.apart for sampled in methods if sampled.apart)

    def name(self, object_number: int) -> str:
        """What a tried object is called."""
        return self.names[self.objects.index(object_number)]

    def _violations(self) -> Iterator[str]:
        if self.exact and self.exact.epsilon > self.declared * (1.0 + ROUNDING):
            yield f"its stated law has epsilon {self.exact.epsilon:.4g}, it claims {self.declared:g}"
        if self.exact and self.exact.consistent is False:
            yield "no probabilities fit its stated likelihoods and p*"
        yield from self._found(self.sampled, "")
        if self.played:
            yield from self._found(self.played, "`report`, which games play: ")

    def _found(self, sampled: Sampled, prefix: str) -> Iterator[str]:
        """What contradicts the promise in the reports of one method."""
        sure = f"{100 * self.confidence:g} %"
        if sampled.lower_bound and sampled.lower_bound.epsilon > self.declared:
            least = f"an epsilon of at least {sampled.lower_bound.epsilon:.3g} ({sure})"
            yield f"{prefix}samples show {least}, it claims {self.declared:g}"
        if sampled.guessed and sampled.guessed.epsilon > self.declared:
            yield f"{prefix}guesses {self._guesses(sampled.guessed)} ({sure}), it claims {self.declared:g}"
        for share in sampled.shares:
            if share.passed is False:
                yield f"{prefix}samples do not follow its stated {share.name}"
        if sampled.fit and not sampled.fit.passed:
            fit = sampled.fit
            stated = f"of reports that its law gives to {self.name(fit.object)} with probability {fit.stated:.3g}"
            yield f"{prefix}samples do not fit its stated likelihoods: {stated}, {fit.low:.3g} to {fit.high:.3g} are"
        for found in sampled.repeats.found if sampled.repeats else ():
            yield f"{prefix}{found}"

    def _guesses(self, guessed: Guessed) -> str:
        most = 1.0 / (1.0 + (guessed.objects - 1) * math.exp(-self.declared))
        right = f"of {guessed.rule}, {guessed.share} are guessed right among {guessed.objects:,} objects"
        return f"show an epsilon of at least {guessed.epsilon:.3g}: {right}, where at most {most:.3g} may be"
