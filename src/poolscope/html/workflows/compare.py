"""Compare mechanisms, and write the HTML report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from poolscope.core.arguments import checked
from poolscope.core.executors import EngineLike
from poolscope.core.progress import SILENT, Progress
from poolscope.scenario.attacks import AttackSpec
from poolscope.scenario.interest import warn_of_interest
from poolscope.scenario.scenario import Scenario
from poolscope.workflows import compare as comparing
from poolscope.workflows.compare import DEFAULT_REPORTS, Comparison


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
    """Compare every mechanism at every ε on the same users of a scenario.

    Parameters
    ----------
    mechanisms : names, or custom classes (also as "module:Class") with the methods that `adapt` needs, called with
        ``universe`` or ``size`` and ``epsilon``, as far as they take them. Other parameters have the mechanism's
        defaults, or the values of the scenario's ``[mechanism]`` where there is no default. A mechanism without an
        ε runs once.
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
