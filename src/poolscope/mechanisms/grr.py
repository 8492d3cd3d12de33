"""k-ary (generalized) randomized response, and the identity as its noiseless limit."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from poolscope.core.arrays import Floats, Keys, Map, Objects
from poolscope.kernels import local_hashing as kernels
from poolscope.mechanisms.protocols import PoolWeights, ReportColumn, Reports, check_objects
from poolscope.mechanisms.pure import BasicPureMechanism, draw_object_counts, uniform_base_measure


def randomized_response(epsilon: float, values: int) -> tuple[float, float]:
    """Return the probability of the true value, and that of each other value, in k-ary randomized response."""
    truth = 1.0 / (1.0 + (values - 1) * math.exp(-epsilon))
    return truth, math.exp(-epsilon) * truth


@dataclass(frozen=True, kw_only=True)
class GRR(BasicPureMechanism):
    r"""k-ary (generalized) randomized response.

    A report of z is y: z itself with probability p*, each of the other d-1 objects with probability q*. It supports y
    alone, with the likelihood ratio p*/q* = e^epsilon.

    .. math:: p^* = \frac{e^\epsilon}{e^\epsilon + d - 1}, \qquad q^* = \frac{1}{e^\epsilon + d - 1}, \qquad
              \mathrm{Var}_0 = N \frac{d - 2 + e^\epsilon}{(e^\epsilon - 1)^2}

    with Var_0 the variance of the estimated count of an object that nobody has. It suits small universes and large
    ε: its variance is below that of optimized unary encoding for d < 3 e^epsilon + 2.

    References
    ----------
    P. Kairouz, K. Bonawitz, D. Ramage. Discrete distribution estimation under local privacy. ICML 2016.
    S. L. Warner. Randomized response: a survey technique for eliminating evasive answer bias. JASA 60, 1965.

    Examples
    --------
    >>> grr = ps.mechanisms.GRR(universe=30, epsilon=3.0)
    >>> round(grr.p_star, 3), round(grr.q_star, 3)
    (0.409, 0.02)
    >>> grr.obfuscate(np.array([5, 5, 5, 5]), rng)["value"].shape
    (4,)
    """

    @property
    def report_columns(self) -> dict[str, ReportColumn]:
        return {"value": ReportColumn("object", self.universe)}

    @property
    def p_star(self) -> float:
        return randomized_response(self.epsilon, self.universe)[0]

    @property
    def q_star(self) -> float:
        return randomized_response(self.epsilon, self.universe)[1]

    def report(self, objects: Objects, keys: Keys) -> Reports:
        check_objects(objects, self.universe)
        value = np.empty(len(objects), dtype=np.int64)
        kernels.randomized_response(objects, keys, self.universe, self.p_star, value)
        return {"value": value}

    def log_base_measure(self, reports: Reports) -> Floats:
        return uniform_base_measure(reports, self.p_star, 1)

    def support(self, reports: Reports) -> NDArray[np.bool_]:
        supported: NDArray[np.bool_] = np.asarray(reports["value"])[:, None] == np.arange(self.universe)
        return supported

    def mass(self, reports: Reports, pool_weights: PoolWeights) -> Floats:
        value = np.asarray(reports["value"])
        out = np.zeros((len(value), pool_weights.width))
        for columns, weights in zip(pool_weights.columns, pool_weights.weights, strict=True):
            out[np.arange(len(value)), columns[value]] = weights[value]
        return out

    def support_counts(self, reports: Reports) -> NDArray[np.int64]:
        return np.bincount(reports["value"], minlength=self.universe).astype(np.int64)

    def simulate_counts(self, popularity: Floats, count: int, key: np.uint64, threads: Map = map) -> NDArray[np.int64]:
        """Draw from the closed form: a report is its object with probability p* - q*, else uniform over all objects."""
        rng, own = draw_object_counts(popularity, count, key)
        own = rng.binomial(own, self.p_star - self.q_star)
        return own + rng.multinomial(count - own.sum(), np.full(self.universe, 1.0 / self.universe))


@dataclass(frozen=True, kw_only=True)
class Identity(GRR):
    """No privacy protection: the report of z is z itself.

    It is randomized response with an infinite ε, p* = 1 and q* = 0: the mechanism of the non-private game.

    Examples
    --------
    >>> ps.mechanisms.Identity(universe=30).obfuscate(np.array([3, 4]), rng)["value"]
    array([3, 4])
    """

    epsilon: float = field(init=False, default=math.inf)

    def report(self, objects: Objects, keys: Keys) -> Reports:
        check_objects(objects, self.universe)
        return {"value": np.asarray(objects, dtype=np.int64)}
