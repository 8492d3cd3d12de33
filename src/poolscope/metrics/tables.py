"""Convert records to tables: text, a data frame, LaTeX for a paper, HTML for a notebook."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import fields
from math import isinf, isnan
from types import GenericAlias
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import polars as pl
from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from poolscope.core.errors import InputError, did_you_mean
from poolscope.inference.thresholds import in_percent
from poolscope.metrics.intervals import Estimate

if TYPE_CHECKING:
    import pandas as pd

    from poolscope.metrics.records import Record

Kind = TypeVar("Kind", bound="Record", covariant=True)

CHOSEN = (
    "mechanism",
    "epsilon",
    "adversary",
    "collection",
    "n",
    "auc_pn",
    "precision",
    "precision_top10",
    "exposed",
    "mse",
)
"""Fields that a table has unless others are asked for; those of a comparison only where the records have them.

Without a threshold that was asked for, `exposed_90` takes the place of `exposed`.
"""

TEXTS = ("adversary", "mechanism", "collection")
"""Fields that are names."""

HEADINGS = {
    "adversary": "Adversary",
    "collection": "Collection",
    "mechanism": "Mechanism",
    "epsilon": "ε",
    "users": "Users",
    "auc_pn": "AUC-PN",
    "precision": "Precision",
    "precision_top1": "Top 1%",
    "precision_top5": "Top 5%",
    "precision_top10": "Top 10%",
    "precision_top20": "Top 20%",
    "success_bound": "Bound",
    "confident_90": "Confidence ≥ 90%",
    "exposed_90": "Exposed (≥ 90%)",
    "mse": "MSE",
}
"""Column headers, where the field's name is not enough."""

AT_THRESHOLD = {
    "confident_at_threshold": "Confidence ≥ {}",
    "exposed": "Exposed (≥ {})",
    "precision_at_threshold": "Precision at ≥ {}",
}
"""Column headers of fields about the requested threshold."""

_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "ε": r"$\varepsilon$",
    "∞": r"$\infty$",
    "≥": r"$\geq$",
    "−": "$-$",
    **{sign: f"\\{sign}" for sign in "&%$#_"},
}


