r"""How many nodes the integral over (gamma, delta) needs."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from poolscope.base.arrays import Floats
from poolscope.kernels.posterior import FIRST_STAGE, LAST, MARGIN, next_stage
from poolscope.world.densities import Density

#: Sizes of rules, even: steps of 2 up to 32, of 4 up to 64, and so on, so that a grid is hardly larger than it must be.
RUNGS = (*range(8, 32, 2), *range(32, 64, 4), *range(64, 128, 8), *range(128, 256, 16), *range(256, 512, 32), *range(512, 1025, 64))


def capacity(nodes: int) -> float:
    """Sharpness that a Gauss rule of so many nodes resolves."""
    return 2.0 * nodes * nodes / 26.0


class Axis(NamedTuple):
    """A ladder of Gauss rules for one density, laid end to end for the kernels.

    offsets (rungs + 1,) and degrees (rungs,) integers; capacities (rungs,); rules (6, sum of sizes): nodes x,
    complements 1 - x, weights, `last_polynomials`.
    """

    offsets: NDArray[np.int64]
    degrees: NDArray[np.int64]
    capacities: NDArray[np.float64]
    rules: NDArray[np.float64]

    @property
    def largest(self) -> int:
        return int(np.diff(self.offsets).max())


@lru_cache(maxsize=64)
def axis(density: Density, reports: int) -> Axis:
    """The rungs that up to `reports` reports can ask for, climbing AHEAD: more reports begin with the same."""
    stage = FIRST_STAGE
    while stage < 1.25 * reports:
        stage = next_stage(stage)
    sizes = _rungs(density, next_stage(stage) + MARGIN + LAST)
    return _laid_out([density.rule(nodes) for nodes in sizes], [capacity(nodes) - density.sharpness for nodes in sizes])


def fixed_rule(density: Density, reports: int, fine: int = 1) -> Floats:
    """(6, nodes) one rule that holds any so many reports, with `fine` times the nodes."""
    return _laid_out([density.rule(fine * _rungs(density, reports)[-1])], [np.inf]).rules


def _rungs(density: Density, reports: float) -> list[int]:
    """Sizes up to the first that holds any so many reports."""
    sizes = []
    for nodes in RUNGS:
        sizes.append(nodes)
        if max(capacity(nodes) - density.sharpness, 2 * nodes - 1) >= reports:
            break
    return sizes


def point_axis() -> Axis:
    """The density concentrated at one, for likelihoods in which the axis cancels."""
    return _laid_out([(np.ones(1), np.zeros(1), np.ones(1))], [np.inf])


def last_polynomials(x: Floats, weight: Floats) -> Floats:
    """(3, nodes) orthonormal polynomials of the rule, of the last two degrees and of that over the root of two."""
    nodes = len(x)
    if nodes < 4:
        return np.zeros((3, nodes))
    root = np.sqrt(weight)[:, None]
    basis = np.linalg.qr(root * np.polynomial.legendre.legvander(2.0 * x - 1.0, nodes - 1))[0] / root
    return basis.T[[nodes - 1, nodes - 2, int(nodes / np.sqrt(2.0))]]


def _laid_out(rules: list[tuple[Floats, Floats, Floats]], capacities: list[float]) -> Axis:
    tables = [_table(*rule) for rule in rules]
    sizes = [table.shape[1] for table in tables]
    return Axis(
        offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        degrees=np.array([2 * len(x) - 1 for x, _, _ in rules], dtype=np.int64),
        capacities=np.array(capacities),
        rules=np.hstack(tables),
    )


def _table(x: Floats, complement: Floats, weight: Floats) -> Floats:
    """One rule (6, nodes), with an even number of nodes: the last may have no weight."""
    table = np.vstack([x, complement, weight, last_polynomials(x, weight)])
    if len(x) % 2 == 0:
        return table
    spare = table[:, -1:].copy()
    spare[2:] = 0.0
    return np.hstack([table, spare])
