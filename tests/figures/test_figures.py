"""Figures: what they show, that they are legal Vega-Lite and the same every time, and that names stay names."""

import inspect
import pickle
import sys
import typing
from typing import Any

import altair as alt
import numpy as np
import polars as pl
import pytest
from cases.synthetic import POOLS, SEED, attack, game

from poolscope import figures, metrics
from poolscope.core.counting import MIN_USERS
from poolscope.core.errors import InputError
from poolscope.figures import (
    behavior_density,
    behavior_maps,
    belief_growth,
    calibration_plot,
    charts,
    exposure_curves,
    notebook,
    popularity_plot,
    precision_null_rate,
    saving,
    style,
    trade_off_curves,
)
from poolscope.figures.saving import fit, specification

HOSTILE = "<script>alert('$x$')</script>"

#: What a Vega expression, a field's path or a link would look like.
TEMPTING = ("datum.secret", "a.b[0]", "{signal: 1}", "javascript:alert(1)", "\u202enoitcerid", 'quote"\\d')

KINDS = ("precision", "calibration", "maps", "exposure", "popularity", "density", "marked", "belief", "trade-off")


def curves(outcomes):
    return metrics.for_each_attack(outcomes, lambda r: metrics.precision_curve(r, SEED, 50))


def exposures(outcomes):
    return pl.concat(
        metrics.exposure(metrics.select(outcomes, name, 7), 90).with_columns(pl.lit(name).alias("adversary"))
        for name in outcomes["adversary"].unique(maintain_order=True)
    )


def trade_offs(*counts):
    return pl.concat(metrics.trade_off(1.0, n).table().with_columns(n=pl.lit(n)) for n in counts)


def calibrations(outcomes):
    return metrics.for_each_attack(outcomes, metrics.calibration)


def maps(outcomes):
    return metrics.for_each_attack(outcomes, lambda rows: metrics.behavior_map(rows, 6))


def titles(chart):
    return chart.to_dict()["facet"]["sort"]


def legend(chart):
    """The words of the legend, which every layer with a legend shares."""
    layers = chart.to_dict()["spec"]["layer"]
    return next(layer["encoding"]["stroke"]["scale"]["domain"] for layer in layers if "stroke" in layer["encoding"])


@pytest.fixture(scope="module")
def outcomes():
    return game(400)


def figures_of(outcomes, table):
    """Functions that draw every figure from what `table` makes of a function and of outcomes."""
    return {
        "precision": lambda: precision_null_rate(table(curves, outcomes), 6),
        "marked": lambda: exposure_curves(table(exposures, outcomes), n=30),
        "belief": lambda: belief_growth(
            pl.DataFrame({"n": [0, 0, 1, 1], "line": ["a", "b"] * 2, "posterior": [0.5, 0.5, 0.9, 0.1]}), ["a", "b"]
        ),
        "calibration": lambda: calibration_plot(table(calibrations, outcomes)),
        "maps": lambda: behavior_maps(maps(attack(400)), 6),
        "exposure": lambda: exposure_curves(table(exposures, outcomes)),
        "popularity": lambda: popularity_plot(np.arange(12) / 66, np.arange(12) % 7 - 1, POOLS),
        "density": lambda: behavior_density(metrics.select(outcomes, "strong", 7)),
        "trade-off": lambda: trade_off_curves(trade_offs(1, 7)),
    }


@pytest.fixture(scope="module")
def every_figure(outcomes):
    """Every figure, drawn from tables that are computed once."""
    computed = {}

    def table(function, rows):
        if function not in computed:
            computed[function] = function(rows)
        return computed[function]

    return figures_of(outcomes, table)


@pytest.mark.default_cases("belief", "density", "popularity", "precision")
@pytest.mark.parametrize("name", KINDS)
def test_a_figure_is_legal_vega_lite(every_figure, name):
    """Ours are not held against the schema as they are made, for the time it takes: here they are."""
    chart = every_figure[name]()
    assert isinstance(chart, alt.TopLevelMixin)
    chart.to_dict(validate=True)
    alt.Chart.from_dict(specification(chart))


