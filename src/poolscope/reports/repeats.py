r"""Equal reports of one user, beside what devices with and without memoization send.

Of a user's pairs of reports a share x is equal. A fresh device draws every report by itself, so that two reports of
objects z and z' are equal with probability :math:`\sum_y P(y|z) P(y|z') \le \max_z \sum_y P(y|z)^2`: no behavior makes
more equal pairs than picking one object all the time. A device that memoizes sends equal reports for equal objects:
whatever a user prefers, x is at least :math:`1 / \sum_i 1 / \sum_z \varphi_i(z)^2` with a popularity :math:`\varphi_i`
within pool i, and at least one over the number of objects without.

**Bounds without approximation.** The pairs of n reports are rounds of n / 2 pairs that have no report in common. By
Hoeffding's argument for U-statistics, the mean over all pairs has the tails of one round: with M the pairs of one round
of all users, :math:`\Pr[x \ge a] \le \exp(-M \, \mathrm{KL}(a, c))` for a probability c of equal pairs, and the same
below. Where a mechanism has few reports, equal ones are common in any case. Then the number of reports that repeat an
earlier one is compared as well, which one object makes largest too (by Hölder's inequality), and which one report
changes by one at most (McDiarmid's inequality). What a fresh device makes is simulated.

**Duplicate rows.** Rows that were delivered k times make all numbers of equal reports multiples of k. Some rows
delivered twice make pairs, and no triples, though devices that memoize would send some: of as many equal pairs
at least :math:`x^2` of the triples are equal.

The bounds hold for objects that a user picks independently of the previous ones.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, rel_entr

from poolscope.core.arrays import Floats, Integers, Keys
from poolscope.core.randomness import user_keys
from poolscope.devices.protocols import Device, Identical, memoizes
from poolscope.kernels.hashing import hash_names
from poolscope.mechanisms.grr import GRR
from poolscope.mechanisms.protocols import Mechanism, Reports, report_count
from poolscope.reports.frequencies import channel_of

#: Reports of a user that are looked at; and those that are simulated of each of some objects, more where equal pairs
#: are more likely than this, as they are of mechanisms with few different reports.
MAX_REPORTS, MADE, MORE, OBJECTS, LIKELY = 1 << 10, 1 << 12, 1 << 16, 4, 1e-3

#: Reports that are simulated at once: they may be wide, and only their hashes are needed.
BATCH = 1 << 9

#: How many standard errors, and how many equal pairs, a simulated probability is raised by.
DEVIATIONS, UNSEEN = 5.0, 5.0

#: Duplicate rows: how many equal reports are needed, of users with at least some distinct ones; the share that must be
#: multiples; the largest multiple; and how many triples must be expected, and the share of these that may be there.
MIN_GROUPS, MIN_DISTINCT, MULTIPLES, MAX_COPIES = 30, 3, 0.98, 5
MIN_TRIPLES, FEW_TRIPLES = 15.0, 0.05

#: Share of the copies that must stand directly below the original to be called consecutive.
CONSECUTIVE = 0.9


class Equal(NamedTuple):
    """Equal reports of users.

    sizes, owners : (groups,) how many reports are equal, and whose they are.
    lengths : (users,) reports of each.
    consecutive : how many reports stand directly below an equal one of their user in the file.
    """

    sizes: Integers
    owners: Integers
    lengths: Integers
    consecutive: int

    @property
    def rounds(self) -> Integers:
        """(users,) pairs of each user that have no report in common."""
        return self.lengths // 2

    @property
    def shares(self) -> Floats:
        """(users,) the share of each user's pairs that are equal; 0 where there is no pair."""
        equal = np.bincount(self.owners, weights=_choose(self.sizes, 2), minlength=len(self.lengths))
        found: Floats = equal / np.maximum(_choose(self.lengths, 2), 1.0)
        return found

    @property
    def share(self) -> float:
        """The mean of these over the pairs of one round."""
        return float(self.shares @ self.rounds / max(1, self.rounds.sum()))

    @property
    def repeated(self) -> int:
        """Reports that repeat an earlier one."""
        return int(np.sum(self.sizes - 1))


