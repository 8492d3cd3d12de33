"""The terminal: names from files are shown and never obeyed, and tables never cut digits.

Where columns do not fit side by side, they are stacked in several tables.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.box import HEAVY_HEAD, Box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from poolscope.core.errors import visible

#: Columns of a file, which has no edge.
WIDEST = 10_000


class Terminal(Console):
    """A console on which square brackets are brackets and control characters are shown, as ``[U+001B]``.

    Names of pools, objects and adversaries come from files of strangers, and a terminal obeys what follows an escape.
    A file or a pipe is as wide as what goes into it.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, **options)
        if not self.is_terminal and "width" not in options and "COLUMNS" not in os.environ:
            self.width = WIDEST

    def render_str(self, text: str, **options: Any) -> Text:
        """Text of a string, nothing of which is obeyed."""
        return super().render_str(visible(text, besides="\n"), **options)

    def say(self, text: str) -> None:
        """Sentences, broken between words, but not between a number and its percent sign."""
        lines = textwrap.wrap(text.replace(" %", "\0%"), self.width, break_long_words=False, break_on_hyphens=False)
        self.print("\n".join(lines).replace("\0", " "), highlight=False, soft_wrap=True)

    def note(self, text: str) -> None:
        """What a command closes with: a dim line that is never broken, so that the path in it can be copied."""
        self.print(text, style="dim", highlight=False, soft_wrap=True)


Cell = str | Text


@dataclass(kw_only=True)
class Grid:
    """Rows of cells below their heads.

    Parameters
    ----------
    title : what stands above.
    heads : of the columns.
    keys : how many columns tell what a row is about: they stand in every part, at the left. The first one is text.
    left : other columns that are text.
    box : lines between cells; none where absent.
    """

    title: str
    heads: Sequence[str]
    keys: int = 2
    left: Sequence[str] = ()
    box: Box | None = HEAVY_HEAD
    rows: list[Sequence[Cell] | None] = field(default_factory=list)

    def add(self, *cells: Cell) -> None:
        """One more row."""
        self.rows.append(cells)

    def section(self) -> None:
        """What follows is about something else."""
        self.rows.append(None)

    def print(self, console: Terminal) -> None:
        """The whole grid, or parts of it that are as narrow as the console, one below the other."""
        rest = list(range(self.keys, len(self.heads)))
        title = self.title
        while rest or title:
            many = len(rest)
            while many > 1 and not self._fits(console, rest[:many]):
                many -= 1
            console.print(self._table(title, rest[:many]))
            rest, title = rest[many:], ""

    def _fits(self, console: Terminal, columns: Sequence[int]) -> bool:
        table = self._table("", columns)
        return console.measure(table, options=console.options.update(width=10_000)).maximum <= console.width

    def _table(self, title: str, columns: Sequence[int]) -> Table:
        table = Table(title=title or None, title_justify="left", box=self.box)
        if self.box is None:
            table.pad_edge, table.padding = False, (0, 1, 0, 0)
        shown = [*range(self.keys), *columns]
        for i in shown:
            text = i == 0 or self.heads[i] in self.left
            # names are folded where nothing else helps, numbers never
            table.add_column(
                self.heads[i],
                justify="left" if text else "right",
                no_wrap=not text,
                overflow="fold",
            )
        for row in self.rows:
            if row is not None:
                table.add_row(*(row[i] for i in shown))
            elif self.box:
                table.add_section()
            else:
                table.add_row()
        return table
