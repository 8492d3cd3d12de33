"""Define the commands on scenarios: parse options, call one library function, print."""

from __future__ import annotations

import gc
import os
import sys
import warnings
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.main import get_command

from poolscope.cli import data as data
from poolscope.cli import fit_command as fit_command
from poolscope.cli import inspection as inspection
from poolscope.cli import rerun as rerun
from poolscope.cli import sweep_command as sweep_command
from poolscope.cli.app import (
    DEBUG,
    MECHANISMS,
    Attacks,
    CollectionOption,
    EngineOption,
    FailIf,
    Json,
    Junit,
    Observations,
    OnUncertain,
    Scenario,
    Scheduler,
    Threshold,
    app,
    command,
    elapsed,
)

#: Allocations between garbage collections: most objects of a command live until its end.
GARBAGE = 50_000


@command("poolscope audit apple-emojis --users 2000 --epsilon 2 --observations 30,180")
def audit(
    scenario: Scenario,
    users: Annotated[
        int | None,
        typer.Option(help="Simulate this many users.  [default: the scenario's, or about ten seconds' worth]"),
    ] = None,
    seed: Annotated[int, typer.Option(help="Set the seed of the simulation.")] = 0,
    engine: EngineOption = None,
    scheduler: Scheduler = None,
    out: Annotated[Path | None, typer.Option(help="Write to this folder.  [default: poolscope-SCENARIO]")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume a stopped run.")] = False,
    observations: Observations = None,
    threshold: Threshold = None,
    epsilon: Annotated[float | None, typer.Option(help="Set epsilon per report.  [default: the scenario's]")] = None,
    mechanism: Annotated[
        str | None, typer.Option(metavar="NAME", help=f"Use this mechanism instead of the scenario's: {MECHANISMS}.")
    ] = None,
    attack: Attacks = None,
    fail_if: FailIf = None,
    on_uncertain: OnUncertain = "fail",
    junit: Junit = None,
    as_json: Json = False,
) -> None:
    """Simulate the pool inference attack and report what it reveals."""
    from poolscope.cli.progress import resume_command, working

    with working("Simulating") as work:
        from poolscope.cli.app import counts, words
        from poolscope.cli.audit import finished_users, print_audit
        from poolscope.cli.gates import Gates, values_of_audit
        from poolscope.cli.progress import running
        from poolscope.core.files import last_folder, new_folder
        from poolscope.html.workflows.audit import audit
        from poolscope.scenario.scenario import load_scenario
        from poolscope.workflows.audit.run_folder import Summary

        loaded = load_scenario(scenario)
        counted = counts(observations, "observations") if observations else None
        gates = Gates.parse("audit", loaded.name, fail_if, on_uncertain, junit, as_json)
        gates.check(Summary, *values_of_audit(loaded, counted, threshold))
        folder = out or (last_folder if resume else new_folder)(f"poolscope-{loaded.name}")
        again = resume_command(folder if out is None else None, resume)
        work.saved_message = lambda: finished_users(folder, again)
        with running(work, engine, scheduler) as own:
            summary = audit(
                loaded,
                folder,
                users=users,
                seed=seed,
                observations=counted,
                threshold=threshold,
                epsilon=epsilon,
                mechanism=mechanism,
                attacks=words(attack or ""),
                engine=own,
                resume=resume,
                progress=work,
            )
    gates.finish(summary, lambda: print_audit(summary, folder / "report.html", elapsed()))


@command("poolscope reproduce --users 2000")
def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME...]", help="Run these experiments.  [default: all]")
    ] = None,
    users: Annotated[
        int | None, typer.Option(help="Simulate at most this many users per experiment.  [default: the paper's]")
    ] = None,
    seed: Annotated[int, typer.Option(help="Set the seed of the simulation.")] = 0,
    out: Annotated[Path, typer.Option(help="Write to this folder; an existing reproduction is resumed.")] = Path(
        "poolscope-reproduction"
    ),
    traces: Annotated[
        Path | None, typer.Option(help="Read recorded emoji traces, for the experiments on real users.")
    ] = None,
    engine: EngineOption = None,
    scheduler: Scheduler = None,
    as_json: Json = False,
) -> None:
    """Reproduce the paper's experiments and compare with the published values."""
    from poolscope.cli.progress import resume_command, working

    with working("Reproducing") as work:
        from poolscope.cli.gates import print_result
        from poolscope.cli.progress import running
        from poolscope.cli.reproduction import finished_experiments, print_reproduction
        from poolscope.paper.reproduce import reproduce

        work.saved_message = lambda: f"{finished_experiments(out)}, {resume_command()}"
        with running(work, engine, scheduler) as own:
            done = reproduce(names or [], out, users=users, seed=seed, traces=traces, engine=own, progress=work)
    print_result(done, lambda: print_reproduction(done, out / "reproduction.html", elapsed()), as_json=as_json)


