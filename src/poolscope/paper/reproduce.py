"""Reproduce the paper, and write its HTML report."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from poolscope.core.arguments import checked
from poolscope.core.errors import check_count
from poolscope.core.executors import EngineLike, as_engine
from poolscope.core.files import ANOTHER, claimed, located_os_errors
from poolscope.core.progress import SILENT, Progress
from poolscope.paper.experiments import chosen
from poolscope.paper.report import write_page
from poolscope.paper.runner import Reproduction, run_experiments


@checked
def reproduce(
    names: str | Sequence[str] = (),
    out: str | PathLike[str] = "poolscope-reproduction",
    *,
    users: int | None = None,
    seed: int = 0,
    traces: str | PathLike[str] | None = None,
    engine: EngineLike | None = None,
    html: bool = True,
    progress: Progress = SILENT,
) -> Reproduction:
    """Run the paper's experiments into a folder; finished runs are not repeated.

    Parameters
    ----------
    names : one experiment or several; by default all.
    out : the folder; an existing reproduction is resumed.
    users : largest number of users per run; by default the paper's.
    traces : recorded emojis with the universe emoji-11, for the experiments on recorded users.
    html : whether to write the HTML report, ``reproduction.html``.
    progress : receives the current stage, the number of users of all runs, and users as they finish.

    Examples
    --------
    >>> done = ps.reproduce("no-hash", "paper", users=10)
    >>> sorted({cell.experiment for cell in done.cells})
    ['no-hash']
    """
    check_count("users", users)
    folder, recorded = Path(out), None if traces is None else Path(traces)
    wanted = chosen([names] if isinstance(names, str) else names, with_traces=recorded is not None)
    with located_os_errors(folder, ANOTHER), claimed(folder):
        done = run_experiments(wanted, folder, users, seed, recorded, as_engine(engine), progress)
    if html:
        progress.stage("Writing the report")
        write_page(done, folder)
    return done
