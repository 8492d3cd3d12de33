"""Rewrite the tables of results/reproduction.md from a finished run: ``python docs/make_reproduction.py DIR``.

DIR is the folder of ``poolscope reproduce``. Each heading that names an experiment in backticks is followed by its
table; words between the tables stay as they are. Prints which published values do not agree.
"""

import re
import sys
from pathlib import Path

from poolscope.html.tables import rounded
from poolscope.paper.experiments import published
from poolscope.paper.report import mark
from poolscope.paper.runner import Compared, read_reproduction

PAGE = Path(__file__).parent / "results" / "reproduction.md"

TABLE = re.compile(r"(?P<head>^### .*\(`(?P<name>[\w-]+)`\)\n\n)(?P<rows>(?:\|.*\n)+)", re.MULTILINE)


def main(folder: Path) -> None:
    """Rewrite the page."""
    cells = read_reproduction(folder).cells

    def table(found: re.Match[str]) -> str:
        own = [cell for cell in cells if cell.experiment == found["name"]]
        return found["head"] + _table(own) if own else found[0]

    PAGE.write_text(TABLE.sub(table, PAGE.read_text()))
    judged = [cell for cell in cells if cell.agrees is not None]
    print(f"{sum(bool(cell.agrees) for cell in judged)} of {len(judged)} published values agree; these do not:")
    for cell in judged:
        if not cell.agrees:
            print(f"  {cell.experiment}, {cell.row}, {cell.column}: {_cell(cell)}")


def _table(cells: list[Compared]) -> str:
    observed = {str(n) for n in published()["observations"]}
    columns, rows = (list(dict.fromkeys(getattr(cell, name) for cell in cells)) for name in ("column", "row"))
    at = {(cell.row, cell.column): _cell(cell) for cell in cells}
    heads = [f"n = {column}" if column in observed else column for column in columns]
    body = [[row, *(at.get((row, column), "") for column in columns)] for row in rows]
    head, *lines = (f"| {' | '.join(line)} |" for line in (["", *heads], *body))
    return "\n".join([head.replace("|  |", "| |", 1), "|" + "---|" * (len(columns) + 1), *lines]) + "\n"


def _cell(cell: Compared) -> str:
    if cell.ours is None:
        return ""
    text = f"**{rounded(cell.ours)}** ({rounded(cell.low)} to {rounded(cell.high)})"
    text += "" if cell.published is None else f" / {rounded(cell.published)}"
    return text + (" **differs**" if mark(cell) == "differs" else "")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
