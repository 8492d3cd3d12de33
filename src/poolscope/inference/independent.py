"""The paper's attack on independent reports, the protocol of attacks, and decisions by posteriors.

The true preferences are unknown here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from poolscope.core.arguments import as_counts
from poolscope.core.arrays import Floats, Integers, Keys, Tick
from poolscope.core.errors import InputError
from poolscope.core.executors import Local
from poolscope.core.randomness import KeyStream, children
from poolscope.devices.policy import ReportedEvents
from poolscope.devices.protocols import Device, draws_fresh, fresh_keys
from poolscope.inference.adversary import Adversary, posterior_block, stacked_pool_weights
from poolscope.kernels import decision as kernels
from poolscope.mechanisms.checking import checked_reports
from poolscope.mechanisms.protocols import Mechanism, PoolWeights, Reports, report_count
from poolscope.reports.files import sent_masses

#: Largest number of users of a block for any attack; larger blocks would save nothing.
MAX_USERS = 16384


class BlockPosteriors(NamedTuple):
    """An adversary's posteriors after every report, computed for a slice of a block's users at a time.

    compute : slice of users -> posteriors (users, n + 1, k) of the current pseudonym, whose rows beyond a user's
        reports repeat the last; and their Monte Carlo standard errors, of the same shape, or None.
    chunk_users : number of users that a thread should compute at a time.
    rotate_after : reports after which the adversary only knows what a new pseudonym has sent; None for never.
    sampled : whether the posteriors have Monte Carlo errors.
    slices : the slices to compute, in order, where not any `chunk_users` users can be computed together.
    """

    compute: Callable[[slice], tuple[Floats, Floats | None]]
    chunk_users: int
    rotate_after: int | None = None
    sampled: bool = False
    slices: tuple[slice, ...] | None = None

    def chunks(self, users: int) -> tuple[slice, ...]:
        """Return the slices of this many users that are computed one at a time."""
        if self.slices is not None:
            return self.slices
        return tuple(slice(a, min(a + self.chunk_users, users)) for a in range(0, users, self.chunk_users))


class DeviceAttack(Protocol):
    """The attack on the reports of one kind of device."""

    @property
    def max_users(self) -> int:
        """Largest number of users of a block."""
        ...

    @property
    def precomputed_share(self) -> float:
        """Share of the work on a block that is complete when `posteriors` returns."""
        ...

    def posterior(
        self, reports: Reports, adversary: Adversary, lengths: Integers | None, observations: Sequence[int] | None
    ) -> Floats:
        """Return posteriors (users, rows, k) from given reports, as the function `posterior` does."""
        ...

    def posteriors(
        self,
        sent: ReportedEvents,
        keys: Keys,
        adversaries: Sequence[Adversary],
        observations: Sequence[int],
        engine: Local,
        tick: Tick,
    ) -> list[BlockPosteriors]:
        """Return what each adversary infers from the reports of the devices of users with these keys.

        Rows between the observation counts need not be computed: they may repeat the last that was. `tick` receives
        `precomputed_share` for each user.
        """
        ...


#: Users whose posteriors a thread holds at a time, and the largest size of these in bytes.
CHUNK, CHUNK_BYTES = 256, 64 << 20

#: Parts of a block's reports per thread, for load balancing.
PARTS = 4


@dataclass(frozen=True, eq=False)
class IndependentReportsAttack:
    """Multiply the likelihoods of all reports; one pass over the block sums the masses of all adversaries."""

    device: Device

    max_users: ClassVar[int] = MAX_USERS
    precomputed_share: ClassVar[float] = 0.5

    def posterior(
        self, reports: Reports, adversary: Adversary, lengths: Integers | None, observations: Sequence[int] | None
    ) -> Floats:
        return posterior_of_independent_reports(self.device.mechanism, reports, adversary, lengths, observations)

    def posteriors(
        self,
        sent: ReportedEvents,
        keys: Keys,
        adversaries: Sequence[Adversary],
        observations: Sequence[int],
        engine: Local,
        tick: Tick,
    ) -> list[BlockPosteriors]:
        mechanism, (users, n) = self.device.mechanism, sent.objects.shape
        view, columns = stacked_pool_weights(adversaries)
        mass = self._masses(sent, keys, view, engine, tick).reshape(users, n, view.width)

        def posteriors_of(adversary: Adversary, own: slice) -> BlockPosteriors:
            def attack(some: Floats, lengths: Integers) -> Floats:
                return posterior_block(mechanism, adversary, some, lengths)

            def compute(rows: slice) -> tuple[Floats, None]:
                return posterior_by_pseudonym(attack, mass[rows, :, own], sent.lengths[rows], sent.rotate_after), None

            return BlockPosteriors(compute, users_per_chunk(n, len(adversary.hypotheses)), sent.rotate_after)

        return [posteriors_of(adversary, own) for adversary, own in zip(adversaries, columns, strict=True)]

    def _masses(self, sent: ReportedEvents, keys: Keys, view: PoolWeights, engine: Local, tick: Tick) -> Floats:
        """Return (users * n, width) popularity masses of all reports, zero where there is none."""
        mechanism, (users, n) = self.device.mechanism, sent.objects.shape
        limited, there = bool((sent.lengths < n).any()), sent.mask.ravel()
        if draws_fresh(self.device):
            drawn, objects = fresh_keys(keys[:, None], sent.event_index).ravel(), sent.objects.ravel()
            if limited:
                drawn, objects = drawn[there], objects[there]
            parts, done = PARTS * engine.threads, self.precomputed_share * users / max(1, len(drawn))
            mass = sent_masses(mechanism, objects, drawn, view, engine.map, parts, lambda reports: tick(done * reports))
        else:
            # the reports come from a custom device, and the adversary only knows its mechanism
            reports = checked_reports(mechanism, sent.reports(self.device, keys))
            if report_count(reports) != sent.lengths.sum():
                rule = f"a device must send a report for each of {sent.lengths.sum()} objects"
                raise InputError(rule, value=report_count(reports))
            mass = mechanism.mass(reports, view)
            tick(self.precomputed_share * users)
        if not limited:
            return mass
        table = np.zeros((users * n, view.width))
        table[there] = mass
        return table


def posterior_of_independent_reports(
    mechanism: Mechanism,
    reports: Reports,
    adversary: Adversary,
    lengths: Integers | None,
    observations: Sequence[int] | None,
    window: int | None = None,
) -> Floats:
    """Return posteriors (users, rows, k) of an adversary who takes reports as independent; see `attack.posterior`.

    With a window they restart from the prior after that many reports.
    """
    view, _ = stacked_pool_weights([adversary])
    mass = mechanism.mass(reports, view)
    counts = lengths_of(lengths, len(mass))
    longest = int(counts.max(initial=0))
    table = np.zeros((len(counts), longest, view.width))
    table[np.arange(longest) < counts[:, None]] = mass

    def attack(some: Floats, sizes: Integers) -> Floats:
        return posterior_block(mechanism, adversary, some, sizes)

    out = posterior_by_pseudonym(attack, table, counts, window)
    if observations is None:
        return out
    return out[:, np.minimum(observations, longest)]


def posterior_by_pseudonym(
    attack: Callable[[NDArray[Any], Integers], Floats], table: NDArray[Any], lengths: Integers, window: int | None
) -> Floats:
    """Return posteriors (users, n + 1, k) after every report, each of the pseudonym that sent it.

    Parameters
    ----------
    attack : maps a table (any, reports, ...) and the number of reports of each row to posteriors (any, reports + 1, k).
    table : (users, n, ...) the attack's input for each report.
    lengths : (users,) reports of each user; rows beyond repeat the last one.
    window : reports of a pseudonym; None where a user has a single one.
    """
    users, n, *rest = table.shape
    if window is None or window >= n:
        return repeat_last(attack(table, lengths), lengths)
    pseudonyms = -(-n // window)
    cut = np.zeros((users, pseudonyms * window, *rest), dtype=table.dtype)
    cut[:, :n] = table
    sizes = np.clip(lengths[:, None] - window * np.arange(pseudonyms), 0, window)
    found = attack(cut.reshape(users * pseudonyms, window, *rest), sizes.ravel())
    k = found.shape[2]
    after_each = found.reshape(users, pseudonyms, window + 1, k)[:, :, 1:].reshape(users, pseudonyms * window, k)
    # the first row is the prior of the first pseudonym; the priors of later ones are left out
    return repeat_last(np.concatenate([found[::pseudonyms, :1], after_each[:, :n]], axis=1), lengths)


def repeat_last(posterior: Floats, lengths: Integers) -> Floats:
    """Repeat the posterior after each user's last report in all rows beyond, in place."""
    for user in np.flatnonzero(lengths < posterior.shape[1] - 1):
        posterior[user, lengths[user] + 1 :] = posterior[user, lengths[user]]
    return posterior


