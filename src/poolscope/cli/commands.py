"""One command for each public verb: parse, call one library function, print."""

from __future__ import annotations

import os
import sys
import time
import warnings
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="What repeated reports under local differential privacy reveal about their sender.",
)


#: When the user began to wait.
STARTED = time.perf_counter()

#: Set by --debug.
DEBUG = "POOLSCOPE_DEBUG"

Engine = Annotated[
    str | None, typer.Option(metavar="local|dask", help="Where to run: threads, or Dask's processes. Default local.")
]
Scheduler = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="A running Dask scheduler, instead of processes here.")
]


def _version(show: bool) -> None:
    if show:
        from poolscope import __version__

        typer.echo(f"poolscope {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the whole story of an error, and what libraries say of it.")
    ] = False,
) -> None:
    if debug:
        # for this process and its workers
        os.environ[DEBUG] = "1"


@app.command()
def audit(
    scenario: Annotated[str, typer.Argument(help="A built-in name or a TOML file.")],
    users: Annotated[int | None, typer.Option(help="How many users play.")] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same outcomes.")] = 0,
    engine: Engine = None,
    scheduler: Scheduler = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run; default poolscope-SCENARIO.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a stopped run.")] = False,
) -> None:
    """Play the pool inference game and say what the reports reveal."""
    from poolscope.cli.progress import going_on, working

    with working("Playing") as work:
        from poolscope.base.folders import last_folder, new_folder
        from poolscope.cli.audit import kept_users, print_audit
        from poolscope.cli.running import running
        from poolscope.scenario.scenario import load_scenario
        from poolscope.verbs.audit.run import audit

        loaded = load_scenario(scenario)
        folder = out or (last_folder if resume else new_folder)(f"poolscope-{loaded.name}")
        again = going_on(folder if out is None else None, resume)
        work.kept = lambda: kept_users(folder, again)
        with running(work, engine, scheduler) as own:
            summary = audit(loaded, folder, users=users, seed=seed, engine=own, resume=resume, progress=work)
        work.stage("Drawing the page")
        from poolscope.pages.audit import write_page
        from poolscope.verbs.audit.folder import Run

        page = write_page(Run.within(folder, summary))
    print_audit(summary, page, _waited())