class RepeatCheck:
    """Collects reports block by block, and says whether they repeat as the devices' do.

    Parameters
    ----------
    device : what is assumed to have sent them.
    least : of two objects that a user picks, the probability that they are the same, at least.
    error : probability of a false alarm.
    """

    def __init__(self, device: Device, least: float, error: float) -> None:
        self._device, self._least, self._error = device, least, error
        self._hashes: list[Keys] = []
        self._slots: int | None = None

    def add(self, reports: Reports) -> None:
        """Add a block."""
        self._hashes.append(hashed(reports))
        if memoizes(self._device) and self._slots is None:
            evidence = self._device.evidence({name: column[:1] for name, column in reports.items()})
            # where noise is added to a memoized response, equal responses do not make equal reports
            self._slots = int(evidence.slots.max()) + 1 if isinstance(evidence.distribution, Identical) else 0

    def found(self, users: Integers) -> str | None:
        """What is wrong, in one line; `users` (reports,) numbers the user of each report from 0."""
        if not self._hashes:
            return None
        equal = grouped(users, np.concatenate(self._hashes))
        if not equal.rounds.any():
            return None
        if copies := _copies(equal):
            where = _place(equal, int(equal.lengths.sum()) * (copies - 1) / copies)
            return f"each report stands {copies} times{where}: rows were delivered more than once; remove the copies"
        if not self._device.memoizes:
            return self._fresh_found(equal)
        return self._memoized_found(equal, 1.0 / self._slots) if self._slots else None

    def _fresh_found(self, equal: Equal) -> str | None:
        mechanism, tail = self._device.mechanism, self._error / 2
        most = max(map(_equal_pairs, _samples(mechanism, MADE)))
        often = _is_above(equal.share, most, int(equal.rounds.sum()), tail)
        if not (often or (most > LIKELY and _repeats_more(equal, _samples(mechanism, MORE), tail))):
            return None
        where = _place(equal, equal.repeated)
        said = f"{equal.repeated / equal.lengths.sum():.1%} of them equal an earlier one of their user{where}"
        triples = float(np.sum(_choose(equal.lengths, 3)) * equal.share**2)
        if triples >= MIN_TRIPLES and np.sum(_choose(equal.sizes, 3)) <= FEW_TRIPLES * triples:
            return f"reports repeat: {said}, hardly any a second time: likely duplicate rows; remove them"
        remedy = "set memoize = true in [devices], or remove duplicate rows"
        return f"reports repeat: {said}, more than fresh devices send: {remedy}"

    def _memoized_found(self, equal: Equal, uniform: float) -> str | None:
        share, tail, least = equal.share, self._error / 2, max(self._least, uniform)
        few = _is_below(share, least, int(equal.rounds.sum()), tail)
        # two objects may have one response: how many of a user's do is by chance, which users are the sample of
        some = equal.lengths > 1
        others = least + (1.0 - least) * _collision(self._device.mechanism)
        if not (few or _is_below(float(equal.shares[some].mean()), others, int(some.sum()), tail)):
            return None
        return (
            f"reports hardly repeat: {share:.2%} of the pairs of a user's reports are equal, where memoized responses "
            f"make at least {others:.2%}: set memoize = false in [devices]"
        )


def hashed(reports: Reports) -> Keys:
    """(reports,) 64 bits of all columns of each report."""
    rows = report_count(reports)
    out = np.empty(rows, dtype=np.uint64)
    if rows:
        columns = [np.ascontiguousarray(column).reshape(rows, -1).view(np.uint8) for column in reports.values()]
        flat = np.hstack(columns)
        hash_names(flat.ravel(), flat.shape[1] * np.arange(1, rows + 1), out)
    return out


def grouped(users: Integers, hashes: Keys) -> Equal:
    """The equal reports of each user, of the first that a user has."""
    order = np.argsort(users, kind="stable")
    counts = np.bincount(users)
    place = np.arange(len(users)) - np.repeat(np.cumsum(counts) - counts, counts)
    some = np.sort(order[place < MAX_REPORTS])
    users, hashes = users[some], hashes[some]
    follows = (np.diff(some) == 1) & (np.diff(users) == 0) & (hashes[1:] == hashes[:-1])
    order = np.lexsort((hashes, users))
    users, hashes = users[order], hashes[order]
    first = np.flatnonzero(np.concatenate([[True], (np.diff(users) != 0) | (hashes[1:] != hashes[:-1])]))
    sizes = np.diff(np.append(first, len(users)))
    return Equal(sizes, users[first], np.bincount(users), int(follows.sum()))


def min_same(popularity: Floats, sections: Integers) -> float:
    """How likely two picks of a user are the same object at least, whatever pools it prefers."""
    squares = np.bincount(sections, weights=popularity**2)
    return float(1.0 / np.sum(1.0 / squares[squares > 0]))


