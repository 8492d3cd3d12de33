"""95 % intervals of shares, bounded means and quantiles, honest down to a single user."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from poolscope.base.errors import InputError

Z95 = 1.959963984540054
"""The 97.5 % quantile of the standard normal law."""

PSEUDO_SUCCESSES = PSEUDO_FAILURES = 2
"""The pseudo-users of the plus-four rule (Agresti and Coull 1998)."""


class Estimate(NamedTuple):
    """A number with its 95 % interval."""

    value: float
    low: float
    high: float


def wilson(share: ArrayLike, users: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    r"""Ends of Wilson's score interval of a share seen on a number of users.

    .. math:: \frac{p + z^2/2n \pm z \sqrt{p(1-p)/n + z^2/4n^2}}{1 + z^2/n}

    Parameters
    ----------
    share : array_like
        The share p of successes; its value is ignored where there are no users.
    users : array_like
        The number n of users, not necessarily whole: an effective number does as well.

    Returns
    -------
    low, high : ndarray
        Broadcast shape of both. Without users nothing is known: (0, 1).

    References
    ----------
    E. B. Wilson, "Probable inference, the law of succession, and statistical inference",
    Journal of the American Statistical Association 22, 1927.
    """
    n = np.asarray(users, dtype=np.float64)
    p = np.where(n > 0, np.asarray(share, dtype=np.float64), 0.5)
    # Multiplied through by n, so that n = 0 needs no case of its own.
    centre = n * p + Z95**2 / 2
    half = Z95 * np.sqrt(n * p * (1 - p) + Z95**2 / 4)
    # Rounding must not push the interval off its own share at 0 and at 1.
    low = np.minimum((centre - half) / (n + Z95**2), p)
    high = np.maximum((centre + half) / (n + Z95**2), p)
    return np.clip(np.where(n > 0, low, 0.0), 0.0, 1.0), np.clip(np.where(n > 0, high, 1.0), 0, 1)


def share_of(successes: int, users: int) -> Estimate:
    """Share of successes with Wilson's interval; NaN in (0, 1) when there are no users."""
    value = successes / users if users else float("nan")
    low, high = wilson(value, users)
    return Estimate(value, float(low), float(high))


def bounded_mean(value: float, squares: float, users: int, *, scale: float = 1.0) -> Estimate:
    r"""Interval of an average that lies in [0, 1], from its influence values.

    The variance of one user is taken over the users and the four pseudo-users of the
    plus-four rule (two who contribute 0 and two who contribute 1), and Wilson's interval is
    that of the number of users that would give a share the same standard error:

    .. math::
        V = \frac{\sum_i \mathrm{IF}_i^2 + 2 s \left(\tilde a^2 + (1-\tilde a)^2\right)}{N + 4},
        \qquad n_{\text{eff}} = N \, \tilde a (1 - \tilde a) / V .

    For many users this is the usual value +- 1.96 standard errors. The pseudo-users keep the
    interval open when all users agree, where the plain standard error is 0.

    Parameters
    ----------
    value : float
        The average a.
    squares : float
        Sum over users of the squared influence value (deviation of one user's contribution).
    users : int
        The number N of users, at least 1.
    scale : float
        The variance s of one user relative to that of a plain share, when all users succeed
        with the same probability: 1 for a mean, 2 for the AUC.
    """
    pseudo = PSEUDO_SUCCESSES + PSEUDO_FAILURES
    a = (users * value + PSEUDO_SUCCESSES) / (users + pseudo)
    extra = scale * (PSEUDO_FAILURES * a**2 + PSEUDO_SUCCESSES * (1 - a) ** 2)
    variance = (squares + extra) / (users + pseudo)
    low, high = wilson(value, users * a * (1 - a) / variance)
    return Estimate(value, float(low), float(high))


def quantile(values: ArrayLike, level: float) -> Estimate:
    """A quantile, the least value that the share ``level`` does not exceed, and the order statistics that bound it.

    The number of values below the true quantile is binomial: its 2.5 % and 97.5 % quantiles count the ends off.
    Infinite values are legal.
    """
    x = np.sort(np.asarray(values, dtype=np.float64))
    if not x.size:
        raise InputError("must have at least one user", place="outcomes")
    below = stats.binom(x.size, level)
    places = np.ceil(level * x.size - 1e-9) - 1, below.ppf(0.025) - 1, below.ppf(0.975)
    value, low, high = (float(x[int(np.clip(place, 0, x.size - 1))]) for place in places)
    return Estimate(value, min(low, value), max(high, value))
