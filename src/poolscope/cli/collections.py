"""Run `attack` on several files of reports, one for each collection, and print the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from poolscope.cli.terminal import Terminal, TextTable
from poolscope.core.counting import counted
from poolscope.core.errors import InputError, visible

MAX_USERS_IN_REPORT = 20
"""Most confident users of each adversary in the HTML report."""

if TYPE_CHECKING:
    from poolscope.workflows.attack.collection_user import UserCollections


def files_of(named: Sequence[str]) -> dict[str, Path]:
    """Return the file of each collection from options such as "emojis=a.parquet"."""
    found: dict[str, Path] = {}
    for given in named:
        name, sign, path = given.partition("=")
        if not (sign and name and path):
            raise InputError("must be NAME=FILE, as emojis=a.parquet", value=given, place="--reports")
        if name in found:
            raise InputError("a collection must have one file", value=given, place="--reports")
        found[name] = Path(path)
    return found


def refuse(options: Mapping[str, Any]) -> None:
    """Refuse options of `attack` that are for a single file."""
    for name, value in options.items():
        if value not in (None, 0, False):
            rule = "cannot be combined with `reports`, the files of several collections"
            raise InputError(rule, value=str(value), place="--" + name.replace("_", "-"))


def attack_several(
    named: Sequence[str],
    scenario: str,
    user: str | None,
    *,
    options: dict[str, Any],
    single: Mapping[str, Any],
    html: Path | None,
    engine: Any,
    scheduler: str | None,
    strict: bool,
    as_json: bool,
) -> None:
    """Attack the files of several collections, or one user of them; `single` are options for a single file."""
    from poolscope.cli.progress import command_of, working

    refuse(single)
    with working("Attacking", "reports") as work:
        from poolscope.cli.app import counts
        from poolscope.cli.files import print_attack
        from poolscope.cli.gates import print_result
        from poolscope.cli.progress import running
        from poolscope.core.tables import check_outputs
        from poolscope.scenario.scenario import load_scenario
        from poolscope.workflows.attack.collection_user import attack_user_collections
        from poolscope.workflows.attack.collections import attack_collections
        from poolscope.workflows.attack.record import attack_record

        files, loaded = files_of(named), load_scenario(scenario)
        out, top = options["out"], options["top"]
        target = None if out is None else Path(out)
        inputs = loaded.input_paths(*files.values(), options["ground_truth"])
        check_outputs({"out": target, "html": html}, overwrite=options["overwrite"], inputs=inputs)
        with running(work, engine, scheduler) as own:
            if user is not None:
                written = {name: options[name] for name in ("out", "overwrite", "raw")}
                story = attack_user_collections(files, loaded, user, **written, engine=own)
            else:
                days = options["observations"]
                asked: dict[str, Any] = {"observations": counts(days, "observations") if days else None}
                asked |= {"top": top or (MAX_USERS_IN_REPORT if html else 0)}
                found = attack_collections(files, loaded, **options | asked, engine=own, progress=work)
                if html is not None and target is not None:
                    work.stage("Writing the report")
                    from poolscope.html.attack import write_page

                    write_page(found, loaded, target, html, command_of())
    if user is not None:
        print_result(story, lambda: print_user_collections(story, out), as_json=as_json)
    else:
        # the HTML report lists them anyway
        shown = found if top else replace(found, top=())

        def show() -> None:
            print_attack(shown, out, html)
            if found.results[0].n is not None:
                note = "n counts days."
                if options["why"]:
                    note += " Log-odds from a collection: those of the guess from all, minus those without it."
                Terminal().print(note, style="dim", highlight=False)

        print_result(attack_record(shown, loaded), show, as_json=as_json)
    if strict and (story if user is not None else found).violations:
        raise typer.Exit(1)


def print_user_collections(story: UserCollections, out: Path | None) -> None:
    """Print one user's reports of all collections in order of time, with the posterior after each."""
    console = Terminal()
    for rows in story.table.partition_by("adversary", maintain_order=True):
        name = visible(rows["adversary"][0])
        heads = ["n", "collection", "report", "time", *(f"posterior\n{visible(value)}" for value in story.values)]
        title = f"{visible(story.user)}, {counted(story.reports, 'report')}, {name} adversary"
        table = TextTable(title=title, heads=heads, left=["collection", "time"], keys=3, box=None)
        for row in rows.iter_rows(named=True):
            cells = (f"{row[f'posterior.{value}']:.3f}" for value in story.values)
            table.add(str(row["n"]), visible(row["collection"]), str(row["report"]), visible(row["time"]), *cells)
        table.print(console)
        last = rows.row(-1, named=True)
        value = max(story.values, key=lambda value: last[f"posterior.{value}"])
        share = 100 * last[f"posterior.{value}"]
        console.print(
            f"After all reports, the {name} adversary assigns {share:.1f}% to {visible(value)}.", highlight=False
        )
    for line in story.violations:
        console.print(line, highlight=False)
    if out is not None:
        console.note(f"Report by report: {out}")
