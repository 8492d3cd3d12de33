"""Run `attack` on a table of tuple reports, and print the result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from poolscope.cli.terminal import Terminal
from poolscope.core.errors import InputError

if TYPE_CHECKING:
    from poolscope.scenario.scenario import Scenario


def attack_tuple_reports(
    reports: Any, scenario: Scenario, *, options: dict[str, Any], refused: Mapping[str, Any], strict: bool
) -> None:
    """Attack a table of tuple reports; `refused` are options for a single collection."""
    from poolscope.cli.progress import working

    for name, value in refused.items():
        if value not in (None, 0, False):
            rule = "cannot be combined with [multidimensional]"
            raise InputError(rule, value=str(value), place="--" + name.replace("_", "-"))
    with working("Attacking", "reports") as work:
        from poolscope.cli.app import counts
        from poolscope.cli.files import print_attack
        from poolscope.kernels.compilation import watched
        from poolscope.workflows.attack.collections import attack_collections

        days = options["observations"]
        asked = counts(days, "observations") if days else None
        with watched(work.compiling):
            found = attack_collections(reports, scenario, **options | {"observations": asked}, progress=work)
    print_attack(found, options["out"])
    if found.results[0].n is not None:
        Terminal().print("n counts days.", style="dim", highlight=False)
    if strict and found.violations:
        raise typer.Exit(1)