@command("poolscope check mine.toml --samples 1000000")
def check(
    scenario: Scenario,
    samples: Annotated[int, typer.Option(help="Sample this many reports.")] = 100_000,
    seed: Annotated[int, typer.Option(help="Set the seed of the samples.")] = 0,
    confidence: Annotated[
        float | None, typer.Option(help="Set the joint confidence of all lower bounds.  [default: 0.95]")
    ] = None,
    objects: Annotated[
        str | None,
        typer.Option(metavar="NAME,...", help="Test these objects.  [default: the most conspicuous and some others]"),
    ] = None,
    pools: Annotated[str | None, typer.Option(metavar="NAME,...", help="Test the objects of these pools.")] = None,
    gate: Annotated[
        bool, typer.Option("--gate", help="Let a correct mechanism fail 1 check in 10,000 at most, instead of 5%.")
    ] = False,
    collection: CollectionOption = None,
    fail_if: FailIf = None,
    on_uncertain: OnUncertain = "fail",
    junit: Junit = None,
    as_json: Json = False,
) -> None:
    """Test whether a mechanism violates its epsilon; exit code 1 if it does."""
    from poolscope.cli.progress import working

    with working("Checking", "reports") as work:
        from poolscope.cli.check import as_gate, names_in, print_verdict
        from poolscope.cli.gates import Gates
        from poolscope.cli.parts import load_part
        from poolscope.kernels.compilation import watched
        from poolscope.workflows.check.check import check
        from poolscope.workflows.check.verdict import Verdict

        loaded = load_part(scenario, collection)
        gates = Gates.parse("check", loaded.name, fail_if, on_uncertain, junit, as_json, alone=True)
        gates.check(Verdict)
        work.stage("Sampling and testing reports")
        with watched(work.compiling):
            verdict = check(
                loaded,
                samples=samples,
                seed=seed,
                confidence=confidence,
                gate=gate,
                objects=names_in(objects),
                pools=names_in(pools),
            )
    gates.finish(verdict, lambda: print_verdict(verdict), as_gate(verdict))


