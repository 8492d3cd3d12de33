"""Audit, compare and advise with their HTML reports: what the commands and `poolscope` call by their names.

Renderers are imported when they draw: a game begins sooner without them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from poolscope.core.arguments import checked
from poolscope.core.executors import EngineLike
from poolscope.core.progress import SILENT, Progress
from poolscope.scenario.scenario import Scenario
from poolscope.workflows import compare as comparing
from poolscope.workflows.advise import advise as advising
from poolscope.workflows.advise.records import Advice
from poolscope.workflows.audit import audit as auditing
from poolscope.workflows.audit.run_folder import Run, Summary
from poolscope.workflows.compare import DEFAULT_REPORTS, Comparison


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
    mechanism: str | None = None,
    engine: EngineLike | None = None,
    resume: bool = False,
    html: bool = True,
    progress: Progress = SILENT,
) -> Summary:
    """Play a scenario into a folder; returns its summary.

    Parameters
    ----------
    users : how many; the scenario's count where absent, and without one as many as take about ten seconds.
    observations, threshold, epsilon, mechanism : in place of the scenario's; another mechanism's parameters are those
        of `compare`. The run's scenario is then the changed one, which `resume` must be asked for again.
    engine : where the blocks are played: `Local`, `Dask`, or anything with a ``map`` (an executor of
        ``concurrent.futures``, a Dask client); the threads of this process where absent.
    html : whether to write the HTML report, ``report.html``.
    progress : receives the current stage, the number of users before the first block, and users as they are played.

    Examples
    --------
    >>> summary = ps.audit(ps.load_scenario("apple-emojis"), "run", users=20, seed=1)
    >>> summary.users, len(summary.results)
    (20, 12)
    >>> import os
    >>> sorted(name for name in os.listdir("run") if name != "figures")
    ['manifest.json', 'outcomes', 'report.html', 'summary.json']
    """
    summary = auditing.audit(
        scenario,
        out,
        users=users,
        seed=seed,
        observations=observations,
        threshold=threshold,
        epsilon=epsilon,
        mechanism=mechanism,
        engine=engine,
        resume=resume,
        progress=progress,
    )
    if html:
        from poolscope.html.audit import write_page

        progress.stage("Writing the report")
        write_page(Run.within(Path(out), summary))
    return summary


@checked
def compare(
    scenario: Scenario,
    mechanisms: Sequence[str | Callable[..., Any]],
    epsilons: Sequence[float],
    *,
    users: int | None = None,
    seed: int = 0,
    estimate_from: int = DEFAULT_REPORTS,
    observations: Sequence[int] | None = None,
    threshold: float | None = None,
    engine: EngineLike | None = None,
    out: str | PathLike[str] | None = None,
    html: bool = True,
    progress: Progress = SILENT,
) -> Comparison:
    """Play a scenario's users against every mechanism at every epsilon.

    Parameters
    ----------
    mechanisms : names, or classes of your own (also as "module:Class"), which are made of ``universe`` or ``size`` and
        ``epsilon``, as far as they take them, and need what `adapt` needs. Parameters of a name but for epsilon are the
        mechanism's own defaults, and those of the scenario's ``[mechanism]`` where it has no default; a mechanism
        without an epsilon is played once.
    users : how many; where absent the scenario's count, up to a thousand.
    seed : the users, what they pick and what they draw are the same for every choice.
    estimate_from : how many reports the frequency estimate is made of.
    observations, threshold : in place of the scenario's; what is told is after the largest count.
    out : a new folder for ``comparison.json``; outcomes lie beside it while they are needed (in the system's temporary
        folder where there is none), and workers on other machines must see them.
    html : whether to write the HTML report, ``comparison.html`` into ``out`` where there is one.
    progress : receives the current stage, the number of users of all choices together, and users as they are played.

    Examples
    --------
    >>> done = ps.compare(ps.load_scenario("apple-emojis"), ["grr", "oue"], [1.0], users=20, estimate_from=1000)
    >>> [(choice.mechanism, choice.adversary) for choice in done.results]
    [('grr', 'weak'), ('grr', 'strong'), ('oue', 'weak'), ('oue', 'strong')]
    """
    comparison = comparing.compare(
        scenario,
        mechanisms,
        epsilons,
        users=users,
        seed=seed,
        estimate_from=estimate_from,
        observations=observations,
        threshold=threshold,
        engine=engine,
        out=out,
        progress=progress,
    )
    if html and out is not None:
        from poolscope.html.compare import write_page

        progress.stage("Writing the report")
        write_page(comparison, Path(out))
    return comparison


@checked
def advise(
    scenario: Scenario,
    *,
    max_exposed: float,
    threshold: float | None = None,
    horizon: int | None = None,
    days: float | None = None,
    max_error: float | None = None,
    devices: int | None = None,
    mechanisms: Sequence[str] | None = None,
    adversary: str | None = None,
    epsilon: tuple[float, float] | None = None,
    users: int | None = None,
    tolerance: float | None = None,
    mitigations: bool = False,
    seed: int = 0,
    engine: EngineLike | None = None,
    out: str | PathLike[str] | None = None,
    html: bool = True,
    progress: Progress = SILENT,
) -> Advice:
    """Which mechanism, epsilon and cap expose few users enough and serve the curator well enough.

    Parameters
    ----------
    max_exposed : the share of users who may be exposed, at most, with this `threshold` of the adversary; where absent,
        the scenario's threshold, or 0.9 without one.
    horizon, days : by then; the scenario's last observation count where both are absent.
    max_error, devices : the most that the error (RMSE) of a frequency may be, from one report of each device; both or
        none.
    mechanisms : names; the scenario's own and some common ones where absent.
    adversary : the name of one of the scenario's; the strongest where absent.
    epsilon : the smallest and the largest that are looked at.
    users : how many search at most, and as many others verify the recommendation. By default as many as expose 800 at
        the target, from 4,000 to 40,000; where devices keep answers, as many as there is time for.
    tolerance : how wide the 95 % interval of a share at the border may be while mechanisms are compared. Users are
        added until it lies on one side, is that narrow, or they run out.
    mitigations : whether to play measures beside the recommendation.
    seed : the same seed and `users` give the same advice; users who verify come from seeds after it.
    out : a new folder for ``advice.json`` and ``recommended.toml``.
    html : whether to write the HTML report, ``advice.html`` into ``out`` where there is one.
    progress : receives the current stage, and users as they are played.

    Examples
    --------
    >>> scenario = ps.load_scenario("apple-emojis")
    >>> advice = ps.advise(scenario, max_exposed=0.1, horizon=7, mechanisms=["grr"], users=200, tolerance=0.2)
    >>> [(found.mechanism, found.feasible) for found in advice.findings]
    [('grr', 'yes')]
    """
    advice = advising.advise(
        scenario,
        max_exposed=max_exposed,
        threshold=threshold,
        horizon=horizon,
        days=days,
        max_error=max_error,
        devices=devices,
        mechanisms=mechanisms,
        adversary=adversary,
        epsilon=epsilon,
        users=users,
        tolerance=tolerance,
        mitigations=mitigations,
        seed=seed,
        engine=engine,
        out=out,
        progress=progress,
    )
    if html and out is not None:
        from poolscope.html.advise import write_page

        progress.stage("Writing the report")
        write_page(advice, Path(out))
    return advice
