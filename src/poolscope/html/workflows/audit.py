"""Audit a scenario, and write its HTML report."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from poolscope.core.arguments import checked
from poolscope.core.executors import EngineLike
from poolscope.core.progress import SILENT, Progress
from poolscope.scenario.attacks import AttackSpec
from poolscope.scenario.interest import warn_of_interest
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.audit import audit as auditing
from poolscope.workflows.audit.run_folder import Run, Summary


@checked
def audit(
    scenario: Scenario,
    out: str | PathLike[str],
    *,
    users: int | None = None,
    seed: int = 0,
    observations: Sequence[int] | None = None,
    threshold: float | None = None,
    epsilon: float | None = None,
    mechanism: Any = None,
    attacks: Sequence[AttackSpec] = (),
    engine: EngineLike | None = None,
    resume: bool = False,
    html: bool = True,
    progress: Progress = SILENT,
) -> Summary:
    """Simulate the pool inference attack on a scenario, write a run's folder, and return its summary.

    Parameters
    ----------
    users : number of users; by default the scenario's, or as many as take about ten seconds.
    observations, threshold, epsilon, mechanism : replace those of the scenario; a new mechanism has the parameters
        that `compare` gives it, or is one's own: an instance, a class, or "module:Class". To resume the run, pass the
        same values.
    attacks : further attacks, each a built-in name, a class or instance (`Attack`), or "module:Class". They have the
        assumptions of the scenario's last adversary.
    engine : where blocks of users run: `Local`, `Dask`, or anything with a ``map`` (an executor of
        ``concurrent.futures``, a Dask client); by default the threads of this process.
    html : whether to write the HTML report, ``report.html``.
    progress : receives the current stage, the total number of users, and users as they finish.

    Examples
    --------
    >>> summary = ps.audit(ps.load_scenario("apple-emojis"), "run", users=20, seed=1)
    >>> summary.users, len(summary.results)
    (20, 12)
    >>> import os
    >>> sorted(name for name in os.listdir("run") if name != "figures")
    ['manifest.json', 'outcomes', 'report.html', 'summary.json']
    """
    warn_of_interest(scenario)
    summary = auditing.audit(
        scenario,
        out,
        users=users,
        seed=seed,
        observations=observations,
        threshold=threshold,
        epsilon=epsilon,
        mechanism=mechanism,
        attacks=attacks,
        engine=engine,
        resume=resume,
        progress=progress,
    )
    if html:
        from poolscope.html.audit import write_page

        progress.stage("Writing the report")
        write_page(Run.within(Path(out), summary))
    return summary
