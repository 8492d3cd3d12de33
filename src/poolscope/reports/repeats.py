r"""Equal reports of one user, compared with what devices with and without memoization send.

Let x be the share of equal pairs among a user's pairs of reports. A fresh device draws every report independently, so
that two reports of objects z and z' are equal with probability :math:`\sum_y P(y|z) P(y|z') \le \max_z \sum_y
P(y|z)^2`: no behavior makes more equal pairs than always picking the same object. A memoizing device sends equal
reports for equal objects: whatever a user prefers, x is at least :math:`1 / \sum_i 1 / \sum_z \varphi_i(z)^2` with a
popularity :math:`\varphi_i` within pool i, and at least 1 / (number of objects) for an unknown popularity.

**Exact bounds.** The pairs of n reports can be arranged in rounds of n / 2 disjoint pairs. By Hoeffding's argument for
U-statistics, the mean over all pairs has the tails of one round: with M the pairs of one round of all users,
:math:`\Pr[x \ge a] \le \exp(-M \, \mathrm{KL}(a, c))` for a probability c of equal pairs, and the same below. With a
small output space, equal reports are common in any case. Then the number of reports that repeat an earlier one is
compared as well. It is largest for a single object (by Hölder's inequality), and one report changes it by at most 1
(McDiarmid's inequality). Its expectation for a fresh device is simulated.

**Duplicate rows.** If all rows were delivered k times, all multiplicities are multiples of k. If some rows were
delivered twice, there are pairs but no triples, whereas memoization with as many equal pairs makes at least a share
:math:`x^2` of equal triples.

The bounds assume that a user picks objects independently.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, rel_entr

from poolscope.core.arrays import Floats, Integers, Keys
from poolscope.core.randomness import user_keys
from poolscope.devices.protocols import Device, IdenticalReports, memoizes
from poolscope.kernels.hashing import hash_names
from poolscope.mechanisms.grr import GRR
from poolscope.mechanisms.protocols import Mechanism, Reports, report_count
from poolscope.reports.findings import DUPLICATES, MEMOIZATION, Finding
from poolscope.reports.frequencies import channel_of

#: Reports of a user that are checked; simulated reports per object; the same where equal pairs are common; number
#: of simulated objects; and the probability from which on equal pairs are common.
MAX_REPORTS, SIMULATED, SIMULATED_IF_COMMON, OBJECTS, COMMON = 1 << 10, 1 << 12, 1 << 16, 4, 1e-3

#: Reports in one chunk of the simulation: they may be wide, and only their hashes are kept.
BATCH = 1 << 9

#: Standard errors, and equal pairs, that are added to a simulated probability.
DEVIATIONS, EXTRA_PAIRS = 5.0, 5.0

#: Duplicate rows: minimum number of groups of equal reports, of users with a minimum number of distinct reports; the
#: share of groups whose size must be a multiple; the largest multiple.
MIN_GROUPS, MIN_DISTINCT, MULTIPLES, MAX_COPIES = 30, 3, 0.98, 5

#: Minimum number of expected triples, and the share of them up to which copies are duplicate rows.
MIN_TRIPLES, MAX_TRIPLE_SHARE = 15.0, 0.05

#: Share of the copies that must follow the original directly to be called consecutive.
CONSECUTIVE = 0.9


class EqualReports(NamedTuple):
    """Groups of equal reports of the same user.

    Parameters
    ----------
    sizes, owners : (groups,) size of each group, and its user.
    lengths : (users,) number of reports of each user.
    consecutive : number of reports that directly follow an equal one of their user in the file.
    """

    sizes: Integers
    owners: Integers
    lengths: Integers
    consecutive: int

    @property
    def n_disjoint_pairs(self) -> Integers:
        """(users,) the number of disjoint pairs of each user."""
        return self.lengths // 2

    @property
    def equal_pair_shares(self) -> Floats:
        """(users,) the share of each user's pairs that are equal; 0 where there is no pair."""
        equal = np.bincount(self.owners, weights=_choose(self.sizes, 2), minlength=len(self.lengths))
        found: Floats = equal / np.maximum(_choose(self.lengths, 2), 1.0)
        return found

    @property
    def share(self) -> float:
        """The mean share, weighted by the disjoint pairs of each user."""
        return float(self.equal_pair_shares @ self.n_disjoint_pairs / max(1.0, float(self.n_disjoint_pairs.sum())))

    @property
    def repeated(self) -> int:
        """Number of reports that repeat an earlier one."""
        return int(np.sum(self.sizes - 1))


