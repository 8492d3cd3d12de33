"""One command for each public verb: parse, call one library function, print."""

from __future__ import annotations

import gc
import os
import sys
import warnings
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from poolscope.cli import advising as advising
from poolscope.cli import data as data
from poolscope.cli import rerun as rerun
from poolscope.cli.app import (
    DEBUG,
    MECHANISMS,
    EngineOption,
    Observations,
    Scenario,
    Scheduler,
    Threshold,
    app,
    command,
    waited,
)

#: Objects that are made before the youngest are looked through for garbage.
GARBAGE = 50_000


@command("poolscope audit apple-emojis --users 2000 --epsilon 2 --observations 30,180")
def audit(
    scenario: Scenario,
    users: Annotated[int | None, typer.Option(help="How many users play.")] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same outcomes.")] = 0,
    engine: EngineOption = None,
    scheduler: Scheduler = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run; default poolscope-SCENARIO.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a stopped run.")] = False,
    observations: Observations = None,
    threshold: Threshold = None,
    epsilon: Annotated[float | None, typer.Option(help="Of a report, instead of the scenario's.")] = None,
    mechanism: Annotated[
        str | None, typer.Option(metavar="NAME", help=f"Instead of the scenario's: {MECHANISMS}.")
    ] = None,
) -> None:
    """Play the pool inference game and say what the reports reveal."""
    from poolscope.cli.progress import going_on, working

    with working("Playing") as work:
        from poolscope.cli.app import counts
        from poolscope.cli.audit import finished_users, print_audit
        from poolscope.cli.progress import running
        from poolscope.core.files import last_folder, new_folder
        from poolscope.html.workflows import audit
        from poolscope.scenario.scenario import load_scenario

        loaded = load_scenario(scenario)
        folder = out or (last_folder if resume else new_folder)(f"poolscope-{loaded.name}")
        again = going_on(folder if out is None else None, resume)
        work.kept = lambda: finished_users(folder, again)
        with running(work, engine, scheduler) as own:
            summary = audit(
                loaded,
                folder,
                users=users,
                seed=seed,
                observations=counts(observations, "observations") if observations else None,
                threshold=threshold,
                epsilon=epsilon,
                mechanism=mechanism,
                engine=own,
                resume=resume,
                progress=work,
            )
    print_audit(summary, folder / "report.html", waited())


@command("poolscope reproduce --users 2000")
def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME...]", help="Experiments to play; all by default.")
    ] = None,
    users: Annotated[int | None, typer.Option(help="At most so many users each, for a quick pass.")] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same outcomes.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder of the reproduction; the same one goes on where it was.")] = Path(
        "poolscope-reproduction"
    ),
    traces: Annotated[Path | None, typer.Option(help="Recorded emojis, for the experiments on real users.")] = None,
    engine: EngineOption = None,
    scheduler: Scheduler = None,
) -> None:
    """Play the paper's experiments and lay the published numbers beside ours."""
    from poolscope.cli.progress import going_on, working

    with working("Reproducing") as work:
        from poolscope.cli.progress import running
        from poolscope.cli.reproduction import finished_experiments, print_reproduction
        from poolscope.paper.reproduce import reproduce

        work.kept = lambda: f"{finished_experiments(out)}, {going_on()}"
        with running(work, engine, scheduler) as own:
            done = reproduce(names or [], out, users=users, seed=seed, traces=traces, engine=own, progress=work)
    print_reproduction(done, out / "reproduction.html", waited())


@command("poolscope check mine.toml --samples 1000000")
def check(
    scenario: Scenario,
    samples: Annotated[int, typer.Option(help="Reports to make.")] = 100_000,
    seed: Annotated[int, typer.Option(help="Same seed, same verdict.")] = 0,
    confidence: Annotated[float, typer.Option(help="Of the lower bounds on epsilon, all together.")] = 0.95,
    objects: Annotated[
        str | None, typer.Option(metavar="NAME,...", help="Objects to try; default those that stand out, and others.")
    ] = None,
    pools: Annotated[str | None, typer.Option(metavar="NAME,...", help="Pools whose objects are tried.")] = None,
) -> None:
    """Check that a mechanism keeps its epsilon; exit code 1 if it does not."""
    from poolscope.cli.progress import working

    with working("Checking", "reports") as work:
        from poolscope.cli.check import names_in, print_verdict
        from poolscope.kernels.compilation import watched
        from poolscope.scenario.scenario import load_scenario
        from poolscope.workflows.check.check import check

        work.stage("Making and looking at reports")
        with watched(work.compiling):
            verdict = check(
                load_scenario(scenario),
                samples=samples,
                seed=seed,
                confidence=confidence,
                objects=names_in(objects),
                pools=names_in(pools),
            )
    print_verdict(verdict)
    raise typer.Exit(0 if verdict.passed else 1)


