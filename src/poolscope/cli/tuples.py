"""Run `attack` on a table of tuple reports, and print the result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from poolscope.cli.collections import MAX_USERS_IN_REPORT
from poolscope.cli.terminal import Terminal, TextTable
from poolscope.core.counting import counted
from poolscope.core.errors import InputError, visible

if TYPE_CHECKING:
    from poolscope.scenario.scenario import Scenario
    from poolscope.workflows.attack.tuple_user import UserTuples


def attack_tuple_reports(
    reports: Any,
    scenario: Scenario,
    user: str | None,
    *,
    options: dict[str, Any],
    reading: dict[str, Any],
    refused: Mapping[str, Any],
    html: Path | None,
    strict: bool,
    as_json: bool,
) -> None:
    """Attack a table of tuple reports, or one user of it; `refused` are options for a single collection."""
    from poolscope.cli.progress import command_of, working

    for name, value in refused.items():
        if value not in (None, 0, False):
            rule = "cannot be combined with [multidimensional]"
            raise InputError(rule, value=str(value), place="--" + name.replace("_", "-"))
    with working("Attacking", "reports") as work:
        from poolscope.cli.app import counts
        from poolscope.cli.files import print_attack
        from poolscope.cli.gates import print_result
        from poolscope.core.tables import check_outputs, local_paths
        from poolscope.kernels.compilation import watched
        from poolscope.workflows.attack.collections import attack_collections
        from poolscope.workflows.attack.record import attack_record
        from poolscope.workflows.attack.tuple_user import attack_user_tuples

        out, top, days = options["out"], options["top"], options["observations"]
        target = None if out is None else Path(out)
        inputs = scenario.input_paths(*local_paths(reports), options["ground_truth"])
        check_outputs({"out": target, "html": html}, overwrite=options["overwrite"], inputs=inputs)
        with watched(work.compiling):
            if user is not None:
                written = {name: options[name] for name in ("out", "overwrite", "raw")}
                story = attack_user_tuples(reports, scenario, user, **written, **reading, progress=work)
            else:
                asked: dict[str, Any] = {"observations": counts(days, "observations") if days else None}
                asked |= {"top": top or (MAX_USERS_IN_REPORT if html else 0)}
                found = attack_collections(reports, scenario, **options | asked, **reading, progress=work)
        if html is not None and target is not None:
            work.stage("Writing the report")
            from poolscope.html.attack import write_page

            write_page(found, scenario, target, html, command_of())
    if user is not None:
        print_result(story, lambda: print_user_tuples(story, out), as_json=as_json)
    else:
        # the HTML report lists them anyway
        shown = found if top else replace(found, top=())

        def show() -> None:
            print_attack(shown, out, html)
            if found.results[0].n is not None:
                Terminal().print("n counts days.", style="dim", highlight=False)

        print_result(attack_record(shown, scenario), show, as_json=as_json)
    if strict and (story if user is not None else found).violations:
        raise typer.Exit(1)


def print_user_tuples(story: UserTuples, out: str | None) -> None:
    """Print one user's tuple reports with the posteriors after each, and which collection it may have sampled."""
    console = Terminal()
    shown = [name for name in story.table.columns if name not in ("adversary", "n")]
    heads = [visible(name.replace(".", "\n", 1)) if "." in name else name for name in shown]
    for rows in story.table.partition_by("adversary", maintain_order=True):
        name = visible(rows["adversary"][0])
        title = f"{visible(story.user)}, {counted(story.reports, 'report')}, {name} adversary"
        table = TextTable(title=title, heads=["n", *heads], left=["collection"], keys=1, box=None)
        for row in rows.iter_rows(named=True):
            cells = (visible(row[one]) if one == "collection" else f"{row[one]:.3f}" for one in shown)
            table.add(str(row["n"]), *cells)
        table.print(console)
        last = rows.row(-1, named=True)
        value = max(story.values, key=lambda value: last[f"posterior.{value}"])
        share = 100 * last[f"posterior.{value}"]
        console.print(
            f"After all reports, the {name} adversary assigns {share:.1f}% to {visible(value)}.", highlight=False
        )
    note = "posterior: after the report, of a value of the attribute or of a collection's pool."
    if any(name.startswith("sampled.") for name in shown):
        note += " sampled: probability that the report sampled this collection, from the report alone."
    console.print(note, style="dim", highlight=False)
    if out is not None:
        console.note(f"Report by report: {out}")
