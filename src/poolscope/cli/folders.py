"""Render a finished folder of any command again, as an HTML report or as figure files."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from poolscope.core.errors import InputError
from poolscope.core.executors import Engine, Local
from poolscope.core.files import located_os_errors
from poolscope.core.progress import Progress
from poolscope.figures import advise as advise_figures
from poolscope.figures import audit as audit_figures
from poolscope.figures import sweep as sweep_figures
from poolscope.figures.saving import Figure, check, save
from poolscope.html import advise, audit, compare
from poolscope.paper import report as reproduction
from poolscope.paper.rerun import rerun_reproduction
from poolscope.paper.runner import finished
from poolscope.paper.values import Played
from poolscope.workflows.advise.collection_records import read_advice
from poolscope.workflows.advise.records import FILE as ADVICE
from poolscope.workflows.audit.run_folder import read_run
from poolscope.workflows.compare import FILE as COMPARISON
from poolscope.workflows.compare import read_comparison
from poolscope.workflows.rerun import Rerun, rerun_advice, rerun_audit, rerun_comparison, rerun_sweep
from poolscope.workflows.sweep import FILE as SWEEP
from poolscope.workflows.sweep import read_sweep

REMEDY = "name a folder of audit, compare, advise, sweep or reproduce"


class FolderKind(NamedTuple):
    """How a folder is read, rendered and drawn."""

    read: Callable[[Path], Any]
    write_page: Callable[[Any, Path], Path]
    pictures: Callable[[Any], Iterable[Figure]]
    rerun: Callable[[Path, Path | None, Engine, Progress], Rerun]


def _read_plays(folder: Path) -> dict[str, Played]:
    return finished(folder, Local().map)


def _refuse_page(_: Any, folder: Path) -> Path:
    remedy = f"run its command again with --out {folder}: it writes the report of the finished runs"
    raise InputError("a reproduction cannot be rendered from its folder alone", file=folder, remedy=remedy)


def _no_page(_: Any, folder: Path) -> Path:
    remedy = "draw its figures with poolscope figures"
    raise InputError("a sweep has no HTML report", file=folder, remedy=remedy)


RUN = FolderKind(read_run, lambda run, _: audit.write_page(run), audit_figures.pictures, rerun_audit)

MARKED = {
    "manifest.json": RUN,
    "summary.json": RUN,
    "outcomes": RUN,
    "plays": FolderKind(_read_plays, _refuse_page, reproduction.pictures, rerun_reproduction),
    COMPARISON: FolderKind(read_comparison, compare.write_page, compare.pictures, rerun_comparison),
    SWEEP: FolderKind(read_sweep, _no_page, sweep_figures.pictures, rerun_sweep),
    ADVICE: FolderKind(read_advice, advise.write_page, advise_figures.pictures, rerun_advice),
}
"""Kinds of folders, by a file that they contain."""


def _kind(folder: Path) -> FolderKind:
    if not folder.is_dir():
        raise InputError("there is no such folder", file=folder, remedy=REMEDY)
    found = next((kind for mark, kind in MARKED.items() if (folder / mark).exists()), None)
    if found is None:
        raise InputError("contains no finished run", file=folder, remedy=REMEDY)
    return found


def rerun_of(folder: Path) -> Callable[[Path, Path | None, Engine, Progress], Rerun]:
    """Return what plays a folder of this kind again."""
    return _kind(folder).rerun


def write_page(folder: Path) -> Path:
    """Write the HTML report of a finished folder again, and return its path."""
    kind = _kind(folder)
    return kind.write_page(kind.read(folder), folder)


def write_figures(folder: Path, *, form: str = "svg", width: str = "page") -> list[Path]:
    """Write every figure of a finished folder into its ``figures/``, and return the files."""
    check(form, width)
    written = []
    for picture in pictures_of(folder):
        path = folder / "figures" / f"{picture.name}.{form}"
        with located_os_errors(path):
            path.parent.mkdir(exist_ok=True)
        save(picture.chart, path, width=width, overwrite=True)
        written.append(path)
    return written


def pictures_of(folder: Path) -> list[Figure]:
    """Return the figures of a folder's report."""
    kind = _kind(folder)
    found = list(kind.pictures(kind.read(folder)))
    if not found:
        raise InputError(
            "has no finished run of a figure yet", file=folder, remedy="let `poolscope reproduce` end first"
        )
    return found
