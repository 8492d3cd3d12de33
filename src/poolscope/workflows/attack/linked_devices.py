"""Pseudonyms of a file joined to devices before the attack, by the answers that devices keep."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path

import numpy as np
import polars as pl

from poolscope.core.errors import InputError, located
from poolscope.core.tables import check_output, writing
from poolscope.devices.protocols import memoizes
from poolscope.inference.link_evidence import evident
from poolscope.inference.pseudonyms import joined, linked
from poolscope.reports.files import row_bytes
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.attack.chunks import block
from poolscope.workflows.attack.preparation import Prepared
from poolscope.workflows.attack.scoring import Scorer

#: Copies of all reports that are held while answers are compared.
COPIES = 6

REMEDY = "take some of the users"


@dataclass(frozen=True, kw_only=True)
class Joined:
    """Pseudonyms joined to devices.

    Parameters
    ----------
    rate : the share of links that may be wrong, in the mean.
    adversary : whose popularity says how likely it is that two devices have one answer by chance.
    pseudonyms, devices, links : how many there are in the file, how many devices that makes, by how many links.
    refused : how many pseudonyms are left apart though they are linked, as two of one device would be used at a time.
    table : for each pseudonym, in the order of the file, ``pseudonym``, ``user`` (the first pseudonym of its device)
        and ``evidence``, the natural logarithm of that of its best link; none for one that is not linked.
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
        """What the device of a pseudonym is called; a name that is none stays."""
        mine = self.table.filter(pl.col("pseudonym").cast(pl.String) == name)["user"].cast(pl.String)
        return str(mine[0]) if len(mine) else name

    def of_devices(self, truth: pl.DataFrame) -> pl.DataFrame:
        """A table with a column ``user`` of pseudonyms, of devices: of each the row of its first pseudonym there."""
        names = (self.table[name].cast(pl.String) for name in ("pseudonym", "user"))
        return truth.with_columns(pl.col("user").replace(*names)).unique("user", keep="first", maintain_order=True)

    def counted(self, frame: pl.DataFrame) -> pl.DataFrame:
        """A table of users with a column ``pseudonyms``: how many each has."""
        counts = self.table.group_by("user").len("pseudonyms").with_columns(pl.col("pseudonyms").cast(pl.Int32))
        return frame.join(counts, on="user", how="left", maintain_order="left")


def check_rate(rate: float | None) -> None:
    """A share of links, if pseudonyms are to be joined."""
    if rate is not None and not 0 < rate < 1:
        rule = "must be above 0 and below 1, the share of links that may be wrong"
        raise InputError(rule, value=rate, place="join", remedy="0.001 is one in 1,000")


def names_of(scorer: Scorer) -> str:
    """What is said where devices change their pseudonyms and these are not joined."""
    told = "reports are linked by the users that the file names, whatever [devices] has as window"
    return f"{told}; `link_fdr` joins them by kept answers" if scorer.grouping else told


def join_pseudonyms(ready: Prepared, rate: float, path: Path, scenario: Scenario, max_bytes: int) -> Joined:
    """Which names of the file are one device's."""
    scorer = ready.scorer
    if not memoizes(scorer.device):
        rule, remedy = (
            "must have devices that keep answers, by which pseudonyms are joined",
            "if they do, memoize = true",
        )
        raise InputError(rule, file=scenario.file, place="devices", remedy=remedy)
    if not scorer.grouping:
        rule = "must have an adversary who knows that devices keep their answers, by which pseudonyms are joined"
        raise InputError(rule, file=scenario.file, place="adversary", remedy="leave out knows_memoization = false")
    with located(file=path):
        most = max_bytes // (COPIES * row_bytes(scorer.mechanism.report_columns))
        if ready.reports > most:
            rule = f"must have at most {most:,} reports for its pseudonyms to be joined"
            raise InputError(rule, value=ready.reports, remedy=REMEDY)
        found = [block(ready.reading, piece) for piece in ready.pieces]
        ready.check_unchanged()
        users = pl.concat([names for names, _ in found])
        names = users.unique(maintain_order=True)
        which = users.replace_strict(names, np.arange(len(names)), return_dtype=pl.Int64).to_numpy()
        order, sizes = np.argsort(which, kind="stable"), np.bincount(which)
        ends = np.cumsum(sizes)
        sent = [reports for _, reports in found]
        reports = {name: np.concatenate([part[name] for part in sent])[order] for name in sent[0]}
        scorer.check(names, sizes, reports)
        adversary = scorer.adversaries[scorer.grouping[0]]
        pairs = evident(scorer.device, reports, sizes, adversary, -math.log(rate))
    made = joined(linked(pairs, len(names), rate), order[ends - sizes], order[ends - 1])
    evidence = np.full(len(names), np.nan)
    for side in (made.links.first, made.links.second):
        np.fmax.at(evidence, side, made.links.log_e_value)
    table = pl.DataFrame({"pseudonym": names, "user": names.gather(made.device), "evidence": evidence})
    return Joined(
        rate=rate,
        adversary=adversary.name,
        pseudonyms=len(names),
        devices=len(np.unique(made.device)),
        links=len(made.links.first),
        refused=int(made.refused.sum()),
        table=table.with_columns(pl.col("evidence").fill_nan(None)),
    )


def with_devices(ready: Prepared, joined: Joined) -> Prepared:
    """The file with its users called by their devices."""
    other = joined.table.filter(pl.col("pseudonym") != pl.col("user"))
    return replace(ready, reading=replace(ready.reading, devices=other))
