"""Define the command `sweep`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from poolscope.cli.app import Attacks, EngineOption, Json, Scenario, Scheduler, command, elapsed


@command("poolscope sweep apple-emojis --vary mechanism.epsilon=1,2,4 --vary popularity.exponent=0,1 --seeds 5")
def sweep(
    scenario: Scenario,
    vary: Annotated[
        list[str],
        typer.Option(metavar="KEY=V1,V2", help="Vary this key of the scenario, as mechanism.epsilon=1,2; repeatable."),
    ],
    seeds: Annotated[int, typer.Option(help="Play each choice with this many seeds.")] = 1,
    seed: Annotated[int, typer.Option(help="Set the first seed.")] = 0,
    users: Annotated[
        int | None, typer.Option(help="Simulate this many users per run.  [default: the scenario's, at most 1,000]")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write to this folder.  [default: poolscope-sweep-SCENARIO]")] = None,
    attack: Attacks = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume a stopped sweep.")] = False,
    engine: EngineOption = None,
    scheduler: Scheduler = None,
    as_json: Json = False,
) -> None:
    """Simulate every combination of values and seeds, into one table."""
    from poolscope.cli.progress import resume_command, working

    with working("Sweeping") as work:
        from poolscope.cli.app import words
        from poolscope.cli.gates import print_result
        from poolscope.cli.progress import running
        from poolscope.cli.sweep import finished_runs, parse_vary, print_sweep
        from poolscope.core.errors import check_count
        from poolscope.core.files import last_folder, new_folder
        from poolscope.scenario.scenario import load_scenario
        from poolscope.workflows.sweep import SweepOutput, sweep

        loaded, varied = load_scenario(scenario), parse_vary(vary)
        check_count("seeds", seeds)
        folder = out or (last_folder if resume else new_folder)(f"poolscope-sweep-{loaded.name}")
        again = resume_command(folder if out is None else None, resume)
        work.saved_message = lambda: finished_runs(folder, again)
        with running(work, engine, scheduler) as own:
            done = sweep(
                loaded,
                varied,
                seeds=range(seed, seed + seeds),
                users=users,
                attacks=words(attack or ""),
                engine=own,
                out=folder,
                resume=resume,
                progress=work,
            )
    printed = SweepOutput.of(done) if as_json else None
    print_result(printed, lambda: print_sweep(done, folder, elapsed()), as_json=as_json)
