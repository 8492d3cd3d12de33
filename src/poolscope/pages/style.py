"""How all figures look: style, colours, panels, legends, and SVG that is the same every time.

Text and lines are dark on nothing: the page shows through. Quantities with an order (the
observation count n, the thresholds of exposure, precision) run from light to dark, so lightness
alone tells them apart, in any colour blindness and on a grey printer.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from itertools import cycle, islice
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.colors import ListedColormap, to_hex
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from poolscope.base.errors import one_line
from poolscope.game.columns import NON_PRIVATE

COLUMN, PAGE = 3.3, 7.2
"""Widths in inches of a figure one panel wide and of a wider one."""

INK, MUTED, FAINT = "#24292f", "#6e7781", "#d8dee4"
"""Colours of text, of axes and references, of grids and of what is absent."""

EXPOSURE_COLOURS = ("#e3a02f", "#c8553d", "#5b2a56")
"""From the lowest threshold to the highest."""

POOL_COLOURS = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#cc79a7",
    "#56b4e9",
    "#d55e00",
    "#8f7b00",
)
"""For what has no order; after Okabe and Ito."""

PRECISION_MAP = "YlGnBu"

# Any: the keys that matplotlib's type names change with its version.
STYLE: Any = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Helvetica Neue", "Arial", "sans-serif"],
    "font.size": 8,
    "text.color": INK,
    # Names come from the user: a dollar sign in one is no formula.
    "text.parse_math": False,
    "axes.titlesize": 8.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 8,
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "axes.linewidth": 0.6,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.5,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    # Text stays text: it can be searched, and a page can give it its own font.
    "svg.fonttype": "none",
    # Without a salt the ids, and so the bytes, differ from run to run.
    "svg.hashsalt": "poolscope",
}

PERCENT = FuncFormatter(lambda share, _: f"{100 * share:.0f} %")

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
POWERS_OF_TEN = FuncFormatter(lambda x, _: "10" + f"{np.log10(x):.0f}".translate(_SUPERSCRIPTS))
"""Labels of a logarithmic axis, without the formulas that the style turns off."""

REFERENCE: dict[str, Any] = {"color": MUTED, "linewidth": 0.9, "linestyle": (0, (3, 2))}
"""Lines to compare with: the baseline, the diagonal."""

_DASHED = (0, (5, 1.4))
_FAMILIAR: dict[str, Any] = {"weak": _DASHED, "strong": "solid", NON_PRIVATE: "solid"}
_OTHERS: tuple[Any, ...] = ((0, (5, 1.4, 1, 1.4)), (0, (1, 1)), (0, (3, 1.4, 1, 1.4, 1, 1.4)))


def precision_map() -> ListedColormap:
    """Twenty steps from the lightest colour to the darkest."""
    return ListedColormap(mpl.colormaps[PRECISION_MAP](np.linspace(0.02, 1, 20)))


def colours_of(observations: Sequence[int]) -> dict[int, str]:
    """A colour for each observation count, the largest the darkest."""
    counts = sorted(observations)
    # Lighter than 0.42 a thin line is lost on white; a single count is dark.
    shades = np.linspace(0.42, 1, len(counts)) if len(counts) > 1 else [0.85]
    shaded = mpl.colormaps[PRECISION_MAP](shades)
    return {n: to_hex(colour) for n, colour in zip(counts, shaded, strict=True)}


def dashes_of(adversaries: Sequence[str]) -> dict[str, Any]:
    """A line style for each adversary: its own for a familiar one, the next for any other."""
    others = cycle(_OTHERS)
    return {name: _FAMILIAR.get(name) or next(others) for name in adversaries}


def colours_of_pools(count: int) -> list[str]:
    """Colours for unordered pools, used again from the start when they run out."""
    return list(islice(cycle(POOL_COLOURS), count))


def panels(
    titles: Sequence[str], columns: int, height: float, x: str, y: str, **axes: Any
) -> tuple[Figure, list[Axes]]:
    """A figure with a panel for each title.

    Parameters
    ----------
    titles : sequence of str
    columns : int
        Panels to a row.
    height : float
        Inches of a row.
    x, y : str
        Labels of the axes; that of y only left of a row.
    **axes
        For ``Figure.subplots``.
    """
    columns = min(columns, len(titles))
    rows = -(-len(titles) // columns)
    width = COLUMN if columns == 1 else PAGE
    figure = Figure(figsize=(width, height * rows + 0.35), layout="constrained")
    # Room for the last tick label of a panel beside the first of the next.
    figure.get_layout_engine().set(w_pad=0.07, h_pad=0.06)  # type: ignore[union-attr,call-arg]
    grid = figure.subplots(rows, columns, squeeze=False, **axes).ravel()
    for axis in grid[len(titles) :]:
        axis.remove()
    used = list(grid[: len(titles)])
    for axis, title in zip(used, titles, strict=True):
        axis.set_title(one_line(title))
        axis.set_xlabel(x)
    for axis in used[::columns]:
        axis.set_ylabel(y)
    return figure, used


def percent_axes(axis: Axes, *, x: bool, y: bool) -> None:
    """Shares from 0 to 100 % on the named axes."""
    if x:
        axis.set_xlim(0, 1)
        axis.xaxis.set_major_formatter(PERCENT)
    if y:
        axis.set_ylim(0, 1.02)
        axis.set_yticks(np.linspace(0, 1, 6))
        axis.yaxis.set_major_formatter(PERCENT)


def legend_above(figure: Figure, handles: Sequence[Artist]) -> None:
    """One legend for all panels, above them, in as many columns as fit."""
    figure.legend(
        handles=handles,
        loc="outside upper left",
        ncols=_fitting_columns([str(h.get_label()) for h in handles], figure.get_figwidth()),
        handlelength=1.6,
        columnspacing=1.4,
        handletextpad=0.5,
        borderaxespad=0.2,
    )


def _fitting_columns(labels: Sequence[str], width: float) -> int:
    """Most legend columns that fit into so many inches."""
    per_letter, per_entry = 0.066, 0.4
    for columns in range(len(labels), 1, -1):
        # Filled as matplotlib does it: column by column, the first ones longer by one.
        filled = np.array_split([len(label) for label in labels], columns)
        if sum(per_letter * letters.max() + per_entry for letters in filled) <= width:
            return columns
    return 1


def to_svg(figure: Figure) -> str:
    """The figure as SVG: the same figure always gives the same bytes."""
    buffer = io.StringIO()
    with mpl.rc_context(STYLE), warnings.catch_warnings():
        # The reader's fonts will show a letter which ours only had to measure.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        FigureCanvasSVG(figure).print_svg(buffer, metadata={"Date": None, "Creator": None})  # type: ignore[no-untyped-call]
    return buffer.getvalue()
