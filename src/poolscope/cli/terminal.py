"""Print to a terminal: control characters are shown, never sent, and tables never truncate digits.

Columns that do not fit side by side are stacked in several tables.
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

#: Width of a file, which has no edge.
UNLIMITED_WIDTH = 10_000


class Terminal(Console):
    """A console without markup that shows control characters, as ``[U+001B]``.

    Names of pools, objects and adversaries come from untrusted files, and a terminal acts on escape sequences. A file
    or a pipe has no width.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, **options)
        if not self.is_terminal and "width" not in options and "COLUMNS" not in os.environ:
            self.width = UNLIMITED_WIDTH

    def render_str(self, text: str, **options: Any) -> Text:
        """Return the text of a string with its control characters made visible."""
        return super().render_str(visible(text, besides="\n"), **options)

    def say(self, text: str) -> None:
        """Print sentences, wrapped between words."""
        lines = textwrap.wrap(text, self.width, break_long_words=False, break_on_hyphens=False)
        self.print("\n".join(lines), highlight=False, soft_wrap=True)

    def say_item(self, name: str, text: str, width: int) -> None:
        """Print a name in bold, and its text in a column of its own."""
        indent = " " * (width + 2)
        lines = textwrap.wrap(text, max(self.width - len(indent), 20), break_long_words=False, break_on_hyphens=False)
        body = f"\n{indent}".join(lines)
        self.print(Text(name.ljust(width + 2), style="bold") + self.render_str(body), highlight=False, soft_wrap=True)

    def note(self, text: str) -> None:
        """Print a dim line that is never wrapped, so that a path in it can be copied."""
        self.print(text, style="dim", highlight=False, soft_wrap=True)


Cell = str | Text


@dataclass(kw_only=True)
class TextTable:
    """A table of text cells.

    Parameters
    ----------
    title : printed above the table.
    heads : column headers.
    keys : number of leading columns that identify a row; they are repeated in every stacked part.
    left : further left-aligned columns.
    box : lines between cells; none where absent.
    """

    title: str
    heads: Sequence[str]
    keys: int = 2
    left: Sequence[str] = ()
    box: Box | None = HEAVY_HEAD
    rows: list[Sequence[Cell] | None] = field(default_factory=list)

    def add(self, *cells: Cell) -> None:
        """Add a row."""
        self.rows.append(cells)

    def section(self) -> None:
        """Separate the rows that follow."""
        self.rows.append(None)

    def print(self, console: Terminal) -> None:
        """Print the table, in stacked parts where the console is too narrow."""
        rest = list(range(self.keys, len(self.heads)))
        title = self.title
        while rest or title:
            count = len(rest)
            while count > 1 and not self._fits(console, rest[:count]):
                count -= 1
            if title:
                # wider than the table, it would be folded into the table's width
                console.print(title, style="italic", highlight=False)
            console.print(self._table(rest[:count]))
            rest, title = rest[count:], ""

    def _fits(self, console: Terminal, columns: Sequence[int]) -> bool:
        table = self._table(columns)
        return console.measure(table, options=console.options.update(width=UNLIMITED_WIDTH)).maximum <= console.width

    def _table(self, columns: Sequence[int]) -> Table:
        table = Table(box=self.box)
        if self.box is None:
            table.pad_edge, table.padding = False, (0, 1, 0, 0)
        shown = [*range(self.keys), *columns]
        for i in shown:
            text = i == 0 or self.heads[i] in self.left
            # names may be folded, numbers never
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