class RepeatCheck:
    """Collect reports block by block, and check whether they repeat as the device's reports do.

    Parameters
    ----------
    device : the assumed device.
    min_collision_prob : lower bound on the probability that two objects of a user are equal.
    false_alarm_rate : probability of a false alarm.
    """

    def __init__(self, device: Device, min_collision_prob: float, false_alarm_rate: float) -> None:
        self._device, self._min_collision_prob, self._false_alarm_rate = device, min_collision_prob, false_alarm_rate
        self._hashes: list[Keys] = []
        self._slots: int | None = None

    def add(self, reports: Reports) -> None:
        """Add a block of reports."""
        self._hashes.append(hashed(reports))
        if memoizes(self._device) and self._slots is None:
            evidence = self._device.likelihood({name: column[:1] for name, column in reports.items()})
            # with instantaneous noise on a memoized response, equal responses do not make equal reports
            self._slots = int(evidence.slots.max()) + 1 if isinstance(evidence.distribution, IdenticalReports) else 0

    def violation(self, users: Integers) -> str | None:
        """Return the deviation in one line, or None; `users` as of `finding`."""
        found = self.finding(users)
        return None if found is None else found.line

    def finding(self, users: Integers) -> Finding | None:
        """Return the deviation, or None; `users` (reports,) numbers the user of each report from 0."""
        if not self._hashes:
            return None
        equal = grouped(users, np.concatenate(self._hashes))
        if not equal.n_disjoint_pairs.any():
            return None
        if copies := copies_found(equal):
            return copies
        if not self._device.memoizes:
            return self._fresh_found(equal)
        return self._memoized_found(equal, 1.0 / self._slots) if self._slots else None

    def description(self, users: Integers) -> str:
        """Return how often reports repeat, in words."""
        equal = grouped(users, np.concatenate(self._hashes))
        share = equal.repeated / max(1, int(equal.lengths.sum()))
        said = "memoized" if self._device.memoizes else "fresh"
        return f"{share:.1%} of the reports equal an earlier one of their user, as {said} reports may"

    @property
    def comparable(self) -> bool:
        """Whether equal responses make equal reports, so that repeats can be compared with the device."""
        return not self._device.memoizes or bool(self._slots)

    def _fresh_found(self, equal: EqualReports) -> Finding | None:
        mechanism, tail = self._device.mechanism, self._false_alarm_rate / 2
        expected = equal_pair_bound(mechanism)
        exceeds = _is_above(equal.share, expected, int(equal.n_disjoint_pairs.sum()), tail)
        common = expected > COMMON
        if not (exceeds or (common and _repeats_more(equal, _samples(mechanism, SIMULATED_IF_COMMON), tail))):
            return None
        where = _place(equal, equal.repeated)
        share = f"{equal.repeated / equal.lengths.sum():.1%} of them equal an earlier one of their user{where}"
        triples = float(np.sum(_choose(equal.lengths, 3)) * equal.share**2)
        if triples >= MIN_TRIPLES and np.sum(_choose(equal.sizes, 3)) <= MAX_TRIPLE_SHARE * triples:
            value = f"reports repeat: {share}, hardly any a second time"
            return Finding(DUPLICATES, value, "likely duplicate rows; remove them")
        remedy = "set memoize = true in [devices], or remove duplicate rows"
        return Finding(MEMOIZATION, f"reports repeat: {share}, more than fresh devices send", remedy)

    def _memoized_found(self, equal: EqualReports, uniform: float) -> Finding | None:
        share, tail, min_collision_prob = (
            equal.share,
            self._false_alarm_rate / 2,
            max(self._min_collision_prob, uniform),
        )
        too_few = _is_below(share, min_collision_prob, int(equal.n_disjoint_pairs.sum()), tail)
        # different objects may also have equal responses, independently for each user: here users are the sample
        several = equal.lengths > 1
        expected = min_collision_prob + (1.0 - min_collision_prob) * _equal_responses(self._device.mechanism)
        if not (
            too_few or _is_below(float(equal.equal_pair_shares[several].mean()), expected, int(several.sum()), tail)
        ):
            return None
        value = (
            f"reports hardly repeat: {share:.2%} of the pairs of a user's reports are equal, where memoized responses "
            f"make at least {expected:.2%}"
        )
        return Finding(MEMOIZATION, value, "set memoize = false in [devices]")


