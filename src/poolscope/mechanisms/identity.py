"""No protection at all: the non-private game."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from poolscope.mechanisms.base import Floats, Objects, Pure, ReportColumn, Reports, Views, check_objects
from poolscope.randomness import Keys


@dataclass(frozen=True, kw_only=True)
class Identity(Pure):
    """The report of z is z itself; epsilon is infinite, p* = 1 and q* = 0."""

    size: int
    epsilon: float = math.inf

    columns = ("value",)

    @property
    def report_columns(self) -> dict[str, ReportColumn]:
        return {"value": ReportColumn("object", self.size)}

    @property
    def universe(self) -> int:
        return self.size

    @property
    def p_star(self) -> float:
        return 1.0

    @property
    def q_star(self) -> float:
        return 0.0

    def report(self, objects: Objects, keys: Keys) -> Reports:
        check_objects(objects, self.size)
        return {"value": np.asarray(objects, dtype=np.int64)}

    def support(self, reports: Reports) -> NDArray[np.bool_]:
        return np.asarray(reports["value"])[:, None] == np.arange(self.size)

    def mass(self, reports: Reports, views: Views) -> Floats:
        value = np.asarray(reports["value"])
        out = np.zeros((len(value), views.width))
        for columns, weights in zip(views.columns, views.weights, strict=True):
            out[np.arange(len(value)), columns[value]] = weights[value]
        return out

    def support_counts(self, reports: Reports) -> NDArray[np.int64]:
        return np.bincount(reports["value"], minlength=self.size).astype(np.int64)


def identity(*, universe: int) -> Identity:
    """Reports that are the objects themselves."""
    return Identity(size=universe)
