"""Records as tables: data frames, LaTeX, HTML."""

import math
import sys

import pytest
from cases.records import choice, record

from poolscope.core.errors import InputError
from poolscope.metrics.tables import Records

TWO = Records([record(n=7, auc_pn=(0.5, 0.25)), record("a_b & <c>", n=30, success_bound=math.inf)])


def test_a_frame_has_every_field_as_a_column_and_keeps_numbers():
    frame = TWO.to_polars()
    assert frame.columns == list(TWO[0].as_json())
    assert frame.row(0, named=True) == TWO[0].as_json()
    assert frame["success_bound"].to_list() == [0.1, math.inf]
    assert frame["auc_pn_low"].to_list() == [0.25, 0.29]


def test_pandas_gets_the_same_frame():
    pandas = pytest.importorskip("pandas")
    frame = TWO.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert frame.to_dict("list") == TWO.to_polars().to_dict(as_series=False)


def test_without_pandas_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match=r"pandas is not installed.*poolscope\[pandas\]"):
        TWO.to_pandas()


def test_latex_has_intervals_rules_and_escapes_names():
    lines = TWO.to_latex(["adversary", "n", "auc_pn", "success_bound"], digits=2).splitlines()
    assert lines == [
        r"\begin{tabular}{lrrr}",
        r"\toprule",
        r"Adversary & $n$ & AUC-PN & Bound \\",
        r"\midrule",
        r"strong & 7 & 0.50 [0.25, 0.50] & 0.10 \\",
        r"a\_b \& <c> & 30 & 0.30 [0.29, 0.30] & $\infty$ \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_whole_numbers_and_unknown_ones_have_no_decimals():
    few = Records([record(auc_pn=(math.nan, 0.0), success_bound=30.0), record(auc_pn=(1.0, -2.0))])
    first, second = few.to_latex(["auc_pn", "success_bound"], digits=2).splitlines()[4:6]
    assert first == r"– [0.00, –] & 30 \\"
    assert second == r"1.00 [-2, 1.00] & 0.10 \\"


def test_a_comparison_shows_its_choices_first():
    few = Records([choice(mse=0.00001234, epsilon=4.0), choice(mse=None, epsilon=math.inf)])
    first, second = few.to_latex().splitlines()[4:6]
    assert first.startswith("grr & 4 & strong & 90 & 0.300 [0.290, 0.300]")
    assert first.endswith(r"& 1.23e-05 \\")
    assert second.startswith(r"grr & $\infty$ &")
    assert second.endswith(r"& – \\")


def test_a_notebook_gets_a_table_with_names_escaped():
    shown = TWO._repr_html_()
    assert shown.startswith("<table>")
    assert "a_b &amp; &lt;c&gt;" in shown
    assert "0.500 (0.250 to 0.500)" in shown


def test_an_unknown_column_is_an_error_that_knows_better():
    with pytest.raises(InputError, match=r"columns: must be a field of a record.*'aux'.*auc_pn"):
        TWO.to_latex(["aux"])
    with pytest.raises(InputError, match=r"must be a field of a record, got 'adversry'; did you mean 'adversary'\?"):
        TWO.filter(adversry="strong")
    assert Records([]).filter(adversry="strong") == ()
    with pytest.raises(InputError, match="at least one record"):
        Records([]).to_latex()


def test_records_print_as_a_table():
    records = Records([record("weak", 7), record("strong", 180, auc_pn=(0.9, 0.8))])
    lines = str(records).splitlines()
    assert len(lines) == 3
    assert lines[0].split()[:3] == ["Adversary", "n", "AUC-PN"]
    assert lines[2].split()[:4] == ["strong", "180", "0.900", "(0.800–0.900)"]
    assert lines[1].index("(0.290") == lines[2].index("(0.800"), "columns are aligned"
    assert str(Records([])) == "no records"
