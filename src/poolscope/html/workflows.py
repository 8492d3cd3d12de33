"""Run audit, compare and advise, and write their HTML reports: the functions that the package exports.

The workflows know no HTML. Renderers are imported only when they are needed, so that a simulation starts sooner.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, overload

from poolscope.core.arguments import checked
from poolscope.core.errors import InputError
from poolscope.core.executors import EngineLike
from poolscope.core.progress import SILENT, Progress
from poolscope.scenario.attacks import AttackSpec
from poolscope.scenario.interest import warn_of_interest
from poolscope.scenario.scenario import Scenario
from poolscope.workflows import compare as comparing
from poolscope.workflows.advise import advise as advising
from poolscope.workflows.advise.collection_records import CollectionsAdvice
from poolscope.workflows.advise.collections import advise_collections, max_error_of_each
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
    attacks: Sequence[AttackSpec] = (),
    engine: EngineLike | None = None,
    out: str | PathLike[str] | None = None,
    html: bool = True,
    progress: Progress = SILENT,
) -> Comparison:
    """Compare every mechanism at every epsilon on the same users of a scenario.

    Parameters
    ----------
    mechanisms : names, or custom classes (also as "module:Class") with the methods that `adapt` needs, called with
        ``universe`` or ``size`` and ``epsilon``, as far as they take them. Other parameters have the mechanism's
        defaults, or the values of the scenario's ``[mechanism]`` where there is no default. A mechanism without an
        epsilon runs once.
    users : number of users; by default the scenario's, at most 1,000.
    seed : users, objects and random draws are the same for every configuration.
    estimate_from : number of reports of the frequency estimate.
    observations, threshold : replace those of the scenario; results are at the largest count.
    attacks : further attacks, as of `audit`.
    out : a new folder for ``comparison.json`` and, temporarily, for outcomes, which workers on other machines must be
        able to read; by default outcomes are in the system's temporary folder.
    html : whether to write the HTML report, ``comparison.html`` into ``out`` where there is one.
    progress : receives the current stage, the number of users of all configurations, and users as they finish.

    Examples
    --------
    >>> done = ps.compare(ps.load_scenario("apple-emojis"), ["grr", "oue"], [1.0], users=20, estimate_from=1000)
    >>> [(choice.mechanism, choice.adversary) for choice in done.results]
    [('grr', 'weak'), ('grr', 'strong'), ('oue', 'weak'), ('oue', 'strong')]
    """
    warn_of_interest(scenario)
    comparison = comparing.compare(
        scenario,
        mechanisms,
        epsilons,
        users=users,
        seed=seed,
        estimate_from=estimate_from,
        observations=observations,
        threshold=threshold,
        attacks=attacks,
        engine=engine,
        out=out,
        progress=progress,
    )
    if html and out is not None:
        from poolscope.html.compare import write_page

        progress.stage("Writing the report")
        write_page(comparison, Path(out))
    return comparison


@overload
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
    prefer: str | None = None,
    consider: Sequence[str] | None = None,
    mitigations: bool = False,
    seed: int = 0,
    engine: EngineLike | None = None,
    out: str | PathLike[str] | None = None,
    html: bool = True,
    progress: Progress = SILENT,
) -> Advice: ...


@overload
def advise(
    scenario: Scenario,
    *,
    max_exposed: float,
    max_error: Mapping[str, float],
    threshold: float | None = None,
    horizon: int | None = None,
    days: float | None = None,
    devices: int | None = None,
    adversary: str | None = None,
    epsilon: tuple[float, float] | None = None,
    users: int | None = None,
    tolerance: float | None = None,
    prefer: str | None = None,
    seed: int = 0,
    engine: EngineLike | None = None,
    out: str | PathLike[str] | None = None,
    html: bool = True,
    progress: Progress = SILENT,
) -> CollectionsAdvice: ...


@checked
def advise(
    scenario: Scenario,
    *,
    max_exposed: float,
    threshold: float | None = None,
    horizon: int | None = None,
    days: float | None = None,
    max_error: float | Mapping[str, float] | None = None,
    devices: int | None = None,
    mechanisms: Sequence[str] | None = None,
    adversary: str | None = None,
    epsilon: tuple[float, float] | None = None,
    users: int | None = None,
    tolerance: float | None = None,
    prefer: str | None = None,
    consider: Sequence[str] | None = None,
    mitigations: bool = False,
    seed: int = 0,
    engine: EngineLike | None = None,
    out: str | PathLike[str] | None = None,
    html: bool = True,
    progress: Progress = SILENT,
) -> Advice | CollectionsAdvice:
    """Recommend a mechanism, epsilon and cap that meet targets of exposure and accuracy.

    For a scenario with several collections, `max_error` is a mapping, and the advice is an epsilon and a cap for each
    collection (`CollectionsAdvice`).

    Parameters
    ----------
    max_exposed : largest share of users exposed, at this confidence `threshold`; by default the scenario's threshold,
        or 0.9.
    horizon, days : number of events, or of days, that the target is for; by default the scenario's last count.
    max_error, devices : largest RMSE of a frequency from one report of each device; both or none. With several
        collections, a mapping from their names, which may be empty.
    mechanisms : names; by default the scenario's own and common ones. "all" is every one with an epsilon.
    adversary : name of an adversary of the scenario; by default the strongest.
    epsilon : smallest and largest epsilon of the search.
    users : largest number of users of the search; as many others verify the recommendation. By default enough to
        expose 800 at the target, from 4,000 to 40,000; with memoization, as many as time allows.
    tolerance : width of the 95% CI of a share near the target at which the search stops adding users.
    prefer : what the recommendation is chosen by among options that meet the targets: "utility", "lowest-epsilon",
        "lowest-total-epsilon", "least-exposure" or "fewest-reports". By default the least exposure where there is an
        error target, and the utility without one. With several collections "least-exposure" or "utility".
    consider : what devices may do beside the mechanism, each tried with every mechanism: "memoize", "rotate", "sample",
        "cap".
    mitigations : whether to simulate mitigations of the recommendation.
    seed : the same seed and `users` give the same advice; held-out users come from later seeds.
    out : a new folder for ``advice.json`` and ``recommended.toml``.
    html : whether to write the HTML report, ``advice.html`` into ``out`` where there is one.
    progress : receives the current stage, and users as they finish.

    Examples
    --------
    >>> scenario = ps.load_scenario("apple-emojis")
    >>> advice = ps.advise(scenario, max_exposed=0.1, horizon=7, mechanisms=["grr"], users=200, tolerance=0.2)
    >>> [(found.mechanism, found.feasible) for found in advice.findings]
    [('grr', 'yes')]
    """
    if scenario.collections:
        asked = max_error_of_each(
            scenario, max_error, mechanisms=mechanisms, consider=consider, mitigations=mitigations
        )
        advice: Advice | CollectionsAdvice = advise_collections(
            scenario,
            max_exposed=max_exposed,
            max_error=asked,
            threshold=threshold,
            horizon=horizon,
            days=days,
            devices=devices,
            adversary=adversary,
            epsilon=epsilon,
            users=users,
            tolerance=tolerance,
            prefer=prefer,
            seed=seed,
            engine=engine,
            out=out,
            progress=progress,
        )
    else:
        if isinstance(max_error, Mapping):
            raise InputError("max_error must be a number where there is one collection", value=dict(max_error))
        warn_of_interest(scenario)
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
            prefer=prefer,
            consider=consider,
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
