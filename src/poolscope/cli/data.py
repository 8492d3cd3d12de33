"""Define the commands on files of traces and reports: parse options, call one library function, print."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from poolscope.cli.app import EngineOption, Observations, Overwrite, Raw, ScenarioOption, Scheduler, command

MAX_USERS_IN_REPORT = 20
"""Most confident guesses of each adversary in an HTML report."""


@command("poolscope traces tweets.csv --user user --text text --universe emoji-11 --out traces.parquet")
def traces(
    sources: Annotated[
        list[Path], typer.Argument(metavar="SOURCE...", help="Read these tables or daily JSON archives.")
    ],
    out: Annotated[Path, typer.Option(help="Write traces to this .parquet or .csv file.")],
    universe: Annotated[
        str, typer.Option(help="Extract objects of this universe: emoji-11, news-2021 or an objects.csv.")
    ],
    user: Annotated[str | None, typer.Option(help="Name the column of users.")] = None,
    text: Annotated[str | None, typer.Option(help="Name the column of texts to search for objects.")] = None,
    object: Annotated[str | None, typer.Option(help="Name the column of objects, separated by spaces.")] = None,
    domain: Annotated[str | None, typer.Option(help="Name the column of domains or URLs.")] = None,
    overwrite: Overwrite = False,
    raw: Raw = False,
) -> None:
    """Convert recorded data to traces: the objects of each user, in order."""
    from poolscope.cli.progress import working

    with working("Reading", "rows"):
        from poolscope.workflows.traces.extract import describe, make_traces

        made = make_traces(
            sources,
            out,
            universe=universe,
            user=user,
            text=text,
            object=object,
            domain=domain,
            overwrite=overwrite,
            raw=raw,
        )
    for line in describe(made):
        typer.echo(line)


@command("poolscope obfuscate traces.parquet --scenario mine.toml --out reports.parquet")
def obfuscate(
    traces: Annotated[
        Path, typer.Argument(metavar="TRACES", help="Traces (Parquet or CSV) with columns user, object.")
    ],
    scenario: ScenarioOption,
    out: Annotated[Path, typer.Option(metavar="REPORTS", help="Write reports to this .parquet or .csv file.")],
    seed: Annotated[int, typer.Option(help="Set the seed of the mechanism.")] = 0,
    overwrite: Overwrite = False,
    raw: Raw = False,
) -> None:
    """Simulate the reports that devices send for recorded traces."""
    from poolscope.cli.progress import working

    with working("Writing", "reports") as work:
        from poolscope.cli.files import print_obfuscated
        from poolscope.kernels.compilation import watched
        from poolscope.scenario.scenario import load_scenario
        from poolscope.workflows.obfuscate import obfuscate

        with watched(work.compiling):
            made = obfuscate(traces, load_scenario(scenario), out, seed, overwrite=overwrite, raw=raw, progress=work)
    print_obfuscated(made, out)


@command("poolscope attack reports.parquet --scenario mine.toml --out posteriors.parquet")
def attack(
    scenario: ScenarioOption,
    reports: Annotated[
        Path | None,
        typer.Argument(metavar="REPORTS", help="Reports (Parquet or CSV), or a folder of Parquet files."),
    ] = None,
    named: Annotated[
        list[str] | None,
        typer.Option("--reports", metavar="NAME=FILE", help="Reports of one collection of the scenario; repeatable."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write posteriors to this .parquet or .csv file.")] = None,
    pools: Annotated[Path | None, typer.Option(help="Use other pools: a table object,pool.")] = None,
    observations: Observations = None,
    threshold: Annotated[
        float | None, typer.Option(help="Make no guess below this confidence, 0 to 1.  [default: the scenario's]")
    ] = None,
    user: Annotated[str | None, typer.Option(metavar="NAME", help="Attack this user only, report by report.")] = None,
    top: Annotated[int, typer.Option(metavar="N", help="Show the N most confident guesses of each adversary.")] = 0,
    ground_truth: Annotated[
        Path | None, typer.Option(help="Evaluate the guesses of --out against this table user,pool.")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write an HTML report of --out to this file.")] = None,
    link_fdr: Annotated[
        float | None,
        typer.Option(
            metavar="RATE",
            help="Link pseudonyms by memoized responses, at this expected false discovery rate at most: 0.001 is one "
            "wrong link in 1,000.",
        ),
    ] = None,
    linked_out: Annotated[
        Path | None, typer.Option(help="Write the linked pseudonyms of --link-fdr to this table.")
    ] = None,
    link_scores: Annotated[
        Path | None, typer.Option(help="Write likely pairs of pseudonyms with scores to this table.")
    ] = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="Exit with code 1 if the reports contradict the scenario, or --ground-truth the guesses."
        ),
    ] = False,
    overwrite: Overwrite = False,
    raw: Raw = False,
    engine: EngineOption = None,
    scheduler: Scheduler = None,
) -> None:
    """Infer the preferred pool of each user from a file of reports."""
    from poolscope.cli.progress import working
    from poolscope.core.errors import InputError

    about_all = observations, threshold, ground_truth, html, link_scores, linked_out
    if (reports is None) == (not named):
        rule = "must have a file of reports, or `reports` NAME=FILE for each collection"
        raise InputError(rule, place="REPORTS", value=None if reports is None else str(reports))
    if user is not None and (top or any(option is not None for option in about_all)):
        names = "`observations`, `threshold`, `top`, `ground_truth`, `html`, `link_scores` and `linked_out`"
        rule = f"must stand alone: {names} are about all users"
        raise InputError(rule, place="--user")
    if linked_out is not None and link_fdr is None:
        raise InputError(
            "must have `link_fdr`, the share of links that may be wrong", value=str(linked_out), place="--linked-out"
        )
    if html is not None and out is None:
        raise InputError("must have `out`, the table that it describes", value=str(html), place="--html")
    if named:
        from poolscope.cli.collections import attack_several

        single = {"pools": pools, "html": html, "link_fdr": link_fdr, "linked_out": linked_out}
        attack_several(
            named,
            scenario,
            user,
            options={
                "out": out,
                "overwrite": overwrite,
                "raw": raw,
                "observations": observations,
                "threshold": threshold,
                "top": top,
                "ground_truth": ground_truth,
            },
            single=single | {"link_scores": link_scores},
            engine=engine,
            scheduler=scheduler,
            strict=strict,
        )
        return
    assert reports is not None
    with working("Attacking", "reports") as work:
        from poolscope.cli.app import counts
        from poolscope.cli.files import print_attack, print_links, print_user_attack
        from poolscope.cli.progress import running
        from poolscope.core.tables import check_outputs
        from poolscope.scenario.scenario import load_scenario
        from poolscope.workflows.attack.attack import attack
        from poolscope.workflows.attack.linking import check_links, link_users
        from poolscope.workflows.attack.one_user import attack_user

        loaded = load_scenario(scenario)
        outputs = {"out": out, "html": html, "linked_out": linked_out, "link_scores": link_scores}
        check_outputs(outputs, overwrite=overwrite, inputs=loaded.input_paths(reports, pools, ground_truth))
        if link_scores is not None:
            check_links(reports, loaded)
        with running(work, engine, scheduler) as own:
            if user is not None:
                story = attack_user(
                    reports,
                    loaded,
                    user,
                    pools=pools,
                    out=out,
                    overwrite=overwrite,
                    raw=raw,
                    link_fdr=link_fdr,
                    engine=own,
                )
            else:
                found = attack(
                    reports,
                    loaded,
                    pools=pools,
                    observations=counts(observations, "observations") if observations else None,
                    threshold=threshold,
                    out=out,
                    overwrite=overwrite,
                    raw=raw,
                    top=top or (MAX_USERS_IN_REPORT if html else 0),
                    ground_truth=ground_truth,
                    link_fdr=link_fdr,
                    engine=own,
                    progress=work,
                )
                if linked_out is not None and found.joined is not None:
                    found.joined.write(linked_out, overwrite=overwrite, raw=raw)
            if link_scores is not None:
                linked = link_users(reports, loaded, link_scores, pools=pools, overwrite=overwrite, raw=raw, engine=own)
        if html is not None and out is not None:
            work.stage("Writing the report")
            from poolscope.html.attack import write_page

            write_page(found, loaded, reports, out, html)
    if user is not None:
        print_user_attack(story, out)
    else:
        # the HTML report lists them anyway
        print_attack(found if top else replace(found, top=()), out, html, linked_out)
        if link_scores is not None:
            print_links(linked, link_scores)
    if strict and (story if user is not None else found).violations:
        # the output files are written nevertheless
        raise typer.Exit(1)


@command("poolscope estimate reports.parquet --scenario mine.toml --out popularity.csv")
def estimate(
    reports: Annotated[
        Path, typer.Argument(metavar="REPORTS", help="Reports (Parquet or CSV), or a folder of Parquet files.")
    ],
    scenario: ScenarioOption,
    out: Annotated[Path | None, typer.Option(help="Write the popularity to this .parquet or .csv file.")] = None,
    method: Annotated[
        str | None,
        typer.Option(
            metavar="linear|regression|ridge|ibu", help="Choose the estimator.  [default: the one for the mechanism]"
        ),
    ] = None,
    overwrite: Overwrite = False,
    raw: Raw = False,
) -> None:
    """Estimate the popularity of each object from a file of reports."""
    from poolscope.cli.progress import working

    with working("Reading", "reports") as work:
        from poolscope.cli.files import print_estimate
        from poolscope.kernels.compilation import watched
        from poolscope.scenario.scenario import load_scenario
        from poolscope.workflows.estimate import estimate

        with watched(work.compiling):
            found = estimate(
                reports, load_scenario(scenario), out, method=method, overwrite=overwrite, raw=raw, progress=work
            )
    print_estimate(found, out)
