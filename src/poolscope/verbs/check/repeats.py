"""Is every report drawn anew, and from the generator that it is given?

Two reports of an object may be equal by chance, and how often depends on the mechanism. But it must not depend on where
they were made: reports of two calls at the same place, neighbours within a call, and those of calls one after another
must be equal no more often than reports of different calls at different places. A mechanism that seeds a generator of
its own, by a constant or by the clock, gives itself away here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from poolscope.base.arrays import Objects
from poolscope.verbs.check.events import fingerprints
from poolscope.verbs.check.law import LAW_ERROR
from poolscope.verbs.check.samples import Sampler, Stage

#: Pairs of calls, groups of four reports of one object in a call, and pairs of calls for a single report.
CALLS, GROUPS, SINGLES = 16, 64, 128


@dataclass(frozen=True, kw_only=True)
class Repeats:
    """What the generators show.

    found : where reports repeat, in words. foreign : whether the same generator gave different reports.
    """

    found: tuple[str, ...]
    foreign: bool


def repeats(sampler: Sampler) -> Repeats:
    """Compare some calls of the mechanism."""
    objects = np.array(sampler.objects, dtype=np.int64)
    # groups of any call begin where those of the last ended, so that all objects are there
    of_group = objects[np.arange(CALLS * GROUPS) % len(objects)].reshape(CALLS, GROUPS)
    a, b = (
        np.concatenate([_call(sampler, np.repeat(of_group[n], 4), 2 * n + k).reshape(GROUPS, 4) for n in range(CALLS)])
        for k in (0, 1)
    )
    same = _call(sampler, np.repeat(of_group[0], 4), 0)
    singles = np.array(
        [_call(sampler, of_group.flat[n // 2 : n // 2 + 1], 2 * CALLS + n)[0] for n in range(2 * SINGLES)]
    ).reshape(SINGLES, 2)
    # each report is in one comparison only, so that the counts are independent
    fresh = a[:, 1] == b[:, 2]
    compared = {
        "calls with different generators repeat each other's reports": a[:, 0] == b[:, 0],
        "reports of one call repeat each other": a[:, 2] == a[:, 3],
        "calls one after another repeat each other's report": singles[:, 0] == singles[:, 1],
    }
    return Repeats(found=tuple(_too_often(compared, fresh)), foreign=not np.array_equal(a[:GROUPS].ravel(), same))


def _call(sampler: Sampler, objects: Objects, number: int) -> NDArray[np.uint64]:
    """What one call sends, with the generator of this number."""
    return fingerprints(sampler.make(objects, sampler.generator(Stage.REPEAT, number)))


def _too_often(compared: dict[str, NDArray[np.bool_]], fresh: NDArray[np.bool_]) -> Iterator[str]:
    """What is equal more often than fresh reports are (Fisher's exact test, on one side)."""
    for words, equal in compared.items():
        table = [[int(equal.sum()), int((~equal).sum())], [int(fresh.sum()), int((~fresh).sum())]]
        if stats.fisher_exact(table, alternative="greater").pvalue < LAW_ERROR:
            yield f"{words}: {equal.mean():.3g} of them are equal, of fresh ones {fresh.mean():.3g}"
