"""The paper's attack on independent reports, the protocol of attacks, and what an adversary decides by posteriors.

Nothing here knows the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from poolscope.core.arguments import as_counts
from poolscope.core.arrays import Floats, Integers, Keys, Tick
from poolscope.core.errors import InputError
from poolscope.core.executors import Local
from poolscope.core.randomness import KeyStream, children
from poolscope.devices.policy import ReportBatch
from poolscope.devices.protocols import Device, draws_fresh, fresh_keys
from poolscope.inference.adversary import Adversary, posterior_block, views
from poolscope.inference.pseudonyms import in_windows
from poolscope.kernels import decision as kernels
from poolscope.mechanisms.checking import checked_reports
from poolscope.mechanisms.protocols import Mechanism, PoolWeights, Reports, report_count
from poolscope.reports.files import sent_masses

#: Users of a block at most, whatever is attacked; more would save nothing.
MAX_USERS = 16384


class Posteriors(NamedTuple):
    """An adversary's posteriors after every report, worked out for some users of a block at a time.

    of : some of the users -> (users, n + 1, k), of the pseudonym that sends; rows beyond a user's reports repeat the
        last. Beside them the standard error, of the same shape, that chance in the attack leaves them with.
    at_once : how many of them a thread had best ask for.
    window : after how many reports the adversary knows of a new pseudonym only what that has sent; None: never.
    sampled : whether chance has a part in the attack; else there is no error beside the posteriors.
    """

    of: Callable[[slice], tuple[Floats, Floats | None]]
    at_once: int
    window: int | None = None
    sampled: bool = False


class Attack(Protocol):
    """How the reports of one kind of device are attacked."""

    @property
    def max_users(self) -> int:
        """Users of a block at most."""
        ...

    @property
    def prepared(self) -> float:
        """Share of the work on a block that is done when `posteriors` returns."""
        ...

    def posterior(
        self, reports: Reports, adversary: Adversary, lengths: Integers | None, observations: Sequence[int] | None
    ) -> Floats:
        """Posteriors (users, rows, k) from given reports, as the function `posterior` has them."""
        ...

    def posteriors(
        self,
        sent: ReportBatch,
        keys: Keys,
        adversaries: Sequence[Adversary],
        observations: Sequence[int],
        engine: Local,
        tick: Tick,
    ) -> list[Posteriors]:
        """What each adversary makes of what the devices of the users of these keys send.

        Rows between the observation counts need not be worked out: they may repeat the last that was. For each user
        `tick` is told `prepared`.
        """
        ...


#: Users whose posteriors after every report are held at once, by each thread, and the bytes that these may take.
CHUNK, CHUNK_BYTES = 256, 64 << 20

#: Parts of a block's reports for each thread: some take longer than others.
PARTS = 4


@dataclass(frozen=True, eq=False)
class IndependentReportsAttack:
    """Every report adds its likelihood; the popularity masses of all adversaries come from one pass over the block."""

    device: Device

    max_users: ClassVar[int] = MAX_USERS
    prepared: ClassVar[float] = 0.5

    def posterior(
        self, reports: Reports, adversary: Adversary, lengths: Integers | None, observations: Sequence[int] | None
    ) -> Floats:
        return posterior_of_each(self.device.mechanism, reports, adversary, lengths, observations)

    def posteriors(
        self,
        sent: ReportBatch,
        keys: Keys,
        adversaries: Sequence[Adversary],
        observations: Sequence[int],
        engine: Local,
        tick: Tick,
    ) -> list[Posteriors]:
        mechanism, (users, n) = self.device.mechanism, sent.objects.shape
        view, columns = views(adversaries)
        mass = self._masses(sent, keys, view, engine, tick).reshape(users, n, view.width)

        def of(adversary: Adversary, own: slice) -> Posteriors:
            def attack(some: Floats, lengths: Integers) -> Floats:
                return posterior_block(mechanism, adversary, some, lengths)

            def some(rows: slice) -> tuple[Floats, None]:
                return in_windows(attack, mass[rows, :, own], sent.lengths[rows], sent.rotate_after), None

            return Posteriors(some, at_once(n, len(adversary.hypotheses)), sent.rotate_after)

        return [of(adversary, own) for adversary, own in zip(adversaries, columns, strict=True)]

    def _masses(self, sent: ReportBatch, keys: Keys, view: PoolWeights, engine: Local, tick: Tick) -> Floats:
        """(users * most, width) popularity masses of all reports, zero where there is none."""
        mechanism, (users, n) = self.device.mechanism, sent.objects.shape
        limited, there = bool((sent.lengths < n).any()), sent.there.ravel()
        if draws_fresh(self.device):
            drawn, objects = fresh_keys(keys[:, None], sent.event_index).ravel(), sent.objects.ravel()
            if limited:
                drawn, objects = drawn[there], objects[there]
            parts, done = PARTS * engine.threads, self.prepared * users / max(1, len(drawn))
            mass = sent_masses(mechanism, objects, drawn, view, engine.map, parts, lambda reports: tick(done * reports))
        else:
            # a device of the caller's own sends what it sends, and the adversary knows the mechanism only
            reports = checked_reports(mechanism, sent.reports(self.device, keys))
            if report_count(reports) != sent.lengths.sum():
                rule = f"a device must send a report for each of {sent.lengths.sum()} objects"
                raise InputError(rule, value=report_count(reports))
            mass = mechanism.mass(reports, view)
            tick(self.prepared * users)
        if not limited:
            return mass
        table = np.zeros((users * n, view.width))
        table[there] = mass
        return table


def posterior_of_each(
    mechanism: Mechanism,
    reports: Reports,
    adversary: Adversary,
    lengths: Integers | None,
    observations: Sequence[int] | None,
    window: int | None = None,
) -> Floats:
    """Posteriors (users, rows, k) of an adversary to whom every report stands alone, see `attack.posterior`.

    With a window they start anew after so many reports.
    """
    view, _ = views([adversary])
    mass = mechanism.mass(reports, view)
    counts = lengths_of(lengths, len(mass))
    longest = int(counts.max(initial=0))
    table = np.zeros((len(counts), longest, view.width))
    table[np.arange(longest) < counts[:, None]] = mass

    def attack(some: Floats, sizes: Integers) -> Floats:
        return posterior_block(mechanism, adversary, some, sizes)

    out = in_windows(attack, table, counts, window)
    if observations is None:
        return out
    return out[:, np.minimum(observations, longest)]


def at_once(n: int, k: int) -> int:
    """Users whose posteriors over k pools after n reports a thread holds at once."""
    return max(1, min(CHUNK, CHUNK_BYTES // (8 * (n + 1) * k)))


def lengths_of(lengths: Integers | None, count: int) -> Integers:
    """(users,) reports of each user, of so many in all; one user where absent."""
    if lengths is None:
        return np.array([count])
    found = as_counts("lengths", lengths)
    if found.sum() != count:
        raise InputError(f"lengths must add up to the {count} reports", value=int(found.sum()))
    return found


def believed(posterior: Floats, adversary: Adversary) -> Floats:
    """The posterior (..., hypotheses); where it is NaN, as the adversary's model excludes the reports, its prior."""
    return np.where(np.isnan(posterior), adversary.prior, posterior)


