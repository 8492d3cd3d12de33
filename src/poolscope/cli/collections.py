"""Run `attack` on several files of reports, one for each collection, and print the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from poolscope.cli.terminal import Terminal, TextTable
from poolscope.core.counting import counted
from poolscope.core.errors import InputError, visible

if TYPE_CHECKING:
    from poolscope.workflows.attack.collections import UserCollections


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
            rule = "goes not with `reports`, the files of several collections"
            raise InputError(rule, value=str(value), place="--" + name.replace("_", "-"))


def attack_several(
    named: Sequence[str],
    scenario: str,
    user: str | None,
    *,
    options: dict[str, Any],
    single: Mapping[str, Any],
    engine: Any,
    scheduler: str | None,
    strict: bool,
) -> None:
    """Attack the files of several collections, or one user of them; `single` are options for a single file."""
    from poolscope.cli.progress import working

    refuse(single)
    with working("Attacking", "reports") as work:
        from poolscope.cli.app import counts
        from poolscope.cli.files import print_attack
        from poolscope.cli.progress import running
        from poolscope.scenario.scenario import load_scenario
        from poolscope.workflows.attack.collections import attack_collections, attack_user_collections

        files, loaded = files_of(named), load_scenario(scenario)
        with running(work, engine, scheduler) as own:
            if user is not None:
                written = {name: options[name] for name in ("out", "overwrite", "raw")}
                story = attack_user_collections(files, loaded, user, **written, engine=own)
            else:
                days = options["observations"]
                asked = counts(days, "observations") if days else None
                found = attack_collections(
                    files, loaded, **options | {"observations": asked}, engine=own, progress=work
                )
    if user is not None:
        print_user_collections(story, options["out"])
    else:
        print_attack(found, options["out"])
        if found.results[0].n is not None:
            Terminal().print("n counts days.", style="dim", highlight=False)
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
