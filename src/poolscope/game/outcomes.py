"""The table of outcomes: truth beside guess, one row for each user, adversary and observation count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from poolscope.core.arrays import Floats, Integers
from poolscope.game.columns import CONFIDENCE_ERROR, EARLY, ESTIMATE, LATE


@dataclass(frozen=True, kw_only=True)
class Attacked:
    """What one adversary made of some users: arrays (users, observations); exposed: columns (users,), -1 for never.

    error : of the confidence, by chance in the attack; None where it has none.
    exposed : where there is an error, early and late too.
    estimate : which of its estimates each user met, (users,); None where it has one popularity alone.
    """

    adversary: str
    pool_names: tuple[str, ...]
    gamma: Floats
    delta: Floats
    truth: NDArray[np.int64]
    guess: NDArray[np.int64]
    confidence: Floats
    posterior_true: Floats
    exposed: Mapping[str, NDArray[np.int32]]
    error: Floats | None = None
    estimate: Integers | None = None


def joined_groups(
    groups: Sequence[tuple[Integers, Sequence[Attacked]]], estimate: Integers, redrawn: Sequence[bool]
) -> list[Attacked]:
    """What each adversary made of all users of a block, from groups of them: their rows, and what was made of these.

    estimate : which one each user met; redrawn : of which adversaries there are several.
    """

    def joined(parts: Sequence[Any]) -> Any:
        if parts[0] is None:
            return None
        out = np.empty((len(estimate), *parts[0].shape[1:]), dtype=parts[0].dtype)
        for (rows, _), part in zip(groups, parts, strict=True):
            out[rows] = part
        return out

    attacked = []
    for place, has_several in enumerate(redrawn):
        own = [found[place] for _, found in groups]
        arrays = ("gamma", "delta", "truth", "guess", "confidence", "posterior_true", "error")
        attacked.append(
            replace(
                own[0],
                **{name: joined([getattr(one, name) for one in own]) for name in arrays},
                exposed={name: joined([one.exposed[name] for one in own]) for name in own[0].exposed},
                estimate=estimate if has_several else None,
            )
        )
    return attacked


def table(
    users: pl.Series, observations: Sequence[int], attacked: Sequence[Attacked], *, recorded: bool = False
) -> pl.DataFrame:
    """The outcome table of a block of users, by adversary, then observation count, then user.

    Where any adversary samples, all have the columns of its error: to the others nothing is chance.
    """
    names = pl.Enum([a.adversary for a in attacked])
    pools = pl.Enum(list(dict.fromkeys(name for a in attacked for name in a.pool_names)))
    sampled, frames = any(a.error is not None for a in attacked), []
    redrawn = any(a.estimate is not None for a in attacked)
    for a in attacked:
        name_of = pl.Series(a.pool_names, dtype=pools)
        firsts = {column: pl.Series(first).replace(-1, None) for column, first in a.exposed.items()}
        if sampled and a.error is None:
            firsts = {name + end: first for name, first in firsts.items() for end in ("", EARLY, LATE)}
        errors = np.zeros(a.confidence.shape) if a.error is None else a.error
        none = pl.repeat(None, len(users), dtype=pl.Int16, eager=True)
        estimate = none if a.estimate is None else pl.Series(a.estimate).cast(pl.Int16)
        for o, n in enumerate(observations):
            frames.append(
                pl.DataFrame(
                    {
                        "user": users,
                        "adversary": pl.repeat(a.adversary, len(users), dtype=names, eager=True),
                        "n": pl.repeat(n, len(users), dtype=pl.Int32, eager=True),
                        "pool": name_of.gather(a.truth),
                        "gamma": a.gamma,
                        "delta": a.delta,
                        "guess": name_of.gather(a.guess[:, o]),
                        "confidence": a.confidence[:, o],
                        "posterior_true": a.posterior_true[:, o],
                        **({CONFIDENCE_ERROR: errors[:, o]} if sampled else {}),
                        **({ESTIMATE: estimate} if redrawn else {}),
                        **firsts,
                        "recorded": pl.repeat(recorded, len(users), dtype=pl.Boolean, eager=True),
                    }
                )
            )
    return pl.concat(frames)
