"""Figures: what they show, that they are the same every time, and that names stay names."""

import subprocess
import sys
from xml.etree import ElementTree as ET

import numpy as np
import polars as pl
import pytest
from cases.synthetic import POOLS, SEED, attack, game

from poolscope import metrics
from poolscope.pages import figures, style
from poolscope.pages.figures import (
    behaviour_density,
    behaviour_maps,
    calibration_plot,
    exposure_curves,
    popularity_plot,
    precision_null_rate,
)

HOSTILE = "<script>alert('$x$')</script>"


def curves(outcomes):
    return metrics.for_each_attack(outcomes, lambda r: metrics.precision_curve(r, SEED, 50))


def exposures(outcomes):
    return pl.concat(
        metrics.exposure(metrics.select(outcomes, name, 7), 90).with_columns(pl.lit(name).alias("adversary"))
        for name in outcomes["adversary"].unique(maintain_order=True)
    )


def maps(outcomes):
    return metrics.for_each_attack(outcomes, lambda rows: metrics.behaviour_map(rows, 6))


def words(figure):
    """All text of the figure as its SVG has it."""
    root = ET.fromstring(style.to_svg(figure))
    return [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]


@pytest.fixture(scope="module")
def outcomes():
    return game(400)


@pytest.fixture(scope="module")
def every_figure(outcomes):
    rows = metrics.select(outcomes, "strong", 7)
    return {
        "precision": lambda columns: precision_null_rate(curves(outcomes), 6, columns=columns),
        "calibration": lambda columns: calibration_plot(
            metrics.for_each_attack(outcomes, metrics.calibration), columns=columns
        ),
        "maps": lambda columns: behaviour_maps(maps(attack(400)), 6, columns=columns),
        "exposure": lambda columns: exposure_curves(exposures(outcomes), columns=columns),
        "popularity": lambda _: popularity_plot(np.arange(12) / 66, np.arange(12) % 7 - 1, POOLS),
        "density": lambda _: behaviour_density(rows),
    }


@pytest.mark.parametrize("name", ["precision", "calibration", "maps", "exposure", "popularity", "density"])
def test_same_figure_same_bytes(every_figure, name, tmp_path):
    for path in (tmp_path / "first.svg", tmp_path / "second.svg"):
        figures.save(every_figure[name](3), path)
    first = (tmp_path / "first.svg").read_bytes()
    assert first == (tmp_path / "second.svg").read_bytes()
    assert b"<dc:date>" not in first


@pytest.mark.parametrize("name", ["precision", "calibration", "maps", "exposure"])
def test_one_column_is_as_wide_as_a_column(every_figure, name):
    columns = 2 if name == "maps" else 1
    assert every_figure[name](columns).get_figwidth() == style.COLUMN
    assert every_figure[name](3).get_figwidth() == style.PAGE


def test_precision_has_a_panel_per_private_adversary(every_figure):
    figure = every_figure["precision"](3)
    weak, strong = figure.axes
    assert [weak.get_title(loc="left"), strong.get_title(loc="left")] == ["weak", "strong"]
    # The baseline, the three curves of the non-private game and the adversary's own three.
    assert [len(axis.lines) for axis in (weak, strong)] == [7, 7]
    assert list(weak.lines[0].get_ydata()) == [1 / 6, 1 / 6]
    assert "random guess, 1/6" in words(figure)


def test_only_the_non_private_game_gets_its_own_panel():
    figure = precision_null_rate(curves(attack(100, adversary="non-private")), 6)
    assert [axis.get_title(loc="left") for axis in figure.axes] == ["non-private"]
    assert len(figure.axes[0].lines) == 4


def test_curves_end_before_they_are_noise(every_figure):
    last = every_figure["precision"](3).axes[0].lines[-1].get_xdata()[0]
    assert 0.8 < last <= 1 - figures.FEWEST / 400


def test_adversary_with_too_few_users_keeps_its_panel():
    table = pl.concat([attack(200), attack(9, adversary="weak")])
    figure = calibration_plot(metrics.for_each_attack(table, metrics.calibration))
    assert [axis.get_title(loc="left") for axis in figure.axes] == ["strong", "weak"]


def test_larger_n_is_darker():
    colours = style.colours_of([180, 7, 30])
    assert list(colours) == [7, 30, 180]
    lightness = [sum(int(c[i : i + 2], 16) for i in (1, 3, 5)) for c in colours.values()]
    assert lightness == sorted(lightness, reverse=True)


def test_adversaries_keep_their_line_style():
    both, one = style.dashes_of(["weak", "strong", "other"]), style.dashes_of(["strong"])
    assert both["strong"] == one["strong"]
    assert len({str(dash) for dash in both.values()}) == 3


def test_maps_say_where_nobody_is():
    full = maps(attack(20_000, observations=(7,)))
    assert "no users" not in words(behaviour_maps(full, 6))
    sparse = maps(attack(40, observations=(7,)))
    assert "no users" in words(behaviour_maps(sparse, 6))


def test_map_puts_gamma_across_and_delta_up():
    rows = attack(1, observations=(7,)).with_columns(gamma=0.05, delta=0.99)
    mesh = behaviour_maps(maps(rows), 6).axes[0].collections[0]
    filled = ~np.ma.getmaskarray(mesh.get_array())
    assert np.argwhere(filled.reshape(10, 10)).tolist() == [[9, 0]]


def test_names_are_shown_as_they_are():
    outcomes = attack(60).with_columns(adversary=pl.lit(HOSTILE))
    assert HOSTILE in words(precision_null_rate(curves(outcomes), 6))
    assert HOSTILE in words(popularity_plot([0.5, 0.5], [0, 1], [HOSTILE, "b"]))


def test_popularity_shows_what_is_popular_at_all():
    figure = popularity_plot([0.6, 0.0, 0.4], [0, 0, -1], ["a", "b"])
    assert [len(line.get_xdata()) for line in figure.axes[0].lines] == [1, 1]
    assert words(figure)[-2:] == ["a", "neutral"]


def test_one_user_is_enough_for_every_figure():
    rows = attack(1, observations=(7,))
    for figure in (
        precision_null_rate(curves(rows), 6),
        calibration_plot(metrics.for_each_attack(rows, metrics.calibration)),
        behaviour_maps(maps(rows), 6),
        exposure_curves(exposures(rows)),
        behaviour_density(rows),
    ):
        assert style.to_svg(figure).rstrip().endswith("</svg>")


def test_needs_no_pyplot():
    check = "import sys, poolscope.pages.figures; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
