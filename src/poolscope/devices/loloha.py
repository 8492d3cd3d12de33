"""Longitudinal local hashing: one hash function per user, and a memoized response for each hash value."""

from __future__ import annotations

import math
from dataclasses import dataclass

from poolscope.core.errors import InputError
from poolscope.devices.longitudinal import TwoRoundResponse
from poolscope.mechanisms.local_hashing import MAX_VALUES, LocalHashing
from poolscope.mechanisms.protocols import MAX_EPSILON, check_epsilon, derived_field, set_frozen


@dataclass(frozen=True, kw_only=True)
class LOLOHA(TwoRoundResponse, LocalHashing):
    r"""LOLOHA: randomized response on a hash value, memoized for each value, and randomized response on the result.

    A device draws the seed of its hash function to 0..g-1 once, and sends it with every report. A single report is that
    of local hashing with the same ε, and has its variance. Objects of one hash value share one response, so that
    a device memoizes at most g responses whatever the number of objects. All its reports together reveal at most g
    epsilon_perm, which is the purpose of the protocol. With p1, q1 of the permanent, p2, q2 of the instantaneous round

    .. math:: \hat c = \frac{C - N \frac1g (p_2 - q_2) - N q_2}{(p_1 - \frac1g)(p_2 - q_2)}
                     = \frac{C - N/g}{p^* - 1/g}

    Binary LOLOHA has g = 2. For a given ε of one report, g = e^epsilon + 1, rounded, minimizes the variance and
    is the default. With `epsilon_1`, for which the papers add more noise, the default is the published optimum
    (`published_values`).

    Parameters
    ----------
    g : values of a hash function.
    hash, seed_bits : the functions, as of `olh`.

    References
    ----------
    H. H. Arcolezi, C. Pinzon, C. Palamidessi, S. Gambs. Frequency estimation of evolving data under local differential
    privacy. EDBT 2023.

    Examples
    --------
    >>> made = ps.mechanisms.LOLOHA(universe=30, epsilon_perm=2.0, epsilon_1=1.0)
    >>> round(made.epsilon, 3), type(ps.mechanisms.device_of(made)).__name__
    (0.948, 'MemoizedHash')
    """

    g: int = derived_field()

    def __post_init__(self) -> None:
        if self.g is None:
            set_frozen(self, g=self._default_values())
        super().__post_init__()

    @property
    def values(self) -> int:
        return self.g

    def _default_values(self) -> int:
        if self.epsilon_inst is not None:
            raise InputError("is missing", place="g", remedy="g has no default with epsilon_inst")
        if self.epsilon_1 is not None:
            check_epsilon(self.epsilon_1)
            return published_values(self.permanent_epsilon, self.epsilon_1)
        if self.epsilon is None:
            raise InputError("is missing", place="epsilon", remedy="or give epsilon_perm and epsilon_1")
        check_epsilon(self.epsilon)
        return min(round(math.exp(min(self.epsilon, MAX_EPSILON))) + 1, MAX_VALUES)


def published_values(epsilon_perm: float, epsilon_1: float) -> int:
    r"""Return the published optimum for g, with a and b the exponentials of the two:

    .. math:: g = 1 + \max\Bigl(1, \Bigl\lfloor \frac{1 - a^2 + \sqrt{a^4 - 14 a^2 + 12 a b (1 - a b) + 12 a^3 b + 1}}
                  {6 (a - b)} \Bigr\rceil \Bigr)

    computed over a^2, which does not overflow; 2 where the two are equal.
    """
    far, ratio = math.exp(-epsilon_perm), math.exp(min(epsilon_1 - epsilon_perm, 0.0))
    more = 12.0 * ratio * (1.0 - ratio) - far**2 * (14.0 - 12.0 * ratio - far**2)
    below = 6.0 * far * (1.0 - ratio)
    if not below:
        return 2
    # sqrt(1 + more) - 1 without cancellation
    return 1 + max(1, round(min((far**2 + more / (1.0 + math.sqrt(1.0 + more))) / below, MAX_VALUES - 1.0)))
