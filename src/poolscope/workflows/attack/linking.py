"""Link the pseudonyms of a file to devices by memoized responses.

`join_pseudonyms` links them before an attack; `link_users` scores the likeliest other pseudonym of each.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path

import numpy as np
import polars as pl

from poolscope.core.arrays import Floats, Integers, positions
from poolscope.core.errors import InputError, located
from poolscope.core.executors import EngineLike, as_engine
from poolscope.core.tables import Data, Source, SourceOptions, check_output, label_of, local_paths, writing
from poolscope.devices.protocols import memoizes
from poolscope.inference.link_e_values import join_windows, pairs_above_e_value, select_links
from poolscope.inference.link_scores import link_scores
from poolscope.mechanisms.protocols import Reports
from poolscope.reports.files import MEMORY_BYTES, USER, row_bytes
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.attack.partitioning import group_by_user, name_hashes
from poolscope.workflows.attack.preparation import PreparedAttack, prepare_attack
from poolscope.workflows.attack.scoring import Scorer
from poolscope.workflows.reports import open_reports

#: Copies of all reports that are held while responses are compared.
N_COPIES = 6

REMEDY = "use a subset of the users"


@dataclass(frozen=True, kw_only=True)
class LinkedPseudonyms:
    """Pseudonyms linked to devices.

    Parameters
    ----------
    rate : the expected share of wrong links, at most.
    adversary : whose popularity determines how likely two devices share a response by chance.
    pseudonyms, devices, links : how many there are in the file, how many devices result, by how many links.
    refused : how many linked pseudonyms are not merged, as two of one device would overlap in time.
    table : for each pseudonym, in the order of the file, ``pseudonym``, ``user`` (the first pseudonym of its device)
        and ``log_e_value`` of its best link; null for one without a link.
    """

    rate: float
    adversary: str
    pseudonyms: int
    devices: int
    links: int
    refused: int
    table: pl.DataFrame

    def write(self, out: str | PathLike[str], *, overwrite: bool = False, raw: bool = False) -> None:
        """Write the table, Parquet or CSV by the file's ending; `overwrite` and `raw` as of `attack`."""
        check_output(Path(out), overwrite=overwrite)
        with writing(Path(out), raw=raw) as parts:
            parts.write(0, self.table)

    def device_of(self, name: str) -> str:
        """Return the device of a pseudonym; another name is returned as it is."""
        mine = self.table.filter(pl.col("pseudonym").cast(pl.String) == name)["user"].cast(pl.String)
        return str(mine[0]) if len(mine) else name

    def of_devices(self, truth: pl.DataFrame) -> pl.DataFrame:
        """Replace pseudonyms in the column ``user`` by devices, with one row for each: that of its first pseudonym."""
        names = (self.table[name].cast(pl.String) for name in ("pseudonym", "user"))
        return truth.with_columns(pl.col("user").replace(*names)).unique("user", keep="first", maintain_order=True)

    def counted(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Add a column ``pseudonyms``: how many each user has."""
        counts = self.table.group_by("user").len("pseudonyms").with_columns(pl.col("pseudonyms").cast(pl.Int32))
        return frame.join(counts, on="user", how="left", maintain_order="left")


def check_link_fdr(fdr: float | None) -> None:
    """Refuse a false discovery rate outside (0, 1)."""
    if fdr is not None and not 0 < fdr < 1:
        rule = "must be above 0 and below 1, the expected share of wrong links"
        raise InputError(rule, value=fdr, place="link_fdr", remedy="0.001 is one in 1,000")


def linking_warning(scorer: Scorer) -> str:
    """Return the warning where devices rotate pseudonyms that are not linked."""
    facts = "reports are linked by the user names in the file, whatever rotate_after in [devices] is"
    return f"{facts}; `link_fdr` links pseudonyms by memoized responses" if scorer.memoization_aware else facts


def join_pseudonyms(
    ready: PreparedAttack, fdr: float, path: str, scenario: Scenario, max_bytes: int
) -> LinkedPseudonyms:
    """Find the names of the file that belong to one device."""
    scorer = ready.scorer
    if not memoizes(scorer.device):
        rule, remedy = (
            "must have devices that memoize, to link pseudonyms by their responses",
            "if they do, set memoize = true",
        )
        raise InputError(rule, file=scenario.file, place="devices", remedy=remedy)
    if not scorer.memoization_aware:
        rule = "must have an adversary with knows_memoization, to link pseudonyms by responses"
        raise InputError(rule, file=scenario.file, place="adversary", remedy="remove knows_memoization = false")
    with located(file=path):
        most = max_bytes // (N_COPIES * row_bytes(scorer.mechanism.report_columns))
        if ready.reports > most:
            rule = f"must have at most {most:,} reports to link pseudonyms"
            raise InputError(rule, value=ready.reports, remedy=REMEDY)
        found = [ready.reading.block(chunk) for chunk in ready.chunks]
        ready.check_unchanged()
        users = pl.concat([names for names, _ in found])
        names = users.unique(maintain_order=True)
        which = users.replace_strict(names, np.arange(len(names)), return_dtype=pl.Int64).to_numpy()
        order, sizes = np.argsort(which, kind="stable"), np.bincount(which)
        ends = np.cumsum(sizes)
        sent = [reports for _, reports in found]
        reports = {name: np.concatenate([part[name] for part in sent])[order] for name in sent[0]}
        scorer.check(names, sizes, reports)
        adversary = scorer.adversaries[scorer.memoization_aware[0]]
        pairs = pairs_above_e_value(scorer.device, reports, sizes, adversary, -math.log(fdr))
    made = join_windows(select_links(pairs, len(names), fdr), order[ends - sizes], order[ends - 1])
    evidence = np.full(len(names), np.nan)
    for side in (made.links.first, made.links.second):
        np.fmax.at(evidence, side, made.links.log_e_value)
    table = pl.DataFrame({"pseudonym": names, "user": names.gather(made.device), "log_e_value": evidence})
    return LinkedPseudonyms(
        rate=fdr,
        adversary=adversary.name,
        pseudonyms=len(names),
        devices=len(np.unique(made.device)),
        links=len(made.links.first),
        refused=int(made.refused.sum()),
        table=table.with_columns(pl.col("log_e_value").fill_nan(None)),
    )


def with_devices(ready: PreparedAttack, joined: LinkedPseudonyms) -> PreparedAttack:
    """Return the file with pseudonyms replaced by devices."""
    other = joined.table.filter(pl.col("pseudonym") != pl.col("user"))
    return replace(ready, reading=replace(ready.reading, devices=other))


#: Reports that are compared pairwise at most, reports of a batch of rows, and reports times objects at most.
MAX_PSEUDONYMS, BATCH_REPORTS, MAX_CELLS = 1 << 13, 1 << 9, 1 << 25


def link_users(
    reports: Data,
    scenario: Scenario,
    out: str | PathLike[str],
    *,
    columns: Mapping[str, str] | None = None,
    time: str | None = None,
    allow_network: bool = False,
    query: str | None = None,
    pools: str | PathLike[str] | None = None,
    overwrite: bool = False,
    raw: bool = False,
    seed: int = 0,
    max_bytes: int = MEMORY_BYTES,
    engine: EngineLike | None = None,
) -> pl.DataFrame:
    """Find the likeliest other pseudonym of each, for adversaries who know that devices memoize.

    Parameters
    ----------
    out : the table, Parquet or CSV by its ending: ``adversary``, ``user``, ``other`` and ``score``, by adversary and
        decreasing score. Pairs that are no likelier one device than two (a score of 0) are omitted.
    overwrite : whether an existing ``out`` may be replaced; an input file never is.
    raw : whether CSV cells that a spreadsheet would execute are left as they are; otherwise they are escaped.
    pools, seed, engine : as of `attack`; max_bytes : for reading.
    """
    path, target, engine = label_of(reports), Path(out), as_engine(engine)
    options = SourceOptions.of(columns, time, allow_network, query)
    check_output(target, overwrite=overwrite, inputs=scenario.input_paths(*local_paths(reports), pools))
    check_adversary(scenario)
    with open_reports(reports, scenario, options, beside=target.parent) as source:
        check_links(source, scenario)
        with prepare_attack(source, options, scenario, pools, None, seed, max_bytes, engine, target.parent) as ready:
            scorer = ready.scorer
            found = [ready.reading.block(chunk) for chunk in ready.chunks]
            ready.check_unchanged()
    users, sent = pl.concat([names for names, _ in found]), [reports for _, reports in found]
    order, starts = group_by_user(names := users.cast(pl.String), name_hashes(names))
    lengths, who = np.diff(np.append(starts, len(order))), users.gather(order[starts])
    gathered = {name: np.concatenate([part[name] for part in sent])[order] for name in sent[0]}
    with located(file=path):
        scorer.check(who, lengths, gathered)
    table = pl.concat([_linked(scorer, index, who, lengths, gathered) for index in scorer.memoization_aware])
    with writing(target, raw=raw) as parts:
        parts.write(0, table)
    return table


def check_adversary(scenario: Scenario) -> None:
    """Refuse a scenario without an adversary who knows of memoization."""
    if not scenario.memoizes or not any(adversary.knows_memoization for adversary in scenario.adversaries):
        rule = "must have an adversary with knows_memoization, to link pseudonyms by responses"
        raise InputError(rule, file=scenario.file, place="adversary")


def check_links(source: Source, scenario: Scenario) -> None:
    """Refuse reports that cannot be linked, before any work: too many, or no adversary who knows of memoization."""
    check_adversary(scenario)
    most = min(MAX_PSEUDONYMS, MAX_CELLS // scenario.universe().size)
    reports = source.height()
    if reports is None:
        # count the rows of CSV up to the limit
        reports = 0
        for batch in source.batches((USER,)):
            reports += batch.frame.height
            if reports > most:
                break
    if reports > most:
        rule, remedy = f"must have at most {most:,} reports to be linked", "use a subset of the users"
        raise InputError(rule, value=reports, file=source.path, remedy=remedy)


def _linked(scorer: Scorer, index: int, users: pl.Series, lengths: Integers, reports: Reports) -> pl.DataFrame:
    """Return the likeliest other pseudonym of each user for one adversary, where its score is positive."""
    likeliest = [(scores.argmax(axis=1), scores.max(axis=1)) for scores in _scores(scorer, index, lengths, reports)]
    other, best = (np.concatenate(part) for part in zip(*likeliest, strict=True))
    frame = pl.DataFrame(
        {
            "adversary": pl.repeat(scorer.adversaries[index].name, len(users), eager=True),
            "user": users,
            "other": users.gather(other),
            "score": best,
        }
    )
    return frame.filter(pl.col("score") > 0).sort("score", descending=True, maintain_order=True)


def _scores(scorer: Scorer, index: int, lengths: Integers, reports: Reports) -> Iterator[Floats]:
    """Yield scores of batches of users with about `BATCH_REPORTS` reports, (batch, users); -inf with themselves."""
    assert memoizes(scorer.device)
    starts = np.cumsum(lengths) - lengths
    for share in np.unique(starts // BATCH_REPORTS):
        mine = np.flatnonzero(starts // BATCH_REPORTS == share)
        rows = positions(starts[mine], lengths[mine])
        some = {name: column[rows] for name, column in reports.items()}
        scores = link_scores(scorer.device, some, reports, scorer.adversaries[index], (lengths[mine], lengths))
        scores[np.arange(len(mine)), mine] = -np.inf
        yield scores
