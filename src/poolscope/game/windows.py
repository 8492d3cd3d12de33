"""Two windows of each of a game's devices, for the linkage by memoized responses."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from poolscope.core.arrays import Floats, positions
from poolscope.core.executors import Local
from poolscope.devices.protocols import MemoizingDevice, memoizes
from poolscope.game.game import Game
from poolscope.game.users import users_of_block
from poolscope.inference.adversary import Adversary
from poolscope.inference.link_scores import link_scores
from poolscope.mechanisms.protocols import Reports

#: Largest number of devices, of reports, and of reports times objects.
MAX_DEVICES, MAX_REPORTS, MAX_CELLS = 400, 1 << 11, 1 << 23


class Windows(NamedTuple):
    """The first two windows of some devices of one kind: `devices` of them, with `size` reports per window."""

    device: MemoizingDevice
    devices: int
    size: int
    first: Reports
    second: Reports

    def scores(self, adversary: Adversary) -> Floats:
        """Return (devices, devices) scores of each first and each second window; the diagonal is of one device."""
        sizes = np.full(self.devices, self.size, dtype=np.int64)
        return link_scores(self.device, self.first, self.second, adversary, (sizes, sizes))


def two_windows(game: Game, users: int, seed: int) -> Windows | None:
    """Return the windows of enough of a game's users; None where fewer than two devices fill two windows by the largest
    n.

    There are none either where pseudonyms never change, devices do not memoize, or two devices exceed the memory
    limits.
    """
    window, device = game.policy.rotate_after, game.device
    if window is None or not memoizes(device) or 2 * window > game.horizon:
        return None
    some = min(MAX_DEVICES, MAX_REPORTS // window, MAX_CELLS // (window * game.universe.size))
    if some < 2:
        return None
    drawn = users_of_block(game, range(min(users, some)), seed, Local())
    full = np.flatnonzero(drawn.sent.lengths >= 2 * window)
    if len(full) < 2:
        return None
    reports, starts = drawn.sent.reports(device, drawn.keys), (np.cumsum(drawn.sent.lengths) - drawn.sent.lengths)[full]
    sizes = np.full(len(full), window)
    first, second = (
        {name: np.asarray(column)[rows] for name, column in reports.items()}
        for rows in (positions(starts, sizes), positions(starts + window, sizes))
    )
    return Windows(device, len(full), window, first, second)
