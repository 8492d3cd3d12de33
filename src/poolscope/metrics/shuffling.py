"""Privacy amplification by shuffling: the central ε of reports that nobody can link to their devices."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
import scipy
from scipy import special

from poolscope.core.arrays import Floats, Integers
from poolscope.core.errors import InputError
from poolscope.mechanisms.protocols import MAX_EPSILON, Mechanism
from poolscope.mechanisms.pure import Pure
from poolscope.metrics.convolution import LENGTH, mean_excess, mean_positive_part

MAX_DEVICES = 10**10
"""More devices count as this many: they hide better."""

PRECISION = 1e-6
"""Relative precision of an epsilon, which is rounded up."""

LOSSES = 64
"""Privacy losses above zero that a round is composed of."""

LOST = 1e-4
"""Share of delta that composition spends on losses above the largest of those."""


class Blanket(NamedTuple):
    r"""What the reports of other devices have in common, whatever they hold.

    With :math:`P_0` and :math:`P_1` the distributions of a report of one device in question, and a measure
    :math:`\omega \le R(x)` for every object x, a report y is of one of several kinds.

    first, second : (kinds,) :math:`e^{-\epsilon} P_0(y) / \omega(y)` and :math:`e^{-\epsilon} P_1(y) / \omega(y)`.
    mass : (kinds,) :math:`\omega` of each kind.
    """

    epsilon: float
    first: Floats
    second: Floats
    mass: Floats


def shuffle_epsilon(epsilon: float, devices: int, delta: float, *, rounds: int = 1) -> float:
    r"""Return the central ε of shuffled reports, one from each device and round, for any ε-LDP mechanism.

    All devices use the same mechanism R, and each round is shuffled by itself. Let a device hold either of two
    objects, with reports from :math:`P_0` or :math:`P_1`. Any measure :math:`\omega \le \min_x R(x)` is a *blanket*: a
    report of another device is drawn from it with probability :math:`\gamma = \omega(1)`, whatever the device holds.
    Show the adversary all reports that are not drawn from it. Then N devices have the hockey-stick divergence (Balle,
    Bell, Gascón, Nissim)

    .. math:: \delta(\epsilon') \le \frac1N E\Big[\max\Big(\sum_{i=1}^N W_i, 0\Big)\Big] , \qquad
              W = \frac{P_0(y) - e^{\epsilon'} P_1(y)}{\omega(y)} \text{ for } y \sim \omega , \quad
              W = 0 \text{ with probability } 1 - \gamma .

    Every ε-LDP mechanism has the blanket :math:`\omega = e^{-\epsilon} \max(P_0, P_1)`. The right-hand side grows
    if W is replaced by a variable that is larger in the convex order. The largest takes three values: each of
    :math:`e^\epsilon - e^{\epsilon'}` and :math:`1 - e^{\epsilon + \epsilon'}` with probability :math:`1 / (e^\epsilon
    + 1)`, else 0. Proof: let :math:`P_1 / P_0 = t` in :math:`[e^{-\epsilon}, 1]` at y. Divide y into a part with the
    ratio :math:`e^{-\epsilon}` and one with :math:`e^\epsilon` that have the same :math:`P_0` and :math:`P_1`
    together. That keeps the mean of W and moves it from inside the interval of the two values to its ends. So the
    result holds for every mechanism, with the numbers of the stronger clones of Feldman, McMillan and Talwar (a clone
    with probability :math:`2 / (e^\epsilon + 1)`), whose own proof covers some mechanisms only, by its errata.

    Rounds are composed by their privacy loss distribution. It is made of the divergences at `LOSSES` values of
    :math:`\epsilon'`, joined by lines, which lie above the convex curve (Doroshenko, Ghazi, Kamath, Kumar,
    Manurangsi), and its sum over the rounds is computed, not approximated. Objects of different rounds may be chosen
    in any way. All numbers are rounded up: see `poolscope.metrics.convolution`.

    Parameters
    ----------
    epsilon : of one report.
    devices : how many send a report in each round.
    delta : probability with which more may be revealed, over all rounds.
    rounds : reports that each device sends.

    References
    ----------
    B. Balle, J. Bell, A. Gascón, K. Nissim. The privacy blanket of the shuffle model. CRYPTO 2019, lemma 5.3.

    V. Feldman, A. McMillan, K. Talwar. Stronger privacy amplification by shuffling for Rényi and approximate
    differential privacy. SODA 2023; errata in arXiv 2208.04591.

    P. Su, H. Cheng, P. Wang. Decomposition-based optimal bounds for privacy amplification via shuffling. arXiv
    2504.07414: of all decompositions, the blanket is the best.

    V. Doroshenko, B. Ghazi, P. Kamath, R. Kumar, P. Manurangsi. Connect the dots: tighter discrete approximations of
    privacy loss distributions. PoPETs 2022.

    Examples
    --------
    >>> round(ps.metrics.shuffle_epsilon(4.0, devices=100_000, delta=1e-6), 3)
    0.118
    >>> round(ps.metrics.shuffle_epsilon(4.0, devices=100_000, delta=1e-6, rounds=30), 2)
    0.73
    """
    _check_shuffle(epsilon, devices, delta, rounds)
    if epsilon > MAX_EPSILON:
        return rounds * epsilon
    unlikely = math.exp(-epsilon)
    mass = np.full(2, special.expit(-epsilon))
    blanket = Blanket(epsilon, np.array([1.0, unlikely]), np.array([unlikely, 1.0]), mass)
    return _central(blanket, devices, delta, rounds)


def shuffle_epsilon_of_mechanism(mechanism: Mechanism, devices: int, delta: float, *, rounds: int = 1) -> float:
    r"""Return the central ε of shuffled reports of this mechanism: at most ``shuffle_epsilon`` of its ε.

    A pure mechanism has :math:`\Pr[y | x] = c(y) (1 + (e^\epsilon - 1) [x \in \mathrm{support}(y)])`, where ε
    is that of its likelihood ratio. Its blanket is c, and reports are of four kinds, by which of the two objects they
    support:

    .. math:: c(\text{one}) = c(\text{other}) = \frac{p^* - q}{e^\epsilon - 1} , \quad
              c(\text{both}) = e^{-\epsilon} p^* - c(\text{one}) , \quad c(\text{none}) = 1 - p^* - c(\text{one}) .

    Here q is the probability that a report supports an object that never collides with the reported one. In the convex
    order the bound grows as q falls, so objects that collide are covered. Where the adversary can know that all others
    hold a third object, the bound is nearly attained. The bound of any other mechanism is that of its ε.

    References
    ----------
    S. Wang et al. Privacy amplification via shuffling: unified, simplified, and tightened. VLDB 2024, arXiv
    2304.05007, has total variations of the same mechanisms.

    Examples
    --------
    >>> oue = ps.mechanisms.OUE(universe=100, epsilon=4.0)
    >>> round(ps.metrics.shuffle_epsilon_of_mechanism(oue, devices=100_000, delta=1e-6), 3)
    0.081
    """
    epsilon = float(mechanism.epsilon)
    if not isinstance(mechanism, Pure) or epsilon > MAX_EPSILON:
        return shuffle_epsilon(epsilon, devices, delta, rounds=rounds)
    _check_shuffle(epsilon, devices, delta, rounds)
    # a mechanism may have a smaller likelihood ratio than its epsilon allows
    unlikely, p, q = mechanism.likelihood_offset, mechanism.p_star, mechanism.support_prob_no_collision
    one = unlikely * (p - q) / mechanism.likelihood_scale
    ratio = -math.log(unlikely) if unlikely < 0.5 else -math.log1p(-mechanism.likelihood_scale)
    mass = np.maximum([one, one, unlikely * p - one, 1 - p - one], 0.0)
    first, second = np.array([1.0, unlikely, 1.0, unlikely]), np.array([unlikely, 1.0, 1.0, unlikely])
    return _central(Blanket(ratio, first, second, mass), devices, delta, rounds)


def _central(blanket: Blanket, devices: int, delta: float, rounds: int) -> float:
    if blanket.epsilon == 0:
        return 0.0
    devices = min(devices, MAX_DEVICES)
    if rounds == 1:
        return _least(lambda central: _delta(blanket, devices, central), delta, blanket.epsilon)
    losses = _losses(blanket, devices, LOST * delta / rounds)

    def composed_delta(central: float) -> float:
        over = mean_excess(losses.steps, losses.weights, rounds, losses.step, central, lambda loss: -np.expm1(-loss))
        finite = rounds * math.log1p(-losses.truncated_mass)
        return math.exp(finite) * over - math.expm1(finite)

    return _least(composed_delta, delta, rounds * blanket.epsilon)


def _delta(blanket: Blanket, devices: int, central: float, length: int = LENGTH) -> float:
    """Return the hockey-stick divergence of one round at a central ε, from above."""
    if central >= blanket.epsilon:
        return 0.0
    values = blanket.first - math.exp(central) * blanket.second
    return math.exp(blanket.epsilon) / devices * mean_positive_part(values, blanket.mass, devices, length=length)


class Losses(NamedTuple):
    """Privacy losses of one round.

    steps, weights : (losses,) finite losses, as multiples of the step, and their probabilities; zero has the rest.
    truncated_mass : probability of a loss without limit.
    """

    step: float
    steps: Integers
    weights: Floats
    truncated_mass: float


def _losses(blanket: Blanket, devices: int, truncated_mass: float) -> Losses:
    """Return losses that dominate those of a round; those above the largest have at most mass `truncated_mass`.

    The divergence is a convex function of e^epsilon'. A convex polygon above it is the divergence of losses at its
    corners: the change of slope at a corner is the probability of its loss under the second hypothesis. To exchange
    the objects is to change the sign of the losses.
    """

    def divergence(central: float) -> float:
        return _delta(blanket, devices, central, LENGTH // 4)

    largest = _least(divergence, truncated_mass, blanket.epsilon)
    step = largest / LOSSES
    ratio = np.exp(step * np.arange(LOSSES + 1))
    height = np.array([divergence(step * k) for k in range(LOSSES + 1)])
    if largest == 0:
        return Losses(1.0, np.zeros(0, dtype=np.int64), np.zeros(0), truncated_mass)
    slopes = _hull_slopes(ratio, height)
    # both signs together have at most probability one; a slope that is less steep is on the safe side
    gentle = np.maximum(slopes, (height[0] - 1) / 2)
    truncated_mass = float(height[-1] + ((gentle - slopes) * np.diff(ratio)).sum())
    second = np.diff(gentle, append=0.0)
    steps = np.arange(1, LOSSES + 1)
    weights = np.concatenate([ratio[1:] * second, second]) / (1 - truncated_mass)
    return Losses(step, np.concatenate([steps, -steps]), weights, truncated_mass)


def _hull_slopes(x: Floats, y: Floats) -> Floats:
    """(points - 1,) slopes of the largest convex function that is nowhere above the points."""

    def slope(left: int, right: int) -> float:
        return float((y[right] - y[left]) / (x[right] - x[left]))

    corners = [0]
    for point in range(1, len(x)):
        while len(corners) > 1 and slope(corners[-1], point) <= slope(corners[-2], corners[-1]):
            corners.pop()
        corners.append(point)
    return np.repeat(np.diff(y[corners]) / np.diff(x[corners]), np.diff(corners))


def _least(delta_at: Callable[[float], float], delta: float, highest: float) -> float:
    """Return the least central ε whose divergence is at most delta, rounded up; `highest` holds in any case."""
    delta_at = cache(delta_at)

    def excess(central: float) -> float:
        return math.log(max(delta_at(central), 1e-300) / delta)

    if delta_at(0.0) <= delta:
        return 0.0
    low = high = highest
    while delta_at(low) <= delta:
        low, high = low / 4, low
    found = high
    if 0 < low < high:
        found = float(scipy.optimize.brentq(excess, low, high, xtol=PRECISION * high, rtol=PRECISION))
    while found < highest and delta_at(found) > delta:
        found *= 1 + PRECISION
    return min(found, highest)


def shuffle_epsilon_closed_form(epsilon: float, devices: int, delta: float) -> float:
    r"""Closed form of the first clones bound: simpler than ``shuffle_epsilon``, and about four times as large.

    .. math:: \log\left(1 + \frac{1 - e^{-\epsilon}}{1 + e^{-\epsilon} / (1 + t)} \, t\right) , \quad
              t = 8 \sqrt{\frac{e^\epsilon \log(4 / \delta)}{N}} + \frac{8 e^\epsilon}{N} ,

    for N devices and ε up to :math:`\log(N / (16 \log(4 / \delta)))`; beyond, ε itself.

    References
    ----------
    V. Feldman, A. McMillan, K. Talwar. Hiding among the clones: a simple and nearly optimal analysis of privacy
    amplification by shuffling. FOCS 2021; in the form of the authors' own computation, which is slightly larger than
    theorem 3.1.

    Examples
    --------
    >>> round(ps.metrics.shuffle_epsilon_closed_form(1.0, devices=10_000, delta=1e-6), 3)
    0.233
    """
    _check_shuffle(epsilon, devices, delta)
    doubt = math.log(4 / delta)
    if epsilon > math.log(devices / (16 * doubt)):
        return epsilon
    t = 8 * math.sqrt(math.exp(epsilon) * doubt / devices) + 8 * math.exp(epsilon) / devices
    return min(epsilon, math.log1p(-math.expm1(-epsilon) / (1 + math.exp(-epsilon) / (1 + t)) * t))


def _check_shuffle(epsilon: float, devices: int, delta: float, rounds: int = 1) -> None:
    if not epsilon >= 0:
        raise InputError("epsilon must be at least 0", value=epsilon)
    if devices < 1:
        raise InputError("devices must be at least 1", value=devices)
    if not 0 < delta < 1:
        raise InputError("delta must be above 0 and below 1", value=delta)
    if rounds < 1:
        raise InputError("rounds must be at least 1", value=rounds)