@app.command()
def traces(
    sources: Annotated[list[Path], typer.Argument(metavar="SOURCE...", help="Tables, or daily JSON archives.")],
    out: Annotated[Path, typer.Option(help="The traces, Parquet or CSV.")],
    universe: Annotated[str, typer.Option(help="emoji-11, news-2021 or an objects.csv.")],
    user: Annotated[str | None, typer.Option(help="Column of the user.")] = None,
    text: Annotated[str | None, typer.Option(help="Column of texts to search.")] = None,
    object: Annotated[str | None, typer.Option(help="Column of objects, separated by blanks.")] = None,
    domain: Annotated[str | None, typer.Option(help="Column of domains or links.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
) -> None:
    """Turn recorded data into traces: what each user picked, in order."""
    from poolscope.verbs.traces.extract import describe, make_traces

    made = make_traces(
        sources, out, universe=universe, user=user, text=text, object=object, domain=domain, overwrite=overwrite
    )
    for line in describe(made):
        typer.echo(line)


@app.command()
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
    engine: Engine = None,
    scheduler: Scheduler = None,
) -> None:
    """Play the paper's experiments and lay the published numbers beside ours."""
    from poolscope.cli.progress import going_on, working

    with working("Reproducing") as work:
        from poolscope.cli.reproduction import kept_plays, print_reproduction
        from poolscope.cli.running import running
        from poolscope.verbs.reproduce.runner import reproduce

        work.kept = lambda: f"{kept_plays(out)}, {going_on()}"
        with running(work, engine, scheduler) as own:
            done = reproduce(names or [], out, users=users, seed=seed, traces=traces, engine=own, progress=work)
        work.stage("Drawing the page")
        from poolscope.pages.reproduction import write_page

        page = write_page(done, out)
    print_reproduction(done, page, _waited())


@app.command()
def attack(
    reports: Annotated[Path, typer.Argument(help="Parquet or CSV, or a folder of Parquet files.")],
    scenario: Annotated[str, typer.Option(help="A built-in name or a TOML file.")],
    out: Annotated[Path | None, typer.Option(help="Posteriors, .parquet or .csv.")] = None,
    pools: Annotated[Path | None, typer.Option(help="Other pools: a table object,pool.")] = None,
    threshold: Annotated[float | None, typer.Option(help="No guess below this confidence.")] = None,
    engine: Engine = None,
    scheduler: Scheduler = None,
) -> None:
    """Infer from real reports which pool each user prefers."""
    from poolscope.cli.progress import working

    with working("Attacking", "reports") as work:
        from poolscope.cli.files import print_attack
        from poolscope.cli.running import running
        from poolscope.scenario.scenario import load_scenario
        from poolscope.verbs.attack.attack import attack

        loaded = load_scenario(scenario)
        with running(work, engine, scheduler) as own:
            found = attack(reports, loaded, pools=pools, threshold=threshold, out=out, engine=own, progress=work)
    print_attack(found, out)


@app.command()
def obfuscate(
    traces: Annotated[Path, typer.Argument(help="Parquet or CSV: user, object.")],
    scenario: Annotated[str, typer.Option(help="A built-in name or a TOML file.")],
    out: Annotated[Path, typer.Option(metavar="REPORTS", help="Reports, .parquet or .csv; must not be there yet.")],
    seed: Annotated[int, typer.Option(help="Same seed, same reports.")] = 0,
) -> None:
    """Make the reports that the users' devices would send."""
    from poolscope.cli.progress import working

    with working("Making", "reports") as work:
        from poolscope.cli.files import print_obfuscated
        from poolscope.kernels.compiling import watched
        from poolscope.scenario.scenario import load_scenario
        from poolscope.verbs.obfuscate import obfuscate

        with watched(work.compiling):
            made = obfuscate(traces, load_scenario(scenario), out, seed, progress=work)
    print_obfuscated(made, out)


@app.command()
def estimate(
    reports: Annotated[Path, typer.Argument(help="Parquet or CSV, or a folder of Parquet files.")],
    scenario: Annotated[str, typer.Option(help="A built-in name or a TOML file.")],
    out: Annotated[Path | None, typer.Option(help="Popularity, .parquet or .csv.")] = None,
    method: Annotated[
        str | None, typer.Option(metavar="NAME", help="linear, regression or ibu; else the one that suits.")
    ] = None,
) -> None:
    """Estimate from real reports how popular each object is, as the curator does."""
    from poolscope.cli.progress import working

    with working("Reading", "reports") as work:
        from poolscope.cli.files import print_estimate
        from poolscope.kernels.compiling import watched
        from poolscope.scenario.scenario import load_scenario
        from poolscope.verbs.estimate import estimate

        with watched(work.compiling):
            found = estimate(reports, load_scenario(scenario), out, method=method, progress=work)
    print_estimate(found, out)


@app.command()
def check(
    scenario: Annotated[str, typer.Argument(help="A built-in name or a TOML file.")],
    samples: Annotated[int, typer.Option(help="Reports to make.")] = 100_000,
    seed: Annotated[int, typer.Option(help="Same seed, same verdict.")] = 0,
    confidence: Annotated[float, typer.Option(help="Of the lower bound on epsilon.")] = 0.95,
) -> None:
    """Check that a mechanism keeps its epsilon; exit code 1 if it does not."""
    from poolscope.cli.progress import working

    with working("Checking", "reports") as work:
        from poolscope.cli.check import print_verdict
        from poolscope.kernels.compiling import watched
        from poolscope.scenario.scenario import load_scenario
        from poolscope.verbs.check.check import check

        work.stage("Making and looking at reports")
        with watched(work.compiling):
            verdict = check(load_scenario(scenario), samples=samples, seed=seed, confidence=confidence)
    print_verdict(verdict)
    raise typer.Exit(0 if verdict.kept else 1)


@app.command()
def compare(
    scenario: Annotated[str, typer.Argument(help="A built-in name or a TOML file.")],
    mechanism: Annotated[str, typer.Option(metavar="NAME,...", help="Mechanisms to compare, as grr,oue,cms.")],
    epsilon: Annotated[str, typer.Option(metavar="NUMBER,...", help="Each mechanism at each, as 0.5,1,2.")],
    users: Annotated[int | None, typer.Option(help="How many users play; default at most 1,000.")] = None,
    reports: Annotated[int, typer.Option(help="Reports that the frequency estimate is made of.")] = 100_000,
    seed: Annotated[int, typer.Option(help="Same seed, same users.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder; default poolscope-compare-SCENARIO.")] = None,
    engine: Engine = None,
    scheduler: Scheduler = None,
) -> None:
    """Play the same users against several mechanisms: privacy against utility."""
    from poolscope.cli.progress import working

    with working("Comparing") as work:
        from poolscope.base.folders import new_folder
        from poolscope.cli.compare import print_comparison
        from poolscope.cli.running import running
        from poolscope.scenario.scenario import load_scenario
        from poolscope.verbs.compare import compare, numbers, words

        loaded = load_scenario(scenario)
        folder = out or new_folder(f"poolscope-compare-{loaded.name}")
        choices = words(mechanism), numbers(epsilon)
        with running(work, engine, scheduler) as own:
            done = compare(
                loaded,
                *choices,
                users=users,
                seed=seed,
                reports=reports,
                engine=own,
                out=folder,
                progress=work,
            )
        work.stage("Drawing the page")
        from poolscope.pages.comparison import write_page

        page = write_page(done, folder)
    print_comparison(done, page, _waited())


@app.command()
def explore(
    what: Annotated[
        str | None,
        typer.Argument(metavar="[SCENARIO | RUN FOLDER | POSTERIORS]", help="Where to start; default apple-emojis."),
    ] = None,
    port: Annotated[int, typer.Option(help="Of 127.0.0.1; 0 is any that is free.")] = 0,
    seed: Annotated[int, typer.Option(help="Same seed, same users; of a run, the run's.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Whether to open the browser.")] = True,
) -> None:
    """Try settings in the browser, on this machine only: sliders move, and the exact engine answers."""
    from poolscope.pages.explore.serving import explore

    explore(what, port=port, seed=seed, browser=browser, opened=lambda at: typer.echo(f"{at}\nCtrl-C ends it."))
    typer.echo("poolscope: the explorer has ended", err=True)


@app.command()
def scenarios(
    name: Annotated[str | None, typer.Argument(help="Print this one's TOML to start from.")] = None,
) -> None:
    """List the built-in scenarios, or print the TOML of one."""
    from poolscope.cli.audit import print_scenarios
    from poolscope.scenario.scenario import builtin_text

    if name is None:
        print_scenarios()
    else:
        typer.echo(builtin_text(name), nl=False)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a finished run.")],
) -> None:
    """Write the page of a finished run again."""
    from poolscope.pages.audit import write_page
    from poolscope.verbs.audit.folder import read_run

    typer.echo(write_page(read_run(folder)))


@app.command()
def figures(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a finished audit or reproduction.")],
    format: Annotated[str, typer.Option(metavar="svg|png|pdf", help="Of the files.")] = "svg",
    width: Annotated[str, typer.Option(metavar="column|page", help="Of a paper: one column, or all of it.")] = "page",
) -> None:
    """Write the pictures of a finished run as files for a paper, into DIR/figures."""
    from poolscope.cli.progress import working

    with working("Drawing", "pictures"):
        from poolscope.pages.export import write_figures

        written = write_figures(folder, form=format, width=width)
    for path in written:
        typer.echo(path)


def _waited() -> float:
    """Seconds since the command was given, all but the interpreter's own start."""
    return time.perf_counter() - STARTED


def _in_one_line(message: Warning | str, *_: object, **__: object) -> None:
    from poolscope.cli.leaving import as_options

    print(f"poolscope: {as_options(str(message))}", file=sys.stderr)


def main() -> None:
    """Run a command; our errors become one line and an exit code."""
    from poolscope.base.errors import PoolscopeError, Stopped
    from poolscope.base.hush import enable
    from poolscope.cli.leaving import leave

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
