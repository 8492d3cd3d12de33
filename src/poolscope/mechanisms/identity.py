"""No protection at all: the non-private game."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from poolscope.base.arrays import Keys, Objects
from poolscope.mechanisms.grr import GRR
from poolscope.mechanisms.role import Reports, check_objects


@dataclass(frozen=True, kw_only=True)
class Identity(GRR):
    """The report of z is z itself: randomized response with an infinite epsilon, p* = 1 and q* = 0."""

    epsilon: float = math.inf

    def report(self, objects: Objects, keys: Keys) -> Reports:
        check_objects(objects, self.size)
        return {"value": np.asarray(objects, dtype=np.int64)}


def identity(*, universe: int) -> Identity:
    """Reports that are the objects themselves."""
    return Identity(size=universe)
