"""The command `advise`, whose options are many: parse, call, print."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from poolscope.cli.app import EngineOption, Scenario, Scheduler, command, waited


@command("poolscope advise apple-emojis --max-exposed 0.05 --max-error 0.002 --devices 200000 --mechanism cms,olh,oue")
def advise(
    scenario: Scenario,
    max_exposed: Annotated[float, typer.Option(metavar="SHARE", help="The most users who may be exposed, as 0.05.")],
    threshold: Annotated[
        float | None, typer.Option(help="From which on a user counts as exposed; default the threshold, or 0.9.")
    ] = None,
    horizon: Annotated[int | None, typer.Option(help="By so many reports; default the scenario's last.")] = None,
    days: Annotated[float | None, typer.Option(help="The same in days, by reports_per_day of [devices].")] = None,
    max_error: Annotated[float | None, typer.Option(help="The most error (RMSE) of a frequency.")] = None,
    devices: Annotated[int | None, typer.Option(help="Devices that a frequency is estimated from.")] = None,
    mechanism: Annotated[str | None, typer.Option(metavar="NAME,...", help="Mechanisms to try.")] = None,
    adversary: Annotated[str | None, typer.Option(metavar="NAME", help="Who attacks; default the strongest.")] = None,
    epsilon: Annotated[str | None, typer.Option(metavar="LOW:HIGH", help="Where to look; default 0.1:10.")] = None,
    users: Annotated[
        int | None,
        typer.Option(help="Most users who search, and who verify; default by the target, 4,000 to 40,000."),
    ] = None,
    tolerance: Annotated[float | None, typer.Option(help="Widest interval at the border.")] = None,
    mitigations: Annotated[bool, typer.Option("--mitigations", help="Play measures side by side.")] = False,
    seed: Annotated[int, typer.Option(help="Same seed and users, same advice.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder; default poolscope-advise-SCENARIO.")] = None,
    engine: EngineOption = None,
    scheduler: Scheduler = None,
) -> None:
    """Say which epsilon, cap and mechanism meet what is asked of privacy and utility."""
    from poolscope.cli.progress import working

    with working("Advising") as work:
        from poolscope.cli.advise import print_advice
        from poolscope.cli.app import words
        from poolscope.cli.progress import running
        from poolscope.core.files import new_folder
        from poolscope.html.workflows import advise
        from poolscope.scenario.scenario import load_scenario
        from poolscope.workflows.advise.question import parse_range
        from poolscope.workflows.advise.search import NO

        loaded = load_scenario(scenario)
        folder = out or new_folder(f"poolscope-advise-{loaded.name}")
        with running(work, engine, scheduler) as own:
            done = advise(
                loaded,
                max_exposed=max_exposed,
                threshold=threshold,
                horizon=horizon,
                days=days,
                max_error=max_error,
                devices=devices,
                mechanisms=None if mechanism is None else words(mechanism),
                adversary=adversary,
                epsilon=None if epsilon is None else parse_range(epsilon),
                users=users,
                tolerance=tolerance,
                mitigations=mitigations,
                seed=seed,
                engine=own,
                out=folder,
                progress=work,
            )
    print_advice(done, folder / "advice.html", waited())
    raise typer.Exit(1 if done.recommendation.meets_targets == NO else 0)
