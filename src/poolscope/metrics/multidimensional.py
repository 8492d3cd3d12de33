"""What is special to reports on several attributes: the ε that holds, and guesses of the sampled attribute."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from poolscope.game.columns import SAMPLED_CORRECT
from poolscope.mechanisms.fake_data import RSFD, RSRFD
from poolscope.mechanisms.multidimensional import SMP, SPL, Multidimensional
from poolscope.metrics.collections import SampledAttribute, TupleEpsilon, mean_of
from poolscope.metrics.intervals import clusters_of
from poolscope.metrics.text import percent

KINDS: dict[type[Multidimensional], str] = {SPL: "spl", SMP: "smp", RSFD: "rs+fd", RSRFD: "rs+rfd"}
"""Kinds of mechanisms in scenarios."""


def tuple_epsilon(mechanism: object) -> TupleEpsilon | None:
    """Return the values of ε of a mechanism for several attributes; None for any other."""
    if not isinstance(mechanism, Multidimensional):
        return None
    return TupleEpsilon(
        kind=KINDS.get(type(mechanism), type(mechanism).__name__),
        attributes=mechanism.d,
        epsilon=mechanism.epsilon,
        claimed_epsilon=mechanism.claimed_epsilon,
        single_attribute_epsilon=mechanism.single_attribute_epsilon,
    )


def tuple_epsilon_text(found: TupleEpsilon) -> str:
    """Return the values of ε of a mechanism for several attributes; those that are equal once."""
    facts = [f"ε = {found.epsilon:.4g} per report, for whole tuples"]
    if found.single_attribute_epsilon != found.epsilon:
        facts.append(f"ε = {found.single_attribute_epsilon:.4g} for tuples that differ in one attribute")
    if found.claimed_epsilon != found.epsilon:
        facts.append(f"the literature claims ε = {found.claimed_epsilon:.4g}")
    return "; ".join(facts)


def sampled_text(found: Sequence[SampledAttribute]) -> str:
    """Return how often the strongest adversary guesses the sampled attribute."""
    last = max(row.n for row in found)
    row = max((row for row in found if row.n == last), key=lambda row: row.correct.value)
    return (
        f"The {row.adversary} adversary guesses the sampled attribute of {percent(row.correct.value)} of the reports "
        f"(95% CI {percent(row.correct.low)} to {percent(row.correct.high)}); a guess without reports is correct for "
        f"{percent(row.baseline)}."
    )


def sampled_attribute(rows: pl.DataFrame, adversary: str, n: int, attributes: int) -> SampledAttribute | None:
    """Return how often an adversary guesses the sampled attribute, from its joint rows after n days; None if never."""
    known = rows.filter(pl.col(SAMPLED_CORRECT).is_not_null())
    if known.is_empty():
        return None
    return SampledAttribute(
        adversary=adversary,
        n=n,
        users=known.height,
        correct=mean_of(known[SAMPLED_CORRECT].to_numpy(), clusters_of(known)),
        baseline=1.0 / attributes,
    )
