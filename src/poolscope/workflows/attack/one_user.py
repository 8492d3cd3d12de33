"""Attack one user of a file report by report: what each report revealed, and how the posterior evolved."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
import polars as pl

from poolscope.core.arrays import Floats, Integers
from poolscope.core.errors import InputError, located
from poolscope.core.executors import EngineLike, as_engine
from poolscope.core.tables import Data, SourceOptions, delivered, destination_of, label_of, local_paths, writing
from poolscope.devices.protocols import Device, IdenticalReports, memoizes
from poolscope.inference.adversary import posterior_block, report_likelihoods, stacked_pool_weights
from poolscope.inference.attack import posterior
from poolscope.inference.independent import posterior_or_prior
from poolscope.mechanisms.protocols import Reports, distinct, report_count
from poolscope.reports.digest import FileDigest
from poolscope.reports.files import MEMORY_BYTES, masses, row_bytes
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.attack.inspection import first_checks, inspection_of, time_range
from poolscope.workflows.attack.linking import check_link_fdr, join_pseudonyms, linking_warning, with_devices
from poolscope.workflows.attack.partitioning import check_reports, max_reports_of_user, row_hashes
from poolscope.workflows.attack.preparation import prepare_attack
from poolscope.workflows.attack.scoring import Scorer


@dataclass(frozen=True, kw_only=True)
class UserAttack:
    """The result of `attack_user`.

    Parameters
    ----------
    user : whose reports; reports : how many.
    pools : those of all adversaries.
    table : for each adversary and report ``adversary``, ``n`` and, for each pool, ``mass.<pool>`` (the popularity of
        the pool's objects that the report supports), ``log_bayes_factor.<pool>`` (natural logarithm of the likelihood
        of the report from this pool over its mean over all pools) and ``posterior.<pool>``, after it. Where an
        adversary groups reports by memoized response, also ``response``: the first report with the same response, for
        that adversary, and where responses are sent without further noise.
    violations : what contradicts the scenario in the reports of the file, as of `attack`.
    """

    user: str
    reports: int
    pools: list[str]
    table: pl.DataFrame
    violations: Sequence[str] = ()


def attack_user(
    reports: Data,
    scenario: Scenario,
    user: str,
    *,
    columns: Mapping[str, str] | None = None,
    time: str | None = None,
    allow_network: bool = False,
    query: str | None = None,
    pools: str | PathLike[str] | None = None,
    out: str | PathLike[str] | None = None,
    out_table: str | None = None,
    overwrite: bool = False,
    raw: bool = False,
    link_fdr: float | None = None,
    seed: int = 0,
    max_bytes: int = MEMORY_BYTES,
    engine: EngineLike | None = None,
) -> UserAttack:
    """Attack one user of a file report by report; see `attack` for the parameters.

    An adversary who estimates the popularity from the reports themselves uses those of all users. With `link_fdr` a
    user is a device, named by any of its pseudonyms.
    """
    path, engine = label_of(reports), as_engine(engine)
    options = SourceOptions.of(columns, time, allow_network, query)
    inputs = scenario.input_paths(*local_paths(reports), pools)
    place = destination_of(out, out_table, options, data=reports, overwrite=overwrite, inputs=inputs)
    check_link_fdr(link_fdr)
    scratch_parent = (place.folder if place else None) or Path(tempfile.gettempdir())
    with prepare_attack(reports, options, scenario, pools, None, seed, max_bytes, engine, scratch_parent) as ready:
        first, digest = first_checks(ready, scenario, ready.scorer.device), FileDigest()
        if link_fdr is not None:
            joined = join_pseudonyms(ready, link_fdr, path, scenario, max_bytes)
            ready, user = with_devices(ready, joined), joined.device_of(user)
        elif scenario.devices.rotate_after is not None:
            warnings.warn(linking_warning(ready.scorer), stacklevel=2)
        found, count = [], 0
        row = ready.scorer.feature_bytes + row_bytes(ready.scorer.mechanism.report_columns)
        max_reports = max_reports_of_user(row, max_bytes)
        for chunk in ready.chunks:
            users, block = ready.reading.read(chunk)
            digest += FileDigest.of(row_hashes(users), block, chunk.number, ready.reading.limits)
            users = ready.reading.linked(users)
            own = np.flatnonzero((users.cast(pl.String) == user).to_numpy())
            count += len(own)
            with located(file=path):
                check_reports(user, count, max_reports, "use a subset of them")
            if len(own):
                found.append({name: column[own] for name, column in block.items()})
        inspection = inspection_of(path, scenario, ready.scorer.device, digest, first, time_range(ready.source))
        ready.check_unchanged()
    for line in inspection.violations:
        warnings.warn(line, stacklevel=2)
    if not found:
        raise InputError("must be a user of the file", file=path, value=user, place="user")
    sent = {name: np.concatenate([part[name] for part in found]) for name in found[0]}
    count, scorer = report_count(sent), ready.scorer
    with located(file=path):
        scorer.check(pl.Series([user]), np.array([count]), sent)
    view, parts_of = stacked_pool_weights(scorer.adversaries)
    mass = masses(scorer.mechanism, sent, view, engine)
    table = pl.concat([_adversary_rows(scorer, index, sent, mass[:, these]) for index, these in enumerate(parts_of)])
    if place is not None:
        with delivered(place) as target, writing(target, raw=raw) as parts:
            parts.write(0, table)
    return UserAttack(user=user, reports=count, pools=scorer.pool_names, table=table, violations=inspection.violations)


def _adversary_rows(scorer: Scorer, index: int, reports: Reports, mass: Floats) -> pl.DataFrame:
    """Return what one adversary infers: a row for each report; pools of other adversaries are null."""
    adversary, count = scorer.adversaries[index], len(mass)
    own, likely = report_likelihoods(scorer.mechanism, adversary, mass)
    with np.errstate(divide="ignore"):
        log_bayes_factor = np.log(likely) - np.log(likely.mean(axis=1, keepdims=True))
    if index in scorer.memoization_aware:
        found = posterior(scorer.device, reports, adversary)
    else:
        found = posterior_block(scorer.mechanism, adversary, mass[None], np.array([count]))[0]
    kinds = {"mass": own, "log_bayes_factor": log_bayes_factor, "posterior": posterior_or_prior(found[1:], adversary)}
    names = adversary.hypotheses
    columns = [
        pl.Series(f"{kind}.{name}", values[:, names.index(name)])
        if name in names
        else pl.Series(f"{kind}.{name}", [None] * count, dtype=pl.Float64)
        for kind, values in kinds.items()
        for name in scorer.pool_names
    ]
    first = [pl.Series("adversary", [adversary.name] * count), pl.Series("n", np.arange(1, count + 1))]
    if scorer.memoization_aware:
        responses = _response_index(scorer.device, reports) if index in scorer.memoization_aware else None
        first.append(pl.Series("response", [None] * count if responses is None else responses, dtype=pl.Int64))
    return pl.DataFrame([*first, *columns])


def _response_index(device: Device, reports: Reports) -> Integers | None:
    """Return the first report with the same response as each, from 1; None with instantaneous noise."""
    if not (memoizes(device) and isinstance(device.likelihood(reports).distribution, IdenticalReports)):
        return None
    first, which = distinct(reports)
    return first[which] + 1
