"""The pictures of a finished folder, each as a file for a paper."""

from __future__ import annotations

from pathlib import Path

from poolscope.base.engines import Local
from poolscope.base.errors import InputError
from poolscope.base.folders import told
from poolscope.pages import audit_pictures, reproduction_pictures
from poolscope.pages.charts import Shown
from poolscope.pages.saving import check, save
from poolscope.verbs.audit.folder import read_run
from poolscope.verbs.reproduce.runner import finished


def write_figures(folder: Path, *, form: str = "svg", width: str = "page") -> list[Path]:
    """Write every picture of a run's or a reproduction's folder into its ``figures/``; returns the files."""
    check(form, width)
    written = []
    for picture in pictures_of(folder):
        path = folder / "figures" / f"{picture.name}.{form}"
        with told(path):
            path.parent.mkdir(exist_ok=True)
        save(picture.chart, path, width=width)
        written.append(path)
    return written


def pictures_of(folder: Path) -> list[Shown]:
    """What the folder's page shows."""
    if not (folder / "plays").is_dir():
        return list(audit_pictures.pictures(read_run(folder)))
    found = reproduction_pictures.pictures(finished(folder, Local().map))
    if not found:
        raise InputError("has no figure's plays yet", file=folder, remedy="let `poolscope reproduce` end first")
    return found
