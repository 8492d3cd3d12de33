"""The game with devices that keep their answers: what each adversary makes of a user's reports."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from poolscope.attack.adversary import Adversary, posterior
from poolscope.attack.memory.groups import attack_memoised
from poolscope.base.arrays import Floats, Keys, Objects
from poolscope.mechanisms.devices import Memory
from poolscope.mechanisms.role import Reports


def kept_answers(
    memory: Memory, traces: Objects, keys: Keys, adversary: Adversary, observations: Sequence[int]
) -> Callable[[slice], Floats]:
    """For users of traces (users, n): some of the users -> their posteriors after every report, (users, n + 1, k).

    An adversary who knows of the memory attacks once for each observation count, and thinks of it until the next; to
    one who does not know, every report stands alone. Reports are made for the users asked for, and made again for the
    next adversary: making them costs little beside the attack.
    """

    def posteriors(rows: slice) -> Floats:
        users, n = traces[rows].shape
        reports = memory.report(traces[rows], keys[rows])
        if not adversary.knows_memory:
            return posterior(memory.alone, reports, adversary, lengths=np.full(users, n))
        out = np.empty((users, n + 1, adversary.k))
        out[:] = adversary.belief.pool_prior(adversary.k)
        for count in (count for count in observations if count <= n):
            first = _first(reports, users, count)
            out[:, count:] = attack_memoised(memory, first, adversary, lengths=np.full(users, count))[:, None]
        return out

    return posteriors


def _first(reports: Reports, users: int, count: int) -> Reports:
    """The first reports of each of the users, who have as many each."""
    parts = {name: column.reshape(users, -1, *column.shape[1:]) for name, column in reports.items()}
    return {name: part[:, :count].reshape(users * count, *part.shape[2:]) for name, part in parts.items()}
