"""Texts of CSV that a spreadsheet would run as formulas: written behind an apostrophe, and read without it.

A text that begins with ``=``, ``+``, ``-``, ``@``, a tab or a line break gets an apostrophe in front. So does one that
begins with apostrophes before such a sign, so that reading gives every text back as it was.

References
----------
OWASP, CSV Injection.
"""

from __future__ import annotations

import re
from collections.abc import Collection

import polars as pl

_SIGNS = r"[=+\-@\t\r\n]"

#: What is written behind an apostrophe, and what is read without its first one.
FORMULA, ESCAPED = rf"^'*{_SIGNS}", rf"^'+{_SIGNS}"


def escape(text: str) -> str:
    """One text as CSV has it."""
    return f"'{text}" if re.match(FORMULA, text) else text


def escaped(frame: pl.DataFrame, besides: Collection[str] = ()) -> pl.DataFrame:
    """A table with its texts as CSV has them, `besides` some columns."""
    names = [name for name, kind in frame.schema.items() if kind == pl.String and name not in besides]
    formula = pl.col(names).str.contains(FORMULA)
    return frame.with_columns(pl.when(formula).then("'" + pl.col(names)).otherwise(pl.col(names)).name.keep())


def unescaped(texts: pl.Series) -> pl.Series:
    """Texts of CSV as they were before they were escaped."""
    found = texts.str.contains(ESCAPED)
    return texts if not found.any() else texts.zip_with(~found.fill_null(False), texts.str.slice(1))


def read_back(text: pl.Expr) -> pl.Expr:
    """The same of a column that is read lazily."""
    return pl.when(text.str.contains(ESCAPED)).then(text.str.slice(1)).otherwise(text).name.keep()
