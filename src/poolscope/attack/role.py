"""What an attack on devices is: from what they send to posteriors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from poolscope.attack.adversary import Adversary
from poolscope.base.arrays import Floats, Integers, Keys, Objects, Tick
from poolscope.base.engines import Local
from poolscope.mechanisms.role import Reports

#: Users of a block at most, whatever is attacked; more would save nothing.
MOST_USERS = 16384


class Posteriors(NamedTuple):
    """An adversary's posteriors after every report, worked out for some users of a block at a time.

    of : some of the users -> (users, n + 1, k); at_once : how many of them a thread had best ask for.
    """

    of: Callable[[slice], Floats]
    at_once: int


class Attack(Protocol):
    """How the reports of one kind of device are attacked."""

    @property
    def most_users(self) -> int:
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
        traces: Objects,
        keys: Keys,
        adversaries: Sequence[Adversary],
        observations: Sequence[int],
        engine: Local,
        tick: Tick,
    ) -> list[Posteriors]:
        """What each adversary makes of what the users of these keys send of their traces (users, n).

        Rows between the observation counts need not be worked out: they may repeat the last that was. For each user
        `tick` is told `prepared`.
        """
        ...
