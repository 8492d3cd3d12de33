"""What an attack on devices is: from what they send to posteriors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from poolscope.core.arrays import Floats, Integers, Keys, Tick
from poolscope.core.executors import Local
from poolscope.inference.adversary import Adversary
from poolscope.mechanisms.policy import Sent
from poolscope.mechanisms.protocols import Reports

#: Users of a block at most, whatever is attacked; more would save nothing.
MOST_USERS = 16384


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
        sent: Sent,
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