def reports_at_longest_pseudonym(reports: Integers, window: int | None) -> Integers:
    """Return the number of reports at which the longest pseudonym was complete; the newest, where several are as long.

    That is the end of the last full window, and before any is full the current number of reports.
    """
    return reports if window is None else np.where(reports < window, reports, reports // window * window)


def users_per_chunk(n: int, k: int) -> int:
    """Return the number of users whose posteriors over k pools after n reports a thread computes at a time."""
    return max(1, min(CHUNK, CHUNK_BYTES // (8 * (n + 1) * k)))


def lengths_of(lengths: Integers | None, count: int) -> Integers:
    """Return (users,) reports of each user, which add up to `count`; a single user by default."""
    if lengths is None:
        return np.array([count])
    found = as_counts("lengths", lengths)
    if found.sum() != count:
        raise InputError(f"lengths must add up to the {count} reports", value=int(found.sum()))
    return found


def posterior_or_prior(posterior: Floats, adversary: Adversary) -> Floats:
    """Return the posterior (..., hypotheses); the prior where it is NaN: the model excludes the reports."""
    return np.where(np.isnan(posterior), adversary.prior, posterior)


def guesses(posterior: Floats, users: Keys, counts: Integers) -> tuple[Integers, Floats]:
    """Return the pool of the largest posterior and its confidence, (users, observations).

    Ties in posteriors (users, observations, k) are broken at random, by the users' keys and the number of reports:
    `counts` (users, observations). A guess is thus independent of what else is evaluated.
    """
    guess = np.empty(posterior.shape[:2], dtype=np.int64)
    confidence = np.empty(guess.shape)
    # a kernel is compiled again for each layout of its arguments, and for those that cannot be written
    table, used = np.ascontiguousarray(posterior), np.require(counts, requirements=["C", "W"])
    kernels.guesses(table, children(users, KeyStream.GUESS), used, guess, confidence)
    return guess, confidence


class Decision(NamedTuple):
    """What an adversary concludes about some users after some of their reports.

    posterior : (users, observations, hypotheses), the prior where the adversary's model excludes the reports.
    guess, confidence : (users, observations) the pool of the largest posterior, and that posterior.
    mcse : (users, observations) the standard error of the confidence; None where nothing is sampled.
    exposed : (1, users, thresholds) the first row of posteriors that reaches each threshold, -1 for never. With errors
        it is (3, users, thresholds): also for the posteriors plus and minus their error.
    """

    posterior: Floats
    guess: Integers
    confidence: Floats
    mcse: Floats | None
    exposed: NDArray[np.int32]


def decide(
    adversary: Adversary,
    posterior: Floats,
    mcse: Floats | None,
    rows: Integers,
    counts: Integers,
    keys: Keys,
    thresholds: Floats,
) -> Decision:
    """Return guesses with their confidence, and who is exposed: for the game, for files and for a single user.

    Parameters
    ----------
    posterior, error : (users, n, hypotheses) after more and more reports, and their standard error where sampled.
    rows, counts : (users, observations) the rows of these to decide by, and their numbers of reports.
    keys : (users,) keys that break ties.
    thresholds : confidences, increasing.
    """
    belief = posterior_or_prior(np.take_along_axis(posterior, rows[:, :, None], axis=1), adversary)
    guess, confidence = guesses(belief, keys, counts)
    of_guess = None
    if mcse is not None:
        selected = np.take_along_axis(mcse, rows[:, :, None], axis=1)
        of_guess = np.take_along_axis(selected, guess[:, :, None], axis=2)[:, :, 0]
    shifted = [posterior] if mcse is None else [posterior, posterior + mcse, posterior - mcse]
    exposed = np.empty((len(shifted), len(posterior), len(thresholds)), dtype=np.int32)
    for values, out in zip(shifted, exposed, strict=True):
        # confidence in the hypothesis of no preferred pool exposes nobody
        kernels.first_confident(values[:, :, : adversary.k], thresholds, out)
    return Decision(belief, guess, confidence, of_guess, exposed)
