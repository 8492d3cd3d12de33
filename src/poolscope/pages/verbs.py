"""The verbs whose folder has a page, with the page: what the commands and the package's root call by their names.

Pages are imported when they are drawn: a game begins sooner without them.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from poolscope.base.engines import Engine
from poolscope.base.progress import SILENT, Progress
from poolscope.scenario.scenario import Scenario
from poolscope.verbs import compare as comparing
from poolscope.verbs.audit import run as auditing
from poolscope.verbs.audit.folder import Run, Summary
from poolscope.verbs.reproduce import runner as reproducing

DRAWING = "Drawing the page"


def audit(
    scenario: Scenario,
    out: str | PathLike[str],
    *,
    users: int | None = None,
    seed: int = 0,
    engine: Engine | None = None,
    resume: bool = False,
    progress: Progress = SILENT,
) -> Summary:
    """Play a scenario into a folder, with its page; returns its summary.

    Parameters
    ----------
    scenario : Scenario
        What is played.
    out : path
        The folder of the run: ``summary.json``, ``outcomes/``, ``report.html`` and more.
    users : int, optional
        How many; the scenario's count where absent, and without one as many as take about ten seconds.
    seed : int
        Same seed, same outcomes.
    engine : Engine, optional
        Where the blocks are played; the threads of this process where absent.
    resume : bool
        Go on with a run that was stopped.
    progress : Progress
        Told what is done, the number of users before the first block, and users as they are played.

    Returns
    -------
    Summary
        What was played, and its records in ``results``; a notebook shows it as a table.

    Examples
    --------
    >>> summary = ps.audit(ps.load_scenario("apple-emojis"), "run", users=20, seed=1)
    >>> summary.users, len(summary.results)
    (20, 12)
    >>> import os
    >>> sorted(name for name in os.listdir("run") if name != "figures")
    ['manifest.json', 'outcomes', 'report.html', 'summary.json']
    """
    summary = auditing.audit(scenario, out, users=users, seed=seed, engine=engine, resume=resume, progress=progress)
    progress.stage(DRAWING)
    from poolscope.pages.audit import write_page

    write_page(Run.within(Path(out), summary))
    return summary


def compare(
    scenario: Scenario,
    mechanisms: Sequence[str],
    epsilons: Sequence[float],
    *,
    users: int | None = None,
    seed: int = 0,
    reports: int = comparing.DEFAULT_REPORTS,
    engine: Engine | None = None,
    out: str | PathLike[str] | None = None,
    progress: Progress = SILENT,
) -> comparing.Comparison:
    """Play a scenario's users against every mechanism at every epsilon.

    Parameters
    ----------
    scenario : Scenario
        Universe, users and adversaries.
    mechanisms : sequence of str
        Names. Parameters but for epsilon are the mechanism's own defaults, and those of the scenario's ``[mechanism]``
        where it has no default; a mechanism without an epsilon is played once.
    epsilons : sequence of float
        Each mechanism is played at each of them.
    users : int, optional
        How many; where absent the scenario's count, up to a thousand.
    seed : int
        The users, what they pick and what they draw are the same for every choice.
    reports : int
        How many reports the frequency estimate is made of.
    engine : Engine, optional
        Where users are played; the threads of this process where absent.
    out : path, optional
        A new folder for ``comparison.json`` and its page; outcomes lie beside it while they are needed (in the system's
        temporary folder where there is none), and workers on other machines must see them.
    progress : Progress
        Told what is done, the number of users of all choices together, and users as they are played.

    Returns
    -------
    Comparison
        Its ``results`` are a record for each choice and adversary.

    Examples
    --------
    >>> done = ps.compare(ps.load_scenario("apple-emojis"), ["grr", "oue"], [1.0], users=20, reports=1000)
    >>> [(choice.mechanism, choice.adversary) for choice in done.results]
    [('grr', 'weak'), ('grr', 'strong'), ('oue', 'weak'), ('oue', 'strong')]
    """
    done = comparing.compare(
        scenario,
        mechanisms,
        epsilons,
        users=users,
        seed=seed,
        reports=reports,
        engine=engine,
        out=out,
        progress=progress,
    )
    if out is not None:
        progress.stage(DRAWING)
        from poolscope.pages.comparison import write_page

        write_page(done, Path(out))
    return done


def reproduce(
    names: Sequence[str],
    out: str | PathLike[str],
    *,
    users: int | None = None,
    seed: int = 0,
    traces: Path | None = None,
    engine: Engine | None = None,
    progress: Progress = SILENT,
) -> reproducing.Reproduction:
    """Play the paper's experiments of these names (all where none) into a folder, with the page that shows them.

    What is there already is not played again.

    Parameters
    ----------
    names : sequence of str
        Experiments, as ``poolscope reproduce`` takes them.
    out : path
        The folder; the same one goes on where it was.
    users : int, optional
        At most so many in each, for a quick pass.
    seed : int
        Same seed, same outcomes.
    traces : path, optional
        Recorded emojis, made with the universe emoji-11, for the experiments on recorded users.
    engine, progress
        As in ``audit``.
    """
    folder = Path(out)
    done = reproducing.reproduce(names, folder, users=users, seed=seed, traces=traces, engine=engine, progress=progress)
    progress.stage(DRAWING)
    from poolscope.pages.reproduction import write_page

    write_page(done, folder)
    return done