def hashed(reports: Reports) -> Keys:
    """Return (reports,) a 64-bit hash of all columns of each report."""
    rows = report_count(reports)
    out = np.empty(rows, dtype=np.uint64)
    if rows:
        columns = [np.ascontiguousarray(column).reshape(rows, -1).view(np.uint8) for column in reports.values()]
        flat = np.hstack(columns)
        hash_names(flat.ravel(), flat.shape[1] * np.arange(1, rows + 1), out)
    return out


def grouped(users: Integers, hashes: Keys) -> EqualReports:
    """Group the equal reports of each user, among the user's first `MAX_REPORTS`."""
    order = np.argsort(users, kind="stable")
    counts = np.bincount(users)
    number = np.arange(len(users)) - np.repeat(np.cumsum(counts) - counts, counts)
    first_rows = np.sort(order[number < MAX_REPORTS])
    users, hashes = users[first_rows], hashes[first_rows]
    follows = (np.diff(first_rows) == 1) & (np.diff(users) == 0) & (hashes[1:] == hashes[:-1])
    order = np.lexsort((hashes, users))
    users, hashes = users[order], hashes[order]
    changes = np.concatenate([[True], (np.diff(users) != 0) | (hashes[1:] != hashes[:-1])])
    # without any report there is no first one
    first = np.flatnonzero(changes[: len(users)])
    sizes = np.diff(np.append(first, len(users)))
    return EqualReports(sizes, users[first], np.bincount(users), int(follows.sum()))


def min_collision(popularity: Floats, sections: Integers) -> float:
    """Return a lower bound on the probability that two objects of a user are equal, whatever its behavior."""
    squares = np.bincount(sections, weights=popularity**2)
    return float(1.0 / np.sum(1.0 / squares[squares > 0]))


def copies_found(equal: EqualReports) -> Finding | None:
    """Return that each row was delivered several times, if it was."""
    if (copies := _copies(equal)) is None:
        return None
    where = _place(equal, int(equal.lengths.sum()) * (copies - 1) / copies)
    value = f"each report occurs {copies} times{where}"
    return Finding(DUPLICATES, value, "rows were delivered more than once; remove the copies")


def equal_pair_bound(mechanism: Mechanism) -> float:
    """Return an upper confidence bound on the probability that two fresh reports are equal, whatever their objects."""
    return max(map(_equal_pairs, _samples(mechanism, SIMULATED)))


def _copies(equal: EqualReports) -> int | None:
    """Return how many times each row was delivered, if more than once; else None."""
    distinct = np.bincount(equal.owners, minlength=len(equal.lengths))
    sizes = equal.sizes[distinct[equal.owners] >= MIN_DISTINCT]
    if len(sizes) < MIN_GROUPS:
        return None
    copies = (n for n in range(MAX_COPIES, 1, -1) if np.mean(sizes % n == 0) >= MULTIPLES)
    return next(copies, None)


def _place(equal: EqualReports, copies: float) -> str:
    """Return whether the copies are in consecutive rows, as text."""
    return ", in consecutive rows" if equal.consecutive >= CONSECUTIVE * copies else ""


