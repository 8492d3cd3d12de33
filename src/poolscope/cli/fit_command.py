"""Define the command `fit`: parse its options, fit the users, print."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from poolscope.cli.app import Json, Overwrite, Scenario, command


@command("poolscope fit mine.toml counts.csv --out fitted.toml")
def fit(
    scenario: Scenario,
    data: Annotated[
        list[Path],
        typer.Argument(metavar="DATA...", help="Counts pool,count or user,pool,count, traces user,object, or reports."),
    ],
    out: Annotated[
        Path | None, typer.Option(help="Write the scenario with the fitted users to this .toml file.")
    ] = None,
    devices: Annotated[
        int | None, typer.Option(metavar="N", help="State how many devices aggregate counts are of.")
    ] = None,
    max_users: Annotated[int, typer.Option(metavar="N", help="Fit at most this many users of reports.")] = 10_000,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Fit the interest and polarization of users to counts, traces or reports."""
    from poolscope.cli.progress import working

    with working("Fitting", "users") as work:
        from poolscope.cli.files import print_fit
        from poolscope.cli.gates import print_result
        from poolscope.kernels.compilation import watched
        from poolscope.scenario.scenario import load_scenario
        from poolscope.workflows.fit import fit

        work.stage("Fitting users")
        with watched(work.compiling):
            found = fit(
                load_scenario(scenario), data, out=out, devices=devices, max_users=max_users, overwrite=overwrite
            )
    print_result(found, lambda: print_fit(found, out), as_json=as_json)