@pytest.mark.parametrize("name", KINDS)
def test_a_chart_is_the_figure_of_a_report(every_figure, monkeypatch, name):
    """The charts of Altair lose and add nothing, changed or not."""
    chart = every_figure[name]()
    monkeypatch.setattr(notebook, "chart_of", lambda picture: picture)
    own = every_figure[name]()
    assert isinstance(own, dict)
    assert specification(chart) == specification(own)
    titled = specification(chart.properties(title="Mine").resolve_scale(x="shared"))
    assert titled.pop("title") == "Mine"
    assert {**titled, "resolve": 0} == {**specification(own), "resolve": 0}


def test_charts_are_changed_as_altair_changes_them(every_figure, tmp_path):
    for name in ("exposure", "belief"):
        chart = every_figure[name]()
        for other in (
            chart.properties(title="Mine"),
            chart.transform_filter("true"),
            chart.add_params(alt.param(name="mine", value=1)),
            chart.interactive(),
        ):
            assert type(other) is type(chart)
            other.to_dict(validate=True)
            assert specification(other) != specification(chart)
        figures.save(chart.properties(title="Mine"), tmp_path / f"{name}.svg")
        assert ">Mine<" in (tmp_path / f"{name}.svg").read_text("utf-8")
        layer = (chart.layer if "layer" in chart.to_dict() else chart.spec.layer)[0]
        layer.mark.strokeWidth = 7
        layer.encoding.x["axis"].title = "Mine too"
        shown = specification(chart)
        drawn = shown.get("spec", shown)["layer"][0]
        assert (drawn["mark"]["strokeWidth"], drawn["encoding"]["x"]["axis"]["title"]) == (7, "Mine too")
    with pytest.raises(InputError, match="must be a picture"):
        figures.save(alt.Chart().mark_point(), tmp_path / "own.svg")


def test_a_layer_of_a_user_keeps_its_table(every_figure, tmp_path):
    own = alt.Chart(pl.DataFrame({"x": [0.5]})).mark_rule(color="#123456").encode(x="x:Q")
    bare = alt.Chart(pl.DataFrame({"y": [1.0]})).mark_point(color="#654321")
    for chart in (every_figure["trade-off"]() + own + bare, every_figure["trade-off"]() + (own + bare)):
        assert [0.5] in [[row.get("x") for row in rows] for rows in specification(chart)["datasets"].values()]
        figures.save(chart, tmp_path / "own.svg", overwrite=True)
        assert "#123456" in (tmp_path / "own.svg").read_text("utf-8")


@pytest.mark.parametrize("name", figures.__all__)
def test_a_figure_is_found_again_and_says_what_it_returns(name):
    """By the processes of an executor, and by whoever reads signatures: the site of the documentation."""
    function = getattr(figures, name)
    assert pickle.loads(pickle.dumps(function)) is function
    returned = {"save": type(None)}.get(name, Any)
    assert typing.get_type_hints(function)["return"] is returned
    assert inspect.signature(function).return_annotation in (returned, str(None), "Any")


@pytest.mark.parametrize(
    "wrong", [pl.DataFrame({"n": [1]}), {"usermeta": None}, {"usermeta": {"panels": 1}}, {}, None, "figure"]
)
def test_what_is_no_figure_is_not_saved(wrong, tmp_path):
    with pytest.raises(InputError, match="must be a picture"):
        figures.save(wrong, tmp_path / "own.svg")


@pytest.mark.parametrize("name", KINDS)
def test_same_figure_same_specification(outcomes, every_figure, name):
    """Whether its table is computed again or not."""
    again = figures_of(outcomes, lambda function, rows: function(rows))
    assert specification(every_figure[name]()) == specification(again[name]())


@pytest.mark.parametrize(("width", "inches"), saving.WIDTHS.items())
def test_a_file_is_as_wide_as_it_should_be(every_figure, width, inches, tmp_path):
    figures.save(every_figure["precision"](), tmp_path / "a.svg", width=width)
    svg = (tmp_path / "a.svg").read_text("utf-8")
    assert saving._width(svg) == pytest.approx(inches * saving.PIXELS, abs=1.5)
    assert "random guess, 1/6" in svg
    again = tmp_path / "b.svg"
    figures.save(every_figure["precision"](), again, width=width)
    assert again.read_text("utf-8") == svg