@command("poolscope compare mine.toml --mechanism grr,oue,cms --epsilon 1,2,4")
def compare(
    scenario: Scenario,
    mechanism: Annotated[
        str,
        typer.Option(metavar="NAME,...", help=f"Compare these mechanisms, as grr,oue: {MECHANISMS}, or module:Class."),
    ],
    epsilon: Annotated[
        str, typer.Option(metavar="NUMBER,...", help="Try each mechanism at these values per report, as 0.5,1,2.")
    ],
    users: Annotated[
        int | None, typer.Option(help="Simulate this many users.  [default: the scenario's, at most 1,000]")
    ] = None,
    estimate_from: Annotated[int, typer.Option(help="Estimate frequencies from this many reports.")] = 100_000,
    seed: Annotated[int, typer.Option(help="Set the seed; every configuration has the same users.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Write to this folder.  [default: poolscope-compare-SCENARIO]")
    ] = None,
    observations: Annotated[
        str | None,
        typer.Option(
            metavar="N,...",
            help="Guess after these numbers of reports; the largest is reported.  [default: the scenario's]",
        ),
    ] = None,
    threshold: Threshold = None,
    attack: Attacks = None,
    engine: EngineOption = None,
    scheduler: Scheduler = None,
    fail_if: FailIf = None,
    on_uncertain: OnUncertain = "fail",
    junit: Junit = None,
    as_json: Json = False,
) -> None:
    """Compare mechanisms on the same users: privacy against utility."""
    from poolscope.cli.progress import working

    with working("Comparing") as work:
        from poolscope.cli.app import counts, numbers, words
        from poolscope.cli.compare import print_comparison
        from poolscope.cli.gates import Gates, values_of_comparison
        from poolscope.cli.progress import running
        from poolscope.core.files import new_folder
        from poolscope.html.workflows.compare import compare
        from poolscope.scenario.scenario import load_scenario
        from poolscope.workflows.compare import Comparison

        loaded = load_scenario(scenario)
        folder = out or new_folder(f"poolscope-compare-{loaded.name}")
        choices = words(mechanism), numbers(epsilon, "epsilon")
        counted = counts(observations, "observations") if observations else None
        gates = Gates.parse("compare", loaded.name, fail_if, on_uncertain, junit, as_json)
        gates.check(Comparison, *values_of_comparison(loaded, counted, threshold, *choices))
        with running(work, engine, scheduler) as own:
            done = compare(
                loaded,
                *choices,
                users=users,
                seed=seed,
                estimate_from=estimate_from,
                observations=counted,
                threshold=threshold,
                attacks=words(attack or ""),
                engine=own,
                out=folder,
                progress=work,
            )
    gates.finish(done, lambda: print_comparison(done, folder / "comparison.html", elapsed()))


@command("poolscope advise apple-emojis --max-exposed 0.05 --max-error 0.002 --devices 200000 --mechanism cms,olh,oue")
def advise(
    scenario: Scenario,
    max_exposed: Annotated[float, typer.Option(metavar="SHARE", help="Expose at most this share of users, 0 to 1.")],
    threshold: Annotated[
        float | None, typer.Option(help="Count users as exposed at this confidence.  [default: the scenario's, or 0.9]")
    ] = None,
    horizon: Annotated[
        int | None, typer.Option(help="Limit exposure by this number of reports.  [default: the scenario's last]")
    ] = None,
    days: Annotated[
        float | None, typer.Option(help="Set the horizon in days, by reports_per_day of [devices].")
    ] = None,
    max_error: Annotated[
        list[str] | None,
        typer.Option(
            metavar="E|NAME=E",
            help="Allow at most this RMSE of a frequency, or of collection NAME; needs --devices. Repeatable.",
        ),
    ] = None,
    devices: Annotated[
        int | None, typer.Option(help="Estimate frequencies from one report of each of this many devices.")
    ] = None,
    mechanism: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,...|all", help="Try these mechanisms, or all.  [default: the scenario's and common ones]"
        ),
    ] = None,
    prefer: Annotated[
        str | None,
        typer.Option(
            metavar="PREFERENCE",
            help="Choose by utility, lowest-epsilon, lowest-total-epsilon, least-exposure or fewest-reports.  "
            "[default: least-exposure with --max-error, else utility]",
        ),
    ] = None,
    consider: Annotated[
        str | None,
        typer.Option(metavar="MEASURE,...", help="Try each mechanism with memoize, rotate, sample or cap as well."),
    ] = None,
    adversary: Annotated[
        str | None, typer.Option(metavar="NAME", help="Attack as this adversary.  [default: the strongest]")
    ] = None,
    epsilon: Annotated[
        str | None, typer.Option(metavar="LOW:HIGH", help="Search ε per report in this range.  [default: 0.1:10]")
    ] = None,
    users: Annotated[
        int | None,
        typer.Option(
            help="Simulate at most this many users to search, and as many to verify.  [default: 4,000 to 40,000]"
        ),
    ] = None,
    tolerance: Annotated[
        float | None, typer.Option(help="Stop refining a share when its 95% CI is this narrow.")
    ] = None,
    mitigations: Annotated[bool, typer.Option("--mitigations", help="Simulate mitigations as well.")] = False,
    seed: Annotated[int, typer.Option(help="Set the seed of the simulation.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Write to this folder.  [default: poolscope-advise-SCENARIO]")
    ] = None,
    engine: EngineOption = None,
    scheduler: Scheduler = None,
    fail_if: FailIf = None,
    on_uncertain: OnUncertain = "fail",
    junit: Junit = None,
    as_json: Json = False,
) -> None:
    """Recommend a mechanism, epsilon and cap that meet targets of privacy and utility."""
    from poolscope.cli.progress import working

    with working("Advising") as work:
        from poolscope.cli.advise import as_gate, error_targets, print_advice
        from poolscope.cli.app import words
        from poolscope.cli.gates import Gates
        from poolscope.cli.progress import running
        from poolscope.core.files import new_folder
        from poolscope.html.workflows.advise import advise
        from poolscope.scenario.scenario import load_scenario
        from poolscope.workflows.advise.collection_records import CollectionsAdvice
        from poolscope.workflows.advise.question import parse_range
        from poolscope.workflows.advise.records import Advice

        loaded = load_scenario(scenario)
        gates = Gates.parse("advise", loaded.name, fail_if, on_uncertain, junit, as_json, alone=True)
        gates.check(CollectionsAdvice if loaded.collections else Advice)
        targets = error_targets(max_error or (), loaded)
        folder = out or new_folder(f"poolscope-advise-{loaded.name}")
        with running(work, engine, scheduler) as own:
            done = advise(
                loaded,
                max_exposed=max_exposed,
                threshold=threshold,
                horizon=horizon,
                days=days,
                max_error=targets,
                devices=devices,
                mechanisms=None if mechanism is None else words(mechanism),
                adversary=adversary,
                epsilon=None if epsilon is None else parse_range(epsilon),
                users=users,
                tolerance=tolerance,
                prefer=prefer,
                consider=None if consider is None else words(consider),
                mitigations=mitigations,
                seed=seed,
                engine=own,
                out=folder,
                progress=work,
            )
    gates.finish(done, lambda: print_advice(done, folder / "advice.html", elapsed()), as_gate(done))