class Records(tuple[Kind, ...]):
    """The records of a run or a comparison: a tuple that prints as a table, and converts to other formats.

    Examples
    --------
    >>> records = ps.summarize(outcomes, game, seed=1)
    >>> print(ps.metrics.Records(records[:1]))
    Adversary   n               AUC-PN            Precision              Top 10%      Exposed (≥ 90%)
    strong     10  0.760 (0.682–0.828)  0.625 (0.554–0.692)  0.900 (0.668–0.996)  0.035 (0.014–0.071)
    >>> len(records.filter(adversary="strong"))
    2
    >>> records.to_polars().select("adversary", "n").rows()
    [('strong', 10), ('strong', 40), ('non-private', 10), ('non-private', 40)]
    >>> print(records.to_latex(["adversary", "n", "auc_pn"], digits=2))
    \\begin{tabular}{lrr}
    \\toprule
    Adversary & $n$ & AUC-PN \\\\
    \\midrule
    strong & 10 & 0.76 [0.68, 0.83] \\\\
    strong & 40 & 0.89 [0.84, 0.93] \\\\
    non-private & 10 & 0.92 [0.87, 0.95] \\\\
    non-private & 40 & 0.98 [0.95, 1.00] \\\\
    \\bottomrule
    \\end{tabular}
    """

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Read and write a list of records."""
        (kind,) = get_args(source)
        records = handler.generate_schema(GenericAlias(tuple, (kind, ...)))
        return core_schema.no_info_after_validator_function(cls, records)

    def filter(self, **wanted: Any) -> Records[Kind]:
        """Return the records whose fields have these values, as ``records.filter(adversary="strong", n=30)``."""
        known = [entry.name for entry in fields(self[0])] if self else []
        for name in wanted:
            if self and name not in known:
                raise InputError("must be a field of a record", value=name, remedy=did_you_mean(name, known))
        return Records(one for one in self if all(getattr(one, name) == value for name, value in wanted.items()))

    def to_polars(self) -> pl.DataFrame:
        """A row for each record, a column for each field; an estimate is three: itself, ``_low`` and ``_high``."""
        return pl.DataFrame([record.flat() for record in self], infer_schema_length=None)

    def to_pandas(self) -> pd.DataFrame:
        """Return the same for pandas (extra ``poolscope[pandas]``)."""
        try:
            import pandas
        except ImportError:
            raise InputError("pandas is not installed", remedy="pip install 'poolscope[pandas]'") from None
        return pandas.DataFrame(self.to_polars().to_dict(as_series=False))

    def to_latex(self, columns: Sequence[str] | None = None, *, digits: int = 3) -> str:
        r"""Return a ``tabular`` with the rules of the package booktabs, estimates with their 95% intervals.

        Parameters
        ----------
        columns : sequence of str, optional
            Fields of the records, in order; who, after how many reports and the main metrics where absent.
        digits : int
            Decimals of a number that is not whole.

        Returns
        -------
        str
            From ``\begin{tabular}`` to ``\end{tabular}``, with no caption and no float around it.
        """
        names = self._names(columns)
        aligned = "".join("l" if name in TEXTS else "r" for name in names)
        rows = [[_latex(cell) for cell in row] for row in self._cells(names, digits, " [{}, {}]")]
        head = ["$n$" if name == "n" else _latex(self._heading(name)) for name in names]
        lines = [f"{' & '.join(row)} \\\\" for row in [head, *rows]]
        begin, end = f"\\begin{{tabular}}{{{aligned}}}", "\\end{tabular}"
        return "\n".join([begin, r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule", end, ""])

    def to_html(self, columns: Sequence[str] | None = None, *, digits: int = 3) -> str:
        """Return the same as an HTML table, names escaped."""
        names = self._names(columns)
        head = "".join(f"<th>{html.escape(self._heading(name))}</th>" for name in names)
        cells = self._cells(names, digits, " ({} to {})")
        rows = ["".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in cells]
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def _repr_html_(self) -> str:
        return self.to_html()

    def __str__(self) -> str:
        """Return the records as an aligned text table, which `print` shows."""
        if not self:
            return "no records"
        names = self._names(None)
        rows = [[self._heading(name) for name in names], *self._cells(names, 3, " ({}–{})")]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        left = [name in TEXTS for name in names]
        lines = (
            "  ".join(
                cell.ljust(width) if text else cell.rjust(width)
                for cell, width, text in zip(row, widths, left, strict=True)
            )
            for row in rows
        )
        return "\n".join(line.rstrip() for line in lines)

    def _names(self, columns: Sequence[str] | None) -> list[str]:
        if not self:
            raise InputError("there must be at least one record")
        known = [entry.name for entry in fields(self[0])]
        if columns is None:
            usual = "exposed_90" if self[0].exposed is None else "exposed"
            single = self[0].collection is None
            names = [name for name in CHOSEN if name in known and not (single and name == "collection")]
            return [usual if name == "exposed" else name for name in names]
        for name in columns:
            if name not in known:
                raise InputError(
                    "must be a field of a record", value=name, place="columns", remedy=did_you_mean(name, known)
                )
        return list(columns)

    def _heading(self, name: str) -> str:
        """Return what a column is called; where a field is about the asked threshold, with it."""
        threshold = self[0].threshold
        if threshold is None or name not in AT_THRESHOLD:
            return HEADINGS.get(name, name)
        return AT_THRESHOLD[name].format(in_percent(threshold))

    def _cells(self, names: Sequence[str], digits: int, interval: str) -> list[list[str]]:
        return [[_cell(getattr(record, name), digits, interval) for name in names] for record in self]


def _cell(value: Any, digits: int, interval: str) -> str:
    """Return a field in words; an estimate has its interval behind it."""
    if isinstance(value, Estimate):
        middle, low, high = (_number(part, digits) for part in value)
        return middle + interval.format(low, high)
    if isinstance(value, float):
        return f"{value:g}" if value.is_integer() else _number(value, digits)
    return "–" if value is None else str(value)


def _number(value: float, digits: int) -> str:
    if isnan(value):
        return "–"
    if isinf(value):
        return "∞" if value > 0 else "−∞"
    if value.is_integer() and abs(value) > 1:
        return f"{value:.0f}"
    # as many decimals, unless nothing would be left of it
    return f"{value:.{digits}f}" if value == 0 or abs(value) >= 10**-digits else f"{value:.{digits}g}"


def _latex(text: str) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in text)