@pytest.mark.parametrize(("form", "head"), [("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_other_formats(every_figure, form, head, tmp_path):
    figures.save(every_figure["density"](), tmp_path / f"a.{form}", width="column")
    assert (tmp_path / f"a.{form}").read_bytes().startswith(head)


def test_unknown_formats_and_widths_are_told(every_figure, tmp_path):
    with pytest.raises(InputError, match="unknown format, got 'gif'; take one of svg, png, pdf"):
        figures.save(every_figure["density"](), tmp_path / "a.gif")
    with pytest.raises(InputError, match="unknown width, got 'wide'; take one of column, page"):
        figures.save(every_figure["density"](), tmp_path / "a.svg", width="wide")
    assert not list(tmp_path.iterdir())


def test_panels_stand_side_by_side_as_far_as_there_is_room(every_figure):
    for width, columns in ((320, 1), (700, 2), (1000, 3)):
        spec = specification(every_figure["exposure"]())
        fit(spec, width)
        assert spec["columns"] == columns
        assert 0.6 * width < columns * spec["spec"]["width"] < width


def test_precision_has_a_panel_per_private_adversary(every_figure):
    chart = every_figure["precision"]()
    assert titles(chart) == ["weak", "strong"]
    assert legend(chart) == ["n = 7", "n = 30", "n = 90", "non-private", "random guess, 1/6"]
    assert chart.datasets["chance"] == [{"precision": 0.16667, "line": "random guess, 1/6"}]
    assert {row["n"] for row in chart.datasets["behind"]} == {7, 30, 90}
    assert {row["adversary"] for row in chart.datasets["rows"]} == {"weak", "strong"}


def test_only_the_non_private_game_gets_its_own_panel():
    chart = precision_null_rate(curves(attack(100, adversary="non-private")), 6)
    assert titles(chart) == ["non-private"]
    assert "behind" not in chart.datasets


def test_curves_end_before_they_are_noise(every_figure):
    last = max(row["null_rate"] for row in every_figure["precision"]().datasets["rows"])
    assert 0.8 < last <= 1 - MIN_USERS / 400


def test_some_points_of_each_curve_answer_and_both_ends_do(outcomes):
    rows = pl.DataFrame(exposure_curves(exposures(outcomes)).datasets["rows"])
    for (_, _), curve in rows.group_by("adversary", "line", maintain_order=True):
        assert curve.height == 91
        assert curve["tooltip"][0]
        assert curve["tooltip"][-1]
        assert charts.MAX_TOOLTIPS - 1 <= curve["tooltip"].sum() <= charts.MAX_TOOLTIPS + 1


def test_the_axis_of_exposure_shows_where_caps_are_decided(every_figure):
    """The lowest tenth of the share has about a third of the height, and marks of its own."""
    layers = every_figure["exposure"]().to_dict()["spec"]["layer"]
    y = next(layer["encoding"]["y"] for layer in layers if "scale" in layer["encoding"]["y"])
    assert y["scale"]["type"] == "sqrt"
    assert y["axis"]["values"][:4] == [0, 0.01, 0.05, 0.1]
    assert y["axis"]["tickCount"] > len(y["axis"]["values"])


def test_numbers_have_axes_of_numbers_and_every_panel_its_own(every_figure):
    spec = specification(every_figure["exposure"]())
    lines = [one["encoding"] for one in spec["spec"]["layer"] if one["mark"]["type"] == "line"]
    assert [(line["x"]["type"], line["y"]["type"], line["stroke"]["type"]) for line in lines] == [
        ("quantitative", "quantitative", "nominal")
    ]
    # x axes are read below every panel, also where panels stand one below the other
    assert spec["resolve"]["axis"] == {"x": "independent"}


def test_adversary_with_too_few_users_keeps_its_panel():
    table = pl.concat([attack(200), attack(9, adversary="weak")])
    chart = calibration_plot(metrics.for_each_attack(table, metrics.calibration))
    assert titles(chart) == ["strong", "weak"]
    assert {row["adversary"] for row in chart.datasets["rows"]} == {"strong", "weak"}


def test_larger_n_is_darker():
    colors = style.shades_of([180, 7, 30, 90, 1, 2, 3, 4])
    assert list(colors) == sorted(colors)
    lightness = [sum(int(c[i : i + 2], 16) for i in (1, 3, 5)) for c in colors.values()]
    assert lightness == sorted(lightness, reverse=True)
    assert len(set(colors.values())) == 8


def test_map_puts_gamma_across_and_delta_up():
    """One user fills one cell; the others are left to the grey behind."""
    rows = attack(1, observations=(7,)).with_columns(gamma=0.05, delta=0.99)
    chart = behavior_maps(maps(rows), 6)
    (cell,) = chart.datasets["rows"]
    assert (cell["gamma_low"], cell["delta_high"], cell["users"]) == (0, 1, 1)
    spec = chart.to_dict()["spec"]
    assert spec["view"]["fill"] == style.FAINT
    encoding = spec["layer"][0]["encoding"]
    assert [encoding[channel]["field"] for channel in ("x", "y")] == ["gamma_low", "delta_low"]


@pytest.mark.parametrize("name", [HOSTILE, *TEMPTING])
def test_names_are_values_and_no_part_of_the_grammar(name):
    rows = attack(20).with_columns(adversary=pl.lit(name))
    for chart, plain in (
        (precision_null_rate(curves(rows), 6), precision_null_rate(curves(attack(20)), 6)),
        (popularity_plot([0.5, 0.5], [0, 1], [name, "b"]), popularity_plot([0.5, 0.5], [0, 1], ["strong", "b"])),
    ):
        spec, other = specification(chart), specification(plain)
        shown = style.one_line(name)
        assert shown in str(spec).replace("\\\\", "\\") or shown in {r.get("line") for r in spec["datasets"]["rows"]}
        spec.pop("datasets"), other.pop("datasets"), spec.pop("usermeta"), other.pop("usermeta")
        assert _renamed(spec, shown) == _renamed(other, "strong")


def _renamed(spec, name):
    """The specification with the name's places marked, and the names of views left out."""
    if isinstance(spec, dict):
        return {k: _renamed(v, name) for k, v in spec.items() if k not in ("name", "views")}
    if isinstance(spec, list):
        return [_renamed(v, name) for v in spec]
    return "the name" if spec == name else spec


def test_popularity_shows_what_is_popular_at_all():
    chart = popularity_plot([0.6, 0.0, 0.4], [0, 0, -1], ["a", "b"])
    assert [(row["line"], row["popularity"]) for row in chart.datasets["rows"]] == [("a", 0.6), ("neutral", 0.4)]


def test_one_user_is_enough_for_every_figure():
    rows = attack(1, observations=(7,))
    for chart in (
        precision_null_rate(curves(rows), 6),
        calibration_plot(metrics.for_each_attack(rows, metrics.calibration)),
        behavior_maps(maps(rows), 6),
        exposure_curves(exposures(rows)),
        behavior_density(rows),
    ):
        assert specification(chart)["datasets"]["rows"]


def test_files_need_vl_convert_and_say_so(every_figure, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(Exception, match=r"need vl-convert; install it with: pip install 'poolscope\[figures\]'"):
        figures.save(every_figure["density"](), tmp_path / "a.svg")


def test_the_trade_off_has_every_corner_and_few_of_a_long_curve():
    chart = trade_off_curves(trade_offs(2, 10_000)).to_dict()
    rows = chart["datasets"]["rows"]
    short = [(row["fpr"], row["fnr"]) for row in rows if row["line"] == "n = 2"]
    curve = metrics.trade_off(1.0, 2)
    assert np.array(short) == pytest.approx(np.stack([curve.fpr, curve.fnr], axis=1), rel=1e-4)
    long = [row for row in rows if row["line"] == "n = 10,000"]
    assert len(long) <= 200
    assert (long[0]["fnr"], long[-1]["fpr"]) == (1, 1)