def guesses(posterior: Floats, users: Keys, counts: Integers) -> tuple[Integers, Floats]:
    """Pool of the largest posterior and its confidence, (users, observations), of posteriors (users, observations, k).

    Ties are broken at random, by the users' keys and the reports that each posterior is of: `counts` (users,
    observations). So a guess does not hang on what else is asked for.
    """
    guess = np.empty(posterior.shape[:2], dtype=np.int64)
    confidence = np.empty(guess.shape)
    kernels.guesses(posterior, children(users, KeyStream.GUESS), counts, guess, confidence)
    return guess, confidence


class Decision(NamedTuple):
    """What an adversary makes of some users after some of their reports.

    posterior : (users, observations, hypotheses), the prior where the adversary's model excludes the reports.
    guess, confidence : (users, observations) the pool of the largest posterior, and that posterior.
    error : (users, observations) the standard error of the confidence; None where nothing is sampled.
    exposed : (1, users, thresholds) the first row of posteriors that reaches each threshold, -1 for never; where there
        is an error (3, users, thresholds), also with the posteriors more, and less, by their error.
    """

    posterior: Floats
    guess: Integers
    confidence: Floats
    error: Floats | None
    exposed: NDArray[np.int32]


def decide(
    adversary: Adversary,
    posterior: Floats,
    error: Floats | None,
    rows: Integers,
    counts: Integers,
    keys: Keys,
    thresholds: Floats,
) -> Decision:
    """Guesses of the game, of files and of a single user, with their confidence, and who is exposed.

    Parameters
    ----------
    posterior, error : (users, n, hypotheses) after more and more reports, and their standard error where sampled.
    rows, counts : (users, observations) the rows of these that are asked for, and how many reports each is of.
    keys : (users,) theirs, which break ties; thresholds : confidences, increasing.
    """
    belief = believed(np.take_along_axis(posterior, rows[:, :, None], axis=1), adversary)
    guess, confidence = guesses(belief, keys, counts)
    of_guess = None
    if error is not None:
        asked = np.take_along_axis(error, rows[:, :, None], axis=1)
        of_guess = np.take_along_axis(asked, guess[:, :, None], axis=2)[:, :, 0]
    shifted = [posterior] if error is None else [posterior, posterior + error, posterior - error]
    exposed = np.empty((len(shifted), len(posterior), len(thresholds)), dtype=np.int32)
    for values, out in zip(shifted, exposed, strict=True):
        # to be sure that a user prefers no pool exposes nobody
        kernels.first_sure(values[:, :, : adversary.k], thresholds, out)
    return Decision(belief, guess, confidence, of_guess, exposed)
