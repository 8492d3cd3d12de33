"""The report of a finished run: one HTML file that needs nothing else, and its figures."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from poolscope.base.tables.atomic import write_text
from poolscope.pages.audit_page import render
from poolscope.pages.audit_pictures import draw
from poolscope.verbs.audit.folder import read_run

__all__ = ["write_report"]


def write_report(folder: str | PathLike[str]) -> Path:
    """Write ``report.html`` and ``figures/*.svg`` of a run into its folder.

    Each figure is written twice: ``NAME.svg`` with its panels side by side, and
    ``NAME-column.svg`` for one column of a paper.

    Parameters
    ----------
    folder : path
        Holds ``summary.json`` and ``outcomes/*.parquet``.

    Returns
    -------
    Path
        The report.

    Raises
    ------
    InputError
        The folder or what it must hold is missing or malformed; nothing is written.
    """
    folder = Path(folder)
    run = read_run(folder)
    drawings = list(draw(run))
    page = render(run.summary, drawings)
    (folder / "figures").mkdir(exist_ok=True)
    for drawing in drawings:
        write_text(folder / "figures" / f"{drawing.name}.svg", drawing.wide)
        write_text(folder / "figures" / f"{drawing.name}-column.svg", drawing.narrow)
    report = folder / "report.html"
    write_text(report, page)
    return report
