"""Attack one user of a table of tuple reports, report by report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
import polars as pl

from poolscope.core.errors import located
from poolscope.core.executors import Local
from poolscope.core.progress import SILENT, Progress
from poolscope.core.tables import Data, SourceOptions, label_of, writing
from poolscope.mechanisms.multidimensional import SAMPLED, SMP
from poolscope.scenario.multidimensional import build_multidimensional
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.attack.tuple_beliefs import TupleReader
from poolscope.workflows.attack.tuple_table import read_tuple_table, tuple_adversaries
from poolscope.workflows.attack.tuples import SAMPLED_SHARE, checked_target, pool_values


@dataclass(frozen=True, kw_only=True)
class UserTuples:
    """One user's tuple reports, and how the posteriors of the attribute and of all pools grew.

    table : for each adversary and report ``adversary``, ``n``, ``posterior.<value>`` and
        ``posterior.<collection>.<pool>``, after it. Also the probability that this report sampled each collection,
        ``sampled.<collection>``, where reports hide that; or ``collection``, the sampled one of SMP.
    """

    user: str
    reports: int
    values: tuple[str, ...]
    table: pl.DataFrame
    violations: Sequence[str] = ()


def attack_user_tuples(
    reports: Data,
    scenario: Scenario,
    user: str,
    *,
    columns: Mapping[str, str] | None = None,
    time: str | None = None,
    allow_network: bool = False,
    query: str | None = None,
    out: str | PathLike[str] | None = None,
    overwrite: bool = False,
    raw: bool = False,
    seed: int = 0,
    progress: Progress = SILENT,
) -> UserTuples:
    """Attack one user of a table of tuple reports, report by report; parameters are those of `attack_collections`.

    An adversary who estimates popularities from the reports themselves uses those of all users.
    """
    assert scenario.attribute is not None
    target = checked_target(scenario, out, overwrite, reports)
    mechanism, values = build_multidimensional(scenario), scenario.attribute.values
    options = SourceOptions.of(columns, time, allow_network, query)
    every = read_tuple_table(reports, scenario, mechanism, options, progress)
    with located(file=label_of(reports)):
        own = every.only(user)
    count = int(own.lengths[0])
    counts, names, frames = np.arange(1, count + 1)[None], pl.Series([part.name for part in scenario.parts]), []
    for a, adversaries in enumerate(tuple_adversaries(scenario, mechanism, every, seed)):
        reader = TupleReader.of(scenario, a, mechanism, adversaries)
        found = reader.beliefs(own, counts, Local(threads=1))
        rows: dict[str, Any] = {
            "adversary": pl.repeat(scenario.adversaries[a].name, count, eager=True),
            "n": counts[0],
        }
        if isinstance(mechanism, SMP):
            rows["collection"] = names.gather(own.reports[SAMPLED])
        rows |= {f"posterior.{name}": found.attribute[0, :, i] for i, name in enumerate(values)}
        rows |= pool_values(scenario, [pools[0] for pools in found.pools])
        if reader.hidden is not None:
            rows |= dict(zip((SAMPLED_SHARE + names).to_list(), reader.sampled(own.reports).T, strict=True))
        frames.append(pl.DataFrame(rows))
    table = pl.concat(frames)
    if target is not None:
        with writing(target, raw=raw) as written:
            written.write(0, table)
    return UserTuples(user=user, reports=count, values=values, table=table)