def _copies(equal: Equal) -> int | None:
    """How many times each row was delivered, if more than once."""
    distinct = np.bincount(equal.owners, minlength=len(equal.lengths))
    sizes = equal.sizes[distinct[equal.owners] >= MIN_DISTINCT]
    if len(sizes) < MIN_GROUPS:
        return None
    copies = (n for n in range(MAX_COPIES, 1, -1) if np.mean(sizes % n == 0) >= MULTIPLES)
    return next(copies, None)


def _place(equal: Equal, copies: float) -> str:
    """Where so many copies stand, if that can be said."""
    return ", in consecutive rows" if equal.consecutive >= CONSECUTIVE * copies else ""


def _samples(mechanism: Mechanism, count: int) -> list[Integers]:
    """Of a few objects the numbers of equal reports among so many fresh ones."""
    out = []
    for row, z in enumerate(_objects(mechanism)):
        keys = (user_keys(0, np.arange(first, first + BATCH)) for first in range(row * count, (row + 1) * count, BATCH))
        hashes = np.concatenate([hashed(mechanism.report(np.full(BATCH, z), own)) for own in keys])
        out.append(np.unique(hashes, return_counts=True)[1])
    return out


def _objects(mechanism: Mechanism) -> Integers:
    """Objects whose reports are equal as often as any: those of a channel, or some where all objects are alike."""
    channel = channel_of(mechanism)
    if channel is not None:
        return np.argsort(-np.sum(channel.matrix**2, axis=1))[:OBJECTS]
    return np.unique(np.linspace(0, mechanism.universe - 1, OBJECTS).astype(np.int64))


def _equal_pairs(sizes: Integers) -> float:
    """The probability that two fresh reports of an object are equal, from equal ones among some; not too small."""
    count = int(sizes.sum())
    share = float(np.sum(_choose(sizes, 2)) / math.comb(count, 2))
    # how likely others equal each report, whose spread is that of the share
    spread = float(np.sum(sizes * ((sizes - 1) / (count - 1) - share) ** 2)) / count
    return min(1.0, share + DEVIATIONS * 2.0 * math.sqrt(spread / count) + UNSEEN / math.comb(count, 2))


def _repeats_more(equal: Equal, samples: list[Integers], error: float) -> bool:
    """Whether more reports repeat an earlier one than those of any object."""
    lengths, times = np.unique(equal.lengths[equal.lengths > 0], return_counts=True)
    expected = max(float(times @ _rarefied(sizes, lengths)) for sizes in samples)
    count, made, logs = int(equal.lengths.sum()), int(samples[0].sum()), math.log(1.0 / error)
    # what is simulated is uncertain as well: one of its reports is among n with probability n / made
    return equal.repeated > expected + math.sqrt(count * logs / 2.0) + count * math.sqrt(logs / (2.0 * made))


def _rarefied(sizes: Integers, lengths: Integers) -> Floats:
    """(lengths,) of some of the reports, how many repeat an earlier one in the mean."""
    count = int(sizes.sum())
    kinds, times = np.unique(sizes, return_counts=True)
    rest, n = (count - kinds)[:, None], lengths[None]
    with np.errstate(invalid="ignore"):
        logs = gammaln(rest + 1) - gammaln(rest - n + 1) - gammaln(count + 1) + gammaln(count - n + 1)
    missed = np.where(n <= rest, np.exp(logs), 0.0)
    found: Floats = lengths - times @ (1.0 - missed)
    return found


def _collision(mechanism: Mechanism) -> float:
    """How likely the responses of two different objects are equal, where that is often and known."""
    if not isinstance(mechanism, GRR):
        return 0.0
    p, q = mechanism.p_star, mechanism.q_star
    return 2.0 * p * q + (mechanism.universe - 2) * q**2


def _is_above(share: float, most: float, pairs: int, error: float) -> bool:
    """Whether a share of so many independent pairs is larger than chance allows."""
    return share > most and pairs * _divergence(share, most) > -math.log(error)


def _is_below(share: float, least: float, pairs: int, error: float) -> bool:
    """Whether it is smaller."""
    return share < least and pairs * _divergence(share, least) > -math.log(error)


def _divergence(share: float, chance: float) -> float:
    """Kullback-Leibler's, of two shares."""
    return float(rel_entr(share, chance) + rel_entr(1.0 - share, 1.0 - chance))


def _choose(counts: Integers, some: int) -> Floats:
    """How many sets of two or three there are."""
    out = np.ones(len(counts))
    for i in range(some):
        out *= (counts - i) / (i + 1)
    return np.maximum(out, 0.0)