@command("poolscope explore apple-web-domains")
def explore(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="SCENARIO|DIR|POSTERIORS",
            help="Open this scenario, run, file of posteriors or copied link.  [default: apple-emojis]",
        ),
    ] = None,
    port: Annotated[int, typer.Option(help="Listen on this port of 127.0.0.1; 0 takes a free one.")] = 0,
    seed: Annotated[int, typer.Option(help="Set the seed of the users; ignored for a run.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the browser.")] = True,
) -> None:
    """Explore settings interactively in the browser, on this machine only."""
    from poolscope.explore.server import explore

    explore(what, port=port, seed=seed, browser=browser, opened=lambda at: typer.echo(f"{at}\nPress Ctrl-C to stop."))
    typer.echo("poolscope: explorer stopped", err=True)


def _in_one_line(message: Warning | str, *_: object, **__: object) -> None:
    from poolscope.cli.exit import print_error

    print_error(Warning(message))


@cache
def commands() -> Any:
    """Return all commands with their parsers; made once, for a process that runs several."""
    return get_command(app)


def main() -> None:
    """Run a command; print errors of the package in one line and exit with a code."""
    from poolscope.cli.exit import exit_with, replace_unencodable
    from poolscope.core.errors import PoolscopeError, Stopped
    from poolscope.core.suppress_stderr import enable

    replace_unencodable()
    warnings.showwarning = _in_one_line
    if "--debug" not in sys.argv:
        enable()
    try:
        commands()(standalone_mode=True)
    except BrokenPipeError:
        raise SystemExit(1) from None
    except PoolscopeError as error:
        if DEBUG in os.environ and not isinstance(error, Stopped):
            raise
        exit_with(error)
    except MemoryError:
        exit_with(PoolscopeError("not enough memory; use fewer users, reports or objects"))
    except OSError as error:
        # the disk is full, or a folder is read-only
        exit_with(error)


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
