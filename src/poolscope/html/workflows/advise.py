"""Advise on a scenario, and write the HTML report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import overload

from poolscope.core.arguments import checked
from poolscope.core.errors import InputError
from poolscope.core.executors import EngineLike
from poolscope.core.progress import SILENT, Progress
from poolscope.scenario.interest import warn_of_interest
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.advise import advise as advising
from poolscope.workflows.advise.collection_records import CollectionsAdvice
from poolscope.workflows.advise.collections import advise_collections, max_error_of_each
from poolscope.workflows.advise.records import Advice


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
    """Recommend a mechanism, ε and cap that meet targets of exposure and accuracy.

    For a scenario with several collections, `max_error` is a mapping, and the advice is an ε and a cap for each
    collection (`CollectionsAdvice`).

    Parameters
    ----------
    max_exposed : largest share of users exposed, at this confidence `threshold`; by default the scenario's threshold,
        or 0.9.
    horizon, days : number of events, or of days, that the target is for; by default the scenario's last count.
    max_error, devices : largest RMSE of a frequency from one report of each device; both or none. With several
        collections, a mapping from their names, which may be empty.
    mechanisms : names; by default the scenario's own and common ones. "all" is every one with an ε.
    adversary : name of an adversary of the scenario; by default the strongest.
    epsilon : smallest and largest ε of the search.
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