def _samples(mechanism: Mechanism, count: int) -> list[Integers]:
    """Simulate `count` fresh reports of each of a few objects; return the sizes of groups of equal reports."""
    out = []
    for row, z in enumerate(_objects(mechanism)):
        keys = (user_keys(0, np.arange(first, first + BATCH)) for first in range(row * count, (row + 1) * count, BATCH))
        hashes = np.concatenate([hashed(mechanism.report(np.full(BATCH, z), own)) for own in keys])
        out.append(np.unique(hashes, return_counts=True)[1])
    return out


def _objects(mechanism: Mechanism) -> Integers:
    """Return the objects with the most equal reports: by a channel's matrix, or a sample of a symmetric mechanism."""
    channel = channel_of(mechanism)
    if channel is not None:
        return np.argsort(-np.sum(channel.matrix**2, axis=1))[:OBJECTS]
    return np.unique(np.linspace(0, mechanism.universe - 1, OBJECTS).astype(np.int64))


def _equal_pairs(sizes: Integers) -> float:
    """Return an upper confidence bound on the probability that two fresh reports of an object are equal."""
    count = int(sizes.sum())
    share = float(np.sum(_choose(sizes, 2)) / math.comb(count, 2))
    # variance of the share, from the probability of equal reports for each report
    spread = float(np.sum(sizes * ((sizes - 1) / (count - 1) - share) ** 2)) / count
    return min(1.0, share + DEVIATIONS * 2.0 * math.sqrt(spread / count) + EXTRA_PAIRS / math.comb(count, 2))


def _repeats_more(equal: EqualReports, samples: list[Integers], false_alarm_rate: float) -> bool:
    """Return whether more reports repeat an earlier one than for any single object."""
    lengths, times = np.unique(equal.lengths[equal.lengths > 0], return_counts=True)
    expected = max(float(times @ _rarefied(sizes, lengths)) for sizes in samples)
    count, made, logs = int(equal.lengths.sum()), int(samples[0].sum()), math.log(1.0 / false_alarm_rate)
    # the simulation is uncertain as well: one of its reports is among n with probability n / made
    return equal.repeated > expected + math.sqrt(count * logs / 2.0) + count * math.sqrt(logs / (2.0 * made))


def _rarefied(sizes: Integers, lengths: Integers) -> Floats:
    """Return (lengths,) the expected number of repeated reports in random subsets of these sizes (rarefaction)."""
    count = int(sizes.sum())
    kinds, times = np.unique(sizes, return_counts=True)
    rest, n = (count - kinds)[:, None], lengths[None]
    with np.errstate(invalid="ignore"):
        logs = gammaln(rest + 1) - gammaln(rest - n + 1) - gammaln(count + 1) + gammaln(count - n + 1)
    missed = np.where(n <= rest, np.exp(logs), 0.0)
    found: Floats = lengths - times @ (1.0 - missed)
    return found


def _equal_responses(mechanism: Mechanism) -> float:
    """Return the probability that the responses of two different objects are equal, for GRR; else 0."""
    if not isinstance(mechanism, GRR):
        return 0.0
    p, q = mechanism.p_star, mechanism.q_star
    return 2.0 * p * q + (mechanism.universe - 2) * q**2


def _is_above(share: float, expected: float, pairs: int, false_alarm_rate: float) -> bool:
    """Return whether a share of `pairs` independent pairs is significantly above its expectation."""
    return share > expected and pairs * _divergence(share, expected) > -math.log(false_alarm_rate)


def _is_below(share: float, expected: float, pairs: int, false_alarm_rate: float) -> bool:
    """Return whether a share of `pairs` independent pairs is significantly below its expectation."""
    return share < expected and pairs * _divergence(share, expected) > -math.log(false_alarm_rate)


def _divergence(share: float, probability: float) -> float:
    """Return the Kullback-Leibler divergence of two Bernoulli distributions."""
    return float(rel_entr(share, probability) + rel_entr(1.0 - share, 1.0 - probability))


def _choose(counts: Integers, k: int) -> Floats:
    """Return the binomial coefficients counts over k."""
    out = np.ones(len(counts))
    for i in range(k):
        out *= (counts - i) / (i + 1)
    return np.maximum(out, 0.0)
