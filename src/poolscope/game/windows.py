"""Two windows of each of a game's devices: what an adversary who knows of kept answers would link."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from poolscope.core.arrays import Floats, positions
from poolscope.core.executors import Local
from poolscope.devices.protocols import MemoizingDevice, memoizes
from poolscope.game.game import Game, players
from poolscope.inference.adversary import Adversary
from poolscope.inference.linkage import link_scores
from poolscope.mechanisms.protocols import Reports

#: Devices at most, and what their windows may add up to: reports, and reports times objects.
MAX_DEVICES, REPORTS, CELLS = 400, 1 << 11, 1 << 23


class Windows(NamedTuple):
    """The first two windows of some devices of one kind: so many devices, `size` reports in a window."""

    device: MemoizingDevice
    devices: int
    size: int
    first: Reports
    second: Reports

    def scores(self, adversary: Adversary) -> Floats:
        """(devices, devices) of the first window of each and the second of each: of one device on the diagonal."""
        sizes = np.full(self.devices, self.size, dtype=np.int64)
        return link_scores(self.device, self.first, self.second, adversary, (sizes, sizes))


def two_windows(game: Game, users: int, seed: int) -> Windows | None:
    """The windows of as many of a game's users as tell enough; None where no two devices fill two by the largest n.

    Nor are there any where names never change, answers are not kept, or two devices' are more than memory should hold.
    """
    window, device = game.policy.rotate_after, game.device
    if window is None or not memoizes(device) or 2 * window > game.horizon:
        return None
    some = min(MAX_DEVICES, REPORTS // window, CELLS // (window * game.universe.size))
    if some < 2:
        return None
    met = players(game, range(min(users, some)), seed, Local())
    full = np.flatnonzero(met.sent.lengths >= 2 * window)
    if len(full) < 2:
        return None
    reports, starts = met.sent.reports(device, met.keys), (np.cumsum(met.sent.lengths) - met.sent.lengths)[full]
    sizes = np.full(len(full), window)
    first, second = (
        {name: np.asarray(column)[rows] for name, column in reports.items()}
        for rows in (positions(starts, sizes), positions(starts + window, sizes))
    )
    return Windows(device, len(full), window, first, second)