@command("poolscope compare mine.toml --mechanism grr,oue,cms --epsilon 1,2,4")
def compare(
    scenario: Scenario,
    mechanism: Annotated[
        str, typer.Option(metavar="NAME,...", help=f"Mechanisms to compare, as grr,oue: {MECHANISMS}, or module:Class.")
    ],
    epsilon: Annotated[str, typer.Option(metavar="NUMBER,...", help="Each mechanism at each, as 0.5,1,2.")],
    users: Annotated[int | None, typer.Option(help="How many users play; default at most 1,000.")] = None,
    estimate_from: Annotated[int, typer.Option(help="Reports that the frequency estimate is made of.")] = 100_000,
    seed: Annotated[int, typer.Option(help="Same seed, same users.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder; default poolscope-compare-SCENARIO.")] = None,
    observations: Annotated[
        str | None,
        typer.Option(metavar="N,...", help="After how many reports, instead of the scenario's; the largest is told."),
    ] = None,
    threshold: Threshold = None,
    engine: EngineOption = None,
    scheduler: Scheduler = None,
) -> None:
    """Play the same users against several mechanisms: privacy against utility."""
    from poolscope.cli.progress import working

    with working("Comparing") as work:
        from poolscope.cli.app import counts, numbers, words
        from poolscope.cli.compare import print_comparison
        from poolscope.cli.progress import running
        from poolscope.core.files import new_folder
        from poolscope.html.workflows import compare
        from poolscope.scenario.scenario import load_scenario

        loaded = load_scenario(scenario)
        folder = out or new_folder(f"poolscope-compare-{loaded.name}")
        choices = words(mechanism), numbers(epsilon, "epsilon")
        with running(work, engine, scheduler) as own:
            done = compare(
                loaded,
                *choices,
                users=users,
                seed=seed,
                estimate_from=estimate_from,
                observations=counts(observations, "observations") if observations else None,
                threshold=threshold,
                engine=own,
                out=folder,
                progress=work,
            )
    print_comparison(done, folder / "comparison.html", waited())


@command("poolscope explore apple-web-domains")
def explore(
    what: Annotated[
        str | None,
        typer.Argument(metavar="SCENARIO|DIR|POSTERIORS", help="Where to start; default apple-emojis."),
    ] = None,
    port: Annotated[int, typer.Option(help="Of 127.0.0.1; 0 is any that is free.")] = 0,
    seed: Annotated[int, typer.Option(help="Same seed, same users; of a run, the run's.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Whether to open the browser.")] = True,
) -> None:
    """Try settings in the browser, on this machine only: sliders move, and the exact engine answers."""
    from poolscope.explore.server import explore

    explore(what, port=port, seed=seed, browser=browser, opened=lambda at: typer.echo(f"{at}\nCtrl-C ends it."))
    typer.echo("poolscope: the explorer has ended", err=True)


@command("poolscope scenarios apple-emojis > mine.toml")
def scenarios(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Print this one's TOML to start from.")] = None,
) -> None:
    """List the built-in scenarios, or print the TOML of one."""
    from poolscope.cli.audit import print_scenarios
    from poolscope.scenario.scenario import builtin_text

    if name is None:
        print_scenarios()
    else:
        typer.echo(builtin_text(name), nl=False)


@command("poolscope render poolscope-apple-emojis")
def render(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of audit, compare or advise.")],
) -> None:
    """Write the page of a finished folder again."""
    from poolscope.cli.progress import working

    with working("Drawing", "pictures"):
        from poolscope.cli.folders import write_page

        page = write_page(folder)
    typer.echo(page)


@command("poolscope figures poolscope-apple-emojis --format pdf")
def figures(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of audit, compare or advise.")],
    format: Annotated[str, typer.Option(metavar="svg|png|pdf", help="Of the files.")] = "svg",
    width: Annotated[str, typer.Option(metavar="column|page", help="Of a paper: one column, or all of it.")] = "page",
) -> None:
    """Write the pictures of a finished folder as files for a paper, into DIR/figures."""
    from poolscope.cli.progress import working

    with working("Drawing", "pictures"):
        from poolscope.cli.folders import write_figures

        written = write_figures(folder, form=format, width=width)
    for path in written:
        typer.echo(path)


def _in_one_line(message: Warning | str, *_: object, **__: object) -> None:
    from poolscope.cli.exit import say

    say(Warning(message))


def main() -> None:
    """Run a command; our errors become one line and an exit code."""
    from poolscope.cli import encoding
    from poolscope.cli.exit import leave
    from poolscope.core.errors import PoolscopeError, Stopped
    from poolscope.core.suppress_stderr import enable

    encoding.enable()
    warnings.showwarning = _in_one_line
    if "--debug" not in sys.argv:
        enable()
    try:
        app(standalone_mode=True)
    except BrokenPipeError:
        raise SystemExit(1) from None
    except PoolscopeError as error:
        if DEBUG in os.environ and not isinstance(error, Stopped):
            raise
        leave(error)
    except MemoryError:
        leave(PoolscopeError("there is not enough memory; take fewer users, reports or objects"))
    except OSError as error:
        # the disk is full, or a folder may not be written
        leave(error)


def program() -> NoReturn:
    """`main` as a process of its own.

    Garbage is looked for more rarely than Python does: what a command makes is mostly there to stay.
    """
    from poolscope.cli.exit import flushed

    gc.set_threshold(GARBAGE)
    code: object = 0
    try:
        main()
    except SystemExit as end:
        code = end.code
    gc.freeze()  # nothing is looked through once more at the end
    sys.exit(flushed(code))
