r"""Linkability: how well two windows of reports are recognized as one device's (Naor and Vexler).

A device that changes its pseudonym is still tracked if an adversary can link its pseudonyms. Every device of a sample
has two windows. Two windows of one device should have a higher score (`poolscope.inference.link_scores`) than windows
of two devices. The area under the ROC curve is the probability that they do, with ties for half. The true positive rate
is the share of devices that are linked where at most one in a thousand pairs of two devices is.

Pairs are not independent: each device is in many. Intervals are over the draw of devices.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from poolscope.core.arrays import Floats
from poolscope.game.game import Game
from poolscope.game.windows import two_windows
from poolscope.metrics.intervals import TAIL, Estimate, bounded_mean, share_of
from poolscope.metrics.models import Count, FlatRecord, result

FALSE_LINKS = 1e-3
"""The share of pairs of two devices that may be linked wrongly."""

REPLICAS = 200
"""Bootstrap samples of the devices, for the interval of the share that is linked."""

PLACES = 9
"""Digits after the point of a score: fewer than the order of a sum changes."""

_STREAM = (0x6C69,)


@result
class Linkability(FlatRecord):
    """How well one adversary recognizes two windows of reports as one device's.

    Parameters
    ----------
    adversary : who knows that devices memoize responses.
    window : reports of each window; devices : how many have sent two.
    roc_auc : chance that two windows of one device look more like it than windows of two do; 1/2 is chance.
    tpr_at_fpr : share of devices whose windows are linked, if at most `FALSE_LINKS` of the pairs of two devices are.

    Examples
    --------
    >>> from dataclasses import replace
    >>> kept = ps.mechanisms.device_of(mechanism, memoize=True)
    >>> windows = replace(game, device=kept, policy=ps.mechanisms.ReportingPolicy(rotate_after=10))
    >>> (found,) = ps.metrics.linkability(windows, users=40, seed=1)
    >>> found.adversary, found.window, found.devices
    ('strong', 10, 40)
    """

    adversary: str
    window: Count
    devices: Count
    roc_auc: Estimate
    tpr_at_fpr: Annotated[Estimate, Field(serialization_alias="tpr_at_fpr_0.001")]


def linkability(game: Game, users: int, seed: int) -> tuple[Linkability, ...]:
    """Return a record for each adversary who knows of memoization, from the first two windows of users' devices.

    There is none where reports are fresh or pseudonyms do not rotate, and where fewer than two of these users have
    sent two full windows by the largest n. At most 400 devices are scored, fewer where windows are long.

    Examples
    --------
    >>> ps.metrics.linkability(game, users=40, seed=1)
    ()
    """
    windows = two_windows(game, users, seed)
    if windows is None:
        return ()
    return tuple(
        Linkability(
            adversary=adversary.name,
            window=windows.size,
            devices=windows.devices,
            roc_auc=roc_auc(scores),
            tpr_at_fpr=tpr_at_fpr(scores, seed),
        )
        for adversary in game.adversaries
        if adversary.knows_memoization
        # what is equal but for the order of a sum is a tie
        for scores in [windows.scores(adversary).round(PLACES)]
    )


def roc_auc(scores: Floats) -> Estimate:
    """Chance that a score of the diagonal is above one that is not, ties for half; the interval is over devices.

    The influence of a device is that of its own pair, of the pairs with its first window and of those with its second.
    """
    devices = len(scores)
    same, different = np.sort(np.diagonal(scores)), np.sort(scores[_others(devices)])
    own = _below(different, np.diagonal(scores))
    others = np.where(_others(devices), 1.0 - _below(same, scores), 0.0)
    value = float(own.mean())
    influence = own + (others.sum(axis=0) + others.sum(axis=1)) / (devices - 1) - 3 * value
    return bounded_mean(value, float(influence @ influence), devices)


def tpr_at_fpr(scores: Floats, seed: int) -> Estimate:
    """Return the share of devices whose own score is above that of all but `FALSE_LINKS` of the pairs of two devices.

    The interval is that of the share, widened to where 95% of bootstrap samples of the devices lie.
    """
    devices = len(scores)
    pairs = np.nonzero(_others(devices))
    order = np.argsort(-scores[pairs], kind="stable")
    ranked, rows, columns = scores[pairs][order], pairs[0][order], pairs[1][order]
    own = np.diagonal(scores)

    def share(copies: Floats) -> float:
        """Return the share with this many copies of each device: two copies of one device are no pair."""
        wrong = np.cumsum(copies[rows] * copies[columns])
        above = int(np.searchsorted(wrong, FALSE_LINKS * wrong[-1], side="right"))
        return float(copies @ (own > ranked[min(above, len(ranked) - 1)])) / devices

    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=_STREAM))
    drawn = rng.multinomial(devices, np.full(devices, 1 / devices), size=REPLICAS)
    low, high = np.quantile([share(copies.astype(np.float64)) for copies in drawn], [TAIL, 1 - TAIL])
    value = share(np.ones(devices))
    exact = share_of(round(value * devices), devices)
    return Estimate(value, min(float(low), exact.low), max(float(high), exact.high))


def _others(devices: int) -> NDArray[np.bool_]:
    """(devices, devices) where two devices meet."""
    return ~np.eye(devices, dtype=bool)


def _below(ranked: Floats, values: Floats) -> Floats:
    """Return the share of the ranked ones below each value, ties for half."""
    sides = [np.searchsorted(ranked, values, side=side) for side in ("left", "right")]
    share: Floats = (sides[0] + sides[1]) / (2 * len(ranked))
    return share
