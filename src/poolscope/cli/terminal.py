"""The terminal: names from files are shown on it and never obeyed."""

from __future__ import annotations

import os
import textwrap
from typing import Any

from rich.console import Console
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
