"""Define the commands on files of traces and reports: parse options, call one library function, print."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from poolscope.cli.app import (
    SOURCES,
    AllowNetwork,
    Attacks,
    CollectionOption,
    Columns,
    EngineOption,
    Json,
    Observations,
    OutTable,
    Overwrite,
    Query,
    Raw,
    ScenarioOption,
    Scheduler,
    Time,
    column_names,
    command,
    one_or_many,
    reading_options,
)

MAX_USERS_IN_REPORT = 20
"""Most confident guesses of each adversary in an HTML report."""


@command("poolscope traces tweets.csv --user user --text text --universe emoji-11 --out traces.parquet")
def traces(
    sources: Annotated[
        list[str],
        typer.Argument(metavar="SOURCE...", help=f"Recorded data: {SOURCES}; or daily JSON archives."),
    ],
    out: Annotated[str, typer.Option(metavar="PATH", help="Write traces to this .parquet or .csv file, or address.")],
    universe: Annotated[
        str, typer.Option(help="Extract objects of this universe: emoji-11, news-2021 or an objects.csv.")
    ],
    user: Annotated[str | None, typer.Option(help="Name the column of users.")] = None,
    text: Annotated[str | None, typer.Option(help="Name the column of texts to search for objects.")] = None,
    object: Annotated[str | None, typer.Option(help="Name the column of objects, separated by spaces.")] = None,
    domain: Annotated[str | None, typer.Option(help="Name the column of domains or URLs.")] = None,
    time: Time = None,
    query: Query = None,
    allow_network: AllowNetwork = False,
    out_table: OutTable = None,
    overwrite: Overwrite = False,
    raw: Raw = False,
    as_json: Json = False,
) -> None:
    """Convert recorded data to traces: the objects of each user, in order."""
    from poolscope.cli.progress import working

    with working("Reading", "rows"):
        from poolscope.cli.gates import print_result
        from poolscope.workflows.traces.extract import describe, make_traces

        made = make_traces(
            sources,
            out,
            universe=universe,
            user=user,
            text=text,
            object=object,
            domain=domain,
            time=time,
            query=query,
            allow_network=allow_network,
            out_table=out_table,
            overwrite=overwrite,
            raw=raw,
        )
    print_result(made, lambda: typer.echo("\n".join(describe(made))), as_json=as_json)


@command("poolscope obfuscate traces.parquet --scenario mine.toml --out reports.parquet")
def obfuscate(
    traces: Annotated[
        list[str],
        typer.Argument(
            metavar="TRACES", help=f"Traces with columns user, object, or one for each collection of tuples: {SOURCES}."
        ),
    ],
    scenario: ScenarioOption,
    out: Annotated[
        str, typer.Option(metavar="REPORTS", help="Write reports to this .parquet or .csv file, or address.")
    ],
    seed: Annotated[int, typer.Option(help="Set the seed of the mechanism.")] = 0,
    collection: CollectionOption = None,
    column: Columns = None,
    time: Time = None,
    query: Query = None,
    allow_network: AllowNetwork = False,
    out_table: OutTable = None,
    overwrite: Overwrite = False,
    raw: Raw = False,
    as_json: Json = False,
) -> None:
    """Simulate the reports that devices send for recorded traces."""
    from poolscope.cli.progress import working

    with working("Writing", "reports") as work:
        from poolscope.cli.files import output_name, print_obfuscated
        from poolscope.cli.gates import print_result
        from poolscope.cli.parts import load_part_and_seed
        from poolscope.kernels.compilation import watched
        from poolscope.workflows.obfuscate import obfuscate

        loaded, seed = load_part_and_seed(scenario, collection, seed)
        with watched(work.compiling):
            made = obfuscate(
                one_or_many(traces),
                loaded,
                out,
                seed,
                **reading_options(column, time, query, allow_network),
                out_table=out_table,
                overwrite=overwrite,
                raw=raw,
                progress=work,
            )
    print_result(made, lambda: print_obfuscated(made, output_name(out, out_table)), as_json=as_json)


@command("poolscope attack reports.parquet --scenario mine.toml --out posteriors.parquet")
def attack(
    scenario: ScenarioOption,
    reports: Annotated[list[str] | None, typer.Argument(metavar="REPORTS", help=f"Reports: {SOURCES}.")] = None,
    named: Annotated[
        list[str] | None,
        typer.Option("--reports", metavar="NAME=FILE", help="Reports of one collection of the scenario; repeatable."),
    ] = None,
    out: Annotated[
        str | None, typer.Option(metavar="PATH", help="Write posteriors to this .parquet or .csv file, or address.")
    ] = None,
    pools: Annotated[Path | None, typer.Option(help="Use other pools: a table object,pool.")] = None,
    observations: Observations = None,
    threshold: Annotated[
        float | None, typer.Option(help="Make no guess below this confidence, 0 to 1.  [default: the scenario's]")
    ] = None,
    user: Annotated[str | None, typer.Option(metavar="NAME", help="Attack this user only, report by report.")] = None,
    top: Annotated[int, typer.Option(metavar="N", help="Show the N most confident guesses of each adversary.")] = 0,
    why: Annotated[
        bool, typer.Option("--why", help="Explain the guesses of --top, and show the reports that revealed most.")
    ] = False,
    pool_sets: Annotated[
        int,
        typer.Option(metavar="N", help="Correct confidences for N sets of pools tried on the same reports."),
    ] = 1,
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
    attack_: Attacks = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="Exit with code 1 if the reports contradict the scenario, or --ground-truth the guesses."
        ),
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep finished work if stopped, and continue a stopped attack.")
    ] = False,
    out_table: OutTable = None,
    overwrite: Overwrite = False,
    raw: Raw = False,
    column: Columns = None,
    time: Time = None,
    query: Query = None,
    allow_network: AllowNetwork = False,
    engine: EngineOption = None,
    scheduler: Scheduler = None,
    as_json: Json = False,
) -> None:
    """Infer the preferred pool of each user from a file of reports."""
    from poolscope.cli.progress import working
    from poolscope.core.errors import InputError

    about_all = observations, threshold, ground_truth, html, link_scores, linked_out, attack_
    if (not reports) == (not named):
        if reports:
            rule = "cannot be combined with `reports` NAME=FILE, the files of several collections"
            raise InputError(rule, place="REPORTS", value=", ".join(reports))
        raise InputError("must have a file of reports, or `reports` NAME=FILE for each collection", place="REPORTS")
    if user is not None and (top or any(option is not None for option in about_all)):
        names = "`observations`, `threshold`, `top`, `ground_truth`, `html`, `link_scores`, `linked_out` and `attack`"
        rule = f"must stand alone: {names} are about all users"
        raise InputError(rule, place="--user")
    if user is not None and (why or resume or pool_sets != 1):
        rule = "must stand alone: `why`, `pool_sets` and `resume` are about all users"
        raise InputError(rule, place="--user")
    if linked_out is not None and link_fdr is None:
        raise InputError(
            "must have `link_fdr`, the share of links that may be wrong", value=str(linked_out), place="--linked-out"
        )
    if why and not top:
        raise InputError("must have `top`, the number of users to explain", place="--why")
    if html is not None and out is None:
        raise InputError("must have `out`, the table that it describes", value=str(html), place="--html")
    if named:
        from poolscope.cli.collections import attack_several

        single: dict[str, object] = {
            "pools": pools,
            "link_fdr": link_fdr,
            "linked_out": linked_out,
            "attack": attack_,
        }
        single |= {"pool_sets": None if pool_sets == 1 else pool_sets, "resume": resume}
        single |= {"column": column, "time": time, "query": query, "allow_network": allow_network}
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
                "why": why,
                "ground_truth": ground_truth,
            },
            single=single | {"link_scores": link_scores, "out_table": out_table},
            html=html,
            engine=engine,
            scheduler=scheduler,
            strict=strict,
            as_json=as_json,
        )
        return
    assert reports is not None
    from poolscope.scenario.scenario import load_scenario

    loaded = load_scenario(scenario)
    if loaded.multidimensional:
        from poolscope.cli.tuples import attack_tuple_reports

        taken = {"out": out, "overwrite": overwrite, "raw": raw, "observations": observations, "threshold": threshold}
        refused: dict[str, object] = {"pools": pools, "link_fdr": link_fdr, "linked_out": linked_out}
        refused |= {"link_scores": link_scores, "attack": attack_, "why": why, "resume": resume}
        refused |= {"pool_sets": None if pool_sets == 1 else pool_sets, "out_table": out_table}
        refused |= {"engine": engine, "scheduler": scheduler}
        attack_tuple_reports(
            one_or_many(reports),
            loaded,
            user,
            options=taken | {"top": top, "ground_truth": ground_truth},
            reading=reading_options(column, time, query, allow_network),
            refused=refused,
            html=html,
            strict=strict,
            as_json=as_json,
        )
        return
    with working("Attacking", "reports") as work:
        from poolscope.cli.app import counts, words
        from poolscope.cli.files import print_attack, print_links, print_user_attack
        from poolscope.cli.gates import print_result
        from poolscope.cli.progress import command_of, resume_command, running
        from poolscope.core.tables import SourceOptions, check_outputs, destination_of, local_copy, local_paths
        from poolscope.workflows.attack.attack import attack, check_one_collection
        from poolscope.workflows.attack.linking import check_adversary, check_links, link_users
        from poolscope.workflows.attack.one_user import attack_user
        from poolscope.workflows.attack.record import attack_record
        from poolscope.workflows.attack.resuming import check_resumable
        from poolscope.workflows.reports import open_reports

        check_one_collection(loaded)
        data = one_or_many(reports)
        options = SourceOptions.of(column_names(column), time, allow_network, query)
        if resume:
            work.saved_message = lambda: f"finished work is saved, {resume_command()}"
        inputs = loaded.input_paths(*local_paths(data), pools, ground_truth)
        place = destination_of(out, out_table, options, data=data, overwrite=overwrite, inputs=inputs)
        file = None if place is None else place.path
        outputs = {"out": file, "html": html, "linked_out": linked_out, "link_scores": link_scores}
        check_outputs(outputs, overwrite=overwrite, inputs=inputs)
        beside = next((path.parent for path in (file, link_scores) if path is not None), None)
        if resume and place is not None:
            check_resumable(place, data, options)
        if link_scores is not None:
            check_adversary(loaded)
        with (
            running(work, engine, scheduler) as own,
            local_copy(place) as target,
            open_reports(data, loaded, options, beside=beside) as source,
        ):
            if link_scores is not None:
                check_links(source, loaded)
            if user is not None:
                story = attack_user(
                    source,
                    loaded,
                    user,
                    pools=pools,
                    out=target,
                    overwrite=overwrite,
                    raw=raw,
                    link_fdr=link_fdr,
                    engine=own,
                )
            else:
                found = attack(
                    source,
                    loaded,
                    pools=pools,
                    observations=counts(observations, "observations") if observations else None,
                    threshold=threshold,
                    out=target,
                    overwrite=overwrite,
                    raw=raw,
                    top=top or (MAX_USERS_IN_REPORT if html else 0),
                    ground_truth=ground_truth,
                    why=why,
                    pool_sets=pool_sets,
                    link_fdr=link_fdr,
                    attacks=words(attack_ or ""),
                    engine=own,
                    resume=resume,
                    progress=work,
                )
            if place is not None and target is not None:
                place.send(target)
            if user is None and linked_out is not None and found.joined is not None:
                found.joined.write(linked_out, overwrite=overwrite, raw=raw)
            if link_scores is not None:
                linked = link_users(source, loaded, link_scores, pools=pools, overwrite=overwrite, raw=raw, engine=own)
            if html is not None and target is not None:
                work.stage("Writing the report")
                from poolscope.html.attack import write_page

                write_page(found, loaded, target, html, command_of())
    shown_out = None if place is None else place.label
    if user is not None:
        print_result(story, lambda: print_user_attack(story, shown_out), as_json=as_json)
    else:
        # the HTML report lists them anyway
        shown = found if top else replace(found, top=())

        def show() -> None:
            print_attack(shown, shown_out, html, linked_out)
            if link_scores is not None:
                print_links(linked, link_scores)

        print_result(attack_record(shown, loaded), show, as_json=as_json)
    if strict and (story if user is not None else found).violations:
        # the output files are written nevertheless
        raise typer.Exit(1)


@command("poolscope estimate reports.parquet --scenario mine.toml --out popularity.csv")
def estimate(
    reports: Annotated[list[str], typer.Argument(metavar="REPORTS", help=f"Reports: {SOURCES}.")],
    scenario: ScenarioOption,
    out: Annotated[
        str | None, typer.Option(metavar="PATH", help="Write the popularity to this .parquet or .csv file, or address.")
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            metavar="linear|regression|ridge|ibu", help="Choose the estimator.  [default: the one for the mechanism]"
        ),
    ] = None,
    collection: CollectionOption = None,
    column: Columns = None,
    time: Time = None,
    query: Query = None,
    allow_network: AllowNetwork = False,
    out_table: OutTable = None,
    overwrite: Overwrite = False,
    raw: Raw = False,
    as_json: Json = False,
) -> None:
    """Estimate the popularity of each object from a file of reports."""
    from poolscope.cli.progress import working

    with working("Reading", "reports") as work:
        from poolscope.cli.files import output_name, print_estimate
        from poolscope.cli.gates import print_result
        from poolscope.cli.parts import load_part
        from poolscope.kernels.compilation import watched
        from poolscope.workflows.estimate import estimate

        with watched(work.compiling):
            found = estimate(
                one_or_many(reports),
                load_part(scenario, collection),
                out,
                **reading_options(column, time, query, allow_network),
                method=method,
                out_table=out_table,
                overwrite=overwrite,
                raw=raw,
                progress=work,
            )
    print_result(found, lambda: print_estimate(found, output_name(out, out_table)), as_json=as_json)
